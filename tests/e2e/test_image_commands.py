"""mlk image, and the cache of mlk build. mlk shows or refuses any content of registries and disks, and does not crash."""

import concurrent.futures
import copy
import json
import os
import pathlib
import pty
import random
import select
import subprocess
import threading

import base_images
import mlk
import pytest
import registry
from image_builds import Builder, Layout, said_clearly
from registry_proxy import fault

TARGET = "team/trainer"


@pytest.fixture
def images():
    with registry.anonymous() as found:
        base_images.push(found, "base/small")
        yield found


@pytest.fixture
def builder(images, tmp_path):
    made = Builder(tmp_path, f"{images.name}/base/small:test", {})
    (made.code / "main.sh").write_text("echo hello\n")
    (made.code / "data").write_bytes(random.Random(5).randbytes(1 << 20))
    return made


def image(builder, *words, **options):
    return mlk.run(mlk.MLK, "image", *words, env=builder.env, **options)


def test_mlk_image_can_list_and_inspect_and_compare_images(images, builder):
    target = f"{images.name}/{TARGET}"
    pushed = [builder.build("-t", f"{target}:1").stdout.strip()]
    (builder.code / "main.sh").write_text("echo changed\n")
    pushed.append(builder.build("-t", f"{target}:2").stdout.strip())
    listed = image(builder, "ls", target, check=0).stdout
    assert [line.split()[0] for line in listed.splitlines()] == ["TAG", "1", "2"]
    for each in pushed:
        assert each.split(":")[-1][:12] in listed
    shown = image(builder, "inspect", f"{target}:1", "-o", "json", check=0).stdout
    assert pushed[0].split("@")[1] in shown
    compared = image(builder, "diff", pushed[0], pushed[1], check=0).stdout
    assert [line[:6] for line in compared.splitlines() if "layer" in line] == ["-layer", "+layer"]
    assert "they are the same image" in image(builder, "diff", f"{target}:1", pushed[0], check=0).stderr
    for words in (["inspect", f"{target}:9"], ["ls", f"{images.name}/team/none"], ["diff", f"{target}:1", f"{target}:9"]):
        said_clearly(image(builder, *words, check=3))


def test_mlk_image_gc_deletes_only_images_that_no_run_uses_and_that_have_no_other_tag(embedded, images, builder, name):
    where = f"{images.name}/team/trainer"
    built = []
    for word in ("used", "named", "neither", "other"):
        (builder.code / "main.sh").write_text(f"echo {word}\n")
        built.append(builder.build(env={"MLK_REGISTRY": f"{images.name}/team"}).stdout.strip())
        if word == "named":
            builder.build("-t", f"{where}:1")
    run = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": name, "labels": {"app.kubernetes.io/managed-by": "mlk", "mlk.dev/hash": "a", "mlk.dev/name": name, "mlk.dev/run": name}, "annotations": {"mlk.dev/image": built[0]}}}
    embedded.kubectl("apply", "-f", "-", input=json.dumps(run))
    options = {"env": {"DOCKER_CONFIG": builder.env["HOME"]}}
    try:
        shown = embedded.mlk("image", "gc", where, "--dry-run", check=0, **options)
        assert len(shown.stdout.split()) == 2
        assert len(image(builder, "ls", where, check=0).stdout.splitlines()) == 6
        assert "mlk needs a terminal to ask" in embedded.mlk("image", "gc", where, check=2, **options).stderr
        assert embedded.mlk("image", "gc", where, "--yes", check=0, **options).stdout == shown.stdout
    finally:
        embedded.kubectl("delete", "configmap", name)
    assert {line.split()[0] for line in image(builder, "ls", where, check=0).stdout.splitlines()[1:]} == {"1", *(f"mlk-{each.split(':')[-1][:12]}" for each in built[:2])}


def test_mlk_build_refuses_a_wrong_command_line_before_it_asks_a_registry(images, builder):
    images.record.clear()
    for words in (["-t", "Team/UPPER"], ["-t", "me:secret@registry.example/x"], ["--base", "a b"], ["--output", "folder"], ["--output", "oci:"], ["--platform", "a/b/c/d"]):
        assert "secret" not in said_clearly(builder.build(*words, check=2))
    assert not images.record.select()


