"""Runs whose network is split into two sides. Only one side continues. Each process has a network namespace of its own."""

import signal

import pytest
from runtime_network import Network
from runtime_processes import ENDLESS, Run, assert_trained

pytestmark = [pytest.mark.runtime, pytest.mark.timed, pytest.mark.skipif(not Network.possible(), reason="network namespaces need root")]


def steps_of(process):
    return [int(line["step"]) for line in process.lines()]


def told_twice(workers):
    """Steps that more than one rank has reported."""
    told = [step for worker in workers for step in steps_of(worker)]
    return sorted(step for step in set(told) if told.count(step) > 1)


def lost(process, peer):
    return f"{peer} is lost" in process.errors()


@pytest.mark.parametrize("apart,reporters", [((2, 3), (0,)), ((3,), (0,)), ((0,), (0, 1)), ((0, 1), (0,))])
def test_only_one_side_of_an_allreduce_run_continues_if_the_network_is_split(tmp_path, apart, reporters):
    """reporters: the ranks that report. They are on the side that continues. If rank 0 is cut off alone, it has reported before the cut."""
    with Network() as network, Run(tmp_path, "allreduce", workers=4, minimum=1, network=network, steps=ENDLESS, step_delay_ms=20,
                                   report_every=1) as run:
        _, workers = run.start_all()
        run.until_step(workers[0], 20)
        network.split([run.hosts["worker", rank] for rank in apart])
        majority = [rank for rank in range(4) if rank not in apart] if apart != (0, 1) else [0, 1]
        minority = [rank for rank in range(4) if rank not in majority]
        speaker = workers[majority[0]]
        for rank in minority:
            run.until(lambda rank=rank: any(lost(workers[rank], f"worker/{other}") for other in majority), "the loss")
        run.until(lambda: all(lost(speaker, f"worker/{rank}") for rank in minority), "the loss")
        before = {rank: len(steps_of(workers[rank])) for rank in minority}
        step = speaker.step()
        run.until_step(speaker, step + 30)
        for rank in minority:
            assert len(steps_of(workers[rank])) == before[rank], f"rank {rank} goes on as well"
        network.heal()
        run.until_step(workers[0], speaker.step())
        run.until_world(workers[0], 4)
        assert {rank for rank in range(4) if steps_of(workers[rank])} == set(reporters)
        # One rank may have received a sum whose last bytes the other ranks did not get. Then these ranks repeat the same step.
        assert len(told_twice(workers)) <= 1, told_twice(workers)
        run.finish([], workers)


@pytest.mark.parametrize("consistency", ["sync", "async"])
def test_a_worker_waits_if_it_is_cut_off_from_server_0_but_the_other_workers_continue(tmp_path, consistency):
    with Network() as network, Run(tmp_path, "ps", workers=3, consistency=consistency, network=network, steps=ENDLESS, step_delay_ms=20,
                                   report_every=1) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 20)
        network.split([run.hosts["worker", 0]])
        run.until(lambda: lost(servers[0], "worker/0"), "the loss")
        alone = steps_of(workers[0])
        run.until(lambda: workers[1].step() > max(alone) + 20, "steps of the others")
        assert steps_of(workers[0]) == alone
        network.heal()
        run.until_world(workers[0], 3)
        # A worker that comes back may report the step that the other workers are making.
        assert len(told_twice(workers)) <= 1, told_twice(workers)
        run.finish(servers, workers)


@pytest.mark.parametrize("consistency", ["sync", "async"])
def test_all_workers_wait_while_server_0_is_cut_off(tmp_path, consistency):
    with Network() as network, Run(tmp_path, "ps", workers=3, servers=2, consistency=consistency, network=network, steps=ENDLESS,
                                   step_delay_ms=20, report_every=1, checkpoint={"every": 20, "keep": 2}) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 20)
        network.split([run.hosts["server", 0]])
        run.until(lambda: all(lost(servers[0], f"worker/{rank}") for rank in range(3)), "the loss")
        before = [len(steps_of(worker)) for worker in workers]
        run.until(lambda: "waiting for" in workers[0].errors() or "is lost" in workers[0].errors(), "a worker that waits")
        assert [len(steps_of(worker)) for worker in workers] == before
        step = workers[0].step()
        network.heal()
        # Workers may train again before the servers have found each other. Checkpoints are saved only after the servers have.
        run.until(lambda: run.saved_step() > step, "a checkpoint of both servers")
        run.until_world(workers[0], 3)
        # A worker that comes back may report the step that the other workers are making.
        assert len(told_twice(workers)) <= 1, told_twice(workers)
        run.finish(servers, workers)


