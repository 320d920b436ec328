"""mlk-runtime with the plugin for GPUs. The kernels run on the emulator of tests/cuda, so these tests need no GPU."""

import pathlib

import mlk
import pytest
import torch_curves
from runtime_processes import ENDLESS, Run, assert_trained, newest_checkpoint, write_digits

PLUGIN = mlk.BUILD / "libmlk-cuda-emulated.so"
# A thread sanitizer sees races between the threads of mlk-runtime. To see those between the threads of a kernel takes nine tenths of its time.
# So unit_cuda looks for these races, and here only the first worker of each way to train does.
GPU = {"MLK_GPUS": "1", "MLK_GPU_LIBRARY": str(PLUGIN), "MLK_EMULATED_RACES": "0"}
WATCHED = {"MLK_EMULATED_RACES": "1"}

# Under a thread sanitizer the emulator takes minutes for these tests. unit_cuda runs the kernels under it. Each way to train is still tested.
HEAVY = pytest.mark.timed

pytestmark = [pytest.mark.runtime, pytest.mark.skipif(not PLUGIN.exists(), reason="the plugin on the emulator is only built on x86-64")]


def start_all(run, env, first=None):
    """Starts all processes and returns the workers. Servers hold their shards in memory of the host. first: more environment for worker 0."""
    for rank in range(run.servers_count):
        run.start("server", rank)
    return [run.start("worker", rank, **{**env, **(first or {} if rank == 0 else {})}) for rank in range(run.workers_count)]


def losses_of(folder, env, mode, workers=1, text=None, first=None, **config):
    """first: more environment for the first worker."""
    with Run(folder, mode, workers=workers, report_every=1, **{"steps": 50, **config}) as run:
        write_digits(run.data, held_out=16)  # no caller needs a precise accuracy, and to evaluate 200 images takes the emulator long
        if text:
            (run.data / "train.txt").write_text(text)
        processes = start_all(run, env, first)
        for process in processes:
            assert process.wait() == 0, process.errors()
        assert ("computes on emulated device" in processes[0].errors()) == bool(env)
        return [float(line["loss"]) for line in processes[0].lines() if "loss" in line]


@pytest.mark.parametrize("optimizer", [pytest.param({"type": "sgd", "lr": 0.02, "momentum": 0.9}, id="sgd", marks=HEAVY),
                                       pytest.param({"type": "adamw", "lr": 0.01}, id="adamw")])
@pytest.mark.parametrize(("mode", "workers", "more"), [
    pytest.param("single", 1, {}, id="single"),
    pytest.param("ps", 2, {"consistency": "sync", "servers": 2}, id="ps-sync"),
    pytest.param("ps", 1, {"consistency": "async", "servers": 2}, id="ps-async-1"),
    pytest.param("allreduce", 2, {}, id="allreduce-2", marks=HEAVY),
    pytest.param("allreduce", 4, {}, id="allreduce-4")])
def test_losses_on_a_gpu_match_those_of_a_processor(tmp_path, mode, workers, more, optimizer):
    losses = [losses_of(tmp_path / name, env, mode, workers, optimizer=optimizer, first=first, **more)
              for name, env, first in (("cpu", {}, None), ("gpu", GPU, WATCHED))]
    assert len(losses[0]) == len(losses[1]) >= 50
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)
    assert losses[1][-1] < losses[1][0] / 2


TEXT = 4 * "".join(f"the {a} {b} the {c}.\n" for a in ("river", "ship", "horse") for b in ("meets", "follows") for c in ("stone", "garden"))
MODELS = {"gpt": {"model": {"type": "gpt", "layers": 2, "width": 16, "heads": 2, "context": 24}, "data": {"format": "text", "batch": 2},
                  "text": TEXT, "optimizer": {"type": "adamw", "lr": 0.01}},
          "gpt with dropout": {"model": {"type": "gpt", "layers": 1, "width": 16, "heads": 2, "context": 24, "dropout": 0.1},
                               "data": {"format": "text", "batch": 2}, "text": TEXT, "optimizer": {"type": "adamw", "lr": 0.01}},
          "mlp with dropout": {"model": {"type": "mlp", "hidden": [32, 16], "dropout": 0.2}, "data": {"format": "idx", "batch": 32},
                               "optimizer": {"type": "adamw", "lr": 0.02}},
          "cnn": {"model": {"type": "cnn", "channels": [4, 4], "hidden": [8]}, "data": {"format": "idx", "batch": 32},
                  "optimizer": {"type": "adamw", "lr": 0.02}}}


