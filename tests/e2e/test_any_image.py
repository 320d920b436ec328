"""Programs of `run:` start in any image and under every level of Pod Security. They have a user number, a home, a name and a group that may write."""

import contextlib
import json
import os
import pathlib

import base_images
import mlk
import pytest

pytestmark = pytest.mark.nodes

LEVELS = ("restricted", "baseline", "none")
# Prints a line of JSON that says as which user the program runs and where it may write.
TELL = """
import getpass, json, os, pathlib
pathlib.Path(os.environ["HOME"], "cache").write_text("x")
folder = os.environ["MLK_CHECKPOINTS"]
there = os.path.isdir(folder)
pathlib.Path(folder, "state").write_text("x")
print("it is", json.dumps({"uid": os.getuid(), "groups": os.getgroups(), "home": os.environ["HOME"], "name": getpass.getuser(), "there": there,
                           "threads": os.environ["OMP_NUM_THREADS"]}))
"""


@pytest.fixture(scope="module")
def images(python_images):
    """The base with Python, pushed as `any/python`. Each tag names the user as whom the image runs its programs."""
    document = python_images.manifest("base/python", "test")
    config = json.loads(python_images.blob("base/python", document["config"]["digest"]))
    for tag, user in {"nobody": None, "named": "app", "root": "0", "number": "1234:1234"}.items():
        config["config"].pop("User", None)
        config["config"]["Env"] = [each for each in config["config"]["Env"] if not each.startswith("HOME=")]
        if user:
            config["config"]["User"] = user
        base_images.push(python_images, "any/python", kind="python")  # pushes the layers of the base
        document["config"] = base_images.put_blob(python_images, "any/python", "config.v1+json", json.dumps(config).encode())
        base_images.put_manifest(python_images, "any/python", tag, document)
    return f"{python_images.name}/any/python"


@pytest.fixture(scope="module")
def places(real_session):
    """A namespace of each level of Pod Security."""
    with contextlib.ExitStack() as stack:
        out = {}
        for level in LEVELS:
            place = stack.enter_context(mlk.namespace_of_its_own(real_session, f"anyimage-{level}-{os.getpid()}"))
            if level != "none":
                real_session.kubectl_admin("label", "namespace", place, f"pod-security.kubernetes.io/enforce={level}")
            out[level] = place
        yield out


def claim(real, place, folder, name):
    """A claim on this folder of the nodes."""
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
              "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "", "persistentVolumeReclaimPolicy": "Retain",
                       "claimRef": {"namespace": place, "name": "checkpoints"}, "hostPath": {"path": folder}}}
    bound = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "checkpoints", "namespace": place},
             "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}}
    real.kubectl_admin("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": [volume, bound]}))


def told(real, place, run):
    line = next(line for line in real.mlk("logs", run, "-n", place, check=0).stdout.splitlines() if "it is {" in line)
    return json.loads(line[line.index("{"):])


@pytest.fixture
def submit(real, tmp_path, name):
    made = []

    def run(place, image, *more, code=TELL, check=0):
        (tmp_path / "code").mkdir(exist_ok=True)
        (tmp_path / "code" / "go.py").write_text(code)
        (tmp_path / "x.yaml").write_text(f"name: {name}\nmode: single\ncode: code\nrun: [python3, go.py]\nstart_timeout: 60s\n"
                                         "workers: {cpu: 1, memory: 64Mi}\ncheckpoint: {volume: {emptyDir: {}}}\n")
        done = real.mlk("submit", "--wait", "-n", place, "--set", f"image={image}", *more, tmp_path / "x.yaml", check=check, timeout=120)
        made.append((place, done.stdout.strip()))
        return done
    yield run
    for place, made_run in made:
        if made_run:
            real.mlk("delete", "--no-wait", made_run, "-n", place)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("tag,uid,words", [("nobody", 1000, "names no user"), ("named", 1000, "names its user app without a number"),
                                           ("root", 1000, "runs its programs as root"), ("number", 1234, "")])
def test_a_program_starts_in_any_image_and_may_write_into_its_home_folder_and_its_volume(real, images, places, submit, level, tag, uid, words):
    done = submit(places[level], f"{images}:{tag}")
    if words:
        assert f"image {images}:{tag} {words}: the program runs as 1000; `user:` names another number" in done.stderr
    else:
        assert "`user:`" not in done.stderr
    run = done.stdout.strip()
    said = told(real, places[level], run)
    assert (said["uid"], said["home"], said["name"], said["there"], said["threads"]) == (uid, "/mlk/home", "mlk", True, "1")
    assert 65532 in said["groups"]
    owner = json.loads(real.kubectl("get", "configmap", run, "-n", places[level], "-o", "json").stdout)
    assert json.loads(owner["data"]["user"]) == {"number": uid, "from": "image" if tag == "number" else "default"}


