"""The cluster or its administrator deletes a Job in each possible way, with and without a waiting command. The run is not trained twice."""

import json

import pytest

import mlk

GONE = "its Job is gone (deleted, or its time to live passed); nobody recorded its end"
PROGRAM = """
name: {name}
mode: single
image: localhost/mlk-runtime:test
run: "{run}"
workers: {{count: 1, cpu: 50m, memory: 32Mi}}
restart: {{retries: 0}}
"""
SUCCEEDS, FAILS, RUNS_ON = "echo mlk step=3 loss=0.5", "echo mlk step=1 loss=2; exit 3", "trap 'exit 1' TERM; while true; do sleep 0.2; done"
CODES = {SUCCEEDS: 0, FAILS: 5}


def status(real, run):
    return real.mlk("status", run, "-o", "json", check=0).json()


def uids(real, run):
    return [job["metadata"]["uid"] for job in real.objects("jobs", f"mlk.dev/run={run}")]


def until_gone(real, run):
    mlk.wait_until(lambda: not uids(real, run), f"the Job of {run} is gone")


def until_job_says(real, run, condition):
    def says():
        return any(found["type"] == condition for job in real.objects("jobs", f"mlk.dev/run={run}") for found in job.get("status", {}).get("conditions", []))
    mlk.wait_until(says, f"the Job of {run} is {condition}")


def ended(waiting):
    _, said = waiting.communicate(timeout=60 * mlk.SLOW)
    return waiting.returncode, said


def living(real, run):
    return [pod["metadata"]["name"] for pod in real.objects("pods", f"mlk.dev/run={run}") if pod["status"]["phase"] not in ("Succeeded", "Failed")]


def check_not_trained_again(real, file, run, code, pods=0):
    """Checks that status, wait and submit report the same end, and that no Job is created again. With --again, submit makes
    another run after the remaining pods of the first run have ended."""
    seen = status(real, run)
    left = "; one of its pods still runs; deleting the run ends it" if pods else ""
    assert seen["final"] and seen["phase"] == {0: "Succeeded", 1: "Incomplete", 5: "Failed"}[code], seen
    assert code != 1 or seen["why"] == GONE + left, seen
    assert not pods or [rank["state"] for rank in seen["ranks"]] == ["Running"]
    assert len(living(real, run)) == pods
    assert real.mlk("wait", run, "--timeout", "30s").code == code
    again = real.mlk("submit", file)
    assert again.code == code and again.stdout.strip() == run and "--again" in again.stderr, again
    assert not uids(real, run)
    other = real.mlk("submit", "--again", file, check=0, timeout=150).stdout.strip()
    assert other == f"{run}-2" and len(uids(real, other)) == 1
    assert not living(real, run)


@pytest.fixture
def start(real):
    with real.commands() as begin:
        yield begin


def watch(start, run):
    return [start("wait", run), start("logs", "-f", run)]


def end_unseen_and_seen(real, name, experiment, start, program):
    """Two runs, each with its file, and the commands that wait for the second run. The first run ends while no command watches it."""
    unseen_file = experiment(PROGRAM.format(name=name, run=program), "unseen.yaml")
    unseen = real.mlk("submit", unseen_file, check=0).stdout.strip()
    seen_file = experiment(PROGRAM.format(name=name, run="sleep 1; " + program), "seen.yaml")
    seen = real.mlk("submit", seen_file, check=0).stdout.strip()
    waiting = watch(start, seen)
    until_job_says(real, unseen, "Complete" if program == SUCCEEDS else "Failed")
    return (unseen_file, unseen), (seen_file, seen), waiting


# The options that an administrator gives to `kubectl delete job`.
WAYS = ["--cascade=foreground", "--cascade=background", "--cascade=orphan"]


def delete_job(real, run, way):
    real.kubectl_admin("delete", "job", f"{run}-worker", "-n", real.namespace, "--wait=false", way)


@pytest.mark.nodes
@pytest.mark.parametrize("way", WAYS)
def test_mlk_wait_and_mlk_logs_end_with_1_and_the_run_is_not_trained_again_if_its_job_is_deleted_while_it_runs(real, name, experiment, start, way):
    file = experiment(PROGRAM.format(name=name, run=RUNS_ON))
    run = real.mlk("submit", file, check=0).stdout.strip()
    waiting = watch(start, run)
    mlk.wait_until(lambda: status(real, run)["phase"] == "Running", f"{run} runs")
    delete_job(real, run, way)
    until_gone(real, run)
    # A Job that is deleted in the foreground exists longer than its pod. It may still report a failure, which the deletion has caused.
    for command in waiting:
        found, said = ended(command)
        assert found == 1 and GONE in said, said
    goes_on = way == "--cascade=orphan"
    if not goes_on:
        mlk.wait_until(lambda: not living(real, run), f"the pod of {run} has ended")
    check_not_trained_again(real, file, run, 1, pods=1 if goes_on else 0)
    real.mlk("delete", run, check=0)


