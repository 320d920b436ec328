"""`status` and `ls` show the progress of a run while it runs and at its end. On both clusters."""

import json
import pathlib
import re
import shutil

import pytest

import mlk
from fault_proxy import FaultProxy

FILE = """
name: {name}
mode: {mode}
run: {program}
workers: {{count: {count}, min: {minimum}, cpu: 20m, memory: 16Mi}}
restart: {{retries: 3, on: [any]}}
"""


def counting(name, first=0, count=1, program=None):
    program = program or f"step={first}; while :; do step=$((step + 1)); echo \"mlk step=$step loss=0.5 rank=$MLK_RANK\"; sleep 0.2; done"
    return FILE.format(name=name, mode="single" if count == 1 else "allreduce", program=json.dumps(program), count=count, minimum=1)


def status(cluster, run):
    return cluster.mlk("status", run, "-o", "json", check=0).json()


def listed(cluster, name):
    return cluster.mlk("ls", name, "-o", "json", check=0).json()[0]


def printed(cluster, run):
    """The last step in the log of rank 0."""
    steps = re.findall(r"^worker/0 mlk step=(\d+)", cluster.mlk("logs", run, check=0).stdout, re.M)
    return int(steps[-1]) if steps else None


@pytest.mark.nodes
@pytest.mark.parametrize("count", [1, 8])
def test_mlk_status_and_mlk_ls_show_the_metrics_of_a_program_while_it_runs(cluster, name, experiment, count):
    run = cluster.mlk("submit", experiment(counting(name, count=count)), check=0).stdout.strip()
    seen = mlk.wait_until(lambda: printed(cluster, run), "a line of metrics in the log")
    told = status(cluster, run)
    assert told["result"]["step"] >= seen, "what the log says is known at once"
    assert told["result"]["metrics"] == {"loss": 0.5, "rank": 0}
    assert told["result_at"] is not None and told["phase"] in ("Running", "Starting", "Scheduling")
    row = listed(cluster, name)
    assert row["result"]["step"] >= told["result"]["step"]
    assert set(row) == set(told)
    table = cluster.mlk("ls", name, check=0).stdout.splitlines()[1].split()
    assert int(table[3]) >= row["result"]["step"] and table[4] == "0.5"
    text = cluster.mlk("status", run, check=0).stdout
    assert re.search(r"step +\d+\n", text) and "loss 0.5" in text and "as of" not in text


@pytest.mark.nodes
def test_mlk_status_shows_the_newest_metrics_after_a_resume_even_if_their_step_is_smaller_than_before_the_stop(cluster, name, experiment):
    run = cluster.mlk("submit", experiment(counting(name, first=5000)), check=0).stdout.strip()
    mlk.wait_until(lambda: (printed(cluster, run) or 0) > 5005, "the run to come further")
    cluster.mlk("stop", run, check=0, timeout=150)
    stopped = status(cluster, run)
    assert stopped["phase"] == "Stopped" and stopped["result"]["step"] > 5005, "the record has what was printed last"
    table = cluster.mlk("ls", name, check=0).stdout.splitlines()[1].split()
    assert int(table[3]) == stopped["result"]["step"]
    cluster.mlk("resume", run, check=0)  # the program starts at 5000 again
    mlk.wait_until(lambda: printed(cluster, run), "a line of the resumed run")
    assert 5000 < status(cluster, run)["result"]["step"] < stopped["result"]["step"] + 1000
    mlk.wait_until(lambda: status(cluster, run)["result_at"] > stopped["result_at"], "a line of a later second")
    assert listed(cluster, name)["result_at"] > stopped["result_at"]


@pytest.mark.nodes
def test_mlk_status_shows_the_metrics_of_a_live_rank_after_the_pod_of_another_rank_was_lost(cluster, name, experiment):
    program = ('case $MLK_RANK in 0) step=7000;; *) step=10;; esac; '
               'while :; do step=$((step + 1)); echo "mlk step=$step loss=0.5 rank=$MLK_RANK"; sleep 0.2; done')
    run = cluster.mlk("submit", experiment(counting(name, count=2, program=program)), check=0).stdout.strip()
    mlk.wait_until(lambda: status(cluster, run)["result"] and status(cluster, run)["result"]["step"] > 7000, "the numbers of rank 0")
    pods = cluster.objects("pods", f"mlk.dev/run={run}")
    first = next(pod for pod in pods if pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == "0")
    cluster.kubectl("delete", "pod", first["metadata"]["name"], "-n", cluster.namespace, "--grace-period=1")
    mlk.wait_until(lambda: status(cluster, run)["result"]["metrics"]["rank"] == 1 or status(cluster, run)["restarts"], "a live rank's numbers")
    told = status(cluster, run)
    assert told["result_at"] > first["metadata"]["creationTimestamp"]
    assert listed(cluster, name)["result"]["metrics"]["rank"] in (0, 1)


@pytest.mark.nodes
def test_the_record_of_a_run_has_the_last_line_of_metrics_if_the_program_writes_no_result(cluster, name, experiment):
    program = 'for step in 1 2 3; do echo "mlk step=$step loss=0.$step"; done; printf "1%%\\r50%%\\rmlk step=4 accuracy=0.9\\n"; echo done'
    run = cluster.mlk("submit", "--wait", experiment(counting(name, program=program)), check=0, timeout=120).stdout.strip()
    for pod in cluster.objects("pods", f"mlk.dev/run={run}"):
        cluster.kubectl("delete", "pod", pod["metadata"]["name"], "-n", cluster.namespace, "--ignore-not-found")
    told = status(cluster, run)
    assert told["result"] == {"schema": 1, "step": 4, "metrics": {"accuracy": 0.9}}
    assert listed(cluster, name)["result"] == told["result"]


