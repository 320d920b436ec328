"""mlk build makes an image that other programs accept, makes the same image from the same folder, and handles odd folders."""

import contextlib
import errno
import os
import pathlib
import random
import re
import shutil
import socket
import tempfile
import threading
import time

import base_images
import crane
import image_builds
import mlk
import pytest
import registry
from image_builds import NOBODY, PIECE, Builder, code_of, said_clearly, tree

IN_MEMORY = "/dev/shm"
ZEROS = bytes(PIECE)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


@pytest.fixture(scope="module")
def images():
    with registry.anonymous() as found:
        base_images.push(found, "base/small")
        yield found


@pytest.fixture
def builder(images, tmp_path):
    made = Builder(tmp_path, f"{images.name}/base/small:test")
    write_program(made.code)
    return made


@pytest.fixture
def open_builder(images):
    """A builder in a folder that every user may enter."""
    folder = tempfile.mkdtemp(prefix="mlk-open-")
    os.chmod(folder, 0o777)
    made = Builder(folder, f"{images.name}/base/small:test")
    write_program(made.code)
    yield made
    shutil.rmtree(folder, ignore_errors=True)


def write_program(folder):
    (folder / "lib").mkdir()
    (folder / "lib" / "words").write_text("one\n")
    (folder / "main.sh").write_text("cat lib/words\n")
    (folder / "tool").write_text("#!/bin/sh\necho tool\n")
    (folder / "tool").chmod(0o755)
    (folder / "link").symlink_to("lib/words")


@pytest.mark.parametrize("form", ["oci", "docker", "zstd"])
def test_other_programs_accept_the_images_that_mlk_build_pushes_or_writes(form, images, builder, tmp_path, name):
    base_images.push(images, "base/forms", form, form=form)
    builder.image = f"{images.name}/base/forms:{form}"
    target = f"{images.name}/{name}:1"
    pushed = builder.build("-t", target).stdout.strip()
    repository, digest = pushed.split("@")
    assert (repository, digest) == (target[:-2], images.digest(name, "1"))
    assert images.broken() == []
    _, layout = builder.build_layout()
    assert layout.digest == digest
    assert layout.wrong() == []
    archive = tmp_path / "archive.tar"
    builder.build("--output", f"docker-archive:{archive}")
    mlk.run("skopeo", "inspect", "--tls-verify=false", f"docker://{target}", check=0)
    mlk.run("skopeo", "copy", "--src-tls-verify=false", f"docker://{target}", f"dir:{tmp_path}/dir", check=0)
    mlk.run("skopeo", "copy", f"oci:{layout.folder}", f"oci:{tmp_path}/copy:x", check=0)
    mlk.run("skopeo", "copy", f"docker-archive:{archive}", f"oci:{tmp_path}/loaded:x", check=0)
    if form == "zstd":
        return  # crane and umoci read gzip only
    for where in (["--remote", target], ["--tarball", archive]):
        assert "PASS" in mlk.run(crane.crane(), "validate", *where, check=0, timeout=600).stdout
    if os.geteuid() == 0:
        for source in ("copy", "loaded"):
            mlk.run("umoci", "raw", "unpack", "--image", f"{tmp_path}/{source}:x", tmp_path / f"root-{source}", check=0)
            assert tree(tmp_path / f"root-{source}" / "mlk/code") == tree(builder.code)
            assert (tmp_path / f"root-{source}" / "bin/busybox").exists()


def test_mlk_build_uses_the_image_of_the_requested_platform_if_the_base_is_an_index(images, builder):
    base_images.push_index(images, "base/index", "3")
    builder.image = f"{images.name}/base/index:3"
    machine = base_images.architecture()
    other = "arm64" if machine == "amd64" else "amd64"
    _, own = builder.build_layout("own")
    _, foreign = builder.build_layout("foreign", platform=f"linux/{other}")
    assert (own.config["architecture"], foreign.config["architecture"]) == (machine, other)
    assert own.layer() == foreign.layer()
    refused = builder.build("--platform", "linux/riscv64", "--output", f"oci:{builder.folder}/none", check=3)
    assert f"linux/{machine}" in said_clearly(refused)


