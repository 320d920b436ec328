"""The test cluster itself: `down` leaves nothing behind, two clusters run at once, and errors are reported."""

import os
import pathlib
import shutil
import signal
import subprocess

import mlk
import pytest

pytestmark = pytest.mark.cluster
HARNESS = mlk.ROOT / "tests/cluster"


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "cluster"
    yield path
    mlk.run(HARNESS / "down", "--dir", path, timeout=120)


def traces(folder):
    """Processes, files and control groups of the cluster in that folder."""
    found = [f"process {pid}" for pid in mlk.processes_with(MLK_CLUSTER_MEMBER=folder)]
    if folder.exists():
        found.append(f"{folder}: {os.listdir(folder)}")
    group = mlk.run("bash", "-c", f"printf %s {folder} | sha256sum | cut -c1-10", check=0).stdout.strip()
    return found + [str(path) for path in pathlib.Path("/sys/fs/cgroup").glob(f"**/mlk-{group}")]


def up(folder, *args, **options):
    return mlk.run(HARNESS / "up", "--dir", folder, *args, timeout=180, **options)


def test_the_down_script_removes_its_whole_cluster_but_no_part_of_another_cluster(folder, real):
    up(folder, "--nodes", "1", check=0)
    assert traces(folder)
    mlk.run(HARNESS / "down", "--dir", folder, check=0, timeout=120)
    assert traces(folder) == []
    assert real.kubectl_admin("get", "--raw=/readyz").stdout == "ok"


@pytest.mark.parametrize("seconds", [1, 3])
def test_the_down_script_removes_the_whole_cluster_if_the_up_script_was_killed(folder, seconds):
    starting = subprocess.Popen([HARNESS / "up", "--dir", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        starting.wait(seconds)
    except subprocess.TimeoutExpired:
        pass
    os.killpg(starting.pid, signal.SIGKILL)
    starting.wait()
    mlk.run(HARNESS / "down", "--dir", folder, check=0, timeout=120)
    assert traces(folder) == []


def with_setsid(folder, script):
    """An environment in which `setsid` is this shell script. The harness starts its processes with `setsid`."""
    folder.mkdir()
    (folder / "setsid").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "setsid").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def test_the_up_script_starts_a_killed_cluster_again_and_waits_for_processes_that_start_slowly(folder, tmp_path):
    up(folder, "--kwok", "--nodes", "1", check=0)
    for pid in mlk.processes_with(MLK_CLUSTER_MEMBER=folder):
        os.kill(pid, signal.SIGKILL)
    slow = with_setsid(tmp_path / "slow", f'sleep 2; exec {shutil.which("setsid")} "$@"')
    again = up(folder, "--kwok", "--nodes", "1", check=0, env=slow)
    assert "export MLK_CLUSTER_NODES=kwok" in again.stdout


def test_the_up_script_fails_at_once_if_all_processes_of_the_cluster_have_ended(folder, tmp_path):
    refused = up(folder, "--kwok", "--nodes", "1", check=1, env=with_setsid(tmp_path / "dead", "exit 1"))
    assert "no answer from kube-apiserver and no process of the cluster is left" in refused.stderr


def test_the_up_script_refuses_a_folder_with_other_files(folder):
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    refused = up(folder, "--kwok", check=1)
    assert "not empty and not a cluster's folder" in refused.stderr
    mlk.run(HARNESS / "down", "--dir", folder, check=0)
    assert (folder / "thesis.txt").exists()


@pytest.mark.nodes
def test_the_up_script_fails_and_says_so_if_mlk_runtime_is_not_built(folder, tmp_path):
    refused = up(folder, check=1, env={"MLK_BUILD_DIR": str(tmp_path)})
    assert "mlk-runtime is not built" in refused.stderr
    assert refused.stdout == ""
    assert traces(folder) == []


def test_the_user_researcher_has_rights_in_one_namespace_only(real):
    for verb, resource, answer in (("create", "jobs", "yes"), ("create", "pods/exec", "yes"), ("list", "nodes", "no"), ("create", "namespaces", "no")):
        assert real.kubectl("auth", "can-i", verb, resource, check=None).stdout.strip() == answer, (verb, resource)
    assert real.kubectl("auth", "can-i", "list", "pods", "-n", "kube-system", check=None).stdout.strip() == "no"


PAIR = """
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {pair: NAME}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: NAME-worker}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  template:
    metadata: {labels: {pair: NAME}}
    spec:
      subdomain: NAME
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {pair: NAME}}}
      containers:
      - name: main
        image: IMAGE
        imagePullPolicy: IfNotPresent
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        env:
        - {name: MLK_RUN, value: NAME}
        - {name: MLK_ROLE, value: worker}
        - {name: MLK_RANK, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}
        command:
        - sh
        - -c
        - |
          id -u
          mlk-runtime --version
          mkdir /tmp/www && echo "rank $MLK_RANK" >/tmp/www/rank && httpd -p 8080 -h /tmp/www
          until wget -q -O - http://NAME-worker-$((1 - MLK_RANK)).NAME:8080/rank 2>/dev/null; do sleep 0.2; done
          sleep 600
"""


@pytest.fixture
def pair(real, name):
    """Two pods of the ordinary user on different nodes. Each pod sends a request to the other pod by its name."""
    manifest = PAIR.replace("NAME", name).replace("IMAGE", os.environ["MLK_IMAGE"])
    real.kubectl("apply", "-f", "-", input=manifest)
    yield name
    real.kubectl("delete", "-f", "-", "--wait=false", input=manifest)


def pods(real, name):
    return {int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]): pod
            for pod in real.objects("pods", f"pair={name}") if pod["status"]["phase"] == "Running"}


def both_running(real, name):
    running = pods(real, name)
    return running if len(running) == 2 else None


@pytest.mark.nodes
@pytest.mark.alone
def test_pods_on_two_nodes_find_each_other_by_name_and_the_harness_can_kill_a_pod_and_a_node(real, pair):
    running = mlk.wait_until(lambda: both_running(real, pair), "two running pods", 60)
    assert running[0]["spec"]["nodeName"] != running[1]["spec"]["nodeName"]
    for rank in (0, 1):
        pod = running[rank]["metadata"]["name"]
        said = mlk.wait_until(lambda: (text := real.kubectl("logs", pod).stdout).count("\n") >= 3 and text, f"output of rank {rank}", 60)
        user, version, other = said.splitlines()
        assert (user, other) == ("65532", f"rank {1 - rank}") and version.startswith("mlk-runtime ")

    real.signal(pair, "worker", 1, "KILL")
    died = running[1]["metadata"]["name"]
    code = "{.status.containerStatuses[0].state.terminated.exitCode}"
    mlk.wait_until(lambda: real.kubectl("get", "pod", died, "-o", f"jsonpath={code}").stdout == "137", "exit code 137", 30)

    node = running[0]["spec"]["nodeName"].removeprefix("n")
    ready = '{.status.conditions[?(@.type=="Ready")].status}'
    real.harness("node-kill", node)
    mlk.wait_until(lambda: real.kubectl_admin("get", "node", f"n{node}", "-o", f"jsonpath={ready}").stdout == "Unknown", "lost node", 60)
    real.harness("node-up", node)
    assert real.kubectl_admin("get", "node", f"n{node}", "-o", f"jsonpath={ready}").stdout == "True"
