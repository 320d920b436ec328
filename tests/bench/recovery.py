"""Group recovery of make bench: how long a run stands still when its processes are killed, as its metrics tell; and, in the group
cluster, when a node loses power."""

import contextlib
import datetime
import os
import pathlib
import random
import re
import tempfile
import time

import mlk
import runtime_processes

ROUNDS = 5
PATIENCE = 120  # seconds for what is not measured

KILLS = [  # what is killed, mode, consistency, workers, how many of them, seconds that it may take
    ("50 of 100 workers, allreduce", "allreduce", "sync", 100, 50, 2),
    ("50 of 100 workers, sync servers", "ps", "sync", 100, 50, 2),
    ("50 of 100 workers, async servers", "ps", "async", 100, 50, 2),
    ("1 of 4 workers, sync servers", "ps", "sync", 4, 1, 0.5),
]


def recovery(report):
    rng = random.Random(1)
    for name, mode, consistency, count, killed, bound in KILLS:
        with running(mode, consistency, count) as (run, servers, workers):
            took = [seconds_without_workers(run, (servers or workers)[0], workers, rng.sample(range(1, count), killed)) for _ in range(ROUNDS)]
            check_undisturbed(workers[0])
            report.hold(f"killed: {name}", "s", took, bound)
    for consistency in ("async", "sync"):
        with running("ps", consistency, 8) as (run, servers, workers):
            took = [seconds_until_caught_up(run, servers, workers, rng.uniform(0.5, 3)) for _ in range(ROUNDS)]
            check_undisturbed(*workers)
            report.hold(f"killed: the server of 8 workers, {consistency}", "s", took, 1)


@contextlib.contextmanager
def running(mode, consistency, count):
    """(run, servers, workers) of a run without an end."""
    with tempfile.TemporaryDirectory() as folder, runtime_processes.Run(
            pathlib.Path(folder), mode, workers=count, minimum=1, consistency=consistency, steps=10**9, report_every=1,
            data={"format": "idx", "batch": 8}, patience_seconds=PATIENCE) as run:
        servers, workers = run.start_all()
        yield run, servers, workers


def last_step(worker):
    """Of its metrics; reads their end only, since they grow by thousands of lines."""
    with worker.metrics.open("rb") as lines:
        size = lines.seek(0, os.SEEK_END)
        lines.seek(max(0, size - 1000))
        steps = re.findall(rb"^mlk step=(\d+) .*\n", lines.read(), re.MULTILINE)
    return int(steps[-1]) if steps else 0


def until_step(worker, step):
    deadline = time.monotonic() + PATIENCE
    while last_step(worker) < step:
        assert time.monotonic() < deadline, f"step {step} did not come:\n{worker.errors()[-3000:]}"
        time.sleep(0.002)


def until_all_train(run, speaker, workers):
    run.until(lambda: speaker.members() == len(workers), "all workers", timeout=PATIENCE)
    until_step(workers[0], last_step(workers[0]) + 5)


def seconds_without_workers(run, speaker, workers, victims):
    """From SIGKILL to the second step after it, of which the victims can have done nothing. Then they come back."""
    until_all_train(run, speaker, workers)
    start = time.monotonic()
    for rank in victims:
        workers[rank].popen.kill()
    until_step(workers[0], last_step(workers[0]) + 2)
    took = time.monotonic() - start
    assert all(worker.running() for rank, worker in enumerate(workers) if rank not in victims), "a survivor has ended"
    run.until(lambda: speaker.members() == len(workers) - len(victims), "the loss to be told", timeout=PATIENCE)
    for rank in victims:
        workers[rank].popen.wait()
        workers[rank] = run.start("worker", rank)
    return took


