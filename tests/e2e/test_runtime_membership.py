"""Real ranks of an allreduce run beside ranks that send exactly the messages that the test wants: see wire_peer.Rank."""

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
    """Worker RANK, connected with worker `at`. It has no state until it says that it has one."""
    beside = run.beside(rank, "worker", at, incarnation)
    beside.say_status()
    return beside


def soon():
    return time.monotonic() + 30 * SLOW


def test_the_other_members_propose_again_if_a_member_did_not_hear_that_the_generation_has_begun(tmp_path):
    with Run(tmp_path, "allreduce", workers=3, minimum=2, steps=ENDLESS, step_delay_ms=5) as run:
        workers = [run.start("worker", 1), run.start("worker", 2)]
        run.until_step(workers[0], 20)
        with rank_beside(run, 0, 7, at=2) as beside, rank_beside(run, 0, 7, at=1) as at_proposer:
            number = at_proposer.hear(wire_peer.PROPOSE, soon())[0]
            at_proposer.accept(number)
            run.until(lambda: workers[0].members() == 3, "a generation with rank 0")
            # For the other ranks, rank 0 is a member and the lowest rank. Rank 0 has not heard of this generation, since its connection was lost.
            with rank_beside(run, 0, 7, at=1) as again:
                beside.say(wire_peer.HEARTBEAT)
                assert again.hear(wire_peer.PROPOSE, soon())[0] > number
        step = workers[0].step()
        run.until_step(workers[0], step + 20)


def begin_with(run, rank_0, rank_2, number):
    """Begins a generation of ranks 0 and 2, which have a state, and of worker 1, which rank 2 has to feed."""
    members = {0: 7, 1: wire_peer.incarnation_of("worker-1-0"), 2: 9}
    for rank in (rank_0, rank_2):
        rank.say_status(generation=number - 1, step=50, lineage=LINEAGE)
    rank_0.propose(number, number - 1, LINEAGE, members)
    assert rank_0.hear(wire_peer.ACCEPT, soon())[0] == number
    rank_0.begin(number, 50, feeder=2, hungry=[1])


def test_a_rank_that_does_not_receive_its_state_reports_trouble_to_the_other_members(tmp_path):
    with Run(tmp_path, "allreduce", workers=3, minimum=2) as run:
        run.start("worker", 1)
        with rank_beside(run, 0, 7, at=1) as rank_0, rank_beside(run, 2, 9, at=1) as rank_2:
            begin_with(run, rank_0, rank_2, 4)
            rank_2.connection.close()
            assert rank_0.hear(wire_peer.TROUBLE, soon())[0] == 4


def until_status(rank, generation):
    """Waits until worker 1 has told `rank` that worker 1 is in that generation."""
    while rank.hear(wire_peer.STATUS, soon())[0] != generation:
        pass


def test_a_rank_refuses_a_proposal_of_a_rank_that_has_not_heard_of_the_newer_generation(tmp_path):
    with Run(tmp_path, "allreduce", workers=3, minimum=2) as run:
        run.start("worker", 1)
        with rank_beside(run, 0, 7, at=1) as rank_0, rank_beside(run, 2, 9, at=1) as rank_2:
            begin_with(run, rank_0, rank_2, 4)
            until_status(rank_0, 4)  # worker 1 takes part; otherwise the next message of rank 2 could arrive before the messages of rank 0
            rank_2.say_status(generation=5, step=60, lineage=LINEAGE)  # rank 2 has continued with other ranks
            until_status(rank_0, 0)  # worker 1 has learnt that it is not a member any more
            own = wire_peer.incarnation_of("worker-1-0")
            rank_0.propose(8, 4, LINEAGE, {0: 7, 1: own})
            assert rank_0.hear(wire_peer.REFUSE, soon())[1] == 8
            rank_2.propose(9, 5, LINEAGE, {1: own, 2: 9})
            assert rank_2.hear(wire_peer.ACCEPT, soon())[0] == 9


def test_a_waiting_rank_reports_that_it_has_no_generation_when_it_learns_that_others_went_on_without_it(tmp_path):
    with Run(tmp_path, "allreduce", workers=3, minimum=2) as run:
        run.start("worker", 1)
        with rank_beside(run, 0, 7, at=1) as rank_0, rank_beside(run, 2, 9, at=1) as rank_2:
            begin_with(run, rank_0, rank_2, 4)
            rank_2.connection.close()
            rank_0.hear(wire_peer.TROUBLE, soon())
            assert rank_0.hear(wire_peer.STATUS, soon())[0] == 4  # worker 1 waits for the next generation
            rank_0.say_status(generation=5, step=60, lineage=LINEAGE)
            until_status(rank_0, 0)


def test_a_rank_refuses_to_begin_a_generation_if_the_begin_message_comes_too_late(tmp_path):
    with Run(tmp_path, "allreduce", workers=3, minimum=2) as run:
        run.start("worker", 1)
        with rank_beside(run, 0, 7, at=1) as rank_0, rank_beside(run, 2, 9, at=1) as rank_2:
            members = {0: 7, 1: wire_peer.incarnation_of("worker-1-0"), 2: 9}
            rank_0.say_status()
            rank_2.say_status()
            rank_0.propose(4, 0, LINEAGE, members)
            rank_0.hear(wire_peer.ACCEPT, soon())
            with pytest.raises(TimeoutError):  # worker 1 waits, as if rank 0 loaded a checkpoint
                rank_0.hear(wire_peer.TROUBLE, time.monotonic() + BEGIN_PATIENCE + 1)
            rank_0.begin(4, 50, feeder=0, hungry=[1, 2])
            assert rank_0.hear(wire_peer.REFUSE, soon())[1] == 4


def test_a_rank_receives_the_state_even_if_it_has_reached_the_same_step_in_another_generation(tmp_path):
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


def test_new_ranks_do_not_propose_a_first_generation_while_a_silent_rank_may_still_train(tmp_path):
    with Run(tmp_path, "allreduce", workers=3, minimum=2) as run:
        run.start("worker", 0)
        with run.beside(2, "worker", 0) as trains:
            trains.say_status(generation=5, step=60, lineage=LINEAGE)
            with rank_beside(run, 1, 9, at=0) as newcomer:
                with pytest.raises(TimeoutError):
                    newcomer.hear(wire_peer.PROPOSE, time.monotonic() + SUSPECT_AFTER + START_GRACE + 3)
                trains.say_status()  # rank 2 has started anew
                assert newcomer.hear(wire_peer.PROPOSE, soon())
