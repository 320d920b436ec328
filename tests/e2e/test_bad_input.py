"""What is no experiment file is refused with exit 2 (3 when it is not there), at once, in words, and nothing is created."""

import os
import pathlib
import shutil
import tempfile

import mlk
import pytest


def refuse(path, code=2, timeout=10):
    refused = mlk.run(mlk.MLK, "submit", "--local", path, check=code, timeout=timeout, env={"XDG_STATE_HOME": "/nonexistent"})
    assert refused.stdout == ""
    assert refused.stderr.startswith("mlk: error: ")
    assert "internal error" not in refused.stderr
    return refused.stderr


def test_a_file_of_a_gigabyte_is_refused_unread(tmp_path):
    path = tmp_path / "huge.yaml"
    with open(path, "wb") as file:
        file.truncate(1 << 30)
    assert "too large" in refuse(path)


def test_a_folder_is_refused(tmp_path):
    assert "is a folder" in refuse(tmp_path)


def test_a_binary_file_is_refused():
    small = mlk.EXAMPLES / "data/digits/t10k-labels-idx1-ubyte.gz"
    assert str(small) in refuse(small)


def test_a_device_is_refused():
    refuse("/dev/zero")


def test_a_file_that_is_not_there_is_named(tmp_path):
    assert "nowhere.yaml" in refuse(tmp_path / "nowhere.yaml", code=3)


def test_an_empty_file_says_what_is_missing(tmp_path):
    path = tmp_path / "empty.yaml"
    path.touch()
    refuse(path)


def as_nobody(*command, env):
    """Runs mlk as a user who may not read everything: root may, and the tests often run as root."""
    command = [str(part) for part in command]
    if os.getuid() == 0:
        command = ["setpriv", "--reuid=65534", "--clear-groups", *command]
    return mlk.run(*command, check=1, env=env)


@pytest.fixture
def open_folder():
    """One that every user may look into: those of tmp_path are closed to others."""
    with tempfile.TemporaryDirectory(prefix="mlk-test-") as folder:
        pathlib.Path(folder).chmod(0o755)
        yield pathlib.Path(folder)


@pytest.mark.parametrize("unreadable", ["data", "config/mlk/templates/jobs"])
def test_a_folder_that_may_not_be_read_is_named(open_folder, unreadable):
    for folder in ("data", "config/mlk/templates/jobs"):
        (open_folder / folder).mkdir(parents=True)
    (open_folder / "data/a").touch()
    path = open_folder / "x.yaml"
    path.write_text("name: x\nmode: single\nrun: cat /data/a\ndata:\n  - {name: a, mount: /data, files: data}\n", encoding="utf-8")
    program = shutil.copy(mlk.MLK, open_folder / "mlk")  # the build folder may be closed to others
    (open_folder / unreadable).chmod(0)
    try:
        refused = as_nobody(program, "render", path, env={"XDG_CONFIG_HOME": str(open_folder / "config")})
    finally:
        (open_folder / unreadable).chmod(0o755)
    assert refused.stderr == f"mlk: error: cannot read the folder {open_folder / unreadable}: Permission denied\n"


def test_data_files_that_do_not_fit_are_named(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "big").write_bytes(os.urandom(1 << 20))
    path = tmp_path / "x.yaml"
    path.write_text("name: x\nmode: single\nrun: cat /data/big\ndata:\n  - {name: big, mount: /data, files: data}\n", encoding="utf-8")
    assert "900 KiB" in refuse(path)
