"""The example with a Python program of one's own, as the README shows it."""

import re

import mlk

EXAMPLE = mlk.EXAMPLES / "own-program.yaml"


def test_a_python_program_travels_with_the_run_prints_at_once_and_goes_on_after_a_stop(embedded, name):
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
