"""The life of a run as a researcher sees it: submit, watch, stop, resume, delete. On both clusters."""

import contextlib
import json
import re
import signal
import time
import urllib.request

import pytest

import mlk
import prometheus_text
from fault_proxy import FaultProxy

PROGRAM = """
name: {name}
mode: single
run: {program}
workers: {{count: {count}, cpu: 50m, memory: 32Mi}}
restart: {{retries: 0}}
"""


def program(name, text, count=1):
    text = PROGRAM.format(name=name, program=json.dumps(text), count=count)
    return text if count == 1 else text.replace("mode: single", "mode: allreduce")


def labelled(cluster, run):
    """All objects of a run that are left in the namespace."""
    kinds = "configmaps,secrets,services,jobs,pods"
    return [f'{item["kind"]}/{item["metadata"]["name"]}' for item in cluster.objects(kinds, f"mlk.dev/run={run}")]


DIGITS = ["digits-single", "digits-ps", "digits-ps-sync", "digits-allreduce"]


@pytest.mark.nodes
@pytest.mark.parametrize("example", DIGITS)
def test_a_digits_example_trains_to_the_promised_accuracy(cluster, name, example):
    done = cluster.mlk("submit", "--wait", "--set", f"name={name}", mlk.EXAMPLES / f"{example}.yaml", check=0, timeout=300)
    run = done.stdout.strip()
    assert run.startswith(f"{name}-"), "the handle stands alone on stdout"
    status = cluster.mlk("status", run, "-o", "json", check=0).json()
    assert status["phase"] == "Succeeded"
    assert status["result"]["metrics"]["accuracy"] >= (0.97 if example == "digits-single" else 0.96)

    roles = {(rank["role"], rank["rank"]) for rank in status["ranks"]}
    logs = cluster.mlk("logs", run, check=0).stdout
    for role, rank in roles:
        assert f"{role}/{rank}" in logs, f"the log shows nothing of {role}/{rank}"
    assert "accuracy=" in logs

    for pod in cluster.objects("pods", f"mlk.dev/run={run}"):
        cluster.kubectl("delete", "pod", pod["metadata"]["name"], "-n", cluster.namespace, "--ignore-not-found")
    mlk.wait_until(lambda: not cluster.objects("pods", f"mlk.dev/run={run}"), "the pods to be gone")
    later = cluster.mlk("status", run, "-o", "json", check=0).json()
    assert later["result"]["metrics"]["accuracy"] == status["result"]["metrics"]["accuracy"]
    assert f'{status["result"]["metrics"]["accuracy"]:.4g}' in cluster.mlk("status", run, check=0).stdout


def test_the_event_files_of_a_run_are_beside_its_checkpoints_and_prometheus_finds_every_pod(embedded, name, experiment, tmp_path):
    text = (mlk.EXAMPLES / "digits-ps.yaml").read_text().replace("files: data/digits", f"files: {mlk.EXAMPLES}/data/digits")
    text += f"\nmetrics: {{port: 9100, tensorboard: true}}\ncheckpoint: {{volume: {{hostPath: {tmp_path}}}}}\n"
    run = embedded.mlk("submit", "--set", f"name={name}", "--set", "train.steps=1000000", "--allow-files", mlk.EXAMPLES, experiment(text), check=0).stdout.strip()

    def pods():
        found = [pod for pod in embedded.objects("pods", f"mlk.dev/run={run}") if pod["status"].get("podIP")]
        return found if len(found) == 3 else None
    for pod in mlk.wait_until(pods, "three pods"):
        assert pod["metadata"]["annotations"]["prometheus.io/scrape"] == "true"
        port = pod["metadata"]["annotations"]["prometheus.io/port"]
        assert {"name": "metrics", "containerPort": int(port)}.items() <= pod["spec"]["containers"][0]["ports"][1].items()

        def answer():
            try:
                with urllib.request.urlopen(f'http://{pod["status"]["podIP"]}:{port}/metrics', timeout=10) as told:
                    return prometheus_text.parse(told.read().decode())
            except OSError:
                return None  # the pod has just been started
        assert mlk.wait_until(lambda: (answer() or {}).get("mlk_world_size") == 2, "the answer of a pod that trains")
    assert mlk.wait_until(lambda: list(tmp_path.glob(f"{run}-*/tensorboard/events.out.tfevents.*")), "event files")


