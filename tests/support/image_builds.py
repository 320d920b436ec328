"""Runs mlk build for tests, with separate files for logins and a separate cache. Only Python's standard modules read the built images."""

import gzip
import hashlib
import json
import os
import pathlib
import shutil
import stat
import tarfile

import mlk

NOBODY = 65534
PIECE = 64 << 10  # the allocation of much larger pieces takes longer than what is done with them


class Builder:
    """Experiments whose code is the folder `code`, and mlk with its own empty home, so that there is no earlier build."""

    def __init__(self, folder, image, login=None):
        self.folder = pathlib.Path(folder)
        self.code = self.folder / "code"
        self.code.mkdir(parents=True, exist_ok=True)
        self.image = image
        self.env = self.home("home")
        if login is not None:
            (self.folder / "home/.docker/config.json").write_text(json.dumps(login))

    def home(self, name):
        """The variables for a home of that name."""
        home = self.folder / name
        (home / ".docker").mkdir(parents=True, exist_ok=True)
        empty = dict.fromkeys(("DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "MLK_REGISTRY", "MLK_REGISTRY_MIRRORS", "MLK_IMAGE", "KUBECONFIG"), "")
        folders = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CACHE", "CONFIG", "STATE")}
        return {**empty, **folders, "HOME": str(home), "XDG_RUNTIME_DIR": str(home)}

    def experiment(self, more="", name="trainer", file="experiment.yaml"):
        path = self.folder / file
        code = "" if "code:" in more else "code: code\n"
        path.write_text(f"name: {name}\nmode: single\nrun: sh main.sh\nimage: {self.image}\n{code}workers: {{cpu: 100m, memory: 64Mi}}\n{more}")
        return path

    def command(self, *args, more="", file=None):
        return [str(mlk.MLK), "build", str(file or self.experiment(more)), *map(str, args)]

    def build(self, *args, more="", file=None, check=0, env=None, timeout=120, before=(), **options):
        """Runs mlk build for the experiment. `before`: words before the command."""
        return mlk.run(*before, *self.command(*args, more=more, file=file), check=check, env={**self.env, **(env or {})}, timeout=timeout, **options)

    def build_layout(self, name="layout", platform=None, **options):
        """Builds into an OCI layout on this machine's disk."""
        of = ["--platform", platform] if platform else []
        return self.build(*of, "--output", f"oci:{self.folder / name}", **options), Layout(self.folder / name)


class Layout:
    """An OCI layout in a folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def _path(self, digest):
        return self.folder / "blobs" / digest.replace(":", "/")

    def document(self, digest):
        return json.loads(self._path(digest).read_bytes())

    @property
    def digest(self):
        [entry] = json.loads((self.folder / "index.json").read_text())["manifests"]
        return entry["digest"]

    @property
    def manifest(self):
        return self.document(self.digest)

    @property
    def config(self):
        return self.document(self.manifest["config"]["digest"])

    def layer(self, index=-1, **options):
        """The content of this layer, in the form of entries_of()."""
        with gzip.open(self._path(self.manifest["layers"][index]["digest"])) as file:
            return entries_of(file, **options)

    def wrong(self):
        """The errors in the layout, found by its digests and sizes."""
        found = []
        for path in (self.folder / "blobs/sha256").iterdir():
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != path.name:
                    found.append(f"wrong bytes in {path.name}")
        for part, diff_id in zip(self.manifest["layers"], self.config["rootfs"]["diff_ids"], strict=True):
            if self._path(part["digest"]).stat().st_size != part["size"]:
                found.append(f"wrong size of {part['digest']}")
            if part["mediaType"].endswith("gzip"):
                with gzip.open(self._path(part["digest"])) as file:
                    if "sha256:" + hashlib.file_digest(file, "sha256").hexdigest() != diff_id:
                        found.append(f"wrong diff_id of {part['digest']}")
        return found


def hash_of(file):
    return hashlib.file_digest(file, "sha256").hexdigest()


def entries_of(file, content=hash_of):
    """The entries of an archive: path -> (kind, hash of the content or target of the link, whether it is executable). `content`: a function
    whose result is there in place of the hash."""
    found = {}
    with tarfile.open(fileobj=file, mode="r|", bufsize=PIECE, encoding="utf-8", errors="surrogateescape") as tar:
        for entry in tar:
            assert entry.name not in found, f"{entry.name} is there twice"
            if entry.isreg():
                found[entry.name] = ("file", content(tar.extractfile(entry)), bool(entry.mode & 0o100))
            elif entry.issym():
                found[entry.name] = ("link", entry.linkname, None)
            else:
                assert entry.isdir(), f"{entry.name} has type {entry.type}"
                found[entry.name] = ("folder", None, None)
    return found


def code_of(entries, prefix="mlk/code"):
    """The entries below the folder of the code, by their paths relative to this folder."""
    assert {name for name in entries if not (name + "/").startswith(prefix + "/")} <= {"mlk"}, "entries elsewhere"
    return {name[len(prefix) + 1:]: entry for name, entry in entries.items() if name.startswith(prefix + "/")}


def tree(folder):
    """The content of a folder, in the form of entries_of()."""
    found = {}
    for name in _walk(os.fsencode(folder), b""):
        path = os.path.join(os.fsencode(folder), name)
        mode = os.lstat(path).st_mode
        key = os.fsdecode(name)
        if stat.S_ISLNK(mode):
            found[key] = ("link", os.fsdecode(os.readlink(path)), None)
        elif stat.S_ISDIR(mode):
            found[key] = ("folder", None, None)
        elif stat.S_ISREG(mode):
            with open(path, "rb") as file:
                found[key] = ("file", hash_of(file), bool(mode & 0o100))
    return found


def _walk(top, folder):
    for entry in os.scandir(os.path.join(top, folder)):
        name = os.path.join(folder, entry.name)
        yield name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(top, name)


def copy_for_everyone(folder):
    """A copy of mlk that every user of this machine may run."""
    copy = pathlib.Path(folder) / "mlk"
    shutil.copy(mlk.MLK, copy)
    copy.chmod(0o755)
    return copy


def said_clearly(result):
    """Checks that mlk has refused with one error message and has not crashed. Returns its messages."""
    assert result.code in (1, 2, 3, 4), result
    assert result.stdout == "", result
    assert sum(line.startswith("mlk: error: ") for line in result.stderr.splitlines()) == 1, result
    for word in ("terminate", "std::", "exception", "Assertion", "Sanitizer"):
        assert word not in result.stderr, result
    return result.stderr
