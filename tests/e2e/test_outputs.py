"""What a program writes in the folders of `outputs:` stays when its pod ends, is killed or is deleted. On both clusters."""

import json
import pathlib
import re

import mlk

FILE = """
name: {name}
mode: single
run: {program}
{outputs}
workers: {{cpu: 20m, memory: 32Mi}}
restart: {{retries: 0}}
"""


def text(name, program, outputs="outputs: out"):
    return FILE.format(name=name, program=json.dumps(program), outputs=outputs)


def folder_of(embedded, run):
    """The folder with the outputs of the run on this machine."""
    return pathlib.Path(embedded.mlk("status", run, "-o", "json", check=0).json()["outputs"]["folder"])


def test_outputs_stay_on_this_machine_and_the_status_shows_their_folder(embedded, name, experiment):
    told = embedded.mlk("submit", "--wait", experiment(text(name, "mkdir out/sub; echo a > out/a; echo b > out/sub/b; exit 3")), check=5)
    assert "what the program writes into out stays, in claim mlk-outputs" in told.stderr
    run = told.stdout.strip()
    folder = folder_of(embedded, run)
    assert (folder / "0/out/a").read_text() == "a\n"
    assert (folder / "0/out/sub/b").read_text() == "b\n"
    assert re.search(rf"outputs +in {re.escape(str(folder))}", embedded.mlk("status", run, check=0).stdout)
    told = embedded.mlk("delete", run, check=0).stderr
    assert f"its outputs stay in {folder}" in told
    assert (folder / "0/out/a").read_text() == "a\n"


def test_submit_says_what_becomes_of_files_before_the_program_starts(embedded, name, experiment):
    told = embedded.mlk("submit", "--dry-run", experiment(text(name, "true", "")), check=0).stderr
    assert "what the program writes into its folder ends with its pod; this keeps it: outputs: out" in told


def test_a_killed_program_loses_no_output_and_the_next_try_finds_it(embedded, name, experiment):
    program = "if [ -e out/step ]; then cat out/step; exit 0; fi; echo 41 > out/step; kill -9 $$"
    file = text(name, program).replace("retries: 0", "retries: 1")
    run = embedded.mlk("submit", "--wait", experiment(file), check=0, timeout=120).stdout.strip()
    assert "41" in embedded.mlk("logs", run, check=0).stdout
    assert (folder_of(embedded, run) / "0/out/step").read_text() == "41\n"


def test_each_worker_and_each_trial_has_a_folder_of_its_own(embedded, name, experiment):
    file = text(name, "echo $MLK_RANK > out/rank").replace("mode: single", "mode: allreduce").replace("workers: {", "workers: {count: 2, ")
    run = embedded.mlk("submit", "--wait", experiment(file), check=0).stdout.strip()
    folder = folder_of(embedded, run)
    assert [(folder / rank / "out/rank").read_text() for rank in ("0", "1")] == ["0\n", "1\n"]
    swept = text(name + "s", "echo ${sweep.x} > out/x; echo mlk step=1 loss=${sweep.x}") + "sweep: {parameters: {x: [0.5, 0.4]}, objective: {minimize: loss}}\n"
    sweep = embedded.mlk("sweep", "--wait", experiment(swept, "s.yaml"), check=0, timeout=120).stdout.strip()
    owner = embedded.kubectl("get", "configmap", sweep, "-o", "json", check=0).json()
    place = folder.parents[1] / f"{sweep}-{owner['metadata']['uid'][:8]}" / "outputs"
    assert [(place / trial / "out/x").read_text() for trial in ("0", "1")] == ["0.5\n", "0.4\n"]


def test_outputs_lie_beside_the_checkpoints_if_both_have_one_claim(embedded, name, experiment):
    file = text(name, "echo a > out/a; echo b > $MLK_CHECKPOINTS/b; echo c > $MLK_OUTPUTS/c") + f"checkpoint: {{volume: {{pvc: {name}}}}}\n"
    run = embedded.mlk("submit", "--wait", experiment(file), check=0).stdout.strip()
    folder = folder_of(embedded, run)
    assert (folder / "0/out/a").read_text() == "a\n"
    assert (folder / "0/c").read_text() == "c\n"
    assert (folder.parent / "b").read_text() == "b\n"


def test_a_working_folder_of_the_user_is_left_as_it_is(embedded, name, experiment, tmp_path):
    (tmp_path / "mine/out").mkdir(parents=True)
    file = text(name, "echo a > out/a") + f"workdir: {tmp_path}/mine\n"
    embedded.mlk("submit", "--wait", experiment(file), check=0)
    assert (tmp_path / "mine/out").is_dir() and not (tmp_path / "mine/out").is_symlink()
    assert (tmp_path / "mine/out/a").read_text() == "a\n"


def test_a_program_with_code_keeps_its_outputs_in_the_claim_of_the_environment(cluster, name, experiment, tmp_path):
    """The code has a folder `out` of its own, and the program starts in a folder within the code."""
    (tmp_path / "src/out").mkdir(parents=True)
    (tmp_path / "src/out/readme").write_text("of the code\n")
    (tmp_path / "src/train.sh").write_text("cat out/readme\necho trained > out/model\nkill -9 $$\n")
    file = text(name, ["sh", "train.sh"]).replace("mode: single", "mode: single\ncode: .\nworkdir: src")
    done = cluster.mlk("submit", "--wait", experiment(file), check=5, timeout=180, env={"MLK_OUTPUTS_CLAIM": "checkpoints"})
    assert "what the program writes into out stays, in claim checkpoints" in done.stderr
    run = done.stdout.strip()
    assert "of the code" in cluster.mlk("logs", run, check=0).stdout
    told = cluster.mlk("status", run, "-o", "json", check=0).json()
    assert told["first_failure"]["exit_code"] == 137
    assert told["outputs"]["volume"] == {"pvc": "checkpoints"}
    volume = folder_of(cluster, run).parents[1] if cluster.kind == "embedded" else pathlib.Path(cluster.env["MLK_CLUSTER_DIR"]) / "volumes/checkpoints"
    place = next(volume.glob(f"{run}-*/outputs/0/out"))
    assert (place / "model").read_text() == "trained\n"
    assert (place / "readme").read_text() == "of the code\n"
