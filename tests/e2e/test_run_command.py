"""`mlk run`, and arguments of programs, on the embedded cluster and on a real one."""

import json
import os

import mlk

# A program that prints exactly its arguments.
SHOW = "import json, sys\nprint('argv', json.dumps(sys.argv[1:]))\nprint(f'mlk step=1 loss={float(dict(zip(sys.argv[1::2], sys.argv[2::2])).get(\"--lr\", 1))}')\n"

ODD = ["--lr", "0.5", "a 'b' \"c\"", "$HOME", "$(MLK_RANK)", "$$", "", "*", "new\nline", "\\n", "--name", "${HOME}", "-x", "--", "tab\t;|&<>", "é"]


def shown(cluster, run):
    said = cluster.mlk("logs", run, check=0).stdout
    return json.loads(said.split("argv ", 1)[1].splitlines()[0])


def test_mlk_run_gives_a_program_exactly_the_words_of_the_command_line(cluster, name, tmp_path):
    (tmp_path / "show.sh").write_text('for word; do printf "word:%s:\\n" "$word"; done\n')  # any image has sh, but not all have Python
    shown = "".join(f"word:{word}:\n" for word in ODD)
    submit = ["run", "--name", name, "--cpu", "100m", "--memory", "32Mi"]
    run = cluster.mlk(*submit, "--", "sh", "./show.sh", *ODD, cwd=tmp_path, check=0).stdout.strip()
    cluster.mlk("wait", run, check=0)
    assert cluster.mlk("logs", run, check=0).stdout.replace("worker/0 ", "") == shown
    again = cluster.mlk(*submit, "--", "sh", "./show.sh", *ODD, cwd=tmp_path, check=0)
    assert again.stdout.strip() == run, "the same command on the same files is the same run"
    # The experiment file that does the same is the same run, although it lies in the folder of the code.
    text = cluster.mlk(*submit, "--dry-run", "-o", "experiment", "--", "sh", "./show.sh", *ODD, cwd=tmp_path, check=0).stdout
    (tmp_path / "same.yaml").write_text(text)
    assert cluster.mlk("submit", "same.yaml", cwd=tmp_path, check=0).stdout.strip() == run
    cluster.mlk("get", run, "--to", tmp_path / "back", check=0)
    assert (tmp_path / "back" / "show.sh").exists()


def test_words_after_the_dashes_reach_scripts_and_lists(embedded, name, tmp_path):
    (tmp_path / "show.py").write_text(SHOW)
    for number, program in enumerate(("[python3, show.py]", "python3 show.py", '\'set -e; python3 show.py "$@" | cat\'')):
        (tmp_path / "e.yaml").write_text(f"name: {name}\nmode: single\ncode: .\nrun: {program}\nargs: {{seed: {number}}}\n")
        run = embedded.mlk("submit", "--wait", "e.yaml", "--", *ODD, cwd=tmp_path, check=0).stdout.strip()
        got = shown(embedded, run)
        assert got in (ODD + ["--seed", str(number)], ["--seed", str(number)] + ODD), program


def test_arguments_are_parameters(embedded, name, tmp_path):
    (tmp_path / "show.py").write_text(SHOW)
    file = tmp_path / "e.yaml"
    file.write_text(f"name: {name}\nmode: single\ncode: .\nrun: [python3, show.py]\nargs: {{lr: 0.1, n: 3}}\n")
    first = embedded.mlk("submit", "--wait", file, check=0).stdout.strip()
    second = embedded.mlk("submit", "--wait", file, "--", "--lr", "0.5", check=0).stdout.strip()
    assert first != second
    assert shown(embedded, second) == ["--lr", "0.5", "--n", "3"]
    assert embedded.mlk("submit", "--set", "args.lr=0.5", file, check=0).stdout.strip() == second
    assert "args.lr" in embedded.mlk("diff", first, second).stdout
    assert "LR" in embedded.mlk("results", name, check=0).stdout.splitlines()[0].split()
    assert embedded.mlk("ls", name, "--columns", "args.lr,n", check=0).stdout.splitlines()[1].split()[4:6] == ["0.5", "3"]
    found = embedded.mlk("results", name, "--where", "args.lr > 0.2", "-o", "json", check=0).stdout
    assert second in found and first not in found
    swept = embedded.mlk("sweep", "--wait", "--objective", "minimize loss", "--set", f"name={name}-s", file, "lr=0.3,2e-1,0.4", check=0)
    best = embedded.mlk("best", swept.stdout.strip(), check=0).stdout
    assert "args.lr=0.2\n" in best, best
    told = mlk.Result(["best"], 0, embedded.mlk("best", swept.stdout.strip(), "-o", "experiment", check=0).stdout, "")
    assert "lr: 2e-1" in told.stdout or 'lr: "2e-1"' in told.stdout, told


def test_a_program_finds_the_environment_of_the_shell_that_submits_it(embedded, name, tmp_path):
    """The cluster on this machine was started in another shell."""
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    program = venv / "bin" / "show-it"
    program.write_text('#!/bin/sh\necho "from $VIRTUAL_ENV"\n')
    program.chmod(0o755)
    active = {"PATH": f"{venv / 'bin'}:{os.environ['PATH']}", "VIRTUAL_ENV": str(venv)}
    run = embedded.mlk("run", "--name", name, "--", "show-it", env=active, cwd=tmp_path, check=0).stdout.strip()
    embedded.mlk("wait", run, check=0)
    assert f"from {venv}" in embedded.mlk("logs", run, check=0).stdout
    swept = embedded.mlk("sweep", "--wait", "--objective", "minimize x", "--set", f"name={name}-s", "-", "n=1,2", env=active, cwd=tmp_path,
                         input="name: x\nmode: single\nrun: show-it && echo x=${sweep.n}\n", check=0).stdout.strip()
    assert swept.startswith(f"{name}-s-")
    assert "2/2" in embedded.mlk("ls", f"{name}-s", check=0).stdout
