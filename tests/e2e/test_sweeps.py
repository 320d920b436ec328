"""Sweeps, run by the cluster or driven by mlk: started, extended, watched, read. On both clusters."""

import csv
import io
import json
import os
import subprocess
import sys

import mlk
import pytest
import wheels
from fault_proxy import FaultProxy

DIGITS = mlk.EXAMPLES / "digits-sweep.yaml"

PROGRAM = """
name: {name}
mode: single
image: {image}
run: |
  echo "trial $MLK_TRIAL of lr $LR" ; {program}
env: {{LR: "${{sweep.lr}}"}}
workers: {{cpu: 20m, memory: 32Mi}}
restart: {{retries: 0}}
sweep: {{objective: maximize accuracy, parallel: {parallel}}}
"""


def program(name, what='echo "accuracy=0.$LR"', parallel=2):
    return PROGRAM.format(name=name, image="mlk-runtime:test", program=what, parallel=parallel)


def start(cluster, *args, check=0):
    return cluster.mlk("sweep", *args, check=check, timeout=120)


def handle(cluster, *args):
    return json.loads(start(cluster, *args, "-o", "json").stdout)


def results(cluster, sweep):
    return cluster.mlk("results", sweep, "-o", "json", check=0, timeout=120).json()


def status(cluster, sweep):
    return cluster.mlk("status", sweep, "-o", "json", check=0).json()


def ledger(cluster, sweep):
    """The trials in the sweep's ConfigMaps, by number."""
    texts = [text for each in cluster.objects("configmaps", f"mlk.dev/sweep={sweep}") for name, text in each.get("data", {}).items()
             if name == "trials.jsonl"]
    return {trial["n"]: trial for text in texts for trial in map(json.loads, text.splitlines())}


def read_by_pandas(text):
    """The rows of a table in CSV, as pandas reads them."""
    version = f"py{sys.version_info.major}.{sys.version_info.minor}"
    try:
        pandas = wheels.unpack(f"pandas-2.3.3-{version}", wheels.PANDAS, "pandas for tests")
        numpy = wheels.unpack(f"numpy-2.2.6-{version.removeprefix('py')}", [wheels.NUMPY], "numpy for tests")
    except (subprocess.SubprocessError, RuntimeError) as error:
        pytest.skip(f"the package cannot be fetched: {error}")
    script = ("import json, pandas, sys\n"
              "frame = pandas.read_csv(sys.stdin, float_precision='round_trip')\n"  # otherwise pandas is wrong in the last digit
              "print(json.dumps(frame.to_dict('records')))")
    read = mlk.run(sys.executable, "-c", script, input=text, env={"PYTHONPATH": f"{pandas}:{numpy}"}, check=0)
    return json.loads(read.stdout)


@pytest.mark.nodes
def test_the_example_digits_sweep_gives_a_table_of_nine_trials_and_a_repeated_command_starts_only_new_trials(cluster, name):
    named = ("--set", f"name={name}", DIGITS)
    first = handle(cluster, *named)
    assert (first["trials"], first["started"]) == (9, 9)
    sweep = first["sweep"]
    assert cluster.mlk("wait", sweep, timeout=300).code == 0
    table = results(cluster, sweep)
    assert len(table) == 9 and {row["state"] for row in table} == {"Succeeded"}
    accuracies = [row["objective"] for row in table]
    assert accuracies == sorted(accuracies, reverse=True) and accuracies[0] > 0.9
    assert {row["trial"] for row in table} == set(range(9))
    again = handle(cluster, *named)
    assert (again["sweep"], again["trials"], again["started"]) == (sweep, 9, 0)
    more = handle(cluster, *named, "train.optimizer.lr=0.1,0.03,0.01,0.001")
    assert (more["sweep"], more["trials"], more["started"]) == (sweep, 12, 3)
    assert cluster.mlk("wait", sweep, timeout=300).code == 0
    extended = {row["trial"]: row for row in results(cluster, sweep)}
    assert set(extended) == set(range(12))
    for row in table:
        assert extended[row["trial"]]["parameters"] == row["parameters"], "numbers never change"
    assert {extended[number]["parameters"]["train.optimizer.lr"] for number in (9, 10, 11)} == {0.03}
    assert cluster.mlk("delete", sweep, timeout=150).code == 0
    assert cluster.mlk("status", sweep).code == 3


