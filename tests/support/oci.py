"""Writes OCI images without a container engine. The images have no times and no owners, so that the same content has the same digest."""

import gzip
import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile

USER = 65532  # the number of no existing user; pods that must not run as root run as this user
BUSYBOX = "/bin/busybox"


def architecture():
    """The architecture of this machine, as images name it."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


class Layer:
    """A layer to which files and links are added, together with the folders above them."""

    def __init__(self):
        self._bytes = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._bytes, mode="w", format=tarfile.USTAR_FORMAT)
        self._folders = set()

    def _add(self, path, kind, mode, data=b"", target=""):
        entry = tarfile.TarInfo(path.strip("/"))
        entry.type, entry.mode, entry.size, entry.linkname = kind, mode, len(data), target
        self._tar.addfile(entry, io.BytesIO(data))

    def folder(self, path, mode=0o755):
        path = path.strip("/")
        if path and path not in self._folders:
            self.folder(os.path.dirname(path))
            self._folders.add(path)
            self._add(path, tarfile.DIRTYPE, mode)

    def text(self, path, text):
        self.folder(os.path.dirname(path))
        self._add(path, tarfile.REGTYPE, 0o644, text.encode())

    def file(self, path, source, mode=0o755):
        self.folder(os.path.dirname(path))
        with open(source, "rb") as content:
            self._add(path, tarfile.REGTYPE, mode, content.read())

    def link(self, path, target):
        self.folder(os.path.dirname(path))
        self._add(path, tarfile.SYMTYPE, 0o777, target=target)

    def tree(self, folder):
        for path, _, files in os.walk(folder):
            self.folder(path)
            for file in files:
                self.file(f"{path}/{file}", f"{path}/{file}")

    def finish(self):
        self._tar.close()
        return self._bytes.getvalue()


def describe(kind, data):
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}


def write_image(out, name, layers, config, compressed=False, more=None):
    """Writes an OCI layout as one tar. Its annotation gives the name under which containerd imports the image. `more` goes into the document of
    the configuration, beside `config`."""
    blobs = {}

    def blob(kind, data):
        described = describe(kind, data)
        blobs[described["digest"].removeprefix("sha256:")] = data
        return described

    def document(kind, value):
        return blob(kind, json.dumps(value, sort_keys=True).encode())

    tars = [layer.finish() for layer in layers]
    parts = [blob("layer.v1.tar+gzip", gzip.compress(tar, 6, mtime=0)) if compressed else blob("layer.v1.tar", tar) for tar in tars]
    system = {"architecture": architecture(), "os": "linux"}
    rootfs = {"type": "layers", "diff_ids": [describe("layer.v1.tar", tar)["digest"] for tar in tars]}
    described = document("config.v1+json", {**system, "config": config, "rootfs": rootfs, **(more or {})})
    manifest = document("manifest.v1+json", {
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": described, "layers": parts})
    index = {"schemaVersion": 2, "manifests": [
        {**manifest, "platform": system, "annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}}]}

    with tarfile.open(out + ".new", "w", format=tarfile.USTAR_FORMAT) as tar:
        def put(path, data):
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))

        put("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        put("index.json", json.dumps(index).encode())
        for digest, data in blobs.items():
            put(f"blobs/sha256/{digest}", data)
    os.rename(out + ".new", out)


def libraries(program):
    """The shared objects that the program is linked to, and the loader, at the paths where the loader searches for them."""
    answer = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    if "not a dynamic executable" in answer.stdout + answer.stderr:
        return []
    missing = re.findall(r"(\S+) => not found", answer.stdout)
    if missing or answer.returncode != 0:
        sys.exit(f"{program}: cannot find {', '.join(missing) or 'its libraries: ' + answer.stderr.strip()}")
    return sorted(set(re.findall(r"(/\S+) \(0x", answer.stdout)))


def busybox_layer():
    """A layer with the folders and users that every image has, and busybox with all its applets."""
    base = Layer()
    for path in ("/dev", "/proc", "/sys", "/etc", "/root", "/var/run"):
        base.folder(path)
    base.folder("/tmp", 0o1777)
    base.text("/etc/passwd", f"root:x:0:0:root:/root:/bin/sh\nmlk:x:{USER}:{USER}:mlk:/tmp:/bin/sh\n")
    base.text("/etc/group", f"root:x:0:\nmlk:x:{USER}:\n")
    base.file("/bin/busybox", BUSYBOX)
    for applet in subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if applet != "busybox":
            base.link(f"/bin/{applet}", "busybox")
    base.link("/usr/bin/env", "/bin/busybox")
    return base
