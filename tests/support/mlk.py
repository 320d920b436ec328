"""The base of the end-to-end tests: run a program with a time limit, run mlk against a cluster, wait for a condition with a time limit."""

import contextlib
import functools
import http.client
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import urllib.parse

import kubeconfigs

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MLK_BUILD_DIR") or ROOT / "build")
MLK = BUILD / "mlk"
RUNTIME = BUILD / "mlk-runtime"
EXAMPLES = ROOT / "examples"

# Programs with a sanitizer and busy machines are slower, so every time limit is multiplied by this factor.
SLOW = float(os.environ.get("MLK_TEST_SLOW") or 1)

DISTURBING = ("api-kill", "node-cut", "node-kill")  # commands of tests/cluster that end the programs of other tests
beside_others = False  # whether other tests may run beside the present test; conftest.py of the end-to-end tests sets it


class Result:
    """How a program ended. `code` is negative for a signal."""

    def __init__(self, command, code, stdout, stderr):
        self.command, self.code, self.stdout, self.stderr = command, code, stdout, stderr

    def json(self):
        try:
            return json.loads(self.stdout)
        except ValueError as error:
            raise AssertionError(f"not JSON ({error}): {self}") from error

    def __repr__(self):
        return f"{' '.join(self.command)}\n-> {self.code}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


def run(*command, check=None, timeout=60, env=None, cwd=None, input=None):
    """Runs the program to its end. check=N: the exit status must be N. After `timeout` seconds the program and its children are killed
    (except children that have started a session of their own), and the test fails."""
    command = [str(part) for part in command]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL if input is None else subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, **(env or {})}, cwd=cwd, text=True, errors="replace", start_new_session=True)
    try:
        stdout, stderr = process.communicate(input, timeout=timeout * SLOW)
    except BaseException as reason:
        os.killpg(process.pid, signal.SIGKILL)
        if not isinstance(reason, subprocess.TimeoutExpired):
            raise
        said = Result(command, None, _text(reason.stdout), _text(reason.stderr))
        raise AssertionError(f"not ended after {timeout * SLOW:g} s: {said}") from None
    result = Result(command, process.returncode, stdout, stderr)
    if check is not None:
        assert result.code == check, f"expected exit {check}: {result}"
    return result


def _text(output):
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