@HEAVY
@pytest.mark.parametrize(("mode", "workers"), [("single", 1), ("ps", 2), ("allreduce", 2)])
@pytest.mark.parametrize("model", MODELS)
def test_losses_of_larger_models_on_a_gpu_match_those_of_a_processor(tmp_path, mode, workers, model):
    losses = [losses_of(tmp_path / name, env, mode, workers, consistency="sync", steps=20, **MODELS[model])
              for name, env in (("cpu", {}), ("gpu", GPU))]
    assert len(losses[0]) == len(losses[1]) >= 20
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)
    assert losses[1][-1] < losses[1][0] * 0.8


@HEAVY
@pytest.mark.parametrize("name", ["digits-mlp", "digits-cnn", "gpt"])
def test_losses_of_fifty_steps_on_a_gpu_match_those_of_pytorch(tmp_path, name):
    curve = torch_curves.RECORDED["curves"][name]
    run, losses = torch_curves.train(tmp_path, curve, env=GPU)
    (worker,) = run.processes.values()
    assert "computes on emulated device" in worker.errors()
    assert len(losses) == 50
    assert losses == pytest.approx(curve["losses"], abs=1e-4)


@HEAVY
@pytest.mark.parametrize("name", torch_curves.WITH_BFLOAT16)
def test_losses_with_bfloat16_products_on_a_gpu_match_those_of_pytorch_within_the_noise_of_pytorch(tmp_path, name):
    curve = torch_curves.RECORDED["curves"][name]
    _, losses = torch_curves.train(tmp_path, curve, env=GPU, precision="bfloat16")
    assert torch_curves.are_within_noise(losses, curve["bfloat16"]["gpu"])


# Heads of 64 numbers have the kernels for tensor cores. The learning rate is high, so that after few steps losses differ from those with float32.
SMALL_GPT = {**MODELS["gpt"], "model": {"type": "gpt", "layers": 1, "width": 64, "heads": 1, "context": 24},
             "optimizer": {"type": "adamw", "lr": 0.01}, "steps": 10}


@HEAVY
@pytest.mark.parametrize(("mode", "workers", "model"), [("single", 1, {}), ("single", 1, SMALL_GPT), ("ps", 2, SMALL_GPT), ("allreduce", 2, SMALL_GPT)],
                         ids=["mlp", "gpt", "gpt-ps", "gpt-allreduce"])
def test_losses_with_bfloat16_products_on_a_gpu_nearly_match_those_of_a_processor(tmp_path, mode, workers, model):
    def losses_with(name, env, precision):
        return losses_of(tmp_path / name, env, mode, workers, consistency="sync", precision=precision, **{"steps": 20, **model})
    losses = [losses_with(name, env, "bfloat16") for name, env in (("cpu", {}), ("gpu", GPU))]
    assert len(losses[0]) == len(losses[1]) >= 10
    assert losses[1][:5] == pytest.approx(losses[0][:5], rel=0.01)
    assert losses[1] == pytest.approx(losses[0], rel=0.1, abs=0.01)
    assert losses[1] != pytest.approx(losses_with("whole", GPU, "float32"), abs=1e-6)
    assert losses[1][-1] < losses[1][0] * 0.8


# More than 4 MiB, and than a bucket of a sum: gradients are copied to the host while others are computed.
@HEAVY
@pytest.mark.parametrize(("mode", "clip", "parts"), [("ps", {}, {}), ("ps", {"clip": 0.5}, {}), ("ps", {}, {"micro_batch": 2}), ("allreduce", {}, {})],
                         ids=["ps", "ps-clips", "ps-parts", "allreduce"])
