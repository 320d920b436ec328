"""mlk shows the output of programs without progress bars and colours, with their numbers and the program's own error. On both clusters."""

import json

FILE = """
name: {name}
mode: single
run: {program}
workers: {{cpu: 20m, memory: 32Mi}}
restart: {{retries: 0}}
"""

BARS = r"""for i in 1 2 3; do printf '\rstep %d/3 loss=0.%d' $i $i; done
printf '\n\033[31mRuntimeError\033[0m: CUDA out of memory\n'; printf '\rwriting 1/2\rwriting 2/2'; exit 3"""

SEQUENCES = r"""printf '\033[01;31m\033[Kmatch\033[m\033[K rest\n'
printf '\033[31mred\033(B\033[m tput\n'
printf '\033[?25l\033[2K\033[1GDownloading 1/2\033[2K\033[1GDownloading 2/2\033[?25h\n'
printf '1/3 [=>...]\b\b\b\b\b\b\b\b\b\b\b3/3 [====]\n'
printf '\033]8;;http://example.com\033\\link\033]8;;\033\\ \033]0;title\007text\n'"""


def file_of(name, program):
    return FILE.format(name=name, program=json.dumps(program))


def submitted(cluster, name, experiment, program, code):
    return cluster.mlk("submit", "--wait", experiment(file_of(name, program)), check=code).stdout.strip()


def test_mlk_status_finds_the_error_of_a_program_above_a_progress_bar_and_shows_no_escape_sequences(cluster, name, experiment):
    run = submitted(cluster, name, experiment, BARS, 5)
    told = cluster.mlk("status", run, "-o", "json", check=0).json()
    assert told["why"] == "worker/0: exit code 3: RuntimeError: CUDA out of memory"
    assert told["first_failure"]["message"] == "step 3/3 loss=0.3\nRuntimeError: CUDA out of memory\nwriting 2/2"
    assert "CUDA out of memory" in cluster.mlk("ls", name, check=0).stdout


def test_mlk_logs_removes_complete_escape_sequences(cluster, name, experiment):
    run = submitted(cluster, name, experiment, SEQUENCES, 0)
    lines = [line.removeprefix("worker/0 ") for line in cluster.mlk("logs", run, check=0).stdout.splitlines()]
    assert lines == ["match rest", "red tput", "Downloading 2/2", "3/3 [====]", "link text"]


def test_mlk_finds_metrics_behind_the_prefix_of_a_logger_and_keeps_infinite_values(cluster, name, experiment):
    run = submitted(cluster, name, experiment, "echo INFO:root:mlk step=2 loss=inf", 0)
    told = cluster.mlk("status", run, "-o", "json", check=0).json()
    assert told["result"]["step"] == 2 and told["result"]["metrics"] == {"loss": "inf"}
    assert "loss inf" in cluster.mlk("status", run, check=0).stdout
    found = cluster.mlk("ls", name, "--where", "loss == inf && loss > 1", "-o", "name", check=0).stdout
    assert found.split() == [run]


SWEEP = """
  parameters: {{x: [0.5, 0.4]}}
  objective: {{minimize: loss{more}}}
"""


def test_a_sweep_reads_a_number_before_a_comma(cluster, name, experiment):
    text = file_of(name, 'echo "epoch 1, loss: ${sweep.x}, acc: 0.9"') + "sweep:" + SWEEP.format(more="")
    told = cluster.mlk("sweep", "--wait", experiment(text), check=0, timeout=120)
    assert "best loss 0.4" in told.stderr


def test_a_regex_finds_a_number_in_a_sentence_but_without_a_regex_the_sweep_quotes_the_line(cluster, name, experiment):
    line = 'echo "epoch 1, loss is ${sweep.x}, acc: 0.9"'
    text = file_of(name, line) + "sweep:" + SWEEP.format(more=", regex: 'loss is (\\S+)'")
    cluster.mlk("sweep", "--wait", experiment(text), check=0, timeout=120)
    text = file_of(name + "b", line) + "sweep:" + SWEEP.format(more="")
    failed = cluster.mlk("sweep", "--wait", experiment(text, "b.yaml"), check=5, timeout=120)
    assert "never reported loss: the nearest line is 'epoch 1, loss is 0." in failed.stderr


def test_the_failure_of_a_trial_has_neither_a_progress_bar_nor_colours(cluster, name, experiment):
    text = file_of(name, BARS + " # ${sweep.x}") + "sweep:" + SWEEP.format(more="")
    failed = cluster.mlk("sweep", "--wait", experiment(text), check=5, timeout=120)
    sweep = failed.stdout.strip()
    failures = {row["failure"] for row in cluster.mlk("results", sweep, "-o", "json", check=0).json()}
    assert failures == {"exit code 3: RuntimeError: CUDA out of memory"}
    for told in (failed.stderr, cluster.mlk("status", sweep, check=0).stdout, cluster.mlk("results", sweep, check=0).stdout):
        assert "CUDA out of memory" in told and "\x1b" not in told and "?[31m" not in told and "\r" not in told