def test_a_program_runs_as_root_or_as_the_user_of_the_image_if_pod_security_allows_this_user(real, images, places, submit):
    for user in ("0", "image"):
        run = submit(places["baseline"], f"{images}:nobody", "--set", f"user={user}", code="import os; print('it is', '{', os.getuid(), '}')").stdout.strip()
        assert "it is { 0 }" in real.mlk("logs", run, "-n", places["baseline"], check=0).stdout
    refused = submit(places["restricted"], f"{images}:nobody", "--set", "user=0", check=6)
    assert "runAsNonRoot" in refused.stderr


def test_mlk_status_names_the_user_of_the_program_if_this_user_may_not_write_a_file(real, images, places, submit):
    place = places["restricted"]
    run = submit(place, f"{images}:nobody", code="open('/etc/passwd', 'a')", check=5).stdout.strip()
    why = real.mlk("status", run, "-n", place, "-o", "json").json()["why"]
    assert "the program ran as uid 1000, a user without this right in the image; `user:` names another" in why


def test_a_run_that_may_not_write_checkpoints_fails_at_once_and_mlk_status_names_the_folder_and_suggests_another_user(real, images, places, submit):
    place = places["none"]  # the other levels refuse folders of the node
    run = submit(place, f"{images}:nobody", "--set", "checkpoint.volume={hostPath: /etc}", check=5).stdout.strip()
    status = real.mlk("status", run, "-n", place, "-o", "json").json()
    assert "mlk: uid 1000 cannot write checkpoints in /mlk/checkpoints (mode 755, owner 0:0): Permission denied" in status["why"]
    assert "user:" in status["why"]
    assert status["ranks"][0]["restarts"] == 0


def test_pods_set_no_user_number_if_the_namespace_assigns_user_numbers(real, images, places, submit):
    place = places["baseline"]
    real.kubectl_admin("annotate", "namespace", place, "openshift.io/sa.scc.uid-range=1000650000/10000")
    try:
        run = submit(place, f"{images}:number", "--dry-run=server").stdout.strip()
        shown = submit(place, f"{images}:number").stdout.strip()
        assert run == shown
        said = told(real, place, shown)
        assert (said["uid"], said["home"]) == (1234, "/mlk/home")  # the number of the image: neither mlk nor this cluster sets another number
        pod = real.kubectl("get", "jobs", "-n", place, "-l", f"mlk.dev/run={shown}", "-o", "jsonpath={.items[0].spec.template.spec.securityContext}").stdout
        assert json.loads(pod) == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    finally:
        real.kubectl_admin("annotate", "namespace", place, "openshift.io/sa.scc.uid-range-")


@pytest.mark.parametrize("level", LEVELS)
def test_the_example_named_own_program_runs_in_an_image_without_a_user_and_writes_to_its_volume_claim(real, images, places, name, level):
    place = places[level]
    existing = json.loads(real.kubectl_admin("get", "pv", "-o", "json").stdout)["items"]
    folder = next(each["spec"]["hostPath"]["path"] for each in existing
                  if each["spec"].get("claimRef", {}).get("name") == "checkpoints" and each["spec"]["claimRef"]["namespace"] == real.namespace)
    claim(real, place, folder, f"anyimage-{level}")
    try:
        run = real.mlk("submit", "--wait", "-n", place, "--set", f"name={name}", "--set", f"image={images}:nobody", "-e", "STEPS=200",
                       mlk.EXAMPLES / "own-program.yaml", check=0, timeout=180).stdout.strip()
        assert "mlk step=200" in real.mlk("logs", run, "-n", place, check=0).stdout
        saved = list((pathlib.Path(real.env["MLK_CLUSTER_DIR"]) / "volumes" / "checkpoints").glob(f"{run}-*/state.json"))
        assert saved and json.loads(saved[0].read_text())["step"] == 200
        real.mlk("delete", "--no-wait", run, "-n", place, check=0)
    finally:
        real.kubectl_admin("delete", "pvc", "checkpoints", "-n", place, "--wait=false")
        real.kubectl_admin("delete", "pv", f"anyimage-{level}", "--wait=false")
