"""A run has more workers than seeds, and loses half of its workers at once."""

import pytest
from runtime_processes import ENDLESS, Run, kill_at_once

# Alone: the tests need much of the machine. Timed: with a sanitizer they would need more than the machine has.
pytestmark = [pytest.mark.runtime, pytest.mark.alone, pytest.mark.timed]

CROWD = 100
HALF = CROWD // 2


@pytest.mark.parametrize("mode,consistency", [("allreduce", "sync"), ("ps", "sync"), ("ps", "async")])
def test_a_run_of_many_workers_continues_after_half_of_them_were_killed(tmp_path, mode, consistency):
    # minimum: on a busy machine a new worker may be late to hear the others. It must not start alone, since its process would then end,
    # to be started again by Kubernetes.
    with Run(tmp_path, mode, workers=CROWD, minimum=CROWD - HALF, consistency=consistency, steps=ENDLESS, patience_seconds=120, report_every=1,
             step_delay_ms=20, data={"format": "idx", "batch": 8}) as run:
        servers, workers = run.start_all()
        speaker = (servers or workers)[0]

        def go_on(count):
            run.until(lambda: speaker.members() == count, f"{count} workers", timeout=120)
            step = workers[0].step()
            run.until(lambda: workers[0].step() >= step + 5, f"steps of {count} workers", timeout=120)

        go_on(CROWD)
        victims = range(CROWD - HALF, CROWD)
        kill_at_once(workers[CROWD - HALF:])
        go_on(CROWD - HALF)
        for rank in victims:
            workers[rank] = run.start("worker", rank)
        go_on(CROWD)
        assert all(worker.running() for worker in workers), "somebody else has ended"
        assert not any(workers[rank].lines() for rank in range(1, CROWD)), "the reporter was never lost"
