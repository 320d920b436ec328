#!/usr/bin/env python3
"""Registries for tests: Debian's docker-registry in a scratch folder, behind a front that records requests and misbehaves as a plan says
(registry_proxy.py). Deletion is allowed. There are three kinds of registries: without a login, with a password, and with bearer tokens.

    with registry.bearer() as images:
        images.plan(fault("status", "PATCH", nth=2, status=500, share=0.5))
        images.write_login(folder)
        run(..., f"{images.name}/team/x:1")
        assert images.record.sent("PATCH") < 1000000 and not images.unmet()

By hand:  registry.py anonymous|basic|bearer [--port N] [--token-port N] [--tls] [--storage DIR] [--log FILE] [--plan JSON]
The program prints "ready HOST:PORT" and runs until SIGTERM or SIGINT. Each line of the log is one request as JSON.
"""

import argparse
import base64
import contextlib
import hashlib
import hmac
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from registry_proxy import Front, Upstream, basic_authorization, socket_address  # noqa: E402
from registry_tokens import Tokens, User  # noqa: E402
import wire  # noqa: E402

USER, PASSWORD = "researcher", "swordfish:7%41/@"
READER, READER_PASSWORD = "reader", "trout:8 &=?"  # may only pull from a registry with tokens
SECRET = "of the test"
UPLOAD = re.compile(r"/v2/(?P<repository>.+)/blobs/uploads/(?P<session>[0-9a-f-]{36})\?(?:.*&)?_state=(?P<state>[^&]+)")
HTPASSWD = """\
researcher:$2b$04$71CYctCwjMBGRvrC9dwaluStLa1bLj8TM0qAfbUDFW0jnc0egMZLa
reader:$2b$04$eXjVZY9p1F05TRqCdavUnu72238w0D4RN.xzCck571AwKNrj.Adsq
"""
MANIFESTS = ", ".join(f"application/vnd.{kind}+json" for kind in (
    "oci.image.manifest.v1", "oci.image.index.v1", "docker.distribution.manifest.v2", "docker.distribution.manifest.list.v2"))


