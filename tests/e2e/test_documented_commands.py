"""Runs every command of README, docs/, the manual pages and runtime/README.md exactly as the page shows it, or NOT_RUN says why not."""

import json
import re
import shlex
import shutil

import mlk
import pytest

# Commands that this test does not run, with the reason and, if there is one, the test that runs them instead.
NOT_RUN = {
    "make demo": "builds; tests/e2e/test_readme.py runs the demo",
    "make test": "runs this test",
    "make help": "make: prints a fixed text",
    "cmake --install build --prefix ~/.local": "tests/e2e/test_readme.py installs into a folder of its own",
    "cmake --build --preset release --target mlk-cuda": "compiles for GPUs: the step `cuda` does",
    'eval "$(tests/cluster/up)"': "cluster: tests/run starts it for the step `cluster`",
    "tests/cluster/down": "cluster: tests/run stops it after the step `cluster`",
    "mlk build --runtime": "registry: tests/e2e/test_images.py sends it to one",
    "mlk build --runtime -t registry.example/team/mlk-runtime:0.1.0": "registry: tests/e2e/test_images.py sends it to one",
    "mlk run -- python train.py --lr 0.1": "needs a folder with a program: docs/own-program.md has one",
    "source <(mlk completion zsh)": "terminal: for zsh; tests/e2e/test_process.py looks at the script",
}

# Commands that must fail, and their exit codes.
EXITS = {"mlk submit --local --set train.optimizer.momentun=0.9 examples/digits-ps.yaml": 2}

# Commands that run before a page or before one of its commands. They make the runs and sweeps that the examples name.
RUN = "mlk submit --wait digits-ps.yaml"
SLOW_RUN = "mlk submit --set train.steps=1000000 digits-ps.yaml"
SWEEP = "mlk sweep --wait --objective 'maximize accuracy' digits.yaml lr=0.1,0.05; mlk wait digits"
# A script that knows nothing of mlk. The loss is least at lr 0.1.
SCRIPT = ("import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float)\np.add_argument('--epochs', type=int, default=3)\n"
          "a = p.parse_args()\nimport os\nos.makedirs('out', exist_ok=True)\nopen('out/model', 'w').write(str(a.lr))\nfor e in range(1, a.epochs + 1): print(f'epoch {e}: loss {abs(a.lr - 0.1) + 1 / e:.4f}')\n")
BEFORE = {
    "docs/own-program.md": f"mkdir trainer; cd trainer; printf %s {shlex.quote(SCRIPT)} > train.py",
    "mlk-best.1": SWEEP,
    "mlk-completion.1": "mkdir -p ~/.config/fish/completions",
    "mlk delete digits-ps": RUN,
    "mlk ls digits-ps -o name | xargs mlk delete --no-wait": RUN,
    "mlk-diff.1": "mlk submit --wait digits-ps.yaml; mlk submit --wait digits-single.yaml",
    "mlk-get.1": "mlk submit --wait digits.yaml",
    "mlk-local.1": "mkdir data",
    "mlk-logs.1": RUN,
    "mlk-ls.1": RUN,
    "mlk-new.1": "mkdir trainer; echo 'print(1)' > trainer/train.py",
    "mlk-results.1": SWEEP,
    "mlk-pull.1": "mlk submit --wait --set 'checkpoint.volume={pvc: checkpoints}' digits.yaml",
    "mlk-resume.1": "mlk submit --set train.steps=3000 digits-ps.yaml; mlk stop digits-ps",
    "mlk-run.1": "mkdir trainer; cd trainer; echo 'print(1)' > train.py",
    "mlk-note.1": "mlk submit --wait digits.yaml",
    "mlk-retry.1": "printf 'name: digits\\nmode: single\\nrun: exit 3\\nrestart: {retries: 0}\\n' > fails.yaml; mlk submit --wait fails.yaml || true",
    "mlk-rollback.1": "mlk submit --wait digits.yaml; sleep 1; mlk submit --wait --set train.steps=50 digits.yaml",
    "mlk-status.1": RUN,
    "mlk-stop.1": SLOW_RUN,
    "mlk-tag.1": "mlk submit --wait digits.yaml",
    "mlk-wait.1": f"{RUN}; mlk submit --wait examples/digits-single.yaml",
}

MANUALS = sorted(path.name for path in (mlk.ROOT / "man").iterdir())
DOCS = sorted(f"docs/{path.name}" for path in (mlk.ROOT / "docs").glob("*.md"))
PAGES = ["README.md", *DOCS, "runtime/README.md", *MANUALS]


