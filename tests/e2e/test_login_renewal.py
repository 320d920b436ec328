"""Credentials of 5 s against the real API server. Commands that run longer continue, though every connection is cut when a credential expires."""

import contextlib
import json
import pathlib
import re
import socket
import sys
import threading
import time

import pytest

import mlk

LIFE = 5  # seconds
ENDS = 10
LINES = int((LIFE + 1) * ENDS + 12 * mlk.SLOW) * 4  # the lines of the program, one in 0.25 s; commands take longer on a busy machine
PLUGIN = mlk.ROOT / "tests/support/login_plugin.py"


class Relay:
    """Passes bytes on to the API server, so that client certificates work, until its connections are cut."""

    def __init__(self, port):
        self._target, self._open, self._lock = port, set(), threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self):
        with self._lock:
            sockets, self._open = self._open, set()
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        return len(sockets) // 2

    def connections(self):
        with self._lock:
            return len(self._open) // 2

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target), timeout=10)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                self._open |= {client, server}
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open -= {source, target}


def service_account(real, name):
    """A service account with the rights of the ordinary user."""
    real.kubectl_admin("create", "serviceaccount", name, "-n", real.namespace)
    real.kubectl_admin("create", "rolebinding", name, "-n", real.namespace, "--clusterrole=edit", f"--serviceaccount={real.namespace}:{name}")
    made = json.loads(real.kubectl_admin("get", "serviceaccount", name, "-n", real.namespace, "-o", "json").stdout)["metadata"]
    return {"namespace": real.namespace, "name": name, "uid": made["uid"]}


def write_kubeconfig(real, path, port, kind, calls, account):
    config = json.loads(mlk.run(real._kubectl(), "config", "view", "--raw", "-o", "json", check=0, env=real.env).stdout)
    for cluster in config["clusters"]:
        cluster["cluster"]["server"] = f"https://127.0.0.1:{port}"
    env = {"MLK_TEST_CALLS": str(calls), "MLK_TEST_ACCOUNT": json.dumps(account)}
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": sys.executable,
                     "args": [str(PLUGIN), mlk.os.environ["MLK_CLUSTER_DIR"], str(LIFE), kind],
                     "env": [{"name": name, "value": value} for name, value in env.items()]}}
    for entry in config["users"]:
        entry["user"] = user
    path.write_text(json.dumps(config))


def calls_of(calls, process):
    return sum(line.split()[0] == str(process.pid) for line in calls.read_text().splitlines())


@pytest.mark.nodes
@pytest.mark.parametrize("kind", ["certificate", "token"])
def test_commands_continue_and_call_the_plugin_about_once_for_each_credential_while_ten_credentials_expire(real, name, tmp_path, kind):
    port = int(re.search(r"127\.0\.0\.1:(\d+)", pathlib.Path(real.kubeconfig).read_text()).group(1))
    calls, config = tmp_path / "calls", tmp_path / "config"
    account = service_account(real, name)
    program = f"i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); sleep 0.25; done"
    experiment = tmp_path / "experiment.yaml"
    experiment.write_text(json.dumps({"name": name, "mode": "single", "image": real.env["MLK_IMAGE"], "run": ["sh", "-c", program],
                                      "workers": {"cpu": "100m", "memory": "32Mi"}}))
    processes = []
    try:
        with Relay(port) as relay:
            write_kubeconfig(real, config, relay.port, kind, calls, account)
            env = {**real.env, "KUBECONFIG": str(config)}
            run = mlk.run(mlk.MLK, "submit", experiment, check=0, env=env).stdout.strip()
            assert len(calls.read_text().splitlines()) <= 2  # one call of the plugin; a slow machine may need more than 5 s
            follower = mlk.Cluster("real", config, "", None, env, real.namespace)
            processes = [follower.start("logs", "-f", run), follower.start("wait", run)]
            asked, start = {}, time.monotonic()
            for _ in range(ENDS):
                time.sleep(LIFE + 1)
                # Each command has its streams again before the next cut. This may take longer on a busy machine.
                mlk.wait_until(lambda: relay.connections() >= len(processes), "two commands that are connected", 30)
                relay.cut()
                assert [process.poll() for process in processes] == [None, None]
                before, cut = len(calls.read_text().splitlines()), time.monotonic()
                assert run in follower.mlk("ls", check=0).stdout
                asked = {process: calls_of(calls, process) for process in processes}
                assert len(calls.read_text().splitlines()) - before <= 4 + 3 * ((time.monotonic() - cut) // LIFE)
            ends = (time.monotonic() - start) / LIFE
            texts = [process.communicate(timeout=60 * mlk.SLOW) for process in processes]
            assert [process.returncode for process in processes] == [0, 0], texts
            lines = [int(number) for number in re.findall(r"line (\d+)$", texts[0][0], re.MULTILINE)]
            assert lines == list(range(LINES))
            for process in processes:
                assert ENDS / 3 <= asked[process] <= ends + 3, (asked[process], ends, texts)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        real.kubectl_admin("delete", "rolebinding,serviceaccount", name, "-n", real.namespace, "--ignore-not-found")
