"""Runs with several processes of mlk-runtime, undisturbed, and with every kind of fault that does not need a cluster."""

import json
import os
import re
import signal
import socket
import time

import pytest
from mlk import SLOW, wait_until
from runtime_processes import ENDLESS, Run, assert_trained, kill_at_once, write_digits

pytestmark = pytest.mark.runtime

MODES = [("ps", "async"), ("ps", "sync"), ("ps", {"staleness": 2}), ("allreduce", "sync")]
mode_and_consistency = pytest.mark.parametrize("mode,consistency", MODES, ids=["async", "sync", "staleness", "allreduce"])


@mode_and_consistency
def test_an_undisturbed_run_is_trained(tmp_path, mode, consistency):
    with Run(tmp_path, mode, consistency=consistency) as run:
        servers, workers = run.start_all()
        assert_trained(servers + workers, run.steps, workers[0])
        assert workers[1].result() == workers[0].result(), "whichever pod is left tells what came of the run"
        assert not workers[1].lines()


def test_a_run_with_three_servers_reaches_the_same_loss_as_a_run_with_one_server(tmp_path):
    losses = []
    for servers_count in (1, 3):
        with Run(tmp_path / str(servers_count), "ps", servers=servers_count, consistency="sync") as run:
            servers, workers = run.start_all()
            assert_trained(servers + workers, run.steps, workers[0])
            losses.append(float(workers[0].lines()[-1]["loss"]))
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


@pytest.mark.parametrize("workers", [1, 3, 5])
def test_an_allreduce_run_with_an_odd_number_of_workers_is_trained(tmp_path, workers):
    with Run(tmp_path, "allreduce", workers=workers, steps=100) as run:
        _, processes = run.start_all()
        assert_trained(processes, run.steps, processes[0])


@mode_and_consistency
def test_a_worker_that_is_killed_and_comes_back_takes_part_again(tmp_path, mode, consistency):
    with Run(tmp_path, mode, consistency=consistency, steps=ENDLESS, step_delay_ms=15) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 40)
        workers[1].kill()
        lost_at = workers[0].step()
        run.until_step(workers[0], lost_at + 30)  # the others do not wait for this worker
        run.until(lambda: workers[0].world() == 1, "a report without it")
        back = run.start("worker", 1)
        run.until_world(workers[0], 2)
        run.finish(servers, [workers[0], back])


@mode_and_consistency
def test_the_next_worker_takes_over_the_reports_after_the_reporting_worker_was_killed(tmp_path, mode, consistency):
    with Run(tmp_path, mode, consistency=consistency, steps=300, step_delay_ms=15) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 40)
        workers[0].kill()
        run.until_step(workers[1], 80)
        assert_trained(servers + [workers[1]], run.steps, workers[1])


@pytest.mark.parametrize("consistency", ["async", "sync"])
@pytest.mark.parametrize("servers_count,victim", [(1, 0), (2, 0), (2, 1)])
def test_a_worker_gives_its_weights_to_the_server_that_replaces_a_killed_server(tmp_path, consistency, servers_count, victim):
    with Run(tmp_path, "ps", servers=servers_count, consistency=consistency, steps=ENDLESS, step_delay_ms=15) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 100)
        servers[victim].kill()
        step = workers[0].step()
        servers[victim] = run.start("server", victim)
        run.until_logged(servers[0], "is seeded by worker/")
        run.until_world(workers[0], 2)
        run.finish(servers, workers)
        steps = [int(line["step"]) for line in workers[0].lines()]
        assert steps == sorted(steps), "the run went back"
        assert step >= 100


def test_a_run_continues_after_a_server_and_a_worker_were_killed_at_once(tmp_path):
    with Run(tmp_path, "ps", consistency="sync", steps=ENDLESS, step_delay_ms=15) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 60)
        kill_at_once([servers[0], workers[1]])
        servers[0], workers[1] = run.start("server", 0), run.start("worker", 1)
        run.until_logged(servers[0], "training with")
        run.until_world(workers[0], 2)
        run.finish(servers, workers)
        assert "at step 0;" not in servers[0].errors()


