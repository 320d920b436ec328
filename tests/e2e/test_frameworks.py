"""Programs of a framework find each other by the variables that the framework reads. These tests do not need the frameworks themselves."""

import json
import re

import pytest

# Does what torch.distributed does first with MASTER_ADDR: rank 0 waits at this address for the other ranks.
MEETS = '''
import os, socket, time
rank, size = int(os.environ[RANK]), int(os.environ[SIZE])
address = ADDRESS
if rank == 0:
    with socket.create_server(address) as server:
        server.settimeout(60)
        ranks = sorted(int(server.accept()[0].makefile().readline()) for _ in range(size - 1))
    print("met", [rank, *ranks])
else:
    for attempt in range(300):
        try:
            with socket.create_connection(address, timeout=10) as peer:
                peer.sendall(f"{rank}\\n".encode())
            break
        except OSError:
            time.sleep(0.2)
    else:
        raise SystemExit("rank 0 cannot be reached")
'''
TORCH = {"RANK": "'RANK'", "SIZE": "'WORLD_SIZE'", "ADDRESS": "(os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))"}
JAX = {"RANK": "'JAX_PROCESS_ID'", "SIZE": "'JAX_NUM_PROCESSES'",
       "ADDRESS": "(os.environ['JAX_COORDINATOR_ADDRESS'].split(':')[0], int(os.environ['JAX_COORDINATOR_ADDRESS'].split(':')[1]))"}


def write_program(folder, text):
    (folder / "code").mkdir()
    (folder / "code" / "main.py").write_text(text)


@pytest.mark.parametrize(("framework", "names"), [("torch", TORCH), ("jax", JAX)], ids=["torch", "jax"])
def test_the_processes_of_a_run_connect_by_the_variables_that_the_framework_reads(embedded, name, experiment, tmp_path, framework, names):
    text = MEETS
    for word, value in names.items():
        text = text.replace(word, value)
    write_program(tmp_path, text)
    file = experiment(f"name: {name}\nmode: allreduce\nframework: {framework}\nimage: python:3\nrun: [python3, main.py]\nworkdir: /code\n"
                      "workers: {count: 3, cpu: 100m, memory: 64Mi}\ndata:\n  - {name: code, mount: /code, files: code}\n")
    run = embedded.mlk("submit", "--wait", file, check=0, timeout=120).stdout.strip()
    assert "met [0, 1, 2]" in embedded.mlk("logs", run, "--role", "worker", "--rank", "0", check=0).stdout


def test_servers_and_workers_are_in_tf_config_as_tensorflow_expects(embedded, name, experiment, tmp_path):
    write_program(tmp_path, "import json, os\nprint(json.dumps(json.loads(os.environ['TF_CONFIG'])))\n")
    file = experiment(f"name: {name}\nmode: ps\nframework: tensorflow\nimage: python:3\nrun: [python3, main.py]\nworkdir: /code\n"
                      "workers: {count: 2, cpu: 100m, memory: 64Mi}\nservers: {count: 1, cpu: 100m, memory: 64Mi}\n"
                      "data:\n  - {name: code, mount: /code, files: code}\n")
    run = embedded.mlk("submit", "--wait", file, check=0, timeout=120).stdout.strip()

    def said(role, rank):
        log = embedded.mlk("logs", run, "--role", role, "--rank", str(rank), check=0).stdout
        return json.loads(log[log.index("{"):])
    found = said("worker", 1)
    assert found["task"] == {"type": "worker", "index": 1}
    assert said("server", 0)["task"] == {"type": "ps", "index": 0}
    addresses = found["cluster"]["worker"] + found["cluster"]["ps"]
    assert len(set(addresses)) == 3
    for address in addresses:
        host, port = address.split(":")
        assert host.startswith("127.")
        assert 1024 < int(port) < 65536


def test_mlk_render_refuses_an_unknown_framework_and_suggests_a_known_framework_with_a_similar_name(embedded, experiment):
    refused = embedded.mlk("render", experiment("name: x\nmode: single\nframework: tourch\nimage: i\nrun: a\n"), check=2)
    assert "there is no framework 'tourch'; did you mean 'torch'?" in refused.stderr


def test_torchrun_starts_an_elastic_program_with_an_agent_in_each_pod(embedded, name, experiment, tmp_path):
    """A pretended torchrun prints its arguments, waits for the other agent as the real torchrun does (the run of an elastic
    program ends with the first pod that succeeds), and starts one process. What the real torchrun does with its processes is not tested here."""
    (tmp_path / "bin").mkdir()
    launcher = tmp_path / "bin" / "torchrun"
    launcher.write_text(f'#!/bin/sh\necho agent "$@"\n: > {tmp_path}/started.$$\nuntil [ $(ls {tmp_path} | grep -c ^started) = 2 ]; do sleep 0.1; done\n'
                        'while [ "$1" != --no-python ]; do shift; done\nshift\nexec "$@"\n')
    launcher.chmod(0o755)
    write_program(tmp_path, "import sys\nprint('program', sys.argv[1:])\n")
    file = experiment(f"name: {name}\nmode: allreduce\nframework: torch\nelastic: true\nimage: python:3\nrun: [python3, main.py, one, two words]\n"
                      f"code: code\nenv: {{PATH: '{tmp_path / 'bin'}:/usr/bin:/bin'}}\n"
                      "workers: {count: 2, min: 1, processes: 2, cpu: 100m, memory: 64Mi}\n")
    run = embedded.mlk("submit", "--wait", file, check=0, timeout=120).stdout.strip()
    hosts = []
    for rank in (0, 1):
        log = embedded.mlk("logs", run, "--role", "worker", "--rank", str(rank), check=0).stdout
        assert "program ['one', 'two words']" in log
        called = log.split("agent ", 1)[1].split("\n")[0]
        assert "--nnodes=1:2 --nproc-per-node=2 " in called
        assert f"--rdzv-id={run} " in called
        assert f"--rdzv-conf=is_host={1 - rank}," in called
        hosts.append((re.search(r"--rdzv-endpoint=(127\.\S+):\d+ ", called).group(1), re.search(r"--local-addr=(127\.\S+) ", called).group(1)))
    assert hosts[0][0] == hosts[1][0] == hosts[0][1]
    assert hosts[1][1] != hosts[0][1]
