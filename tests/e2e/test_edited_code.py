"""A folder with a Python program runs on the cluster unchanged. After an edit of one line, submit sends only the code that must change. The
tests count the bytes that reach the registry and the API server."""

import random

import pytest
from fault_proxy import FaultProxy
from image_builds import Builder

pytestmark = pytest.mark.nodes

PROGRAM = "import helper\nprint(helper.greeting('{}'))\n"


@pytest.fixture
def images(python_images):
    return python_images


@pytest.fixture
def folder(images, tmp_path):
    """A builder whose program prints a word with a module of the code. The code also has 200 KB that stay unchanged."""
    builder = Builder(tmp_path, f"{images.name}/base/python:test", images.login())
    (builder.code / "helper.py").write_text("def greeting(word):\n    return 'hello ' + word\n")
    (builder.code / "train.py").write_text(PROGRAM.format("one"))
    (builder.code / "weights.bin").write_bytes(random.Random(1).randbytes(200_000))
    return builder


class Submitter:
    """Submits to the real cluster through a proxy that counts bytes."""

    def __init__(self, real, folder, images, name, proxy):
        self.real, self.folder, self.images, self.name, self.proxy = real, folder, images, name, proxy
        self.env = {**folder.env, "KUBECONFIG": proxy.kubeconfig, "MLK_REGISTRY": f"{images.name}/team"}

    def submit(self, code="code: code\n"):
        """Returns the messages of submit with the log of the run, then the bytes of objects for the API server and of blobs and manifests for
        the registry."""
        self.images.record.clear()
        before = self.proxy.sent()
        file = self.folder.experiment(code, name=self.name)
        file.write_text(file.read_text().replace("run: sh main.sh", "run: [python3, train.py]"))
        followed = self.real.mlk("submit", "--follow", file, env=self.env, check=0, timeout=180)
        return followed.stderr, (self.proxy.sent() - before, self.images.record.sent())


@pytest.fixture
def submitter(real, folder, images, name):
    with FaultProxy(real.kubeconfig) as proxy:
        yield Submitter(real, folder, images, name, proxy)


def test_mlk_submit_puts_small_code_into_a_config_map_and_sends_nothing_to_the_registry_even_after_an_edit(submitter):
    log, (to_cluster, to_registry) = submitter.submit()
    assert "hello one" in log
    assert 200_000 < to_cluster < 400_000   # base64 of the code, and the other objects
    assert to_registry == 0
    _, (again, to_registry) = submitter.submit()
    assert again < 20_000   # the cluster has the code already
    (submitter.folder.code / "train.py").write_text(PROGRAM.format("two"))
    log, (to_cluster, to_registry) = submitter.submit()
    assert "hello two" in log
    assert 200_000 < to_cluster < 400_000
    assert to_registry == 0


def test_mlk_submit_sends_only_the_layer_of_the_code_to_the_registry_if_a_line_of_the_code_was_edited(submitter):
    layer = "code: {path: code, layer: true}\n"
    log, (to_cluster, to_registry) = submitter.submit(layer)
    assert "hello one" in log
    assert to_cluster < 40_000
    assert 200_000 < to_registry < 230_000   # the layer, the configuration and the manifest: the base is mounted
    log, (_, to_registry) = submitter.submit(layer)
    assert to_registry == 0
    (submitter.folder.code / "train.py").write_text(PROGRAM.format("two"))
    log, (to_cluster, to_registry) = submitter.submit(layer)
    assert "hello two" in log
    assert to_cluster < 40_000
    assert 200_000 < to_registry < 230_000


def test_mlk_submit_sends_code_to_the_registry_as_an_image_layer_if_the_code_is_too_large_for_a_config_map(submitter):
    (submitter.folder.code / "weights.bin").write_bytes(random.Random(2).randbytes(2_000_000))
    log, (to_cluster, to_registry) = submitter.submit()
    assert "hello one" in log
    assert to_cluster < 40_000
    assert to_registry > 2_000_000
