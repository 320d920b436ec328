"""mlk refuses a path that is not an experiment file at once, with exit 2 (3 if it does not exist) and a reason, and creates no object."""

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


def test_mlk_submit_refuses_a_file_of_a_gigabyte_and_does_not_read_it(tmp_path):
    path = tmp_path / "huge.yaml"
    with open(path, "wb") as file:
        file.truncate(1 << 30)
    assert "too large" in refuse(path)


def test_mlk_submit_refuses_a_folder_as_the_experiment_file(tmp_path):
    assert "is a folder" in refuse(tmp_path)


def test_mlk_submit_refuses_a_binary_file_as_the_experiment_file():
    small = mlk.EXAMPLES / "data/digits/t10k-labels-idx1-ubyte.gz"
    assert str(small) in refuse(small)


def test_mlk_submit_refuses_a_device_as_the_experiment_file():
    refuse("/dev/zero")


def test_mlk_submit_names_the_experiment_file_if_the_file_does_not_exist(tmp_path):
    assert "nowhere.yaml" in refuse(tmp_path / "nowhere.yaml", code=3)


def test_mlk_submit_refuses_an_empty_experiment_file(tmp_path):
    path = tmp_path / "empty.yaml"
    path.touch()
    refuse(path)


def as_nobody(*command, env):
    """Runs mlk as a user who may not read every file. The tests often run as root, who may."""
    command = [str(part) for part in command]
    if os.getuid() == 0:
        command = ["setpriv", "--reuid=65534", "--clear-groups", *command]
    return mlk.run(*command, check=1, env=env)


@pytest.fixture
def open_folder():
    """A folder that every user may open. The folders of tmp_path are closed to other users."""
    with tempfile.TemporaryDirectory(prefix="mlk-test-") as folder:
        pathlib.Path(folder).chmod(0o755)
        yield pathlib.Path(folder)


@pytest.mark.parametrize("unreadable", ["data", "config/mlk/templates/jobs"])
def test_mlk_render_names_a_folder_that_the_user_may_not_read(open_folder, unreadable):
    for folder in ("data", "config/mlk/templates/jobs"):
        (open_folder / folder).mkdir(parents=True)
    (open_folder / "data/a").touch()
    path = open_folder / "x.yaml"
    path.write_text("name: x\nmode: single\nrun: cat /data/a\ndata:\n  - {name: a, mount: /data, files: data}\n", encoding="utf-8")
    program = shutil.copy(mlk.MLK, open_folder / "mlk")  # the build folder may be closed to other users
    (open_folder / unreadable).chmod(0)
    try:
        refused = as_nobody(program, "render", path, env={"XDG_CONFIG_HOME": str(open_folder / "config")})
    finally:
        (open_folder / unreadable).chmod(0o755)
    assert refused.stderr == f"mlk: error: cannot read the folder {open_folder / unreadable}: Permission denied\n"


def test_mlk_submit_names_the_limit_if_the_data_files_are_too_large(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "big").write_bytes(os.urandom(1 << 20))
    path = tmp_path / "x.yaml"
    path.write_text("name: x\nmode: single\nrun: cat /data/big\ndata:\n  - {name: big, mount: /data, files: data}\n", encoding="utf-8")
    assert "900 KiB" in refuse(path)
