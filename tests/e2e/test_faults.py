"""Runs that lose a process, a pod or a node in the middle, on both clusters. They are trained to their end, and they report the loss.

MLK_FAULT_SECONDS is the duration of each run without a disturbance. The runs of one test train at the same time.
"""

import contextlib
import json
import os
import re
import time

import pytest

import mlk

pytestmark = [pytest.mark.nodes, pytest.mark.timed]  # `alone` if a node is lost, otherwise `quiet`

# A lost rank is back after 10 s at the earliest, on a busy machine after 30 s. It must take part again, so it is lost early in the run.
SECONDS = float(os.environ.get("MLK_FAULT_SECONDS") or 45)
STEPS = 1500
PS, SYNC, ALLREDUCE = "digits-ps", "digits-ps-sync", "digits-allreduce"
SEEDED = re.compile(r"^server/0 .*is seeded by worker/", re.MULTILINE)


class Run:
    """A run of an example that takes SECONDS. `role` and `rank` name the rank that the test makes it lose."""

    def __init__(self, cluster, name, example, role, rank, *more, steps=STEPS):
        self.cluster, self.example, self.role, self.rank, self.steps_wanted = cluster, example, role, rank, steps
        self.before = {}  # the restarts before the disturbance: on a busy machine, ranks that do not start together may restart
        at_once = 2 if example == PS else 1  # two workers that do not wait for each other make a step each
        settings = [f"name={name}", "workers.min=1", f"train.steps={steps}", f"train.step_delay_ms={round(SECONDS * 1000 * at_once / STEPS)}", *more]
        flags = [part for setting in settings for part in ("--set", setting)]
        # A command that waits from the start sees every pod. At the end a Job may remove a pod, since the run needs fewer workers than it has.
        self.name = cluster.mlk("submit", *flags, mlk.EXAMPLES / f"{example}.yaml", check=0).stdout.strip()
        self.waiting = cluster.start("wait", self.name)

    def __repr__(self):
        return f"{self.name} ({self.example}, loses {self.role}/{self.rank})"

    def nodes(self):
        return {(rank["role"], rank["rank"]): rank.get("node") for rank in self.status()["ranks"]}

    def status(self):
        return self.cluster.mlk("status", self.name, "-o", "json", check=0).json()

    def steps(self):
        """The steps that the run has reported, per rank, in the order of the log."""
        found = {}
        for rank, step in re.findall(r"^(\S+) mlk .*\bstep=(\d+)", self.cluster.mlk("logs", self.name, check=0).stdout, re.MULTILINE):
            found.setdefault(rank, []).append(int(step))
        return found

    def in_the_middle(self):
        """Whether some steps were made and all workers take part. Only restarts after this call are counted."""
        workers = [rank for rank in self.status()["ranks"] if rank["role"] == "worker"]
        worlds = re.findall(r"^worker/0 mlk .*\bworld=(\d+)", self.cluster.mlk("logs", self.name, check=0).stdout, re.MULTILINE)
        self.before = self.restarts()
        return bool(worlds) and int(worlds[-1]) == len(workers) and any(steps[-1] >= self.steps_wanted / 10 for steps in self.steps().values())

    def restarts(self):
        return {(rank["role"], rank["rank"]): rank["restarts"] for rank in self.status()["ranks"] if rank["restarts"]}

    def kill_process(self):
        self.cluster.signal(self.name, self.role, self.rank, "KILL")

    def delete_pod(self):
        pods = [rank["pod"] for rank in self.status()["ranks"] if (rank["role"], rank["rank"]) == (self.role, self.rank)]
        self.cluster.kubectl("delete", "pod", *pods, "-n", self.cluster.namespace, "--wait=false")

    def check_trained(self):
        """Waits for the end. Returns the restarts since the disturbance, for each rank that has restarted."""
        said = self.waiting.communicate(timeout=2 * SECONDS + 180)
        assert self.waiting.returncode == 0, said
        status = self.status()
        assert status["phase"] == "Succeeded", self
        assert status["result"]["step"] == self.steps_wanted and status["result"]["done"], self
        assert status["result"]["metrics"]["accuracy"] >= 0.95, self
        for rank, steps in self.steps().items():
            assert steps == sorted(steps), f"{self}: {rank} went back"
        if self.role == "server":
            assert SEEDED.search(self.cluster.mlk("logs", self.name, check=0).stdout), f"{self}: the new server started anew"
        since = {rank: count - self.before.get(rank, 0) for rank, count in self.restarts().items()}
        return {rank: count for rank, count in since.items() if count}

    def check_restarted_once(self):
        """Waits for the end, and checks that the lost rank restarted once and that all other ranks did not restart."""
        restarts = self.check_trained()
        assert restarts == {(self.role, self.rank): 1}, self.cluster.mlk("status", self.name, check=0).stdout
        # The run ends with its workers. A server ends a few seconds after the workers.
        count = self.before.get((self.role, self.rank), 0) + 1
        row = re.compile(rf"^{self.role} +{self.rank} +(Succeeded +{count} |Missing +{count} .*removed by its Job, which had succeeded$)", re.MULTILINE)

        def ended():
            status = self.cluster.mlk("status", self.name, check=0).stdout
            if not row.search(status):
                pods = self.cluster.objects("pods", f"mlk.dev/run={self.name},mlk.dev/role={self.role}")
                states = [{"pod": pod["metadata"]["name"], "deleted": pod["metadata"].get("deletionTimestamp"), **pod["status"]} for pod in pods]
                raise AssertionError(f"{status}{json.dumps(states, indent=1)}")
            return True
        mlk.wait_until(ended, f"{self} to show its restart", timeout=30)


