#!/usr/bin/env python3
"""Base images for tests, made from files of this machine. `small` has busybox. `python` has busybox and the system's Python. Each image can be
pushed to a registry of the tests in several forms: OCI with gzip, OCI with zstd, Docker's media types, and as an index of two platforms.

usage: base_images.py small|python [HOST:PORT/REPOSITORY:TAG]     makes the image, pushes it if a tag is given, and prints the path of its archive
"""

import functools
import gzip
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from oci import USER, Layer, architecture, busybox_layer, describe, libraries, write_image  # noqa: E402

PYTHON = os.path.realpath("/usr/bin/python3")  # the Python of the system, which may differ from the Python that runs this program
LEFT_OUT = {"test", "tests", "idlelib", "tkinter", "lib2to3", "ensurepip", "turtledemo", "pydoc_data", "dist-packages", "__pycache__"}
MANIFEST, INDEX = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"
FORMS = {"oci": [], "docker": ["--format", "v2s2"], "zstd": ["--dest-compress-format", "zstd"]}


def python_version():
    return subprocess.run([PYTHON, "-IS", "-c", "import platform; print(platform.python_version())"], capture_output=True, text=True, check=True).stdout.strip()


def _python_layer():
    layer = Layer()
    name = os.path.basename(PYTHON)
    layer.file(PYTHON, PYTHON)
    layer.link("/usr/bin/python3", name)
    layer.link("/usr/bin/python", name)
    needed = set(libraries(PYTHON))
    folder = f"/usr/lib/{name}"
    for top, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - LEFT_OUT)
        for file in sorted(files):
            path = os.path.join(top, file)
            if os.path.realpath(path).startswith(folder + "/") and not path.endswith(".a"):
                layer.file(path, path, 0o644)
                if path.endswith(".so"):
                    needed.update(libraries(path))
    for library in pathlib.Path("/usr/lib").glob(f"{os.uname().machine}-linux-gnu/lib*.so.*"):  # wheels expect these libraries
        if re.fullmatch(r"lib(stdc\+\+|gcc_s|rt|pthread|dl)\.so\.\d", library.name):
            needed.update([str(library), *libraries(str(library))])
    for library in sorted(needed):
        layer.file(library, library)
    return layer


def archive(kind="small", user=USER, compressed=True):
    """The path of an OCI archive. It is made once and stays in the cache. The image runs its programs as `user`."""
    own = b"".join(path.read_bytes() for path in (pathlib.Path(__file__), pathlib.Path(__file__).with_name("oci.py")))
    machine = [f"{path} {os.stat(path).st_size} {os.stat(path).st_mtime_ns}" for path in ("/bin/busybox", PYTHON, f"/usr/lib/{os.path.basename(PYTHON)}")]
    key = hashlib.sha256(own + "\n".join([*machine, kind, str(user), str(compressed)]).encode()).hexdigest()[:16]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "mlk"
    path = cache / "base-images" / f"{kind}-{key}.tar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        layers, env = [busybox_layer()], ["PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp"]
        if kind == "python":
            layers.append(_python_layer())
            env.append(f"PYTHON_VERSION={python_version()}")
        aside = f"{path}.{os.getpid()}"
        history = [{"created_by": "COPY files"}] * len(layers) + [{"created_by": "ENV PATH", "empty_layer": True}]
        write_image(aside, f"localhost/{kind}:test", layers, {"User": str(user), "Env": env, "Cmd": ["sh"], "Labels": {"of": "the test"}},
                    compressed, {"created": "2026-01-01T00:00:00Z", "history": history})
        os.rename(aside, path)  # another process may have been faster; its archive has the same bytes
    return path


def push(images, repository, tag="test", kind="small", form="oci", user=USER):
    """Pushes the image past the front, and returns the digest of its manifest."""
    source = archive(kind, user, compressed=form != "zstd")  # a compressed layer stays as it is
    if not FORMS[form]:  # the image stays as it is, so skopeo is not needed, which would take a tenth of a second of a processor each time
        manifest, blobs = _content(source)
        for data in blobs:
            put_blob(images, repository, "", data)
        return put_manifest(images, repository, tag, manifest, MANIFEST)[0]
    target = f"docker://{images.back.name}/{repository}:{tag}"
    subprocess.run(["skopeo", "copy", "-q", "--dest-tls-verify=false", *FORMS[form], f"oci-archive:{source}", target], check=True,
                   capture_output=True, timeout=120)
    return images.digest(repository, tag)


