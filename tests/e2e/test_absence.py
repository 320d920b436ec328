"""A Job of a run is deleted by hand or because its time to live has passed. The run is not trained twice. On both clusters."""

import json

import pytest

import mlk

PROGRAM = """
name: {name}
mode: single
image: localhost/mlk-runtime:test
run: "{run}"
workers: {{count: 1, cpu: 50m, memory: 32Mi}}
restart: {{retries: 0}}
{more}
"""
GONE = "its Job is gone (deleted, or its time to live passed); nobody recorded its end"
# What the program does, and how a watched run of it ends.
ENDS = {"succeeds": ("echo mlk step=3 loss=0.5; exit 0", 0), "fails": ("echo mlk step=1 loss=2; exit 3", 5), "runs on": ("sleep 300", 1)}


def text(name, run, ttl=None):
    more = "" if ttl is None else f"patch: {{job: {{spec: {{ttlSecondsAfterFinished: {ttl}}}}}}}"
    return PROGRAM.format(name=name, run=run, more=more)


def jobs(cluster, run):
    return [job["metadata"]["uid"] for job in cluster.objects("jobs") if job["metadata"]["labels"].get("mlk.dev/run") == run]


# Who deletes a Job: a person, or a policy that deletes all old Jobs.
DELETIONS = {"by hand": lambda run: ["job", f"{run}-worker"], "by a policy": lambda run: ["jobs", "-l", f"mlk.dev/run={run}", "--cascade=foreground"]}


def delete_job(cluster, run, by="by hand"):
    cluster.kubectl("delete", *DELETIONS[by](run), "-n", cluster.namespace, "--wait=false", check=0)


def until_gone(cluster, run):
    mlk.wait_until(lambda: not jobs(cluster, run), f"the Job of {run} is gone")
    mlk.wait_until(lambda: not living(cluster, run), f"the pods of {run} have ended")


def living(cluster, run):
    """The pods of the run that have not ended."""
    return [pod["metadata"]["name"] for pod in cluster.objects("pods", f"mlk.dev/run={run}") if pod["status"]["phase"] not in ("Succeeded", "Failed")]


def never_trained_again(cluster, file, run, phase, code):
    """Checks that status, wait and submit report the same end, and that no Job is created again."""
    seen = cluster.mlk("status", run, "-o", "json", check=0).json()
    assert seen["phase"] == phase and seen["final"], seen
    waited = cluster.mlk("wait", run, "--timeout", "60s", timeout=90)
    assert waited.code == code, waited.stderr
    again = cluster.mlk("submit", file, timeout=90)
    assert again.code == code and again.stdout.strip() == run, again.stderr
    assert "has ended" in again.stderr and "--again" in again.stderr, again.stderr
    assert not jobs(cluster, run)
    [listed] = [row for row in cluster.mlk("ls", "-o", "json", check=0).json() if row["run"] == run]
    assert (listed["phase"], listed["why"]) == (seen["phase"], seen["why"])
    return seen


def status(cluster, run):
    return cluster.mlk("status", run, "-o", "json", check=0).json()


def ended(waiting, timeout=60):
    _, said = waiting.communicate(timeout=timeout * mlk.SLOW)
    return waiting.returncode, said


@pytest.fixture
def start(cluster):
    with cluster.commands() as begin:
        yield begin


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("watcher", [None, "wait", "logs"])
@pytest.mark.parametrize("by", DELETIONS)
def test_a_run_is_not_trained_again_after_its_job_is_deleted(cluster, name, experiment, start, end, watcher, by):
    program, code = ENDS[end]
    file = experiment(text(name, program))
    run = cluster.mlk("submit", file, check=0).stdout.strip()
    waiting = watcher and start(*(["wait", run] if watcher == "wait" else ["logs", "-f", run]))
    phases = ("Running",) if end == "runs on" else ("Succeeded", "Failed")
    mlk.wait_until(lambda: cluster.mlk("status", run, "-o", "json").json()["phase"] in phases, f"{run} is {phases}")
    if waiting and end != "runs on":
        assert ended(waiting)[0] == code
    delete_job(cluster, run, by)
    until_gone(cluster, run)
    if waiting and end == "runs on":
        assert ended(waiting)[0] == 1
    recorded = watcher is not None and end != "runs on"
    phase = {0: "Succeeded", 5: "Failed"}[code] if recorded else "Incomplete"
    seen = never_trained_again(cluster, file, run, phase, code if recorded else 1)
    assert (seen["why"] == GONE) == (not recorded), seen


