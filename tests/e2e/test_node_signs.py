"""When mlk reports a rank's node as lost: soon after Kubernetes has marked the node, and never while the node's kubelet still reports."""

import contextlib
import json
import os
import pathlib
import queue
import threading

import pytest

import mlk

pytestmark = [pytest.mark.nodes, pytest.mark.timed, pytest.mark.alone]

SPREAD = """
name: {name}
mode: allreduce
image: localhost/mlk-runtime:test
run: "while true; do sleep 0.5; done"
workers:
  count: 2
  cpu: 50m
  memory: 32Mi
  patch: {{pod: {{spec: {{topologySpreadConstraints: [{{maxSkew: 1, topologyKey: kubernetes.io/hostname,
    whenUnsatisfiable: DoNotSchedule, labelSelector: {{matchLabels: {{mlk.dev/role: worker}}}}, matchLabelKeys: [mlk.dev/run]}}]}}}}}}
"""
LOST = "node n2 is lost"
SOON = 5  # seconds after Kubernetes' own sign


def status(real, run, env=None):
    return real.mlk("status", run, "-n", real.namespace, "-o", "json", check=0, env=env).json()


def ready(real):
    """Whether node 2 is ready, as Kubernetes says: True, False or Unknown."""
    conditions = json.loads(real.kubectl_admin("get", "node", "n2", "-o", "json").stdout)["status"]["conditions"]
    return next(each["status"] for each in conditions if each["type"] == "Ready")


def admin(real):
    """The environment of a user who may read nodes. The ordinary user may not read them."""
    return {"KUBECONFIG": real.admin_kubeconfig}


@pytest.fixture
def spread_run(real, name, experiment):
    """A run with a rank on each of the two nodes."""
    run = real.mlk("submit", experiment(SPREAD.format(name=name)), check=0).stdout.strip()
    mlk.wait_until(lambda: status(real, run)["phase"] == "Running", f"{run} runs")
    assert {rank["node"] for rank in status(real, run)["ranks"]} == {"n1", "n2"}
    yield run
    mlk.wait_until(lambda: ready(real) == "True", "node 2 is back")


@contextlib.contextmanager
def said(command):
    """Reads the messages of a running command: next_with(text) waits at most SOON seconds for a line with this text."""
    lines = queue.Queue()
    threading.Thread(target=lambda: [lines.put(line) for line in command.stderr], daemon=True).start()

    def next_with(text):
        heard = []
        while not heard or text not in heard[-1]:
            try:
                heard.append(lines.get(timeout=SOON * mlk.SLOW))
            except queue.Empty:
                raise AssertionError(f"not said in {SOON} s: {text}; but {heard}") from None
    try:
        yield next_with
    finally:
        command.kill()
        command.wait()


@contextlib.contextmanager
def cut_off(real):
    real.harness("node-cut", 2)
    try:
        yield
    finally:
        real.harness("node-mend", 2)


@contextlib.contextmanager
def no_pod_network(real):
    """The kubelet of node 2 still runs, and reports that the node is not ready, since its containers have no network plugin."""
    plugin = pathlib.Path(os.environ["MLK_CLUSTER_DIR"]) / "nodes/2/cni/pods.conflist"
    aside = plugin.with_suffix(".aside")
    plugin.rename(aside)
    try:
        mlk.wait_until(lambda: ready(real) == "False", "node 2 is not ready")
        yield
    finally:
        aside.rename(plugin)


def test_mlk_reports_a_cut_off_node_as_lost_soon_after_kubernetes_has_marked_the_node(real, spread_run):
    with said(real.start("wait", spread_run)) as waits, said(real.start("logs", "-f", spread_run)) as follows, cut_off(real):
        while ready(real) == "True":  # a silent node is not lost until Kubernetes says so
            assert status(real, spread_run)["phase"] == "Running" or ready(real) != "True"
        for next_with in (waits, follows):
            next_with(LOST)
        for env in ({}, admin(real)):
            mlk.wait_until(lambda: LOST in status(real, spread_run, env)["why"], "status tells that node 2 is lost", timeout=SOON)
    mlk.wait_until(lambda: status(real, spread_run)["phase"] == "Running", "the rank of node 2 is back")


def test_mlk_does_not_report_an_unready_node_as_lost_while_its_kubelet_still_reports(real, spread_run):
    with no_pod_network(real):
        for _ in range(12):
            for env in ({}, admin(real)):
                seen = status(real, spread_run, env)
                assert seen["phase"] == "Running" and all("lost" not in rank.get("reason", "") for rank in seen["ranks"]), seen
        assert ready(real) == "False"


def test_a_user_who_may_read_nodes_learns_of_a_lost_node_before_kubernetes_deletes_the_pods_of_the_node(real, spread_run):
    """Kubernetes does not mark the pods of such a node as not ready. A user who may not read nodes first sees the deletion of the pods for
    the node's taint, after the grace period of the taint."""
    as_admin = ["--kubeconfig", real.admin_kubeconfig, "-n", real.namespace]
    with contextlib.ExitStack() as stack:
        commands = [stack.enter_context(said(real.start(*command, *as_admin, spread_run))) for command in (["wait"], ["logs", "-f"])]
        stack.enter_context(no_pod_network(real))
        stack.enter_context(cut_off(real))
        mlk.wait_until(lambda: ready(real) == "Unknown", "node 2 is silent")
        for next_with in commands:
            next_with(LOST)
        mlk.wait_until(lambda: LOST in status(real, spread_run, admin(real))["why"], "status tells that node 2 is lost", timeout=SOON)
        given_up = "DeletionByTaintManager"
        conditions = [found.get("reason") for pod in real.objects("pods", f"mlk.dev/run={spread_run}") for found in pod["status"]["conditions"]]
        assert given_up not in conditions, "the pods were given up before"
