"""PyTorch, TensorFlow and JAX for tests: unpacks their wheels into the cache, and makes the environment in which a program imports them.

Only the packages that the programs import are fetched, not all dependencies.
"""

import os
import re
import shutil
import subprocess
import sys

import torch_peer
import wheels

PYTHON = f"py{sys.version_info[0]}.{sys.version_info[1]}"
_SHARED = ["typing_extensions==4.16.0", "ml_dtypes==0.6.0", "opt_einsum==3.4.0"]
_FOR_TORCH = ["sympy==1.14.0", "mpmath==1.3.0", "typing_extensions==4.16.0"]
_TENSORFLOW = [
    "tensorflow-cpu==2.21.0", "absl-py==2.5.1", "astunparse==1.6.3", "flatbuffers==25.12.19", "gast==0.7.0", "protobuf==7.36.2",
    "six==1.17.0", "termcolor==3.3.0", "wrapt==2.5.2", "packaging==26.4", "requests==2.34.2", "urllib3==2.8.0", "idna==3.20",
    "certifi==2026.10.19.post1", "charset_normalizer==3.5.3", *_SHARED]
_JAX = ["jax==0.10.2", "jaxlib==0.10.2", "scipy==1.17.1", *_SHARED]

# The libraries of NVIDIA that PyTorch's libraries name, with the version of their symbols. Libraries that torch_peer fetches are left out.
_OF_NVIDIA = {name: name for name in (
    "libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libcufft.so.12", "libcufile.so.0", "libcusolver.so.12", "libcusparse.so.12",
    "libcusparseLt.so.0", "libnccl.so.2", "libnvrtc.so.13")} | {"libnvshmem_host.so.3": "NVSHMEM"}


def torch():
    """PyPI has no wheel of PyTorch for x86-64 without GPUs. The wheel for GPUs needs 2 GB of NVIDIA's libraries before Python can import
    it. Empty libraries with the same names are enough, since the tests use no GPU."""
    folder = torch_peer.unpacked()
    return _environment(folder, wheels.unpack("torch-packages", _FOR_TORCH, "packages that PyTorch imports (7 MB)"), _numpy(),
                        LD_LIBRARY_PATH=str(_empty_libraries(folder)), OMP_NUM_THREADS="1")


def tensorflow():
    return _environment(wheels.unpack(f"tensorflow-2.21.0-{PYTHON}", _TENSORFLOW, "TensorFlow for tests (280 MB)"), _numpy(),
                        TF_CPP_MIN_LOG_LEVEL="2", TF_NUM_INTRAOP_THREADS="1", TF_NUM_INTEROP_THREADS="2")


def jax():
    return _environment(wheels.unpack(f"jax-0.10.2-{PYTHON}", _JAX, "JAX for tests (130 MB)"), _numpy(), JAX_PLATFORMS="cpu")


def _environment(*folders, **variables):
    return {"PYTHONPATH": ":".join(map(str, folders)), **variables}


def _numpy():
    return wheels.unpack(f"numpy-2.2.6-{PYTHON.removeprefix('py')}", [wheels.NUMPY], "numpy for tests (16 MB)")


def _empty_libraries(torch_folder):
    """A folder with one library for each of these names. The libraries have every symbol that PyTorch looks for when it is loaded."""
    folder = torch_folder.with_name(f"{torch_folder.name}-empty-libraries")
    if folder.exists():
        return folder
    users = [torch_folder / "torch/lib" / f"lib{name}.so" for name in ("torch_cuda", "torch_nvshmem", "torch_python", "c10_cuda")]
    undefined = subprocess.run(["nm", "-D", "-u", *users], stdout=subprocess.PIPE, text=True, check=True).stdout
    symbols = sorted(set(re.findall(r"\bU ((?:cu|nv|nccl)\w*)", undefined)))
    aside = folder.with_name(f"{folder.name}.tmp-{os.getpid()}")
    aside.mkdir()
    try:
        (aside / "all.c").write_text("".join(f"int {symbol};\n" for symbol in symbols))
        for library, version in _OF_NVIDIA.items():
            (aside / "version").write_text(f"{version} {{ global: *; }};\n")
            subprocess.run(["gcc", "-shared", aside / "all.c", "-o", aside / library, f"-Wl,-soname,{library}",
                            f"-Wl,--version-script={aside / 'version'}"], check=True)
        try:
            aside.rename(folder)
        except OSError:
            if not folder.exists():  # another process was faster
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return folder