@pytest.mark.parametrize("consistency", ["async", {"staleness": 2}], ids=["async", "staleness"])
def test_a_run_does_not_wait_for_a_worker_that_was_lost_while_a_server_was_lost(tmp_path, consistency):
    with Run(tmp_path, "ps", workers=3, minimum=1, servers=2, consistency=consistency, steps=ENDLESS, step_delay_ms=15,
             offline_seconds=0) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 60)
        servers[1].kill()
        run.until(lambda: "server/1 is lost" in servers[0].errors(), "the loss")
        workers[2].kill()
        servers[1] = run.start("server", 1)
        run.until_logged(servers[0], "server/1 is seeded by worker/")
        run.until_world(workers[0], 2)
        run.finish(servers, workers[:2])


def test_a_run_continues_from_the_weights_of_its_servers_after_all_workers_were_killed(tmp_path):
    with Run(tmp_path, "ps", consistency="sync", steps=ENDLESS, step_delay_ms=15) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 100)
        kill_at_once(workers)
        workers = [run.start("worker", rank) for rank in range(2)]
        run.until_world(workers[0], 2)
        run.finish(servers, workers)
        assert int(workers[0].lines()[0]["step"]) >= 100


@pytest.mark.parametrize("consistency", ["async", "sync"])
def test_a_run_continues_from_its_checkpoint_after_one_of_two_servers_and_all_workers_were_killed(tmp_path, consistency):
    with Run(tmp_path, "ps", servers=2, consistency=consistency, steps=ENDLESS, step_delay_ms=15,
             checkpoint={"every": 20, "keep": 2}) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 110)
        kill_at_once([servers[1], *workers])
        servers[1] = run.start("server", 1)
        workers = [run.start("worker", rank) for rank in range(2)]
        # Otherwise server 1 has received the weights of the start.
        run.until_logged(servers[0], "goes on from the checkpoint of step")
        run.until_world(workers[0], 2)
        run.finish(servers, workers)
        assert workers[0].result()["restored_step"] >= 40


@pytest.mark.parametrize("mode", ["ps", "allreduce"])
def test_a_run_continues_from_its_checkpoint_after_all_processes_were_killed(tmp_path, mode):
    with Run(tmp_path, mode, consistency="sync", steps=ENDLESS, step_delay_ms=15,
             checkpoint={"every": 20, "keep": 2}) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 110)
        kill_at_once(servers + workers)
        told = workers[0].step()
        _, workers = run.train_what_is_saved()
        assert 40 <= workers[0].result()["restored_step"] <= told + 10
        assert sorted(p.name for p in run.checkpoints.iterdir())[-1].endswith(f"{run.steps:012}")


def test_an_allreduce_run_continues_after_half_of_its_workers_were_killed_at_once(tmp_path):
    with Run(tmp_path, "allreduce", workers=4, minimum=1, steps=ENDLESS, step_delay_ms=15) as run:
        _, workers = run.start_all()
        run.until_step(workers[0], 40)
        kill_at_once([workers[0], workers[2]])
        run.until_step(workers[1], 100)
        for victim in (0, 2):
            workers[victim] = run.start("worker", victim)
        run.until_world(workers[0], 4)
        run.finish([], workers)


def test_an_allreduce_run_continues_after_half_of_its_workers_were_killed_one_after_the_other(tmp_path):
    """The second victim may have made steps that the remaining workers do not have. Then they must wait until a killed worker is back."""
    with Run(tmp_path, "allreduce", workers=4, minimum=1, steps=ENDLESS, step_delay_ms=15) as run:
        _, workers = run.start_all()
        run.until_step(workers[0], 40)
        workers[0].kill()
        run.until(lambda: any("worker/0 is lost" in worker.errors() for worker in workers[1:]), "the loss")
        workers[2].kill()
        for victim in (0, 2):
            workers[victim] = run.start("worker", victim)
        run.until_world(workers[0], 4)
        run.finish([], workers)
        steps = [int(line["step"]) for line in workers[1].lines()]
        assert steps == sorted(steps), "the run went back"