@contextlib.contextmanager
def namespaces_of_their_own(cluster, names, role="edit", objects=lambda name: ()):
    """Namespaces with these objects, in which the ordinary user has this ClusterRole. They are deleted at the end of the test.

    Their Jobs are deleted first. Kubernetes deletes the Pods of a namespace before its Jobs, and a Job keeps its failed Pod until it has
    created the next one, which it may not in a namespace that is being deleted. So the namespace would never go away, and Kubernetes would try
    again several times a second.
    """
    items = []
    for name in names:
        binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "user", "namespace": name},
                   "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                   "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "researcher"}]}
        items += [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, binding, *objects(name)]
    try:
        cluster.kubectl_admin("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        yield names
    finally:
        jobs = [job for job in cluster.kubectl_admin("get", "jobs", "-A", "-o", "json").json()["items"] if job["metadata"]["namespace"] in names]
        if jobs:
            cluster.kubectl_admin("delete", "-f", "-", "--wait=false", "--ignore-not-found",
                                  input=json.dumps({"apiVersion": "v1", "kind": "List", "items": jobs}))
        cluster.kubectl_admin("delete", "namespace", *names, "--wait=false", "--ignore-not-found")


@contextlib.contextmanager
def namespace_of_its_own(cluster, name, role="edit"):
    with namespaces_of_their_own(cluster, [name], role):
        yield name


def wait_until(condition, what, timeout=60, interval=None):
    """Calls `condition` until it returns a true value, and returns this value. An AssertionError of `condition` counts as false.

    interval: seconds between calls, for a condition that must be seen soon or that is true only for a short time. Without it, a pause takes
    twice as long as the last call, at most 2 s. Most conditions start a command, and the calls of many waiting tests would delay each other.
    """
    end = time.monotonic() + timeout * SLOW
    reason = ""
    while True:
        begin = time.monotonic()
        try:
            value = condition()
            if value:
                return value
        except AssertionError as error:
            reason = f": {error}"
        assert time.monotonic() < end, f"after {timeout * SLOW:g} s still not: {what}{reason}"
        time.sleep(interval or max(0.2, min(2, 2 * (time.monotonic() - begin))))


class Cluster:
    """A cluster for runs. `kind` is embedded or real. An ordinary user runs all commands on it, except those of `kubectl_admin`."""

    def __init__(self, kind, kubeconfig, admin_kubeconfig, kubectl, env, namespace):
        self.kind, self.namespace = kind, namespace
        self.kubeconfig, self.admin_kubeconfig = str(kubeconfig), str(admin_kubeconfig)
        self.env = {**env, "KUBECONFIG": self.kubeconfig}
        self._kubectl = kubectl

    @property
    def embedded(self):
        return self.kind == "embedded"

    def mlk(self, command, *args, check=None, timeout=60, env=None, input=None, cwd=None):
        """mlk COMMAND ARGS on this cluster."""
        local = ["--local"] if self.embedded else []
        return run(MLK, command, *local, *args, check=check, timeout=timeout, env={**self.env, **(env or {})}, input=input, cwd=cwd)

    def start(self, command, *args, **options):
        """Starts a command that continues to run, and returns its Popen. The caller ends the command."""
        local = ["--local"] if self.embedded else []
        return subprocess.Popen([str(MLK), command, *local, *map(str, args)], env={**os.environ, **self.env}, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    @contextlib.contextmanager
    def commands(self):
        """Yields a function that starts commands like start(). At the end, the commands that still run are ended."""
        started = []

        def begin(*command):
            started.append(self.start(*command))
            return started[-1]
        try:
            yield begin
        finally:
            for process in started:
                if process.poll() is None:
                    process.kill()
                process.communicate()

    def kubectl(self, *args, check=0, timeout=60, input=None):
        return run(self._kubectl(), *args, check=check, timeout=timeout, env=self.env, input=input)

    def kubectl_admin(self, *args, check=0, timeout=60, input=None):
        return run(self._kubectl(), "--kubeconfig", self.admin_kubeconfig, *args, check=check, timeout=timeout, input=input)

    def objects(self, kinds, selector=""):
        """The objects of these kinds (plural, with commas), as kubectl returns them. Waiting tests ask often, and each start of kubectl takes a
        tenth of a second of a processor. So this function sends requests without kubectl."""
        return [item for plural in kinds.split(",") for item in self._list(plural, selector)]

    def _list(self, plural, selector):
        found = self._request("GET", plural, selector)
        about = {"apiVersion": found["apiVersion"], "kind": found["kind"].removesuffix("List")}
        return [{**about, **item} for item in found["items"]]

    def delete_all(self, plural, selector):
        """Begins to delete the objects of this kind, if there are any."""
        self._request("DELETE", plural, selector)

    def _request(self, method, plural, selector):
        group = {"jobs": "apis/batch"}.get(plural, "api")
        query = urllib.parse.urlencode({"labelSelector": selector})
        path = f"/{group}/v1/namespaces/{self.namespace}/{plural}?{query}"
        server = _server(self.kubeconfig, pathlib.Path(self.kubeconfig).stat().st_mtime_ns)
        connection = http.client.HTTPSConnection(server.host, server.port, timeout=30 * SLOW, context=server.tls)
        try:
            connection.request(method, server.prefix + path, headers={"Authorization": server.authorization} if server.authorization else {})
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise AssertionError(f"{method} {path}: {error}") from error
        finally:
            connection.close()
        assert answer.status == 200, f"{method} {path}: {answer.status} {said.decode(errors='replace')}"
        return json.loads(said)

    def harness(self, command, *args, check=0, timeout=120):
        """Runs a command of tests/cluster on this (real) cluster, such as `node-kill 2`."""
        assert not self.embedded, f"tests/cluster/{command} is for the real cluster"
        assert command not in DISTURBING or not beside_others, f"tests/cluster/{command} breaks other tests: mark this one `alone`"
        return run(ROOT / "tests/cluster" / command, *args, check=check, timeout=timeout, env=self.env)

    def signal(self, run_name, role, rank, name):
        """Sends a signal to the processes of one rank, from outside of the cluster."""
        if not self.embedded:
            return self.harness("signal", run_name, role, rank, name)
        sent = [pid for pid in processes_with(MLK_RUN=run_name, MLK_ROLE=role, MLK_RANK=rank) if _send(pid, name)]
        assert sent, f"no process of {run_name} {role}/{rank}"
        return sent


@functools.lru_cache
def _server(kubeconfig, _changed):
    """The API server that the kubeconfig names, and the way to log in there."""
    with tempfile.TemporaryDirectory() as folder:
        return kubeconfigs.Upstream(kubeconfig, pathlib.Path(folder))


def processes_with(**variables):
    """The pids of the processes whose environment has all of these variables."""
    wanted = {f"{key}={value}".encode() for key, value in variables.items()}
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if wanted <= set((entry / "environ").read_bytes().split(b"\0")):
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


def _send(pid, name):
    try:
        os.kill(pid, getattr(signal, "SIG" + name.removeprefix("SIG")))
        return True
    except ProcessLookupError:
        return False
