#!/usr/bin/env python3
"""Writes the images of the test cluster; that of the runtime is the one that users make.

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
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from oci import USER, Layer, busybox_layer, libraries, write_image  # noqa: E402


def pause_image(out, name, program):
    layer = Layer()
    layer.file("/pause", program)
    write_image(out, name, [layer], {"Entrypoint": ["/pause"]})


def runtime_image(out, name, runtime, mlk, plugin=None):
    """What `mlk build --runtime` makes of these programs, and busybox above it: tests run shell commands there."""
    with tempfile.TemporaryDirectory() as scratch:
        for program, source in {"mlk-runtime": runtime, "mlk": mlk, **({"libmlk-cuda.so": plugin} if plugin else {})}.items():
            shutil.copy(source, f"{scratch}/{program}")
        made = f"{scratch}/image.tar"
        subprocess.run([f"{scratch}/mlk", "build", "--runtime", "--tag", name, "--output", f"docker-archive:{made}"], check=True,
                       env={**os.environ, "XDG_CACHE_HOME": f"{scratch}/cache"}, stdout=subprocess.DEVNULL, timeout=120)
        add_layer(made, out, busybox_layer().finish())


def add_layer(source, out, layer):
    """A Docker archive with one more layer."""
    digest = hashlib.sha256(layer).hexdigest()
    with tarfile.open(source) as image, tarfile.open(out + ".new", "w", format=tarfile.USTAR_FORMAT) as more:
        def put(path, data):
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            more.addfile(entry, io.BytesIO(data))

        manifest = json.load(image.extractfile("manifest.json"))
        config = json.load(image.extractfile(manifest[0]["Config"]))
        for entry in image:
            if entry.name.endswith(".tar.gz"):
                more.addfile(entry, image.extractfile(entry))
        config["rootfs"]["diff_ids"].append(f"sha256:{digest}")
        config["history"].append({"created_by": "busybox"})
        described = json.dumps(config, sort_keys=True).encode()
        manifest[0]["Config"] = f"{hashlib.sha256(described).hexdigest()}.json"
        manifest[0]["Layers"].append(f"{digest}.tar")
        put(f"{digest}.tar", layer)
        put(manifest[0]["Config"], described)
        put("manifest.json", json.dumps(manifest).encode())
    os.rename(out + ".new", out)


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
    write_image(out, name, [busybox_layer(), own], {"User": str(USER), "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp"]})


def main():
    kinds = {"mpi": (mpi_image, (1,)), "pause": (pause_image, (1,)), "runtime": (runtime_image, (2, 3))}
    make, programs = kinds.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, ()))
    if len(sys.argv) - 4 not in programs:
        sys.exit(__doc__)
    try:
        make(*sys.argv[2:])
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"image.py: {error}")


if __name__ == "__main__":
    main()