def losses_by_step(worker):
    return [(int(line["step"]), float(line["loss"])) for line in worker.lines()]


@pytest.mark.parametrize("hidden,every", [([16], 10), ([512, 512, 512], 3)], ids=["one-bucket", "several-buckets"])
def test_a_killed_rank_does_not_change_the_losses_of_an_allreduce_run(tmp_path, hidden, every):
    settings = {"workers": 3, "report_every": every, "model": {"type": "mlp", "hidden": hidden}}
    with Run(tmp_path / "disturbed", "allreduce", steps=ENDLESS, step_delay_ms=10, **settings) as run:
        _, workers = run.start_all()
        run.until_step(workers[0], 4 * every)
        workers[2].kill()
        run.until_step(workers[0], workers[0].step() + 4 * every)
        workers[2] = run.start("worker", 2)
        run.until_logged(workers[0], "worker/2 is lost")
        run.until_world(workers[0], 3)
        run.until_step(workers[0], workers[0].step() + 8 * every)
        disturbed = losses_by_step(workers[0])
        run.finish([], workers)
    # The undisturbed run ends at the last reported step of the disturbed run, some steps after worker 2 came back.
    with Run(tmp_path / "undisturbed", "allreduce", steps=disturbed[-1][0], **settings) as run:
        _, workers = run.start_all()
        assert_trained(workers, run.steps, workers[0])
        undisturbed = losses_by_step(workers[0])[:len(disturbed)]  # less the line with the accuracy
    assert [step for step, _ in disturbed] == [step for step, _ in undisturbed]
    for (_, one), (_, other) in zip(disturbed, undisturbed):
        assert one == pytest.approx(other, rel=0.01)


@mode_and_consistency
def test_a_run_abandons_a_frozen_worker_and_lets_it_in_again(tmp_path, mode, consistency):
    with Run(tmp_path, mode, workers=3, consistency=consistency, steps=ENDLESS, step_delay_ms=25) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 20)
        workers[2].signal(signal.SIGSTOP)
        run.until(lambda: any("is lost" in p.errors() for p in servers[:1] + workers[:1]), "the loss", timeout=15)
        step = workers[0].step()
        run.until_step(workers[0], step + 20)
        workers[2].signal(signal.SIGCONT)
        run.until_world(workers[0], 3)
        run.finish(servers, workers)


def test_a_worker_takes_part_again_after_it_was_frozen_while_it_waited_for_the_other_worker(tmp_path):
    with Run(tmp_path, "ps", consistency="sync", minimum=1) as run:
        slow = json.loads((tmp_path / "config.json").read_text()) | {"step_delay_ms": 10000}
        (tmp_path / "slow.json").write_text(json.dumps(slow))
        server, waiting = run.start("server", 0), run.start("worker", 0)
        run.start("worker", 1, MLK_CONFIG=str(tmp_path / "slow.json"))
        run.until(lambda: "training with 2 of 2" in server.errors(), "the start")
        time.sleep(1)  # worker 0 needs much less time for its own part of the first step
        waiting.signal(signal.SIGSTOP)
        run.until(lambda: "worker/0 is lost" in server.errors(), "the loss", timeout=15)
        waiting.signal(signal.SIGCONT)
        run.until(lambda: "worker/0 has joined" in server.errors(), "its return", timeout=20)


def test_a_server_refuses_clients_without_the_key_of_the_run_and_the_run_continues(tmp_path):
    with Run(tmp_path, "ps", consistency="sync", steps=ENDLESS, step_delay_ms=15) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 10)
        other_key = tmp_path / "other"
        other_key.write_text("ab" * 32)
        impostor = run.start("worker", 1, MLK_SECRET=str(other_key), MLK_ADDRESS=run.spare)
        host, port = run.seeds["server"][0].split(":")
        for noise in (b"GET / HTTP/1.1\r\n\r\n" * 20, os.urandom(4096), b""):
            with socket.create_connection((host, int(port)), timeout=5) as connection:
                connection.sendall(noise)
        for words in ("not our protocol", "127.0.0.1:"):
            run.until_logged(servers[0], words)
        run.until_logged(impostor, "does not know the key of the run")
        run.until_step(workers[0], workers[0].step() + 20)
        assert "is lost" not in servers[0].errors()
        servers, _ = run.finish(servers, workers)
        assert "is lost" not in servers[0].errors()