def test_mlk_build_makes_an_image_of_the_runtime_without_a_base(images, tmp_path):
    builder = Builder(tmp_path, "")
    if not mlk.RUNTIME.exists():
        pytest.skip("mlk-runtime is not built")
    said = mlk.run(mlk.MLK, "build", "--runtime", "-t", f"{images.name}/mlk-runtime:1", check=0, env=builder.env, timeout=120).stdout.strip()
    assert said == f"{images.name}/mlk-runtime@{images.digest('mlk-runtime', '1')}"
    assert "PASS" in mlk.run(crane.crane(), "validate", "--remote", f"{images.name}/mlk-runtime:1", check=0, timeout=600).stdout
    if os.geteuid() != 0:
        return
    mlk.run("skopeo", "copy", "--src-tls-verify=false", f"docker://{images.name}/mlk-runtime:1", f"oci:{tmp_path}/copy:x", check=0)
    mlk.run("umoci", "raw", "unpack", "--image", f"{tmp_path}/copy:x", tmp_path / "root", check=0)
    programs = [path for path in (tmp_path / "root").rglob("mlk*") if path.is_file() and os.access(path, os.X_OK)]
    assert {path.name for path in programs} >= {"mlk", "mlk-runtime"}
    for path in programs:
        # Mount /proc, as in a container, since programs that were built with a sanitizer read it.
        mlk.run("unshare", "-m", "sh", "-c", 'mount --rbind /proc "$0/proc" && exec chroot "$0" "$1" --version',
                tmp_path / "root", "/" + str(path.relative_to(tmp_path / "root")), check=0)


# The same folder gives the same image.

def other_umask(builder):
    return {"before": ("sh", "-c", 'umask 077; exec "$@"', "sh")}


def other_time_zone(builder):
    return {"env": {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "LANG": "tr_TR.UTF-8"}}


def other_times(builder):
    for at, path in enumerate(sorted(builder.code.rglob("*"))):
        os.utime(path, (at * 1e8 - 1e8, at * 1e8 - 1e8), follow_symlinks=False)
    return {}


def other_order(builder):
    copy = builder.folder / "reversed"
    for path in sorted(builder.code.rglob("*"), reverse=True):
        to = copy / path.relative_to(builder.code)
        if path.is_dir() and not path.is_symlink():
            to.mkdir(parents=True, exist_ok=True)
        else:
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, to, follow_symlinks=False)
    shutil.rmtree(builder.code)
    copy.rename(builder.code)
    return {}


def other_modes(builder):
    for path in builder.code.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o700 if path.stat().st_mode & 0o100 else 0o600)
    return {}


def other_folder(builder):
    builder.code.rename(builder.folder / "elsewhere with spaces")
    return {"more": "code: elsewhere with spaces\n"}


def other_cache(builder):
    return {"env": {"XDG_CACHE_HOME": str(builder.folder / "second")}}


def same_cache(builder):
    return {}


def other_name(builder):
    return {"file": builder.experiment(name="other", file="other.yaml")}


@pytest.mark.parametrize("change", [other_umask, other_time_zone, other_times, other_order, other_modes, other_folder, other_cache, same_cache, other_name])
def test_mlk_build_makes_the_same_image_from_the_same_files(change, builder):
    _, first = builder.build_layout("first")
    changed = change(builder)
    if changed.get("env", {}).get("XDG_CACHE_HOME") is None and change is not same_cache:
        shutil.rmtree(builder.env["XDG_CACHE_HOME"])  # otherwise mlk would find the old layer in the cache
    _, second = builder.build_layout("second-layout", **changed)
    assert first.digest == second.digest


