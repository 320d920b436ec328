"""Group code of make bench: the digest of a folder of ten thousand files, beside `git status` of the same."""

import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import time

import mlk

FILES, FOLDERS = 10_000, 400
TURNS = 15
IGNORED = "*.pyc\n__pycache__/\n/build/\n*.log\n.venv/\n# notes\n*.tmp\n/dist\n*.egg-info/\ndata/*.bin\n"
WORDS = "self return import for in range model loss step batch = ( ) [ ] : def class if else None True lr data weights rank".split()


def code(report):
    subprocess.run(["cmake", "--build", "--preset", "release", "--target", "bench_code"], cwd=mlk.ROOT, check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(dir=mlk.BUILD) as scratch:
        tree, cache = pathlib.Path(scratch, "tree"), pathlib.Path(scratch, "cache")
        make_tree(tree)
        git = lambda *arguments: ["git", "-C", tree, "-c", "user.name=bench", "-c", "user.email=bench@example.com", "-c", "gc.auto=0", *arguments]  # noqa: E731
        for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
            subprocess.run(git(*arguments), check=True)
        time.sleep(3)  # younger times of files prove nothing, for either side
        subprocess.run(git("update-index", "-q", "--refresh"), check=True)
        ours = lambda: float(mlk.run(mlk.BUILD / "bench_code", tree, cache, check=0).stdout)  # noqa: E731

        def cold():
            shutil.rmtree(cache, ignore_errors=True)
            return ours()

        def status():
            """Without what it takes to start git, as the start of mlk is not counted either."""
            return milliseconds(git("status", "--porcelain")) - milliseconds(["git", "version"])

        first, again, theirs = [], [], []
        for _ in range(TURNS):
            first.append(cold())
            again.append(ours())
            theirs.append(status())
        report.add(f"digest of {FILES} files, none kept", "ms", first, "git status", theirs, 0.25)
        report.add(f"digest of {FILES} files, unchanged", "ms", again, "git status", theirs, 1)


def make_tree(tree):
    """Sizes as those of programs: most have some kilobytes, few have a hundred."""
    draw = random.Random(7)
    text = " ".join(draw.choice(WORDS) + ("\n" if draw.random() < 0.1 else "") for _ in range(200_000))
    tree.mkdir()
    tree.joinpath(".gitignore").write_text(IGNORED, encoding="utf-8")
    for number in range(FOLDERS):
        tree.joinpath(f"package{number % 20}", f"part{number}").mkdir(parents=True)
    for number in range(FILES - 1):
        folder = number % FOLDERS
        size = min(int(draw.lognormvariate(7.6, 1.1)), 200_000)
        start = draw.randrange(len(text) - 200_000)
        tree.joinpath(f"package{folder % 20}", f"part{folder}", f"module_{number}.py").write_text(f"# {number}\n{text[start:start + size]}", encoding="utf-8")


def milliseconds(command):
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"})
    return 1000 * (time.perf_counter() - start)
