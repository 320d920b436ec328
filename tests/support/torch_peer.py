"""PyTorch's CPU library as a peer for benches and recorded curves. Its wheel is unpacked into the cache, and C++ programs are linked to it.

To import torch in Python would need gigabytes of further wheels, or the empty libraries of frameworks.py. The C++ library is the same code.
"""

import hashlib
import subprocess
import sys
import types

import wheels

VERSION = "2.15.0"
# libtorch_cpu loads only with these two libraries of CUDA, although no GPU is used.
WHEELS = (f"torch=={VERSION}", "nvidia-cuda-cupti==13.2.86", "nvidia-cuda-runtime==13.2.86")


def unpacked():
    """The folder with the content of the wheel. The wheel is for one version of Python, which does not matter to C++ programs."""
    name = f"torch-{VERSION}-py{sys.version_info[0]}.{sys.version_info[1]}"
    return wheels.unpack(name, WHEELS, f"PyTorch {VERSION} to compare with (540 MB)")


def build(source, empty_headers=(), name=f"PyTorch {VERSION}, one thread"):
    """Compiles `source` against libtorch, with empty files for headers that its package leaves out. Returns the command, the
    environment that the command needs, and the name of the peer."""
    folder = unpacked()
    for header in empty_headers:
        path = folder / "empty" / header
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    program = folder / f"{source.stem}-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    if not program.exists():
        include = folder / "torch/include"
        subprocess.run(["g++", "-O2", "-std=c++20", f"-I{include}", f"-I{include}/torch/csrc/api/include", f"-I{folder}/empty", source, "-o", program,
                        f"-L{folder}/torch/lib", "-ltorch_cpu", "-lc10", "-Wl,--allow-shlib-undefined"], check=True)
    libraries = f"{folder}/torch/lib:{folder}/nvidia/cu13/lib"
    return types.SimpleNamespace(command=[program], env={"LD_LIBRARY_PATH": libraries, "OMP_NUM_THREADS": "1"},
                                 name=name)
