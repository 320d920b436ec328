"""Files of requirements, each for this machine, for an image with another Python and for an image of another architecture. mlk does what
`pip install` would do in the image, or refuses before it sends an object. All wheels are made here."""

import gzip
import json
import os
import pathlib
import shutil
import subprocess
import tarfile

import base_images
import mlk
import pytest
import registry
import wheels
from image_builds import Builder

pytestmark = pytest.mark.foreign

OWN = json.loads(subprocess.run(["python3", "-Ic", "import json, platform, sys; print(json.dumps([*sys.version_info[:3], platform.machine(), sys.executable]))"],
                                capture_output=True, text=True, check=True).stdout)
# For each place: the version of Python and the architecture of the machine that programs have there.
PLACES = {"local": ((OWN[0], OWN[1], OWN[2]), OWN[3]), "old": ((3, 8, 18), "x86_64"), "arm": ((3, 13, 2), "aarch64")}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def image_of(images, name, machine, variables):
    """A base image whose only content is its configuration."""
    tar = b"\0" * 1024
    layer = base_images.describe("", tar)["digest"]
    config = {"architecture": ARCHITECTURES[machine], "os": "linux", "config": {"Env": [f"{key}={value}" for key, value in variables.items()]},
              "rootfs": {"type": "layers", "diff_ids": [layer]}, "history": [{"created_by": "tests"}]}
    document = {"schemaVersion": 2, "mediaType": base_images.MANIFEST, "config": base_images.put_blob(images, name, "config.v1+json", json.dumps(config).encode()),
                "layers": [base_images.put_blob(images, name, "layer.v1.tar+gzip", gzip.compress(tar, mtime=0))]}
    base_images.put_manifest(images, name, "test", document)
    return f"{images.name}/{name}:test"


@pytest.fixture(scope="module")
def images():
    with registry.anonymous() as found:
        for place, (python, machine) in PLACES.items():
            image_of(found, f"base/{place}", machine, {"PATH": "/usr/bin", "PYTHON_VERSION": ".".join(map(str, python)), "PYTHONPATH": "/opt/site"})
        yield found


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """A folder of wheels. pip finds no other packages."""
    folder = tmp_path_factory.mktemp("wheels")
    for name in ("plain", "intel", "linux", "patch", "cpython", "limited"):
        wheels.make(folder, name)
    wheels.make(folder, "plain", "2.0")
    wheels.make(folder, "limited", "2.0")
    wheels.make(folder, "split", "1.0")
    wheels.make(folder, "split", "2.0", python=">=3.10")
    for own in ("", "extra", "below"):  # a requirement of one of these families brings no package of another
        for name in ("backport", "newer", "arm", "mac", "cuda", "windows"):
            wheels.make(folder, own + name)
        wheels.make(folder, f"{own}app", requires=[
            f"{own}backport; python_version < '3.10'", f"{own}newer; python_full_version >= '3.10.0'", f"{own}windows; os_name == 'nt'",
            f"{own}arm; platform_machine == 'aarch64'", f"{own}mac; sys_platform == 'darwin'",
            f"{own}cuda; extra == 'gpu' and platform_machine == 'x86_64'", f"{own}plain<2; extra == 'gpu'"])
    for name in ("extraplain", "belowplain"):
        for version in ("1.0", "2.0"):
            wheels.make(folder, name, version)
    wheels.make(folder, "deep", requires=["belowapp[gpu]"])
    for python, machine in PLACES.values():
        tag = f"cp{python[0]}{python[1]}"
        wheels.make(folder, "native", tag=f"{tag}-{tag}-manylinux2014_{machine}")
        wheels.make(folder, "fresh", tag=f"{tag}-{tag}-manylinux2014_{machine}")
    libc = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")  # of this machine
    wheels.make(folder, "fresh", "2.0", tag=f"cp{OWN[0]}{OWN[1]}-cp{OWN[0]}{OWN[1]}-manylinux_{libc}_{OWN[3]}")
    sources = tmp_path_factory.mktemp("sources") / "own"
    sources.mkdir()
    (sources / "setup.py").write_text("import pathlib\npathlib.Path(__file__).with_name('executed').touch()\n")
    wheels.make(folder, "outside", requires=[f"own @ file://{sources}"])
    wheels.make(folder, "cloned", requires=["own @ git+https://127.0.0.1:9/own.git"])
    wheels.make(folder, "tool", code="import sys\ndef main():\n    print('tool runs', sys.argv[1])\n", scripts={"tool": "tool:main"})
    yield folder
    assert not (sources / "executed").exists()


def app(python, machine, own=""):
    found = {"app", "backport" if python < (3, 10) else "newer"} | ({"arm"} if machine == "aarch64" else set())
    return {own + name for name in found}


