"""The nodes of the test cluster pull from registries of this machine, under the names by which this machine knows them."""

import base64
import json
import os
import re

import base_images
import mlk
import pytest
import registry
from image_builds import Builder
from registry_proxy import fault

pytestmark = pytest.mark.nodes


@pytest.fixture
def nearby(real):
    """nearby(registry) lets the nodes reach this registry until the test has ended."""
    opened = []

    def let_in(images):
        ports = [images.port, *([images.tokens.front.port] if images.tokens else [])]
        opened.extend(ports)
        real.harness("registry", *ports)
    yield let_in
    if opened:
        real.harness("registry", "--close", *opened)


@pytest.fixture
def pod(real, name):
    """pod(image) starts a pod that prints one line, and returns its name. The pull secret is the login that the registry asks for."""
    made = []

    def start(image, images=None, command="echo it runs as $(id -u)", **who):
        each = f"{name}-{len(made)}"
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": each}, "type": "kubernetes.io/dockerconfigjson",
                  "data": {".dockerconfigjson": base64.b64encode(json.dumps(images.login(**who) if images else {"auths": {}}).encode()).decode()}}
        one = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": each, "labels": {"pod": each}},
               "spec": {"restartPolicy": "Never", "imagePullSecrets": [{"name": each}], "terminationGracePeriodSeconds": 0,
                        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                        "containers": [{"name": "main", "image": image, "command": ["sh", "-c", command],
                                        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}]}}
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": [secret, one]})
        made.append(manifest)
        real.kubectl("apply", "-f", "-", input=manifest)
        return each
    yield start
    for manifest in made:
        real.kubectl("delete", "-f", "-", "--wait=false", input=manifest)


def status_of(real, pod):
    [found] = real.objects("pods", f"pod={pod}")
    return found["status"]


def output(real, pod):
    mlk.wait_until(lambda: status_of(real, pod)["phase"] == "Succeeded", f"the end of {pod}", 90)
    return real.kubectl("logs", pod).stdout


def waiting(real, pod):
    return str([container["state"].get("waiting") for container in status_of(real, pod).get("containerStatuses", [])])


def test_pods_run_images_of_registries_of_every_kind_at_the_same_time(real, nearby, pod, name):
    with registry.anonymous() as first, registry.basic() as second, registry.bearer() as third:
        pods, layers = [], []
        for images in (first, second, third):
            digest, layer = base_images.push_marked(images, f"team/{name}", f"{name} {images.kind}")
            nearby(images)
            pods.append(pod(f"{images.name}/team/{name}@{digest}", images))
            layers.append(layer)
        assert [output(real, each) for each in pods] == [f"it runs as {base_images.USER}\n"] * 3
        for images, layer in zip((first, second, third), layers, strict=True):
            assert images.record.received("GET", f"/v2/team/{name}/blobs/{layer}") > 0


def test_a_node_runs_the_base_image_with_python(real, nearby, pod, name):
    with registry.anonymous() as images:
        index, _ = base_images.push_index(images, f"team/{name}", kind="python")
        nearby(images)
        program = "import json, platform, ssl, sqlite3, zlib; print(platform.python_version())"
        said = output(real, pod(f"{images.name}/team/{name}@{index}", command=f"exec python3 -c '{program}'"))
        assert said == base_images.python_version() + "\n"


def test_a_pod_waits_with_a_pull_error_if_the_password_is_wrong_or_the_digest_does_not_exist(real, nearby, pod, name):
    with registry.basic() as images:
        digest = base_images.push(images, f"team/{name}")
        nearby(images)
        refused = pod(f"{images.name}/team/{name}@{digest}", images, password="guess")
        gone = pod(f"{images.name}/team/{name}@sha256:{'0' * 64}", images)
        for each in (refused, gone):
            mlk.wait_until(lambda each=each: "ImagePull" in waiting(real, each), f"a pull of {each} that fails", 60)


def test_a_node_pulls_an_image_only_after_its_registry_has_stopped_sending_wrong_bytes(real, nearby, pod, name):
    with registry.anonymous() as images:
        digest, layer = base_images.push_marked(images, f"team/{name}", name)
        nearby(images)
        images.plan(fault("wrong-bytes", "GET", layer, times=0))
        each = pod(f"{images.name}/team/{name}@{digest}")
        mlk.wait_until(lambda: "ImagePull" in waiting(real, each), "a pull that fails", 60)
        images.plan()
        assert output(real, each) == f"it runs as {base_images.USER}\n"


def test_this_machine_and_the_nodes_reach_the_registry_of_the_cluster(real, pod, name):
    where = os.environ["MLK_CLUSTER_REGISTRY"]
    mlk.run("skopeo", "copy", "-q", "--dest-tls-verify=false", f"oci-archive:{base_images.archive()}", f"docker://{where}/team/{name}:1", check=0)
    assert output(real, pod(f"{where}/team/{name}:1")) == f"it runs as {base_images.USER}\n"


@pytest.mark.parametrize("kind", ["basic", "bearer"])
def test_mlk_uses_a_login_to_push_an_image_and_nodes_use_a_secret_to_pull_it(kind, real, nearby, name, tmp_path):
    with registry.start(kind) as images:
        base_images.push(images, "base/small")
        nearby(images)
        builder = Builder(tmp_path, f"{images.name}/base/small:test", images.login())
        (builder.code / "main.sh").write_text(f"echo hello of {name}\n")
        file = builder.experiment(f"registry: {images.name}/team\ncode: {{path: code, layer: true}}\nimage_pull_secrets: [{name}]\n", name=name)
        env = {**builder.env, "KUBECONFIG": real.kubeconfig}
        login = tmp_path / "login.json"
        login.write_text(json.dumps(images.login()))
        real.kubectl("create", "secret", "generic", name, "--type=kubernetes.io/dockerconfigjson", f"--from-file=.dockerconfigjson={login}")
        try:
            run = real.mlk("submit", "--wait", file, env=env, check=0, timeout=180).stdout.strip()
        finally:
            real.kubectl("delete", "secret", name)
        assert f"hello of {name}" in real.mlk("logs", run, check=0).stdout
        [pod] = real.objects("pods", f"mlk.dev/run={run}")
        assert re.fullmatch(rf"{images.name}/team/{name}@sha256:[0-9a-f]{{64}}", pod["spec"]["containers"][0]["image"])
