"""Connections that die without a sign: a host between mlk and the API server keeps them open and passes no bytes on."""

import contextlib
import os
import re
import signal
import subprocess
import time

import pytest

import mlk
from frozen_proxy import FrozenProxy

pytestmark = [pytest.mark.nodes, pytest.mark.timed, pytest.mark.quiet]

LINES = 320  # the number of lines of each rank; at five lines per second they take a minute
EXPERIMENT = """name: {name}
mode: allreduce
run: 'i=0; while [ $i -lt {lines} ]; do echo line $i; i=$((i+1)); sleep 0.2; done'
workers: {{count: 2, cpu: 50m, memory: 64Mi}}
restart: {{retries: 0}}
"""
SWEEP = """name: {name}
mode: single
image: localhost/mlk-runtime:test
run: 'i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo "step=$i loss=$LR"; sleep 1; done'
env: {{LR: "0.5"}}
workers: {{count: 1, cpu: 50m, memory: 64Mi}}
sweep:
  parameters: {{env.LR: {{uniform: [0.1, 0.9]}}}}
  search: {{tpe: {{trials: 8}}}}
  parallel: 2
  objective: minimize loss
"""


@contextlib.contextmanager
def started(cluster, kubeconfig, *command, stdout=subprocess.DEVNULL, stderr=None):
    process = subprocess.Popen([str(mlk.MLK), "--kubeconfig", kubeconfig, *command], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                               env={**os.environ, **cluster.env})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def numbers(output, rank):
    return [int(number) for number in re.findall(rf"^worker/{rank} line (\d+)$", output, re.MULTILINE)]


def test_mlk_logs_loses_no_line_and_prints_new_lines_within_45_s_if_its_connections_die_without_a_sign(cluster, name, experiment, tmp_path):
    run = cluster.mlk("submit", experiment(EXPERIMENT.format(name=name, lines=LINES)), check=0).stdout.strip()
    printed = tmp_path / "lines"
    with FrozenProxy(cluster.kubeconfig) as proxy, open(printed, "w") as lines, \
         started(cluster, proxy.kubeconfig, "logs", "-f", run, stdout=lines) as following, \
         started(cluster, proxy.kubeconfig, "wait", run) as waiting:
        def seen():
            return len(printed.read_text().splitlines())
        mlk.wait_until(lambda: seen() > 20, "lines to come", timeout=60)
        assert proxy.freeze() >= 2
        time.sleep(1)  # for bytes that have passed already
        before = seen()
        mlk.run(mlk.MLK, "--kubeconfig", proxy.kubeconfig, "ls", name, check=0, timeout=45, env=cluster.env)
        mlk.wait_until(lambda: seen() > before, "lines to come again", timeout=45)
        assert following.wait(timeout=120 * mlk.SLOW) == 0
        assert waiting.wait(timeout=60 * mlk.SLOW) == 0
    output = printed.read_text()
    for rank in range(2):
        assert numbers(output, rank) == list(range(LINES))


def test_a_driver_starts_each_trial_once_and_continues_within_45_s_if_its_connections_die_without_a_sign(cluster, name, experiment):
    def trials():
        return cluster.mlk("ls", "--sweep", name, "-o", "name", check=None).stdout.split()
    with FrozenProxy(cluster.kubeconfig) as proxy, \
         started(cluster, proxy.kubeconfig, "sweep", "--wait", experiment(SWEEP.format(name=name))) as driving:
        mlk.wait_until(lambda: len(trials()) > 2, "trials to run", timeout=60)
        assert proxy.freeze() >= 1
        time.sleep(1)  # for bytes that have passed already
        before = len(trials())
        mlk.wait_until(lambda: len(trials()) > before, "another trial", timeout=45)
        assert driving.wait(timeout=120 * mlk.SLOW) == 0
    rows = cluster.mlk("results", name, "-o", "json", check=0).json()
    assert sorted((row["trial"], row["state"], row["tries"]) for row in rows) == [(number, "Succeeded", 1) for number in range(8)]
    assert len(trials()) == 8


@pytest.mark.parametrize(("command", "text", "hint"), [
    (["submit", "--wait", "--set", "image=localhost/mlk-runtime:test"], EXPERIMENT.replace("{lines}", str(LINES)), "hint: come back with: mlk wait .*{name}"),
    (["sweep", "--wait"], SWEEP, "hint: running trials continue; type the same command again to start the others")], ids=["submit", "sweep"])
def test_ctrl_c_says_how_to_continue_even_if_the_cluster_does_not_answer(command, text, hint, cluster, name, experiment, tmp_path):
    file = experiment(text.replace("{name}", name).replace("{{", "{").replace("}}", "}"))
    with FrozenProxy(cluster.kubeconfig) as proxy, open(tmp_path / "said", "w") as said, \
         started(cluster, proxy.kubeconfig, *command, file, stderr=said) as waiting:
        mlk.wait_until(lambda: "Running" in cluster.mlk("ls", name, check=0).stdout, "it to run", timeout=60)
        assert proxy.freeze() >= 1
        time.sleep(3)  # for a request that gets no answer
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(timeout=10 * mlk.SLOW) == 130
    assert re.search(hint.replace("{name}", name), (tmp_path / "said").read_text()), (tmp_path / "said").read_text()
    cluster.mlk("delete", "--yes", "--where", f"name=={name}", check=None)
