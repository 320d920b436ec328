"""`mlk retry`, `mlk tag` and `mlk note`: runs that were submitted before, on the embedded cluster and on a real one."""

import json

# A program that counts its starts in its folder for checkpoints, and fails until it was started often enough.
PROGRAM = "name: {name}\nmode: single\ncode: .\nrun: sh ./count.sh\nrestart: {{retries: 0}}\nworkers: {{cpu: 100m, memory: 32Mi}}\n{more}"
COUNT = 'echo started >> "$MLK_CHECKPOINTS/starts" && wc -l < "$MLK_CHECKPOINTS/starts" && test "$(wc -l < "$MLK_CHECKPOINTS/starts")" -ge 3\n'


def test_a_retry_continues_from_the_checkpoints_with_the_code_of_the_run(embedded, name, tmp_path):
    (tmp_path / "count.sh").write_text(COUNT)
    file = tmp_path / "e.yaml"
    file.write_text(PROGRAM.format(name=name, more=f"checkpoint: {{volume: {{pvc: {name}}}}}\n"))
    first = embedded.mlk("submit", "--wait", file, check=5).stdout.strip()
    (tmp_path / "count.sh").write_text("exit 1\n")  # the code of the run travels, not the folder as it is now
    second = embedded.mlk("retry", name, check=0)
    run = second.stdout.strip()
    assert run == f"{first}-2" and f"it continues the checkpoints of {first}" in second.stderr
    embedded.mlk("wait", run, check=5)
    assert embedded.mlk("logs", run, check=0).stdout.split()[-1] == "2"
    third = embedded.mlk("retry", run, check=0).stdout.strip()
    embedded.mlk("wait", third, check=0)
    assert embedded.mlk("logs", third, check=0).stdout.split()[-1] == "3"
    folders = {json.loads(embedded.mlk("status", each, "-o", "json", check=0).stdout)["checkpoint"]["path"] for each in (first, run, third)}
    assert len(folders) == 1, folders
    done = embedded.mlk("retry", third, check=1)
    assert "has succeeded" in done.stderr


def test_only_a_failed_run_is_retried(cluster, name, tmp_path):
    file = tmp_path / "e.yaml"
    file.write_text(PROGRAM.format(name=name, more="").replace("code: .\n", "").replace("sh ./count.sh", "sleep 600"))
    run = cluster.mlk("submit", file, check=0).stdout.strip()
    assert "has not ended" in cluster.mlk("retry", run, check=1).stderr
    cluster.mlk("stop", run, check=0)
    assert f"mlk resume {run}" in cluster.mlk("retry", run, check=1).stderr.replace(" --local", "")
    cluster.mlk("retry", f"{name}-none", check=3)


def test_tags_and_the_note_change_after_the_submit(cluster, name, tmp_path):
    file = tmp_path / "e.yaml"
    file.write_text(PROGRAM.format(name=name, more="tags: [a, team=vision]\nnote: first\n").replace("code: .\n", "").replace("sh ./count.sh", "'true'"))
    run = cluster.mlk("submit", file, check=0).stdout.strip()
    assert cluster.mlk("tag", name, check=0).stdout.split() == ["a", "team=vision"]
    assert cluster.mlk("tag", name, "+good", "-a", "+team=text", "-nothing", check=0).stdout.split() == ["good", "team=text"]
    assert cluster.mlk("ls", name, "--tag", "team=text", "-o", "name", check=0).stdout.split() == [run]
    assert cluster.mlk("tag", run, "-good", "-team", check=0).stdout == ""
    assert cluster.mlk("tag", run, "+", check=2).stdout == ""
    assert cluster.mlk("note", name, check=0).stdout == "first\n"
    cluster.mlk("note", name, "the second 'é'", check=0)
    assert cluster.mlk("note", run, check=0).stdout == "the second 'é'\n"
    assert json.loads(cluster.mlk("status", run, "-o", "json", check=0).stdout)["note"] == "the second 'é'"
    cluster.mlk("note", name, "", check=0)
    assert cluster.mlk("note", run, check=0).stdout == ""
    assert cluster.mlk("submit", file, check=None).stdout.strip() == run, "tags and notes are no part of the identity"
    cluster.mlk("tag", f"{name}-none", "+x", check=3)
