"""The registries of the tests themselves: what they ask for, what they record, and how they misbehave. These tests do not use mlk."""

import hashlib
import http.client
import json
import os
import random
import tarfile
import urllib.parse

import base_images
import crane
import mlk
import pytest
import registry
from registry_proxy import fault

pytestmark = pytest.mark.foreign

CONTENT = random.Random(1).randbytes(1000000)  # it cannot be compressed


def skopeo(images, *words, check=0, password=registry.PASSWORD, folder):
    env = images.write_login(folder / "login", password=password)
    if images.ca:
        env["SSL_CERT_FILE"] = str(images.ca)
    return mlk.run("skopeo", *words, check=check, env=env)


@pytest.fixture
def archive(tmp_path):
    """An image of one layer, as an OCI layout."""
    layout = tmp_path / "layout"
    (layout / "blobs/sha256").mkdir(parents=True)
    (layout / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    (tmp_path / "content").write_bytes(CONTENT)
    with tarfile.open(tmp_path / "layer.tar", "w") as tar:
        tar.add(tmp_path / "content", "content")

    def blob(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        (layout / "blobs/sha256" / digest).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}
    layer = blob((tmp_path / "layer.tar").read_bytes(), "layer.v1.tar")
    config = blob(json.dumps({"architecture": "amd64", "os": "linux", "config": {},
                              "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}).encode(), "config.v1+json")
    manifest = blob(json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
                                "layers": [layer]}).encode(), "manifest.v1+json")
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    return layout


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("kind", ["anonymous", "basic", "bearer"])
def test_a_registry_of_each_kind_stores_and_serves_an_image_and_refuses_a_wrong_password(kind, tls, archive, tmp_path):
    with registry.start(kind, tls=tls) as images:
        options = [] if tls else ["--dest-tls-verify=false", "--src-tls-verify=false"]
        skopeo(images, "copy", *options[:1], f"oci:{archive}", f"docker://{images.name}/team/x:1", folder=tmp_path)
        skopeo(images, "copy", *options[1:], f"docker://{images.name}/team/x:1", f"dir:{tmp_path}/copy", folder=tmp_path)
        assert images.tags("team/x") == ["1"]
        assert images.broken() == []
        assert len(CONTENT) < images.record.sent() < len(CONTENT) + 20000
        assert len(CONTENT) < images.record.received("GET", "/blobs/") < len(CONTENT) + 20000
        if kind != "anonymous":
            refused = skopeo(images, "inspect", *(["--tls-verify=false"] if not tls else []), f"docker://{images.name}/team/x:1", password="guess",
                             check=1, folder=tmp_path)
            assert registry.PASSWORD not in refused.stderr
    assert not images.folder.exists()


def test_the_function_named_broken_finds_a_tag_whose_image_lacks_a_layer(archive, tmp_path):
    with registry.anonymous() as images:
        skopeo(images, "copy", "--dest-tls-verify=false", f"oci:{archive}", f"docker://{images.name}/team/x:1", folder=tmp_path)
        layer = images.manifest("team/x", "1")["layers"][0]["digest"]
        images.ask("DELETE", f"/v2/team/x/blobs/{layer}")
        assert images.broken() == [f"team/x:1: no blob {layer}"]


def request(images, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", images.port, timeout=30)
    parts = urllib.parse.urlsplit(path)
    try:
        connection.request(method, parts._replace(scheme="", netloc="").geturl(), body=body, headers=headers or {})
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_a_resumable_registry_keeps_the_part_that_arrived_before_an_upload_was_cut(share):
    with registry.anonymous(resumable=True) as images:
        images.plan(fault("cut", "PATCH", share=share))
        session = request(images, "POST", "/v2/team/x/blobs/uploads/")[0].headers["Location"]
        with pytest.raises((http.client.HTTPException, OSError)):
            request(images, "PATCH", session, body=CONTENT)
        part = int(len(CONTENT) * share)
        assert images.record.sent("PATCH") == part
        assert not images.unmet()
        answer, _ = mlk.wait_until(lambda: (got := request(images, "GET", session))[0].headers.get("Range") == f"0-{part - 1}" and got, "the part that came")
        rest, _ = request(images, "PATCH", answer.headers["Location"], body=CONTENT[part:], headers={"Content-Range": f"{part}-{len(CONTENT) - 1}"})
        digest = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
        assert request(images, "PUT", rest.headers["Location"] + f"&digest={digest}")[0].status == 201


def test_the_proxy_of_a_test_registry_changes_answers_as_the_plan_says():
    digest = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
    with registry.anonymous(second_host=True) as images:
        session = request(images, "POST", "/v2/team/x/blobs/uploads/")[0].headers["Location"]
        request(images, "PUT", session + f"&digest={digest}", body=CONTENT)
        blob = f"/v2/team/x/blobs/{digest}"
        images.plan(fault("wrong-bytes", "GET", nth=1), fault("short", "GET", nth=2), fault("wrong-digest", "HEAD"), fault("redirect", "GET", nth=3),
                    fault("cut", "GET", nth=4, share=1), fault("status", "GET", nth=5), fault("forget", "PATCH"))
        wrong = request(images, "GET", blob)[1]
        assert [at for at, byte in enumerate(CONTENT) if byte != wrong[at]] == [len(CONTENT) // 2]
        assert request(images, "GET", blob)[1] == CONTENT[:-1]
        assert request(images, "HEAD", blob)[0].headers["Docker-Content-Digest"] != digest
        there = request(images, "GET", blob)[0]
        assert (there.status, there.headers["Location"]) == (307, f"http://127.0.0.2:{images.second.port}{blob}")
        with pytest.raises(http.client.IncompleteRead) as cut:
            request(images, "GET", blob)
        assert cut.value.partial == CONTENT[:-1]
        late = request(images, "GET", blob)[0]
        assert (late.status, late.headers["Retry-After"]) == (429, "1")
        session = request(images, "POST", "/v2/team/x/blobs/uploads/")[0].headers["Location"]
        for _ in range(2):
            assert b"BLOB_UPLOAD_UNKNOWN" in request(images, "PATCH", session, body=b"x")[1]
        assert not images.unmet()


def test_a_token_grants_only_the_rights_of_its_user_and_can_be_revoked(archive, tmp_path):
    with registry.bearer() as images:
        def push(**who):
            env = images.write_login(tmp_path / "login", **who)
            return mlk.run("skopeo", "copy", "--dest-tls-verify=false", f"oci:{archive}", f"docker://{images.name}/team/x:1", env=env)
        assert push(user=registry.READER, password=registry.READER_PASSWORD).code != 0
        assert images.tokens.issued[-1].scopes == {"team/x": {"pull"}}
        assert push().code == 0
        assert images.tokens.issued[-1].scopes == {"team/x": {"pull", "push"}}
        images.plan(fault("revoke", "PATCH"))
        images.ask("DELETE", f"/v2/team/x/manifests/{images.digest('team/x', '1')}")
        images.collect_garbage()
        assert "unauthorized" in push().stderr
        assert not images.unmet()
        assert os.path.exists(images.folder)


def test_base_images_can_be_pushed_in_every_form():
    with registry.anonymous() as images:
        layers = {}
        for form in base_images.FORMS:
            digest = base_images.push(images, "base/small", form, form=form)
            layers[form] = images.manifest("base/small", digest)["layers"][0]["mediaType"].rpartition(".")[2]
        assert layers == {"oci": "tar+gzip", "docker": "gzip", "zstd": "tar+zstd"}
        index, own = base_images.push_index(images, "base/small", "3")
        assert own in [part["digest"] for part in images.manifest("base/small", index)["manifests"]]
        assert "PASS" in mlk.run(crane.crane(), "validate", "--remote", f"{images.name}/base/small:3", check=0, timeout=600).stdout
        assert images.broken() == []