def test_mlk_image_ls_ends_if_the_list_of_tags_links_to_itself_or_has_invalid_tags(images, builder):
    builder.build("-t", f"{images.name}/{TARGET}:1")
    images.plan(fault("headers", "GET", "tags/list", times=0, headers={"Link": f'</v2/{TARGET}/tags/list?n=500>; rel="next"'}))
    assert len(image(builder, "ls", f"{images.name}/{TARGET}", check=0).stdout.splitlines()) == 2
    images.plan(fault("status", "GET", "tags/list", times=0, status=200, body={"tags": ["\x1b[31mred", "a\nb", "../x", "1", 5, None, "x" * 300, "1"]}))
    listed = image(builder, "ls", f"{images.name}/{TARGET}", check=0).stdout
    assert [line.split()[0] for line in listed.splitlines()] == ["TAG", "1"]


def changes(document, path=()):
    """Copies of the document. In each copy one value is replaced by a value of another type."""
    places = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for key, value in places:
        for other in (None, -1, "\x1b[31m", [], {}, [[]]):
            changed = copy.deepcopy(document)
            changed[key] = other
            yield (*path, key), changed
        for where, below in changes(value, (*path, key)):
            changed = copy.deepcopy(document)
            changed[key] = below
            yield where, changed


def ends_well(result, place):
    assert result.code in (0, 1, 3, 4), (place, result)
    assert "\x1b" not in result.stdout + result.stderr, (place, result)
    if result.code != 0:
        said_clearly(result)


def test_mlk_image_inspect_does_not_crash_and_prints_no_escape_sequence_if_a_manifest_or_configuration_is_wrong(images, builder):
    repository, digest = builder.build("-t", f"{images.name}/{TARGET}:1").stdout.strip().split("@")
    manifest = images.manifest(TARGET, digest)
    configuration = json.loads(images.blob(TARGET, manifest["config"]["digest"]))
    configuration["config"]["Labels"] = {"\x1b[31mred": "\x1b[32m", "a": "b\nc"}
    configuration["config"]["Env"] += ["\x1b[31mNAME=\x1b[32m", "no equals", ""]
    tried = 0
    for place, changed in changes(manifest):
        images.plan(fault("status", "GET", "/manifests/", times=0, status=200, headers={"Content-Type": base_images.MANIFEST}, body=changed))
        ends_well(image(builder, "inspect", f"{repository}:1"), place)
        tried += 1
    for place, changed in changes(configuration):
        data = json.dumps(changed).encode()  # the front answers with it, since docker-registry needs more time than mlk to store such a blob
        images.plan(fault("status", "GET", "/manifests/", times=0, status=200, headers={"Content-Type": base_images.MANIFEST},
                          body={**manifest, "config": base_images.describe("config.v1+json", data)}),
                    fault("status", "GET", "/blobs/", times=0, status=200, body=data))
        ends_well(image(builder, "inspect", f"{repository}:1"), place)
        assert images.unmet() == [], place
        tried += 1
    assert tried > 200


@pytest.mark.parametrize("after", ["999999", "-1", "9" * 30, "Wed, 21 Oct 2099 07:28:00 GMT", "5.5", "\xe9"])
def test_mlk_image_inspect_does_not_hang_if_the_retry_after_header_has_an_unusual_value(after, images, builder):
    images.plan(fault("status", "GET", "/manifests/", status=429, headers={"Retry-After": after}))
    result = image(builder, "inspect", builder.image, timeout=30)
    assert result.code == 0 or said_clearly(result)


def test_mlk_build_works_without_the_digest_header_and_mlk_image_inspect_reports_a_header_that_is_too_long(images, builder):
    images.plan(*[fault("headers", method, times=0, headers={"Docker-Content-Digest": None}) for method in ("HEAD", "GET", "PUT")])
    builder.build("-t", f"{images.name}/{TARGET}:1")
    assert images.broken() == []
    images.plan(fault("headers", "GET", times=0, headers={"X-Long": "y" * 300000}))
    said_clearly(image(builder, "inspect", builder.image))


