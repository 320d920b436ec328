"""A node that was not ready before falls silent. Then its pods show no sign, and only the Node object does. A proxy changes what the API
server says of the Node. The run, its pods and their real node are not touched."""

import os
import subprocess
import threading

import pytest

import mlk
from fault_proxy import FaultProxy

PROGRAM = """
name: {name}
mode: single
image: localhost/mlk-runtime:test
run: "sleep 300"
workers: {{count: 1, cpu: 50m, memory: 32Mi}}
"""


def status(cluster, run, kubeconfig=None):
    kubeconfig = kubeconfig or cluster.kubeconfig
    return mlk.run(mlk.MLK, "--kubeconfig", kubeconfig, "status", run, "-o", "json", check=0, env=cluster.env).json()


@pytest.fixture
def on_a_node(cluster, name, experiment):
    """A running run, and the name of the node of its only rank."""
    run = cluster.mlk("submit", experiment(PROGRAM.format(name=name)), check=0).stdout.strip()
    mlk.wait_until(lambda: status(cluster, run)["phase"] == "Running", f"{run} runs")
    return run, status(cluster, run)["ranks"][0]["node"]


def node(name, ready, version):
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "resourceVersion": version},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def list_of(*nodes):
    """The rule by which the proxy answers the request for the list of nodes."""
    body = {"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": list(nodes)}
    return {"do": "status", "status": 200, "headers": {}, "path": r"/api/v1/nodes\?", "body": body}


def changed(name, ready):
    """The rule by which a watch of nodes reports this change and then ends."""
    event = {"type": "MODIFIED", "object": node(name, ready, "6")}
    return {"do": "status", "status": 200, "headers": {}, "path": r"/api/v1/nodes\?.*watch=1", "body": event}


REFUSED = {"do": "status", "status": 403, "headers": {}, "path": r"/api/v1/nodes", "times": 0}


@pytest.mark.nodes
def test_mlk_wait_reports_an_unready_node_as_lost_when_the_node_falls_silent(cluster, on_a_node):
    run, name = on_a_node
    with FaultProxy(cluster.kubeconfig, plan=[changed(name, "Unknown"), list_of(node(name, "False", "4")), REFUSED]) as proxy:
        waits = subprocess.Popen([str(mlk.MLK), "--kubeconfig", proxy.kubeconfig, "wait", run], env={**os.environ, **cluster.env}, text=True,
                                 stderr=subprocess.PIPE)
        bound = threading.Timer(60 * mlk.SLOW, waits.kill)
        bound.start()
        try:
            said = next((line for line in waits.stderr if f"node {name} is lost" in line), "")
        finally:
            bound.cancel()
            waits.kill()
            waits.wait()
        assert f"node {name} is lost" in said


@pytest.mark.nodes
def test_mlk_status_and_mlk_ls_report_a_node_as_lost_if_it_is_silent_and_the_user_may_read_nodes(cluster, on_a_node):
    run, name = on_a_node
    def told(ready):
        with FaultProxy(cluster.kubeconfig, plan=[list_of(node(name, ready, "4"))]) as proxy:
            one = status(cluster, run, proxy.kubeconfig)
        with FaultProxy(cluster.kubeconfig, plan=[list_of(node(name, ready, "4"))]) as proxy:
            rows = mlk.run(mlk.MLK, "--kubeconfig", proxy.kubeconfig, "ls", "-o", "json", check=0, env=cluster.env).json()
        [row] = [row for row in rows if row["run"] == run]
        assert (row["phase"], row["why"]) == (one["phase"], one["why"])
        return one["why"]
    assert f"node {name} is lost" in told("Unknown")
    assert told("False") == told("True") == ""
    with FaultProxy(cluster.kubeconfig, plan=[REFUSED]) as proxy:
        assert status(cluster, run, proxy.kubeconfig)["why"] == ""
