"""Runs that fail or cannot start: each with its reason in status, in --wait and in the exit code."""

import concurrent.futures
import json
import time

import pytest

import mlk


def experiment_text(name, run="echo hello", image=None, cpu="50m", count=1, retries=0, extra=""):
    return f"""
name: {name}
mode: single
{f"image: {image}" if image else ""}
run: {json.dumps(run)}
workers: {{count: {count}, cpu: {cpu}, memory: 32Mi}}
restart: {{retries: {retries}}}
{extra}
"""


def submit_and_fail(cluster, file, code, *words, args=(), where=(), timeout=120, env=None):
    """Submits, expects the exit code, and the words in what --wait said and in what status says."""
    ended = cluster.mlk("submit", "--wait", *args, *where, file, check=code, timeout=timeout, env=env)
    run = ended.stdout.strip()
    status = cluster.mlk("status", run, *where, check=0).stdout
    for word in words:
        assert word in ended.stderr, f"--wait does not say '{word}': {ended.stderr}"
        assert word in status, f"status does not say '{word}': {status}"
    return run


def submit_that_waits(cluster, file, code, word, where=(), env=None):
    """The same of a run that cannot start, once status says why: a busy cluster takes its time to find that out."""
    run = cluster.mlk("submit", *where, file, check=0, env=env).stdout.strip()
    mlk.wait_until(lambda: word in cluster.mlk("status", run, *where, check=0).stdout, f"status to say '{word}'", timeout=120)
    assert submit_and_fail(cluster, file, code, word, args=["--start-timeout", "10s"], where=where, env=env) == run


@pytest.mark.nodes
def test_a_program_that_exits_3_fails_the_run_with_its_last_lines(cluster, name, experiment):
    file = experiment(experiment_text(name, "echo the disk is on fire; exit 3", retries=3))
    submit_and_fail(cluster, file, 5, "exit code 3", "the disk is on fire", "worker/0", timeout=40)


@pytest.mark.nodes
def test_a_program_killed_by_a_signal_is_said_to_be(cluster, name, experiment):
    file = experiment(experiment_text(name, "kill -9 $$"))
    submit_and_fail(cluster, file, 5, "SIGKILL")


@pytest.mark.nodes
def test_a_killed_program_is_tried_again_as_often_as_asked(cluster, name, experiment):
    file = experiment(experiment_text(name, "sleep 1; kill -9 $$", retries=1))
    run = submit_and_fail(cluster, file, 5, "SIGKILL", timeout=120)
    assert cluster.mlk("status", run, "-o", "json", check=0).json()["restarts"] == 1


@pytest.mark.nodes
@pytest.mark.parametrize("run, reason", [("no-such-program --lr 1", "exit code 127"), (["no-such-program"], "the program could not be started")])
def test_a_program_that_is_not_there_is_not_tried_again(cluster, name, experiment, run, reason):
    file = experiment(experiment_text(name, run, retries=3).replace("mode: single", "mode: allreduce"))
    run = submit_and_fail(cluster, file, 5, reason, "no-such-program", timeout=40)
    assert cluster.mlk("status", run, "-o", "json", check=0).json()["restarts"] == 0


@pytest.mark.nodes
def test_an_invalid_image_name_cannot_start(real, name, experiment):
    file = experiment(experiment_text(name, image="UPPER/case:1"))
    submit_and_fail(real, file, 6, "UPPER/case:1", env={"MLK_IMAGE": ""})


@pytest.mark.nodes
def test_an_image_that_does_not_exist_is_named(real, name, experiment):
    file = experiment(experiment_text(name, image="localhost/nobody-has-this:1"))
    submit_that_waits(real, file, 6, "localhost/nobody-has-this:1 cannot be pulled", env={"MLK_IMAGE": ""})


@pytest.mark.nodes
def test_a_thousand_cpus_are_unschedulable_in_the_schedulers_words(real, name, experiment):
    file = experiment(experiment_text(name, cpu="1000"))
    submit_that_waits(real, file, 6, "Insufficient cpu")