@pytest.mark.nodes
def test_mlk_ls_and_mlk_status_end_within_10_s_and_show_no_metrics_of_a_run_if_the_request_for_its_log_gets_no_answer(cluster, name, experiment):
    silent = cluster.mlk("submit", experiment(counting(name)), check=0).stdout.strip()
    other = cluster.mlk("submit", experiment(counting(name, first=40)), check=0).stdout.strip()
    for run in (silent, other):
        mlk.wait_until(lambda: printed(cluster, run), f"a line of {run}")
    with FaultProxy(cluster.kubeconfig, plan=[{"do": "half-open", "path": f"{silent}-worker[^/]*/log", "times": 0}]) as proxy:
        rows = mlk.run(mlk.MLK, "--kubeconfig", proxy.kubeconfig, "ls", name, "-o", "json", check=0, timeout=10, env=cluster.env).json()
        alone = mlk.run(mlk.MLK, "--kubeconfig", proxy.kubeconfig, "status", silent, "-o", "json", check=0, timeout=10, env=cluster.env).json()
    results = {row["run"]: row["result"] for row in rows}
    assert results[silent] is None and alone["result"] is None and alone["phase"] == "Running"
    assert results[other]["step"] > 40


@pytest.mark.nodes
def test_mlk_wait_exits_with_the_code_of_the_run_that_failed_if_it_waits_for_several_runs(cluster, name, experiment):
    def submitted(program):
        return cluster.mlk("submit", experiment(counting(name, program=program).replace("retries: 3, on: [any]", "retries: 0")), check=0).stdout.strip()
    good, bad = submitted("echo fine; sleep 2"), submitted("exit 3")
    waited = cluster.mlk("wait", good, bad, good, check=5, timeout=120)
    assert f"{good}: Succeeded" in waited.stderr and f"{bad}: Failed" in waited.stderr
    assert waited.stdout == ""
    both = cluster.mlk("status", good, bad, "-o", "json", check=0).json()
    assert [one["phase"] for one in both] == ["Succeeded", "Failed"]
    text = cluster.mlk("status", bad, good, check=0).stdout
    assert text.index(f"{bad}  Failed") < text.index(f"{good}  Succeeded")
    cluster.mlk("wait", good, good + "x", check=3)


@pytest.mark.nodes
def test_mlk_submit_with_wait_prints_a_line_for_each_change_and_not_for_each_second_if_the_output_is_a_pipe(cluster, name, experiment):
    file = experiment(counting(name, program="exit 3").replace("retries: 3", "retries: 1"))
    waited = cluster.mlk("submit", "--wait", file, check=5, timeout=120).stderr
    changes = [line for line in waited.splitlines() if line.startswith(("Restarting", "Running", "Starting", "Scheduling"))]
    assert any("next in" in line for line in changes)
    assert len(changes) <= 10, waited


def test_mlk_status_shows_the_tags_and_the_note_and_the_experiment_of_a_run_and_mlk_ls_finds_runs_by_tag(cluster, name, experiment):
    text = counting(name) + "tags: [team=vision, paper]\nnote: a first try\nenv: {LEVEL: '3', KEY: {secret: wandb/key}}\n"
    first = cluster.mlk("submit", experiment(text), check=0).stdout.strip()
    second = cluster.mlk("submit", "--set", "workers.memory=20Mi", "--set", "tags=[other]", experiment(text), check=0).stdout.strip()
    told = status(cluster, first)
    assert told["tags"] == ["team=vision", "paper"] and told["note"] == "a first try"
    assert told["experiment"]["env"] == {"LEVEL": "3", "KEY": {"secret": "wandb/key"}}
    assert told["experiment"]["roles"]["worker"]["memory"] == "16Mi"
    found = lambda *tag: cluster.mlk("ls", name, "-o", "name", *tag, check=0).stdout.split()  # noqa: E731
    assert found("--tag", "team") == found("--tag", "team=vision") == found("--tag", "paper") == [first]
    assert found("--tag", "other") == [second] and sorted(found()) == sorted([first, second])
    assert found("--tag", "team=") == [] and "no runs" in cluster.mlk("ls", "--tag", "nothing-has-it", check=0).stderr
    wide = cluster.mlk("ls", name, "-o", "wide", check=0).stdout
    assert "roles.worker.memory=16Mi" in wide and "roles.worker.memory=20Mi" in wide and "team=vision,paper" in wide


def test_mlk_status_says_where_the_newest_checkpoint_is_and_mlk_delete_says_where_the_checkpoints_stay(embedded, name, tmp_path):
    def trained(*settings):
        return embedded.mlk("submit", "--wait", "--set", f"name={name}", "--set", "train.steps=20", *settings, mlk.EXAMPLES / "digits-single.yaml",
                            check=0, timeout=120).stdout.strip()
    run = trained("--set", "checkpoint.volume={pvc: " + name + "}")
    told = status(embedded, run)["checkpoint"]
    assert told["step"] == 20 and told["volume"] == {"pvc": name} and (pathlib.Path(told["folder"]) / "manifest.json").exists()
    assert told["folder"].endswith(told["path"]) and told["folder"] in embedded.mlk("status", run, check=0).stdout
    said = embedded.mlk("delete", run, check=0).stderr
    assert f"its checkpoints stay in {pathlib.Path(told['folder']).parent}\n" in said
    for settings in ((), ("--set", f"checkpoint.volume={{hostPath: {tmp_path}}}", "--set", "checkpoint.every=0")):
        run = trained(*settings)
        for path in tmp_path.glob("*"):
            shutil.rmtree(path)
        assert "checkpoint" not in embedded.mlk("delete", run, check=0).stderr
