"""mlk and registries that misbehave. mlk tries again after a fault that passes, and reports a lasting fault in one sentence. Every tag names
a whole image."""

import functools
import os
import random
import re
import signal
import subprocess
import time

import base_images
import mlk
import pytest
import registry
from image_builds import Builder, said_clearly
from registry_proxy import error_body, fault

CONTENT = random.Random(7).randbytes(1 << 20)
TARGET = "team/trainer"


@pytest.fixture
def made():
    """made(registry) is a Builder whose base is in that registry. Its code has a megabyte that cannot be compressed."""
    folders = []

    def make(images, folder, login=None, base=None):
        builder = Builder(folder, f"{(base or images).name}/base/small:test", images.login() if login is None else login)
        base_images.push(base or images, "base/small")
        (builder.code / "main.sh").write_text("echo hello\n")
        (builder.code / "data").write_bytes(CONTENT)
        folders.append(folder)
        return builder
    return make


def is_whole(images, digest, tag="1"):
    assert images.digest(TARGET, tag) == digest
    assert images.broken() == []


# Faults that pass.

PASSING = {
    "429 with the time to wait": [fault("status", "PUT", "/manifests/", status=429)],
    "429 at the first request": [fault("status", "GET", "/manifests/", status=429)],
    "429 at the begin of an upload": [fault("status", "POST", "/blobs/uploads/", status=429)],
    "503 for a while": [fault("status", "POST", "/blobs/uploads/", status=503, times=3)],
    "500 in the middle of an upload": [fault("status", "UPLOAD", status=500, share=0.5)],
    "500 for the manifest": [fault("status", "PUT", "/manifests/", status=500)],
    "an upload cut at its begin": [fault("cut", "UPLOAD", share=0)],
    "an upload cut after a quarter": [fault("cut", "UPLOAD", share=0.25)],
    "an upload cut after a half": [fault("cut", "UPLOAD", share=0.5)],
    "an upload cut after three quarters": [fault("cut", "UPLOAD", share=0.75)],
    "an upload cut before its answer": [fault("cut", "UPLOAD", share=1)],
    "the manifest cut before its answer": [fault("cut", "PUT", "/manifests/", share=1)],
    "the manifest cut in the middle": [fault("cut", "PUT", "/manifests/", share=0.5)],
    "the base's manifest cut": [fault("cut", "GET", "/manifests/")],
    "the base's configuration cut": [fault("cut", "GET", "/blobs/", share=0.5)],
    "an upload session that is forgotten": [fault("forget", "UPLOAD")],
    "a mount that is not done": [fault("status", "POST", "mount=", status=404)],
    "a slow answer": [fault("delay", "PUT", "/manifests/", seconds=2)],
}


def with_upload(rules):
    """UPLOAD means the request with most of the layer: a PATCH, or for a small layer the PUT at the end."""
    return [{**rule, "method": "PUT", "path": "/blobs/uploads/.*digest="} if rule["method"] == "UPLOAD" else rule for rule in rules]


@pytest.mark.parametrize("resumable", [False, True], ids=["forgetful", "resumable"])
@pytest.mark.parametrize("what", PASSING)
def test_mlk_build_tries_again_and_succeeds_if_a_fault_of_the_registry_is_temporary(what, resumable, made, tmp_path):
    with registry.anonymous(resumable=resumable) as images:
        builder = made(images, tmp_path)
        images.plan(*with_upload(PASSING[what]))
        pushed = builder.build("-t", f"{images.name}/{TARGET}:1").stdout.strip()
        assert images.unmet() == []
        is_whole(images, pushed.split("@")[1])


