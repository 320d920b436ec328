"""Group images of make bench: a megabyte of code on a base of two gigabytes, into a registry on this machine, beside crane append.

Requests to that pass the front of tests/support/registry.py, which counts the bytes of blobs and costs both sides the same. Another one is
a round trip away and has TLS and HTTP/2, as those have that people use.
"""

import gzip
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import subprocess
import tarfile
import tempfile
import time
import zlib

import base_images
import crane
import mlk
import oci
import registry

LAYERS, LAYER_BYTES = 16, 128 << 20
CODE_BYTES = 1_000_000
TURNS, STREAMED_TURNS = 9, 3
ROUND_TRIP = 0.01  # s, to a registry that is not on this machine
MOST_MEMORY_MIB = 256
EXPERIMENT = """\
name: bench
mode: single
run: python3 train.py
image: {base}
code: code
workers: {{count: 1, cpu: 1, memory: 64Mi}}
"""


def images(report):
    peer = crane.crane()
    with tempfile.TemporaryDirectory(dir=mlk.BUILD) as folder, tempfile.TemporaryDirectory(dir=place_of_registries()) as stored, \
            registry.anonymous(storage=f"{stored}/near") as near, registry.anonymous(storage=f"{stored}/far") as far:
        scratch = pathlib.Path(folder)
        layer = write_code(scratch)
        base = "team/base:2g"
        # By another process: the memory of this one would count as the peak of those that it starts.
        maker = multiprocessing.get_context("fork").Process(target=push_base, args=(near, base))
        maker.start()
        maker.join()
        assert maker.exitcode == 0
        sides = Sides(scratch, peer, layer, near, f"{near.name}/{base}")
        sent, sent_again = same_registry(report, sides, "")
        report.hold("bytes of blobs sent, first", "B", sent, 1.1 * CODE_BYTES)
        report.hold("bytes of blobs sent, unchanged", "B", sent_again, 0)
        with registry.far_away(ROUND_TRIP, near.storage) as remote:
            authorities = scratch / "config/containers/certs.d" / remote.name
            authorities.mkdir(parents=True)
            shutil.copy(remote.ca, authorities / "ca.crt")
            env = {"XDG_CONFIG_HOME": str(scratch / "config"), "SSL_CERT_FILE": str(remote.ca)}
            same_registry(report, Sides(scratch, peer, layer, remote, f"{remote.name}/{base}", env), f", {1000 * ROUND_TRIP:g} ms away")
        other_registry(report, Sides(scratch, peer, layer, far, f"{near.name}/{base}"))


def place_of_registries():
    """In memory if that has the room: the registry waits for the disk at each layer that it mounts, now for 0.3 ms and now for 3."""
    memory = pathlib.Path("/dev/shm")
    is_large = memory.is_dir() and shutil.disk_usage(memory).free > 3 * LAYERS * LAYER_BYTES
    return memory if is_large else mlk.BUILD


def write_code(scratch):
    """A repository with a megabyte of mlk's own sources, and their archive for the peer."""
    code, left = scratch / "code", CODE_BYTES
    code.mkdir()
    for source in sorted((mlk.ROOT / "cli").rglob("*.cpp")):
        text = source.read_bytes()[:left]
        (code / "-".join(source.relative_to(mlk.ROOT).parts)).write_bytes(text)
        left -= len(text)
    assert left == 0
    for arguments in (["init", "-q"], ["add", "-A"], ["-c", "user.name=bench", "-c", "user.email=bench@example.com", "commit", "-qm", "all"]):
        subprocess.run(["git", "-C", code, *arguments], check=True)
    layer = scratch / "layer.tar"
    with tarfile.open(layer, "w") as archive:
        archive.add(code, "mlk/code", filter=lambda entry: None if "/.git" in entry.name else entry)
    return layer


def push_base(images, name):
    """An image whose layers do not compress, past the front; one layer at a time is in memory."""
    repository, tag = name.split(":")
    draw, layers, diffs = random.Random(3), [], []
    for _ in range(LAYERS):
        content = draw.randbytes(LAYER_BYTES)  # no archive: nobody unpacks it
        diffs.append(oci.describe("", content)["digest"])
        layers.append(base_images.put_blob(images, repository, "layer.v1.tar+gzip", gzip.compress(content, zlib.Z_NO_COMPRESSION, mtime=0)))
    config = {"os": "linux", "architecture": oci.architecture(), "config": {"Cmd": ["sh"]}, "rootfs": {"type": "layers", "diff_ids": diffs}}
    described = base_images.put_blob(images, repository, "config.v1+json", json.dumps(config).encode())
    document = {"schemaVersion": 2, "mediaType": base_images.MANIFEST, "config": described, "layers": layers}
    base_images.put_manifest(images, repository, tag, document)


class Sides:
    """mlk and the peer, each sending to repositories of its own."""

    def __init__(self, scratch, peer, layer, target, base, env=None):
        self.scratch, self.peer, self.layer, self.target, self.base, self.env = scratch, peer, layer, target, base, env or {}
        self.code = scratch / "code"
        self.experiment = scratch / "experiment.yaml"
        self.experiment.write_text(EXPERIMENT.format(base=base), encoding="utf-8")
        self.peak = 0

    def mlk(self, turn):
        """Seconds. The cache is that of the turn: nothing is known of the code in a new one."""
        command = [mlk.BUILD / "mlk", "build", "-t", f"{self.target.name}/team/mlk-{turn}:1", self.experiment]
        return self._run(command, {"XDG_CACHE_HOME": str(self.scratch / f"cache-{turn}")})

    def crane(self, turn):
        return self._run([self.peer, "append", "-f", self.layer, "-b", self.base, "-t", f"{self.target.name}/team/crane-{turn}:1"], {})

    def _run(self, command, env):
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, **self.env, **env})
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        took = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, said.decode(errors="replace")
        self.cpu = used.ru_utime + used.ru_stime
        self.peak = used.ru_maxrss / 1024  # MiB
        return took

    def bytes_of(self, act):
        """What it sends to the registry as blobs; 0 if that has no record."""
        record = getattr(self.target, "record", None)
        if record:
            record.clear()
        act()
        return record.sent(path="/blobs/") if record else 0


def same_registry(report, sides, where):
    """Layers of the base are there, and only have to be named in the new repository."""
    first, theirs, again, theirs_again, sent, sent_again = [], [], [], [], [], []
    for turn in range(TURNS):
        name = f"{len(where)}-{turn}"
        sent.append(sides.bytes_of(lambda name=name: first.append(sides.mlk(name))))
        theirs.append(sides.crane(name))
        sent_again.append(sides.bytes_of(lambda name=name: again.append(sides.mlk(name))))
        theirs_again.append(sides.crane(name))
    report.add(f"image of 1 MB on 2 GB, first{where}", "s", first, "crane append", theirs, 2)
    report.add(f"the same, unchanged{where}", "s", again, "crane append", theirs_again, None)
    return sent, sent_again


def other_registry(report, sides):
    """Layers of the base pass through this machine."""
    first, theirs, peaks = [], [], []
    for turn in range(STREAMED_TURNS):
        first.append(sides.mlk(f"far-{turn}"))
        peaks.append(round(sides.peak))
        theirs.append(sides.crane(f"far-{turn}"))
    report.add("the same, base in another registry", "s", first, "crane append", theirs, None)
    report.hold("memory of mlk for that", "MiB", peaks, MOST_MEMORY_MIB)