def gpu(python, machine, own):
    return app(python, machine, own) | {f"{own}plain"} | ({f"{own}cuda"} if machine == "x86_64" else set())


def holds_here(marker):
    """Whether a marker is true for the pip of this machine. The release of a kernel may be an invalid version."""
    said = subprocess.run(["python3", "-Ic", f"from pip._vendor.packaging.markers import Marker; print(Marker({marker!r}).evaluate())"],
                          capture_output=True, text=True, check=True).stdout
    return said.strip() == "True"


# Each of these settings would change what pip does, and no setting of a group would undo what another one does.
SETTINGS = ({"PIP_USER": "1", "PIP_PREFIX": "/nowhere", "PIP_REQUIRE_VIRTUALENV": "1", "PIP_VERBOSE": "3", "PIP_TARGET": "/nowhere",
             "PIP_NO_BINARY": ":all:", "PYTHONPATH": "CODE", "PIP_PYTHON": "/bin/false"}, {"PIP_CONFIG_FILE": "CODE/pip.conf", "PIP_QUIET": "3"})
# Requirements that are independent of each other are in one file, since each of two runs of pip takes a second.
TOGETHER = {
    "backport; python_version < '3.10'\nnewer; python_version >= '3.10'": lambda python, _: {"backport"} if python < (3, 10) else {"newer"},
    "patch; python_full_version >= '3.8.5'\nplain": lambda *_: {"patch", "plain"},
    "arm; platform_machine == 'aarch64'\nintel; platform_machine == 'x86_64'": lambda _, machine: {"arm"} if machine == "aarch64" else {"intel"},
    "mac; sys_platform == 'darwin'\nlinux; sys_platform == 'linux' and platform_system == 'Linux'": lambda *_: {"linux"},
    "windows; os_name == 'nt'\ncpython; implementation_name == 'cpython'": lambda *_: {"cpython"},
    "split": lambda *_: {"split"},
    "native\nfresh": lambda *_: {"native", "fresh"},
    "./dist/local-1.0-py3-none-any.whl": lambda *_: {"local"},
}
WITH_DEPENDENCIES = {
    "app": app,
    "extraapp[gpu]": lambda *place: gpu(*place, "extra"),
    "deep": lambda *place: gpu(*place, "below") | {"deep"},
    "limited==1.0": lambda *_: {"limited"},
    "local @ file://CODE/dist/local-1.0-py3-none-any.whl ; python_version >= '3'": lambda *_: {"local"},
}


def all_of(cases):
    """(the requirements of all cases, the packages that are installed in a place)"""
    return "\n".join(cases), lambda *place: set().union(*(installed(*place) for installed in cases.values()))


# Requirements -> the packages that are installed in a place, or a part of the refusal. CODE is the folder of the code. It has a folder `own`
# with a setup.py.
CASES = {
    **dict(all_of(cases) for cases in (TOGETHER, WITH_DEPENDENCIES)),
    "-r more.txt\n-c limits.txt": lambda *_: {"limited"},
    "-e .": "'-e .' is a folder",
    "./own": "'./own' is a folder",
    "own @ file://CODE/own": "is a folder",
    "git+file://CODE/own": "is a repository",
    "own @ git+file://CODE/own@0123456789abcdef0123456789abcdef01234567": "is a repository",
    "own @ git+file://CODE/own@main": "is a repository",
    "./own-1.0.tar.gz": "is no wheel",
    "plain --no-binary plain": "would build a package",
    "outside": "would build a package",
    "cloned": "would build a package",
    "plain; platform_release >= '5'": {"local": lambda *_: {"plain"} if holds_here("platform_release >= '5'") else set(), "image": "the condition of a package: platform_release >= \"5\""},
    **{f"plain==1.0  # {' '.join(setting)}": (setting, lambda *_: {"plain"}) for setting in SETTINGS},
}


OPEN = []  # the places of the present test


@pytest.fixture(autouse=True)
def no_server_stays():
    yield
    while OPEN:
        mlk.run(mlk.MLK, "local", "down", env=OPEN.pop().env, check=0)


