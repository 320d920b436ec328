"""Runs what the README and the pages of docs/ promise, exactly as they show it."""

import re
import subprocess
import sys
import xml.etree.ElementTree

import mlk
import pytest
import wheels


PAGES = [*mlk.ROOT.glob("*.md"), *(mlk.ROOT / "docs").glob("*.md"), *(mlk.ROOT / "runtime").glob("*.md"), mlk.ROOT / "kernels/cuda/README.md",
         mlk.ROOT / "cli/local/README.md"]


def snippets(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", (mlk.ROOT / page).read_text(encoding="utf-8"), re.M | re.S)


def test_the_readme_has_at_most_1500_words():
    assert len((mlk.ROOT / "README.md").read_text(encoding="utf-8").split()) <= 1500, "move what is explained there to a page of docs/"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(mlk.ROOT)))
def test_the_links_of_a_page_lead_to_files_and_headings_that_exist(page):
    def anchors(path):  # as GitHub makes anchors from headings
        headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
        return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
    for target in re.findall(r"\]\((?!https?://)([^)]+)\)", page.read_text(encoding="utf-8")):
        file, _, anchor = target.partition("#")
        found = page.parent / file if file else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


def test_the_first_experiment_of_the_readme_is_the_example_digits_ps_and_has_twelve_lines():
    def lines(text):
        bare = [line.split("#")[0].rstrip() for line in text.splitlines()]
        return [line for line in bare if line]
    [shown] = snippets("README.md", "yaml")
    assert lines(shown) == lines((mlk.EXAMPLES / "digits-ps.yaml").read_text(encoding="utf-8"))
    assert len(shown.splitlines()) == 12


@pytest.mark.parametrize("example", ["digits-single", "digits-ps"])
def test_the_snippet_for_trained_weights_computes_the_accuracy_that_mlk_reports(embedded, name, tmp_path, example):
    try:
        packages = [wheels.unpack("safetensors-0.8.0", [wheels.SAFETENSORS], "safetensors for tests"),
                    wheels.unpack(f"numpy-2.2.6-{sys.version_info[0]}.{sys.version_info[1]}", [wheels.NUMPY], "numpy for a test (16 MB)")]
    except (subprocess.SubprocessError, RuntimeError) as error:
        pytest.skip(f"the packages cannot be fetched: {error}")
    [snippet] = snippets("docs/weights.md", "python")
    (tmp_path / "examples").symlink_to(mlk.EXAMPLES)
    (tmp_path / "weights").mkdir()
    volume = f"weights-{name}"
    run = embedded.mlk("submit", "--wait", "--volume", f"{volume}={tmp_path}/weights", "--set", f"name={name}",
                        "--set", f"checkpoint.volume.pvc={volume}", mlk.EXAMPLES / f"{example}.yaml", check=0, timeout=300).stdout.strip()
    accuracy = embedded.mlk("status", run, "-o", "json", check=0).json()["result"]["metrics"]["accuracy"]
    read = mlk.run(sys.executable, "-c", snippet, check=0, cwd=tmp_path, env={"PYTHONPATH": ":".join(map(str, packages))})
    assert read.stdout == f"accuracy {accuracy:.4g}\n"
    assert accuracy > 0.9


def test_the_recording_of_the_readme_shows_what_its_commands_print_today(tmp_path):
    picture = tmp_path / "tour.svg"
    mlk.run(mlk.ROOT / "docs/record", picture, check=0, timeout=120, env={"MLK_BUILD_DIR": str(mlk.BUILD)})
    rows = {row.get("y"): "".join(row.itertext()) for row in xml.etree.ElementTree.parse(picture).getroot()
            if row.tag.endswith("text") and row.get("visibility") != "hidden"}
    last_screen = "\n".join(rows[y] for y in sorted(rows, key=int))
    assert re.match(r"\$ mlk submit examples/digits-ps.yaml --local --wait\n", last_screen)
    assert re.search(r"^digits-ps-\w+  Succeeded  ps ", last_screen, re.M), last_screen
    assert re.search(r"\$ mlk ls --local\nRUN .*\ndigits-ps-\w+ +Succeeded +ps +3000/3000 ", last_screen), last_screen


def test_cmake_installs_all_targets_that_were_built_even_if_other_targets_were_not_built(tmp_path):
    # The plugin for GPUs is a separate target, which exists only if CUDA is found. mlk-runtime looks for the plugin in its own folder.
    plugin = (mlk.BUILD / "libmlk-cuda.so").exists()
    mlk.run("cmake", "--install", mlk.BUILD, "--prefix", tmp_path, check=0, timeout=60)
    assert mlk.run(tmp_path / "bin/mlk", "version", check=0).stdout.startswith("mlk ")
    for file in ("bin/mlk-runtime", "share/man/man1/mlk-submit.1", "share/man/man5/mlk-experiment.5"):
        assert (tmp_path / file).exists(), file
    assert not plugin or (tmp_path / "bin/libmlk-cuda.so").exists()


@pytest.fixture
def demo(tmp_path):
    # The demo keeps its state in its checkout. Here the checkout is a folder that looks like one.
    for name in ("examples", "tests"):
        (tmp_path / name).symlink_to(mlk.ROOT / name)
    (tmp_path / "build").mkdir()
    for program in (mlk.MLK, mlk.RUNTIME):
        (tmp_path / "build" / program.name).symlink_to(program)
    env = {"HOME": str(tmp_path), "PWD": str(tmp_path)}
    yield lambda behind="": mlk.run("bash", "-c", f"cd -L {tmp_path} && tests/support/demo.sh {behind}", check=0, timeout=120, env=env)
    mlk.run(mlk.MLK, "local", "down", env={**env, "XDG_STATE_HOME": str(tmp_path / "build/demo")})


def test_the_demo_ends_without_a_message_if_the_reader_of_its_output_goes_away(demo):
    # The reader goes away before the training begins. Another program prints the lines of the training.
    assert demo("| head -n 3").stderr == ""


def test_the_demo_shows_nine_or_ten_lines_of_progress_and_then_a_table_and_what_to_try_next(demo):
    said = demo().stdout
    assert max(len(line) for line in said.splitlines() if not line.startswith("  ")) <= 60, said
    lines = len(re.findall(r"^ +\d+ +[\d.e-]+ +0\.\d+ +\d+$", said, re.M))
    assert lines in (9, 10), said  # 9 lines if the first report was due before the reporting rank had joined
    assert re.search(r"^digits-ps-\w+  Succeeded  ps ", said, re.M), said
    assert "What to try next:" in said
