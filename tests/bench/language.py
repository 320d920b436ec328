"""Group language of make bench: the GPT of examples/gpt-cpu.yaml on two processors beside a bigram model of the same text.

Both are scored on the part of the text that neither has seen. The GPT has ten minutes.
"""

import os
import tempfile
import time

import bigram
import mlk

EXAMPLE = mlk.EXAMPLES / "gpt-cpu.yaml"
CONTEXT = 256
MINUTES = 10


def language(report):
    train, held_out = bigram.split((mlk.EXAMPLES / "data/opticks/train.txt").read_bytes())
    counts = bigram.bigram_loss(train, held_out, CONTEXT)
    with tempfile.TemporaryDirectory(prefix="mlk-bench-") as state:
        env = {"XDG_STATE_HOME": state, "XDG_CONFIG_HOME": state, "PATH": f"{mlk.BUILD}:{os.environ['PATH']}"}
        try:
            start = time.monotonic()
            told = mlk.run(mlk.MLK, "submit", "--local", "--follow", EXAMPLE, check=0, timeout=60 * MINUTES, env=env)
            seconds = time.monotonic() - start
        finally:
            mlk.run(mlk.MLK, "local", "down", timeout=60, env=env)
    lines = [dict(pair.split("=") for pair in line.split()[2:]) for line in told.stderr.splitlines() if " mlk step=" in line]
    losses = {int(line["step"]): float(line["held_out_loss"]) for line in lines if "held_out_loss" in line}
    first = next((step for step, loss in losses.items() if loss < counts), None)
    print(f"held-out loss by step: {losses}; a bigram model has {counts:.3f}, which the GPT is first seen below at step {first}")
    report.add("GPT-2 4x256, held-out loss", "nat", [list(losses.values())[-1]], "a bigram model", [counts], 1)
    report.hold("GPT-2 4x256, all its steps", "s", [seconds], 60 * MINUTES)
