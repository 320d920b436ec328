"""A submit is cut off at any place and repeated. There is one run with all its objects, and each object has its owner. On both clusters."""

import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time

import pytest

import mlk
from fault_proxy import FaultProxy

SMALL = """
name: {name}
mode: single
image: localhost/mlk-runtime:test
run: "true"
workers: {{count: 1, cpu: 50m, memory: 32Mi}}
"""
KINDS = "configmaps,secrets,services,jobs"
# Pods that ask for more than a node has never start, so they cost nothing. The objects are the same.
UNSCHEDULABLE = ["--set", "workers.gpu=1"]
UNSCHEDULABLE_PS = [*UNSCHEDULABLE, "--set", "servers.gpu=1", "--set", "image=localhost/mlk-runtime:test"]
STORES = re.compile(r"/(configmaps|secrets|services|jobs)\b")  # without the reviews


class Submits:
    """Submits of one experiment file through a proxy. Each submit has its own run, since it sets a variable to another value."""

    def __init__(self, cluster, proxy, name, file, flags=()):
        self.cluster, self.proxy = cluster, proxy
        self.command = ["--kubeconfig", proxy.kubeconfig, "submit", "--set", f"name={name}", *flags, file]
        self.name = name

    def __call__(self, which, check=None, timeout=60, flags=()):
        return mlk.run(mlk.MLK, *self.command, *flags, "-e", f"WHICH={which}", check=check, timeout=timeout, env=self.cluster.env)

    def start(self, which):
        """Starts the submit and returns its Popen."""
        return subprocess.Popen([str(part) for part in (mlk.MLK, *self.command, "-e", f"WHICH={which}")], env={**os.environ, **self.cluster.env},
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def undisturbed(self):
        """The requests of an undisturbed submit, as (method, path)."""
        before = len(self.proxy.requests)
        self("undisturbed", check=0)
        return [(request["method"], request["path"]) for request in self.proxy.requests[before:]]

    def killed_at(self, which, n):
        """Kills mlk when the server has answered n - 1 requests, and repeats the submit."""
        before = len(self.proxy.requests)
        self.proxy.set_plan([{"do": "half-open", "nth": n}])
        process = self.start(which)
        try:
            mlk.wait_until(lambda: len(self.proxy.requests) - before >= n, f"request {n}", timeout=30, interval=0.02)
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=30)
        self.proxy.set_plan([])
        return self(which, check=0).stdout.strip()

    def by_run(self):
        """The objects of all runs of this experiment, by run."""
        found = {}
        for item in self.cluster.objects(KINDS, f"mlk.dev/name={self.name}"):
            found.setdefault(item["metadata"]["labels"]["mlk.dev/run"], []).append(item)
        return found


def shape(run, objects):
    """The kinds and names of the objects of a run, without the run's name. Fails if an object does not belong to the run's owner object."""
    owner, = [item for item in objects if item["kind"] == "ConfigMap" and item["metadata"]["name"] == run]
    for item in objects:
        uids = [reference["uid"] for reference in item["metadata"].get("ownerReferences", [])]
        assert uids == ([] if item is owner else [owner["metadata"]["uid"]]), f'{item["kind"]} {item["metadata"]["name"]} of {run} is an orphan'
        assert "deletionTimestamp" not in item["metadata"]
    return sorted(f'{item["kind"]}{item["metadata"]["name"].removeprefix(run)}' for item in objects)


def all_whole(submits, handles):
    """Checks that each handle is a run with the objects of an undisturbed run, and that there are no other runs. `handles`: fault -> run."""
    runs = submits.by_run()
    expected = shape(handles["undisturbed"], runs[handles["undisturbed"]])
    assert len(set(handles.values())) == len(handles) and runs.keys() == set(handles.values())
    for which, run in handles.items():
        assert shape(run, runs[run]) == expected, which


@pytest.fixture
def proxy(cluster):
    with FaultProxy(cluster.kubeconfig) as proxy:
        yield proxy


@pytest.fixture
def file(experiment, name):
    return experiment(SMALL.format(name=name))


@pytest.fixture(autouse=True)
def nothing_stays(cluster, name):
    """A name may have many runs here."""
    yield
    cluster.kubectl("delete", "configmaps", "-n", cluster.namespace, "-l", f"mlk.dev/name={name}", "--wait=false")