@pytest.mark.nodes
def test_pandas_reads_the_values_of_the_ledger_from_the_csv_of_mlk_results(cluster, name, experiment):
    words = ["lr=0.1,1e-300,0.30000000000000004", 'word=a,"b, c","say \\"hi\\"","two\\nlines","naïve ✓"', "flag=true,false"]
    path = experiment(program(name, 'echo "accuracy=0.1234567890123456 loss=1e-7"', parallel=30).replace("$LR", "x").replace(
        'env: {LR: "${sweep.lr}"}', 'env: {LR: "${sweep.lr}${sweep.word}${sweep.flag}"}'))
    sweep = handle(cluster, path, *words, "--wait")["sweep"]
    read = read_by_pandas(cluster.mlk("results", sweep, "-o", "csv", check=0).stdout)
    kept = ledger(cluster, sweep)
    assert len(read) == len(kept) == 30 and {row["trial"] for row in read} == set(kept)
    for row in read:
        trial = kept[row["trial"]]
        for column, value in {"state": trial["s"], **trial["p"], **trial["m"]}.items():
            assert row[column] == value, f"{column} of trial {row['trial']}"


@pytest.mark.nodes
def test_each_trial_gets_its_values_and_the_sweep_reads_the_metric_from_the_log_of_the_trial(cluster, name, experiment):
    file = experiment(program(name))
    sweep = start(cluster, file, "lr=1,3,2").stdout.strip()
    assert cluster.mlk("wait", sweep, timeout=150).code == 0
    assert [(row["trial"], row["objective"], row["parameters"]) for row in results(cluster, sweep)] == [
        (1, 0.3, {"lr": 3}), (2, 0.2, {"lr": 2}), (0, 0.1, {"lr": 1})]
    lines = cluster.mlk("logs", f"{sweep}/1", check=0).stdout.splitlines()
    assert lines == ["trial/1 trial 1 of lr 3", "trial/1 accuracy=0.3"]
    told = status(cluster, name)
    assert told["phase"] == "Succeeded" and told["counts"]["succeeded"] == 3
    assert told["best"] == {"trial": 1, "objective": 0.3, "parameters": {"lr": 3}}
    assert sweep in cluster.mlk("ls", check=0).stdout


@pytest.mark.nodes
def test_mlk_results_lists_failed_trials_and_mlk_sweep_starts_them_again_only_with_the_option_retry_failed(cluster, name, experiment):
    file = experiment(program(name, "test $LR != 2 && echo accuracy=0.5"))
    sweep = start(cluster, file, "lr=1,2,3").stdout.strip()
    assert cluster.mlk("wait", sweep, timeout=150).code == 0, "one failure of three is no failed sweep"
    failed = [row for row in results(cluster, sweep) if row["state"] == "Failed"]
    assert [row["trial"] for row in failed] == [1] and "exit code 1" in failed[0]["failure"]
    assert handle(cluster, file, "lr=1,2,3")["started"] == 0
    again = handle(cluster, file, "lr=1,2,3", "--retry-failed")
    assert (again["started"], again["retried"], again["trials"]) == (1, 1, 3)
    assert cluster.mlk("wait", sweep, timeout=150).code == 0
    retried = [row for row in results(cluster, sweep) if row["trial"] == 1]
    assert len(retried) == 1 and retried[0]["tries"] == 2 and retried[0]["state"] == "Failed"


@pytest.mark.nodes
def test_a_sweep_ends_with_5_and_names_the_first_cause_if_all_its_trials_fail(cluster, name, experiment):
    sweep = start(cluster, experiment(program(name, "echo broken >&2; exit 3")), "lr=1,2").stdout.strip()
    ended = cluster.mlk("wait", sweep, timeout=150)
    assert ended.code == 5 and "2 of 2 trials failed" in ended.stderr and "exit code 3" in ended.stderr


