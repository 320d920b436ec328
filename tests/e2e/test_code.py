"""`code:` sends a folder with a program unchanged and only once, and each pod of the run has its own copy."""

import json
import os
import re
import shutil
import subprocess
import time

import mlk
import pytest


def write_code(folder, text="echo hello from $(cat lib/word)\npwd\n"):
    (folder / "lib").mkdir()
    (folder / "lib" / "word").write_text("one\n")
    (folder / "main.sh").write_text(text)


def write_experiment(experiment, name, more="", mode="single", run="sh main.sh"):
    return experiment(f"name: {name}\nmode: {mode}\nrun: {run}\ncode: .\nworkers: {{cpu: 100m, memory: 64Mi}}\n{more}")


def code_maps(cluster):
    return {each["metadata"]["name"]: each for each in cluster.objects("configmaps", "mlk.dev/shared=code")}


def maps_of(cluster, run):
    return [name for name, each in code_maps(cluster).items() if run in [owner["name"] for owner in each["metadata"]["ownerReferences"]]]


@pytest.mark.nodes
def test_mlk_submit_finds_the_same_run_after_an_ignored_file_was_edited_and_makes_a_new_run_after_code_was_edited(cluster, name, experiment, tmp_path):
    write_code(tmp_path)
    (tmp_path / ".mlkignore").write_text("secret\n")
    (tmp_path / "secret").write_text("do not send\n")
    file = write_experiment(experiment, name)
    first = cluster.mlk("submit", "--wait", file, check=0, timeout=120)
    assert "sent configmap/mlk-code-" in first.stderr
    run = first.stdout.strip()
    assert "hello from one" in cluster.mlk("logs", run, check=0).stdout
    (tmp_path / "secret").write_text("other\n")
    assert cluster.mlk("submit", file, check=0).stdout.strip() == run
    (tmp_path / "lib" / "word").write_text("two\n")
    second = cluster.mlk("submit", "--wait", file, check=0, timeout=120).stdout.strip()
    assert second != run
    assert "hello from two" in cluster.mlk("logs", second, check=0).stdout


@pytest.mark.nodes
def test_mlk_submit_sends_code_once_for_several_runs_and_the_code_is_deleted_with_the_last_of_these_runs(cluster, name, experiment, tmp_path):
    write_code(tmp_path)
    (tmp_path / "of").write_text(name)   # no other test has this code
    first = cluster.mlk("submit", "--wait", write_experiment(experiment, name), check=0, timeout=120).stdout.strip()
    again = cluster.mlk("submit", "--wait", write_experiment(experiment, name, "env: {A: b}\n"), check=0, timeout=120)
    second = again.stdout.strip()
    assert "is there already: nothing of it was sent" in again.stderr
    maps = maps_of(cluster, first)
    assert maps == maps_of(cluster, second)
    assert len(maps) == 1
    cluster.mlk("delete", first, check=0)
    time.sleep(3)   # in this time a garbage collector would delete objects without an owner
    assert maps_of(cluster, second) == maps
    cluster.mlk("delete", second, check=0)
    mlk.wait_until(lambda: maps[0] not in code_maps(cluster), "the end of code that no run has")


@pytest.mark.nodes
def test_every_rank_writes_into_its_own_copy_of_the_code(cluster, name, experiment, tmp_path):
    write_code(tmp_path, "echo $MLK_RANK >> lib/word; sleep 1; echo words $(cat lib/word)\n")
    file = write_experiment(experiment, name, "", mode="allreduce", run="exec sh main.sh").read_text().replace("{cpu", "{count: 2, cpu")
    run = cluster.mlk("submit", "--wait", experiment(file), check=0, timeout=120).stdout.strip()
    log = cluster.mlk("logs", run, check=0).stdout
    assert sorted(re.findall(r"words (one \d)", log)) == ["one 0", "one 1"]