def test_a_repeated_submit_makes_one_whole_run_if_the_first_submit_was_cut_off_at_any_request(cluster, proxy, name, file):
    submits = Submits(cluster, proxy, name, file, UNSCHEDULABLE)
    requests = submits.undisturbed()
    stored = [n for n, (method, path) in enumerate(requests, 1) if method == "POST" and STORES.search(path)]
    # The last request only says that all objects were made.
    assert len(stored) >= 3 and stored[-1] == len(requests) - 1 and requests[-1][0] == "PATCH"
    handles = {"undisturbed": submits("undisturbed", check=0).stdout.strip()}
    for n in range(1, len(requests) + 1):
        for cut in ("cut-before", "cut-after"):
            proxy.set_plan([{"do": cut, "nth": n}])
            first = submits(f"{cut}-{n}")
            proxy.set_plan([])
            assert first.code in (0, 4), first
            if n in stored:  # this request is safe to repeat, so mlk repeats it
                assert first.code == 0, f"{requests[n - 1]}: {first}"
            repeated = submits(f"{cut}-{n}", check=0).stdout.strip()
            assert first.stdout.strip() in ("", repeated)
            handles[f"{cut}-{n}"] = repeated
    all_whole(submits, handles)


@pytest.mark.nodes
def test_a_repeated_submit_makes_a_whole_ps_run_that_trains_if_the_first_submit_was_killed_at_the_creation_of_an_object(cluster, proxy, name):
    submits = Submits(cluster, proxy, name, mlk.EXAMPLES / "digits-ps.yaml", UNSCHEDULABLE_PS)
    requests = submits.undisturbed()
    stored = [n for n, (method, path) in enumerate(requests, 1) if method == "POST" and STORES.search(path)]
    handles = {"undisturbed": submits("undisturbed", check=0).stdout.strip()}
    for n in stored:
        handles[n] = submits.killed_at(n, n)
    all_whole(submits, handles)
    to_the_end = Submits(cluster, proxy, name, mlk.EXAMPLES / "digits-ps.yaml",
                         ["--set", "image=localhost/mlk-runtime:test", "--set", "train.steps=300"])
    run = to_the_end.killed_at("to-the-end", stored[-1])
    assert mlk.run(mlk.MLK, "--kubeconfig", cluster.kubeconfig, "wait", run, timeout=120, env=cluster.env).code == 0


def test_a_repeated_submit_makes_one_whole_run_if_the_first_submit_was_killed_at_any_moment(cluster, proxy, name, file):
    submits = Submits(cluster, proxy, name, file, UNSCHEDULABLE)
    begin = time.monotonic()
    handles = {"undisturbed": submits("undisturbed", check=0).stdout.strip()}
    whole = time.monotonic() - begin
    seed = random.randrange(1 << 32)
    moments = random.Random(seed)
    for i in range(8):
        process = submits.start(i)
        try:
            process.wait(timeout=moments.uniform(0, whole))
        except subprocess.TimeoutExpired:  # mlk still runs, as this test needs
            pass
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)
        handles[i] = submits(i, check=0).stdout.strip()
    try:
        all_whole(submits, handles)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}") from error


@pytest.mark.nodes
def test_mlk_submit_repeats_a_request_if_the_api_server_answers_with_429_and_a_retry_after_header(cluster, proxy, name, file):
    proxy.set_plan([{"do": "status", "method": "POST", "path": path, "status": 429, "headers": {"Retry-After": "1"}}
                    for path in ("/configmaps", "/services", "/jobs")])
    submits = Submits(cluster, proxy, name, file)
    run = submits("busy", check=0).stdout.strip()
    assert [request["status"] for request in proxy.requests if STORES.search(request["path"])
            and request["method"] == "POST"] == [429, 201] * 3
    all_whole(submits, {"undisturbed": run})
    mlk.run(mlk.MLK, "--kubeconfig", cluster.kubeconfig, "wait", run, check=0, timeout=90, env=cluster.env)


def test_mlk_submit_creates_no_object_if_the_version_of_kubernetes_is_too_old(cluster, proxy, name, file):
    proxy.set_plan([{"do": "version", "path": "^/version", "version": "1.30", "times": 0}])
    submits = Submits(cluster, proxy, name, file)
    refused = submits("old", check=4)
    assert "1.30" in refused.stderr and "1.31" in refused.stderr and refused.stdout == ""
    assert submits.by_run() == {}


def refuse(path, method="POST", status=403, reason="Forbidden", nth=None):
    """A rule of a plan by which the server refuses a request."""
    body = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status, "message": "as planned"})
    return {"do": "status", "method": method, "path": path, "status": status, "headers": {"Content-Type": "application/json"}, "body": body,
            **({"nth": nth} if nth else {"times": 0})}


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
def test_mlk_submit_repeats_a_request_that_the_api_server_has_refused_with_a_conflict(cluster, proxy, name, file):
    proxy.set_plan([refuse(path, status=409, reason="Conflict", nth=1) for path in ("/configmaps", "/jobs")])
    submits = Submits(cluster, proxy, name, file, UNSCHEDULABLE)
    run = submits("conflict", check=0).stdout.strip()
    all_whole(submits, {"undisturbed": run})


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
def test_a_refused_submit_leaves_no_object_even_if_an_answer_was_lost(cluster, proxy, name, file):
    proxy.set_plan([{"do": "cut-after", "method": "POST", "path": "/configmaps", "nth": 1}, refuse("/jobs")])
    submits = Submits(cluster, proxy, name, file)
    refused = submits("refused", check=6)
    assert "as planned" in refused.stderr
    mlk.wait_until(lambda: submits.by_run() == {}, "what was created to be taken back")


