"""Checkpoints of whole runs: which process writes them, which reads them, and what a full disk or a kill at any moment does to them.

MLK_TEST_RUN_KILLS=100 kills 100 whole runs while they save, instead of 5.
"""

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time

import pytest
import wheels
from runtime_processes import ENDLESS, Run, assert_trained, join_parts

pytestmark = pytest.mark.runtime


def steps_in(folder):
    return sorted(int(path.name.removeprefix("step-")) for path in folder.glob("step-*"))


def newest(folder):
    return folder / f"step-{steps_in(folder)[-1]:012}"


def files_of(checkpoint):
    return sorted(path.name for path in checkpoint.iterdir())


@pytest.mark.parametrize("consistency", ["sync", "async"])
def test_every_server_writes_its_own_part_of_a_checkpoint(tmp_path, consistency):
    with Run(tmp_path, "ps", servers=3, consistency=consistency, checkpoints=True, step_delay_ms=5,
             checkpoint={"every": 40, "keep": 2}) as run:
        servers, workers = run.start_all()
        assert_trained(servers + workers, run.steps, workers[0])
        assert files_of(newest(run.checkpoints)) == [
            "manifest.json", "server-0.safetensors", "server-1.safetensors", "server-2.safetensors"]
        manifest = json.loads((newest(run.checkpoints) / "manifest.json").read_text())
        for file in manifest["files"]:
            assert (newest(run.checkpoints) / file["name"]).stat().st_size == file["bytes"]
        assert manifest["step"] == run.steps
        assert manifest["position"] == run.steps * 16 * (2 if consistency == "sync" else 1)
        assert len(steps_in(run.checkpoints)) == 2
        assert not list(run.checkpoints.glob(".*")), "something was left behind"
        assert workers[0].result()["checkpoint"] == run.steps


def stage(tmp_path, checkpoints, name, mode, steps, **config):
    """Trains one part of a run that changes its mode at each checkpoint. Returns the result of the worker that reports."""
    with Run(tmp_path / name, mode, steps=steps, checkpoints=True, **config) as run:
        run.checkpoints = checkpoints
        servers, workers = run.start_all()
        for process in servers + workers:
            assert process.wait() == 0, process.errors()
        return workers[0].result()


def test_a_run_reaches_the_same_loss_if_its_mode_and_its_number_of_servers_change_at_checkpoints(tmp_path):
    straight = stage(tmp_path, tmp_path / "straight-checkpoints", "straight", "single", 240, workers=1)
    checkpoints = tmp_path / "checkpoints"
    stages = [("ps", {"servers": 3, "consistency": "sync"}), ("allreduce", {}), ("ps", {"servers": 1, "consistency": "sync"}),
              ("single", {}), ("ps", {"servers": 2, "consistency": "async"}), ("single", {})]
    for number, (mode, config) in enumerate(stages):
        result = stage(tmp_path, checkpoints, f"{number}", mode, 40 * (number + 1), workers=1, **config)
        assert result["restored_step"] == 40 * number, mode
    assert result["step"] == straight["step"] == 240
    assert result["metrics"]["loss"] == pytest.approx(straight["metrics"]["loss"], rel=1e-3)
    manifests = [json.loads((newest(folder) / "manifest.json").read_text()) for folder in (checkpoints, tmp_path / "straight-checkpoints")]
    assert manifests[0]["position"] == manifests[1]["position"] == 240 * 16


def test_a_run_continues_from_its_checkpoint_with_more_workers_and_servers(tmp_path):
    checkpoints = tmp_path / "checkpoints"
    stage(tmp_path, checkpoints, "few", "ps", 60, workers=1, servers=1, consistency="sync")
    stage(tmp_path, checkpoints, "many", "ps", 120, workers=3, servers=3, consistency="sync")
    result = stage(tmp_path, checkpoints, "ring", "allreduce", 200, workers=2)
    assert result["restored_step"] == 120
    assert result["metrics"]["accuracy"] >= 0.95


def test_the_safetensors_package_reads_checkpoints(tmp_path):
    try:
        folder = wheels.unpack("safetensors-0.8.0", [wheels.SAFETENSORS], "safetensors for tests")
    except (subprocess.SubprocessError, RuntimeError) as error:
        pytest.skip(f"the package cannot be fetched: {error}")
    sys.path.insert(0, str(folder))
    try:
        from safetensors import deserialize
    finally:
        sys.path.remove(str(folder))

    def tensors(servers):
        with Run(tmp_path / str(servers), "ps", workers=1, servers=servers, consistency="sync", checkpoints=True, steps=5,
                 model={"type": "mlp", "hidden": [512, 512]}) as run:
            run_servers, workers = run.start_all()
            for process in run_servers + workers:
                assert process.wait() == 0, process.errors()
            return dict(pair for path in newest(run.checkpoints).glob("*.safetensors") for pair in deserialize(path.read_bytes()))

    def joined(parts):
        return join_parts({name: bytes(part["data"]) for name, part in parts.items()})

    whole, parts = tensors(1), tensors(2)
    assert set(whole) == {f"{prefix}layers.{layer}.{kind}" for prefix in ("", "optimizer.0.") for layer in range(3) for kind in ("weight", "bias")}
    assert all(tensor["dtype"] == "F32" for tensor in [*whole.values(), *parts.values()])
    assert whole["layers.1.weight"]["shape"] == [512, 512]
    assert "layers.1.weight[131072:262144]" in parts or "layers.1.weight[0:131072]" in parts
    assert joined(parts) == joined(whole), "two servers trained or saved something else than one"