@functools.lru_cache
def long_content():
    """Content that mlk sends in three parts, of which the first two have 16 MB."""
    return random.Random(3).randbytes(34 << 20)


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75, 1])
def test_mlk_build_sends_only_the_missing_part_of_a_long_upload_after_the_upload_was_cut(share, made, tmp_path):
    with registry.anonymous(resumable=True) as images:
        builder = made(images, tmp_path)
        (builder.code / "data").write_bytes(long_content())
        images.plan(fault("cut", "PATCH", share=share, nth=2))
        pushed = builder.build("-t", f"{images.name}/{TARGET}:1").stdout.strip()
        assert images.unmet() == []
        is_whole(images, pushed.split("@")[1])
        assert images.record.sent(path="/blobs/") < len(long_content()) * 1.05


def test_mlk_build_gets_a_new_token_if_a_token_ends_early(made, tmp_path):
    with registry.bearer() as images:
        builder = made(images, tmp_path)
        for at in (("PUT", "/manifests/"), ("PUT", "digest="), ("POST", "/blobs/uploads/"), ("HEAD", "/blobs/")):
            rule = fault("revoke", *at)
            (builder.code / "main.sh").write_text(f"echo {rule}\n")
            images.plan(rule)
            pushed = builder.build("-t", f"{images.name}/{TARGET}:1").stdout.strip()
            assert images.unmet() == []
            is_whole(images, pushed.split("@")[1])


def test_mlk_build_sends_a_manifest_again_a_few_times_if_the_registry_refuses_the_digest_of_the_manifest(made, tmp_path):
    refusal = {"status": 400, "body": {"errors": [{"code": "DIGEST_INVALID", "message": "provided digest did not match uploaded content"}]}}
    with registry.anonymous() as images:
        builder = made(images, tmp_path)
        images.plan(fault("status", "PUT", "/manifests/", times=2, **refusal))
        pushed = builder.build("-t", f"{images.name}/{TARGET}:1").stdout.strip()
        assert images.unmet() == []
        is_whole(images, pushed.split("@")[1])
        images.plan(fault("status", "PUT", "/manifests/", times=0, **refusal))
        assert "DIGEST_INVALID" in said_clearly(builder.build("-t", f"{images.name}/{TARGET}:2", check=4))


def test_mlk_build_gets_a_new_token_if_the_first_token_ends_before_its_first_use(made, tmp_path):
    with registry.bearer() as images:
        builder = made(images, tmp_path)
        images.plan(fault("revoke", "GET", "/manifests/", nth=2))  # the first request has no token; its answer says where to get one
        pushed = builder.build("-t", f"{images.name}/{TARGET}:1").stdout.strip()
        assert images.unmet() == []
        is_whole(images, pushed.split("@")[1])


@pytest.mark.parametrize("options", [{"expires_in": 1}, {"expires_in": None}, {"expires_in": 10**12}, {"fields": ("token",)}, {"fields": ("access_token",)}],
                         ids=str)
def test_mlk_build_accepts_tokens_of_any_lifetime_in_the_field_token_or_in_the_field_access_token(options, made, tmp_path):
    with registry.bearer(**options) as images:
        builder = made(images, tmp_path)
        is_whole(images, builder.build("-t", f"{images.name}/{TARGET}:1").stdout.strip().split("@")[1])


def test_mlk_build_asks_for_no_more_tokens_than_it_needs(made, tmp_path):
    with registry.bearer() as images:
        builder = made(images, tmp_path)
        images.tokens.issued.clear()
        builder.build("-t", f"{images.name}/{TARGET}:1")
        assert len(images.tokens.issued) <= 4, images.tokens.issued   # one for the base, one for the pushed image, one for both at once
        assert {token.user for token in images.tokens.issued} == {registry.USER}


def test_mlk_build_exchanges_an_identity_token_for_access_tokens(made, tmp_path):
    with registry.bearer() as images:
        login = {"auths": {images.name: {"auth": "", "identitytoken": images.tokens.identity(registry.USER)}}}
        builder = made(images, tmp_path, login)
        images.tokens.issued.clear()
        builder.build("-t", f"{images.name}/{TARGET}:1")
        assert {(token.user, token.how) for token in images.tokens.issued} == {(registry.USER, "refresh")}