@pytest.mark.nodes
def test_mlk_stop_and_mlk_resume_take_effect_when_they_are_repeated_after_they_failed(cluster, proxy, name, experiment):
    run = cluster.mlk("submit", experiment(SMALL.format(name=name).replace('"true"', '"sleep 600"')), check=0).stdout.strip()
    mlk.wait_until(lambda: cluster.objects("pods", f"mlk.dev/run={run}"), "a pod of the run")

    def said(command, code):
        return mlk.run(mlk.MLK, "--kubeconfig", proxy.kubeconfig, command, run, check=code, timeout=90, env=cluster.env)

    for command, suspended in (("stop", True), ("resume", False)):
        proxy.set_plan([refuse("/jobs/", method="PATCH")])
        said(command, 4)
        proxy.set_plan([])
        said(command, 0)
        job, = cluster.objects("jobs", f"mlk.dev/run={run}")
        assert job["spec"]["suspend"] is suspended
        phase = cluster.mlk("status", run, "-o", "json", check=0).json()["phase"]
        assert (phase == "Stopped") is suspended


@pytest.mark.nodes
def test_mlk_wait_does_not_write_the_end_of_a_run_into_a_later_run_of_the_same_name(cluster, proxy, name, file):
    """A waiting command writes the final record. Here it writes so late that the run was deleted and submitted again before."""
    submits = Submits(cluster, proxy, name, file)
    run = submits("again", check=0).stdout.strip()
    proxy.set_plan([{"do": "delay", "method": "PATCH", "path": "/configmaps/", "seconds": 8}])
    waiting = subprocess.Popen([mlk.MLK, "--kubeconfig", proxy.kubeconfig, "wait", run], env={**os.environ, **cluster.env},
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        mlk.wait_until(lambda: proxy.count("PATCH", "/configmaps/"), "the record", timeout=60)
        cluster.mlk("delete", run, check=0)
        assert submits("again", check=0).stdout.strip() == run
        waiting.communicate(timeout=60)
    finally:
        waiting.kill()
        waiting.communicate()
    owner, = [item for item in cluster.objects("configmaps", f"mlk.dev/run={run}") if item["metadata"]["name"] == run]
    assert "record" not in owner["data"]


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
def test_mlk_submit_says_that_it_repeats_a_request(cluster, proxy, name, file):
    proxy.set_plan([{"do": "cut-before", "method": "POST", "path": "/jobs"}])
    submitted = Submits(cluster, proxy, name, file)("cut", check=0)
    assert re.search(r"job/\S+: cannot reach .*; trying again \(2 of 6\)\n", submitted.stderr)


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_a_command_that_waits_for_an_answer(cluster, proxy, name, file, number):
    proxy.set_plan([{"do": "half-open", "times": 0}])
    before = len(proxy.requests)
    waiting = Submits(cluster, proxy, name, file).start("interrupted")
    try:
        mlk.wait_until(lambda: len(proxy.requests) > before, "a request", timeout=20)
        waiting.send_signal(number)
        out, said = waiting.communicate(timeout=10 * mlk.SLOW)  # much less than the 30 s that mlk waits for an answer
    finally:
        waiting.kill()
        waiting.communicate()
    assert (waiting.returncode, out, said) == (128 + number, b"", b"mlk: error: interrupted\n")


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
def test_mlk_fails_and_names_the_api_server_if_the_server_does_not_answer(cluster, proxy, name, file):
    """One server does not even answer the TLS handshake. The other server falls silent in the middle. Both are tried at the same time,
    since both take long."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        kubeconfig = file.with_name("kubeconfig")
        kubeconfig.write_text(pathlib.Path(proxy.kubeconfig).read_text().replace(f":{proxy.port}", f":{port}"))
        proxy.set_plan([{"do": "half-open", "path": "/selfsubjectaccessreviews", "times": 0}])
        middle = Submits(cluster, proxy, name, file).start("silent")
        try:
            refused = mlk.run(mlk.MLK, "--kubeconfig", kubeconfig, "submit", file, check=4, timeout=40, env=cluster.env)
            assert f"127.0.0.1:{port}" in refused.stderr and "no connection within 10 s" in refused.stderr and refused.stdout == ""
            _, said = middle.communicate(timeout=60 * mlk.SLOW)
        finally:
            middle.kill()
            middle.communicate()
    assert middle.returncode == 4
    assert f"127.0.0.1:{proxy.port}: nothing came over the connection, while another one was answered" in said.decode()
