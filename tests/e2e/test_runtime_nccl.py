"""Sums over emulated devices by a fake NCCL (tests/cuda/nccl). Ranks join, are lost, freeze, or hang in a call of NCCL."""

import os
import pathlib
import signal

import mlk
import pytest
from runtime_processes import ENDLESS, Run, assert_trained, newest_checkpoint
from test_runtime_gpu import GPU, HEAVY, MODELS, losses_of, pytestmark  # noqa: F401

FAKE = {"MLK_NCCL_LIBRARY": str(mlk.BUILD / "libmlk-fake-nccl.so")}


def nccl(folder, fault=""):
    return {**GPU, **FAKE, "MLK_FAKE_NCCL_FOLDER": str(folder), "MLK_FAKE_NCCL": fault}


@HEAVY
@pytest.mark.parametrize(("model", "workers"), [("mlp", 2), ("mlp", 4), ("gpt", 2), ("gpt with dropout", 2), ("mlp with dropout", 2), ("cnn", 4)])
def test_losses_match_those_of_processors_if_nccl_computes_the_sums(tmp_path, model, workers):
    settings = MODELS.get(model, {"optimizer": {"type": "adamw", "lr": 0.01}})
    losses = [losses_of(tmp_path / name, env, "allreduce", workers, steps=20, **settings) for name, env in (("cpu", {}), ("gpu", nccl(tmp_path)))]
    assert len(losses[0]) == len(losses[1]) >= 20
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)
    assert any("sums go by NCCL" in log.read_text() for log in (tmp_path / "gpu").glob("worker-0-*.log"))


def test_nccl_computes_the_sums_of_two_ranks(tmp_path):
    with Ranks(tmp_path, "allreduce", workers=2, steps=20, report_every=1) as run:
        ranks = run.begin()
        for rank in ranks:
            assert rank.wait() == 0, rank.errors()
        assert "sums go by NCCL, over 2 GPUs" in ranks[0].errors()
        losses = [float(line["loss"]) for line in ranks[0].lines() if "loss" in line]
        assert losses[-1] < 0.75 * losses[0]
        assert any(float(line.get("nccl_gb_per_s", 0)) > 0 for line in ranks[0].lines())


class Ranks(Run):
    """A run of ranks with emulated devices. Each rank has the fault that is given for it."""

    def begin(self, faults=()):
        return [self.enter(rank, dict(faults).get(rank, "")) for rank in range(self.workers_count)]

    def start_all(self):
        return [], self.begin()

    def enter(self, rank, fault="", **env):
        return self.start("worker", rank, **{**nccl(self.folder, fault), **env})


# With these, few steps and small batches are enough for a good accuracy. The emulator takes long for each step and each sample.
SOON = {"steps": 80, "data": {"format": "idx", "batch": 4}, "optimizer": {"type": "adamw", "lr": 0.02}}


def slow(tmp_path, **more):
    return Ranks(tmp_path, "allreduce", step_delay_ms=5, minimum=1, **{"workers": 3, **SOON, **more})


@HEAVY
def test_ranks_form_a_new_nccl_group_when_a_rank_is_killed_and_when_the_rank_is_back(tmp_path):
    with slow(tmp_path, steps=ENDLESS) as run:
        workers = run.begin()
        run.until_logged(workers[0], "sums go by NCCL, over 3 GPUs")
        workers[2].kill()
        run.until_logged(workers[0], "sums go by NCCL, over 2 GPUs")
        workers[2] = run.enter(2)
        run.until_logged(workers[0], "sums go by NCCL, over 3 GPUs", times=2)
        run.finish([], workers)
        assert "given up" not in workers[0].errors()


@HEAVY
def test_the_other_ranks_continue_without_a_frozen_rank_and_let_it_in_again(tmp_path):
    with slow(tmp_path, steps=ENDLESS) as run:
        workers = run.begin()
        run.until_logged(workers[0], "sums go by NCCL, over 3 GPUs")
        workers[1].signal(signal.SIGSTOP)
        run.until_logged(workers[0], "sums go by NCCL, over 2 GPUs")
        workers[1].signal(signal.SIGCONT)
        run.until_logged(workers[0], "sums go by NCCL, over 3 GPUs", times=2)
        run.finish([], workers)


@HEAVY
@pytest.mark.parametrize(("fault", "words"), [
    ("hangs=7", "NCCL is given up for now: it does not come to an end"),
    ("abort-hangs", "NCCL is given up for now: it does not come to an end"),
    ("fails=7", "NCCL is given up for now: NCCL has failed: internal error"),
    ("miscounts=7", "NCCL is given up for now: NCCL has failed: invalid usage"),
], ids=["hangs", "abort-hangs", "fails", "miscounts"])
def test_a_run_is_trained_even_if_nccl_hangs_or_fails(tmp_path, fault, words):
    with slow(tmp_path) as run:
        workers = run.begin({1: fault})
        assert_trained(workers, run.steps, workers[0])
        assert words in workers[1].errors()


