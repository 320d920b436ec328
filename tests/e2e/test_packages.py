"""Python packages that an experiment names. The pip of this machine installs them into a layer for the cluster, or into a folder for this machine."""

import json
import os
import pathlib

import pytest
from image_builds import Builder
from test_real_frameworks import JAX

REQUIREMENTS = "jax==0.10.2\n"

# The name of a pod does not resolve after the pod has ended, so each pod waits for the others.
LOOKS_UP = '''
import json, os, socket, time
found = json.loads(os.environ["TF_CONFIG"])
for address in sum(found["cluster"].values(), []):
    for attempt in range(300):
        try:
            socket.gethostbyname(address.rsplit(":", 1)[0])
            break
        except OSError:
            time.sleep(0.2)
    else:
        raise SystemExit(f"{address} has no name")
print(json.dumps(found), flush=True)
time.sleep(10)
'''


def write(builder, program, requirements=None):
    (builder.code / "main.py").write_text(program)
    if requirements is not None:
        (builder.code / "requirements.txt").write_text(requirements)


def experiment(builder, name, more, run="[python3, main.py]"):
    file = builder.experiment(more, name=name)
    file.write_text(file.read_text().replace("run: sh main.sh", f"run: {run}").replace("mode: single", "mode: allreduce"))
    return file


@pytest.fixture
def images(python_images):
    return python_images


@pytest.fixture
def builder(images, tmp_path):
    return Builder(tmp_path, f"{images.name}/base/python:test", images.login())


@pytest.mark.nodes
def test_jax_runs_on_the_cluster_if_it_is_in_a_requirements_file(real, images, builder, name):
    """The layer with JAX, 140 MB, stays in the cache of the tests."""
    write(builder, JAX, REQUIREMENTS)
    file = experiment(builder, name, f"registry: {images.name}/team\nframework: jax\ncode: {{path: code, python: requirements.txt}}\nenv: {{JAX_PLATFORMS: cpu}}\n")
    file.write_text(file.read_text().replace("workers: {cpu: 100m, memory: 64Mi}", "workers: {count: 2, cpu: 100m, memory: 512Mi}"))
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "mlk" / "test-layers"
    env = {**builder.env, "KUBECONFIG": real.kubeconfig, "XDG_CACHE_HOME": str(cache)}
    run = real.mlk("submit", "--wait", file, env=env, check=0, timeout=400).stdout.strip()
    for rank in (0, 1):
        assert "2 processes, 2 devices, sum 3.0" in real.mlk("logs", run, "--rank", str(rank), check=0).stdout
    [image] = {pod["spec"]["containers"][0]["image"] for pod in real.objects("pods", f"mlk.dev/run={run}")}
    assert image.startswith(f"{images.name}/team/{name}@sha256:")


@pytest.mark.nodes
def test_the_names_in_tf_config_resolve_to_pods_of_the_run(real, builder, name):
    """Each name in TF_CONFIG resolves to a pod."""
    write(builder, LOOKS_UP)
    file = experiment(builder, name, "framework: tensorflow\nservers: {count: 1, cpu: 100m, memory: 64Mi}\n")
    file.write_text(file.read_text().replace("mode: allreduce", "mode: ps").replace("workers: {", "workers: {count: 2, "))
    run = real.mlk("submit", "--wait", file, env={**builder.env, "KUBECONFIG": real.kubeconfig}, check=0, timeout=180).stdout.strip()
    log = real.mlk("logs", run, "--role", "worker", "--rank", "1", check=0).stdout
    found = json.loads(log[log.index("{"):])
    assert found["task"] == {"type": "worker", "index": 1}
    assert [len(found["cluster"][role]) for role in ("worker", "ps")] == [2, 1]


def test_a_local_run_imports_its_packages_from_a_folder_of_this_machine(embedded, name, tmp_path):
    builder = Builder(tmp_path, "python:3")
    write(builder, "import six\nprint('six', six.__version__, six.__file__)\n", "six==1.17.0\n")
    file = experiment(builder, name, "code: {path: code, python: requirements.txt}\n")
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    run = embedded.mlk("submit", "--wait", file, env=env, check=0, timeout=120).stdout.strip()
    assert f"six 1.17.0 {tmp_path / 'cache'}/mlk/layers/python-" in embedded.mlk("logs", run, check=0).stdout
    assert embedded.mlk("submit", file, env=env, check=0).stdout.strip() == run


def test_mlk_submit_refuses_requirements_without_wheels_and_a_requirements_file_that_does_not_exist(embedded, name, tmp_path):
    builder = Builder(tmp_path, "python:3")
    write(builder, "import x\n", "this-package-does-not-exist-anywhere==1\n")
    file = experiment(builder, name, "code: {path: code, python: requirements.txt}\n")
    refused = embedded.mlk("submit", file, env={"XDG_CACHE_HOME": str(tmp_path / "cache")}, check=2, timeout=120)
    assert "pip finds no wheels for Python" in refused.stderr
    assert "this-package-does-not-exist-anywhere" in refused.stderr
    file = experiment(builder, name, "code: {path: code, python: gone.txt}\n")
    assert "code.python: gone.txt is no file of the code that travels" in embedded.mlk("submit", file, check=3).stderr
    assert embedded.mlk("ls", name, "-o", "name", check=0).stdout == ""
