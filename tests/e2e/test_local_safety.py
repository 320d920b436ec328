"""The cluster on this machine. Its server may be killed at any time, and other users of the machine cannot disturb it."""

import collections
import contextlib
import encodings.idna  # noqa: F401  after the fork nothing can be loaded from a folder that is closed to the other user
import itertools
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

import mlk

pytestmark = pytest.mark.nodes

OTHER_USER = 65534
as_another_user = pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")


def intrude(told, done):
    """Does what the other user could do, in a forked process: the other user may not enter the folder of our interpreter."""
    os.setgroups([])
    os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
    os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)
    found = {"user": os.geteuid(), "read": [], "statuses": []}
    for path in told["paths"]:
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            found["read"].append(path)
        except PermissionError:
            pass
    for headers in ({}, {"Authorization": "Bearer open-sesame"}, {"Authorization": "Basic YTpi"}):
        for path in ("/version", "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/pods", "/nonsense"):
            request = urllib.request.Request(told["url"] + path, headers=headers)
            try:
                context = ssl._create_unverified_context()
                found["statuses"].append(urllib.request.urlopen(request, context=context, timeout=20).status)
            except urllib.error.HTTPError as error:
                found["statuses"].append(error.code)
    for address in told["addresses"]:
        for noise in (b"GET / HTTP/1.1\r\n\r\n" * 20, os.urandom(4096), b"", b"\0" * 100000):
            make_noise(address, noise)
    done.send(found)


def make_noise(address, noise):
    """Returns when the other side has closed the connection. A time-out is an error."""
    with socket.create_connection(address, timeout=20) as connection:
        try:
            connection.sendall(noise)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
        except TimeoutError:
            raise
        except OSError:
            pass  # the other side has closed the connection


def submit(cluster, name, seconds, *flags):
    """Starts digits-ps so that it trains for this number of seconds."""
    steps = 600
    sets = (f"name={name}", f"train.steps={steps}", f"train.step_delay_ms={2000 * seconds // steps}")
    return cluster.start("submit", *flags, *(part for text in sets for part in ("--set", text)), mlk.EXAMPLES / "digits-ps.yaml")


def local(cluster, *args, check=0):
    return mlk.run(mlk.MLK, "local", *args, check=check, env=cluster.env)


def server(cluster):
    return local(cluster, "status", "-o", "json").json()


def phase(cluster, run):
    return cluster.mlk("status", run, "-o", "json", check=0).json()["phase"]


def until_it_trains(cluster, run):
    mlk.wait_until(lambda: "step=" in cluster.mlk("logs", run, check=0).stdout, f"{run} to train")


