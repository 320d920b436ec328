"""What the README promises, run as it stands there."""

import re
import subprocess
import sys

import mlk
import pytest
import wheels


def snippets(language):
    readme = (mlk.ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", readme, re.M | re.S)


@pytest.mark.parametrize("example", ["digits-single", "digits-ps"])
def test_the_snippet_of_the_readme_computes_the_accuracy_that_mlk_reports(embedded, name, tmp_path, example):
    try:
        packages = [wheels.unpack("safetensors-0.8.0", [wheels.SAFETENSORS], "safetensors for tests"),
                    wheels.unpack(f"numpy-2.2.6-{sys.version_info[0]}.{sys.version_info[1]}", [wheels.NUMPY], "numpy for a test (16 MB)")]
    except (subprocess.SubprocessError, RuntimeError) as error:
        pytest.skip(f"the packages cannot be fetched: {error}")
    [snippet] = snippets("python")
    (tmp_path / "examples").symlink_to(mlk.EXAMPLES)
    (tmp_path / "weights").mkdir()
    volume = f"weights-{name}"
    run = embedded.mlk("submit", "--wait", "--volume", f"{volume}={tmp_path}/weights", "--set", f"name={name}",
                        "--set", f"checkpoint.volume.pvc={volume}", mlk.EXAMPLES / f"{example}.yaml", check=0, timeout=300).stdout.strip()
    accuracy = embedded.mlk("status", run, "-o", "json", check=0).json()["result"]["metrics"]["accuracy"]
    read = mlk.run(sys.executable, "-c", snippet, check=0, cwd=tmp_path, env={"PYTHONPATH": ":".join(map(str, packages))})
    assert read.stdout == f"accuracy {accuracy:.4g}\n"
    assert accuracy > 0.9