@pytest.mark.parametrize("mode,servers", [("single", 0), ("ps", 2)])
def test_a_run_continues_from_a_whole_checkpoint_if_all_its_processes_were_killed_while_they_saved(tmp_path, mode, servers):
    moments = random.Random()
    with Run(tmp_path, mode, workers=1, servers=servers, consistency="sync", steps=ENDLESS,
             checkpoint={"every": 1, "keep": 2}, model={"type": "mlp", "hidden": [256, 256]}) as run:
        reached = 0
        for _ in range(int(os.environ.get("MLK_TEST_RUN_KILLS", 5))):
            run_servers, workers = run.start_all()
            run.until(lambda: steps_in(run.checkpoints) and steps_in(run.checkpoints)[-1] > reached, "a checkpoint")
            time.sleep(moments.uniform(0, 0.1))
            victims = run_servers + workers
            moments.shuffle(victims)
            for process in victims:
                process.signal(signal.SIGKILL)
                time.sleep(moments.uniform(0, 0.003))
            for process in victims:
                process.kill()
            if reached:
                teller = (run_servers or workers)[0].errors()
                assert "goes on from the checkpoint of step " in teller
                assert int(teller.partition("goes on from the checkpoint of step ")[2].split()[0]) >= reached
                assert "passed over" not in teller
            reached = steps_in(run.checkpoints)[-1]


@pytest.mark.parametrize("consistency", ["sync", "async"])
def test_a_stopped_run_with_servers_leaves_a_whole_checkpoint(tmp_path, consistency):
    with Run(tmp_path, "ps", servers=2, consistency=consistency, steps=ENDLESS, step_delay_ms=15) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 60)
        run.stop(servers + workers)
        stopped = steps_in(run.checkpoints)
        assert len(stopped) == 1 and stopped[0] >= 60
        assert servers[0].result()["checkpoint"] == stopped[0]
        servers, workers = run.start_all()
        run.until(workers[0].lines, "a report")
        assert f"goes on from the checkpoint of step {stopped[0]}" in servers[0].errors()


@pytest.mark.parametrize("mode,servers", [("ps", 1), ("allreduce", 0)])
def test_the_loss_curve_of_a_resumed_run_covers_the_steps_before_and_after_the_stop(tmp_path, mode, servers):
    with Run(tmp_path, mode, workers=2, servers=servers, consistency="sync", steps=150, step_delay_ms=10,
             checkpoints=True) as run:
        run_servers, workers = run.start_all()
        run.until_step(workers[0], 60)
        run.stop(run_servers + workers)
        stopped = steps_in(run.checkpoints)[-1]
        run_servers, workers = run.start_all()
        for process in run_servers + workers:
            assert process.wait() == 0, process.errors()
        curve = next(result["curve"] for result in (process.result() for process in workers) if result.get("curve"))
        steps = [step for step, _ in curve]
        assert steps == sorted(set(steps)) and steps[-1] == 150
        assert steps[0] < stopped / 2 and sum(step <= stopped for step in steps) > 2 and sum(step > stopped for step in steps) > 2


def test_every_checkpoint_has_the_parts_of_all_servers_after_a_server_was_killed(tmp_path):
    with Run(tmp_path, "ps", servers=2, consistency="sync", steps=ENDLESS, step_delay_ms=15,
             checkpoint={"every": 1, "keep": 5}) as run:
        servers, workers = run.start_all()
        for victim in (1, 0, 1):
            run.until_step(workers[0], workers[0].step() + 30)
            servers[victim].kill()
            servers[victim] = run.start("server", victim)
            run.until_logged(servers[0], "server/1 is seeded by" if victim == 1 else "training with")
            run.until_world(workers[0], 2)
        run.finish(servers, workers)
        for step in steps_in(run.checkpoints):
            assert files_of(run.checkpoints / f"step-{step:012}") == ["manifest.json", "server-0.safetensors", "server-1.safetensors"]


