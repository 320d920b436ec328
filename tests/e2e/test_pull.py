"""mlk pull brings the files of a run home: from running pods, from a pod that reads the claim, and from folders of this machine."""

import hashlib
import json
import pathlib
import random
import re
import signal
import time

import mlk

FILE = """
name: {name}
mode: single
run: {program}
outputs: out
workers: {{cpu: 20m, memory: 64Mi}}
restart: {{retries: 0}}
"""

# 300 small files, an empty one, a large one, a link and a link that leads out of the outputs.
WRITE = """mkdir -p out/sub
i=0; while [ $i -lt 300 ]; do echo $i > out/sub/f$i; i=$((i+1)); done
: > 'out/empty and odd'; head -c 30000000 /dev/urandom > out/big; ln -s big out/latest; ln -s /etc/passwd out/away
echo "it is $(sha256sum < out/big)"
"""

CLAIM = {"MLK_OUTPUTS_CLAIM": "checkpoints"}  # the claim that the real cluster has


def submitted(cluster, name, experiment, program, *more):
    """The name of a run whose code is the program, since only a folder of code can be written in every image."""
    file = experiment(FILE.format(name=name, program="[sh, train.sh]\ncode: ."))
    (pathlib.Path(file).parent / "train.sh").write_text(program)
    return cluster.mlk("submit", *more, file, check=0, timeout=180, env=CLAIM).stdout.strip()


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digest_of_big(cluster, run):
    return re.search(r"it is ([0-9a-f]{64})", cluster.mlk("logs", run, check=0).stdout)[1]


def readers(cluster, run):
    return cluster.kubectl("get", "pods", "-l", f"mlk.dev/reader={run}", "-o", "name", check=0).stdout.split()


def test_the_files_of_an_ended_run_come_home_whole_and_only_once(cluster, name, experiment, tmp_path):
    run = submitted(cluster, name, experiment, WRITE, "--wait")
    told = cluster.mlk("pull", run, check=1, timeout=180, cwd=tmp_path)  # 1: because of the link out/away
    assert told.stdout == f"{run}\n"
    assert "out/away: it is a link to /etc/passwd, outside of what comes" in told.stderr
    assert re.search(rf"302 files, 28\.[67] MiB, .*: {run}\n", told.stderr)
    out = tmp_path / run / "out"
    assert digest(out / "big") == digest_of_big(cluster, run)
    assert all((out / f"sub/f{i}").read_text() == f"{i}\n" for i in range(300))
    assert (out / "empty and odd").read_bytes() == b""
    assert (out / "latest").is_symlink() and (out / "latest").resolve() == out / "big"
    assert not (out / "away").exists()
    assert "302 were there already" in cluster.mlk("pull", run, check=1, timeout=180, cwd=tmp_path).stderr
    listed = cluster.mlk("pull", "--list", run, check=0, timeout=180).stdout
    assert re.search(r"^out/big +28\.[67] MiB +\d+s$", listed, re.M) and re.search(r"^out/latest +link", listed, re.M)
    cluster.mlk("pull", run, "out/sub/f7", "--to", tmp_path / "one", check=0, timeout=180)
    assert [str(path.relative_to(tmp_path / "one")) for path in (tmp_path / "one").rglob("*") if path.is_file()] == ["out/sub/f7"]
    missing = cluster.mlk("pull", run, "out/bik", check=3, timeout=180)
    assert "the run has no file out/bik; did you mean 'out/big'?" in missing.stderr
    if not cluster.embedded:
        mlk.wait_until(lambda: not readers(cluster, run), "the pods that read to go")


def test_files_come_from_a_run_that_goes_on(cluster, name, experiment, tmp_path):
    run = submitted(cluster, name, experiment, "echo now > out/state; trap 'exit 0' TERM; while :; do sleep 0.2; done")
    mlk.wait_until(lambda: cluster.mlk("status", run, "-o", "json", check=0).json()["phase"] == "Running", "the program to run", 120)
    mlk.wait_until(lambda: cluster.mlk("pull", run, "--to", tmp_path / "home").code == 0, "its file", 60)
    assert (tmp_path / "home/out/state").read_text() == "now\n"
    assert cluster.embedded or not readers(cluster, run)  # its own pod has sent the file
    cluster.mlk("delete", "--no-wait", run, check=0)