@pytest.mark.nodes
def test_a_run_fails_and_its_log_says_why_if_its_image_cannot_unpack_code(embedded, name, experiment, tmp_path):
    write_code(tmp_path)
    run = embedded.mlk("submit", write_experiment(experiment, name, "env: {PATH: /nowhere}\n"), check=0).stdout.strip()
    assert embedded.mlk("wait", run, timeout=120).code == 5
    assert "the code of the run cannot be unpacked; the image needs tar with gzip, or python3" in embedded.mlk("logs", run, check=0).stdout


@pytest.mark.nodes
def test_trials_of_a_sweep_share_its_code(cluster, name, experiment, tmp_path):
    write_code(tmp_path, "echo mlk step=1 loss=$1 from=$(cat lib/word)\n")
    text = write_experiment(experiment, name, "sweep: {objective: minimize loss}\n", run="sh main.sh ${sweep.lr}").read_text()
    sweep = cluster.mlk("sweep", experiment(text), "lr=0.5,0.25", check=0, timeout=120).stdout.strip()
    cluster.mlk("wait", sweep, check=0, timeout=180)
    assert len(maps_of(cluster, sweep)) == 1


def test_trials_have_the_code_of_their_sweep_if_each_trial_is_a_run(embedded, name, experiment, tmp_path):
    write_code(tmp_path, "echo mlk step=1 loss=$1 from=$(cat lib/word)\n")
    text = write_experiment(experiment, name, "sweep: {objective: minimize loss}\n", mode="allreduce", run="sh main.sh ${sweep.lr}").read_text()
    sweep = embedded.mlk("sweep", experiment(text), "lr=0.5,0.25", check=0, timeout=120).stdout.split()[0]
    states = [trial["state"] for trial in embedded.mlk("results", sweep, "-o", "json", check=0).json()]
    assert states == ["Succeeded", "Succeeded"]
    maps = maps_of(embedded, sweep)
    assert len(maps) == 1
    assert [owner["name"] for owner in code_maps(embedded)[maps[0]]["metadata"]["ownerReferences"]] == [sweep]


def test_mlk_status_and_mlk_diff_show_the_commit_of_the_code_of_a_run(embedded, name, experiment, tmp_path):
    write_code(tmp_path)
    file = write_experiment(experiment, name)

    def git(*words):
        return subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@example.com", *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    def source():
        rendered = embedded.mlk("render", "-o", "json", file, check=0).json()
        return json.loads(rendered["items"][0]["data"]["code"])
    assert source() == {"path": "."}
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "all")
    found = source()
    assert found == {"path": ".", "branch": "main", "clean": True, "commit": git("rev-parse", "HEAD").strip()}
    first = embedded.mlk("submit", "--wait", file, check=0, timeout=120).stdout.strip()
    assert f"  commit        {found['commit'][:12]}\n" in embedded.mlk("status", first, check=0).stdout
    (tmp_path / "new").write_text("")
    assert source()["clean"] is False
    second = embedded.mlk("submit", "--wait", file, check=0, timeout=120).stdout.strip()
    assert embedded.mlk("status", second, "-o", "json", check=0).json()["commit"] == found["commit"] + "-dirty"
    assert re.search(f"commit +{found['commit'][:12]} +{found['commit'][:12]}-dirty\n", embedded.mlk("diff", first, second, check=0).stdout)


def test_mlk_refuses_code_that_is_missing_or_too_large_or_outside_of_the_experiment_folder_before_it_sends_anything(embedded, name, experiment, tmp_path):
    write_code(tmp_path)
    file = write_experiment(experiment, name)
    with (tmp_path / "weights.bin").open("wb") as big:
        big.truncate(2 << 30)
    refused = mlk.run(mlk.MLK, "render", file, check=2)   # a submit to a cluster, without a registry
    assert "the largest files are weights.bin (2048.0 MiB)" in refused.stderr
    assert ".mlkignore" in refused.stderr
    (tmp_path / ".mlkignore").write_text("*.bin\n")
    (tmp_path / "data").symlink_to("/usr/share")
    assert "data is a link that leads out of the folder, to /usr/share" in embedded.mlk("submit", file, check=2).stderr
    (tmp_path / "data").unlink()
    outside = experiment(file.read_text().replace("code: .", "code: .."))
    assert "leads out of the experiment file's folder" in embedded.mlk("submit", outside, check=2).stderr
    missing = experiment(file.read_text().replace("code: ..", "code: gone"))
    assert "there is no folder" in embedded.mlk("submit", missing, check=2).stderr
    assert embedded.mlk("ls", name, "-o", "name", check=0).stdout == ""