@HEAVY
@pytest.mark.parametrize(("env", "words"), [
    ({"MLK_FAKE_NCCL": "version=22705"}, None),
    ({"MLK_FAKE_NCCL": "version=21600"}, "NCCL cannot be used, so sums go through the hosts: it is NCCL 2.16.0, and 2.18 or newer is needed"),
    ({"MLK_NCCL_LIBRARY": "/nowhere/libnccl.so"}, "NCCL cannot be used, so sums go through the hosts: /nowhere/libnccl.so: "),
    ({"MLK_FAKE_NCCL": "join-fails"}, "NCCL is given up for now: NCCL cannot join a group: unhandled system error"),
], ids=["another-version", "too-old", "no-library", "join-fails"])
def test_sums_go_through_the_hosts_if_one_rank_cannot_use_the_nccl_of_the_other_ranks(tmp_path, env, words):
    with slow(tmp_path) as run:
        workers = [run.enter(0), run.enter(1, **env), run.enter(2)]
        assert_trained(workers, run.steps, workers[0])
        assert "sums go by NCCL" not in workers[0].errors()
        assert words is None or words in workers[1].errors()


@HEAVY
def test_the_weights_have_the_same_bits_for_any_order_of_the_gpu_streams(tmp_path):
    weights = []
    for seed in range(3):
        settings = {**MODELS["cnn"], "data": {"format": "idx", "batch": 16}}  # reaches the accuracy in fewer steps than with a batch of 32
        with Ranks(tmp_path / str(seed), "allreduce", checkpoints=True, steps=40, **settings) as run:
            workers = [run.enter(rank, MLK_EMULATED_SEED=str(10 * seed + rank)) for rank in range(2)]
            assert_trained(workers, run.steps, workers[0])
            weights.append(newest_checkpoint(run.checkpoints)[1])
    assert weights[0] == weights[1] == weights[2]


class Pods(Ranks):
    """Each pod has two devices. So mlk-runtime starts two processes in each pod."""

    def __init__(self, folder, pods, **config):
        super().__init__(folder, "allreduce", **{"workers": 2 * pods, "minimum": 1, "step_delay_ms": 5, **SOON, **config})
        self.pods = pods

    def enter(self, rank, fault="", **env):
        seeds = ",".join(self.seeds["worker"][:self.pods])
        return super().enter(rank, fault, **{"MLK_GPUS": "2", "MLK_EMULATED_DEVICES": "2", "MLK_SEEDS_WORKER": seeds, **env})

    def begin(self, faults=()):
        return [self.enter(pod) for pod in range(self.pods)]


def processes_of(pod):
    return [int(pid) for pid in pathlib.Path(f"/proc/{pod.popen.pid}/task/{pod.popen.pid}/children").read_text().split()]


@HEAVY
def test_a_pod_with_two_gpus_trains_with_a_process_for_each_gpu(tmp_path):
    with Pods(tmp_path, 2) as run:
        pods = run.begin()
        assert_trained(pods, run.steps, pods[0])
        assert "sums go by NCCL, over 4 GPUs" in pods[0].errors()
        for pod, ranks in ((pods[0], (0, 1)), (pods[1], (2, 3))):
            assert all(f"mlk-runtime worker/{rank}: computes on emulated device" in pod.errors() for rank in ranks)


@HEAVY
def test_a_pod_ends_with_the_code_of_its_killed_process_and_joins_again_after_a_restart(tmp_path):
    with Pods(tmp_path, 2, steps=ENDLESS) as run:
        pods = run.begin()
        run.until_logged(pods[0], "sums go by NCCL, over 4 GPUs")
        os.kill(processes_of(pods[1])[0], signal.SIGKILL)
        assert pods[1].wait() == 137
        run.until_logged(pods[0], "sums go by NCCL, over 2 GPUs")
        pods[1] = run.enter(1)
        run.until_logged(pods[0], "sums go by NCCL, over 4 GPUs", times=2)
        run.finish([], pods)


@HEAVY
def test_sigterm_reaches_all_processes_of_a_pod_and_leaves_a_checkpoint(tmp_path):
    with Pods(tmp_path, 1, steps=ENDLESS) as run:
        (pod,) = run.begin()
        run.until_step(pod, 20)
        children = processes_of(pod)
        assert len(children) == 2
        pod.signal(signal.SIGTERM)
        assert pod.wait() == 143
        assert newest_checkpoint(run.checkpoints)
        assert pod.result()["message"].startswith("terminated after step ")
        assert not any(pathlib.Path(f"/proc/{child}").exists() for child in children)


@HEAVY
def test_a_pod_fails_and_names_the_missing_gpu_if_it_asks_for_more_gpus_than_its_machine_has(tmp_path):
    with Pods(tmp_path, 1) as run:
        pod = run.enter(0, MLK_EMULATED_DEVICES="1")
        assert pod.wait() == 70
        assert "GPU 1 is not there: this process sees 1" in pod.errors()
        assert "GPU 1 is not there" in pod.result()["message"]
