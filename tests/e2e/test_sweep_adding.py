"""Trials that are added to a sweep while it runs, or with other code. On both clusters."""

import pytest

import mlk
from test_sweeps import handle, program, results, start, status


@pytest.mark.nodes
def test_points_that_are_added_to_a_running_sweep_become_trials_like_its_first_points(cluster, name, experiment):
    file = experiment(program(name, "sleep 2; echo accuracy=0.$LR", parallel=1))
    sweep = start(cluster, file, "lr=1,2").stdout.strip()
    added = cluster.mlk("sweep", file, "lr=1,2,3", timeout=150)
    assert added.code == 0 and added.stdout.strip() == sweep, added
    assert "3 trials: 1 new" in added.stderr and "it still runs, and no trials can be added to a Job" in added.stderr
    assert [(row["trial"], row["objective"], row["state"]) for row in results(cluster, sweep)] == [
        (2, 0.3, "Succeeded"), (1, 0.2, "Succeeded"), (0, 0.1, "Succeeded")]
    assert cluster.mlk("ls", name, "-o", "name", check=0).stdout.split() == [sweep]
    told = status(cluster, sweep)
    assert told["phase"] == "Succeeded" and told["trials"] == 3
    for trial in (1, 2):
        assert f"of lr {trial + 1}" in cluster.mlk("logs", f"{sweep}/{trial}", check=0).stdout
    again = cluster.mlk("sweep", file, "lr=1,2,3", timeout=60)
    assert again.code == 0 and "3 trials: 0 new" in again.stderr, again
    assert cluster.mlk("delete", sweep, timeout=150).code == 0
    assert cluster.mlk("status", sweep).code == 3


def test_a_dry_run_of_a_sweep_shows_how_many_trials_are_new_and_what_they_need(cluster, name, experiment):
    file = experiment(program(name))
    told = cluster.mlk("sweep", file, "lr=1,2", "--dry-run=server", "--trial-minutes", 6, "-o", "json", check=0).json()
    assert (told["trials"], told["new"], told["parallel"]) == (2, 2, 2)
    assert told["cpu_hours"] == pytest.approx(2 * 0.02 * 0.1) and told["hours"] == pytest.approx(0.1)
    # An ordinary user may not list the nodes.
    assert told["nodes"] == ({"trials": 2, "limit": None} if cluster.embedded else None) and told["quota"] is None
    assert cluster.mlk("ls", name, "-o", "name", check=0).stdout == ""


def test_a_sweep_goes_on_with_the_option_same_even_if_its_program_has_changed(embedded, name, experiment):
    sweep = start(embedded, "--wait", experiment(program(name)), "lr=1").stdout.strip()
    changed = experiment(program(name, "echo accuracy=0.9"), "changed.yaml")
    told = embedded.mlk("sweep", "--dry-run=server", changed, "lr=1,2", "-o", "json", check=0).json()
    assert told["sweep"] != sweep and told["new"] == 2
    told = embedded.mlk("sweep", "--dry-run=server", "--same", changed, "lr=1,2", "-o", "json", check=0).json()
    assert (told["sweep"], told["trials"], told["new"]) == (sweep, 2, 1) and told["trial"]["minutes"] is not None
    ended = embedded.mlk("sweep", "--same", "--wait", changed, "lr=1,2", timeout=60)
    assert ended.code == 0 and "1 trials stay as they are" in ended.stderr, ended
    assert [(row["trial"], row["objective"]) for row in results(embedded, sweep)] == [(1, 0.9), (0, 0.1)]
    assert embedded.mlk("sweep", "--same", "--dry-run", changed, "lr=1").code == 2


def test_two_spellings_of_a_number_are_one_value_but_programs_get_each_number_as_it_was_written(embedded, name, experiment):
    file = experiment(program(name))
    sweep = start(embedded, "--wait", file, "lr=8,3.10").stdout.strip()
    assert "of lr 3.10" in embedded.mlk("logs", f"{sweep}/1", check=0).stdout
    again = start(embedded, "--wait", file, "lr=8.0,3.1")
    assert again.stdout.strip() == sweep and "2 trials: 0 new" in again.stderr, again
    assert "search random finds only 2 different points" in start(embedded, "--dry-run", "--trials", 5, file, "lr=1,2").stderr


def test_a_report_in_the_folder_of_the_code_does_not_make_a_new_sweep(embedded, name, experiment, tmp_path):
    file = experiment(program(name) + "code: .\n")
    (tmp_path / "train.py").write_text("print(1)\n")
    sweep = start(embedded, "--wait", file, "lr=1,2").stdout.strip()
    embedded.mlk("report", sweep, cwd=tmp_path, check=0)
    (tmp_path / "best.yaml").write_text(embedded.mlk("best", sweep, "-o", "experiment", check=0).stdout)
    assert (tmp_path / f"{sweep}.html").exists()
    again = start(embedded, "--wait", file, "lr=1,2")
    assert again.stdout.strip() == sweep and "2 trials: 0 new" in again.stderr, again
    (tmp_path / "notes.txt").write_text("n")
    (tmp_path / "train.py").write_text("print(2)\n")
    told = start(embedded, "--dry-run=server", file, "lr=1,2").stderr
    assert f"this is a new sweep: {sweep} differs only in its code: +notes.txt, train.py; --same continues {sweep}" in told, told
    kept = start(embedded, "--same", "--wait", file, "lr=1,2")
    assert kept.stdout.strip() == sweep and "2 trials: 0 new" in kept.stderr, kept


def test_a_sweep_keeps_the_search_of_its_file_with_the_option_trials(embedded, name, experiment):
    text = program(name).replace("sweep: {", "sweep: {search: {tpe: {trials: 50, seed: 7}}, ")
    told = embedded.mlk("sweep", "--dry-run", "--trials", 7, experiment(text), "lr=1..20", "-o", "json", check=0).json()
    assert (told["search"], told["trials"]) == ("tpe", 7)
    plain = experiment(program(name), "plain.yaml")
    told = embedded.mlk("sweep", "--dry-run", "--trials", 7, plain, "lr=1..20", "-o", "json", check=0).json()
    assert (told["search"], told["trials"]) == ("random", 7)