@pytest.mark.parametrize("workers,pairs", [(3, [(1, 2)]), (4, [(1, 2), (1, 3)])])
def test_a_run_continues_without_one_of_two_ranks_that_do_not_hear_each_other(tmp_path, workers, pairs):
    with Network() as network, Run(tmp_path, "allreduce", workers=workers, minimum=1, network=network, steps=ENDLESS, step_delay_ms=20,
                                   report_every=1) as run:
        _, processes = run.start_all()
        run.until_step(processes[0], 20)
        hosts = [(run.hosts["worker", one], run.hosts["worker", other]) for one, other in pairs]
        for one, other in hosts:
            network.cut(one, other)
        run.until(lambda: f": {workers - 1} of {workers} workers" in processes[0].errors(), "a generation without one of the two", 40)
        step = processes[0].step()
        run.until_step(processes[0], step + 50)
        for one, other in hosts:
            network.mend(one, other)
        # Meanwhile the pauses between attempts to connect have grown.
        run.until(lambda: processes[0].members() == workers, "all to be back", 60)
        run.until_step(processes[0], processes[0].step() + 30)
        assert not told_twice(processes)
        run.finish([], processes)


@pytest.mark.parametrize("consistency,mended", [("sync", True), ("sync", False), ("async", False)])
def test_the_other_workers_continue_if_one_server_does_not_hear_a_worker(tmp_path, consistency, mended):
    with Network() as network, Run(tmp_path, "ps", workers=3, servers=2, consistency=consistency, network=network,
                                   steps=ENDLESS if mended else 300, step_delay_ms=20, patience_seconds=120) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 20)
        cut_off, server = run.hosts["worker", 2], run.hosts["server", 1]
        network.cut(cut_off, server)
        run.until(lambda: lost(workers[2], "server/1"), "the loss")
        if mended:
            run.until_step(workers[0], workers[0].step() + 50)
            network.mend(cut_off, server)
            run.until_logged(servers[0], "worker/2 has joined")
            run.until_world(workers[0], 3)
            run.finish(servers, workers)
        else:
            assert_trained(servers + workers, run.steps, workers[0])


def test_sigterm_saves_a_checkpoint_even_while_the_lowest_rank_still_receives_the_state(tmp_path):
    with Network() as network, Run(tmp_path, "allreduce", workers=2, minimum=1, network=network, steps=ENDLESS, step_delay_ms=20,
                                   model={"type": "mlp", "hidden": [16384]}) as run:
        _, workers = run.start_all()
        run.until_step(workers[0], 20)
        workers[0].kill()
        run.until_step(workers[1], 30)
        network.slow(run.hosts["worker", 0])
        back = run.start("worker", 0)
        run.until(lambda: workers[1].errors().count("2 of 2 workers") == 1, "a generation with rank 0")
        for process in (back, workers[1]):
            process.signal(signal.SIGTERM)
        for process in (back, workers[1]):
            assert process.wait() == 143, process.errors()
        assert [folder for folder in run.checkpoints.iterdir() if folder.name.startswith("step-")], workers[1].errors()


@pytest.mark.parametrize("mode,consistency", [("ps", "sync"), ("ps", "async"), ("allreduce", "sync")])
def test_a_run_is_trained_and_loses_no_rank_if_a_network_link_is_slow(tmp_path, mode, consistency):
    steps = 180 if consistency == "async" else 60  # a step uses one worker's batch or three: the samples are as many
    with Network() as network, Run(tmp_path, mode, workers=3, consistency=consistency, network=network, steps=steps) as run:
        network.slow(run.hosts["worker", 2])
        servers, workers = run.start_all()
        assert_trained(servers + workers, run.steps, workers[0])
        assert not any("is lost" in process.errors() for process in servers + workers[:1])