@pytest.mark.nodes
def test_a_stopped_sweep_runs_nothing_until_it_is_resumed(cluster, name, experiment):
    sweep = start(cluster, experiment(program(name, "sleep 3; echo accuracy=0.5", parallel=1)), "lr=1,2,3").stdout.strip()
    mlk.wait_until(lambda: status(cluster, sweep)["counts"]["running"] == 1, "a trial to run", interval=0.1)
    cluster.mlk("stop", sweep, check=0)
    mlk.wait_until(lambda: status(cluster, sweep)["counts"]["running"] == 0, "no trial to run")
    stopped = status(cluster, sweep)
    assert stopped["phase"] == "Stopped"
    assert cluster.mlk("wait", sweep).code == 8
    cluster.mlk("resume", sweep, check=0)
    assert cluster.mlk("wait", sweep, timeout=150).code == 0
    assert status(cluster, sweep)["counts"]["succeeded"] == 3


@pytest.mark.nodes
def test_mlk_starts_each_trial_as_a_run_if_a_trial_has_several_processes(cluster, name):
    named = ("--set", f"name={name}", "--set", "mode=ps", "--set", "servers={cpu: 50m, memory: 64Mi}", "--set", "workers.cpu=50m",
             "--set", "train.steps=300", DIGITS, "hidden=[32],[32,32]")
    first = cluster.mlk("sweep", *named, "--parallel", 2, timeout=300)
    assert first.code == 0 and "mode ps has several processes" in first.stderr, first
    assert "typed again" not in first.stderr, "it says that nobody drives the sweep which it drives itself"
    sweep = first.stdout.strip()
    table = results(cluster, sweep)
    assert sorted(row["trial"] for row in table) == list(range(6)) and {row["state"] for row in table} == {"Succeeded"}
    assert all(row["objective"] > 0.5 for row in table)
    assert status(cluster, sweep)["phase"] == "Succeeded" and cluster.mlk("wait", sweep).code == 0
    assert "mlk step=300" in cluster.mlk("logs", f"{name}/4", check=0).stdout
    assert cluster.mlk("logs", f"{name}/6").code == 3
    rows = cluster.mlk("ls", name, "-o", "name", check=0).stdout.split()
    assert rows == [sweep], "trials are not listed among the runs"
    assert len(cluster.mlk("ls", "--sweep", sweep, "-o", "json", check=0).json()) == 6
    again = cluster.mlk("sweep", *named, timeout=120)
    assert again.code == 0 and "6 trials: 0 new" in again.stderr, again


@pytest.mark.nodes
def test_the_search_tpe_finds_a_good_point_and_mlk_writes_a_report_and_the_best_trial_as_an_experiment(cluster, name, experiment, tmp_path):
    text = program(name, "echo accuracy=0.$(printf %03d $((500 - (LR - 7) * (LR - 7))))").replace("parallel: 2", "parallel: 3")
    file = experiment(text)
    ended = cluster.mlk("sweep", file, "--search", "tpe", "--trials", 14, "lr=1..20", timeout=300)
    assert ended.code == 0 and "search tpe chooses a trial by the results" in ended.stderr, ended
    sweep = ended.stdout.strip()
    table = results(cluster, sweep)
    assert len(table) == 14 and len({row["parameters"]["lr"] for row in table}) == 14
    assert table[0]["objective"] >= 0.499, "it came next to the best"
    best = cluster.mlk("best", name, "-o", "json", check=0).json()
    assert best["trial"] == table[0]["trial"] and best["parameters"] == table[0]["parameters"]
    winner = cluster.mlk("best", sweep, "-o", "experiment", check=0).stdout
    assert "sweep" not in winner and f'LR: "{best["parameters"]["lr"]}"' in winner.replace("'", '"'), winner
    assert cluster.mlk("submit", "--dry-run", experiment(winner, "winner.yaml")).code == 0
    rows = cluster.mlk("results", sweep, "--where", "lr <= 7 and accuracy > 0.4", "-o", "json", check=0).json()
    assert rows and all(row["parameters"]["lr"] <= 7 and row["objective"] > 0.4 for row in rows)
    mistake = cluster.mlk("results", sweep, "--where", "lrr < 1")
    assert mistake.code == 2 and "did you mean 'lr'?" in mistake.stderr and "^" in mistake.stderr
    page = tmp_path / "report.html"
    assert cluster.mlk("report", sweep, "-o", page, check=0).stdout.strip() == str(page)
    assert sweep in page.read_text(encoding="utf-8")
    assert "accuracy" in cluster.mlk("results", sweep, "--plot", check=0).stdout
    # The run of the winner has the name of the sweep and is newer. A user who asks for results by this name means the sweep.
    cluster.mlk("submit", "--wait", tmp_path / "winner.yaml", check=0, timeout=120)
    assert results(cluster, name) == table
    assert sweep in cluster.mlk("report", name, "-o", "-", check=0).stdout
    assert cluster.mlk("best", name, "-o", "json", check=0).json() == best


