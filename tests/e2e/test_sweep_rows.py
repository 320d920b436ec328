"""ls shows for a sweep the same phase and counts as status and wait. On both clusters."""

import json

import pytest

SWEEP = """
name: {name}
mode: single
run: {program}
workers: {{cpu: 20m, memory: 32Mi}}
restart: {{retries: 0}}
sweep: {{parameters: {{k: [1, 2, 3]}}, objective: maximize y, max_failures: {failures}}}
"""


def sweep_of(name, program, failures):
    return SWEEP.format(name=name, program=json.dumps(program), failures=failures)


def row(cluster, name):
    (found,) = cluster.mlk("ls", name, "-o", "json", check=0).json()
    return found["phase"], found["result"]["step"], found["steps"], found["why"]


def test_mlk_ls_shows_a_sweep_as_failed_with_the_same_reason_as_mlk_status_if_its_trials_never_report_the_metric(cluster, name, experiment):
    cluster.mlk("sweep", "--wait", experiment(sweep_of(name, "echo z=${sweep.k}", 1)), check=5, timeout=120)
    phase, step, steps, why = row(cluster, name)
    assert (phase, step, steps) == ("Failed", 3, 3) and "never reported y" in why
    assert why == cluster.mlk("status", name, "-o", "json", check=0).json()["why"]
    chosen = cluster.mlk("ls", name, "--where", "phase == Failed", "-o", "name", check=0).stdout.split()
    assert len(chosen) == 1
    assert cluster.mlk("ls", name, "--where", "phase == Succeeded", "-o", "name", check=0).stdout == ""


def test_mlk_ls_counts_a_trial_once_if_it_was_started_again(cluster, name, experiment, tmp_path):
    if not cluster.embedded:
        pytest.skip("its trials remember in a folder of this machine that they have failed")
    program = f"f={tmp_path}/seen-${{sweep.k}}; if [ ${{sweep.k}} = 1 ] || [ -e $f ]; then echo y=${{sweep.k}}; else touch $f; exit 1; fi"
    file = experiment(sweep_of(name, program, 9))
    cluster.mlk("sweep", "--wait", file, timeout=120)
    assert row(cluster, name)[1:] == (3, 3, "2 of 3 trials failed")
    cluster.mlk("sweep", "--wait", "--retry-failed", file, check=0, timeout=120)
    assert row(cluster, name) == ("Succeeded", 3, 3, "")