@pytest.fixture
def start(name):
    """start(cluster, example, role, rank, *settings) submits a Run. All these runs are removed after the test."""
    runs = []

    def submit(cluster, *what, **options):
        runs.append(Run(cluster, f"{name}-{len(runs)}", *what, **options))
        return runs[-1]
    yield submit
    for run in runs:
        run.waiting.kill()
        run.waiting.communicate()
        run.cluster.mlk("delete", "--no-wait", run.name)


@pytest.mark.quiet
def test_a_killed_worker_or_server_comes_back_and_its_run_is_trained(cluster, start):
    runs = [start(cluster, *what) for what in [
        (PS, "worker", 1), (SYNC, "worker", 1), (ALLREDUCE, "worker", 1), (PS, "server", 0), (SYNC, "server", 0)]]
    disturb_and_check(runs, Run.kill_process)


@pytest.mark.quiet
def test_a_worker_or_server_whose_pod_was_deleted_comes_back_and_its_run_is_trained(cluster, start):
    runs = [start(cluster, *what) for what in [
        (PS, "server", 0), (SYNC, "server", 0), (SYNC, "worker", 0), (ALLREDUCE, "worker", 0)]]
    disturb_and_check(runs, Run.delete_pod)


def disturb_and_check(runs, disturb):
    undisturbed = list(runs)

    def disturb_those_in_the_middle():
        for run in filter(Run.in_the_middle, list(undisturbed)):
            disturb(run)
            undisturbed.remove(run)
        return not undisturbed
    mlk.wait_until(disturb_those_in_the_middle, "all runs to train", timeout=120)
    for run in runs:
        run.check_restarted_once()


HUNG = 9  # seconds; the other processes take a process for lost after 5 s without a message


def check_never_restarted(runs, going_on):
    """Waits for the end of all runs. No rank was started again, and the runs in `going_on` did not wait for the rank that was lost for a while."""
    for run in runs:
        assert run.check_trained() == {}, run.status()
    for run in going_on:
        assert int(run.status()["result"]["metrics"]["restarts"]) >= 1, run


@pytest.mark.quiet
def test_a_run_continues_without_a_process_that_hangs_and_the_process_takes_part_again_later(cluster, start):
    runs = [start(cluster, *what) for what in [(PS, "worker", 1), (SYNC, "worker", 1), (ALLREDUCE, "worker", 1)]]
    mlk.wait_until(lambda: all(run.in_the_middle() for run in runs), "all runs to train", timeout=120)
    for run in runs:
        cluster.signal(run.name, run.role, run.rank, "STOP")
    time.sleep(HUNG)
    for run in runs:
        assert run.status()["phase"] == "Running", f"{run} was over before it was disturbed"
        cluster.signal(run.name, run.role, run.rank, "CONT")
    check_never_restarted(runs, runs)


# Each worker is on a node of its own. The server is on node 2 as long as this node exists.
SPREAD = """workers.patch={pod: {spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname,
  whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {mlk.dev/role: worker}}, matchLabelKeys: [mlk.dev/run]}]}}}"""
SERVER_ON_2 = """servers.patch={pod: {spec: {affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
  {weight: 100, preference: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n2]}]}}]}}}}}"""