def test_mlk_build_needs_no_login_for_a_base_that_everybody_may_pull(made, tmp_path):
    with registry.bearer(anonymous_pull=True) as images:
        builder = made(images, tmp_path, login={})
        builder.build_layout()
        refused = builder.build("-t", f"{images.name}/{TARGET}:1", check=4)
        assert f"docker login {images.name}" in said_clearly(refused)


# Faults that last.

def manifest(**changes):
    blob = {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": "sha256:" + "1" * 64, "size": 10}
    config = {**blob, "mediaType": "application/vnd.oci.image.config.v1+json"}
    return {"schemaVersion": 2, "mediaType": base_images.MANIFEST, "config": config, "layers": [blob], **changes}


def answered(document):
    return fault("status", "GET", "/base/small/manifests/", times=0, status=200, headers={"Content-Type": base_images.MANIFEST}, body=document)


def uploads_to(location):
    return fault("headers", "POST", "/blobs/uploads/", times=0, headers={"Location": location})


LAYER = manifest()["layers"][0]
LASTING = {
    "a digest that is not the manifest's": ([fault("wrong-digest", "GET", "/manifests/", times=0)], 1, "that does not match its digest"),
    "wrong bytes in the configuration": ([fault("wrong-bytes", "GET", "/blobs/", times=0)], 1, "other content than its digest says"),
    "a manifest of 10 MB": ([answered(manifest(annotations={"x": "y" * 10_000_000}))], 1, "too large"),
    "a layer that lies elsewhere": ([answered(manifest(layers=[{**LAYER, "urls": ["http://127.0.0.2:1/layer"]}]))], 1, "lies outside of its registry"),
    "a digest that is a path": ([answered(manifest(layers=[{**LAYER, "digest": "sha256:../../../etc/passwd"}]))], 1, "no digest of sha256"),
    "a configuration that is a path": ([answered(manifest(config={**LAYER, "digest": "../x"}))], 1, "no digest of sha256"),
    "a layer without a size": ([answered(manifest(layers=[{**LAYER, "size": -1}]))], 1, "no size"),
    "too many layers": ([answered(manifest(layers=[LAYER] * 5000))], 1, "more than"),
    "a configuration that is too large": ([answered(manifest(config={**LAYER, "size": 1 << 40}))], 1, "too large"),
    "no JSON": ([answered(b"<html>please log in</html>")], 1, "image 127.0.0.1:"),
    "JSON of great depth": ([answered(b"[" * 100000)], 1, "image 127.0.0.1:"),
    "schema 1": ([answered({"schemaVersion": 1, "fsLayers": []})], 1, "schema 1"),
    "no image": ([fault("status", "GET", "/manifests/", status=404, times=0)], 3, "has no image"),
    "a refusal": ([fault("status", "GET", "/manifests/", status=403, times=0, body=error_body("DENIED", "no quota is left"))], 4, "no quota is left"),
    "uploads elsewhere in the machine's link": ([uploads_to("http://169.254.169.254/upload")], 4, "does not go there"),
    "uploads to no URL": ([uploads_to("file:///etc/passwd")], 4, "not a valid URL"),
    "a session without a place": ([uploads_to(None)], 4, "names no place"),
    "a place with a blank": ([uploads_to("/v2/x y")], 4, "not a valid URL"),
    "a refusal of the manifest": ([fault("status", "PUT", "/manifests/", status=400, times=0, body=error_body("MANIFEST_INVALID", "not in this house"))], 4,
                                  "not in this house"),
    "an upload that is refused": ([fault("status", "PUT", "digest=", status=403, times=0)], 4, "does not let you make an upload"),
    "a blob that is stored as another": ([fault("wrong-digest", "PUT", "digest=", times=0)], 4, "other bytes than were sent"),
    "a manifest that is stored as another": ([fault("wrong-digest", "PUT", "/manifests/", times=0)], 1, "another digest"),
}


@pytest.mark.parametrize("what", LASTING)
def test_mlk_build_fails_with_one_sentence_if_a_fault_of_the_registry_lasts(what, made, tmp_path):
    rules, code, sentence = LASTING[what]
    with registry.anonymous() as images:
        builder = made(images, tmp_path)
        images.plan(*rules)
        refused = builder.build("-t", f"{images.name}/{TARGET}:1", check=code)
        assert re.search(sentence, said_clearly(refused)), refused
        assert images.unmet() == []
        assert images.broken() == []
        if "stored as another" not in what or "blob" in what:
            assert images.tags(TARGET) == []
        images.plan()
        is_whole(images, builder.build("-t", f"{images.name}/{TARGET}:1").stdout.strip().split("@")[1])


REALMS = {"http://169.254.169.254/token": "this machine's link", "ftp://127.0.0.1/token": "not a valid URL", "file:///etc/passwd": "not a valid URL",
          "http://user:pass@127.0.0.1/token": "not a valid URL", "nonsense": "not a valid URL", "": ""}


@pytest.mark.parametrize("realm", REALMS)
def test_mlk_build_asks_no_token_server_at_a_foreign_or_invalid_address(realm, made, tmp_path):
    with registry.anonymous() as images:
        builder = made(images, tmp_path, {"auths": {images.name: {"username": registry.USER, "password": registry.PASSWORD}}})
        images.plan(fault("status", "GET", times=0, status=401, headers={"WWW-Authenticate": f'Bearer realm="{realm}",service="x"'}))
        refused = builder.build("-t", f"{images.name}/{TARGET}:1", check=4)
        assert REALMS[realm] in said_clearly(refused)
        assert [each for each in images.record.select() if "Authorization" in each.headers] == []


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer realm=", 'Bearer realm="', "Negotiate", "Digest realm=x, nonce=y", 'Basic realm="\\',
                                    "," * 1000, "Bearer " + "a=b," * 1000])