@pytest.mark.nodes
def test_a_file_that_is_submitted_twice_makes_a_second_run_only_if_an_option_asks_for_it(cluster, name, experiment):
    file = experiment(program(name, "echo once"))
    first = cluster.mlk("submit", "--wait", file, check=0).stdout.strip()
    second = cluster.mlk("submit", "--wait", file, check=0)
    assert second.stdout.strip() == first
    assert "ended" in second.stderr and "--again" in second.stderr
    third = cluster.mlk("submit", "--wait", "--again", file, check=0).stdout.strip()
    assert third == f"{first}-2"
    assert cluster.mlk("ls", name, "-o", "name", check=0).stdout.split() == [third, first]


@pytest.mark.nodes
def test_a_changed_file_makes_a_new_run(cluster, name, experiment):
    first = cluster.mlk("submit", experiment(program(name, "echo one")), check=0).stdout.strip()
    second = cluster.mlk("submit", experiment(program(name, "echo two")), check=0).stdout.strip()
    assert first != second
    for run, text in ((first, "one"), (second, "two")):
        assert cluster.mlk("wait", run, check=0, timeout=120)
        assert text in cluster.mlk("logs", run, check=0).stdout


@pytest.mark.nodes
def test_mlk_submit_with_wait_records_the_result_even_if_the_end_of_the_job_is_reported_before_the_end_of_its_pods(cluster, name):
    with FaultProxy(cluster.kubeconfig, plan=[{"do": "delay", "path": r"/pods\?.*watch", "seconds": 60, "times": 0}]) as proxy:
        image = {"MLK_IMAGE": "mlk-runtime:local"} if cluster.embedded else {}
        done = mlk.run(mlk.MLK, "--kubeconfig", proxy.kubeconfig, "submit", "--wait", "--set", f"name={name}",
                       mlk.EXAMPLES / "digits-single.yaml", check=0, timeout=120, env={**cluster.env, **image})
    assert "accuracy" in done.stderr
    status = cluster.mlk("status", done.stdout.strip(), "-o", "json", check=0).json()
    assert status["result"]["metrics"]["accuracy"] >= 0.97
    assert [rank["state"] for rank in status["ranks"]] == ["Succeeded"]


@pytest.mark.nodes
def test_mlk_logs_merges_the_lines_of_all_ranks_and_puts_the_name_of_the_rank_in_front(cluster, name, experiment):
    file = experiment(program(name, "echo hello from $MLK_RANK; sleep 1; echo bye from $MLK_RANK", count=3))
    run = cluster.mlk("submit", file, check=0).stdout.strip()
    followed = cluster.mlk("logs", "-f", run, check=0, timeout=120).stdout
    assert "\x1b" not in followed, "colour only on a terminal"
    for rank in range(3):
        assert f"worker/{rank} hello from {rank}\n" in followed
        assert f"worker/{rank} bye from {rank}\n" in followed
    only = cluster.mlk("logs", run, "--rank", "1", "--tail", "1", check=0).stdout
    assert only == "worker/1 bye from 1\n"


@pytest.mark.nodes
def test_mlk_logs_shows_the_other_ranks_if_the_request_for_the_log_of_one_rank_gets_no_answer(cluster, name, experiment):
    run = cluster.mlk("submit", "--wait", experiment(program(name, "echo hello from $MLK_RANK", count=3)), check=0, timeout=120).stdout.strip()
    with FaultProxy(cluster.kubeconfig, plan=[{"do": "cut-before", "path": "worker-1[^/]*/log", "times": 0}]) as proxy:
        told = mlk.run(mlk.MLK, "--kubeconfig", proxy.kubeconfig, "logs", run, check=0, timeout=120, env=cluster.env)
        assert sorted(told.stdout.splitlines()) == ["worker/0 hello from 0", "worker/2 hello from 2"]
        assert "worker-1" in told.stderr and "worker-0" not in told.stderr
    with FaultProxy(cluster.kubeconfig, plan=[{"do": "cut-before", "path": "/log", "times": 0}]) as proxy:
        mlk.run(mlk.MLK, "--kubeconfig", proxy.kubeconfig, "logs", run, check=4, timeout=120, env=cluster.env)


@pytest.mark.nodes
def test_mlk_delete_removes_all_objects_of_a_run_and_may_be_repeated(cluster, name, experiment):
    run = cluster.mlk("submit", experiment(program(name, "sleep 600")), check=0).stdout.strip()
    assert labelled(cluster, run)
    cluster.mlk("delete", run, check=0, timeout=150)
    mlk.wait_until(lambda: not labelled(cluster, run), f"nothing of {run} to be left", timeout=60)
    cluster.mlk("delete", run, check=0)
    cluster.mlk("status", run, check=3)