class Place:
    def __init__(self, place, embedded, images, index, folder, name):
        self.place, self.embedded, self.name = place, embedded, name
        if place == "local":
            OPEN.append(self)
        self.builder = Builder(folder, f"{images.name}/base/{place}:test", images.login())
        self.code = self.builder.code
        self.trap = folder / "executed"
        trap = f"import pathlib\npathlib.Path({str(self.trap)!r}).touch()\n"
        for file in ("pip.py", "json.py", "own/setup.py", "setup.py", "sitecustomize.py"):
            path = self.code / file
            path.parent.mkdir(exist_ok=True)
            path.write_text(trap)
        wheels.make(self.code / "dist", "local")
        (self.code / "more.txt").write_text("limited\n")
        (self.code / "limits.txt").write_text("limited<2\n")
        (self.code / "pip.conf").write_text(f"[global]\nuser = true\nprefix = /nowhere\nrequire-virtualenv = true\nno-index = true\nfind-links = {index}\n")
        (self.code / "main.py").write_text("print(1)\n")
        programs = folder / "programs"
        programs.mkdir()
        for program in ("lsb_release", "rustc", "uname"):  # pip calls these programs only to describe this machine to indexes
            (programs / program).write_text(f"#!/bin/sh\n: > {self.trap}\n")
            (programs / program).chmod(0o755)
        # The Python program itself. A program that chooses a Python (pyenv) would take a tenth of a second each time.
        self.env = {**self.builder.env, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "PATH": f"{programs}:{pathlib.Path(OWN[4]).parent}:{os.environ['PATH']}"}
        for variable in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
            self.env[variable] = ""
        self.more = "code: {path: code, python: requirements.txt}\n"

    def install(self, requirements, settings=None, check=0):
        """The messages of mlk, and the installed packages: {name: version}."""
        own = str(self.code)
        (self.code / "requirements.txt").write_text(requirements.replace("CODE", own) + "\n")
        env = {**self.env, **{key: value.replace("CODE", own) for key, value in (settings or {}).items()}}
        if "PIP_CONFIG_FILE" in env:
            env |= {"PIP_NO_INDEX": "", "PIP_FIND_LINKS": ""}  # this machine may have its own settings
        elif not settings:
            env["PIP_CONFIG_FILE"] = os.devnull  # then mlk does not start a Python that lists the settings in files
        before = files_of(self.code)
        if self.place == "local":
            file = self.builder.experiment(self.more, name=self.name)
            file.write_text(file.read_text().replace("run: sh main.sh", "run: [python3, main.py]"))
            result = self.embedded.mlk("submit", file, env=env, check=check, timeout=120)
            folders = sorted((self.builder.folder / "home/cache/mlk/layers").glob("python-*/*.dist-info"), key=lambda path: path.parent.stat().st_mtime)
            newest = [path for path in folders if path.parent == folders[-1].parent]
            found = [path.name for path in newest]
        else:
            layout = self.builder.folder / "layout"
            shutil.rmtree(layout, ignore_errors=True)
            result, built = self.builder.build_layout(check=check, more=self.more, env=env)
            found = [] if check else [path.split("/")[2] for path in built.layer(-1 if len(built.manifest["layers"]) < 3 else 1) if path.endswith(".dist-info")]
            assert check == 0 or not layout.exists()
        assert not self.trap.exists(), "something of the folder was executed, or about the machine"
        assert files_of(self.code) == before, "the folder of the code was changed"
        return result, dict(name.removesuffix(".dist-info").split("-") for name in found)


def files_of(folder):
    return sorted(str(path) for path in pathlib.Path(folder).rglob("*"))


@pytest.fixture(params=list(PLACES))
def place(request, images, index, embedded, tmp_path, name):
    return Place(request.param, embedded, images, index, tmp_path, name)


# The architecture matters only for packages that depend on it, so other requirements are not tried in the place `arm`.
COMBINATIONS = [(place, text) for text in CASES for place in PLACES if place != "arm" or "platform_machine" in text or "app" in text]


@pytest.mark.parametrize(("place", "requirements"), COMBINATIONS, indirect=["place"], ids=[f"{place}: {text}".replace("\n", " & ")[:120] for place, text in COMBINATIONS])
def test_mlk_installs_requirements_for_the_python_of_the_run_or_refuses_them(place, requirements):
    expected = CASES[requirements]
    settings, expected = expected if isinstance(expected, tuple) else ({}, expected)
    if isinstance(expected, dict):
        expected = expected["local" if place.place == "local" else "image"]
    if isinstance(expected, str):
        refused, _ = place.install(requirements, settings, check=2)
        assert "mlk: error: code.python: " in refused.stderr and expected in refused.stderr
        assert place.embedded.mlk("ls", place.name, "-o", "name", check=0).stdout == ""
        return
    python, machine = PLACES[place.place]
    _, found = place.install(requirements, settings)
    assert set(found) == expected(python, machine)
    if "split" in found:
        assert found["split"] == ("2.0" if python >= (3, 10) else "1.0")
    if "fresh" in found:
        assert found["fresh"] == ("2.0" if place.place == "local" else "1.0")
    if "plain" in found:
        assert found["plain"] == ("2.0" if "\nplain\n" in requirements or "release" in requirements else "1.0")
    assert {found[package] for package in ("limited", "extraplain", "belowplain") if package in found} <= {"1.0"}


