"""Which of the user's files mlk sends, which files it writes for the user, and which files it deletes from the caches."""

import json
import os
import stat
import subprocess

import mlk
import pytest

EXPERIMENT = "mode: single\nrun: [sh, main.sh]\ncode: {}\nworkers: {{count: 1, cpu: 100m, memory: 64Mi}}\nrestart: {{retries: 0}}\n"


def write(path, text="x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def code(tmp_path, name):
    """A folder with a program and its experiment file."""
    folder = tmp_path / "work"
    write(folder / "main.sh", "find . -type f | sort\n")
    write(folder / "e.yaml", f"name: {name}\n" + EXPERIMENT.format("."))
    return folder


@pytest.fixture
def home(tmp_path):
    return {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def git(folder, *words):
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@example.com", *words], cwd=folder, check=True, capture_output=True)


def test_mlk_submit_prints_a_line_for_each_kind_of_file_that_it_leaves_out(embedded, code, home):
    write(code / "data/keep.csv")
    write(code / "data.bin")
    write(code / "key.pem")
    write(code / ".npmrc")
    write(code / ".gitignore", "data/\n*.bin\n")
    git(code, "init", "-q")
    git(code, "add", "-f", "data/keep.csv", "main.sh")
    ran = embedded.mlk("submit", "--wait", "e.yaml", cwd=code, env=home, check=0, timeout=120)
    assert "committed files stay behind" in ran.stderr and "data/keep.csv" in ran.stderr
    assert "left out, as git ignores it: data.bin, data/; name the files that the program needs in include:" in ran.stderr
    assert "usually hold secrets stay behind: key.pem" in ran.stderr
    assert ".npmrc" not in ran.stderr
    printed = embedded.mlk("logs", ran.stdout.strip(), env=home, check=0).stdout.split()
    assert [word for word in printed if word.startswith("./")] == ["./.gitignore", "./main.sh"]
    (code / "e.yaml").write_text((code / "e.yaml").read_text().replace("code: .", "code: {path: ., include: [data.bin, .npmrc]}"))
    shown = embedded.mlk("submit", "--dry-run", "e.yaml", cwd=code, env=home, check=0)
    assert "left out, as git ignores it: data/;" in shown.stderr


def test_mlk_submit_refuses_the_home_folder_of_the_user_as_the_folder_of_the_code(embedded, code, home):
    refused = embedded.mlk("submit", "--dry-run", "e.yaml", cwd=code, env={**home, "HOME": str(code)}, check=2)
    assert "is your home folder" in refused.stderr


def test_mlk_submit_does_not_run_the_git_filters_of_a_repository(embedded, code, home, tmp_path):
    git(code, "init", "-q")
    write(code / ".gitattributes", "* filter=evil\n")
    git(code, "add", ".")
    git(code, "commit", "-q", "-m", "x")
    git(code, "config", "filter.evil.clean", f"sh -c 'id >{tmp_path}/ran; cat'")
    os.utime(code / "main.sh", (10 ** 9, 10 ** 9))
    embedded.mlk("submit", "--dry-run", "e.yaml", cwd=code, env=home, check=0)
    assert not (tmp_path / "ran").exists()


def test_an_experiment_from_a_pipe_finds_its_code_in_the_working_folder(embedded, code, home):
    made = subprocess.run(["bash", "-c", f"{mlk.MLK} submit --dry-run <(cat e.yaml)"], cwd=code, capture_output=True, text=True, timeout=60,
                          env={**os.environ, **embedded.env, "KUBECONFIG": embedded.kubeconfig, **home})
    assert made.returncode == 0, made.stderr


def test_commands_work_without_a_home_folder(embedded, code):
    env = {key: value for key, value in {**os.environ, **embedded.env}.items() if key not in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    for words in (["submit", "--dry-run", "e.yaml"], ["render", "e.yaml"], ["templates"], ["image", "gc"], ["new", "n.yaml"]):
        ended = subprocess.run([str(mlk.MLK), *words], cwd=code, env={**env, "KUBECONFIG": embedded.kubeconfig}, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, (words, ended.stderr)


def test_files_that_mlk_writes_for_the_user_obey_the_umask(embedded, code, home, name):
    run = embedded.mlk("submit", "--wait", "e.yaml", cwd=code, env=home, check=0, timeout=120).stdout.strip()
    program = ["bash", "-c", f"umask 077; {mlk.MLK} new n.yaml && {mlk.MLK} get {run} --to g"]
    subprocess.run(program, cwd=code, env={**os.environ, **embedded.env, "KUBECONFIG": embedded.kubeconfig, **home}, check=True, capture_output=True, timeout=60)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (code / "n.yaml", code / "g", code / "g" / "main.sh")}
    assert modes == {"n.yaml": 0o600, "g": 0o700, "main.sh": 0o600}
    assert sorted(path.name for path in code.iterdir()) == ["e.yaml", "g", "main.sh", "n.yaml"]


def test_mlk_get_and_mlk_diff_refuse_a_run_whose_stored_experiment_was_changed(embedded, code, home, name, tmp_path):
    run = embedded.mlk("submit", "--wait", "e.yaml", cwd=code, env=home, check=0, timeout=120).stdout.strip()
    owner = json.loads(embedded.kubectl("get", "configmap", run, "-o", "json").stdout)
    experiment = json.loads(owner["data"]["experiment"])
    out = tmp_path / "out"
    for wrong in ({"code": {"path": 7}}, {"data": [1]}, {"data": {}}, {"data": [{"name": "x/../../zz", "files": "/abs"}]}, {"code": []}):
        patch = json.dumps({"data": {"experiment": json.dumps({**experiment, **wrong})}})
        embedded.kubectl("patch", "configmap", run, "--type", "merge", "-p", patch)
        for words in (["get", run, "--to", out], ["get", run], ["diff", run, run]):
            refused = embedded.mlk(*words, env=home, check=1)
            assert "was changed" in refused.stderr and "internal" not in refused.stderr
        assert not out.exists()


def test_mlk_image_gc_keeps_code_in_the_cache_while_a_local_run_refers_to_this_code(embedded, code, home, tmp_path):
    state = {"XDG_STATE_HOME": embedded.env["XDG_STATE_HOME"], **home}
    with open(code / "large.bin", "wb") as large:
        large.write(os.urandom(2 << 20))
    run = embedded.mlk("submit", "--wait", "e.yaml", cwd=code, env=state, check=0, timeout=120).stdout.strip()
    layers = tmp_path / "cache/mlk/layers"
    kept = [path for path in layers.iterdir() if path.name.startswith("code-")]
    assert len(kept) == 1
    assert stat.S_IMODE(layers.stat().st_mode) == 0o700
    for path in [*kept, *kept[0].iterdir()]:
        os.utime(path, (10 ** 9, 10 ** 9))
    write(layers / "old.tar.gz")
    os.utime(layers / "old.tar.gz", (10 ** 9, 10 ** 9))
    assert embedded.mlk("image", "gc", env=state, check=0).stdout.split() == ["old.tar.gz"]
    assert kept[0].is_dir()
    embedded.mlk("delete", run, env=state, check=0)
    assert embedded.mlk("image", "gc", "--unused", "1h", env=state, check=0).stdout.split() == [kept[0].name]


def test_mlk_submit_packs_the_code_again_if_its_copy_in_the_cache_is_damaged(embedded, code, home, tmp_path):
    with open(code / "large.bin", "wb") as large:
        large.write(os.urandom(2 << 20))
    embedded.mlk("submit", "--wait", "e.yaml", cwd=code, env=home, check=0, timeout=120)
    archive, = (tmp_path / "cache/mlk/layers").glob("code-*/code.tar.gz")
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 1
    archive.write_bytes(content)
    assert embedded.mlk("submit", "--again", "--wait", "e.yaml", cwd=code, env=home, timeout=120).code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give folders to others")
def test_commands_of_the_local_cluster_refuse_a_state_folder_of_another_user(tmp_path):
    env = {"XDG_STATE_HOME": str(tmp_path / "state")}
    (tmp_path / "state/mlk/local").mkdir(parents=True)
    os.chown(tmp_path / "state/mlk/local", 65534, 65534)
    for words in (["ls", "--local"], ["local", "status"], ["local", "down"], ["local", "kubeconfig"], ["local", "up"]):
        assert "belongs to another user" in mlk.run(mlk.MLK, *words, env=env, check=1).stderr