@pytest.mark.nodes
def test_a_submit_directly_after_a_delete_makes_one_whole_run(cluster, name, experiment):
    file = experiment(program(name, "sleep 2; echo done"))
    run = cluster.mlk("submit", file, check=0).stdout.strip()
    before = cluster.objects("configmaps", f"mlk.dev/run={run}")[0]["metadata"]["uid"]
    cluster.mlk("delete", "--no-wait", run, check=0)
    assert cluster.mlk("submit", "--wait", file, check=0, timeout=150).stdout.strip() == run
    owners = [item for item in cluster.objects("configmaps", f"mlk.dev/run={run}") if item["metadata"]["name"] == run]
    assert len(owners) == 1 and owners[0]["metadata"]["uid"] != before
    for item in cluster.objects("secrets,services,jobs", f"mlk.dev/run={run}"):
        assert [ref["uid"] for ref in item["metadata"]["ownerReferences"]] == [owners[0]["metadata"]["uid"]]


@pytest.mark.nodes
def test_two_submits_of_one_file_at_the_same_time_make_one_run(cluster, name, experiment):
    file = experiment(program(name, "echo done"))
    both = [cluster.start("submit", "--wait", file) for _ in range(2)]
    ends = [(*process.communicate(timeout=150 * mlk.SLOW), process.returncode) for process in both]
    assert [code for _, _, code in ends] == [0, 0], ends
    assert ends[0][0] == ends[1][0]
    run = ends[0][0].strip()
    assert len(cluster.objects("jobs", f"mlk.dev/run={run}")) == 1


@pytest.mark.nodes
def test_mlk_stop_keeps_the_run_and_mlk_resume_lets_the_run_finish(cluster, name):
    file = mlk.EXAMPLES / "digits-single.yaml"
    run = cluster.mlk("submit", "--set", f"name={name}", "--set", "train.step_delay_ms=3", file, check=0).stdout.strip()
    mlk.wait_until(lambda: cluster.mlk("status", run, "-o", "json", check=0).json()["phase"] == "Running", "the run to run")
    cluster.mlk("stop", run, check=0, timeout=150)
    assert cluster.mlk("status", run, "-o", "json", check=0).json()["phase"] == "Stopped"
    assert not [pod for pod in cluster.objects("pods", f"mlk.dev/run={run}") if pod["status"]["phase"] == "Running"]
    cluster.mlk("wait", run, check=8)
    cluster.mlk("resume", run, check=0)
    cluster.mlk("wait", run, check=0, timeout=200)


SLOW_TO_STOP = """trap 'sleep 4; echo "{\\"schema\\":1,\\"step\\":7,\\"metrics\\":{},\\"done\\":false,\\"message\\":\\"\\"}" > $MLK_RESULT; exit 143' TERM
while :; do sleep 0.1; done"""


@pytest.mark.nodes
def test_mlk_wait_lasts_until_the_results_of_a_run_are_recorded_if_the_run_is_being_stopped(cluster, name, experiment):
    file = experiment(program(name, SLOW_TO_STOP).replace("retries: 0", "retries: 3"))
    run = cluster.mlk("submit", file, check=0).stdout.strip()
    mlk.wait_until(lambda: cluster.mlk("status", run, "-o", "json", check=0).json()["phase"] == "Running", "the run to run")
    cluster.mlk("stop", run, "--timeout", "1s", check=124, timeout=60)
    cluster.mlk("wait", run, check=8, timeout=120)
    assert cluster.mlk("status", run, "-o", "json", check=0).json()["result"]["step"] == 7


@pytest.mark.nodes
@pytest.mark.parametrize("at_sigterm", ["exit 143", ""], ids=["ends with 143", "is killed"])
def test_a_stopped_run_can_be_resumed_even_if_its_ranks_have_no_retries_left(cluster, name, experiment, at_sigterm):
    file = experiment(program(name, f"trap '{at_sigterm}' TERM; echo ready; while :; do sleep 0.1; done")
                      .replace("{retries: 0}", "{retries: 0, on: [75]}") + "\npatch: {pod: {spec: {terminationGracePeriodSeconds: 2}}}\n")
    run = cluster.mlk("submit", file, check=0).stdout.strip()
    mlk.wait_until(lambda: "ready" in cluster.mlk("logs", run).stdout, "the run to run")
    with kept(cluster, cluster.objects("pods", f"mlk.dev/run={run}")[0]["metadata"]):
        cluster.mlk("stop", run, check=0, timeout=150)
        time.sleep(3)  # the Job controller reconciles about a second after a pod has changed
        assert cluster.mlk("status", run, "-o", "json", check=0).json()["phase"] == "Stopped"
    cluster.mlk("resume", run, check=0)
    mlk.wait_until(lambda: cluster.mlk("status", run, "-o", "json", check=0).json()["phase"] in ("Running", "Succeeded"), "it to go on")
    cluster.mlk("delete", run, check=0, timeout=120)