@pytest.mark.parametrize("end", ["succeeds", "fails"])
@pytest.mark.parametrize("ttl", [0, 2])
def test_a_run_is_not_trained_again_after_the_time_to_live_of_its_job_has_passed(cluster, name, experiment, start, end, ttl):
    program, code = ENDS[end]
    alone = experiment(text(name, program, ttl), "alone.yaml")
    run = cluster.mlk("submit", alone, check=0).stdout.strip()
    until_gone(cluster, run)
    assert never_trained_again(cluster, alone, run, "Incomplete", 1)["why"] == GONE
    # A command that waits sees the end and records it.
    watched = experiment(text(name, "sleep 2; " + program, ttl), "watched.yaml")
    done = cluster.mlk("submit", "--wait", watched, timeout=120)
    assert done.code == code, done.stderr
    run = done.stdout.strip()
    until_gone(cluster, run)
    never_trained_again(cluster, watched, run, {0: "Succeeded", 5: "Failed"}[code], code)


def test_a_run_whose_job_is_gone_can_be_submitted_again_and_deleted(cluster, name, experiment):
    file = experiment(text(name, "true", 0))
    run = cluster.mlk("submit", file, check=0).stdout.strip()
    until_gone(cluster, run)
    assert cluster.mlk("submit", "--again", file, check=0).stdout.strip() == f"{run}-2"
    assert cluster.mlk("stop", run, check=0).stderr.count(GONE) == 1
    cluster.mlk("delete", run, check=0)
    cluster.mlk("wait", run, check=3)


def test_a_sweep_is_not_trained_again_after_its_job_is_gone(cluster, name, experiment):
    file = experiment(text(name, "echo mlk step=1 loss=0.5", 0) + "sweep:\n  parameters: {env.X: [a, b]}\n")
    done = cluster.mlk("sweep", file, timeout=90)
    sweep = done.stdout.strip()
    mlk.wait_until(lambda: not jobs(cluster, sweep), f"the Job of {sweep} is gone")
    again = cluster.mlk("sweep", file, timeout=90)
    assert again.stdout.strip() == sweep and not jobs(cluster, sweep), again.stderr
    waited = cluster.mlk("wait", sweep, timeout=90)
    rows = cluster.mlk("results", sweep, "-o", "json").json()
    recorded = [row for row in rows if row["state"] == "Succeeded"]
    # On a real cluster a command may see the end of one trial, or of both, in the moment before the Job is gone. It records what it sees.
    assert len(rows) == 2 and not (recorded and cluster.embedded)
    assert all(row in recorded or (row["state"] == "Failed" and GONE in row["failure"]) for row in rows), rows
    assert waited.code == (0 if recorded else 1), waited.stderr
    assert recorded or GONE in cluster.mlk("status", sweep).stdout


def test_a_bare_name_means_the_newest_run_even_if_several_runs_were_created_in_the_same_second(cluster, name, experiment):
    runs = [cluster.mlk("submit", "--set", f"env.N='{n}'", experiment(text(name, "true")), check=0).stdout.strip() for n in range(6)]
    assert len(set(runs)) == 6
    assert cluster.mlk("status", name, "-o", "json", check=0).json()["run"] == runs[-1]
    assert cluster.mlk("ls", name, "-o", "name", check=0).stdout.split() == runs[::-1]


