#!/usr/bin/env python3
"""Builds crane, Google's program for images, with which tests check the images that mlk writes. The program stays in the cache.

usage: crane.py     prints the path of the program
"""

import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULE = "github.com/google/go-containerregistry"


def crane():
    """The path of the program. The first call takes half a minute."""
    sources = ROOT / "tests/support/go"
    version = re.search(rf"{re.escape(MODULE)} (v\S+)", (sources / "go.mod").read_text()).group(1)
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "mlk"
    program = cache / f"crane-{version}"
    if program.exists():
        return program
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "crane.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():  # another process may have been faster
            _build(sources, program)
    return program


def _build(sources, program):
    print(f"building {program.name}, once", file=sys.stderr)
    go = subprocess.run([ROOT / "tests/cluster/build", "--get-go"], stdout=subprocess.PIPE, text=True, check=True, timeout=1800).stdout.strip()
    scratch = tempfile.mkdtemp(prefix=".crane-", dir=program.parent)
    try:
        env = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false -modcacherw",
               "GOPATH": f"{scratch}/path", "GOCACHE": f"{scratch}/cache"}
        subprocess.run([go, "build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", f"{scratch}/crane", f"{MODULE}/cmd/crane"],
                       cwd=sources, env=env, check=True, timeout=1800)
        os.rename(f"{scratch}/crane", program)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    print(crane())