def test_a_missing_gpu_is_unschedulable_on_this_machine(embedded, name, experiment):
    file = experiment(experiment_text(name).replace("cpu: 50m", "cpu: 50m, gpu: 1"))
    assert "gpu: this machine has no GPU, so pods that ask for 1 wait" in embedded.mlk("submit", "--dry-run", file, check=0).stderr
    submit_and_fail(embedded, file, 6, "Insufficient nvidia.com/gpu", args=["--start-timeout", "3s"])


@pytest.mark.nodes
def test_a_quota_that_is_exceeded_is_the_reason(real, name, experiment):
    file = experiment(experiment_text(name))
    with mlk.namespace_of_its_own(real, f"quota-{name}") as namespace:
        real.kubectl_admin("create", "quota", "none", "-n", namespace, "--hard=pods=0")
        submit_that_waits(real, file, 6, "exceeded quota", where=["-n", namespace])


def test_a_namespace_that_is_not_there_is_named(real, name, experiment):
    file = experiment(experiment_text(name))
    refused = real.mlk("submit", "-n", "nowhere", "--kubeconfig", real.admin_kubeconfig, file, check=4)
    assert "nowhere" in refused.stderr
    assert refused.stdout == ""


def test_a_user_who_may_not_create_jobs_is_told_before_anything_is_created(real, name, experiment):
    real.kubectl_admin("create", "namespace", f"closed-{name}")
    try:
        file = experiment(experiment_text(name))
        refused = real.mlk("submit", "-n", f"closed-{name}", file, check=4)
        assert "create jobs" in refused.stderr and f"closed-{name}" in refused.stderr
    finally:
        real.kubectl_admin("delete", "namespace", f"closed-{name}", "--wait=false")


def write_kubeconfig(path, server, token="x", ca=None):
    cluster = {"server": server, **({"certificate-authority-data": ca} if ca else {"insecure-skip-tls-verify": True})}
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}), encoding="utf-8")
    return path


def test_a_cluster_that_cannot_be_reached_is_tried_for_some_seconds_and_then_an_error(tmp_path, name, experiment):
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:1")
    file = experiment(experiment_text(name, image="x"))

    def ask(command):
        refused = mlk.run(mlk.MLK, "--kubeconfig", kubeconfig, *command, check=4, timeout=30)
        assert "127.0.0.1:1" in refused.stderr
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(ask, (["submit", file], ["ls"], ["status", "x"], ["logs", "x"], ["delete", "x"])))
    # `context` asks whether the cluster answers, and completion is not to hold a shell up.
    for command in (["context"], ["__complete", "status", ""]):
        began = time.monotonic()
        mlk.run(mlk.MLK, "--kubeconfig", kubeconfig, *command)
        assert time.monotonic() - began < 5 * mlk.SLOW, command


def test_a_token_that_is_rejected_is_said_to_be_and_not_shown(embedded, tmp_path, name, experiment):
    config = json.loads(mlk.run(mlk.MLK, "local", "status", "-o", "json", check=0, env=embedded.env).stdout)
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", config["server"], token="open-sesame")
    refused = mlk.run(mlk.MLK, "--kubeconfig", kubeconfig, "submit", experiment(experiment_text(name, image="x")), check=4)
    assert "credentials" in refused.stderr
    assert "open-sesame" not in refused.stderr + refused.stdout


def test_an_experiment_without_image_says_what_to_do_on_a_cluster(real, name):
    refused = real.mlk("submit", "--set", f"name={name}", mlk.EXAMPLES / "digits-ps.yaml", check=2, env={"MLK_IMAGE": ""})
    assert "image" in refused.stderr and "--local" in refused.stderr


@pytest.mark.nodes
def test_a_program_that_is_not_there_cannot_start(cluster, name, experiment):
    file = experiment(experiment_text(name, "x").replace('run: "x"', "run: [/no/such/program]"))
    submit_and_fail(cluster, file, 5, "/no/such/program")
