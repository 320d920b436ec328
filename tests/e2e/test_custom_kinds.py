"""Templates that make objects of kinds that mlk does not know."""

import json
import secrets

import pytest

import mlk

EXPERIMENT = """
name: {name}
mode: mine
image: {image}
run: "true"
workers: {{cpu: 50m, memory: 32Mi}}
"""

JOB_TYPE = """
roles: [{{name: worker, ends_run: true}}]
objects:
  - apiVersion: {api_version}
    kind: Gadget
    metadata: {{name: "${{run}}-gadget"}}
    spec: {{size: 3}}
"""


@pytest.fixture
def submit(tmp_path, experiment, name):
    """submit(cluster, api_version): an experiment whose job type also makes a Gadget of that apiVersion."""
    def do(cluster, api_version):
        folder = tmp_path / "config/mlk/templates/jobs"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "mine.yaml").write_text(JOB_TYPE.format(api_version=api_version))
        path = experiment(EXPERIMENT.format(name=name, image=cluster.env.get("MLK_IMAGE", "none")))
        return cluster.mlk("submit", path, env={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    return do


@pytest.fixture
def gadgets(real):
    """The apiVersion of a new kind Gadget. Every user who may edit the namespace may create a Gadget."""
    group = f"g{secrets.token_hex(4)}.example.dev"
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"gadgets.{group}"},
                  "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget"},
                           "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]}}
    rights = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
              "metadata": {"name": f"gadgets-{group}", "labels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
              "rules": [{"apiGroups": [group], "resources": ["gadgets"], "verbs": ["*"]}]}
    for made in (definition, rights):
        real.kubectl_admin("apply", "-f", "-", input=json.dumps(made))
    try:
        real.kubectl_admin("wait", "--for=condition=Established", f"crd/gadgets.{group}", "--timeout=60s")
        mlk.wait_until(lambda: real.kubectl("auth", "can-i", "create", f"gadgets.{group}", "-n", real.namespace, check=None).code == 0,
                       "the right to create gadgets")
        yield f"{group}/v1"
    finally:
        real.kubectl_admin("delete", "crd", f"gadgets.{group}", "--ignore-not-found")
        real.kubectl_admin("delete", "clusterrole", f"gadgets-{group}", "--ignore-not-found")


def test_an_object_of_a_custom_kind_is_created_and_deleted_with_its_run(real, gadgets, submit):
    done = submit(real, gadgets)
    assert done.code == 0, done
    run = done.stdout.strip()
    group = gadgets.partition("/")[0]
    gadget = real.kubectl("get", f"gadgets.{group}", f"{run}-gadget", "-n", real.namespace, "-o", "json").json()
    owner = real.kubectl("get", "configmap", run, "-n", real.namespace, "-o", "json").json()
    assert [reference["uid"] for reference in gadget["metadata"]["ownerReferences"]] == [owner["metadata"]["uid"]]
    assert gadget["spec"] == {"size": 3}
    real.mlk("delete", run, check=0)
    mlk.wait_until(lambda: not real.kubectl("get", f"gadgets.{group}", "-n", real.namespace, "-o", "json").json()["items"], "the gadget to be deleted with its run")


def test_mlk_submit_creates_nothing_if_a_template_makes_a_kind_that_the_cluster_does_not_serve(cluster, name, submit):
    done = submit(cluster, "nowhere.example.dev/v1")
    assert done.code == 6, done
    assert "mine.yaml makes Gadget" in done.stderr and "nowhere.example.dev/v1" in done.stderr
    assert "installed" in done.stderr, "what to do about it"
    assert not cluster.objects("configmaps,secrets,services,jobs", f"mlk.dev/name={name}")