@contextlib.contextmanager
def kept(cluster, pod):
    """Keeps the pod after its end, as a busy node does, so that its Job sees how the pod ended."""
    def set_finalizers(names):
        patch = json.dumps({"metadata": {"finalizers": names}})
        cluster.kubectl("patch", "pod", pod["name"], "-n", cluster.namespace, "--type=merge", "-p", patch)
    set_finalizers([*pod.get("finalizers", []), "example.com/kept"])
    try:
        yield
    finally:
        set_finalizers([])


@pytest.mark.nodes
def test_a_run_succeeds_with_its_minimum_of_workers_though_a_rank_has_failed_and_has_no_retries_left(cluster, name, experiment):
    text = program(name, "if [ $MLK_RANK = 2 ]; then exit 1; fi; sleep 6", count=3)
    file = experiment(text.replace("count: 3", "count: 3, min: 1"))
    run = cluster.mlk("submit", file, check=0).stdout.strip()
    cluster.mlk("wait", run, check=0, timeout=120)
    assert cluster.mlk("status", run, "-o", "json", check=0).json()["phase"] == "Succeeded"


@pytest.mark.nodes
def test_mlk_submit_with_again_makes_a_second_run_only_after_the_first_run_was_stopped(cluster, name, experiment):
    file = experiment(program(name, "sleep 600").replace("retries: 0", "retries: 3"))
    run = cluster.mlk("submit", file, check=0).stdout.strip()
    mlk.wait_until(lambda: cluster.mlk("status", run, "-o", "json", check=0).json()["phase"] == "Running", "the run to run")
    assert cluster.mlk("submit", "--again", file, check=0).stdout.strip() == run, "it runs: there is one"
    cluster.mlk("stop", run, check=0, timeout=150)
    assert cluster.mlk("status", run, "-o", "json", check=0).json()["phase"] == "Stopped"
    assert cluster.mlk("submit", "--again", file, check=0).stdout.strip() == f"{run}-2"


@pytest.mark.nodes
def test_mlk_resume_deletes_the_old_results_of_a_run_without_a_checkpoint_volume(cluster, name):
    run = cluster.mlk("submit", "--set", f"name={name}", "--set", "train.step_delay_ms=20", "--set", "train.report_every=5",
                      mlk.EXAMPLES / "digits-single.yaml", check=0).stdout.strip()
    mlk.wait_until(lambda: "mlk step=" in cluster.mlk("logs", run).stdout, "the run to train")
    cluster.mlk("stop", run, check=0, timeout=150)
    assert cluster.mlk("status", run, "-o", "json", check=0).json()["result"]["step"] > 0
    assert "record" in cluster.objects("configmaps", f"mlk.dev/run={run}")[0]["data"]
    cluster.mlk("resume", run, check=0)
    owner = next(item for item in cluster.objects("configmaps", f"mlk.dev/run={run}") if item["metadata"]["name"] == run)
    assert "record" not in owner["data"]
    assert not [key for key in owner["metadata"]["annotations"] if key in ("mlk.dev/phase", "mlk.dev/summary", "mlk.dev/stopped")]


@pytest.mark.nodes
def test_mlk_submit_with_wait_does_not_abandon_a_run_if_the_news_of_its_start_comes_after_the_start_timeout(cluster, name, experiment):
    file = experiment(program(name, "sleep 12"))
    # The delay is shorter than the time that mlk allows for the head of an answer. Otherwise no watch would ever begin.
    with FaultProxy(cluster.kubeconfig, plan=[{"do": "delay", "path": r"/(pods|jobs)\?.*watch", "seconds": 8.5, "times": 0}]) as proxy:
        image = {"MLK_IMAGE": "mlk-runtime:local"} if cluster.embedded else {}
        mlk.run(mlk.MLK, "--kubeconfig", proxy.kubeconfig, "submit", "--wait", "--start-timeout", "7s", file, check=0, timeout=120,
                env={**cluster.env, **image})