def test_mlk_build_stores_no_tag_if_a_registry_falsely_says_that_it_has_a_blob(images, builder):
    images.plan(fault("status", "HEAD", "/blobs/", status=200, times=0))
    refused = builder.build("-t", f"{images.name}/{TARGET}:1", check=4)
    assert "MANIFEST_BLOB_UNKNOWN" in said_clearly(refused)
    assert images.tags(TARGET) == []


# The cache.

def cached_layer(builder):
    [layer] = [path for path in (builder.folder / "home/cache/mlk/layers").iterdir() if path.name.endswith(".tar.gz")]
    return layer


@pytest.mark.parametrize("output", [True, False], ids=["written", "pushed"])
@pytest.mark.parametrize("damage", ["a byte", "cut", "gone", "no note", "half a note"])
def test_mlk_build_makes_the_right_image_or_fails_if_its_cache_is_damaged(damage, output, images, builder):
    _, right = builder.build_layout("right")
    layer = cached_layer(builder)
    note = layer.with_name(layer.name + ".json")
    content = bytearray(layer.read_bytes())
    content[len(content) // 2] ^= 1
    if damage == "a byte":
        layer.write_bytes(content)
    elif damage == "cut":
        layer.write_bytes(content[:1000])
    elif damage == "gone":
        layer.unlink()
    else:
        note.write_text("" if damage == "no note" else note.read_text()[:20])
    for _ in range(2):  # at most the first build may report the damage
        where = ["--output", f"oci:{builder.folder}/layout"] if output else ["-t", f"{images.name}/{TARGET}:1"]
        result = builder.build(*where, check=None)
        if result.code == 0:
            break
        assert "type the command again" in said_clearly(result)
        assert images.tags(TARGET) == []
    assert result.code == 0
    if output:
        assert (Layout(builder.folder / "layout").digest, Layout(builder.folder / "layout").wrong()) == (right.digest, [])
    else:
        assert images.digest(TARGET, "1") == right.digest
        assert images.broken() == []


def test_builds_at_the_same_time_do_not_disturb_each_other(images, builder):
    file = builder.experiment()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        said = list(pool.map(lambda _: builder.build("-t", f"{images.name}/{TARGET}:1", file=file).stdout, range(8)))
    assert len(set(said)) == 1
    assert images.broken() == []
    assert [path.name for path in cached_layer(builder).parent.glob("*.tmp-*")] == []


def test_mlk_build_ends_its_open_requests_if_it_refuses_the_code(images, builder):
    for number in range(24):
        (builder.code / f"part-{number}").write_bytes(os.urandom(1 << 20))
    images.plan(fault("stall", "POST", "mount=", times=0))
    done = threading.Event()

    def write():
        with (builder.code / "written-to").open("wb", buffering=0) as file:
            while not done.wait(0.001):
                file.write(b"x")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        refused = builder.build("-t", f"{images.name}/{TARGET}:1", check=1, timeout=20)
    finally:
        done.set()
        writer.join()
    assert "changes while it is read" in said_clearly(refused)
    assert images.record.count(path="mount=") > 0, "nothing was begun"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize("size", ["256k", "1100k"])
def test_mlk_build_reports_a_full_disk_and_leaves_no_file_on_it(size, images, builder):
    disk = builder.folder / "disk"
    disk.mkdir()
    if mlk.run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk).code != 0:
        pytest.skip("nothing can be mounted here")
    try:
        refused = builder.build("-t", f"{images.name}/{TARGET}:1", env={"XDG_CACHE_HOME": str(disk)}, check=None)
        if refused.code != 0:
            assert "No space left on device" in said_clearly(refused)
            assert [path for path in disk.rglob("*") if path.is_file()] == []
        refused = builder.build("--output", f"oci:{disk}/layout", check=1)
        assert "No space left on device" in said_clearly(refused)
        assert not (disk / "layout").exists()
        refused = builder.build("--output", f"docker-archive:{disk}/archive.tar", check=1)
        assert "No space left on device" in said_clearly(refused)
        assert not list(disk.glob("archive*"))
    finally:
        mlk.run("umount", disk, check=0)