def environment(pid):
    return dict(part.split("=", 1) for part in pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0") if "=" in part)


def ended(process, code, timeout=120):
    out, err = process.communicate(timeout=timeout * mlk.SLOW)
    assert process.returncode == code, err
    return out, err


def test_a_waiting_submit_starts_a_killed_local_server_again_and_the_run_loses_nothing(fresh_embedded, name):
    waiting = submit(fresh_embedded, name, 7, "--wait")
    run = waiting.stdout.readline().strip()
    until_it_trains(fresh_embedded, run)
    before = server(fresh_embedded)
    os.kill(before["pid"], signal.SIGKILL)
    _, said = ended(waiting, 0)
    assert "starting it again" in said
    after = server(fresh_embedded)
    assert after["pid"] != before["pid"] and after["server"] == before["server"]
    status = fresh_embedded.mlk("status", run, "-o", "json", check=0).json()
    assert status["phase"] == "Succeeded" and status["restarts"] == 0


def test_the_next_command_starts_a_killed_local_server_again_and_the_run_loses_nothing(fresh_embedded, name):
    run = ended(submit(fresh_embedded, name, 7), 0)[0].strip()
    until_it_trains(fresh_embedded, run)
    os.kill(server(fresh_embedded)["pid"], signal.SIGKILL)
    mlk.wait_until(lambda: local(fresh_embedded, "status", check=None).code == 3, "the server to be gone")
    assert phase(fresh_embedded, run) == "Running"
    fresh_embedded.mlk("wait", run, check=0, timeout=120)
    assert fresh_embedded.mlk("status", run, "-o", "json", check=0).json()["restarts"] == 0


def test_a_waiting_submit_does_not_start_the_cluster_after_mlk_local_down_but_mlk_local_up_continues_the_run(fresh_embedded, name):
    waiting = submit(fresh_embedded, name, 6, "--wait")
    run = waiting.stdout.readline().strip()
    until_it_trains(fresh_embedded, run)
    assert run in local(fresh_embedded, "down").stderr
    assert "not up" in local(fresh_embedded, "down").stderr
    time.sleep(3)  # the waiting command polls once per second
    assert local(fresh_embedded, "status", check=3).stdout == "down\n"
    assert not mlk.processes_with(MLK_RUN=run)
    local(fresh_embedded, "up")
    ended(waiting, 0)


def test_only_one_local_server_runs_if_two_commands_start_the_local_cluster_at_the_same_time(fresh_embedded):
    local(fresh_embedded, "down")
    both = [subprocess.Popen([str(mlk.MLK), "local", "up"], env={**os.environ, **fresh_embedded.env}, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    said = [ended(process, 0)[1] for process in both]
    assert said[0] == said[1] and server(fresh_embedded)["server"] in said[0]
    mlk.wait_until(lambda: serving(fresh_embedded) == [server(fresh_embedded)["pid"]], "the one that came second to end")


def serving(cluster):
    """The server processes of this cluster. A process may end during this call."""
    pids = []
    for pid in mlk.processes_with(XDG_STATE_HOME=cluster.env["XDG_STATE_HOME"]):
        with contextlib.suppress(OSError):
            if b"\0serve\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                pids.append(pid)
    return pids


@pytest.fixture
def open_folder():
    """A folder that every user may enter."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mlk-e2e-open-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def intrude_as_another_user(told):
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    process = fork.Process(target=intrude, args=(told, theirs))
    process.start()
    theirs.close()
    try:
        assert ours.poll(120 * mlk.SLOW), "the other user is held up"
        return ours.recv()
    finally:
        process.kill()
        process.join()


@as_another_user
def test_another_user_of_the_machine_can_neither_read_the_local_cluster_nor_disturb_a_run(fresh_embedded, name, open_folder):
    state = pathlib.Path(fresh_embedded.env["XDG_STATE_HOME"])
    state.chmod(0o755)  # the protection must come from mlk, not from the test
    waiting = submit(fresh_embedded, name, 9, "--wait")
    run = waiting.stdout.readline().strip()
    until_it_trains(fresh_embedded, run)

    environments = [environment(pid) for pid in mlk.processes_with(MLK_RUN=run)]
    ports = {tuple(address.rsplit(":", 1)) for address in (one["MLK_ADDRESS"] for one in environments)}
    assert len(ports) == 3 and all(host.startswith("127.") for host, _ in ports)
    folder = state / "mlk" / "local"
    paths = [folder, *folder.rglob("*"), *(f"/proc/{pid}/environ" for pid in mlk.processes_with(MLK_RUN=run))]
    found = intrude_as_another_user({"paths": [str(path) for path in paths], "url": server(fresh_embedded)["server"],
                                     "addresses": [(host, int(port)) for host, port in ports]})
    assert found["user"] == OTHER_USER and len(paths) > 20
    assert found["read"] == []
    assert set(found["statuses"]) == {401}

    with pretend_to_be_a_worker(open_folder, environments) as said:
        mlk.wait_until(lambda: "does not know the key of the run" in said.read_text(), "the impostor to be refused")
        assert phase(fresh_embedded, run) == "Running"
        ended(waiting, 0)
    log = fresh_embedded.mlk("logs", run, check=0).stdout
    assert "not our protocol" in log and "127.0.0.1:" in log, "the log names who was refused"
    assert "is lost" not in log
    assert fresh_embedded.mlk("status", run, "-o", "json", check=0).json()["restarts"] == 0


def knock(address, done):
    """Runs as another user. It opens connections as fast as it can, sends three bytes on each of them, and keeps the last 500 open."""
    os.setgroups([])
    os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
    os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)
    kept = collections.deque(maxlen=500)
    for count in itertools.count(1):
        with contextlib.suppress(OSError):
            kept.append(socket.create_connection(address, timeout=5))
            kept[-1].send(b"\x16\x03\x01")
        done.value = count


@as_another_user
def test_the_owner_can_still_connect_while_another_user_opens_one_connection_after_another(fresh_embedded):
    fresh_embedded.mlk("ls", check=0)
    url = urllib.parse.urlsplit(server(fresh_embedded)["server"])
    fork = multiprocessing.get_context("fork")
    opened = fork.Value("Q", 0)
    intruder = fork.Process(target=knock, args=((url.hostname, url.port), opened), daemon=True)
    intruder.start()
    try:
        with socket.create_connection((url.hostname, url.port), timeout=20) as slow:
            before = opened.value
            mlk.wait_until(lambda: opened.value > before + 500, "the other user to open connections")
            context = ssl._create_unverified_context()
            with context.wrap_socket(slow) as ours:
                ours.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
                assert ours.recv(4096).startswith(b"HTTP/1.1 401 ")
        fresh_embedded.mlk("ls", check=0)
    finally:
        intruder.kill()
        intruder.join()


@contextlib.contextmanager
def pretend_to_be_a_worker(folder, environments):
    """Our own runtime as the other user. It knows every setting of a worker except the key, and tries to connect again and again."""
    worker = next(one for one in environments if one["MLK_ROLE"] == "worker" and one["MLK_RANK"] == "1")
    shutil.copy(mlk.RUNTIME, folder / "mlk-runtime")
    shutil.copytree(mlk.EXAMPLES / "data/digits", folder / "digits")
    config = json.loads(pathlib.Path(worker["MLK_CONFIG"]).read_text())
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "key").write_text("ab" * 32)
    port = worker["MLK_ADDRESS"].rsplit(":", 1)[1]
    env = {key: value for key, value in worker.items() if key.startswith("MLK_")}
    env.update(MLK_CONFIG=str(folder / "config.json"), MLK_SECRET=str(folder / "key"), MLK_DATA=str(folder / "digits"),
               MLK_ADDRESS=f"127.0.0.9:{port}", PATH=os.environ["PATH"])
    for path in folder.rglob("*"):
        path.chmod(0o755)
    said = folder / "said"
    with said.open("w") as file:
        impostor = subprocess.Popen([folder / "mlk-runtime"], env=env, stdout=subprocess.DEVNULL, stderr=file,
                                    user=OTHER_USER, group=OTHER_USER, extra_groups=[], cwd="/")
    try:
        yield said
    finally:
        impostor.kill()
        impostor.wait()


def test_a_pod_does_not_start_if_the_cluster_went_down_just_before_its_start(fresh_embedded):
    fresh_embedded.mlk("ls", check=0)
    mlk.run(mlk.MLK, "local", "down", check=0, env=fresh_embedded.env, timeout=60)
    pod = pathlib.Path(fresh_embedded.env["XDG_STATE_HOME"]) / "mlk" / "local" / "pods" / "early"
    pod.mkdir(parents=True, mode=0o700)
    started = pod / "started-by-the-test"
    (pod / "process.json").write_text(json.dumps({"pod": "default/early", "grace_seconds": 5, "argv": ["/usr/bin/touch", str(started)],
                                                  "env": [], "working_folder": "/"}))
    mlk.run(mlk.MLK, "local", "down", check=0, env=fresh_embedded.env, timeout=60)
    mlk.run(mlk.MLK, "local", "supervise", pod, env=fresh_embedded.env, timeout=60)
    assert not started.exists()
    assert json.loads((pod / "exit.json").read_text())["reason"] == "shutdown"


def test_mlk_local_up_says_which_variable_to_set_if_the_lock_file_cannot_be_locked(tmp_path):
    (tmp_path / "mlk/local/lock").mkdir(parents=True)  # a folder cannot be locked, like a file on NFS without lockd
    (tmp_path / "mlk/local").chmod(0o700)
    told = mlk.run(mlk.BUILD / "mlk", "local", "up", env={"XDG_STATE_HOME": str(tmp_path)}, check=1)
    assert "did not start: cannot lock" in told.stderr and "set XDG_STATE_HOME" in told.stderr, told


# A file system without locks, such as NFS without lockd. Each F_SETLK fails with ENOLCK.
NO_LOCKS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
static int of_libc(const char* name, int fd, int command, va_list rest) {
  void* argument = va_arg(rest, void*);
  if (command == F_SETLK) { errno = ENOLCK; return -1; }
  return ((int (*)(int, int, void*))dlsym(RTLD_NEXT, name))(fd, command, argument);
}
#define REPLACE(NAME) int NAME(int fd, int command, ...) { \
  va_list rest; va_start(rest, command); int result = of_libc(#NAME, fd, command, rest); va_end(rest); return result; }
REPLACE(fcntl)
REPLACE(fcntl64)
"""


def test_mlk_local_up_says_which_variable_to_set_if_the_file_system_has_no_locks(tmp_path):
    library = tmp_path / "no_locks.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library, "-ldl"], input=NO_LOCKS, text=True, check=True)
    state = tmp_path / "state"
    told = mlk.run(mlk.BUILD / "mlk", "local", "up", env={"XDG_STATE_HOME": str(state), "LD_PRELOAD": str(library)}, check=1)
    assert "did not start: cannot lock" in told.stderr and "set XDG_STATE_HOME" in told.stderr, told
    assert "No locks available" in told.stderr, told