@pytest.mark.nodes
def test_commands_refuse_an_empty_name_of_a_run_and_delete_nothing(cluster, name, experiment):
    run = cluster.mlk("submit", experiment(program(name, "sleep 600")), check=0).stdout.strip()
    for command in ("delete", "stop", "resume", "status", "logs", "wait"):
        assert "the name of the run is empty" in cluster.mlk(command, "", check=2).stderr
    assert f"ConfigMap/{run}" in labelled(cluster, run)


@pytest.mark.nodes
def test_mlk_logs_follows_a_log_to_its_end_even_if_its_bytes_arrive_slowly(cluster, name, experiment):
    run = cluster.mlk("submit", "--wait", experiment(program(name, "for i in 1 2 3 4 5 6 7 8; do echo this is line $i; done")), check=0, timeout=120).stdout.strip()
    with FaultProxy(cluster.kubeconfig, plan=[{"do": "drip", "path": "/log", "seconds": 0.04, "times": 0}]) as proxy:
        told = mlk.run(mlk.MLK, "--kubeconfig", proxy.kubeconfig, "logs", "-f", run, check=0, timeout=120, env=cluster.env)
    assert told.stdout.count("this is line") == 8


@pytest.mark.nodes
def test_mlk_logs_loses_no_line_of_a_long_log_if_the_reader_of_its_output_pauses(cluster, name, experiment):
    lines = 180_000  # more than mlk and the pipes buffer, and less than the 10 MiB at which a node begins a new log file
    # When a program ends, a busy node may lose the output that is still in the pipe. So this program runs until its whole log has arrived.
    file = experiment(program(name, f"trap 'exit 0' TERM; seq {lines}; exec 2>&-; while true; do sleep 0.2; done"))
    run = cluster.mlk("submit", file, check=0).stdout.strip()
    mlk.wait_until(lambda: cluster.mlk("logs", "--tail", "1", run).stdout.split()[-1:] == [str(lines)], "the whole log", timeout=120)
    cluster.signal(run, "worker", 0, "TERM")
    cluster.mlk("wait", run, check=0, timeout=120)
    following = cluster.start("logs", "-f", run)
    time.sleep(12)  # longer than mlk waits for the end of a log
    told, _ = following.communicate(timeout=120 * mlk.SLOW)
    assert following.returncode == 0
    numbers = [int(line.split()[-1]) for line in told.splitlines()]
    assert numbers == list(range(1, lines + 1)), "none is missing, and none comes twice"


@pytest.mark.nodes
def test_a_run_continues_if_ctrl_c_ends_the_submit_that_waits_for_the_run(cluster, name, experiment):
    file = experiment(program(name, "sleep 8; echo done"))
    waiting = cluster.start("submit", "--wait", file)
    run = waiting.stdout.readline().strip()
    mlk.wait_until(lambda: cluster.objects("pods", f"mlk.dev/run={run}"), "a pod of the run")
    waiting.send_signal(signal.SIGINT)
    _, err = waiting.communicate(timeout=30 * mlk.SLOW)
    assert waiting.returncode == 130
    assert f"mlk wait {run}" in err
    cluster.mlk("wait", run, check=0, timeout=120)


@pytest.mark.nodes
def test_mlk_wait_ends_after_its_timeout(cluster, name, experiment):
    run = cluster.mlk("submit", experiment(program(name, "sleep 600")), check=0).stdout.strip()
    ended = cluster.mlk("wait", run, "--timeout", "3s", check=124)
    assert run in ended.stderr


def test_mlk_submit_with_dry_run_creates_nothing(cluster, name):
    file = mlk.EXAMPLES / "digits-ps.yaml"
    cluster.mlk("submit", "--dry-run", "--set", f"name={name}", file, check=0)
    cluster.mlk("submit", "--dry-run=server", "--set", f"name={name}", file, check=0)
    assert not [item for item in cluster.objects("configmaps") if item["metadata"]["name"].startswith(name)]


def test_mlk_submit_says_in_a_dry_run_on_the_server_which_pods_the_namespace_would_refuse(real, name):
    refused = real.mlk("submit", "--dry-run=server", "--set", f"name={name}", mlk.EXAMPLES / "mnist-ps.yaml", check=6)
    assert "restricted volume types" in refused.stderr
    assert not [item for item in real.objects("configmaps") if item["metadata"]["name"].startswith(name)]


