#!/usr/bin/env python3
"""Writes the images of the test cluster: one layer per kind of content, so that a changed program is a small new layer;
not compressed, as they only travel within the machine.

usage: image.py pause OUT.tar NAME PAUSE                 the program that holds a pod's namespaces
       image.py runtime OUT.tar NAME MLK_RUNTIME MLK [GPUS]
                                  mlk-runtime and mlk with their libraries, and busybox. GPUS: a file, which gets the place
                                  of the plugin for GPUs
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from oci import USER, Layer, busybox_layer, libraries, write_image  # noqa: E402


def pause_image(out, name, program):
    layer = Layer()
    layer.file("/pause", program)
    write_image(out, name, [layer], {"Entrypoint": ["/pause"]})


def runtime_image(out, name, runtime, mlk, plugin=None):
    programs = {f"/usr/local/bin/{os.path.basename(program)}": program for program in (runtime, mlk)}
    if plugin:
        programs["/usr/local/bin/libmlk-cuda.so"] = plugin
    base = busybox_layer()
    shared = Layer()
    for library in sorted({library for program in programs.values() for library in libraries(program)}):
        shared.file(library, library)
    layers = [base, shared]
    for path, program in programs.items():
        own = Layer()
        own.file(path, program)
        layers.append(own)
    write_image(out, name, layers, {
        "User": str(USER), "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp"], "Entrypoint": ["mlk-runtime"]})


def main():
    kinds = {"pause": (pause_image, (1,)), "runtime": (runtime_image, (2, 3))}
    make, programs = kinds.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, ()))
    if len(sys.argv) - 4 not in programs:
        sys.exit(__doc__)
    try:
        make(*sys.argv[2:])
    except OSError as error:
        sys.exit(f"image.py: {error}")


if __name__ == "__main__":
    main()
