"""What other programs read from a run of mlk-runtime: TensorBoard reads event files, and Prometheus reads figures."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import mlk
import prometheus_text
import pytest
import wheels
from runtime_processes import ENDLESS, Run, assert_trained

pytestmark = pytest.mark.runtime

PORT = 9100
VERSION = "2.21.0"
PYTHON = f"py{sys.version_info.major}.{sys.version_info.minor}"
WHEELS = [
    f"tensorboard=={VERSION} --hash=sha256:7279316dcb6bd5bc391d623dea841531299cde1887310e8133bc34a996d32255",
    "absl-py==2.3.1 --hash=sha256:eeecf07f0c2a93ace0772c92e596ace6d3d3996c042b2128459aaae2a76de11d",
    "protobuf==6.33.0 --hash=sha256:35be49fd3f4fefa4e6e2aacc35e8b837d6703c37a2168a55ac21e9b1bc7559ef",
    wheels.NUMPY,
]


@pytest.fixture(scope="session")
def tensorboard():
    """tensorboard(folder) returns the scalars that TensorBoard shows for this folder: {tag: {step: value}}."""
    try:
        packages = wheels.unpack(f"tensorboard-{VERSION}-{PYTHON}", WHEELS, f"TensorBoard {VERSION} for its tests (30 MB)")
    except (subprocess.SubprocessError, RuntimeError) as error:
        pytest.skip(f"the packages cannot be fetched: {error}")

    def read(folder):
        told = mlk.run(sys.executable, mlk.ROOT / "tests/support/read_events.py", folder, check=0, timeout=60,
                       env={"PYTHONPATH": str(packages)})
        return {tag: dict(points) for tag, points in told.json().items()}
    return read


def near(text):
    """The value that a metrics line shows, as precisely as its last digit says: 123 stands for 122.6 too."""
    decimals = len(text.partition("e")[0].partition(".")[2])
    return pytest.approx(float(text), rel=1e-3, abs=0.5 * 10 ** -decimals)


def test_event_files_have_the_values_of_the_metrics_lines(tmp_path, tensorboard):
    folder = tmp_path / "events"
    with Run(tmp_path, "single", workers=1, evaluate_every=50) as run:
        worker = run.start("worker", 0, MLK_TENSORBOARD=str(folder))
        assert_trained([worker], run.steps, worker)
    shown = tensorboard(folder)
    lines = worker.lines()
    assert set(shown) == {key for line in lines for key in line} - {"step"}
    for tag, points in shown.items():
        assert points == {int(line["step"]): near(line[tag]) for line in lines if tag in line}


def test_a_restarted_run_opens_a_new_event_file_whose_values_replace_those_of_the_repeated_steps(tmp_path, tensorboard):
    folder = tmp_path / "events"
    with Run(tmp_path, "single", workers=1, steps=ENDLESS, checkpoint={"every": 45, "keep": 2}, step_delay_ms=10) as run:
        first = run.start("worker", 0, MLK_TENSORBOARD=str(folder))
        run.until_step(first, 80)
        first.kill()
        assert len(list(folder.iterdir())) == 1
        time.sleep(1.1)  # TensorBoard reads files in the order of the second in which they were opened
        _, (second,) = run.train_what_is_saved(MLK_TENSORBOARD=str(folder))
        assert second.result()["restored_step"] > 0
    assert len(list(folder.iterdir())) == 2
    again = int(second.lines()[0]["step"])
    expected = {int(line["step"]): float(line["loss"]) for line in first.lines() if int(line["step"]) < again}
    expected.update({int(line["step"]): float(line["loss"]) for line in second.lines()})
    assert tensorboard(folder)["loss"] == pytest.approx(expected, rel=1e-3)


def test_only_the_reporting_rank_writes_event_files(tmp_path, tensorboard):
    folder = tmp_path / "events"
    with Run(tmp_path, "allreduce", steps=60) as run:
        workers = [run.start("worker", rank, MLK_TENSORBOARD=str(folder)) for rank in range(2)]
        assert_trained(workers, run.steps, workers[0])
    assert len(list(folder.iterdir())) == 1
    assert tensorboard(folder)["world"][60] == 2


def test_a_run_trains_without_event_files_if_their_folder_cannot_be_written(tmp_path):
    (tmp_path / "taken").write_text("")
    with Run(tmp_path, "single", workers=1) as run:
        worker = run.start("worker", 0, MLK_TENSORBOARD=str(tmp_path / "taken"))
        assert_trained([worker], run.steps, worker)
        assert "goes on without them" in worker.errors()


def metrics_address(run, role, rank):
    return run.addresses[role][rank].split(":")[0], PORT


def fetch(address):
    with urllib.request.urlopen(f"http://{address[0]}:{address[1]}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return prometheus_text.parse(answer.read().decode())


@pytest.mark.parametrize("mode,consistency", [("ps", "async"), ("allreduce", "sync")], ids=["async", "allreduce"])
def test_every_process_tells_prometheus_its_metrics_at_the_same_port(tmp_path, mode, consistency):
    with Run(tmp_path, mode, consistency=consistency, steps=ENDLESS, step_delay_ms=5, checkpoint={"every": 20, "keep": 1}) as run:
        roles = [("server", rank) for rank in range(run.servers_count)] + [("worker", rank) for rank in range(2)]
        env = {"MLK_METRICS_PORT": str(PORT)}
        servers, workers = run.start_all(**env)
        run.until_step(workers[0], 60)
        figures = {at: fetch(metrics_address(run, *at)) for at in roles}
        reporter = figures["worker", 0]
        assert reporter["mlk_step"] >= 60
        assert reporter["mlk_loss"] > 0
        assert reporter["mlk_samples_per_second"] > 0
        assert reporter["mlk_epoch"] >= 1
        assert "mlk_loss" not in figures["worker", 1]
        assert ("mlk_staleness" in reporter) == (consistency == "async")
        for (role, _), told in figures.items():
            assert told["mlk_world_size"] == 2
            assert told["mlk_generation"] >= 1
            assert told["mlk_restarts_total"] == 0
            assert (told["mlk_samples_total"] > 0) == (role == "worker")
            assert told["mlk_samples_total"] == 16 * told["mlk_step_seconds_count"]
            parts = ("mlk_compute_seconds_total", "mlk_data_wait_seconds_total", "mlk_comm_wait_seconds_total")
            assert sum(told[part] for part in parts) == pytest.approx(told["mlk_step_seconds_sum"])
        later = fetch(metrics_address(run, "worker", 0))
        assert all(later[name] >= value for name, value in reporter.items() if name.endswith(("_total", "_count", "_sum")))
        run.finish(servers, workers, **env)


def connect(address):
    return socket.create_connection(address, timeout=10)


def answer_to(address, request):
    with connect(address) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        received = b""
        while part := client.recv(65536):
            received += part
        return received


def test_misbehaving_clients_of_the_metrics_port_disturb_neither_its_answers_nor_the_training(tmp_path):
    with Run(tmp_path, "single", workers=1, steps=ENDLESS, step_delay_ms=10) as run, contextlib.ExitStack() as clients:
        address = metrics_address(run, "worker", 0)
        worker = run.start("worker", 0, MLK_METRICS_PORT=str(PORT))
        run.until_step(worker, 10)
        files = f"/proc/{worker.popen.pid}/fd"
        before = len(os.listdir(files))
        for _ in range(40):  # silent connections, more than the process accepts at once: it closes the oldest ones
            clients.enter_context(connect(address))
        assert fetch(address)["mlk_step"] > 0
        assert len(os.listdir(files)) <= before + 17  # 16 connections, and a file that is just being written
        for request, status in ((b"\x16\x03\x01\x02\x00\n\n", b"400"), (b"PUT /metrics HTTP/1.1\r\n\r\n", b"405"),
                                (b"GET /else HTTP/1.1\r\n\r\n", b"404"), (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 100_000, b"431")):
            assert answer_to(address, request).split()[1] == status
        assert answer_to(address, b"GET /metrics HTT") == b""
        slow, deaf = clients.enter_context(connect(address)), clients.enter_context(connect(address))
        deaf.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")  # this client never reads the answer
        until = time.monotonic() + 60
        with pytest.raises(OSError):  # the process closes a connection that sends only a byte from time to time
            while time.monotonic() < until:
                slow.sendall(b"G")
                time.sleep(0.2)
        assert fetch(address)["mlk_step"] > 0
        run.until(lambda: len(os.listdir(files)) <= before, "the end of all connections")
        step = worker.step()
        run.until_step(worker, step + 10)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 143


def test_a_run_trains_but_does_not_answer_prometheus_if_the_port_is_taken(tmp_path):
    with Run(tmp_path, "single", workers=1) as run, socket.create_server(metrics_address(run, "worker", 0)):
        worker = run.start("worker", 0, MLK_METRICS_PORT=str(PORT))
        assert_trained([worker], run.steps, worker)
        assert "metrics: cannot listen at 127." in worker.errors()


def test_a_worker_ends_with_64_if_the_metrics_port_is_not_a_number(tmp_path):
    with Run(tmp_path, "single", workers=1) as run:
        worker = run.start("worker", 0, MLK_METRICS_PORT="metrics")
        assert worker.wait() == 64
        assert "MLK_METRICS_PORT" in json.loads(worker.result_path.read_text())["message"]
