"""Ranks of an allreduce run beside others that say exactly what the test wants them to: see wire_peer.Rank."""

import struct
import time

import pytest
import wire_peer
from mlk import SLOW
from runtime_processes import ENDLESS, Run

pytestmark = pytest.mark.runtime

LINEAGE = 5
SUSPECT_AFTER, START_GRACE, BEGIN_PATIENCE = 5, 3, 5  # seconds, in runtime/transport/transport.h, membership.h and assembly.cpp


def rank_beside(run, rank, incarnation, at):
    """Worker RANK, connected with worker `at`; it has a state as soon as it says so."""
    beside = run.beside(rank, "worker", at, incarnation)
    beside.say_status()
    return beside


def soon():
    return time.monotonic() + 30 * SLOW


def test_a_rank_that_did_not_hear_of_a_new_generation_is_let_in_by_its_members(tmp_path):
    with Run(tmp_path, "allreduce", workers=3, minimum=2, steps=ENDLESS, step_delay_ms=5) as run:
        workers = [run.start("worker", 1), run.start("worker", 2)]
        run.until_step(workers[0], 20)
        with rank_beside(run, 0, 7, at=2) as beside, rank_beside(run, 0, 7, at=1) as at_proposer:
            number = at_proposer.hear(wire_peer.PROPOSE, soon())[0]
            at_proposer.accept(number)
            run.until(lambda: workers[0].members() == 3, "a generation with rank 0")
            # For the others it is a member, and the lowest; to it the word got lost with the connection.
            with rank_beside(run, 0, 7, at=1) as again:
                beside.say(wire_peer.HEARTBEAT)
                assert again.hear(wire_peer.PROPOSE, soon())[0] > number
        step = workers[0].step()
        run.until_step(workers[0], step + 20)


def begin_with(run, rank_0, rank_2, number):
    """A generation of ranks 0 and 2, which have a state, and of worker 1, which is to be fed by rank 2."""
    members = {0: 7, 1: wire_peer.incarnation_of("worker-1-0"), 2: 9}
    for rank in (rank_0, rank_2):
        rank.say_status(generation=number - 1, step=50, lineage=LINEAGE)
    rank_0.propose(number, number - 1, LINEAGE, members)
    assert rank_0.hear(wire_peer.ACCEPT, soon())[0] == number
    rank_0.begin(number, 50, feeder=2, hungry=[1])


def test_a_rank_whose_state_does_not_come_tells_those_who_would_wait_for_it(tmp_path):
    with Run(tmp_path, "allreduce", workers=3, minimum=2) as run:
        run.start("worker", 1)
        with rank_beside(run, 0, 7, at=1) as rank_0, rank_beside(run, 2, 9, at=1) as rank_2:
            begin_with(run, rank_0, rank_2, 4)
            rank_2.connection.close()
            assert rank_0.hear(wire_peer.TROUBLE, soon())[0] == 4


def until_status(rank, generation):
    """Until worker 1 has told `rank` that it is in that generation."""
    while rank.hear(wire_peer.STATUS, soon())[0] != generation:
        pass


def test_a_rank_that_was_passed_over_follows_nobody_who_has_not_heard_of_it(tmp_path):
    with Run(tmp_path, "allreduce", workers=3, minimum=2) as run:
        run.start("worker", 1)
        with rank_beside(run, 0, 7, at=1) as rank_0, rank_beside(run, 2, 9, at=1) as rank_2:
            begin_with(run, rank_0, rank_2, 4)
            until_status(rank_0, 4)  # worker 1 takes part; what rank 2 says could come to it before what rank 0 has said
            rank_2.say_status(generation=5, step=60, lineage=LINEAGE)  # it has gone on with others
            until_status(rank_0, 0)  # worker 1 has learnt that it does not take part any more
            own = wire_peer.incarnation_of("worker-1-0")
            rank_0.propose(8, 4, LINEAGE, {0: 7, 1: own})
            assert rank_0.hear(wire_peer.REFUSE, soon())[1] == 8
            rank_2.propose(9, 5, LINEAGE, {1: own, 2: 9})
            assert rank_2.hear(wire_peer.ACCEPT, soon())[0] == 9


def test_a_rank_that_learns_while_it_waits_that_it_was_passed_over_says_so(tmp_path):
    with Run(tmp_path, "allreduce", workers=3, minimum=2) as run:
        run.start("worker", 1)
        with rank_beside(run, 0, 7, at=1) as rank_0, rank_beside(run, 2, 9, at=1) as rank_2:
            begin_with(run, rank_0, rank_2, 4)
            rank_2.connection.close()
            rank_0.hear(wire_peer.TROUBLE, soon())
            assert rank_0.hear(wire_peer.STATUS, soon())[0] == 4  # it waits for the next
            rank_0.say_status(generation=5, step=60, lineage=LINEAGE)
            until_status(rank_0, 0)


def test_a_generation_that_begins_later_than_its_members_waited_is_told_so(tmp_path):
    with Run(tmp_path, "allreduce", workers=3, minimum=2) as run:
        run.start("worker", 1)
        with rank_beside(run, 0, 7, at=1) as rank_0, rank_beside(run, 2, 9, at=1) as rank_2:
            members = {0: 7, 1: wire_peer.incarnation_of("worker-1-0"), 2: 9}
            rank_0.say_status()
            rank_2.say_status()
            rank_0.propose(4, 0, LINEAGE, members)
            rank_0.hear(wire_peer.ACCEPT, soon())
            with pytest.raises(TimeoutError):  # it loads a checkpoint
                rank_0.hear(wire_peer.TROUBLE, time.monotonic() + BEGIN_PATIENCE + 1)
            rank_0.begin(4, 50, feeder=0, hungry=[1, 2])
            assert rank_0.hear(wire_peer.REFUSE, soon())[1] == 4


def test_a_rank_that_has_come_to_the_same_step_by_another_sum_is_fed(tmp_path):
    with Run(tmp_path, "allreduce", workers=2, minimum=1, steps=ENDLESS, step_delay_ms=20) as run:
        alone = run.start("worker", 0)
        run.until_step(alone, 10)
        with run.beside(1, "worker", 0) as other:
            other.say_status(step=1)
            number, _, _ = other.hear(wire_peer.PROPOSE, soon())
            other.say_status(step=1)
            _, step, payload = other.heard[wire_peer.STATUS]
            other.accept(number, step, lineage=struct.unpack_from("<Q", payload)[0])
            _, begun_at, payload = other.hear(wire_peer.BEGIN, soon())
            assert begun_at == step
            _, count = struct.unpack("<QI", payload[:12])
            assert struct.unpack(f"<{count}I", payload[12:]) == (1,)


def test_newcomers_begin_no_run_of_their_own_while_somebody_trains_who_is_not_heard_of(tmp_path):
    with Run(tmp_path, "allreduce", workers=3, minimum=2) as run:
        run.start("worker", 0)
        with run.beside(2, "worker", 0) as trains:
            trains.say_status(generation=5, step=60, lineage=LINEAGE)
            with rank_beside(run, 1, 9, at=0) as newcomer:
                with pytest.raises(TimeoutError):
                    newcomer.hear(wire_peer.PROPOSE, time.monotonic() + SUSPECT_AFTER + START_GRACE + 3)
                trains.say_status()  # it has started anew
                assert newcomer.hear(wire_peer.PROPOSE, soon())