def test_mlk_get_writes_the_submitted_files_and_a_submit_of_these_files_finds_the_same_run(embedded, name, experiment, tmp_path):
    source = tmp_path / "source"
    (source / "data").mkdir(parents=True)
    (source / "code").mkdir()
    write_code(source / "code")
    (source / "code" / "main.sh").chmod(0o755)
    (source / "code" / "link").symlink_to("lib/word")
    (source / "data" / "numbers").write_text("1 2 3\n")
    file = source / "x.yaml"
    file.write_text(f"name: {name}\nmode: single\nrun: ./main.sh $N\ncode: code\nenv: {{N: '$$1'}}\nworkers: {{cpu: 100m, memory: 64Mi}}\n"
                    "data: [{name: numbers, mount: /data, files: data}, {name: words, mount: /words, files: code/lib}]\n")
    run = embedded.mlk("submit", "--wait", "--set", "note=before", file, check=0, timeout=120).stdout.strip()
    printed = embedded.mlk("get", run, check=0)
    assert f"name: {name}\n" in printed.stdout
    assert "--to FOLDER" in printed.stderr
    written = embedded.mlk("get", name, "--to", tmp_path / "again", check=0).stdout.strip()
    assert written == str(tmp_path / "again" / f"{run}.yaml")
    assert subprocess.run(["diff", "-r", "--no-dereference", source / "code", tmp_path / "again" / "code"], check=False).returncode == 0
    assert (tmp_path / "again" / "code" / "main.sh").stat().st_mode & 0o100
    assert embedded.mlk("submit", written, check=0).stdout.strip() == run
    (source / "data" / "numbers").write_text("4\n")
    other = embedded.mlk("submit", file, check=0).stdout.strip()
    assert re.search(r"files of numbers: numbers +[0-9a-f]{12} +[0-9a-f]{12}\n", embedded.mlk("diff", run, other, check=0).stdout)
    assert "is there already, and not empty" in embedded.mlk("get", name, "--to", tmp_path / "again", check=2).stderr


def test_mlk_diff_compares_two_runs_and_mlk_rollback_submits_the_earlier_version_again(embedded, name, experiment, tmp_path):
    write_code(tmp_path)
    file = write_experiment(experiment, name, "env: {A: one}\n")
    first = embedded.mlk("submit", "--wait", file, check=0, timeout=120).stdout.strip()
    assert "there is no version" in embedded.mlk("rollback", name, check=3).stderr
    (tmp_path / "lib" / "word").write_text("two\n")
    (tmp_path / "added").write_text("new\n")
    (tmp_path / "main.sh").chmod(0o755)
    (tmp_path / "empty").mkdir()
    time.sleep(1.1)   # the cluster cannot order runs that were created in the same second
    second = embedded.mlk("submit", "--wait", "--set", "env.A=two", file, check=0, timeout=120).stdout.strip()
    compared = embedded.mlk("diff", first, second, check=0).stdout
    assert re.search(r"env\.A +one +two", compared), compared
    assert f"--- {first}/lib/word\n+++ {second}/lib/word\n@@ -1 +1 @@\n-one\n+two\n" in compared
    assert "+new" in compared
    assert "now executable: main.sh\n" in compared
    assert "now folder: empty\n" in compared
    same = embedded.mlk("diff", first, first, check=0)
    assert same.stdout == ""
    assert "do not differ" in same.stderr
    back = embedded.mlk("rollback", second, check=0).stdout.strip()
    assert back == f"{first}-2"
    embedded.mlk("wait", back, check=0, timeout=120)
    assert "hello from one" in embedded.mlk("logs", back, check=0).stdout