@pytest.mark.parametrize("mode", ["ps", "allreduce"])
def test_a_run_saves_a_checkpoint_and_ends_with_143_on_sigterm_and_continues_at_the_next_start(tmp_path, mode):
    with Run(tmp_path, mode, consistency="sync", steps=ENDLESS, step_delay_ms=15) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 50)
        run.stop(servers + workers)
        assert any(run.checkpoints.iterdir())
        _, workers = run.train_what_is_saved()
        assert workers[0].result()["restored_step"] >= 50


@pytest.mark.parametrize("mode", ["ps", "allreduce"])
def test_sigterm_ends_a_run_even_in_its_last_evaluation_and_the_next_start_repeats_the_evaluation(tmp_path, mode):
    with Run(tmp_path, mode, consistency="sync", steps=2, checkpoints=True, model={"type": "mlp", "hidden": [2048, 2048]}) as run:
        write_digits(run.data, held_out=20_000, repeat=20)  # half a minute's work
        servers, workers = run.start_all()
        run.until(lambda: (run.checkpoints / "step-000000000002").exists(), "the last checkpoint")
        for process in servers + workers:
            process.signal(signal.SIGTERM)
        for process in servers + workers:
            assert process.wait(15) == 143, process.errors()
        assert workers[0].result()["done"] is False
        write_digits(run.data)
        servers, workers = run.start_all()
        for process in servers + workers:
            assert process.wait() == 0, process.errors()
        assert workers[0].result()["done"] is True
        assert "accuracy" in workers[0].result()["metrics"]


@pytest.mark.timed
def test_a_worker_says_that_it_is_out_of_memory_if_the_model_does_not_fit(tmp_path):
    with Run(tmp_path, "single", workers=1, model={"type": "mlp", "hidden": [16384, 16384]}) as run:
        process = run.start("worker", 0, under=["prlimit", f"--as={512 << 20}"])
        assert process.wait() == 70
        assert process.result()["message"] == "out of memory; a smaller model or data.micro_batch needs less"


@pytest.mark.parametrize("consistency", ["sync", "async"])
def test_a_run_that_has_trained_longer_than_its_patience_survives_the_loss_of_a_server(tmp_path, consistency):
    patience = int(4 * SLOW)
    with Run(tmp_path, "ps", servers=2, consistency=consistency, steps=ENDLESS, step_delay_ms=15, patience_seconds=patience) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 10)
        time.sleep(patience + 1)  # training
        servers[1].kill()
        run.until(lambda: "server/1 is lost" in servers[0].errors(), "the loss")
        back = run.start("server", 1)
        run.until(lambda: "server/1 is seeded by" in servers[0].errors(), "the new server to be seeded")
        step = workers[0].step()
        run.until_step(workers[0], step + 20)
        assert all(process.running() for process in [servers[0], back, *workers])


def test_a_run_is_trained_though_a_step_takes_longer_than_the_patience_of_the_run(tmp_path):
    with Run(tmp_path, "ps", consistency="sync", steps=1, step_delay_ms=12_000, patience_seconds=11) as run:
        config = json.loads((run.folder / "config.json").read_text())
        (run.folder / "slower.json").write_text(json.dumps({**config, "step_delay_ms": 15_000}))
        server = run.start("server", 0)
        workers = [run.start("worker", 0), run.start("worker", 1, MLK_CONFIG=str(run.folder / "slower.json"))]
        for process in [server, *workers]:
            assert process.wait() == 0, process.errors()