@pytest.mark.nodes
def test_asha_ends_bad_trials_early_and_frees_their_places(cluster, name, experiment):
    # Bad trials are slow from step 10 on, so that they still run when a driver on a busy machine reads their metrics.
    counting = ('step=0; while [ $step -lt 40 ]; do step=$((step + 1)); echo "mlk step=$step accuracy=0.$LR"; sleep 0.2; '
                'if [ $step -ge 10 ] && [ $LR -lt 5 ]; then sleep 2; fi; done')
    text = program(name, counting, parallel=3).replace("objective:", "stop: {asha: {min: 10, max: 40, factor: 2}}, objective:")
    ended = cluster.mlk("sweep", experiment(text), "lr=9,1,2,3,8", timeout=300)
    assert ended.code == 0 and "trials are ended early" in ended.stderr, ended
    assert "for good: without checkpoint.volume" in ended.stderr, ended
    table = {row["parameters"]["lr"]: row for row in results(cluster, ended.stdout.strip())}
    assert table[9]["state"] == "Succeeded" and table[9]["step"] == 40
    stopped = [row for row in table.values() if row["state"] == "Stopped"]
    assert stopped and all("stopped early by asha" in row["failure"] and row["step"] < 40 for row in stopped)
    assert {row["state"] for row in table.values()} <= {"Succeeded", "Stopped"}


def test_asha_pauses_trials_that_have_a_checkpoint_volume_and_another_driver_continues_the_promoted_trial(embedded, name):
    sweep_file = ("--set", f"name={name}", "--set", "checkpoint={volume: {pvc: " + name + "}, every: 0}", "--set", "train.steps=240",
                  "--set", "train.step_delay_ms=40", "--set", "train.report_every=10", "--set", "sweep.stop={asha: {min: 60}}",
                  "--set", "sweep.objective=minimize loss", DIGITS, "lr=0.1,0.0003,0.0002,0.0001", "hidden=[16]")
    driver = embedded.start("sweep", *sweep_file)

    def paused():
        marked = [run["metadata"] for run in embedded.objects("configmaps", f"mlk.dev/name={name}")
                  if run["metadata"].get("annotations", {}).get("mlk.dev/trial") == "0" and "mlk.dev/paused" in run["metadata"]["annotations"]]
        return marked and all(job["spec"].get("suspend") for job in embedded.objects("jobs", f"mlk.dev/run={marked[0]['name']}"))
    mlk.wait_until(paused, "the first trial to be paused", timeout=60)
    driver.kill()
    assert "those that are promoted go on from their checkpoints" in driver.communicate(timeout=30)[1]
    ended = embedded.mlk("sweep", *sweep_file, timeout=120)
    assert ended.code == 0, ended
    sweep = ended.stdout.strip()
    table = {row["parameters"]["train.optimizer.lr"]: row for row in results(embedded, sweep)}
    winner = table.pop(0.1)
    assert winner["state"] == "Succeeded" and winner["step"] == 240
    assert {row["state"] for row in table.values()} <= {"Stopped", "Succeeded"}, "on a busy machine one may come to its end unseen"
    assert all("stopped early by asha" in row["failure"] and 60 <= row["step"] < 240 for row in table.values() if row["state"] == "Stopped"), table
    assert "goes on from the checkpoint of step" in embedded.mlk("logs", f"{sweep}/{winner['trial']}", check=0).stdout
    again = embedded.mlk("sweep", *sweep_file, timeout=60)
    assert again.code == 0 and "4 trials: 0 new" in again.stderr, again


