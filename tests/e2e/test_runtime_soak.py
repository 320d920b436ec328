"""Disturbs whole runs at random, again and again, until MLK_SOAK_KILLS processes were killed (50; `make soak`: 1000).

The seed determines the sequence of disturbances, but not the moments in the run when they happen. A failure prints the seed.
MLK_SOAK_SEED sets it.
"""

import os
import random
import secrets

import pytest
from runtime_chaos import Chaos, distance, final_state, training_loss
from runtime_processes import Run

pytestmark = pytest.mark.runtime

KILLS = int(os.environ.get("MLK_SOAK_KILLS") or 50)
SEED = os.environ.get("MLK_SOAK_SEED") or str(secrets.randbelow(10**6))
WORKERS, BATCH = 4, 16

MODES = {"async": ("ps", "async"), "sync": ("ps", "sync"), "staleness": ("ps", {"staleness": 2}), "allreduce": ("allreduce", "sync")}


def settings(mode, consistency):
    exact = consistency == "sync"
    # A server that has lost its momentum computes other weights. So the exact comparison uses no momentum.
    momentum = 0.0 if mode == "ps" and exact else 0.9
    return {"mode": mode, "consistency": consistency, "workers": WORKERS, "servers": 2, "minimum": 1, "checkpoints": True,
            "steps": 300 if exact else 1200, "report_every": 1, "checkpoint": {"every": 25, "keep": 3},
            "optimizer": {"type": "sgd", "lr": 0.2 if momentum == 0 else 0.02, "momentum": momentum}}


def undisturbed(folder, mode, consistency, **other):
    """The tensors at the end of a run without disturbances, and their loss."""
    with Run(folder, **{**settings(mode, consistency), **other}) as run:
        servers, workers = run.start_all()
        for process in servers + workers:
            assert process.wait(120) == 0, process.errors()
        tensors = final_state(run)[2]
        return tensors, training_loss(run, tensors)


def assert_counted(run, exact):
    """Checks that the run is trained to its end with the right number of samples. Returns its last tensors."""
    step, position, tensors = final_state(run)
    assert step == run.steps
    assert position == step * BATCH * (WORKERS if exact else 1)
    assert any(process.done() and process.result().get("step") == run.steps for process in run.processes.values())
    return tensors


@pytest.mark.parametrize("name", MODES)
def test_a_disturbed_run_ends_with_the_same_result_as_an_undisturbed_run(tmp_path, name):
    mode, consistency = MODES[name]
    exact = consistency == "sync"
    print(f"MLK_SOAK_SEED={SEED}")
    # Only the bound of runs that are not exact depends much on how far undisturbed runs differ, so only these need a third one.
    calm = [undisturbed(tmp_path / f"calm-{delay}", mode, consistency, step_delay_ms=delay) for delay in ((0, 5) if exact else (0, 2, 5))]
    noise = max(distance(calm[0][0], tensors) for tensors, _ in calm)
    losses = [loss for _, loss in calm]
    left, runs = -(-KILLS // len(MODES)), 0
    while left > 0:
        rng = random.Random(f"{SEED}-{name}-{runs}")
        with Run(tmp_path / str(runs), **settings(mode, consistency), step_delay_ms=10, wires=True) as run:
            chaos = Chaos(run, rng, left)
            left -= chaos.play()
            tensors = assert_counted(run, exact)
            loss = training_loss(run, tensors)
            print(f"run {runs}: {chaos.kills} killed, distance {distance(calm[0][0], tensors):.2g} (undisturbed {noise:.2g}), "
                  f"loss {loss:.5f} (undisturbed {min(losses):.5f} to {max(losses):.5f})")
            if exact:  # a step that was left out, or applied twice, is far beyond the noise
                assert distance(calm[0][0], tensors) <= max(10 * noise, 1e-4), chaos.story()
            assert loss <= max(losses) + max(3 * (max(losses) - min(losses)), 0.01), chaos.story()
        runs += 1
        assert runs < 10 + KILLS, "runs end before anything is killed"