@pytest.mark.skipif(shutil.which("patch") is None, reason="needs patch")
def test_mlk_diff_prints_the_changes_of_a_file_as_a_patch_that_is_exact_to_the_byte(embedded, name, experiment, tmp_path):
    write_code(tmp_path)
    file = write_experiment(experiment, name)
    before, after = b"one\r\n\x0ctwo\r\nthree\xff\r\n", b"one\r\n\x0c2\r\nthree\xff\r\n"
    (tmp_path / "lib" / "word").write_bytes(before)
    first = embedded.mlk("submit", "--wait", file, check=0, timeout=120).stdout.strip()
    (tmp_path / "lib" / "word").write_bytes(after)
    second = embedded.mlk("submit", "--wait", file, check=0, timeout=120).stdout.strip()
    patch = tmp_path / "p"
    with patch.open("wb") as out:
        subprocess.run([mlk.MLK, "diff", "--local", first, second], check=True, env={**os.environ, **embedded.env}, stdout=out)
    assert b"-\x0ctwo\r\n+\x0c2\r\n three\xff\r\n" in patch.read_bytes()
    (tmp_path / "lib" / "word").write_bytes(before)
    subprocess.run(["patch", "--binary", "-p1", "-i", patch], cwd=tmp_path, check=True)
    assert (tmp_path / "lib" / "word").read_bytes() == after


@pytest.mark.parametrize(("program", "why"), [
    ("head -c 17000000 /dev/zero", 'program "diff" prints more than 16777216 bytes'), ("exec sleep 60", "the program diff takes more than 30 s"),
    ("echo no memory >&2; exit 2", "the program diff says: no memory"), ("kill -9 $$", "the program diff was ended by signal 9")])
def test_mlk_diff_suggests_mlk_get_if_the_diff_program_cannot_compare_the_code(embedded, name, experiment, tmp_path, program, why):
    write_code(tmp_path)
    file = write_experiment(experiment, name)
    first = embedded.mlk("submit", file, check=0).stdout.strip()
    (tmp_path / "lib" / "word").write_text("two\n")
    second = embedded.mlk("submit", file, check=0).stdout.strip()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "diff").write_text(f"#!/bin/sh\n{program}\n")
    (tmp_path / "bin" / "diff").chmod(0o755)
    refused = embedded.mlk("diff", first, second, check=1, env={"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"})
    assert f"their code cannot be compared: {why}" in refused.stderr
    assert f"get {first} --to {first}" in refused.stderr and f"get {second} --to {second}" in refused.stderr


def test_mlk_new_writes_an_experiment_file_that_runs_without_an_edit(embedded, name, tmp_path):
    folder = tmp_path / f"My Program {name}"
    folder.mkdir()
    (folder / "main.py").write_text("import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n")
    made = embedded.mlk("new", "--framework", "torch", cwd=folder, check=0)
    assert made.stdout == "experiment.yaml\n"
    assert "mlk submit --local --follow experiment.yaml" in made.stderr
    refused = embedded.mlk("new", cwd=folder, check=2)
    assert "experiment.yaml is there already" in refused.stderr
    run = embedded.mlk("submit", "--set", f"name={name}", "--set", "workers.cpu=100m", "--set", "workers.memory=64Mi", "--wait", "experiment.yaml",
                       cwd=folder, check=0, timeout=120).stdout.strip()
    log = embedded.mlk("logs", run, check=0).stdout
    assert "rank 0 of 2" in log and "rank 1 of 2" in log
    assert f"name: my-program-{name}\n" in (folder / "experiment.yaml").read_text()
    assert embedded.mlk("new", "--framework", "tourch", "x.yaml", cwd=folder, check=2).stderr.count("did you mean: --framework torch") == 1