@as_root
def test_mlk_build_makes_the_same_image_if_another_user_owns_the_files_and_runs_the_command(open_builder):
    _, first = open_builder.build_layout("first")
    for path in [open_builder.code, *open_builder.code.rglob("*")]:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    program = image_builds.copy_for_everyone(open_builder.folder)
    env = open_builder.home("home of nobody")
    for path in [open_builder.folder / "home of nobody", *(open_builder.folder / "home of nobody").rglob("*")]:
        os.chown(path, NOBODY, NOBODY)
    mlk.run("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", program, "build", open_builder.experiment(), "--output",
            f"oci:{open_builder.folder}/second", env=env, check=0)
    assert image_builds.Layout(open_builder.folder / "second").digest == first.digest


# Odd folders. A function writes each folder. The code in the image is the same folder without `left_out`, or mlk build refuses the folder.

def names_of_many_alphabets(code):
    for word in ("grün", "gru\u0308n", "数据", "🐟", "\u202eabc", "İi"):
        (code / word).write_text(word)


def names_with_control_characters(code):
    for word in ("line\nfeed", "tab\tbed", "bell\a", "back\\slash", "quote\"'", " blank ", "-rf", "--", "%41", "semi;colon", "a,b=c", "$HOME",
                 "*?[x]", "#x", "!x"):
        (code / word).write_text(word)


def names_that_are_no_text(code):
    for word in (b"\xff\xfe", b"latin-\xe9", b"cut-\xe2\x82"):
        with open(os.path.join(os.fsencode(code), word), "wb") as file:
            file.write(word)


def names_of_every_length(code):
    for length in (99, 100, 101, 154, 155, 156, 157, 254, 255):
        (code / ("n" * length)).write_text(str(length))
        (code / ("d" * length)).mkdir()
        (code / ("d" * length) / ("f" * (256 - length))).write_text("below")


def names_that_differ_little(code):
    for word in ("a", "A", "a.", "a-", "a ", "...", "..a", ".a"):
        (code / word).write_text(word)


def deep_folders(code):
    folder = code.joinpath(*(f"folder-{at:03}" for at in range(150)))
    folder.mkdir(parents=True)
    (folder / "at the end").write_text("deep")


def folders_deeper_than_the_system_can_name(code):
    old = os.open(".", os.O_RDONLY)
    try:
        os.chdir(code)
        for _ in range(150):
            os.mkdir("d" * 40)
            os.chdir("d" * 40)
        pathlib.Path("end").write_text("deep")
    finally:
        os.fchdir(old)
        os.close(old)


def folders_too_deep(code):
    code.joinpath(*("d" for _ in range(400))).mkdir(parents=True)


def hard_links(code):
    (code / "first").write_text("the same\n")
    os.link(code / "first", code / "second")
    os.link(code / "first", code / "lib" / "third")


def many_files(code):
    for at in range(100):
        (code / f"d{at}").mkdir()
        for file in range(100):
            (code / f"d{at}" / f"{file}").write_text(f"{at} {file}")


def empty_things(code):
    (code / "empty file").touch()
    (code / "empty folder").mkdir()


def odd_modes(code):
    for mode in (0o000, 0o111, 0o222, 0o444, 0o777, 0o4755, 0o2755, 0o1644, 0o010, 0o001):
        path = code / f"mode {mode:o}"
        path.write_text(str(mode))
        path.chmod(mode)
    (code / "folder").mkdir()
    (code / "folder").chmod(0o1777)


def sizes_around_blocks(code):
    for size in (0, 1, 511, 512, 513, 10239, 10240, 10241, 262143, 262144, 262145):
        (code / f"{size}").write_bytes(random.Random(size).randbytes(size))


def links_inside(code):
    (code / "to folder").symlink_to("lib")
    (code / "to top").symlink_to(".")
    (code / "dangling").symlink_to("nowhere/at/all")
    (code / "lib" / "up").symlink_to("../main.sh")
    (code / "long").symlink_to("./" * 100 + "main.sh")


def links_in_loops(code):
    (code / "itself").symlink_to("itself")
    (code / "one").symlink_to("other")
    (code / "other").symlink_to("one")
    (code / "lib" / "round").symlink_to("../lib")


