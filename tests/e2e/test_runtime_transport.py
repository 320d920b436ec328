"""The connections between the processes of a run: both kinds of sockets, and strangers that connect."""

import os
import pathlib
import re

import mlk
import pytest
import wire_peer
from runtime_processes import ENDLESS, Run

pytestmark = pytest.mark.runtime

MODES = [("ps", "async"), ("ps", "sync"), ("allreduce", "sync")]


@pytest.mark.parametrize("mode,consistency", MODES, ids=["async", "sync", "allreduce"])
def test_a_run_over_tcp_is_trained_and_survives_the_loss_of_a_worker(tmp_path, mode, consistency):
    tcp = {"MLK_TRANSPORT": "tcp"}
    # 200 000 parameters are several chunks, and more than a socket buffers.
    with Run(tmp_path, mode, consistency=consistency, steps=ENDLESS, step_delay_ms=10, model={"type": "mlp", "hidden": [500, 400]}) as run:
        servers, workers = run.start_all(**tcp)
        run.until_step(workers[0], 20)
        assert not any(address in line for line in unix_sockets() for addresses in run.seeds.values() for address in addresses)
        workers[1].kill()
        workers[1] = run.start("worker", 1, **tcp)
        run.until_logged((servers or workers)[0], "worker/1 is lost")
        run.until_world(workers[0], 2)
        run.finish(servers, workers, **tcp)


@pytest.mark.parametrize("mode,consistency", MODES, ids=["async", "sync", "allreduce"])
def test_processes_of_one_host_use_unix_sockets_by_default(tmp_path, mode, consistency):
    with Run(tmp_path, mode, consistency=consistency, steps=ENDLESS, step_delay_ms=10, model={"type": "mlp", "hidden": [500, 400]}) as run:
        servers, workers = run.start_all()
        run.until_step(workers[0], 10)
        listener = run.seeds["server" if mode == "ps" else "worker"][0]

        def connected():
            return [line for line in unix_sockets() if line.endswith(f"@mlk-runtime {listener}") and " 0001 03 " in line]
        # Read the kernel's list once more if the sockets are missing: it may lack a line if sockets are opened or closed while it is read.
        run.until(lambda: len(connected()) == (2 if mode == "ps" else 1), "both by their UNIX sockets")
        run.finish(servers, workers)


def test_a_server_refuses_an_unknown_transport(tmp_path):
    with Run(tmp_path, "ps") as run:
        server = run.start("server", 0, MLK_TRANSPORT="carrier pigeon")
        assert server.wait() == 64
        assert "MLK_TRANSPORT must be tcp or unset, not 'carrier pigeon'" in server.errors()


@pytest.mark.timed
def test_ten_thousand_reconnects_leak_nothing_and_do_not_disturb_the_run(tmp_path):
    with Run(tmp_path, "ps", workers=2, minimum=1, steps=ENDLESS, step_delay_ms=5, report_every=10) as run:
        server, worker = run.start("server", 0), run.start("worker", 0)
        run.until_step(worker, 10)
        key = bytes.fromhex((tmp_path / "key").read_text())
        address = run.seeds["server"][0]
        reconnect(address, key, range(1000))
        resident = memory(server)
        step = worker.step()
        reconnect(address, key, range(1000, 10_000))
        assert memory(server) - resident < 2048, "KiB more after 9000 reconnects"
        assert len(os.listdir(f"/proc/{server.popen.pid}/fd")) < 40
        run.until_step(worker, step + 20)
        log = server.errors()
        for reason in ("another version of the protocol", "not our protocol", "does not know the key of the run"):
            assert re.search(rf"connection with (127\.\S+|process {os.getpid()} of this host) closed: .*{reason}", log), log
        complaints = [line for line in log.splitlines() if "closed:" in line]
        assert len(complaints) <= 5 * (1 + 60 * mlk.SLOW / 10), "lines are limited to 5 in 10 s"
        assert re.search(r"\(and \d+ others before it\)", log) or len(complaints) <= 5
        assert "is lost" not in log + worker.errors()


@pytest.mark.timed  # a sanitizer needs additional memory
@pytest.mark.parametrize("over_unix", [False, True], ids=["tcp", "unix"])
def test_a_server_uses_no_more_memory_than_the_credit_allows_for_a_worker_that_reads_no_answers(tmp_path, over_unix):
    # The weights have 3.3 MB, in chunks of up to 512 KiB. All answers to the requests would be 3.3 GB.
    with Run(tmp_path, "ps", workers=2, minimum=1, steps=ENDLESS, step_delay_ms=5, model={"type": "mlp", "hidden": [1000, 800]}) as run:
        server, worker = run.start("server", 0), run.start("worker", 0)
        run.until_step(worker, 20)
        resident = memory(server)
        with wire_peer.connect(run.seeds["server"][0], over_unix) as connection:
            wire_peer.shake_hands(connection, "run", bytes.fromhex((tmp_path / "key").read_text()), 1, 7, checksum=not over_unix)
            for round_ in range(1000):
                connection.sendall(b"".join(wire_peer.frame(wire_peer.PULL, 1, 7, 2 + 20 * round_ + chunk, key=chunk, clock=round_)
                                            for chunk in range(20)))
            run.until_step(worker, worker.step() + 20)
            # The credit in both directions, the memory shared with the peer, and a MiB for everything else.
            assert memory(server) - resident < 1024 * (2 * 4 + 2 * 2 + 1), "KiB"
        assert "closed:" not in server.errors()


def test_a_server_closes_the_connection_if_a_message_names_another_process_as_its_sender(tmp_path):
    with Run(tmp_path, "ps", workers=3, minimum=1, steps=ENDLESS, step_delay_ms=5) as run:
        server, worker = run.start("server", 0), run.start("worker", 0)
        run.until_step(worker, 10)
        for rank, incarnation in ((0, 7), (1, 8)):
            with wire_peer.connect(run.seeds["server"][0], over_unix=False) as connection:
                wire_peer.shake_hands(connection, "run", bytes.fromhex((tmp_path / "key").read_text()), 1, 7, checksum=True)
                connection.sendall(wire_peer.frame(wire_peer.PULL, rank, incarnation, 2))
                while not wire_peer.closed(connection):
                    pass  # skip what the server sent before
        assert server.errors().count("a message in the name of somebody else") == 2
        run.until_step(worker, worker.step() + 20)


def reconnect(address, key, numbers):
    """Connects peers of four kinds in turn, by TCP and by the UNIX socket: with random bytes, another version, a wrong secret, and correct
    peers that disconnect."""
    for number in numbers:
        over_unix = number // 4 % 2 == 1
        with wire_peer.connect(address, over_unix) as connection:
            if number % 4 == 0:
                connection.sendall(os.urandom(100))
                assert wire_peer.closed(connection)
            elif number % 4 == 1:
                connection.sendall(wire_peer.hello(1, number + 1, bytes(32), b"127.0.0.1:1", version=2))
                assert wire_peer.closed(connection)
            elif number % 4 == 2:
                wire_peer.shake_hands(connection, "run", bytes(32), 1, number + 1, checksum=not over_unix)
                assert wire_peer.closed(connection)
            else:
                wire_peer.shake_hands(connection, "run", key, 1, number + 1, checksum=not over_unix)


def memory(process):
    """The resident memory in KiB."""
    status = pathlib.Path(f"/proc/{process.popen.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1])


def unix_sockets():
    return pathlib.Path("/proc/net/unix").read_text().splitlines()
