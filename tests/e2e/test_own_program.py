"""The example with the user's own Python program, as the README shows it."""

import pathlib
import re

import mlk

EXAMPLE = mlk.EXAMPLES / "own-program.yaml"


def test_the_python_example_prints_without_delay_and_continues_from_its_checkpoint_after_a_stop(embedded, name):
    run = embedded.mlk("submit", "--set", f"name={name}", "-e", "STEPS=400", "-e", "DELAY=0.01", EXAMPLE, check=0).stdout.strip()

    def log():
        return embedded.mlk("logs", run, "--role", "worker", "--rank", "0", check=0).stdout
    mlk.wait_until(lambda: "step=150" in log(), "lines of a program that runs on")
    embedded.mlk("stop", run, check=0)
    assert embedded.mlk("status", run, "-o", "json", check=0).json()["phase"] == "Stopped"
    embedded.mlk("resume", run, check=0)
    embedded.mlk("wait", run, check=0)
    said = log()
    assert int(re.search(r"going on from step (\d+)", said).group(1)) >= 150
    assert re.search(r"mlk step=400 loss=0\.0\d+ ", said), said
    assert re.search(r"y = (2\.9|3\.0)\d x \+ -(0\.9|1\.0)\d", said), said


def test_a_program_finds_its_checkpoint_folder_and_mlk_status_shows_the_folder_only_if_a_checkpoint_is_in_it(embedded, name, experiment):
    """The checkpoint folder exists when the program starts, so the program may write there at once. The number of threads is that of its CPUs,
    and HOME is the HOME of this machine."""
    text = f"name: {name}\nmode: single\nrun: ['sh', '-c', 'COMMAND']\nworkers: {{cpu: 2, memory: 32Mi}}\ncheckpoint: {{volume: {{pvc: {name}}}}}\n"
    words = 'test -d "$MLK_CHECKPOINTS" && echo "threads $OMP_NUM_THREADS, home $HOME"'
    run = embedded.mlk("submit", "--wait", experiment(text.replace("COMMAND", words)), check=0).stdout.strip()
    said = embedded.mlk("logs", run, check=0).stdout
    assert "threads 2, home " in said
    assert "/mlk/home" not in said
    assert "checkpoint" not in embedded.mlk("status", run, check=0).stdout
    run = embedded.mlk("submit", "--wait", experiment(text.replace("COMMAND", 'echo w > "$MLK_CHECKPOINTS/final.pt"')), check=0).stdout.strip()
    shown = re.search(r"checkpoint +in (\S+)", embedded.mlk("status", run, check=0).stdout)
    assert shown, "the status names no checkpoint"
    assert (pathlib.Path(shown.group(1)) / "final.pt").read_text() == "w\n"
    run = embedded.mlk("submit", "--wait", "-e", "OMP_NUM_THREADS=7", experiment(text.replace("COMMAND", words)), check=0).stdout.strip()
    assert "threads 7, home " in embedded.mlk("logs", run, check=0).stdout