def test_a_pull_that_was_killed_continues_and_leaves_no_half_file(cluster, name, experiment, tmp_path):
    run = submitted(cluster, name, experiment, WRITE, "--wait")
    chance = random.Random(7)
    for _ in range(6):
        pulling = cluster.start("pull", run, "--to", str(tmp_path / "home"))
        time.sleep(chance.uniform(0.02, 0.3 if cluster.embedded else 4))
        pulling.send_signal(signal.SIGKILL)
        pulling.communicate()
        if (tmp_path / "home/out/big").exists():
            assert digest(tmp_path / "home/out/big") == digest_of_big(cluster, run)
    cluster.mlk("pull", run, "--to", tmp_path / "home", check=1, timeout=180)
    assert digest(tmp_path / "home/out/big") == digest_of_big(cluster, run)
    assert len(list((tmp_path / "home/out/sub").glob("f*"))) == 300
    assert not list((tmp_path / "home").rglob("*.part"))


def test_ctrl_c_in_a_pull_says_how_to_continue(embedded, name, experiment, tmp_path):
    run = submitted(embedded, name, experiment, "head -c 400000000 /dev/zero > out/big", "--wait")
    pulling = embedded.start("pull", run, "--to", str(tmp_path / "home"))
    mlk.wait_until(lambda: list(tmp_path.glob("home/out/.mlk-*.part")), "the first bytes")
    pulling.send_signal(signal.SIGINT)
    said = pulling.communicate(timeout=30)[1]
    assert pulling.returncode == 130
    assert f"continue with: mlk pull {run} --to {tmp_path}/home --local" in said
    assert not (tmp_path / "home/out/big").exists()
    embedded.mlk("pull", run, "--to", tmp_path / "home", check=0)
    assert (tmp_path / "home/out/big").stat().st_size == 400000000


def test_each_rank_has_a_folder_and_a_trial_none(embedded, name, experiment, tmp_path):
    text = FILE.format(name=name, program=json.dumps("echo $MLK_RANK > out/rank")).replace("mode: single", "mode: allreduce").replace("{cpu", "{count: 2, cpu")
    run = embedded.mlk("submit", "--wait", experiment(text), check=0).stdout.strip()
    embedded.mlk("pull", run, "--to", tmp_path / "ranks", check=0)
    assert [(tmp_path / "ranks" / rank / "out/rank").read_text() for rank in "01"] == ["0\n", "1\n"]
    text = FILE.format(name=name + "s", program=json.dumps("echo ${sweep.x} > out/x; echo mlk step=1 loss=${sweep.x}"))
    text += "sweep: {parameters: {x: [0.5, 0.4]}, objective: {minimize: loss}}\n"
    sweep = embedded.mlk("sweep", "--wait", experiment(text, "s.yaml"), check=0, timeout=120).stdout.strip()
    embedded.mlk("pull", f"{sweep}/1", check=0, cwd=tmp_path)
    assert (tmp_path / f"{sweep}-1/out/x").read_text() == "0.4\n"
    embedded.mlk("pull", sweep, check=0, cwd=tmp_path)
    assert [(tmp_path / sweep / trial / "out/x").read_text() for trial in "01"] == ["0.5\n", "0.4\n"]


def test_the_checkpoints_of_a_run_without_outputs_come_home(embedded, name, tmp_path):
    run = embedded.mlk("submit", "--wait", "--set", f"name={name}", "--set", f"checkpoint.volume={{pvc: {name}}}", "--set", "train.steps=40",
                       mlk.EXAMPLES / "digits-single.yaml", check=0, timeout=180).stdout.strip()
    embedded.mlk("pull", run, "checkpoints/model", "--to", tmp_path / "home", check=0)
    assert (tmp_path / "home/checkpoints/model/model.safetensors").stat().st_size > 1000
    embedded.mlk("pull", run, "--to", tmp_path / "all", check=0)
    assert list((tmp_path / "all/checkpoints").glob("step-*/manifest.json"))


def test_a_run_without_files_says_which_key_keeps_them(embedded, name, experiment):
    text = FILE.format(name=name, program="[true]")
    run = embedded.mlk("submit", "--wait", experiment(text), check=0).stdout.strip()
    told = embedded.mlk("pull", run, check=3).stderr
    assert f"{run} has no files to pull: nothing was written there" in told
    run = embedded.mlk("submit", "--wait", experiment(text.replace("outputs: out\n", "")), check=0).stdout.strip()
    told = embedded.mlk("pull", run, check=3).stderr
    assert "its experiment has no outputs, and no volume for checkpoints" in told and "outputs: out" in told
