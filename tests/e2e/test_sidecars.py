"""Pods with more containers than the program's. The experiment's patch or the cluster inserts them before or after main."""

import json
import time

import pytest
from fault_proxy import FaultProxy

pytestmark = pytest.mark.nodes

SAFE = "securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}"
GOOD = "for i in 1 2 3; do echo mlk step=$i loss=0.5; sleep 1; done; echo program is done"


def text(cluster, name, program, kind, commands, retries=0):
    """An experiment of one pod. `containers` are beside main: {name: (command, more keys)}."""
    lines = [f"name: {name}", "mode: single", f"run: {json.dumps(program)}", "workers: {cpu: 100m, memory: 64Mi}",
             f"restart: {{retries: {retries}}}", "patch:", "  pod:", "    spec:", f"      {kind}:"]
    for container, (command, more) in commands.items():
        lines += [f"        - name: {container}", f"          image: {cluster.env['MLK_IMAGE']}",
                  f"          command: [sh, -c, {json.dumps(command)}]", f"          {SAFE}"] + [f"          {line}" for line in more]
    return "\n".join(lines) + "\n"


def status(cluster, name):
    return cluster.mlk("status", name, "-o", "json", check=0).json()


def until(seconds, condition):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.5)
    return found


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (3, "Failed")])
def test_a_run_ends_with_its_program_though_another_container_of_its_pod_still_runs(real, name, experiment, code, phase):
    program = f"{GOOD}; exit {code}"
    real.mlk("submit", experiment(text(real, name, program, "containers", {"agent": ("while true; do sleep 1; done", [])})), check=0)
    seen = until(60, lambda: (s := status(real, name))["phase"] in ("Succeeded", "Failed") and s)
    assert seen["phase"] == phase and seen["result"]["step"] == 3
    assert seen["ranks"][0]["state"] == phase
    assert seen["ranks"][0]["reason"] == f"the program has ended (exit code {code}), its pod waits for container agent"
    waited = real.mlk("wait", name, timeout=60)
    assert waited.code == (0 if code == 0 else 5)
    assert status(real, name)["phase"] == phase


def test_mlk_status_names_a_container_that_fails_beside_the_program(real, name, experiment):
    real.mlk("submit", experiment(text(real, name, GOOD, "containers", {"agent": ("echo agent: no config >&2; exit 2", [])})), check=0)
    assert real.mlk("wait", name, timeout=90).code == 0
    assert "container agent: exit code 2: agent: no config" in real.mlk("status", name, check=0).stdout


def test_mlk_status_names_an_init_container_that_fails_and_mlk_logs_shows_its_output(real, name, experiment):
    commands = {"fetch": ("echo cloning; echo fatal: repository not found >&2; exit 128", [])}
    real.mlk("submit", experiment(text(real, name, "echo main", "initContainers", commands)), check=0)
    assert real.mlk("wait", name, timeout=90).code == 5
    # The node may write the two streams into the log in either order, and the last line after the end of the container.
    assert "init container fetch: exit code 128: fatal: repository not found" in real.mlk("status", name, check=0).stdout
    until(30, lambda: "worker/0/fetch fatal: repository not found" in real.mlk("logs", name, check=0).stdout)
    wrong = real.mlk("logs", name, "--container", "nope")
    assert wrong.code == 2 and "main, fetch" in wrong.stderr


def test_mlk_wait_records_the_last_line_of_an_init_container_even_if_the_line_arrives_late(real, name, experiment):
    commands = {"fetch": ("echo cloning; echo no such repository; exit 128", ["terminationMessagePolicy: File"])}
    real.mlk("submit", experiment(text(real, name, "echo main", "initContainers", commands)), check=0)
    short = {"do": "status", "status": 200, "path": "/log.*container=fetch", "times": 3, "body": "2026-01-03T11:00:00Z cloning\n"}
    with FaultProxy(real.kubeconfig, plan=[short]) as proxy:
        waited = real.mlk("wait", name, env={"KUBECONFIG": str(proxy.kubeconfig)}, timeout=90)
    assert waited.code == 5 and "exit code 128: no such repository" in waited.stderr
    assert "init container fetch: exit code 128: no such repository" in real.mlk("status", name, check=0).stdout


def test_a_node_is_not_reported_as_lost_if_a_sidecar_crashes_again_and_again(real, name, experiment):
    commands = {"proxy": ("sleep 1; exit 1", ["restartPolicy: Always"])}
    real.mlk("submit", experiment(text(real, name, "for i in 1 2 3 4 5 6 7 8; do echo mlk step=$i loss=0.5; sleep 1; done", "initContainers", commands)), check=0)
    until(60, lambda: status(real, name)["phase"] == "Running")
    phases = set()
    until(60, lambda: phases.add(status(real, name)["phase"]) or "Succeeded" in phases)
    assert phases <= {"Running", "Succeeded"}


POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: {policy}}}
spec:
  matchConstraints: {{resourceRules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]}}
  matchConditions: [{{name: of-this-test, expression: "has(object.metadata.labels) && 'mlk.dev/name' in object.metadata.labels && object.metadata.labels['mlk.dev/name'] == '{name}'"}}]
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
    - patchType: JSONPatch
      jsonPatch:
        expression: >
          [JSONPatch{{op: "add", path: "/spec/containers/0", value: Object.spec.containers{{
            name: "a-proxy", image: "{image}", command: ["sh", "-c", "echo proxy starts; while true; do sleep 1; echo proxy; done"],
            securityContext: Object.spec.containers.securityContext{{allowPrivilegeEscalation: false, capabilities: Object.spec.containers.securityContext.capabilities{{drop: ["ALL"]}}}}}}}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: {policy}}}
spec: {{policyName: {policy}}}
"""


def test_a_run_ends_as_usual_if_the_cluster_inserts_a_container_before_the_container_main(real, name, experiment, tmp_path):
    policy = f"sidecar-of-{name}"
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY.format(policy=policy, name=name, image=real.env["MLK_IMAGE"]), encoding="utf-8")
    real.kubectl_admin("apply", "-f", file)
    try:
        time.sleep(3)  # the API server reads new policies only from time to time
        plain = f"name: {name}\nmode: single\nrun: {json.dumps(GOOD)}\nworkers: {{cpu: 100m, memory: 64Mi}}\n"
        real.mlk("submit", experiment(plain), check=0)
        seen = until(60, lambda: (s := status(real, name))["phase"] == "Succeeded" and s)
        assert seen["result"]["step"] == 3
        assert seen["ranks"][0]["reason"] == "the program has ended (exit code 0), its pod waits for container a-proxy"
        logs = real.mlk("logs", name, check=0).stdout
        assert "program is done" in logs and "proxy" not in logs
        assert "worker/0/a-proxy proxy starts" in real.mlk("logs", name, "--container", "a-proxy", check=0).stdout
        assert real.mlk("wait", name, timeout=60).code == 0
    finally:
        real.kubectl_admin("delete", "mutatingadmissionpolicy,mutatingadmissionpolicybinding", policy, "--ignore-not-found")