def seconds_until_caught_up(run, servers, workers, away):
    """From the start of a new server, some time after the old one was killed, to a step beyond the last one that was committed."""
    until_all_train(run, servers[0], workers)
    servers[0].kill()
    time.sleep(away)
    committed = last_step(workers[0])
    start = time.monotonic()
    servers[0] = run.start("server", 0)
    until_step(workers[0], committed + 1)
    took = time.monotonic() - start
    begun = int(re.search(r"training with 8 of 8 workers from step (\d+)", servers[0].errors())[1])
    assert begun >= committed, f"{committed - begun} committed steps were lost"
    return took


def check_undisturbed(*workers):
    """None of them has ended, and what they reported never went back."""
    for worker in workers:
        assert worker.running(), worker.errors()
        steps = [int(line["step"]) for line in worker.lines()]
        assert steps == sorted(set(steps)), f"{worker.name} went back"


# Half of the workers on each node, and the server, if there is one, on node 1.
SPREAD = """workers.patch={pod: {spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname,
  whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {mlk.dev/role: worker}}, matchLabelKeys: [mlk.dev/run]}]}}}"""
SERVER_ON_1 = "servers.patch={pod: {spec: {nodeSelector: {kubernetes.io/hostname: n1}}}}"
SILENCE = 5  # seconds after which a process that lost power is given up


def power_loss(report, cluster):
    """The same with eight workers on two nodes of a real cluster."""
    for name, example, more in (("allreduce", "digits-allreduce", []),
                                ("sync servers", "digits-ps-sync", ["servers.cpu=100m", "servers.memory=128Mi", SERVER_ON_1])):
        took = [seconds_without_a_node(cluster, f"bench-power-{turn}", example, more) for turn in range(3)]
        report.hold(f"power loss of 4 of 8 workers, {name}", "s", took, SILENCE + 2)


def seconds_without_a_node(cluster, name, example, more):
    settings = [f"name={name}", "workers.count=8", "workers.min=1", "workers.cpu=100m", "workers.memory=128Mi", SPREAD, "train.steps=1000000",
                "train.report_every=1", "train.step_delay_ms=20", *more]
    flags = [part for setting in settings for part in ("--set", setting)]
    run = cluster.mlk("submit", *flags, mlk.EXAMPLES / f"{example}.yaml", check=0).stdout.strip()
    mlk.wait_until(lambda: len(step_times(cluster, run)) >= 20, "steps", timeout=PATIENCE)
    ranks = cluster.mlk("status", run, "-o", "json", check=0).json()["ranks"]
    # Of two halves the one with rank 0 goes on, or with servers the one with the server.
    stays = next(rank["node"] for rank in ranks if rank["role"] == "server" or not more and rank["rank"] == 0)
    lost = "2" if stays == "n1" else "1"
    start = datetime.datetime.now(datetime.timezone.utc).timestamp()
    cluster.harness("node-cut", lost)  # else the kernel tells of the end of what is killed
    cluster.harness("node-kill", lost)
    after = lambda: [time for time in step_times(cluster, run, stays) if time > start]  # noqa: E731
    mlk.wait_until(lambda: len(after()) >= 5 and max(after()) > start + SILENCE, "steps after the loss", timeout=PATIENCE)
    times = [start, *after()]
    gap_end = max(zip(times, times[1:]), key=lambda pair: pair[1] - pair[0])[1]
    cluster.mlk("delete", "--no-wait", run)
    cluster.harness("node-up", lost)
    return gap_end - start


def step_times(cluster, run, node=None):
    """When its steps were reported by pods on the node, in seconds, in order."""
    times = []
    for pod in cluster.objects("pods", f"mlk.dev/run={run},mlk.dev/role=worker"):
        if pod["status"]["phase"] != "Running" or node not in (None, pod["spec"]["nodeName"]):
            continue
        said = cluster.kubectl("logs", "--timestamps", pod["metadata"]["name"], "-n", cluster.namespace, check=None).stdout
        for stamp in re.findall(r"^(\S+)Z mlk step=", said, re.MULTILINE):
            times.append(datetime.datetime.fromisoformat(stamp[:26] + "+00:00").timestamp())
    return sorted(times)