def test_a_server_continues_with_the_weights_of_a_worker_if_no_checkpoint_can_be_used(tmp_path):
    checkpoint = {"every": 20, "keep": 3}
    with Run(tmp_path, "ps", consistency="sync", steps=ENDLESS, step_delay_ms=15, checkpoint=checkpoint) as run:
        servers, workers = run.start_all()
        run.until(lambda: (run.checkpoints / "step-000000000040").exists(), "checkpoints")
        servers[0].kill()
        for manifest in run.checkpoints.glob("step-*/manifest.json"):
            manifest.write_text("{}")
        back = run.start("server", 0)
        run.until_logged(back, "server/0 is seeded by worker/")
        run.until_world(workers[0], 2)
        run.finish([back], workers)
        assert "warning: goes on with the weights of a worker: no checkpoint can be used" in back.errors()


@pytest.mark.parametrize("mode", ["ps", "allreduce"])
def test_a_run_starts_with_the_minimum_of_workers_and_names_the_missing_workers(tmp_path, mode):
    with Run(tmp_path, mode, workers=3, minimum=2, consistency="sync", steps=150, step_delay_ms=15) as run:
        servers = [run.start("server", rank) for rank in range(run.servers_count)]
        first = run.start("worker", 0)
        speaker = (servers or [first])[0]
        run.until(lambda: "waiting for worker 1, worker 2" in speaker.errors(), "who is missing")
        second = run.start("worker", 1)
        assert_trained(servers + [first, second], run.steps, first)


def test_a_worker_ends_with_75_if_the_other_worker_does_not_start(tmp_path):
    with Run(tmp_path, "allreduce", patience_seconds=3) as run:
        alone = run.start("worker", 0)
        assert alone.wait() == 75
        assert "waiting for worker 1" in alone.errors()
        assert alone.result()["done"] is False


def test_a_server_ends_with_0_after_its_patience_if_all_workers_are_gone(tmp_path):
    with Run(tmp_path, "ps", patience_seconds=5) as run:
        server, worker = run.start("server", 0), run.start("worker", 0)
        run.until(lambda: "waiting for worker 1" in server.errors(), "the worker to be known")
        worker.kill()
        assert server.wait() == 0
        assert "no worker was heard of for 5 s" in server.errors()


def test_a_server_waits_longer_than_its_patience_for_the_first_worker(tmp_path):
    with Run(tmp_path, "ps", patience_seconds=1) as run:
        server = run.start("server", 0)
        time.sleep(3)
        workers = [run.start("worker", rank) for rank in range(2)]
        assert_trained([server, *workers], run.steps, workers[0])


@mode_and_consistency
def test_all_processes_end_with_66_if_the_training_diverges(tmp_path, mode, consistency):
    with Run(tmp_path, mode, consistency=consistency, steps=3000, step_delay_ms=5,
             model={"type": "mlp", "hidden": [64] * 8}, optimizer={"type": "sgd", "lr": 1e6, "momentum": 0.99}) as run:
        servers, workers = run.start_all()
        for process in servers + workers:
            assert process.wait() == 66, process.errors()


@pytest.mark.parametrize("mode", ["ps", "allreduce"])
def test_all_processes_end_with_65_if_one_worker_has_bad_data(tmp_path, mode):
    with Run(tmp_path, mode) as run:
        servers = [run.start("server", rank) for rank in range(run.servers_count)]
        good = run.start("worker", 0)
        # A peer that is not connected yet does not hear of the end. In a cluster its Job would end this peer.
        wait_until(lambda: "waiting for worker 1 (" in (servers or [good])[0].errors(), "worker 0 to be known")
        bad = run.start("worker", 1, MLK_DATA=str(tmp_path / "nowhere"))
        for process in servers + [good, bad]:
            assert process.wait() == 65, process.errors()


def test_an_older_incarnation_of_a_worker_ends_with_75_when_a_newer_one_joins(tmp_path):
    with Run(tmp_path, "ps", consistency="async", steps=ENDLESS, step_delay_ms=15) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 20)
        newer = run.start("worker", 1, MLK_ADDRESS=run.spare)
        assert workers[1].wait() == 75
        assert "newer incarnation" in workers[1].errors()
        run.until_logged(servers[0], "worker/1 is lost")
        run.until_world(workers[0], 2)
        run.finish(servers, [workers[0], newer])