def test_losses_on_a_gpu_match_those_of_a_processor_if_gradients_are_copied_while_other_gradients_are_computed(tmp_path, mode, clip, parts):
    config = {"model": {"type": "mlp", "hidden": [1024, 1024]}, "data": {"format": "idx", "batch": 4, **parts}, "steps": 3,
              "optimizer": {"type": "sgd", "lr": 0.02, "momentum": 0.9, **clip}}
    losses = [losses_of(tmp_path / name, env, mode, 2, consistency="sync", servers=2, **config)
              for name, env in (("cpu", {}), ("gpu", GPU))]
    assert len(losses[0]) == len(losses[1]) >= 3
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)


SMALL_BATCH = {"format": "idx", "batch": 4}  # reaches a good accuracy, too, and takes the emulator half as long


def test_async_training_on_gpus_reaches_its_end_and_a_good_accuracy(tmp_path):
    with Run(tmp_path, "ps", workers=2, consistency="async", data=SMALL_BATCH) as run:
        workers = start_all(run, GPU)
        assert_trained(workers, run.steps, workers[0])


def test_gpus_and_processors_train_one_model_together(tmp_path):
    with Run(tmp_path, "allreduce", workers=2, data=SMALL_BATCH) as run:
        workers = [run.start("worker", 0, **GPU), run.start("worker", 1)]
        assert_trained(workers, run.steps, workers[0])


def test_a_killed_run_on_a_gpu_continues_and_its_last_checkpoint_has_the_bits_of_an_undisturbed_run(tmp_path):
    settings = {"workers": 1, "checkpoint": {"every": 10, "keep": 3}, "data": SMALL_BATCH}
    with Run(tmp_path / "cut", "single", steps=ENDLESS, step_delay_ms=5, **settings) as cut:
        worker = cut.start("worker", 0, **GPU)
        cut.until_step(worker, 50)
        worker.kill()
        _, (worker,) = cut.train_what_is_saved(**GPU)
        assert "goes on from the checkpoint" in worker.errors()
    with Run(tmp_path / "whole", "single", steps=cut.steps, checkpoints=True, **settings) as whole:
        worker = whole.start("worker", 0, **GPU)
        assert_trained([worker], whole.steps, worker)
    assert newest_checkpoint(cut.checkpoints)[1] == newest_checkpoint(whole.checkpoints)[1]


def test_a_run_replaces_a_lost_worker_that_computes_on_a_gpu(tmp_path):
    with Run(tmp_path, "allreduce", workers=3, minimum=1, steps=ENDLESS, step_delay_ms=5, data=SMALL_BATCH) as run:
        workers = start_all(run, GPU)
        run.until_step(workers[0], 30)
        workers[2].kill()
        run.until(lambda: workers[0].members() == 2, "the loss to be noticed")
        workers[2] = run.start("worker", 2, **GPU)
        run.until_world(workers[0], 3)
        run.finish([], workers, **GPU)


@pytest.mark.skipif(not (mlk.BUILD / "libmlk-cuda.so").exists() or pathlib.Path("/dev/nvidiactl").exists(),
                    reason="nvcc was not there, or a GPU is")
def test_the_real_plugin_says_in_one_sentence_that_this_machine_has_no_nvidia_driver(tmp_path):
    with Run(tmp_path, "single", workers=1) as run:
        worker = run.start("worker", 0, MLK_GPUS="1")
        assert worker.wait() == 70
        assert worker.errors() == "mlk-runtime worker/0: there is no NVIDIA driver on this machine\n"


