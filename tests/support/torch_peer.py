"""PyTorch's CPU library as a peer for benches and recorded curves: its wheel unpacked into the cache, C++ programs linked to it.

Importing torch in Python would need gigabytes of further wheels, or what frameworks.py does; the C++ library is the same code.
"""

import hashlib
import subprocess
import sys
import types

import wheels

VERSION = "2.15.0"
# libtorch_cpu needs these two of CUDA to load, though no GPU is used.
WHEELS = (f"torch=={VERSION}", "nvidia-cuda-cupti==13.2.86", "nvidia-cuda-runtime==13.2.86")


def unpacked():
    """The folder with the wheel's content. It fits one version of Python, which C++ programs do not mind."""
    name = f"torch-{VERSION}-py{sys.version_info[0]}.{sys.version_info[1]}"
    return wheels.unpack(name, WHEELS, f"PyTorch {VERSION} to compare with (540 MB)")


def build(source, empty_headers=(), name=f"PyTorch {VERSION}, one thread"):
    """Compiles `source` against libtorch, with empty files for headers that its package leaves out. Gives the command, the
    environment it needs and the peer's name."""
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