@pytest.mark.parametrize("consistency", ["async", "sync"])
def test_an_older_incarnation_of_a_server_ends_with_75_when_a_newer_one_has_started(tmp_path, consistency):
    with Run(tmp_path, "ps", consistency=consistency, steps=ENDLESS, step_delay_ms=15, wires=True) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 40)
        servers[0].signal(signal.SIGSTOP)
        step = workers[0].step()
        run.wires.move(run.addresses["server"][0], run.spare)
        newer = run.start("server", 0, MLK_ADDRESS=run.spare)
        run.until_step(workers[0], step + 40)
        servers[0].signal(signal.SIGCONT)
        assert servers[0].wait() == 75
        assert "newer incarnation" in servers[0].errors()
        run.until_world(workers[0], 2)
        run.wires.move(run.spare, run.addresses["server"][0])  # for the processes that finish the run
        run.finish([newer], workers)
        assert int(re.search(r"is seeded by worker/\d at step (\d+);", newer.errors())[1]) >= step, "the run went back"


@mode_and_consistency
def test_a_run_replaces_connections_that_are_half_open(tmp_path, mode, consistency):
    with Run(tmp_path, mode, consistency=consistency, steps=ENDLESS, step_delay_ms=15, wires=True) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 40)
        assert run.wires.disturb("half_open")
        for process, peer in [(servers[0], worker) for worker in workers] if servers else [(workers[0], workers[1])]:
            run.until_logged(process, f"{peer.name} is lost")
        run.until_world(workers[0], 2)
        run.finish(servers, workers)


def test_a_run_does_not_split_into_two_when_a_connection_is_cut(tmp_path):
    with Run(tmp_path, "allreduce", steps=ENDLESS, step_delay_ms=15, report_every=1, wires=True) as run:
        _, workers = run.start_all()
        for times in (1, 2, 3):
            run.until_step(workers[0], workers[0].step() + 20)
            run.wires.disturb("cut")
            run.until_logged(workers[0], "worker/1 is lost", times)
            run.until_world(workers[0], 2)
        assert not workers[1].lines(), "the other rank went on by itself"
        run.finish([], workers)


def test_rank_0_does_not_count_the_other_ranks_as_dead_if_they_connect_late_after_rank_0_was_frozen(tmp_path):
    with Run(tmp_path, "allreduce", workers=3, minimum=1, steps=ENDLESS, step_delay_ms=15, report_every=1, wires=True) as run:
        _, workers = run.start_all()
        run.until_step(workers[0], 20)
        workers[0].signal(signal.SIGSTOP)
        run.until(lambda: workers[1].step() > 0, "the others to go on")
        run.wires.move(run.addresses["worker"][0], run.spare)
        run.wires.disturb("reset")
        run.until(lambda: workers[1].step() > workers[0].step() + 100, "the others to be ahead")
        alone = workers[0].step()
        workers[0].signal(signal.SIGCONT)
        time.sleep(3)
        assert workers[0].step() <= alone + 1, "rank 0 goes on by itself"
        run.wires.move(run.spare, run.addresses["worker"][0])
        run.until_step(workers[0], workers[1].step())
        run.until_world(workers[0], 3)
        run.finish([], workers)


def test_a_server_goes_back_to_an_earlier_step_if_it_is_ahead_of_all_other_surviving_processes(tmp_path):
    with Run(tmp_path, "ps", workers=3, minimum=1, servers=2, consistency="sync", steps=ENDLESS, step_delay_ms=15,
             offline_seconds=0) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 40)
        workers[2].signal(signal.SIGSTOP)
        run.until(lambda: "worker/2 is lost" in servers[0].errors(), "the loss")
        run.until_step(workers[0], workers[0].step() + 40)
        kill_at_once([servers[0], workers[0], workers[1]])
        workers[2].signal(signal.SIGCONT)
        servers[0], workers[0], workers[1] = run.start("server", 0), run.start("worker", 0), run.start("worker", 1)
        run.until_logged(servers[0], "server/1 has no weights of step")
        run.until_world(workers[0], 3)
        run.finish(servers, workers)
