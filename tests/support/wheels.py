"""Python packages for tests and benches, unpacked into the cache. The machine is not changed, and each package is fetched once."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

NUMPY = (
    "numpy==2.2.6"  # for Python 3.10 to 3.13
    " --hash=sha256:fc7b73d02efb0e18c000e9ad8b83480dfcd5dfd11065997ed4c6747470ae8915"
    " --hash=sha256:ba10f8411898fc418a521833e014a77d3ca01c15b0c6cdcce6a0d2897e6dbbdf"
    " --hash=sha256:fd83c01228a688733f1ded5201c678f0c53ecc1006ffbc404db9f7a899ac6249"
    " --hash=sha256:1bc23a79bfabc5d056d106f9befb8d50c31ced2fbc70eedb8155aec74a45798f"
)
SAFETENSORS = "safetensors==0.8.0"
PANDAS = ["pandas==2.3.3", "python-dateutil==2.9.0.post0", "pytz==2025.2", "tzdata==2025.2", "six==1.17.0"]


def unpack(name, wheels, what):
    """The folder `name` of the cache with the content of these wheels, without their dependencies. A wheel is "package==version". If one
    wheel has " --hash=sha256:..." after it, all must have it."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "mlk"
    folder = cache / name
    if folder.exists():
        return folder
    aside = cache / f"{name}.tmp-{os.getpid()}"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    print(f"fetching {what}, once", file=sys.stderr)
    try:
        wanted = aside / "wanted"
        wanted.write_text("\n".join(wheels))
        subprocess.run([_python_with_pip(), "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", aside, "-r", wanted],
                       check=True, timeout=1800)
        wanted.unlink()
        for wheel in aside.glob("*.whl"):
            subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, aside], check=True)
            wheel.unlink()
        try:
            aside.rename(folder)
        except OSError:
            if not folder.exists():  # another process was faster
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return folder


def _python_with_pip():
    for python in (sys.executable, "python3"):
        if subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
            return python
    raise RuntimeError("no Python here has pip")


def make(folder, name, version="1.0", code="", requires=(), python="", tag="py3-none-any", scripts=None, files=None):
    """Makes a wheel in this folder, with the same bytes for the same arguments. Returns its path. `code` is its module, `requires` its lines of
    Requires-Dist, `python` its Requires-Python, `scripts` its entry points, and `files` its other files."""
    info = f"{name}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *(f"Requires-Dist: {line}" for line in requires)]
    extras = sorted(set(re.findall(r"extra == .(\w+).", " ".join(requires))))
    metadata += [f"Provides-Extra: {extra}" for extra in extras] + ([f"Requires-Python: {python}"] if python else [])
    content = {f"{name}.py": code, f"{info}/METADATA": "\n".join(metadata) + "\n", **(files or {}),
               f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"}
    if scripts:
        content[f"{info}/entry_points.txt"] = "[console_scripts]\n" + "".join(f"{key} = {value}\n" for key, value in scripts.items())
    content[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*content, f"{info}/RECORD"])
    path = pathlib.Path(folder) / f"{name}-{version}-{tag}.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in content.items():
            wheel.writestr(zipfile.ZipInfo(file), text)
    return path
