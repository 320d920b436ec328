"""The end of a run. A late process learns from a peer or from the last checkpoint that the run is trained, and ends with 0."""

import time

import pytest
from runtime_processes import Run, accuracy

pytestmark = pytest.mark.runtime

MODES = pytest.mark.parametrize("mode,consistency", [("ps", "sync"), ("ps", "async"), ("allreduce", "sync")])
LATE = {"MLK_LATE_SECONDS": "30"}


@MODES
@pytest.mark.parametrize("lost", [0, 1])
def test_a_worker_that_starts_again_after_the_end_learns_that_the_run_is_trained(tmp_path, mode, consistency, lost):
    with Run(tmp_path / "run", mode, consistency=consistency, step_delay_ms=10, minimum=1) as run:
        servers, workers = run.start_all(**LATE)
        run.until_step(workers[0], 100)
        workers[lost].kill()
        other = workers[1 - lost]
        # After the end the servers still run. In a run without servers, the rank that reported still runs.
        run.until(other.done, "the end")
        assert all(process.running() for process in servers or [other])
        back = run.start("worker", lost, **LATE)
        for process in [back, other, *servers]:
            assert process.wait(20) == 0, process.errors()
        assert back.result()["done"] is True
        assert accuracy(back) == accuracy(other), "it leaves the result of the run"
        assert not back.lines(), "it has nothing to report"
        assert "is lost" not in back.errors()


def test_the_second_server_tells_a_late_worker_in_place_of_a_lost_first_server_that_the_run_is_trained(tmp_path):
    with Run(tmp_path / "run", "ps", servers=2, step_delay_ms=10, minimum=1) as run:
        servers, workers = run.start_all(**LATE)
        run.until_step(workers[0], 100)
        workers[1].kill()
        assert workers[0].wait() == 0, workers[0].errors()
        time.sleep(0.5)  # the second server has heard of the end, too
        servers[0].kill()
        back = run.start("worker", 1, **LATE)
        for process in (back, servers[1]):
            assert process.wait(20) == 0, process.errors()
        assert accuracy(back) == accuracy(workers[0])


def test_a_run_stays_trained_if_sigterm_ends_a_server_that_waits_for_late_ranks(tmp_path):
    with Run(tmp_path / "run", "ps", step_delay_ms=10, minimum=1) as run:
        servers, workers = run.start_all(**LATE)
        run.until_step(workers[0], 100)
        workers[1].kill()
        assert workers[0].wait() == 0, workers[0].errors()
        assert servers[0].running()
        servers[0].signal(15)
        assert servers[0].wait(10) == 0
        assert servers[0].done()


@pytest.mark.parametrize("mode,role", [("single", "worker"), ("ps", "worker"), ("ps", "server"), ("allreduce", "worker")])
def test_a_process_without_peers_ends_with_0_if_it_finds_the_last_checkpoint(tmp_path, mode, role):
    with Run(tmp_path / "run", mode, workers=1 if mode == "single" else 2, checkpoints=True) as run:
        servers, workers = run.start_all()
        for process in servers + workers:
            assert process.wait() == 0, process.errors()
        rank = 0 if role == "server" else run.workers_count - 1
        alone = run.start(role, rank)
        assert alone.wait(20) == 0, alone.errors()
        assert alone.done()
        if role == "worker":
            assert alone.result()["step"] == run.steps
            assert accuracy(alone) == accuracy(workers[0])


def test_a_worker_that_waits_for_a_server_ends_with_0_when_it_finds_the_last_checkpoint(tmp_path):
    """A worker that waits for a server also looks for the last checkpoint, since the server may have ended well and will not start again."""
    with Run(tmp_path / "run", "ps", checkpoints=True, minimum=2) as run:
        servers, workers = run.start_all()
        for process in servers + workers:
            assert process.wait() == 0, process.errors()
        last = max(run.checkpoints.glob("step-*"))
        aside = last.rename(run.checkpoints / "aside")
        late = run.start("worker", 1)
        time.sleep(2)
        assert late.running(), late.errors()
        aside.rename(last)
        assert late.wait(20) == 0, late.errors()
        assert accuracy(late) == accuracy(workers[0])


def test_a_worker_that_cannot_find_the_last_checkpoint_learns_from_a_server_that_the_run_is_trained(tmp_path):
    with Run(tmp_path / "run", "ps", checkpoints=True, minimum=2) as run:
        servers, workers = run.start_all()
        for process in servers + workers:
            assert process.wait() == 0, process.errors()
        elsewhere = {"MLK_CHECKPOINTS": str(tmp_path / "elsewhere")}
        late, server = run.start("worker", 1, **elsewhere), run.start("server", 0)
        assert late.wait(30) == 0, late.errors()
        assert server.wait(30) == 0, server.errors()
        assert accuracy(late) == accuracy(workers[0]), "the weights are those of the checkpoint"


def test_a_server_that_replaces_a_killed_server_ends_with_75_after_its_patience_if_no_worker_comes(tmp_path):
    with Run(tmp_path / "run", "ps", patience_seconds=2) as run:
        first = run.start("server", 0)
        time.sleep(4)
        assert first.running(), "workers may be pending for long"
        first.kill()
        again = run.start("server", 0, MLK_FAILURES="1")
        assert again.wait(20) == 75, "it knows nothing of the run, and its Job is to try again"


def test_a_rank_is_not_reported_as_lost_if_it_ends_because_the_run_is_trained(tmp_path):
    with Run(tmp_path / "run", "allreduce", workers=4, steps=50) as run:
        _, workers = run.start_all()
        for process in workers:
            assert process.wait() == 0, process.errors()
            assert "is lost" not in process.errors(), process.errors()
