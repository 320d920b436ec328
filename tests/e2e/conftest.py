"""Fixtures of the end-to-end tests: clusters of both kinds, and names that no other test uses.

Run by tests/run; by hand after `make build`:  pytest tests/e2e -m "not cluster", or, after eval "$(tests/cluster/up)", pytest tests/e2e
"""

import contextlib
import itertools
import os
import pathlib
import secrets
import shutil
import signal
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import base_images  # noqa: E402
import mlk  # noqa: E402
import registry  # noqa: E402
import sample  # noqa: E402


def pytest_configure(config):
    # A shell starts background commands with SIGINT ignored, and mlk would inherit the ignored SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # With less garbage collection and one thread, kubectl takes less than half of the time to start. Registries and skopeo are programs in Go, too.
    os.environ.setdefault("GOGC", "400")
    os.environ.setdefault("GOMAXPROCS", "1")
    config.addinivalue_line("markers", "cluster: needs the real cluster that the environment names (tests/cluster/up)")
    config.addinivalue_line("markers", "nodes: needs pods that really run; not where the real cluster has pretended nodes only")
    config.addinivalue_line("markers", "alone: disturbs every other test of its cluster, or would be disturbed by them: runs by itself on its cluster")
    config.addinivalue_line("markers", "quiet: disturbs no other test, but many others would disturb it: runs beside at most one other test of its cluster")
    config.addinivalue_line("markers", "timed: held to when ranks come back or to what memory they take, or too large: means nothing with a sanitizer")
    config.addinivalue_line("markers", "runtime: starts mlk-runtime and nothing else")
    config.addinivalue_line("markers", "foreign: nearly all that works in it is pip or PyTorch, of which a sanitizer sees nothing")
    config.addinivalue_line("markers", "sample: one of those that run with a sanitizer (mark_sample); no test names it")


def pytest_runtest_setup(item):
    mlk.beside_others = item.get_closest_marker("alone") is None


def mark_sample(items):
    """Marks the end-to-end tests that run with a sanitizer. MLK_SAMPLE is a number that chooses another part of the tests on each day. Timed
    tests are left out, since a sanitizer makes programs many times slower. The step tsan runs the sample of the tests that start mlk-runtime,
    and the step asan runs the sample of all other tests."""
    day = int(os.environ.get("MLK_SAMPLE") or 0)
    functions = {}
    for item in items:
        if not any(item.get_closest_marker(mark) for mark in ("cluster", "timed", "foreign")):
            functions.setdefault(item.path, {}).setdefault(item.originalname, []).append(item)
    for of_file in functions.values():
        watched = [cases for cases in of_file.values() if cases[0].get_closest_marker("runtime")]
        others = [cases for cases in of_file.values() if cases not in watched]
        for item in sample.of_file(watched, others, day):
            item.add_marker(pytest.mark.sample)


def pytest_collection_modifyitems(items):
    pretended = os.environ.get("MLK_CLUSTER_NODES") == "kwok"
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if "real_session" in item.fixturenames or parameters.get("cluster") == "real":
            item.add_marker(pytest.mark.cluster)
            if pretended and item.get_closest_marker("nodes"):
                item.add_marker(pytest.mark.skip(reason="the cluster's nodes are only pretended"))
    mark_sample(items)


@pytest.fixture(scope="session")
def kubectl():
    """A function that returns the path of the kubectl of the real cluster. The first call builds this kubectl, which takes minutes."""
    path = []

    def find():
        if not path:
            folder = mlk.run(mlk.ROOT / "tests/cluster/build", check=0, timeout=1800).stdout.strip()
            path.append(f"{folder}/kubectl")
        return path[0]
    return find