class Registry:
    """One running registry. References to it begin with `name`. `record` has its requests. `tokens` is the server of tokens, or None. At
    `back.name` the registry asks for no login. Tests prepare content there, since these requests are neither recorded nor disturbed."""

    def __init__(self, kind, port=0, token_port=0, tls=False, storage=None, log=None, relative=False, second_host=False, resumable=False,
                 **token_options):
        self.kind, self._process = kind, None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mlk-registry-"))
        self.storage = pathlib.Path(storage or self.folder / "storage")
        self.tokens = self._front = self.second = self.back = None
        try:
            self.ca, context = make_certificates(self.folder) if tls else (None, None)
            self._start(relative)
            own = basic_authorization(USER, PASSWORD) if kind == "basic" else None
            self.back = Front(self._socket, authorization=own)
            if second_host:
                self.second = Front(self._socket, host="127.0.0.2", tls=context, authorization=own)
            if kind == "bearer":
                users = {USER: User(PASSWORD), READER: User(READER_PASSWORD, {".*": {"pull"}})}
                self.tokens = Tokens(users, tls=context, port=token_port, **token_options)
            self._front = Front(self._socket, port=port, tls=context, gate=self.tokens, elsewhere=self.second,
                                resume=self._with_true_offset if resumable else None,
                                out_of_order=self._is_out_of_order if resumable else None, log=log)
        except BaseException:
            self.stop()
            raise
        self.name, self.url, self.port, self.record = self._front.name, self._front.url, self._front.port, self._front.record
        self.plan, self.unmet = self._front.plan, self._front.unmet

    def _start(self, relative):
        self._socket = "@" + self.folder.name  # a socket with a name and no path, since a path could be too long
        (self.folder / "htpasswd").write_text(HTPASSWD)
        config = {
            "version": "0.1", "log": {"level": "warn", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(self.storage)}, "delete": {"enabled": True},
                        "maintenance": {"uploadpurging": {"enabled": False}}},
            "http": {"net": "unix", "addr": self._socket, "secret": SECRET, "relativeurls": relative}}
        if self.kind == "basic":
            config["auth"] = {"htpasswd": {"realm": "test", "path": str(self.folder / "htpasswd")}}
        self._config = self.folder / "config.yml"
        self._config.write_text(json.dumps(config))
        self.run()

    def _with_true_offset(self, path):
        """Returns the path with the true offset of the upload. docker-registry cannot resume an upload whose PATCH was cut, since the address of
        the session has an old offset. With the true offset in the address, docker-registry can resume the upload, as other registries can."""
        match = UPLOAD.search(path)
        if not match:
            return path
        state = json.loads(base64.urlsafe_b64decode(urllib.parse.unquote(match["state"]))[32:])
        state["Offset"] = self._stored(match)
        text = json.dumps(state).encode()
        signed = base64.urlsafe_b64encode(hmac.digest(SECRET.encode(), text, "sha256") + text).decode()
        return path.replace(match["state"], urllib.parse.quote(signed))

    def _is_out_of_order(self, method, path, headers):
        """Whether a part of an upload is not the next part. docker-registry does not check this itself."""
        match, begin = UPLOAD.search(path), re.match(r"(\d+)-", headers.get("Content-Range", ""))
        return bool(method == "PATCH" and match and begin and int(begin[1]) != self._stored(match))

    def _stored(self, upload):
        data = self.storage / f"docker/registry/v2/repositories/{upload['repository']}/_uploads/{upload['session']}/data"
        return data.stat().st_size if data.exists() else 0

    def run(self):
        """Starts the program. After `end`, it starts the program again with the stored content."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(["docker-registry", "serve", self._config], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_environment())
        try:
            wait_for_listener(socket.AF_UNIX, socket_address(self._socket), self._process)
        except RuntimeError as error:
            raise RuntimeError(f"{error}: " + (self.folder / "log").read_text()) from None

    def runs(self):
        return self._process is not None and self._process.poll() is None

    def end(self):
        """Ends the program. Clients still connect, since the front listens, but they get no answers."""
        if self._process:
            self._process.kill()
            self._process.wait()
        self._process = None

    def stop(self):
        for part in (self._front, self.second, self.back, self.tokens and self.tokens.front):
            if part:
                part.stop()
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    # Logins.

    def login(self, user=USER, password=PASSWORD):
        """The document that docker writes into config.json."""
        if self.kind == "anonymous":
            return {}
        return {"auths": {self.name: {"auth": basic_authorization(user, password).removeprefix("Basic ")}}}

    def write_login(self, folder, **who):
        """Writes config.json, and returns the variables with which programs find it."""
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.login(**who)))
        return {"DOCKER_CONFIG": str(folder), "REGISTRY_AUTH_FILE": str(folder / "config.json")}

    def secrets(self):
        """All secrets, which must not appear in any output."""
        known = self.tokens.secrets() if self.tokens else [PASSWORD, READER_PASSWORD]
        return [*known, *(basic_authorization(*who).removeprefix("Basic ") for who in ((USER, PASSWORD), (READER, READER_PASSWORD)))]

    # The content of the registry. These requests go past the front, so they are neither recorded nor disturbed.

    def ask(self, method, path, body=None, headers=None):
        """Returns (status, headers, body) of the registry's own answer."""
        connection = Upstream(self._socket)
        try:
            own = {"Authorization": basic_authorization(USER, PASSWORD)} if self.kind == "basic" else {}
            connection.request(method, path, body=body, headers={**own, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def repositories(self):
        return json.loads(self.ask("GET", "/v2/_catalog?n=1000")[2])["repositories"]

    def tags(self, repository):
        """The tags of the repository. A repository that does not exist has no tags."""
        status, _, body = self.ask("GET", f"/v2/{repository}/tags/list")
        return sorted(json.loads(body)["tags"] or []) if status == 200 else []

    def manifest(self, repository, reference):
        """The document of the manifest, or None."""
        status, _, body = self.ask("GET", f"/v2/{repository}/manifests/{reference}", headers={"Accept": MANIFESTS})
        return json.loads(body) if status == 200 else None

    def digest(self, repository, reference):
        return self.ask("HEAD", f"/v2/{repository}/manifests/{reference}", headers={"Accept": MANIFESTS})[1]["Docker-Content-Digest"]

    def blob(self, repository, digest):
        """The bytes of the blob, or None."""
        status, _, body = self.ask("GET", f"/v2/{repository}/blobs/{digest}")
        return body if status == 200 else None

    def broken(self, *repositories):
        """The errors in the images that tags name, in these repositories or in all of them: a blob is missing, or has other content than its
        digest says. Empty if there are no errors."""
        wrong, right = [], {}
        for repository in repositories or self.repositories():
            for tag in self.tags(repository):
                self._check(repository, tag, f"{repository}:{tag}", wrong, right)
        return wrong

    def _check(self, repository, reference, name, wrong, right):
        """Adds to `wrong`. `right`: the sizes of the blobs whose content is right, by their digests. The repositories share the content of their
        blobs, so each blob is read once."""
        document = self.manifest(repository, reference)
        if document is None:
            wrong.append(f"{name}: no manifest {reference}")
            return
        for part in document.get("manifests", []):
            self._check(repository, part["digest"], name, wrong, right)
        for part in [document["config"], *document["layers"]] if "config" in document else []:
            if right.get(part["digest"]) == part["size"] and self.ask("HEAD", f"/v2/{repository}/blobs/{part['digest']}")[0] == 200:
                continue
            content = self.blob(repository, part["digest"])
            if content is None:
                wrong.append(f"{name}: no blob {part['digest']}")
            elif (len(content), "sha256:" + hashlib.sha256(content).hexdigest()) != (part["size"], part["digest"]):
                wrong.append(f"{name}: wrong bytes in {part['digest']}")
            else:
                right[part["digest"]] = part["size"]

    def collect_garbage(self):
        """Collects garbage as an administrator does: afterwards all blobs without a manifest are gone."""
        self.end()
        subprocess.run(["docker-registry", "garbage-collect", "--delete-untagged", self._config], check=True, capture_output=True,
                       env=_environment(), timeout=120)
        self.run()

    def size(self):
        """The number of bytes in all stored blobs."""
        return sum(path.stat().st_size for path in self.storage.glob("docker/registry/v2/blobs/**/data"))


def _environment():
    # docker-registry would read these variables as settings.
    return {name: value for name, value in os.environ.items() if not name.startswith("REGISTRY_")}


def make_certificates(folder):
    """Makes a certificate authority for the test. Returns (path of its certificate, TLS context of a server with a certificate of it)."""
    authority, key, serving, serving_key = (folder / name for name in ("ca.crt", "ca.key", "serving.crt", "serving.key"))
    common = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    for more in (["-subj", "/CN=mlk-test-authority", "-addext", "basicConstraints=critical,CA:TRUE", "-keyout", key, "-out", authority],
                 ["-subj", "/CN=registry", "-CA", authority, "-CAkey", key, "-addext", "basicConstraints=critical,CA:FALSE",
                  "-addext", f"subjectAltName=IP:127.0.0.1,IP:127.0.0.2,DNS:localhost,IP:{wire.own_address()}", "-keyout", serving_key, "-out", serving]):
        subprocess.run([*common, *more], check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(serving, serving_key)
    return authority, context


@contextlib.contextmanager
def start(kind, **options):
    """A registry for as long as the context. Options: port, token_port, tls, relative (Location headers), second_host, resumable (an
    upload that was cut can be taken up), log, storage; with tokens also anonymous_pull, expires_in and fields."""
    registry = Registry(kind, **options)
    try:
        yield registry
    finally:
        registry.stop()


@contextlib.contextmanager
def far_away(seconds, storage):
    """Serves this storage by a registry with TLS and HTTP/2 behind a wire (wire.py). `ca` is the certificate of the registry's authority."""
    with tempfile.TemporaryDirectory() as folder:
        ca, _ = make_certificates(pathlib.Path(folder))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        config = {
            "version": "0.1", "log": {"level": "warn", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(storage)}},
            "http": {"addr": f"127.0.0.1:{port}", "tls": {"certificate": f"{folder}/serving.crt", "key": f"{folder}/serving.key"}}}
        file = pathlib.Path(folder) / "config.yml"
        file.write_text(json.dumps(config))
        process = subprocess.Popen(["docker-registry", "serve", file], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=_environment())
        try:
            wait_for_listener(socket.AF_INET, ("127.0.0.1", port), process)
            with wire.start(port, seconds) as far:
                far.ca = ca
                yield far
        finally:
            process.kill()
            process.wait()


def wait_for_listener(family, address, process):
    end = time.monotonic() + 30
    while True:
        try:
            with socket.socket(family) as attempt:
                attempt.connect(address)
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("docker-registry does not answer") from None
        time.sleep(0.02)


def anonymous(**options):
    return start("anonymous", **options)


def basic(**options):
    return start("basic", **options)


def bearer(**options):
    return start("bearer", **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["anonymous", "basic", "bearer"])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token-port", type=int, default=0)
    parser.add_argument("--tls", action="store_true", help="https, with an authority of its own, whose certificate is printed")
    parser.add_argument("--storage", help="a folder that stays; a scratch folder when not given")
    parser.add_argument("--log", help="append one line of JSON for each request")
    parser.add_argument("--plan", default="[]", help="the faults as JSON")
    options = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with start(options.kind, port=options.port, token_port=options.token_port, tls=options.tls, storage=options.storage, log=options.log) as registry:
        registry.plan(*json.loads(options.plan))
        if registry.ca:
            print(f"authority {registry.ca}")
        if options.kind != "anonymous":
            print(f"login {USER} {PASSWORD}")
        if registry.tokens:
            print(f"tokens {registry.tokens.front.name}")
        print(f"ready {registry.name}", flush=True)
        while not ended.wait(0.5):
            if not registry.runs():
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
