"""What workers do while a parameter server is lost, and what happens to their offline steps."""

import re
import signal
import time

import mlk
import pytest
import wire_peer
from runtime_processes import ENDLESS, Run, assert_trained

pytestmark = pytest.mark.runtime

AHEAD = 10_000  # a step that no run of these tests reaches


def offline(process):
    """(number of steps made, last step) of the last time that the worker was offline."""
    told = re.findall(r"has made (\d+) steps offline, to step (\d+)", process.errors())
    return tuple(map(int, told[-1])) if told else (0, 0)


def until_offline(run, workers):
    for worker in workers:
        run.until(lambda w=worker: "goes on offline" in w.errors(), f"{worker.name} to go on by itself")


@pytest.mark.parametrize("consistency", ["async", "sync"])
@pytest.mark.parametrize("servers_count,victim", [(1, 0), (2, 0), (2, 1)])
def test_the_steps_that_workers_make_without_a_lost_server_are_kept_when_the_server_is_back(tmp_path, consistency, servers_count, victim):
    with Run(tmp_path, "ps", servers=servers_count, consistency=consistency, steps=ENDLESS, step_delay_ms=15,
             report_every=1) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 60)
        servers[victim].kill()
        until_offline(run, workers)
        before = workers[0].step()
        time.sleep(0.5)
        assert workers[0].step() == before, "what is not committed is not reported"
        servers[victim] = run.start("server", victim)
        run.until_logged(servers[0], "is seeded by worker/")
        run.until_world(workers[0], 2)
        run.finish(servers, workers)
        assert sum(offline(worker)[0] for worker in workers) > 0
        ends = {offline(worker)[1] for worker in workers}
        taken = set()
        for server in range(servers_count):
            seeded = re.search(rf"server/{server} is seeded by worker/\d at step (\d+);.* it made \d+ steps offline", servers[0].errors())
            assert seeded, f"a model is of one step, also its part on server {server}: {servers[0].errors()}"
            taken.add(int(seeded[1]))
        # It is not always the furthest step: server 0 may still have what a worker offered before the worker was offline.
        assert len(taken) == 1 and taken <= ends and min(taken) > before
        steps = [int(line["step"]) for line in workers[0].lines()]
        assert steps == sorted(steps), "the run went back"


def test_workers_train_without_their_server_only_as_long_as_offline_seconds_allows(tmp_path):
    with Run(tmp_path, "ps", steps=ENDLESS, step_delay_ms=100, offline_seconds=1) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 10)
        servers[0].kill()
        until_offline(run, workers)
        time.sleep(3)
        servers[0] = run.start("server", 0)
        run.until(lambda: all(offline(worker)[0] for worker in workers), "the workers to be back")
        assert max(offline(worker)[0] for worker in workers) <= 11


def test_workers_wait_for_a_lost_server_if_offline_seconds_is_0(tmp_path):
    with Run(tmp_path, "ps", consistency="sync", steps=ENDLESS, step_delay_ms=15, offline_seconds=0) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 40)
        servers[0].kill()
        run.until(lambda: "waiting for server 0 (" in workers[0].errors(), "the worker to wait")
        servers[0] = run.start("server", 0)
        run.until_world(workers[0], 2)
        run.finish(servers, workers)
        assert not any("offline" in process.errors() for process in servers + workers)


def test_a_server_continues_with_its_own_weights_if_it_lost_only_its_connections(tmp_path):
    with Run(tmp_path, "ps", consistency="sync", steps=ENDLESS, step_delay_ms=15, wires=True) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 40)
        run.wires.move(run.addresses["server"][0], run.spare)
        run.wires.disturb("cut")
        until_offline(run, workers)
        run.wires.move(run.spare, run.addresses["server"][0])
        run.until_world(workers[0], 2)
        run.finish(servers, workers)
        assert "is seeded" not in servers[0].errors()