def test_mlk_build_fails_with_one_sentence_if_the_registry_sends_a_useless_login_challenge(header, made, tmp_path):
    with registry.anonymous() as images:
        builder = made(images, tmp_path)
        images.plan(fault("status", "GET", times=0, status=401, headers={"WWW-Authenticate": header}))
        said = said_clearly(builder.build("-t", f"{images.name}/{TARGET}:1", check=4))
        assert re.search(f"registry {images.name} (does not let you use|sends mlk for a token to an address)", said), said


@pytest.mark.parametrize("kind", ["basic", "bearer"])
def test_mlk_build_reports_a_wrong_password_once_and_says_what_to_do(kind, made, tmp_path):
    with registry.start(kind) as images:
        builder = made(images, tmp_path, images.login(password="guess"))
        images.record.clear()
        refused = builder.build("-t", f"{images.name}/{TARGET}:1", check=4)
        assert f"docker login {images.name}" in said_clearly(refused)
        assert images.record.count() < 10  # registries lock an account after many wrong passwords


def test_mlk_build_cannot_push_with_a_login_that_may_only_read(made, tmp_path):
    with registry.bearer() as images:
        builder = made(images, tmp_path, images.login(registry.READER, registry.READER_PASSWORD))
        images.record.clear()
        assert "does not let you" in said_clearly(builder.build("-t", f"{images.name}/{TARGET}:1", check=4))
        assert images.record.count() < 20
        assert images.tags(TARGET) == []


# Half an image.

