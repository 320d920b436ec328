"""A trained run stays trained: it does not fail if processes or nodes are lost in its last seconds. On both clusters.

MLK_END_KILLS: how often each mode loses a worker (1). MLK_END_SEED: the seed of the random moments. A failure prints it.
"""

import os
import random
import secrets
import time

import pytest

import mlk
from test_faults import SERVER_ON_1, SPREAD, power_loss

pytestmark = [pytest.mark.nodes, pytest.mark.timed]

KILLS = int(os.environ.get("MLK_END_KILLS") or 1)
SEED = os.environ.get("MLK_END_SEED") or str(secrets.randbelow(10**6))
LAST_SECONDS = 15 if KILLS > 1 else 2  # the worker is lost within this number of seconds before the end of the run
STEPS = 1500
ASYNC, SYNC, ALLREDUCE = "digits-ps", "digits-ps-sync", "digits-allreduce"
MORE = {ASYNC: (), SYNC: (), ALLREDUCE: ("workers.count=3", "workers.min=2", "workers.cpu=100m")}
# The ranks of a lost node do not come back. The other ranks wait 10 s for them instead of 60 s, which saves `make test` a minute.
WAIT_LESS = 'patch={pod: {spec: {containers: [{name: main, env: [{name: MLK_LATE_SECONDS, value: "10"}]}]}}}'


class Run:
    """A run that trains for some seconds."""

    def __init__(self, cluster, name, example, seconds, *more):
        self.cluster, self.example = cluster, example
        at_once = 2 if example == ASYNC else 1  # two workers that do not wait for each other make a step each
        settings = [f"name={name}", f"train.steps={STEPS}", f"train.step_delay_ms={round(seconds * 1000 * at_once / STEPS)}",
                    "train.report_every=20", *MORE[example], *more]
        flags = [part for setting in settings for part in ("--set", setting)]
        self.name = cluster.mlk("submit", *flags, mlk.EXAMPLES / f"{example}.yaml", check=0).stdout.strip()
        self.workers = 3 if example == ALLREDUCE else 2
        self.history = []

    def note(self, what):
        self.history.append(f"{time.strftime('%X')} {what}")

    def __repr__(self):
        return "\n".join([f"{self.name} ({self.example}), seed {SEED}", *self.history, self.cluster.mlk("status", self.name).stdout,
                          self.cluster.mlk("logs", "--tail", "8", self.name).stdout])

    def pods(self, role=""):
        selector = f"mlk.dev/run={self.name}" + (f",mlk.dev/role={role}" if role else "")
        return self.cluster.objects("pods", selector)

    def step(self):
        steps = [int(word.removeprefix("step=")) for line in self.cluster.mlk("logs", "--tail", "3", self.name, check=0).stdout.splitlines()
                 for word in line.split() if word.startswith("step=")]
        return max(steps, default=0)

    def kill(self, role, rank):
        try:
            self.cluster.signal(self.name, role, rank, "KILL")
            self.note(f"killed {role}/{rank}")
        except AssertionError:
            self.note(f"{role}/{rank} had ended")

    def wait(self):
        """Starts mlk wait now."""
        self.note("wait")
        self.waiting_since, self.waiting = time.monotonic(), self.cluster.start("wait", self.name)

    def check_trained(self, lost_node=None):
        said = self.waiting.communicate(timeout=90 * mlk.SLOW)
        self.note(f"waited {time.monotonic() - self.waiting_since:.0f} s: {said[1]}")
        assert self.waiting.returncode == 0, self
        status = self.cluster.mlk("status", self.name, "-o", "json", check=0).json()
        assert status["phase"] == "Succeeded", self
        assert status["result"]["done"] and status["result"]["step"] == STEPS, self
        assert status["result"]["metrics"]["accuracy"] >= 0.95, self
        well = [pod for pod in self.pods() if pod["status"]["phase"] == "Succeeded"]
        assert any(pod["metadata"]["labels"]["mlk.dev/role"] == "worker" for pod in well), self
        for pod in well:
            labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
            role, rank = labels["mlk.dev/role"], annotations["batch.kubernetes.io/job-completion-index"]
            assert self.cluster.mlk("logs", "--role", role, "--rank", rank, self.name, check=0).stdout, f"{role}/{rank} has no log\n{self}"
        mlk.wait_until(lambda: not self.left(lost_node), f"all pods to have ended: {self}", timeout=45)

    def left(self, lost_node):
        """Pods that have not ended, except those on a lost node, and Jobs that could start more pods."""
        pods = [pod["metadata"]["name"] for pod in self.pods()
                if pod["status"]["phase"] in ("Pending", "Running") and pod["spec"].get("nodeName") != lost_node]
        return pods + [job["metadata"]["name"] for job in self.cluster.objects("jobs", f"mlk.dev/run={self.name}") if may_go_on(job)]