@pytest.mark.timed  # more than a million parameters: a sanitizer's steps take too long
def test_a_server_does_not_mix_the_late_weights_of_a_frozen_worker_with_those_of_another_worker(tmp_path):
    model = {"type": "mlp", "hidden": [1600, 800]}  # 5 MB take some 6 s on late connections
    with Run(tmp_path, "ps", servers=2, consistency="sync", steps=ENDLESS, report_every=1, minimum=1, model=model,
             data={"format": "idx", "batch": 4}, offline_seconds=0, patience_seconds=int(30 * mlk.SLOW), wires=True) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 3)
        servers[1].kill()
        run.wires.delay = 0.15
        servers[1] = run.start("server", 1)
        run.until(lambda: "server/1 is seeded by worker/" in servers[0].errors(), "server/1 to be seeded")
        seeder = int(re.search(r"server/1 is seeded by worker/(\d)", servers[0].errors())[1])
        time.sleep(0.75)
        workers[seeder].signal(signal.SIGSTOP)
        run.until(lambda: f"server/1 is seeded by worker/{1 - seeder}" in servers[0].errors(), "the other one to seed it")
        run.wires.calm()
        run.until(lambda: "training with 1 of 2" in servers[0].errors(), "the run to go on")
        workers[seeder].signal(signal.SIGCONT)
        run.until_world(workers[0], 2)
        run.seeds = run.addresses  # the rest of the run needs no proxies, which take more time than the training
        run.finish(servers, workers)


@pytest.mark.parametrize("consistency", ["async", "sync"])
def test_servers_do_not_mix_the_weights_of_a_lost_worker_with_those_of_another_worker(tmp_path, consistency):
    tensors = {"layers.0.weight": (16, 16), "layers.0.bias": (16,), "layers.1.weight": (4, 16), "layers.1.bias": (4,)}
    of_server_1 = {1: 16, 2: 64, 3: 4}  # chunk -> number of weights
    with Run(tmp_path, "ps", servers=2, consistency=consistency, step_delay_ms=15, minimum=1, offline_seconds=0) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 40)
        for process in (*servers, workers[1]):
            process.kill()
        servers = [run.start("server", 0), run.start("server", 1)]
        with run.beside(1, "server", 0) as at_0, run.beside(1, "server", 1) as at_1:
            deadline = time.monotonic() + 30 * mlk.SLOW
            for connection in (at_0, at_1):
                connection.join(AHEAD, tensors)
            round_ = {at_0.hear(wire_peer.SEED_WANTED, deadline)[1] for _ in servers}
            assert len(round_) == 1
            for chunk, size in of_server_1.items():
                at_1.seed(*round_, chunk, AHEAD, [1000] * size)
            at_1.say(wire_peer.PULL, key=3, clock=AHEAD)
            at_1.hear(wire_peer.WEIGHTS, deadline)
            time.sleep(0.2)  # server 0 learns of the seed of server 1, too
        assert_trained(servers + workers[:1], run.steps, workers[0])
        for server in range(2):
            assert re.search(rf"server/{server} is seeded by worker/0 at step \d+", servers[0].errors()), servers[0].errors()


def test_a_server_prefers_a_checkpoint_of_a_later_step_to_the_weights_of_a_worker(tmp_path):
    with Run(tmp_path, "ps", steps=ENDLESS, step_delay_ms=15, minimum=1, checkpoint={"every": 20, "keep": 2},
             offline_seconds=0) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 40)
        workers[1].signal(signal.SIGSTOP)
        behind = workers[0].step()
        run.until_step(workers[0], behind + 80)
        servers[0].kill()
        workers[0].kill()
        workers[1].signal(signal.SIGCONT)
        servers[0], workers[0] = run.start("server", 0), run.start("worker", 0)
        run.until_world(workers[0], 2)
        run.finish(servers, workers)
        restored = re.search(r"goes on from the checkpoint of step (\d+)", servers[0].errors())
        assert restored and int(restored[1]) > behind + 20, servers[0].errors()