def test_servers_end_with_an_error_before_the_training_if_they_do_not_share_a_checkpoint_folder(tmp_path):
    with Run(tmp_path, "ps", servers=2, checkpoints=True) as run:
        servers = [run.start("server", 0), run.start("server", 1, MLK_CHECKPOINTS=str(tmp_path / "elsewhere"))]
        workers = [run.start("worker", rank) for rank in range(2)]
        for server in servers:
            assert server.wait() == 64, server.errors()
        assert "MLK_CHECKPOINTS of server/1 is another folder than here: all servers need one volume that they share" in servers[0].errors()
        assert not any(worker.lines() for worker in workers), "it has trained"


@pytest.mark.parametrize("mode,servers", [("single", 0), ("ps", 2), ("allreduce", 0)])
def test_a_run_warns_and_saves_its_last_checkpoint_later_if_the_checkpoint_folder_is_missing_for_a_time(tmp_path, mode, servers):
    volume = tmp_path / "volume"
    with Run(tmp_path, mode, workers=1 if mode == "single" else 2, servers=servers, consistency="sync", checkpoints=True, steps=200,
             step_delay_ms=10, checkpoint={"every": 20, "keep": 2}) as run:
        run.checkpoints.symlink_to(volume)
        volume.mkdir()
        run_servers, workers = run.start_all()
        run.until(lambda: steps_in(run.checkpoints), "a checkpoint")
        volume.rename(tmp_path / "gone")
        first = (run_servers or workers)[0]
        run.until(lambda: "warning: no checkpoint of step 200" in first.errors(), "the last checkpoint to be tried")
        (tmp_path / "gone").rename(volume)
        assert_trained(run_servers + workers, run.steps, workers[0])
        assert steps_in(run.checkpoints)[-1] == 200
        assert workers[0].result()["checkpoint"] == 200


def test_a_run_trains_without_new_checkpoints_while_the_disk_of_one_server_is_full(tmp_path):
    with Run(tmp_path, "ps", servers=2, consistency="sync", checkpoints=True, steps=200, step_delay_ms=10,
             checkpoint={"every": 10, "keep": 2}, model={"type": "mlp", "hidden": [256, 256]}) as run:
        servers, workers = run.start_all()
        # With a limit on the size of files, a write fails in the middle, as on a full disk.
        pid, (_, hard) = servers[1].popen.pid, resource.prlimit(servers[1].popen.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (64 * 1024, hard))
        run.until(lambda: servers[0].errors().count(": server/1: ") >= 3, "the third warning")
        assert not steps_in(run.checkpoints)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        assert_trained(servers + workers, run.steps, workers[0])
        assert steps_in(run.checkpoints)[-1] == 200
        assert not list(run.checkpoints.glob(".*")), "something was left behind"


@pytest.mark.parametrize("mode,servers", [("single", 0), ("ps", 2), ("allreduce", 0)])
def test_a_run_ends_with_67_and_says_why_if_its_last_checkpoint_cannot_be_written(tmp_path, mode, servers):
    with Run(tmp_path, mode, workers=1 if mode == "single" else 2, servers=servers, consistency="sync", checkpoints=True, steps=100,
             step_delay_ms=10, report_every=10, patience_seconds=3, checkpoint={"every": 20, "keep": 2}, model={"type": "mlp", "hidden": [256, 256]}) as run:
        run_servers, workers = run.start_all()
        run.until(lambda: steps_in(run.checkpoints), "a checkpoint")
        for process in run_servers + workers:  # as on a full disk
            _, hard = resource.prlimit(process.popen.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(process.popen.pid, resource.RLIMIT_FSIZE, (64 * 1024, hard))
        saver = (run_servers or workers)[0]
        for process in run_servers + workers:
            assert process.wait() == 67, process.errors()
        assert re.search(r"trained, but the last checkpoint could not be written: (server/\d: )?File too large", saver.errors()), saver.errors()
        assert 20 < workers[0].result()["unsaved"] <= 100
        assert "File too large" in workers[0].result()["unsaved_reason"]


@pytest.mark.parametrize("mode,servers", [("single", 0), ("ps", 2), ("allreduce", 0)])
def test_a_run_ends_before_it_trains_if_the_checkpoint_folder_cannot_be_written(tmp_path, mode, servers):
    with Run(tmp_path, mode, workers=1 if mode == "single" else 2, servers=servers, consistency="sync", checkpoints=True, steps=40) as run:
        run.checkpoints.symlink_to(tmp_path / "nowhere")
        run_servers, workers = run.start_all()
        for process in run_servers + workers:
            assert process.wait() == 67, process.errors()
        assert not any(worker.lines() for worker in workers), "it has trained"
        assert any("cannot " in p.errors() and "be written" in p.errors() or "cannot write checkpoints" in p.errors() for p in run_servers + workers)