def _local_cluster(kubectl, gpus=0):
    """An embedded cluster of its own. Its state folder has a short path, since paths of sockets have a limit. Its machine has `gpus`
    pretended GPUs. At the place of the real plugin for GPUs, mlk-runtime finds one that runs on the emulator."""
    state = tempfile.mkdtemp(prefix="mlk-e2e-")
    devices = pathlib.Path(state) / "dev"
    env = {"XDG_STATE_HOME": state, "XDG_CONFIG_HOME": state, "PATH": f"{mlk.BUILD}:{os.environ['PATH']}", "MLK_LOCAL_DEVICES": str(devices)}
    try:
        devices.mkdir()
        for gpu in range(gpus):
            (devices / f"nvidia{gpu}").touch()
        program = mlk.MLK
        if gpus:
            program = pathlib.Path(state) / "bin" / "mlk"
            program.parent.mkdir()
            for name, copy in (("mlk", "mlk"), ("mlk-runtime", "mlk-runtime"), ("libmlk-cuda-emulated.so", "libmlk-cuda.so")):
                if (mlk.BUILD / name).exists():
                    shutil.copy(mlk.BUILD / name, program.parent / copy)
        mlk.run(program, "local", "up", check=0, timeout=60, env=env)
        kubeconfig = mlk.run(mlk.MLK, "local", "status", "-o", "json", check=0, env=env).json()["kubeconfig"]
        yield mlk.Cluster("embedded", kubeconfig, kubeconfig, kubectl, env, "default")
    finally:
        try:
            mlk.run(mlk.MLK, "local", "down", timeout=60, env=env)
        finally:
            for pid in mlk.processes_with(XDG_STATE_HOME=state):
                with contextlib.suppress(ProcessLookupError):  # the process was about to end
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(state, ignore_errors=True)


@pytest.fixture(scope="session")
def embedded_session(kubectl):
    yield from _local_cluster(kubectl)


@pytest.fixture
def fresh_embedded(kubectl):
    """An embedded cluster for one test alone, such as a test that kills the server."""
    yield from _local_cluster(kubectl)


@pytest.fixture
def embedded_with_two_gpus(kubectl):
    yield from _local_cluster(kubectl, gpus=2)


@pytest.fixture(scope="session")
def real_session(kubectl):
    names = ("KUBECONFIG", "MLK_ADMIN_KUBECONFIG", "MLK_IMAGE", "MLK_CLUSTER_DIR")
    missing = [name for name in names if not os.environ.get(name)]
    assert not missing, f'{", ".join(missing)} not set: eval "$(tests/cluster/up)" first, or choose with -m "not cluster"'
    env = {name: os.environ[name] for name in names}
    state = tempfile.mkdtemp(prefix="mlk-e2e-")  # mlk sees neither the user's own state nor the user's templates
    env["XDG_STATE_HOME"] = env["XDG_CONFIG_HOME"] = state
    yield mlk.Cluster("real", env["KUBECONFIG"], env["MLK_ADMIN_KUBECONFIG"], kubectl, env, "mlk-test")
    shutil.rmtree(state, ignore_errors=True)


@pytest.fixture(scope="session")
def python_images(real_session):
    """A registry that the nodes reach. It has a base image with Python."""
    with registry.anonymous() as found:
        base_images.push(found, "base/python", kind="python")
        real_session.harness("registry", found.port)
        yield found
        real_session.harness("registry", "--close", found.port)


@pytest.fixture(params=["embedded", "real"])
def cluster(request):
    """Each test that uses this fixture runs twice: against the embedded cluster and against the real cluster."""
    return _used(request, f"{request.param}_session")


@pytest.fixture
def embedded(request, embedded_session):
    """The embedded cluster only."""
    return _used(request, "embedded_session")


@pytest.fixture
def real(request, real_session):
    """The real cluster only; marks the test with `cluster`."""
    return _used(request, "real_session")


def _used(request, fixture):
    request.node.cluster_in_use = request.getfixturevalue(fixture)
    return request.node.cluster_in_use


_counter = itertools.count(1)


@pytest.fixture
def name(request):
    """A name for an experiment that no other test uses or has used. The runs of this name are removed after the test."""
    value = f"t{next(_counter)}-{secrets.token_hex(3)}"
    yield value
    used = getattr(request.node, "cluster_in_use", None)
    if used and used.embedded:
        for run in used.mlk("ls", value, "-o", "name").stdout.split():
            used.mlk("delete", "--no-wait", run)
    elif used:  # without mlk, in whatever state the run is
        used.delete_all("configmaps", f"mlk.dev/name={value}")


@pytest.fixture
def experiment(tmp_path):
    """experiment(text) writes the experiment file and returns its path."""
    def write(text, file="experiment.yaml"):
        path = tmp_path / file
        path.write_text(text, encoding="utf-8")
        return path
    return write