@pytest.mark.parametrize(("emulated", "sentence"), [
    ({"MLK_EMULATED_DEVICES": "0"}, "this machine has no GPU"),
    ({"MLK_EMULATED_DRIVER": "12040"}, "the NVIDIA driver is for CUDA 12.4, and mlk-runtime needs one for CUDA 13.0 or newer"),
    ({"MLK_EMULATED_CAPABILITY": "75"}, "emulated device has compute capability 7.5, and mlk-runtime needs 8.0 or newer"),
    ({"MLK_EMULATED_MEMORY": "1000"}, "emulated device: out of memory of the device: "),
    ({"MLK_GPU_LIBRARY": "/nowhere/libmlk-cuda.so"}, "the library for GPUs cannot be loaded: /nowhere/libmlk-cuda.so: "),
], ids=["none", "driver", "too-old", "memory", "library"])
def test_a_worker_says_in_one_sentence_why_it_cannot_use_its_gpu(tmp_path, emulated, sentence):
    with Run(tmp_path, "single", workers=1) as run:
        worker = run.start("worker", 0, **{**GPU, **emulated})
        assert worker.wait() == 70
        assert worker.errors().splitlines()[-1].startswith(f"mlk-runtime worker/0: {sentence}")
        assert worker.result()["message"].startswith(sentence)
        assert not worker.lines()


def test_a_run_on_a_gpu_also_ends_if_its_loss_is_not_a_number(tmp_path):
    with Run(tmp_path, "single", workers=1, model={"type": "mlp", "hidden": [16, 16, 16, 16]},
             optimizer={"type": "sgd", "lr": 1e6, "momentum": 0.9}) as run:
        worker = run.start("worker", 0, **GPU)
        assert worker.wait() == 66
        assert "diverged: the loss is not a number" in worker.errors()


@HEAVY
def test_a_run_ends_without_a_wrong_checkpoint_if_the_memory_of_its_gpu_is_faulty(tmp_path):
    settings = {"workers": 1, "checkpoints": True, "checkpoint": {"every": 10, "keep": 3}, "data": SMALL_BATCH}
    with Run(tmp_path, "single", **settings) as run:
        worker = run.start("worker", 0, **{**GPU, "MLK_EMULATED_ECC": "2000"}, MLK_NVML_LIBRARY=str(mlk.BUILD / "libmlk-fake-nvml.so"),
                           MLK_FAKE_NVML="xid-48")
        assert worker.wait() == 70
        assert "uncorrectable ECC error encountered (Xid 48); the memory of this GPU is faulty, so its node should be drained" in worker.errors()
        assert worker.result()["message"].startswith("emulated device: ")
        failed_at = worker.step()
        worker = run.start("worker", 0, **GPU)
        assert_trained([worker], run.steps, worker)
        assert 0 < worker.result()["restored_step"] <= failed_at + 10
        with Run(tmp_path / "whole", "single", **settings) as undisturbed:
            other = undisturbed.start("worker", 0, **GPU)
            assert_trained([other], undisturbed.steps, other)
            assert newest_checkpoint(run.checkpoints)[1] == newest_checkpoint(undisturbed.checkpoints)[1]


@pytest.mark.parametrize(("fake", "told"), [("", {"gpu_util": "0.87", "gpu_memory_gib": "3.0", "gpu_watts": "312"}),
                                            ("no-power", {"gpu_util": "0.87", "gpu_memory_gib": "3.0"})])
def test_metrics_lines_report_how_much_the_gpu_is_used(tmp_path, fake, told):
    with Run(tmp_path, "single", workers=1, steps=40) as run:
        worker = run.start("worker", 0, **GPU, MLK_NVML_LIBRARY=str(mlk.BUILD / "libmlk-fake-nvml.so"), MLK_FAKE_NVML=fake)
        assert_trained([worker], run.steps, worker)
        line = worker.lines()[-1]
        assert {key: value for key, value in line.items() if key.startswith("gpu_")} == told


def test_metrics_lines_report_tokens_per_second_if_the_model_predicts_tokens(tmp_path):
    with Run(tmp_path, "single", workers=1, steps=20, **{key: value for key, value in MODELS["gpt"].items() if key != "text"}) as run:
        (run.data / "train.txt").write_text(TEXT)
        worker = run.start("worker", 0)
        assert worker.wait() == 0
        line = worker.lines()[-1]
        assert float(line["tokens_per_s"]) == pytest.approx(24 * float(line["samples_per_s"]), rel=0.05, abs=24)