def test_mlk_status_reports_a_deleted_service_and_mlk_submit_creates_it_again(cluster, name, experiment):
    file = experiment(text(name, "sleep 300").replace("mode: single", "mode: allreduce").replace("count: 1", "count: 2"))
    run = cluster.mlk("submit", file, check=0).stdout.strip()
    why = "its Service is gone, so ranks do not find each other"
    mlk.wait_until(lambda: cluster.mlk("status", run, "-o", "json", check=0).json()["phase"] == "Running", f"{run} runs")
    assert why not in cluster.mlk("status", run, check=0).stdout
    cluster.kubectl("delete", "service", run, "-n", cluster.namespace, check=0)
    assert why in cluster.mlk("status", run, check=0).stdout
    assert cluster.mlk("submit", file, check=0, timeout=90).stdout.strip() == run
    assert why not in cluster.mlk("status", run, check=0).stdout
    cluster.mlk("delete", run, check=0, timeout=90)


# After SIGTERM this program needs a moment until it ends, as a program that writes a last checkpoint does.
SLOW_TO_END = "trap 'sleep 2; exit 0' TERM; while true; do echo mlk step=1 loss=2; sleep 0.2; done"


@pytest.fixture
def orphaned(cluster, name, experiment):
    """A run whose Job was deleted and whose pods still run: (file, run)."""
    file = experiment(text(name, SLOW_TO_END).replace("mode: single", "mode: allreduce").replace("count: 1", "count: 2"))
    run = cluster.mlk("submit", file, check=0).stdout.strip()
    try:
        mlk.wait_until(lambda: [rank["state"] for rank in status(cluster, run)["ranks"]] == ["Running"] * 2, f"{run} runs")
        cluster.kubectl("delete", "job", f"{run}-worker", "-n", cluster.namespace, "--cascade=orphan")
        mlk.wait_until(lambda: not jobs(cluster, run), f"the Job of {run} is gone")
        yield file, run
    finally:
        cluster.kubectl("delete", "pods", "-n", cluster.namespace, "-l", f"mlk.dev/name={name}", "--ignore-not-found", "--wait=false")


@pytest.mark.nodes
def test_six_commands_report_pods_that_still_run_after_their_job_was_deleted(cluster, orphaned, start):
    file, run = orphaned
    why = f"{GONE}; 2 of its pods still run; deleting the run ends them"
    seen = status(cluster, run)
    assert (seen["phase"], seen["final"], seen["why"]) == ("Incomplete", True, why)
    assert [(rank["role"], rank["rank"], rank["state"]) for rank in seen["ranks"]] == [("worker", 0, "Running"), ("worker", 1, "Running")]
    assert {rank["pod"] for rank in seen["ranks"]} == set(living(cluster, run))
    [listed] = [row for row in cluster.mlk("ls", "-o", "json", check=0).json() if row["run"] == run]
    assert listed["why"] == why
    for command in (start("wait", run), start("logs", "-f", run), start("submit", file)):
        code, said = ended(command)
        assert code == 1 and why in said, said
    assert why in cluster.mlk("stop", run, check=0).stderr
    assert len(living(cluster, run)) == 2 and not jobs(cluster, run)
    cluster.mlk("delete", run, check=0)
    assert not living(cluster, run)


@pytest.mark.nodes
def test_mlk_submit_with_again_ends_the_pods_of_the_first_run_before_the_second_run_trains(cluster, orphaned):
    file, run = orphaned
    would = cluster.mlk("submit", "--again", "--dry-run=server", file, check=0)
    assert would.stdout.strip() == f"{run}-2" and "would be ended first" in would.stderr
    assert len(living(cluster, run)) == 2
    again = cluster.mlk("submit", "--again", file, check=0, timeout=150)
    assert again.stdout.strip() == f"{run}-2", again
    assert f"ending 2 pods of run {run}" in again.stderr
    assert not living(cluster, run)
    assert len(jobs(cluster, f"{run}-2")) == 1
    assert status(cluster, run)["why"] == GONE


