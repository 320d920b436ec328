"""Programs that end because they lose a peer. mlk names the rank that was lost, and starts the other ranks again together with it."""

import json
import os
import sys

import pytest

import mlk

# Rank 1 fails or waits, as its argument says. Rank 0 ends with 1 as soon as their connection breaks. After a restart both ranks end with 0.
PROGRAM = '''
import os, socket, sys, time
rank, address = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(address) as server:
        peer = server.accept()[0]
else:
    for _ in range(300):
        try:
            peer = socket.create_connection(address)
            break
        except OSError:
            time.sleep(0.1)
again = os.environ["MLK_CHECKPOINTS"] + "/again"
if sys.argv[1] == "go-on" and os.path.exists(again):
    sys.exit(0)
print("met", flush=True)
if rank == 1 and sys.argv[1] == "fail":
    sys.exit("the data are broken")
peer.recv(1)
os.makedirs(os.path.dirname(again), exist_ok=True)
open(again, "w").close()
raise ConnectionResetError("Connection reset by peer")
'''


@pytest.fixture
def submit(embedded, name, experiment, tmp_path):
    def do(what, retries, code=None):
        (tmp_path / "code").mkdir()
        (tmp_path / "code" / "main.py").write_text(PROGRAM)
        file = experiment(f"name: {name}\nmode: allreduce\nframework: torch\ncode: code\nrun: {json.dumps([sys.executable, 'main.py', what])}\n"
                          f"workers: {{count: 2, cpu: 100m, memory: 64Mi}}\nrestart: {{retries: {retries}}}\n"
                          f"checkpoint: {{volume: {{hostPath: {json.dumps(str(tmp_path))}}}}}\n")
        wait = [] if code is None else ["--wait"]
        return embedded.mlk("submit", *wait, file, check=code or 0, timeout=120)
    return do


def test_mlk_status_names_the_rank_that_fails_first_and_not_the_rank_that_ends_because_it_lost_its_peer(embedded, submit):
    """Both ranks mostly end in the same second, and Kubernetes records the times of their ends in whole seconds."""
    failed = submit("fail", retries=0, code=5)
    run = failed.stdout.strip()
    assert "worker/1: exit code 1: the data are broken" in failed.stderr
    status = embedded.mlk("status", run, "-o", "json", check=0).json()
    assert status["first_failure"]["rank"] == 1, status
    assert "the data are broken" in status["why"]


def test_both_ranks_are_started_again_if_the_pod_of_one_rank_is_lost_and_the_other_rank_ends_because_of_this_loss(embedded, submit):
    run = submit("go-on", retries=1).stdout.strip()
    for rank in ("0", "1"):
        mlk.wait_until(lambda rank=rank: "met" in embedded.mlk("logs", run, "--role", "worker", "--rank", rank).stdout, f"rank {rank} to meet the other")
    watcher = embedded.start("wait", run)
    try:
        pods = {pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: pod["metadata"]["name"]
                for pod in embedded.objects("pods", f"mlk.dev/run={run}")}
        preempted = {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                                                "message": "preempted", "lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
        embedded.kubectl("patch", "pod", pods["1"], "--subresource=status", "--type=strategic", "-p", json.dumps(preempted))
        embedded.kubectl("delete", "pod", pods["1"], "--wait=false")
        _, said = watcher.communicate(timeout=90 * mlk.SLOW)
    finally:
        watcher.kill()
        watcher.wait()
    assert watcher.returncode == os.EX_OK, said
    status = embedded.mlk("status", run, "-o", "json", check=0).json()
    assert status["phase"] == "Succeeded"
    assert [rank["restarts"] for rank in status["ranks"]] == [1, 1], status
    assert (status.get("first_failure") or {}).get("rank", 1) == 1, status