def link_out_by_dots(code):
    (code / "lib" / "out").symlink_to("../../secret")


def link_out_by_root(code):
    (code / "out").symlink_to("/etc/passwd")


def link_out_by_its_own_name(code):
    (code / "out").symlink_to("../code/main.sh")


def sparse_file(code):
    with (code / "sparse").open("wb") as file:
        file.write(b"begin")
        file.truncate(64 << 20)
        file.seek(40 << 20)
        file.write(b"middle")


def socket_and_pipe(code):
    with socket.socket(socket.AF_UNIX) as listener:
        old = os.getcwd()
        try:
            os.chdir(code)
            listener.bind("socket")
        finally:
            os.chdir(old)
    os.mkfifo(code / "lib" / "pipe")


def marks_of_deletion(code):
    (code / ".wh.main.sh").write_text("this name deletes main.sh where an image is unpacked\n")


def mark_of_an_opaque_folder(code):
    (code / "lib" / ".wh..wh..opq").write_text("")


def only_what_is_left_out(code):
    shutil.rmtree(code)
    (code / ".git").mkdir(parents=True)
    (code / ".git" / "config").write_text("")


def nothing(code):
    shutil.rmtree(code)
    code.mkdir()


RIGHT = [names_of_many_alphabets, names_with_control_characters, names_that_are_no_text, names_of_every_length, names_that_differ_little, deep_folders,
         hard_links, many_files, empty_things, odd_modes, sizes_around_blocks, links_inside, links_in_loops, sparse_file]
REFUSED = {folders_deeper_than_the_system_can_name: r"code: .*(File name too long|too long|folders in each other)",
           folders_too_deep: "more than 200 folders in each other",
           link_out_by_dots: "lib/out is a link that leads out of the folder, to ../../secret",
           link_out_by_root: "out is a link that leads out of the folder", link_out_by_its_own_name: "out is a link that leads out of the folder",
           only_what_is_left_out: "has no files that travel", nothing: "has no files that travel",
           marks_of_deletion: r"\.wh\.main\.sh", mark_of_an_opaque_folder: r"\.wh\.\.wh\.\.opq"}


# mlk sends files with hidden names only if `include` names them.
MORE = dict.fromkeys([names_that_differ_little, marks_of_deletion, mark_of_an_opaque_folder], "code: {path: code, include: ['**/.*']}\n")


@pytest.mark.parametrize("write", RIGHT)
def test_an_image_contains_exactly_the_files_of_a_folder_with_unusual_content(write, builder, tmp_path):
    write(builder.code)
    _, layout = builder.build_layout(more=MORE.get(write, ""))
    written = tree(builder.code)
    assert layout.wrong() == []
    assert code_of(layout.layer()) == written
    if os.geteuid() == 0:
        mlk.run("skopeo", "copy", "-q", f"oci:{layout.folder}", f"oci:{tmp_path}/copy:x", check=0)
        mlk.run("umoci", "raw", "unpack", "--image", f"{tmp_path}/copy:x", tmp_path / "root", check=0, timeout=120)
        assert tree(tmp_path / "root/mlk/code") == written


@pytest.mark.parametrize("write", REFUSED)
def test_mlk_build_refuses_a_folder_that_no_image_can_contain(write, images, builder, tmp_path, name):
    try:
        write(builder.code)
        refused = builder.build("-t", f"{images.name}/{name}:1", more=MORE.get(write, ""), check=None)
        said = said_clearly(refused)
        assert re.search(REFUSED[write], said), refused
        assert images.tags(name) == []
    finally:
        mlk.run("rm", "-rf", builder.code, check=0)  # the folder is deeper than Python's own removal can handle


def test_mlk_build_prints_the_names_of_the_sockets_and_pipes_that_it_leaves_out(builder):
    socket_and_pipe(builder.code)
    result, layout = builder.build_layout()
    assert code_of(layout.layer()) == tree(builder.code)
    for each in ("socket", "lib/pipe"):
        assert f"{each} is a socket, a pipe or a device, and does not travel" in result.stderr