def may_go_on(job):
    conditions = {condition["type"] for condition in job["status"].get("conditions", []) if condition["status"] == "True"}
    return not job["spec"].get("suspend") and not conditions & {"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"}


@pytest.fixture
def start(name):
    """start(cluster, example, seconds, *settings) submits a Run. All these runs are removed after the test."""
    runs = []

    def submit(cluster, *what):
        runs.append(Run(cluster, f"{name}-{len(runs)}", *what))
        return runs[-1]
    yield submit
    for run in runs:
        if hasattr(run, "waiting"):
            run.waiting.kill()
            run.waiting.communicate()
        run.cluster.mlk("delete", "--no-wait", run.name)


def lose_at_the_end(runs, moments, lose):
    """Calls `lose` for each run, at as many seconds before the end of the run as `moments` says."""
    due = {}

    def lose_what_is_due():
        for run, seconds in zip(runs, moments, strict=True):
            if run not in due and run.step() > 0:  # the run trains, so the time of its end is known from now on
                due[run] = time.monotonic() + max(0, run.seconds - seconds)
        for run in list(due):
            if due[run] is not None and time.monotonic() >= due[run]:
                lose(run)
                run.wait()
                due[run] = None
        return len(due) == len(runs) and not any(due.values())
    mlk.wait_until(lose_what_is_due, "all runs to come to their end", timeout=120, interval=0.1)


def start_all(start, cluster, rng, examples=(ASYNC, SYNC, ALLREDUCE), more=()):
    runs = []
    for example in examples:
        seconds = LAST_SECONDS + 1
        runs.append(start(cluster, example, seconds, *more))
        runs[-1].seconds = seconds
    return runs, [rng.uniform(0, LAST_SECONDS) for _ in runs]


@pytest.mark.parametrize("round", range(KILLS))
def test_a_trained_run_does_not_fail_if_a_worker_is_killed_in_the_last_seconds(cluster, start, round):
    rng = random.Random(f"{SEED} {round}")
    runs, moments = start_all(start, cluster, rng)
    lose_at_the_end(runs, moments, lambda run: run.kill("worker", rng.randrange(run.workers)))
    for run in runs:
        run.check_trained()


@pytest.mark.parametrize("round", range(max(1, KILLS // 5)))
def test_a_trained_run_does_not_fail_if_servers_are_killed_after_a_worker_has_succeeded(cluster, start, round):
    """The servers wait for a worker that was lost shortly before the end. After they are killed, this worker finds no peer when it is back."""
    rng = random.Random(f"{SEED} servers {round}")
    runs, moments = start_all(start, cluster, rng, examples=(ASYNC, SYNC))
    lose_at_the_end(runs, [moment / 2 for moment in moments], lambda run: run.kill("worker", 1))
    for run in runs:
        mlk.wait_until(lambda r=run: any(pod["status"]["phase"] == "Succeeded" for pod in r.pods("worker")), f"a worker of {run} to end", timeout=60)
        run.kill("server", 0)
    for run in runs:
        run.check_trained()


@pytest.mark.alone
def test_a_trained_run_does_not_fail_if_a_node_is_lost_in_the_last_seconds(real, start):
    seconds = LAST_SECONDS + 6
    more = [] if KILLS > 1 else [WAIT_LESS]
    runs = [start(real, example, seconds, "workers.min=1", SPREAD, SERVER_ON_1, *more) for example in (ASYNC, SYNC)]
    runs.append(start(real, ALLREDUCE, seconds, "workers.count=2", "workers.min=1", SPREAD, *more))
    mlk.wait_until(lambda: all(run.step() > 0 for run in runs), "all runs to train", timeout=120)
    time.sleep(2)
    with power_loss(real, 2):
        for run in runs:
            run.note("node 2 is lost")
            run.wait()
        for run in runs:
            run.check_trained(lost_node="n2")
