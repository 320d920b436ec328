"""The results of training: compared with PyTorch, and the same in every mode."""

import pathlib
import struct

import pytest
import torch_curves
from runtime_chaos import final_state
from runtime_processes import Run, assert_trained

pytestmark = pytest.mark.runtime

# Recorded by tests/torch_curves/record from the same initial weights, batches and learning rates.
CURVES = torch_curves.RECORDED["curves"]
COSINE = CURVES["cosine"]["run"]["optimizer"]


def worst(ours, theirs):
    assert len(ours) == len(theirs)
    return max(abs(a - b) for a, b in zip(ours, theirs))


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
def test_losses_and_weights_of_fifty_steps_match_those_of_pytorch(tmp_path, curve):
    run, losses = torch_curves.train(tmp_path, curve)
    assert len(losses) == 50
    assert worst(losses, curve["losses"]) < 1e-4
    if "parameters" not in curve:  # larger models
        return
    tensors = final_state(run)[2]
    assert tensors.keys() == curve["parameters"].keys()
    for name, values in curve["parameters"].items():
        assert worst(tensors[name], values) < 1e-4


@pytest.mark.parametrize("name", torch_curves.WITH_BFLOAT16)
def test_losses_with_bfloat16_products_match_those_of_pytorch_within_the_noise_of_pytorch(tmp_path, name):
    _, losses = torch_curves.train(tmp_path, CURVES[name], precision="bfloat16")
    assert torch_curves.are_within_noise(losses, CURVES[name]["bfloat16"]["processor"])


def test_bfloat16_products_change_the_losses_only_a_little_and_do_not_round_the_weights(tmp_path):
    curve = next(iter(CURVES.values()))
    run, losses = torch_curves.train(tmp_path, curve, precision="bfloat16")
    own = "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    (worker,) = run.processes.values()
    assert own or "does not multiply bfloat16" in worker.errors()
    assert 1e-6 < worst(losses, curve["losses"]) < 0.03
    for name, values in final_state(run)[2].items():
        assert worst(values, curve["parameters"][name]) < 0.03
        assert name.endswith("bias") or any(struct.pack("<f", value)[:2] != bytes(2) for value in values), "these were rounded"


@pytest.mark.parametrize("mode,servers", [("ps", 1), ("ps", 3), ("allreduce", 0)])
def test_every_mode_with_one_worker_computes_the_same_weights_to_the_bit(tmp_path, mode, servers):
    tensors = []
    for each in ("single", mode):
        with Run(tmp_path / each, each, workers=1, servers=servers, consistency="sync", steps=100, optimizer=COSINE,
                 checkpoints=True) as run:
            processes = sum(run.start_all(), [])
            for process in processes:
                assert process.wait() == 0, process.errors()
            tensors.append(final_state(run)[2])
    assert tensors[0] == tensors[1]


@pytest.mark.parametrize("mode,consistency", [("ps", "async"), ("ps", {"staleness": 2}), ("allreduce", "sync")],
                         ids=["async", "staleness", "allreduce"])
def test_several_workers_train_with_adam_and_a_schedule_of_the_learning_rate(tmp_path, mode, consistency):
    with Run(tmp_path, mode, workers=3, servers=2, consistency=consistency, optimizer=COSINE) as run:
        servers, workers = run.start_all()
        assert_trained(servers + workers, run.steps, workers[0])


@pytest.mark.parametrize("mode", ["ps", "allreduce"])
def test_a_killed_run_continues_with_the_state_of_its_optimizer_and_its_schedule(tmp_path, mode):
    tensors = []
    for cut in (False, True):
        with Run(tmp_path / str(cut), mode, workers=1, servers=2, consistency="sync", steps=200, optimizer=COSINE,
                 checkpoints=True, checkpoint={"every": 20, "keep": 2}, step_delay_ms=10 if cut else 0) as run:
            servers, workers = run.start_all()
            if cut:
                run.until_step(workers[0], 70)
                for process in servers + workers:
                    process.kill()
                servers, workers = run.start_all()
            for process in servers + workers:
                assert process.wait() == 0, process.errors()
            assert (workers[0].result()["restored_step"] > 0) == cut
            tensors.append(final_state(run)[2])
    assert tensors[0] == tensors[1]