def test_mlk_status_shows_the_reason_and_the_age_of_each_rank_after_the_end_of_a_run(cluster, name, experiment):
    cluster.mlk("submit", "--wait", experiment(program(name, "exit 3")), check=5, timeout=120)
    [rank] = cluster.mlk("status", name, "-o", "json", check=0).json()["ranks"]
    assert "exit code 3" in rank["reason"] and rank["since"], rank
    [row] = [line for line in cluster.mlk("status", name, check=0).stdout.splitlines() if line.startswith("worker")]
    assert re.match(r"worker +0 +Failed +0 +\d+s +\S+ +.*exit code 3", row), row


def test_mlk_submit_says_in_a_dry_run_on_the_server_whether_the_run_exists_already(embedded, name, experiment):
    file = experiment(program(name, "true"))
    new = embedded.mlk("submit", "--dry-run=server", file, check=0)
    run = new.stdout.strip()
    assert f"run {run} would be created" in new.stderr
    embedded.mlk("submit", "--wait", file, check=0)
    again = embedded.mlk("submit", "--dry-run=server", file, check=0)
    assert again.stdout.strip() == run
    assert f"run {run} of this experiment has ended already" in again.stderr and "would be created" not in again.stderr
    assert f"whether run {run} is there already" in embedded.mlk("submit", "--dry-run", file, check=0).stderr


def test_mlk_status_of_a_bare_name_shows_the_newest_run_and_mlk_delete_refuses_a_bare_name_of_several_runs(cluster, name, experiment):
    cluster.mlk("submit", experiment(program(name, "echo one")), check=0)
    time.sleep(1.1)  # the cluster's times are whole seconds
    newest = cluster.mlk("submit", experiment(program(name, "echo two")), check=0).stdout.strip()
    assert cluster.mlk("status", name, "-o", "json", check=0).json()["run"] == newest
    wrong = cluster.mlk("status", name + "x", check=3)
    assert "mlk ls" in wrong.stderr or "did you mean" in wrong.stderr
    assert cluster.mlk("delete", name, check=2).stderr.count(name) >= 2


@pytest.mark.nodes
def test_mlk_ls_succeeds_if_several_long_lists_share_a_connection(real, name):
    """libcurl before 8.1 sometimes loses the end of an answer if several long answers share a connection of HTTP/2."""
    safe = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    pod = {"restartPolicy": "Never", "nodeSelector": {"mlk.dev/nowhere": "true"},
           "containers": [{"name": "main", "image": "none", "securityContext": safe}]}
    jobs = [{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"{name}-{i}", "labels": {"mlk.dev/run": name, "mlk.dev/name": name}},
             "spec": {"template": {"metadata": {"labels": {"mlk.dev/run": name}}, "spec": pod}}} for i in range(100)]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": jobs})
    real.kubectl("create", "-n", real.namespace, "-f", "-", input=listed)
    try:
        mlk.wait_until(lambda: len(real.objects("pods", f"mlk.dev/run={name}")) == len(jobs), "all pods")
        for _ in range(40):
            real.mlk("ls", check=0, timeout=20)
    finally:
        real.kubectl("delete", "jobs", "-n", real.namespace, "-l", f"mlk.dev/run={name}", "--wait=false")


def test_mlk_context_shows_the_namespace_and_the_rights_and_the_kubeconfig(cluster):
    told = cluster.mlk("context", "-o", "json", check=0).json()
    assert told["namespace"] == cluster.namespace
    assert told["allowed"]["submit"] is True
    assert cluster.kubeconfig in told["source"]


@pytest.mark.parametrize("mode,steps", [("allreduce", 47), ("ps", 94)])
def test_a_run_with_epochs_trains_as_many_steps_as_the_epochs_need_and_mlk_status_shows_this_number_of_steps(embedded, name, experiment, mode, steps):
    text = (mlk.EXAMPLES / f"digits-{mode}.yaml").read_text().replace("files: data/digits", f"files: {mlk.EXAMPLES}/data/digits")
    text = "".join("  epochs: 2\n" if line.lstrip().startswith("steps:") else line for line in text.splitlines(keepends=True))
    run = embedded.mlk("submit", "--wait", "--set", f"name={name}", "--allow-files", mlk.EXAMPLES, experiment(text), check=0, timeout=120).stdout.strip()
    status = embedded.mlk("status", run, "-o", "json", check=0).json()
    # 1500 samples. In allreduce, two workers use 64 samples per step together. In ps, each worker's update uses 32 samples.
    assert (status["steps"], status["result"]["step"], status["result"]["epoch"]) == (steps, steps, 2)
    assert f"{steps}/{steps}" in embedded.mlk("status", run, check=0).stdout
