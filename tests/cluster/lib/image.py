#!/usr/bin/env python3
"""Writes the OCI images of the test cluster, without a container engine: one layer per kind of content, so that a
changed program is a small new layer; not compressed, as they only travel within the machine; no times, no owners, so
that the same content gives the same digest.

usage: image.py pause OUT.tar NAME PAUSE                 the program that holds a pod's namespaces
       image.py runtime OUT.tar NAME MLK_RUNTIME MLK [GPUS]
                                  mlk-runtime and mlk with their libraries, and busybox. GPUS: a file, which gets the place
                                  of the plugin for GPUs
       image.py mpi OUT.tar NAME KIND                     mpirun and the libraries of one MPI of this machine, openmpi or mpich, and busybox
"""

import glob
import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile

USER = 65532  # nobody's: pods that must not run as root run as this
BUSYBOX = "/bin/busybox"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Layer:
    """One layer being filled: files, links and the folders above them."""

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

    def file(self, path, source):
        self.folder(os.path.dirname(path))
        with open(source, "rb") as content:
            self._add(path, tarfile.REGTYPE, 0o755, content.read())

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


def write_image(out, name, layers, config):
    """An OCI layout as one tar, with the annotation by which containerd names what it imports."""
    blobs = {}

    def blob(kind, data):
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    def document(kind, value):
        return blob(kind, json.dumps(value, sort_keys=True).encode())

    parts = [blob("layer.v1.tar", layer.finish()) for layer in layers]
    system = {"architecture": ARCHITECTURES.get(platform.machine(), platform.machine()), "os": "linux"}
    rootfs = {"type": "layers", "diff_ids": [part["digest"] for part in parts]}
    described = document("config.v1+json", {**system, "config": config, "rootfs": rootfs})
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
    """The shared objects it is linked to, the loader among them, where the loader will look for them."""
    answer = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    if "not a dynamic executable" in answer.stdout + answer.stderr:
        return []
    missing = re.findall(r"(\S+) => not found", answer.stdout)
    if missing or answer.returncode != 0:
        sys.exit(f"image.py: {program}: cannot find {', '.join(missing) or 'its libraries: ' + answer.stderr.strip()}")
    return sorted(set(re.findall(r"(/\S+) \(0x", answer.stdout)))


def pause_image(out, name, program):
    layer = Layer()
    layer.file("/pause", program)
    write_image(out, name, [layer], {"Entrypoint": ["/pause"]})


def base_layer():
    """busybox, two users, and the folders that every container has."""
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


def runtime_image(out, name, runtime, mlk, plugin=None):
    programs = {f"/usr/local/bin/{os.path.basename(program)}": program for program in (runtime, mlk)}
    if plugin:
        programs["/usr/local/bin/libmlk-cuda.so"] = plugin
    shared = Layer()
    for library in sorted({library for program in programs.values() for library in libraries(program)}):
        shared.file(library, library)
    layers = [base_layer(), shared]
    for path, program in programs.items():
        own = Layer()
        own.file(path, program)
        layers.append(own)
    write_image(out, name, layers, {
        "User": str(USER), "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp"], "Entrypoint": ["mlk-runtime"]})


# What an MPI of Debian is made of: its programs, by their names in the image, and folders of plugins and texts.
MPI = {
    "openmpi": ({"mpirun": "/usr/bin/orterun", "orted": "/usr/bin/orted"},
                ("/usr/lib/*/openmpi/lib", "/usr/lib/*/pmix2", "/etc/openmpi", "/usr/share/openmpi", "/usr/share/pmix*"), "libmpi.so.40"),
    "mpich": ({"mpirun": "/usr/bin/mpiexec.hydra", "hydra_pmi_proxy": "/usr/bin/hydra_pmi_proxy"}, ("/usr/lib/*/ucx",), "libmpich.so.12"),
}


def mpi_image(out, name, kind):
    programs, patterns, library = MPI[kind]
    [library] = glob.glob(f"/usr/lib/*-linux-gnu/{library}")
    folders = [folder for pattern in patterns for folder in glob.glob(pattern)]
    plugins = [f"{path}/{file}" for folder in folders for path, _, files in os.walk(folder) for file in files if ".so" in file]
    own = Layer()
    for called, program in programs.items():
        own.file(f"/usr/bin/{called}", program)
    for folder in folders:
        own.tree(folder)
    needed = {each for program in (*programs.values(), *plugins, library) for each in libraries(program)}
    for each in sorted(needed | {library}):
        own.file(each, each)
    write_image(out, name, [base_layer(), own], {"User": str(USER), "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp"]})


def main():
    kinds = {"mpi": (mpi_image, (1,)), "pause": (pause_image, (1,)), "runtime": (runtime_image, (2, 3))}
    make, programs = kinds.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, ()))
    if len(sys.argv) - 4 not in programs:
        sys.exit(__doc__)
    try:
        make(*sys.argv[2:])
    except OSError as error:
        sys.exit(f"image.py: {error}")


if __name__ == "__main__":
    main()
