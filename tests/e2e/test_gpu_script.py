"""tests/gpu/run on the emulator and in tiny sizes. A GPU is rarely available, so mistakes in the script must be found without one."""

import json
import os
import stat

import mlk
import pytest
from test_runtime_gpu import HEAVY, PLUGIN

pytestmark = [pytest.mark.runtime, HEAVY, pytest.mark.skipif(not PLUGIN.exists(), reason="the plugin on the emulator is only built on x86-64")]


def script(out, *names, check=0, **env):
    """The output of the script, and the results that it writes."""
    given = {"OUT": str(out), "MLK_BUILD_DIR": str(mlk.BUILD), **env}
    said = mlk.run(mlk.ROOT / "tests/gpu/run", "--tiny", *names, check=check, timeout=300, env=given).stdout
    return said, json.loads((out / "gpu.json").read_text())


def program(path, text):
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_gpu_script_measures_mlk_and_says_in_one_line_that_pytorch_is_missing(tmp_path):
    python = program(tmp_path / "python", "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n")
    said, results = script(tmp_path, "gpt2", "mlp", "attention", "memory", MLK_TORCH_PYTHON=str(python))
    for name in ("gpt2", "mlp", "attention"):
        assert results[name]["peer not measured"].startswith("ModuleNotFoundError: No module named 'torch'")
        assert "emulated device" in results[name]["device"]
        assert all(made["mlk"]["min"] > 0 and "ratio" not in made for made in results[name]["figures"])
    kernels = {made["name"]: made for made in results["memory"]["figures"]}
    assert {"adamw", "layer norm", "layer norm backward", "classifier", "embedding backward"} == set(kernels)
    assert all(made["peer"].startswith("copy by ") and made["goal"] == 0.85 for made in kernels.values())
    assert "GPT-2 124M, bfloat16" in said


PEER = """#!/usr/bin/env python3
import sys
print("PyTorch 0.0 on nothing", flush=True)
for _ in sys.stdin:
    print('{"tokens a second": 4, "steps a second": 8, "forward ms, cudnn": 2, "backward ms, cudnn": 4}', flush=True)
"""


def test_a_ratio_of_the_gpu_script_is_above_one_if_mlk_is_better_than_the_peer(tmp_path):
    python = program(tmp_path / "python", PEER)
    _, results = script(tmp_path, "gpt2", "attention", MLK_TORCH_PYTHON=str(python))
    (gpt2,) = results["gpt2"]["figures"]
    assert gpt2["peer"] == "PyTorch 0.0 on nothing"
    assert gpt2["ratio"] == pytest.approx(gpt2["mlk"]["median"] / 4, abs=0.001)
    forward, backward = results["attention"]["figures"]
    assert forward["peer"] == "PyTorch 0.0 on nothing, cudnn"
    assert backward["ratio"] == pytest.approx(4 / backward["mlk"]["median"], abs=0.001)


def test_the_gpu_script_reports_the_largest_difference_from_the_losses_on_processors_for_every_mode_and_for_nccl(tmp_path):
    _, results = script(tmp_path, "operations", "training", "gpus")
    assert results["operations"]["passed"] > 0
    assert results["operations"]["failed"] == 0
    differences = results["training"]["largest difference of a loss"]
    assert {name.partition(" ")[0] for name in differences} == {"single", "ps", "allreduce"}
    assert max(*differences.values(), results["gpus"]["largest difference of a loss"]) < 1e-3
    assert set(results["gpus"]["tokens a second"]) == {"processors", "by NCCL", "through the hosts"}


SANITIZER = """#!/bin/sh
[ "$2" = memcheck ] || { echo "========= a hazard"; exit 99; }
while [ "${1%unit_cuda}" = "$1" ]; do shift; done
"$@" >&2 && echo "========= ERROR SUMMARY: 0 errors"
"""


def test_the_gpu_script_reports_as_failed_only_the_slice_whose_sanitizer_finds_an_error(tmp_path):
    program(tmp_path / "compute-sanitizer", SANITIZER)
    _, results = script(tmp_path, "racecheck", "memcheck", check=1, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert results["memcheck"]["said"] == "ERROR SUMMARY: 0 errors"
    assert "a hazard" in results["racecheck"]["failed"]


def test_the_gpu_script_exits_with_0_and_reports_a_slice_as_not_measured_if_its_tool_is_missing(tmp_path):
    _, results = script(tmp_path, "memcheck", PATH="/usr/bin:/bin")
    assert results["memcheck"]["not measured"].startswith("compute-sanitizer is not here")


def test_the_gpu_script_refuses_an_unknown_slice_and_names_it(tmp_path):
    result = mlk.run(mlk.ROOT / "tests/gpu/run", "--tiny", "gpt3", check=1, env={"OUT": str(tmp_path)})
    assert result.stderr == "tests/gpu/run: there is no slice called gpt3; tests/gpu/run --help names them\n"