@as_root
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_mlk_build_names_a_path_that_the_user_may_not_read(kind, open_builder):
    secret = open_builder.code / "secret"
    secret.touch() if kind == "file" else secret.mkdir()
    secret.chmod(0)
    program = image_builds.copy_for_everyone(open_builder.folder)
    env = open_builder.home("home of nobody")
    for path in [open_builder.folder / "home of nobody", *(open_builder.folder / "home of nobody").rglob("*")]:
        os.chown(path, NOBODY, NOBODY)
    refused = mlk.run("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", program, "build", open_builder.experiment(), "--output",
                      f"oci:{open_builder.folder}/layout", env=env)
    assert "secret" in said_clearly(refused)
    assert os.strerror(errno.EACCES) in refused.stderr
    assert not (open_builder.folder / "layout").exists()


@pytest.mark.timed
def test_a_sparse_file_of_two_gigabytes_is_in_the_image(builder):
    # In a file system in memory, the kernel has no pages to fill for the hole. On a disk this takes it longer than mlk takes for the file.
    with tempfile.TemporaryDirectory(prefix="mlk-sparse-", dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None) as code:
        write_program(pathlib.Path(code))
        with open(f"{code}/weights.bin", "wb") as file:
            file.truncate(2 << 30)
        result = builder.build("--allow-files", code, "--output", f"oci:{builder.folder / 'layout'}", more=f"code: {code}\n", timeout=300)
    layout = image_builds.Layout(builder.folder / "layout")
    assert "weights.bin has 2048.0 MiB" in result.stderr
    assert layout.manifest["layers"][-1]["size"] < 20 << 20
    assert code_of(layout.layer(content=zeros_in))["weights.bin"] == ("file", 2 << 30, False)


def zeros_in(file):
    """The size of the file, or None if it has other bytes than zeros. This takes less time than a hash."""
    size = 0
    while piece := file.read(PIECE):
        if piece != ZEROS[:len(piece)]:
            return None
        size += len(piece)
    return size


def grow(path):
    with path.open("ab") as file:
        file.write(b"more")


def shrink(path):
    os.truncate(path, max(0, path.stat().st_size - 100000) or 1 << 20)


def replace(path):
    aside = path.with_name("aside")
    aside.write_bytes(random.randbytes(1 << 20))
    aside.rename(path)


def vanish(path):
    path.unlink()
    path.write_bytes(random.randbytes(1 << 20))


@pytest.mark.parametrize("change", [grow, shrink, replace, vanish])
def test_mlk_build_makes_a_correct_image_or_fails_if_a_file_changes_while_mlk_reads_this_file(change, builder):
    path = builder.code / "log"
    path.write_bytes(random.randbytes(8 << 20))
    ended = threading.Event()

    def disturb():
        while not ended.is_set():
            with contextlib.suppress(OSError):
                change(path)
            time.sleep(0.001)
    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        result, layout = builder.build_layout(check=None)
    finally:
        ended.set()
        thread.join()
    if result.code == 0:
        assert layout.wrong() == []
    else:
        assert re.search("changes while it is read|No such file", said_clearly(result)), result
        assert not layout.folder.exists()
    (builder.code / "aside").unlink(missing_ok=True)
    _, again = builder.build_layout("again")
    assert code_of(again.layer()) == tree(builder.code)


@pytest.mark.parametrize("destination", ["oci:{}", "docker-archive:{}"])
def test_the_output_option_never_replaces_a_folder_that_mlk_build_did_not_write(destination, builder):
    folder = builder.folder / "thesis"
    folder.mkdir()
    (folder / "chapter").write_text("years of work")
    said_clearly(builder.build("--output", destination.format(folder), check=None))
    assert (folder / "chapter").read_text() == "years of work"
    for wrong in ("oci", "oci:", "tar:x"):
        assert "--output" in said_clearly(builder.build("--output", wrong, check=2))