@pytest.mark.nodes
def test_the_example_grid_sh_prints_the_runs_of_a_shell_loop_in_one_table(cluster, name):
    script = (mlk.EXAMPLES / "grid.sh").read_text().replace("grid", name).replace("$(dirname \"$0\")", str(mlk.EXAMPLES))
    flags = ["--local"] if cluster.embedded else []
    path = {"PATH": f"{mlk.BUILD}:{os.environ['PATH']}"}
    ran = mlk.run("sh", "-c", script, "grid.sh", *flags, check=0, timeout=300, env={**cluster.env, **path})
    table = list(csv.DictReader(io.StringIO(ran.stdout[ran.stdout.index("trial\t"):]), delimiter="\t"))
    assert len(table) == 3 and {float(row["lr"]) for row in table} == {0.1, 0.01, 0.001}
    assert [float(row["accuracy"]) for row in table] == sorted((float(row["accuracy"]) for row in table), reverse=True)


def test_a_sweep_leaves_no_object_behind_if_the_quota_has_no_room_for_it(real, name, experiment):
    file = experiment(program(name))
    with mlk.namespace_of_its_own(real, f"quota-{name}") as namespace:
        real.kubectl_admin("create", "quota", "none", "-n", namespace, "--hard=pods=0")
        refused = real.mlk("sweep", "-n", namespace, file, "lr=1,2", check=6, timeout=60)
        assert f"no trial can run in namespace '{namespace}': the quota 'none' allows no pods" in refused.stderr
        left = real.kubectl_admin("get", "configmaps,jobs,secrets,services,pods", "-n", namespace, "-o", "name").stdout.split()
        assert left == ["configmap/kube-root-ca.crt"]


def test_the_start_of_a_sweep_takes_the_same_number_of_requests_for_any_number_of_trials(real, name, experiment):
    file = experiment(program(name))
    with FaultProxy(real.kubeconfig) as proxy:
        def requests(count):
            before = len(proxy.requests)
            unschedulable = ("--set", "workers.gpu=1", "-e", f"COUNT={count}")
            mlk.run(mlk.MLK, "--kubeconfig", proxy.kubeconfig, "sweep", *unschedulable, file, f"lr=1..{count}", check=0, timeout=120, env=real.env)
            return len(proxy.requests) - before
        few = requests(3)
        assert few > 5 and requests(1000) == few


def test_mlk_sweep_refuses_wrong_parameters_and_creates_nothing(embedded, name, experiment):
    file = experiment(program(name))
    for words, said in (
            (("lr=1..9:0",), "never comes from"), (("lrr=1", "lr=1"), "did you mean 'lr'?"), ((), "${sweep.lr} has no value"),
            (("lr=1", "mode=single,x"), "the point lr=1 mode=x cannot be run"),
            (("lr=0.1..0.9",), "has no end of values"), (("lr=1..1000", "steps=1..1000", "env.A=1..1000"), "the sweep has 1000000000 points")):
        refused = embedded.mlk("sweep", file, *words)
        assert refused.code == 2 and said in refused.stderr, refused
    assert embedded.mlk("submit", DIGITS).code == 2
    assert embedded.mlk("ls", name, "-o", "name", check=0).stdout == ""


def test_a_dry_run_of_a_sweep_shows_the_points_and_the_resources_that_they_need_and_creates_nothing(embedded, name):
    named = ("--set", f"name={name}", DIGITS)
    shown = embedded.mlk("sweep", "--dry-run", "--trial-minutes", 30, *named, check=0).stdout.splitlines()
    assert shown[0].split() == ["TRIAL", "train.model.hidden", "train.optimizer.lr"] and shown[10] == ""
    assert shown[12].split(None, 1)[1].startswith("9, 9 new") and "1.125 CPU-hours" in shown[14]
    told = embedded.mlk("sweep", "--dry-run=server", "-o", "json", *named, check=0).json()
    assert (told["trials"], told["new"], len(told["points"]), told["trial"]["pods"]) == (9, 9, 9, 1)
    assert told["cpu_hours"] is None and told["quota"] is None and told["nodes"]["trials"] >= 1
    assert embedded.mlk("ls", name, "-o", "name", check=0).stdout == ""
    assert "needs --dry-run" in embedded.mlk("sweep", "--trial-minutes", 1, *named).stderr