def test_mlk_build_succeeds_and_every_tag_has_a_whole_image_if_the_connection_is_cut_at_any_place(made, tmp_path):
    with registry.anonymous() as images:
        builder = made(images, tmp_path)
        images.record.clear()
        builder.build("-t", f"{images.name}/count:1")
        writes = {method: images.record.count(method) for method in ("POST", "PUT", "PATCH")}
        assert sum(writes.values()) >= 4
        at = 0
        for method, count in writes.items():
            for nth in range(1, count + 1):
                for share in (0, 0.5, 1):
                    at += 1
                    (builder.code / "main.sh").write_text(f"echo {at}\n")
                    images.plan(fault("cut", method, nth=nth, share=share))
                    result = builder.build("-t", f"{images.name}/cut{at}:1", check=None)
                    assert images.unmet() == [], (method, nth, share)
                    assert images.broken(f"cut{at}") == [], (method, nth, share)
                    assert images.tags(f"cut{at}") == ["1"] * (result.code == 0), result
                    assert result.code == 0, (method, nth, share, result)
        assert images.broken() == []   # no later build has damaged an earlier image


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("where", [("POST", "/blobs/uploads/"), ("PUT", "digest="), ("PUT", "/manifests/")], ids=["begin", "upload", "manifest"])
def test_mlk_build_stores_no_tag_when_a_signal_ends_it_but_a_repeated_build_succeeds(where, end, made, tmp_path):
    with registry.anonymous() as images:
        builder = made(images, tmp_path)
        images.plan(fault("stall", *where))
        process = subprocess.Popen(builder.command("-t", f"{images.name}/{TARGET}:1"), env={**os.environ, **builder.env}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            mlk.wait_until(lambda: images.unmet() == [], "the request that is not answered")
            process.send_signal(end)
            process.communicate(timeout=30 * mlk.SLOW)
        finally:
            process.kill()
            process.wait()
        if end == signal.SIGINT:
            assert process.returncode == 130
        assert images.tags(TARGET) == []
        images.plan()
        is_whole(images, builder.build("-t", f"{images.name}/{TARGET}:1").stdout.strip().split("@")[1])
        left = [path.name for path in (tmp_path / "home/cache").rglob("*.tmp-*")]
        assert end == signal.SIGKILL or left == [], left


def test_mlk_build_says_that_nothing_listens_if_the_registry_is_down(made, tmp_path):
    with registry.anonymous() as images:
        builder = made(images, tmp_path)
    refused = builder.build("-t", f"{images.name}/{TARGET}:1", check=4, timeout=180)
    assert f"registry {images.name} cannot be reached" in said_clearly(refused)
    assert "nothing listens there" in refused.stderr


def test_mlk_build_waits_until_a_registry_that_went_down_is_up_again(made, tmp_path):
    with registry.anonymous() as images:
        builder = made(images, tmp_path)
        images.plan(fault("stall", "PUT", "/manifests/", nth=99))
        process = subprocess.Popen(builder.command("-t", f"{images.name}/{TARGET}:1"), env={**os.environ, **builder.env}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        images.end()
        time.sleep(2)
        images.run()
        said, _ = process.communicate(timeout=120 * mlk.SLOW)
        assert process.returncode == 0
        is_whole(images, said.strip().split("@")[1])


# Who gets the authorization, and which blobs are sent.

def test_mlk_build_sends_no_authorization_to_the_host_of_a_redirect(made, tmp_path):
    for kind in ("basic", "bearer"):
        with registry.start(kind, second_host=True) as images, registry.anonymous() as other:
            builder = made(images, tmp_path / kind)
            images.plan(fault("redirect", "GET", "/blobs/", times=0))
            digest = builder.build("-t", f"{other.name}/{TARGET}:1").stdout.strip().split("@")[1]
            is_whole(other, digest)
            assert images.second.record.count("GET", "/blobs/") >= 2  # the configuration, and a layer that mlk copies from registry to registry
            assert [each for each in images.second.record.select() if "Authorization" in each.headers] == []


def test_mlk_build_fails_if_a_redirect_leads_to_itself(made, tmp_path):
    with registry.anonymous(second_host=True) as images:
        builder = made(images, tmp_path)
        images.plan(fault("redirect", "GET", "/blobs/", times=0, to="/v2/base/small/blobs/round"))
        assert "does not go there" in said_clearly(builder.build("-t", f"{images.name}/{TARGET}:1", check=4))
        assert images.record.count() < 30


def test_mlk_build_sends_no_authorization_if_an_upload_goes_to_another_host(made, tmp_path):
    with registry.basic(second_host=True) as images:
        builder = made(images, tmp_path)
        images.plan(fault("headers", "POST", "/blobs/uploads/", times=0, headers={"Location": images.second.url + "/v2/elsewhere/blobs/uploads/1"}))
        builder.build("-t", f"{images.name}/{TARGET}:1", check=None, timeout=180)
        assert images.second.record.count() > 0
        assert [each for each in images.second.record.select() if "Authorization" in each.headers] == []
        assert images.tags(TARGET) == []


def test_mlk_build_does_not_send_blobs_that_the_registry_has(made, tmp_path):
    with registry.anonymous() as images:
        builder = made(images, tmp_path)
        images.record.clear()
        first = builder.build("-t", f"{images.name}/{TARGET}:1")
        assert images.record.sent() < 1.1 * len(CONTENT)   # the base was mounted
        assert re.search(r"sent 1 layer,", first.stderr)
        images.record.clear()
        second = builder.build("-t", f"{images.name}/{TARGET}:1")
        assert (second.stdout, images.record.sent()) == (first.stdout, 0)
        builder.build("-t", f"{images.name}/{TARGET}:2")
        assert images.record.sent() < 5000   # a manifest
        (builder.code / "main.sh").write_text("echo changed\n")
        images.record.clear()
        changed = builder.build("-t", f"{images.name}/{TARGET}:3")
        assert changed.stdout != first.stdout
        assert images.record.received("GET", "/blobs/") < 5000   # mlk never fetches layers of the base


def test_mlk_build_copies_the_whole_base_image_if_the_base_is_in_another_registry(made, tmp_path):
    with registry.anonymous() as images, registry.basic() as base:
        builder = made(images, tmp_path, login=base.login(), base=base)
        digest = builder.build("-t", f"{images.name}/{TARGET}:1").stdout.strip().split("@")[1]
        is_whole(images, digest)
        assert base.record.received("GET", "/blobs/") > 500000
        base.plan(fault("cut", "GET", "/blobs/sha256:[0-9a-f]*$", nth=2, share=0.5))
        (builder.code / "main.sh").write_text("echo again\n")
        builder.build("-t", f"{images.name}/other:1")
        assert base.unmet() == []
        assert images.broken() == []


def test_mlk_build_asks_a_mirror_first_and_then_the_registry_if_the_mirror_is_broken(made, tmp_path):
    with registry.anonymous() as images, registry.anonymous() as mirror:
        builder = made(images, tmp_path)
        base_images.push(mirror, "base/small")
        env = {"MLK_REGISTRY_MIRRORS": f"{images.name}={mirror.name}"}
        images.record.clear()
        _, first = builder.build_layout("first", env=env)
        assert images.record.count() == 0
        assert mirror.record.received("GET", "/blobs/") > 0
        mirror.plan(fault("status", "GET", times=0, status=404))
        _, second = builder.build_layout("second", env=env)
        assert first.digest == second.digest
        assert images.record.count("GET", "/manifests/") > 0


@pytest.mark.parametrize("kind", ["anonymous", "bearer"])
def test_mlk_build_trusts_a_registry_if_the_user_has_stored_the_certificate_authority_of_this_registry(kind, made, tmp_path):
    with registry.start(kind, tls=True) as images:
        folder = tmp_path / "home/config/containers/certs.d" / images.name
        base_images.push(images, "base/small")
        builder = Builder(tmp_path, f"{images.name}/base/small:test", images.login())
        (builder.code / "main.sh").write_text("echo hello\n")
        refused = builder.build("-t", f"{images.name}/{TARGET}:1", check=4)
        assert "its certificate is not trusted" in said_clearly(refused)
        assert f"certs.d/{images.name}/ca.crt" in refused.stderr
        is_whole(images, builder.build("--insecure", "-t", f"{images.name}/{TARGET}:1").stdout.strip().split("@")[1])
        folder.mkdir(parents=True)
        (folder / "ca.crt").write_bytes(images.ca.read_bytes())
        is_whole(images, builder.build("-t", f"{images.name}/{TARGET}:2").stdout.strip().split("@")[1], "2")