@functools.lru_cache
def _content(source):
    """The manifest and the other blobs of this archive, as bytes."""
    with tarfile.open(source) as tar:
        files = {entry.name: tar.extractfile(entry).read() for entry in tar}
    [described] = json.loads(files["index.json"])["manifests"]
    blobs = {name.removeprefix("blobs/"): data for name, data in files.items() if name.startswith("blobs/")}
    manifest = blobs.pop(described["digest"].replace(":", "/"))
    return manifest, list(blobs.values())


def push_marked(images, repository, mark, tag="test"):
    """Like push(), with one more layer that no other image and no node has. Returns (digest of the image, digest of the layer)."""
    document = images.manifest(repository, push(images, repository, tag))
    layer = Layer()
    layer.text("/mark", mark)
    tar = layer.finish()
    config = json.loads(images.blob(repository, document["config"]["digest"]))
    config["rootfs"]["diff_ids"].append(describe("", tar)["digest"])
    document["config"] = put_blob(images, repository, "config.v1+json", json.dumps({**config, "history": []}).encode())
    document["layers"].append(put_blob(images, repository, "layer.v1.tar+gzip", gzip.compress(tar, mtime=0)))
    return put_manifest(images, repository, tag, document)[0], document["layers"][-1]["digest"]


def push_index(images, repository, tag="test", kind="small"):
    """Pushes an index of this machine's platform, another platform and an entry that is not an image. Returns (digest of the index, digest of the
    manifest of this platform)."""
    own = push(images, repository, tag, kind)
    content = Layer()
    content.text("/platform", "not this machine's\n")
    tar = content.finish()
    other = "arm64" if architecture() == "amd64" else "amd64"
    platform = {"architecture": other, "os": "linux", **({"variant": "v8"} if other == "arm64" else {})}
    config = json.dumps({**platform, "config": {}, "rootfs": {"type": "layers", "diff_ids": [describe("", tar)["digest"]]}}).encode()
    attested = b'{"architecture":"unknown","os":"unknown","config":{},"rootfs":{"type":"layers","diff_ids":[]}}'

    def manifest(config, layers, platform):
        document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": put_blob(images, repository, "config.v1+json", config),
                    "layers": [put_blob(images, repository, "layer.v1.tar+gzip", gzip.compress(layer, mtime=0)) for layer in layers]}
        digest, size = put_manifest(images, repository, None, document)
        return {"mediaType": MANIFEST, "digest": digest, "size": size, "platform": platform}
    size = len(images.ask("GET", f"/v2/{repository}/manifests/{own}", headers={"Accept": MANIFEST})[2])
    ours = {"mediaType": MANIFEST, "digest": own, "size": size, "platform": {"architecture": architecture(), "os": "linux"}}
    foreign = manifest(config, [tar], platform)
    attestation = manifest(attested, [], {"architecture": "unknown", "os": "unknown"})
    digest, _ = put_manifest(images, repository, tag, {"schemaVersion": 2, "mediaType": INDEX, "manifests": [foreign, ours, attestation]})
    return digest, own


def put_blob(images, repository, kind, data):
    """Stores the blob past the front, and returns its descriptor."""
    described = describe(kind, data)
    location = images.ask("POST", f"/v2/{repository}/blobs/uploads/")[1]["Location"]
    path = "/v2/" + location.split("/v2/", 1)[1] + ("&" if "?" in location else "?") + "digest=" + described["digest"]
    status, _, body = images.ask("PUT", path, body=data, headers={"Content-Type": "application/octet-stream"})
    assert status == 201, (status, body)
    return described


def put_manifest(images, repository, tag, document, kind=None):
    """Stores the manifest past the front, under its digest if there is no tag. `kind`: its media type, if it does not name its type itself.
    Returns (digest, size)."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    headers = {"Content-Type": kind or json.loads(data)["mediaType"]}
    status, _, body = images.ask("PUT", f"/v2/{repository}/manifests/{tag or digest}", body=data, headers=headers)
    assert status == 201, (status, body)
    return digest, len(data)


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in ("small", "python"):
        sys.exit(__doc__)
    path = archive(sys.argv[1])
    if len(sys.argv) == 3:
        subprocess.run(["skopeo", "copy", "-q", "--dest-tls-verify=false", f"oci-archive:{path}", f"docker://{sys.argv[2]}"], check=True)
    print(path)


if __name__ == "__main__":
    main()