@pytest.mark.nodes
def test_mlk_submit_creates_no_second_job_for_a_role_whose_pods_still_run(cluster, name, experiment):
    file = experiment(text(name, "sleep 300").replace("mode: single", "mode: ps") + "servers: {count: 1, cpu: 50m, memory: 32Mi}\n")
    run = cluster.mlk("submit", file, check=0).stdout.strip()
    mlk.wait_until(lambda: status(cluster, run)["phase"] == "Running", f"{run} runs")
    before = jobs(cluster, run)
    cluster.kubectl("delete", "job", f"{run}-server", "-n", cluster.namespace, "--cascade=orphan")
    mlk.wait_until(lambda: len(jobs(cluster, run)) == 1, f"the servers' Job of {run} is gone")
    seen = status(cluster, run)
    assert (seen["phase"], seen["why"]) == ("Running", "the Job of its role server is gone")
    assert {(rank["role"], rank["state"]) for rank in seen["ranks"]} == {("worker", "Running"), ("server", "Running")}
    cluster.mlk("submit", file, check=0)
    assert set(jobs(cluster, run)) < set(before)
    cluster.mlk("delete", run, check=0)
    assert not living(cluster, run)


@pytest.mark.nodes
def test_pods_of_a_run_whose_config_map_was_deleted_still_run_until_mlk_delete_ends_them(cluster, name, experiment):
    file = experiment(text(name, "sleep 300"))
    run = cluster.mlk("submit", file, check=0).stdout.strip()
    mlk.wait_until(lambda: status(cluster, run)["phase"] == "Running", f"{run} runs")
    cluster.kubectl("delete", "configmap", run, "-n", cluster.namespace, "--cascade=orphan")
    told = cluster.mlk("status", run, check=3).stderr
    assert "objects of this run are left" in told and f"mlk delete {run}" in told, told
    refused = cluster.mlk("submit", file, check=1).stderr
    assert f"mlk delete {run}" in refused, refused
    assert len(living(cluster, run)) == 1 and len(jobs(cluster, run)) == 1
    cluster.mlk("delete", run, check=0)
    assert not living(cluster, run) and not jobs(cluster, run)
    assert cluster.mlk("submit", file, check=0).stdout.strip() == run


@pytest.mark.nodes
def test_a_run_does_not_count_as_failed_if_its_job_reports_a_failure_while_the_job_is_being_deleted(cluster, name, experiment, start):
    """A Job reports such a failure if its pods end with 1 after SIGTERM. A second finalizer keeps the Job for as long as this test wants."""
    file = experiment(text(name, "trap 'exit 1' TERM; while true; do sleep 0.2; done"))
    run = cluster.mlk("submit", file, check=0).stdout.strip()
    job = ["job", f"{run}-worker", "-n", cluster.namespace]
    mlk.wait_until(lambda: status(cluster, run)["phase"] == "Running", f"{run} runs")
    waiting = [start("wait", run), start("logs", "-f", run)]
    cluster.kubectl("patch", *job, "-p", '{"metadata": {"finalizers": ["example.dev/hold"]}}', "--type=merge")
    try:
        cluster.kubectl("delete", *job, "--wait=false", "--cascade=foreground")
        mlk.wait_until(lambda: not living(cluster, run), f"the pod of {run} has ended")
        [held] = cluster.objects("jobs", f"mlk.dev/run={run}")
        condition = {"status": "True", "reason": "FailedIndexes", "message": "Job has failed indexes", "lastTransitionTime": held["metadata"]["deletionTimestamp"]}
        conditions = [{**condition, "type": kind} for kind in ("FailureTarget", "Failed")]
        if cluster.embedded:  # a real Job controller may have set these conditions itself, and then does not allow a change
            cluster.kubectl("patch", *job, "--subresource=status", "--type=merge", "-p", json.dumps({"status": {"conditions": conditions, "failedIndexes": "0"}}))
        seen = status(cluster, run)
        assert (seen["final"], seen["why"], seen["first_failure"]) == (False, "it is being deleted", None), seen
        assert all(command.poll() is None for command in waiting)
    finally:
        cluster.kubectl("patch", *job, "-p", '{"metadata": {"finalizers": null}}', "--type=merge")
    for command in waiting:
        code, said = ended(command)
        assert code == 1 and GONE in said, said
    never_trained_again(cluster, file, run, "Incomplete", 1)