class Asked:
    """mlk at a terminal, which waits for an answer."""

    def __init__(self, cluster, *words, **env):
        self.terminal, end = pty.openpty()
        self.process = subprocess.Popen([str(mlk.MLK), *words], stdin=end, stdout=end, stderr=end, start_new_session=True,
                                        env={**os.environ, **cluster.env, "KUBECONFIG": cluster.kubeconfig, **env})
        os.close(end)
        self.said = ""

    def read_until(self, mark):
        """Reads the output up to these words, or to the end if `mark` is None."""
        while mark is None or mark not in self.said:
            if not select.select([self.terminal], [], [], 30)[0]:
                raise AssertionError(f"said no more than {self.said}")
            try:
                self.said += os.read(self.terminal, 65536).decode()
            except OSError:   # the other end has closed
                break
        return self.said

    def answer(self, text):
        os.write(self.terminal, text.encode() + b"\n")
        said = self.read_until(None)
        assert self.process.wait(30) == 0, said
        return said

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.terminal)


def test_mlk_image_gc_keeps_an_image_that_a_run_begins_to_use_while_the_command_waits_for_the_answer_of_the_user(embedded, images, builder, name):
    where = f"{images.name}/team/trainer"
    built = []
    for word in ("wanted", "unwanted"):
        (builder.code / "main.sh").write_text(f"echo {word}\n")
        built.append(builder.build(env={"MLK_REGISTRY": f"{images.name}/team"}).stdout.strip())
    builder.build("-t", f"{where}:mlk-paper-final", check=0)   # a tag that a person has given to the second image
    (builder.code / "main.sh").write_text("echo third\n")
    third = builder.build(env={"MLK_REGISTRY": f"{images.name}/team"}).stdout.strip()
    run = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": name, "labels": {"app.kubernetes.io/managed-by": "mlk", "mlk.dev/hash": "a", "mlk.dev/name": name, "mlk.dev/run": name}, "annotations": {"mlk.dev/image": built[0]}}}
    asked = Asked(embedded, "image", "gc", where, DOCKER_CONFIG=builder.env["HOME"])
    try:
        assert "delete 2 images" in asked.read_until("[y/N]")
        embedded.kubectl("apply", "-f", "-", input=json.dumps(run))
        said = asked.answer("y")
    finally:
        asked.close()
        embedded.kubectl("delete", "configmap", name)
    assert "stays: it is in use now" in said and "deleted 1 image;" in said
    tags = {line.split()[0] for line in image(builder, "ls", where, check=0).stdout.splitlines()[1:]}
    assert tags == {"mlk-paper-final", *(f"mlk-{each.split(':')[-1][:12]}" for each in built)}
    assert f"mlk-{third.split(':')[-1][:12]}" not in tags


def test_mlk_image_gc_keeps_an_image_that_this_machine_sent_in_the_last_hour(embedded, images, builder):
    where = f"{images.name}/team/trainer"
    builder.build(env={"MLK_REGISTRY": f"{images.name}/team"})
    options = {"env": {"DOCKER_CONFIG": builder.env["HOME"], "XDG_CACHE_HOME": builder.env["XDG_CACHE_HOME"]}}
    kept = embedded.mlk("image", "gc", where, "--yes", check=0, **options)
    assert kept.stdout == "" and "1 image of the last hour stay" in kept.stderr
    note, = pathlib.Path(builder.env["XDG_CACHE_HOME"]).glob("mlk/pushed/*")
    os.utime(note, (10 ** 9, 10 ** 9))
    assert "deleted 1 image;" in embedded.mlk("image", "gc", where, "--yes", check=0, **options).stderr


@pytest.mark.parametrize("umask,mode", ((0o022, 0o644), (0o077, 0o600)))
def test_mlk_build_obeys_the_umask_for_an_archive_and_can_write_an_archive_into_a_pipe(builder, tmp_path, umask, mode):
    made = ["bash", "-c", f"umask {umask:o}; {mlk.MLK} build --output docker-archive:out.tar e.yaml && mkfifo p && "
            f"(timeout 30 cat p > piped.tar & {mlk.MLK} build --output docker-archive:p e.yaml; wait) && test -p p && cmp out.tar piped.tar"]
    os.rename(builder.experiment(), tmp_path / "e.yaml")
    mlk.run(*made, env=builder.env, cwd=tmp_path, check=0)
    assert (tmp_path / "out.tar").stat().st_mode & 0o777 == mode
    assert not list(tmp_path.glob("*.tmp-*"))