SERVER_ON_1 = SERVER_ON_2.replace("[n2]", "[n1]")


@contextlib.contextmanager
def disturbed(cluster, node, trouble, remedy):
    cluster.harness(trouble, node)
    try:
        yield
    finally:
        cluster.harness(remedy, node)


def power_loss(cluster, node):
    return disturbed(cluster, node, "node-kill", "node-up")


def cut_off(cluster, node):
    return disturbed(cluster, node, "node-cut", "node-mend")


@pytest.mark.alone
def test_a_run_is_trained_though_a_node_loses_power(real, start):
    """A server on the lost node is replaced. A worker on this node is not replaced while the node may come back. The other workers continue
    without it."""
    with_server = [start(real, example, "server", 0, SPREAD, SERVER_ON_2) for example in (PS, SYNC)]
    without = start(real, SYNC, "worker", 0, SPREAD, SERVER_ON_1)
    ring = start(real, ALLREDUCE, "worker", 0, SPREAD)
    runs = [*with_server, without, ring]
    mlk.wait_until(lambda: all(run.in_the_middle() for run in runs), "all runs to train", timeout=120)
    for run in runs:
        status = run.status()
        assert status["phase"] == "Running", f"{run} was over before it was disturbed"
        nodes = run.nodes()
        assert {nodes["worker", 0], nodes["worker", 1]} == {"n1", "n2"}, run
        assert nodes.get(("server", 0)) == ("n2" if run in with_server else "n1" if run is without else None), run
    with power_loss(real, 2):
        for run in runs:
            restarts = run.check_trained()
            assert restarts == ({("server", 0): 1} if run in with_server else {}), run


@pytest.mark.alone
def test_all_workers_of_a_run_take_part_again_after_their_nodes_were_cut_off_from_each_other(real, start):
    """The workers on the side of the server, or of the lowest rank, continue. The workers on the other side wait, and take part again later."""
    ring = start(real, ALLREDUCE, "worker", 0, SPREAD)
    stays = mlk.wait_until(lambda: ring.nodes().get(("worker", 0)), "worker 0 to have a node", timeout=60)
    with_server = [start(real, example, "worker", 0, SPREAD, SERVER_ON_1 if stays == "n1" else SERVER_ON_2) for example in (PS, SYNC)]
    runs = [ring, *with_server]
    mlk.wait_until(lambda: all(run.in_the_middle() for run in runs), "all runs to train", timeout=120)
    for run in runs:
        nodes = run.nodes()
        assert {nodes["worker", 0], nodes["worker", 1]} == {"n1", "n2"}, run
        assert nodes.get(("server", 0), stays) == stays, run
    with cut_off(real, 2 if stays == "n1" else 1):
        time.sleep(HUNG)
        assert all(run.status()["phase"] == "Running" for run in runs), "a run was over before it was disturbed"
    check_never_restarted(runs, runs)


EIGHT = ["workers.count=8", "workers.cpu=100m", "workers.memory=128Mi", "servers.cpu=100m", "servers.memory=128Mi", SPREAD]


@pytest.mark.alone
def test_four_of_eight_workers_train_to_the_end_after_the_node_of_the_other_four_lost_power(real, start):
    """If a ring is cut into two halves, the half with the lowest rank continues. So the test takes the power from the node of the other half."""
    ring = start(real, ALLREDUCE, "worker", 0, *[setting for setting in EIGHT if not setting.startswith("servers.")], steps=800)
    stays = mlk.wait_until(lambda: ring.nodes().get(("worker", 0)), "worker 0 to have a node", timeout=60)
    with_server = start(real, SYNC, "worker", 0, *EIGHT, SERVER_ON_1 if stays == "n1" else SERVER_ON_2, steps=600)
    runs = [ring, with_server]
    mlk.wait_until(lambda: all(run.in_the_middle() for run in runs), "all runs to train", timeout=120)
    for run in runs:
        nodes = run.nodes()
        assert run.status()["phase"] == "Running", f"{run} was over before it was disturbed"
        assert sorted(node for (role, _), node in nodes.items() if role == "worker") == ["n1"] * 4 + ["n2"] * 4, run
        assert nodes.get(("server", 0), stays) == stays, run
    with power_loss(real, 2 if stays == "n1" else 1):
        for run in runs:
            restarts = run.check_trained()
            assert restarts == {}, real.mlk("status", run.name).stdout + real.mlk("logs", run.name, "--role", "worker", "--tail", "30").stdout
