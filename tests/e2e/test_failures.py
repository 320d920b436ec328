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
    """Submits, and expects this exit code, and these words in the messages of --wait and in the output of status."""
    ended = cluster.mlk("submit", "--wait", *args, *where, file, check=code, timeout=timeout, env=env)
    run = ended.stdout.strip()
    status = cluster.mlk("status", run, *where, check=0).stdout
    for word in words:
        assert word in ended.stderr, f"--wait does not say '{word}': {ended.stderr}"
        assert word in status, f"status does not say '{word}': {status}"
    return run


def submit_that_waits(cluster, file, code, word, where=(), env=None):
    """As submit_and_fail, for a run that cannot start. It first polls status for the reason, since a busy cluster finds the reason late."""
    run = cluster.mlk("submit", *where, file, check=0, env=env).stdout.strip()
    mlk.wait_until(lambda: word in cluster.mlk("status", run, *where, check=0).stdout, f"status to say '{word}'", timeout=120)
    assert submit_and_fail(cluster, file, code, word, args=["--start-timeout", "10s"], where=where, env=env) == run


@pytest.mark.nodes
def test_a_run_fails_and_shows_the_last_lines_of_its_program_if_the_program_exits_with_3(cluster, name, experiment):
    file = experiment(experiment_text(name, "echo the disk is on fire; exit 3", retries=3))
    submit_and_fail(cluster, file, 5, "exit code 3", "the disk is on fire", "worker/0", timeout=40)


@pytest.mark.nodes
def test_mlk_status_names_the_signal_if_a_signal_killed_the_program(cluster, name, experiment):
    file = experiment(experiment_text(name, "kill -9 $$"))
    submit_and_fail(cluster, file, 5, "SIGKILL")


@pytest.mark.nodes
def test_a_killed_program_is_started_again_as_often_as_the_experiment_allows(cluster, name, experiment):
    file = experiment(experiment_text(name, "sleep 1; kill -9 $$", retries=1))
    run = submit_and_fail(cluster, file, 5, "SIGKILL", timeout=120)
    assert cluster.mlk("status", run, "-o", "json", check=0).json()["restarts"] == 1


@pytest.mark.nodes
@pytest.mark.parametrize("run, reason", [("no-such-program --lr 1", "exit code 127"), (["no-such-program"], "the program could not be started")])
def test_a_rank_is_not_started_again_if_its_program_does_not_exist(cluster, name, experiment, run, reason):
    file = experiment(experiment_text(name, run, retries=3).replace("mode: single", "mode: allreduce"))
    run = submit_and_fail(cluster, file, 5, reason, "no-such-program", timeout=40)
    assert cluster.mlk("status", run, "-o", "json", check=0).json()["restarts"] == 0


@pytest.mark.nodes
def test_a_run_cannot_start_if_its_image_name_is_invalid(real, name, experiment):
    file = experiment(experiment_text(name, image="UPPER/case:1"))
    submit_and_fail(real, file, 6, "UPPER/case:1", env={"MLK_IMAGE": ""})


@pytest.mark.nodes
def test_mlk_submit_and_mlk_status_name_the_image_if_the_image_does_not_exist(real, name, experiment):
    file = experiment(experiment_text(name, image="localhost/nobody-has-this:1"))
    submit_that_waits(real, file, 6, "localhost/nobody-has-this:1 cannot be pulled", env={"MLK_IMAGE": ""})


@pytest.mark.nodes
def test_mlk_submit_and_mlk_status_quote_the_scheduler_if_a_run_asks_for_a_thousand_cpus(real, name, experiment):
    file = experiment(experiment_text(name, cpu="1000"))
    submit_that_waits(real, file, 6, "Insufficient cpu")


def test_a_run_with_a_gpu_cannot_start_if_this_machine_has_no_gpu(embedded, name, experiment):
    file = experiment(experiment_text(name).replace("cpu: 50m", "cpu: 50m, gpu: 1"))
    assert "gpu: this machine has no GPU, so pods that ask for 1 wait" in embedded.mlk("submit", "--dry-run", file, check=0).stderr
    submit_and_fail(embedded, file, 6, "Insufficient nvidia.com/gpu", args=["--start-timeout", "3s"])


@pytest.mark.nodes
def test_mlk_submit_and_mlk_status_name_the_quota_if_a_run_exceeds_the_quota(real, name, experiment):
    file = experiment(experiment_text(name))
    with mlk.namespace_of_its_own(real, f"quota-{name}") as namespace:
        real.kubectl_admin("create", "quota", "none", "-n", namespace, "--hard=pods=0")
        submit_that_waits(real, file, 6, "exceeded quota", where=["-n", namespace])


def test_mlk_submit_names_the_namespace_if_the_namespace_does_not_exist(real, name, experiment):
    file = experiment(experiment_text(name))
    refused = real.mlk("submit", "-n", "nowhere", "--kubeconfig", real.admin_kubeconfig, file, check=4)
    assert "nowhere" in refused.stderr
    assert refused.stdout == ""


def test_mlk_submit_fails_before_it_creates_an_object_if_the_user_may_not_create_jobs(real, name, experiment):
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


def test_commands_name_an_api_server_that_cannot_be_reached_but_mlk_context_and_mlk_completion_do_not_wait_for_it(tmp_path, name, experiment):
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:1")
    file = experiment(experiment_text(name, image="x"))

    def ask(command):
        refused = mlk.run(mlk.MLK, "--kubeconfig", kubeconfig, *command, check=4, timeout=30)
        assert "127.0.0.1:1" in refused.stderr
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(ask, (["submit", file], ["ls"], ["status", "x"], ["logs", "x"], ["delete", "x"])))
    # `context` asks whether the cluster answers, and completion must not delay a shell.
    for command in (["context"], ["__complete", "status", ""]):
        began = time.monotonic()
        mlk.run(mlk.MLK, "--kubeconfig", kubeconfig, *command)
        assert time.monotonic() - began < 5 * mlk.SLOW, command


def test_mlk_submit_reports_a_rejected_token_and_does_not_show_the_token(embedded, tmp_path, name, experiment):
    config = json.loads(mlk.run(mlk.MLK, "local", "status", "-o", "json", check=0, env=embedded.env).stdout)
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", config["server"], token="open-sesame")
    refused = mlk.run(mlk.MLK, "--kubeconfig", kubeconfig, "submit", experiment(experiment_text(name, image="x")), check=4)
    assert "credentials" in refused.stderr
    assert "open-sesame" not in refused.stderr + refused.stdout


def test_mlk_submit_to_a_cluster_says_what_to_do_if_the_experiment_has_no_image(real, name):
    refused = real.mlk("submit", "--set", f"name={name}", mlk.EXAMPLES / "digits-ps.yaml", check=2, env={"MLK_IMAGE": ""})
    assert "image" in refused.stderr and "--local" in refused.stderr


@pytest.mark.nodes
def test_a_run_fails_and_names_its_program_if_the_program_does_not_exist(cluster, name, experiment):
    file = experiment(experiment_text(name, "x").replace('run: "x"', "run: [/no/such/program]"))
    submit_and_fail(cluster, file, 5, "/no/such/program")