@pytest.mark.parametrize("place", ["local", "old"], indirect=True)
def test_mlk_installs_a_wheel_again_if_it_was_built_again_with_the_same_version(place, tmp_path):
    """One wheel is in a folder of the code, and one is in another folder that pip searches. One of them is built again, and then the other one."""
    folders = {"local": place.code / "dist", "found": tmp_path / "more"}
    requirements = f"./dist/local-1.0-py3-none-any.whl\n--find-links {folders['found']}\nfound"
    for texts in ({"local": "one", "found": "one"}, {"local": "two", "found": "one"}, {"local": "two", "found": "two"}):
        for name, text in texts.items():
            wheels.make(folders[name], name, code=f"V = '{text}'\n")
        place.install(requirements)
        layers = place.builder.folder / "home/cache/mlk/layers"
        if place.place == "local":
            newest = max(layers.glob("python-*/local.py"), key=lambda path: path.parent.stat().st_mtime).parent
            seen = {name: (newest / f"{name}.py").read_text() for name in texts}
        else:
            with tarfile.open(max(layers.glob("python-*.tar.gz"), key=lambda path: path.stat().st_mtime)) as tar:
                seen = {name: tar.extractfile(f"mlk/python/{name}.py").read().decode() for name in texts}
        assert seen == {name: f"V = '{text}'\n" for name, text in texts.items()}


def test_mlk_refuses_a_requirement_whose_marker_depends_on_an_unknown_patch_level_of_python(images, index, tmp_path, embedded, name):
    image = image_of(images, "base/unknown", "x86_64", {"PATH": "/usr/bin"})
    place = Place("old", embedded, images, index, tmp_path, name)
    place.builder.image = image
    place.more = 'code: {path: code, python: requirements.txt, python_version: "3.8"}\n'
    refused, _ = place.install("plain; python_full_version < '3.8.5'", check=2)
    assert 'python_full_version < "3.8.5"' in refused.stderr and 'python_version: "3.8.4"' in refused.stderr
    assert set(place.install("plain; python_full_version < '3.9'")[1]) == {"plain"}
    place.more = 'code: {path: code, python: requirements.txt, python_version: "3.8.4"}\n'
    assert set(place.install("plain; python_full_version < '3.8.5'")[1]) == {"plain"}


def test_programs_in_the_image_find_installed_packages_before_those_of_the_image(images, index, tmp_path, embedded, name):
    place = Place("old", embedded, images, index, tmp_path, name)
    place.install("tool")
    _, built = place.builder.build_layout("again", more=place.more, env=place.env)
    assert {"PYTHONPATH=/mlk/python:/opt/site", "PATH=/mlk/python/bin:/usr/bin"} <= set(built.config["config"]["Env"])
    [layer] = [entries for entries in map(built.layer, range(1, len(built.manifest["layers"]))) if "mlk/python" in entries]
    assert layer["mlk/python/bin/tool"][2]


def test_a_local_run_finds_the_programs_and_modules_of_its_packages(images, index, tmp_path, embedded, name):
    place = Place("local", embedded, images, index, tmp_path, name)
    (place.code / "src").mkdir()
    (place.code / "src/mine.py").write_text("")
    (place.code / "requirements.txt").write_text("tool\nplain\n")
    (place.code / "look.py").write_text("import mine, os, plain, subprocess\nsubprocess.run(['tool', 'here'], check=True)\nprint(os.environ['PYTHONPATH'])\n")
    file = place.builder.experiment(place.more + "env: {PYTHONPATH: src}\n", name=name)
    for run, seen in (("[tool, alone]", "tool runs alone"), ("[python3, look.py]", "tool runs here")):
        file.write_text(file.read_text().replace("run: sh main.sh", "run: [tool, alone]").replace("run: [tool, alone]", f"run: {run}"))
        submitted = embedded.mlk("submit", "--wait", file, env={**place.env, "PIP_CONFIG_FILE": os.devnull}, check=0, timeout=120).stdout.strip()
        assert seen in embedded.mlk("logs", submitted, env=place.env, check=0).stdout


def test_pip_uses_the_index_that_the_user_has_configured(images, tmp_path, embedded, name):
    """mlk uses the user's settings of pip, also those with a password, and does not show the password."""
    wheels.make(tmp_path / "private", "private")
    place = Place("arm", embedded, images, tmp_path / "private", tmp_path, name)
    config = tmp_path / "home/config/pip/pip.conf"
    config.parent.mkdir(parents=True)
    config.write_text(f"[install]\nfind-links = {tmp_path / 'private'}\n[global]\nno-index = yes\nquiet = 2\n")
    for variable in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        place.env[variable] = ""
    unset = [word for variable in os.environ if variable.startswith("PIP_") for word in ("-u", variable)]
    (place.code / "requirements.txt").write_text("private\n")
    result = place.builder.build("--output", f"oci:{tmp_path / 'layout'}", more=place.more, env=place.env, before=("env", *unset))
    assert "installing 1 packages for Python 3.13" in result.stderr