@pytest.mark.nodes
def test_mlk_delete_ends_the_pods_that_a_deleted_job_has_left_and_waits_for_their_end(real, name, experiment):
    run = real.mlk("submit", experiment(PROGRAM.format(name=name, run=RUNS_ON)), check=0).stdout.strip()
    mlk.wait_until(lambda: status(real, run)["phase"] == "Running", f"{run} runs")
    delete_job(real, run, "--cascade=orphan")
    until_gone(real, run)
    real.mlk("delete", run, check=0)
    assert not real.objects("pods", f"mlk.dev/run={run}")


@pytest.mark.nodes
@pytest.mark.parametrize(("way", "program"), [(WAYS[0], SUCCEEDS), (WAYS[1], FAILS), (WAYS[2], SUCCEEDS)])
def test_a_run_keeps_its_final_state_if_a_command_saw_the_end_before_the_job_was_gone(real, name, experiment, start, way, program):
    (unseen_file, unseen), (seen_file, seen), waiting = end_unseen_and_seen(real, name, experiment, start, program)
    delete_job(real, unseen, way)
    assert ended(waiting[0])[0] == CODES[program]
    assert ended(waiting[1])[0] == CODES[program]
    delete_job(real, seen, way)
    for run in (unseen, seen):
        until_gone(real, run)
    check_not_trained_again(real, unseen_file, unseen, 1)
    check_not_trained_again(real, seen_file, seen, CODES[program])
    real.mlk("delete", unseen, seen, check=0)


@pytest.mark.nodes
@pytest.mark.parametrize("program", [SUCCEEDS, FAILS], ids=["succeeded", "failed"])
def test_a_run_keeps_its_final_state_if_a_command_saw_the_end_before_the_job_got_a_time_to_live(real, name, experiment, start, program):
    (unseen_file, unseen), (seen_file, seen), waiting = end_unseen_and_seen(real, name, experiment, start, program)
    for command in waiting:
        assert ended(command)[0] == CODES[program]
    for run in (unseen, seen):
        real.kubectl_admin("patch", "job", f"{run}-worker", "-n", real.namespace, "-p", '{"spec": {"ttlSecondsAfterFinished": 0}}')
        until_gone(real, run)
    check_not_trained_again(real, unseen_file, unseen, 1)
    check_not_trained_again(real, seen_file, seen, CODES[program])


POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: {policy}}}
spec:
  matchConstraints: {{resourceRules: [{{apiGroups: [batch], apiVersions: [v1], operations: [CREATE], resources: [jobs]}}]}}
  matchConditions: [{{name: of-this-test, expression: "has(object.metadata.labels) && 'mlk.dev/name' in object.metadata.labels && object.metadata.labels['mlk.dev/name'] == '{name}'"}}]
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations: [{{patchType: ApplyConfiguration, applyConfiguration: {{expression: "Object{{spec: Object.spec{{ttlSecondsAfterFinished: 0}}}}"}}}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: {policy}}}
spec: {{policyName: {policy}}}
"""


@pytest.fixture
def times_to_live_of_zero(real, name, tmp_path):
    """The cluster deletes each Job of this test as soon as the Job has ended: its time to live is 0."""
    policy = f"no-time-of-{name}"
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY.format(policy=policy, name=name), encoding="utf-8")
    real.kubectl_admin("apply", "-f", file)
    probe = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"probe-{name}", "labels": {"mlk.dev/name": name}}, "spec": {
        "suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}}}

    def in_force():  # the API server reads new policies only from time to time
        made = real.kubectl_admin("create", "-n", real.namespace, "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(probe))
        return made.json()["spec"].get("ttlSecondsAfterFinished") == 0
    try:
        mlk.wait_until(in_force, "the policy is in force")
        yield
    finally:
        real.kubectl_admin("delete", "mutatingadmissionpolicy,mutatingadmissionpolicybinding", policy, "--ignore-not-found")


@pytest.mark.nodes
@pytest.mark.parametrize("program", [SUCCEEDS, FAILS], ids=["succeeded", "failed"])
def test_a_run_is_not_trained_twice_if_a_policy_sets_the_time_to_live_of_jobs_to_zero(real, name, experiment, start, times_to_live_of_zero, program):
    unseen_file = experiment(PROGRAM.format(name=name, run=program), "unseen.yaml")
    unseen = real.mlk("submit", unseen_file, check=0).stdout.strip()
    until_gone(real, unseen)
    check_not_trained_again(real, unseen_file, unseen, 1)
    seen_file = experiment(PROGRAM.format(name=name, run="sleep 2; " + program), "seen.yaml")
    seen = real.mlk("submit", seen_file, check=0).stdout.strip()
    for command in watch(start, seen):
        assert ended(command)[0] == CODES[program]
    until_gone(real, seen)
    check_not_trained_again(real, seen_file, seen, CODES[program])