def in_manual(text):
    """The lines of the examples: each block between .nf and .fi in which a line calls mlk."""
    plain = text.replace("\\e\n", "\\\n").replace("\\-", "-").replace("\\(ti", "~").replace("\\(aq", "'").replace("\\e", "\\")
    blocks = [block for block in re.findall(r"^\.nf\n(.*?)^\.fi$", plain, re.M | re.S) if re.search(r"\bmlk (?!step=)[a-z]", block)]
    return [line for block in blocks for line in block.replace("\\\n", "").splitlines()]


def in_markdown(text):
    """Lines after a prompt, blocks and indented lines that begin with the name of a program, and calls of mlk within a sentence."""
    fenced = re.findall(r"^```\w*\n(.*?)^```$", text, re.M | re.S)
    lines = [line for block in fenced for line in block.splitlines()]
    lines += re.findall(r"^    (\S.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    shown = []
    for line in lines:
        if line.startswith("$ "):
            shown.append(line[2:])
        elif re.match(r"(mlk|make|cmake|MLK_RUN=\S+) (?!step=)(?!:)", line) and not line.startswith(("mlk: ", "make  ")):
            shown.append(re.split(r"  +", line)[0])  # a description follows after blanks
    return shown + re.findall(r"`(mlk [a-z]+ [^`]+|source [^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))


def errors_shown_by(page):
    """The errors that a Markdown page shows. Each ends before its hint, since the hint depends on the place of the manual."""
    if page in MANUALS:
        return []
    return re.findall(r"^mlk: error: .*?(?=^hint: |^```$)", (mlk.ROOT / page).read_text(encoding="utf-8"), re.M | re.S)


def commands_of(page):
    if page in MANUALS:
        return in_manual((mlk.ROOT / "man" / page).read_text(encoding="utf-8"))
    return in_markdown((mlk.ROOT / page).read_text(encoding="utf-8"))


def make_checkout(folder):
    """A folder as the pages expect it, with short versions of the examples and the files that the pages name."""
    shutil.copytree(mlk.EXAMPLES, folder / "examples")
    (folder / "build").symlink_to(mlk.BUILD)
    for path in (folder / "examples").glob("*.yaml"):
        path.write_text(re.sub(r"^(  steps: )\d+", r"\g<1>100", path.read_text(encoding="utf-8"), flags=re.M), encoding="utf-8")
        (folder / path.name).write_text(path.read_text(encoding="utf-8").replace("files: data/", "files: examples/data/"), encoding="utf-8")
    single = (folder / "digits-single.yaml").read_text(encoding="utf-8")
    for name in ("digits", "experiment"):
        (folder / f"{name}.yaml").write_text(single.replace("name: digits-single", f"name: {name}"), encoding="utf-8")
    contract = (mlk.ROOT / "runtime/CONTRACT.md").read_text(encoding="utf-8")
    config = json.loads(re.search(r"^```json\n(.*?)^```$", contract, re.M | re.S)[1])
    config |= {"mode": "single", "consistency": "sync", "steps": 20, "workers": {"count": 1, "min": 1}, "servers": {"count": 0}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)])
def test_the_commands_of_a_page_run_exactly_as_the_page_shows_them(fresh_embedded, tmp_path, page):
    make_checkout(tmp_path)
    env = {**fresh_embedded.env, "HOME": str(tmp_path), "MLK_LOCAL": "1"}
    prepare = "{{ {}; }} || exit 99".format
    script = ["set -o pipefail", prepare(BEFORE.get(page, ":"))]
    for number, command in enumerate(commands_of(page), 1):
        if command in NOT_RUN:
            continue
        failed = f"{{ echo 'command {number} exited with' $code >&2; exit 98; }}"
        script += [prepare(BEFORE.get(command, ":")), f"echo 'command {number}' >&2", command, f"code=$?; [ $code = {EXITS.get(command, 0)} ] || {failed}"]
    said = mlk.run("bash", "-c", "\n".join(script), check=0, timeout=240, env=env, cwd=tmp_path)
    for error in errors_shown_by(page):
        assert error in said.stderr, said


def test_the_tables_in_this_file_contain_only_commands_that_the_pages_show():
    shown = [command for page in PAGES for command in commands_of(page)]
    assert len(shown) > 60
    assert set(NOT_RUN) | set(EXITS) <= set(shown), (set(NOT_RUN) | set(EXITS)) - set(shown)
    assert set(BEFORE) <= set(PAGES) | set(shown)
    assert len(errors_shown_by("README.md")) == len(EXITS)
