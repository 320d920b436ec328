"""Registries as users reach them: after a long round trip, with TLS and HTTP/2."""

import os
import random
import signal
import subprocess

import pytest

import base_images
import mlk
import registry
import wire
from image_builds import Builder

ROUND_TRIP = 0.05  # s


@pytest.fixture
def images():
    with registry.anonymous() as images:
        base_images.push(images, "base/small")
        yield images


@pytest.fixture
def far(images):
    """The same registry at the end of a connection with a long round trip."""
    with registry.far_away(ROUND_TRIP, images.storage) as far:
        yield far


@pytest.fixture
def builder(far, tmp_path):
    out = Builder(tmp_path, f"{far.name}/base/small:test")
    folder = tmp_path / "home/config/containers/certs.d" / far.name
    folder.mkdir(parents=True)
    (folder / "ca.crt").write_bytes(far.ca.read_bytes())
    (out.code / "main.sh").write_text("echo hello\n")
    return out


def test_mlk_build_uses_one_connection_to_the_registry_if_all_layers_are_small(images, far, builder):
    target = f"{far.name}/team/trainer:1"
    first = builder.build("-t", target)
    is_loopback = wire.own_address().startswith("127.")  # mlk first asks a registry at such an address whether it speaks TLS
    assert far.connections == (2 if is_loopback else 1)
    assert images.tags("team/trainer") == ["1"]
    assert images.broken() == []
    assert builder.build("-t", target).stdout == first.stdout
    (builder.code / "main.sh").write_text("echo goodbye\n")
    assert builder.build("-t", target).stdout != first.stdout
    assert images.broken() == []


def test_mlk_build_sends_a_large_layer_over_a_connection_of_its_own(images, far, builder):
    (builder.code / "noise").write_bytes(random.Random(1).randbytes(40_000_000))
    builder.build("-t", f"{far.name}/team/large:1")
    assert images.broken() == []
    assert far.connections > 1


def test_ctrl_c_ends_mlk_build_while_the_registry_does_not_answer(far, builder):
    far.silent = True
    process = subprocess.Popen(builder.command("-t", f"{far.name}/team/trainer:1"), env={**os.environ, **builder.env},
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        mlk.wait_until(lambda: far.connections > 0, "mlk to connect")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130, said
