"""Passwords and tokens for registries appear nowhere: not in outputs, errors, layers, caches or the objects of a cluster."""

import base64
import json
import os
import re

import base_images
import mlk
import pytest
import registry
from image_builds import Builder
from registry_proxy import fault

PLANTED = "pl4nted%41s3cret"
TARGET = "team/trainer"


def everything(*planted):
    """All forms in which these secrets could appear."""
    forms = set()
    for each in planted:
        forms |= {each, base64.b64encode(each.encode()).decode().rstrip("="), base64.b64encode(f"{registry.USER}:{each}".encode()).decode().rstrip("=")}
    return forms


def seen(text, forms):
    data = text if isinstance(text, bytes) else text.encode()
    return [form for form in forms if form.encode() in data]


def files_below(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.fixture
def helper(tmp_path):
    """helper(script) writes this script as the program docker-credential-planted. Returns the variable by which mlk finds the program."""
    def write(script):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / "docker-credential-planted"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return {"PATH": f"{folder}:{os.environ['PATH']}"}
    return write


def builder_of(images, folder, login):
    base_images.push(images, "base/small")
    builder = Builder(folder, f"{images.name}/base/small:test", login)
    (builder.code / "main.sh").write_text("echo hello\n")
    return builder


@pytest.mark.parametrize("tokens", [{}, {"expires_in": 1}], ids=["tokens", "short tokens"])
@pytest.mark.parametrize("kind", ["basic", "bearer"])
def test_logins_and_tokens_appear_in_no_output_and_no_layer_and_no_cache(kind, tokens, tmp_path):
    with registry.start(kind, **(tokens if kind == "bearer" else {})) as images:
        builder = builder_of(images, tmp_path, images.login())
        target = f"{images.name}/{TARGET}:1"
        outputs = []

        def say(*command, **options):
            outputs.append(mlk.run(mlk.MLK, *command, env=builder.env, timeout=180, **options))
        say("build", builder.experiment(), "-t", target, check=0)
        say("build", builder.experiment(), "--output", f"oci:{tmp_path}/layout", check=0)
        say("build", builder.experiment(), "--output", f"docker-archive:{tmp_path}/archive.tar", check=0)
        for words in (["ls", f"{images.name}/{TARGET}"], ["inspect", target], ["inspect", target, "-o", "json"], ["diff", target, builder.image]):
            say("image", *words)
        images.plan(fault("status", "GET", times=0, status=403))
        say("image", "inspect", target)
        images.plan(fault("cut", "GET", times=2))
        say("image", "inspect", target)
        forms = everything(*images.secrets())
        for result in outputs:
            assert seen(result.stdout + result.stderr, forms) == [], result
        for path in [*files_below(images.storage), *files_below(tmp_path)]:
            if path.name != "config.json":
                assert seen(path.read_bytes(), forms) == [], path


HELPERS = {
    "a helper that says too much": ('echo "debug: %s" >&2; echo \'{"ServerURL":"x","Username":"researcher","Secret":"%s"}\'', 4),
    "a helper that fails": ("echo %s; echo %s >&2; exit 7", 1),
    "a helper that prints no JSON": ('echo "Secret: %s"; echo %s >&2', 1),
    "a helper whose JSON is cut": ('printf \'{"Username":"researcher","Secret":"%s\'; echo %s >&2', 1),
    "a helper that prints another kind": ('echo \'["%s", "%s"]\'', 1),
    "a helper of two lines": ('printf \'{"Username":"researcher","Secret":"%s\\r\\nX: %s"}\'', None),
}


@pytest.mark.parametrize("what", HELPERS)
@pytest.mark.parametrize("where", ["credsStore", "credHelpers"])
def test_mlk_build_does_not_show_the_output_of_a_credential_helper(what, where, helper, tmp_path):
    script, code = HELPERS[what]
    with registry.basic() as images:
        builder = builder_of(images, tmp_path, {where: "planted" if where == "credsStore" else {images.name: "planted"}})
        result = builder.build("-t", f"{images.name}/{TARGET}:1", env=helper(script.replace("%s", PLANTED)), check=None)
        assert result.code == code or (code is None and result.code in (1, 4)), result
        assert seen(result.stdout + result.stderr, everything(PLANTED)) == []
        assert "\r" not in result.stderr


def test_mlk_build_uses_the_login_that_a_credential_helper_gives_for_the_registry(helper, tmp_path):
    with registry.basic() as images:
        builder = builder_of(images, tmp_path, {"credHelpers": {images.name: "planted"}})
        answer = json.dumps({"Username": registry.USER, "Secret": registry.PASSWORD})
        env = helper(f'read server; test "$1 $server" = "get {images.name}" && echo \'{answer}\'')
        builder.build("-t", f"{images.name}/{TARGET}:1", env=env)


LOGIN_FILES = {
    "cut": '{"auths": {"x": {"auth": "%s',
    "no base64": '{"auths": {"NAME": {"auth": "%s!"}}}',
    "no colon": json.dumps({"auths": {"NAME": {"auth": base64.b64encode(PLANTED.encode()).decode()}}}),
    "a string": '"%s"',
    "a login that is a string": '{"auths": {"NAME": "%s"}}',
    "a number": '{"auths": {"NAME": {"auth": 12345}}, "%s": %s}',
    "twice": '{"auths": {"%s": 1, "%s": 1}}',
    "a wrong password": json.dumps({"auths": {"NAME": {"auth": base64.b64encode(f"{registry.USER}:{PLANTED}".encode()).decode()}}}),
    "a password with a line": json.dumps({"auths": {"NAME": {"username": "a", "password": f"{PLANTED}\r\nX-Evil: {PLANTED}"}}}),
    "an identity token with a line": json.dumps({"auths": {"NAME": {"identitytoken": f"{PLANTED}\r\nX-Evil: {PLANTED}"}}}),
}


@pytest.mark.parametrize("kind", ["basic", "bearer"])
@pytest.mark.parametrize("what", LOGIN_FILES)
def test_mlk_build_does_not_show_the_content_of_a_wrong_login_file(what, kind, tmp_path):
    with registry.start(kind) as images:
        builder = builder_of(images, tmp_path, {})
        (tmp_path / "home/.docker/config.json").write_text(LOGIN_FILES[what].replace("%s", PLANTED).replace("NAME", images.name))
        result = builder.build("-t", f"{images.name}/{TARGET}:1", check=None)
        assert result.code in (1, 4), result
        assert seen(result.stdout + result.stderr, everything(PLANTED)) == [], result
        fronts = [images.record, *([images.tokens.front.record] if images.tokens else [])]
        assert not any("X-Evil" in each.headers for record in fronts for each in record.select())


def test_mlk_refuses_a_login_in_an_address_and_does_not_show_the_login(tmp_path):
    with registry.basic() as images:
        builder = builder_of(images, tmp_path, {})
        inside = f"{registry.USER}:{PLANTED}@{images.name}"
        outputs = []
        for address in (inside, f"http://{inside}", f"https://{inside}"):
            outputs.append(builder.build("-t", f"{address}/{TARGET}:1", check=None))
            outputs.append(builder.build("-t", f"{images.name}/{TARGET}:1", "--base", f"{address}/base/small:test", check=None))
            outputs.append(builder.build(env={"MLK_REGISTRY": address}, check=None))
            outputs.append(builder.build("-t", f"{images.name}/{TARGET}:1", env={"MLK_REGISTRY_MIRRORS": f"{images.name}={address}"}, check=None))
            outputs.append(builder.build("-t", f"{images.name}/{TARGET}:1", env={"MLK_REGISTRY_MIRRORS": f"{address}={images.name}"}, check=None))
            outputs.append(builder.build(more=f"registry: {address}\n", check=None))
            builder.image, own = f"{address}/base/small:test", builder.image
            outputs.append(builder.build("-t", f"{images.name}/{TARGET}:1", check=None))
            builder.image = own
            for words in (["ls", f"{address}/{TARGET}"], ["inspect", f"{address}/{TARGET}:1"], ["diff", f"{address}/a:1", f"{address}/b:1"]):
                outputs.append(mlk.run(mlk.MLK, "image", *words, env=builder.env))
        for result in outputs:
            assert result.code != 0, result
            # The user's shell shows the address anyway. The messages of mlk may go into a log, so they must not show it.
            assert PLANTED not in result.stdout + result.stderr, result


def test_mlk_build_does_not_show_the_signature_in_a_redirect(tmp_path):
    with registry.anonymous() as images:
        builder = builder_of(images, tmp_path, {})
        for to in (f"http://127.0.0.1:1/blob?X-Signature={PLANTED}", f"http://169.254.169.254/?X-Signature={PLANTED}",
                   f"http://user:{PLANTED}@127.0.0.1:1/blob", f"gopher://{PLANTED}/", f"http://127.0.0.1:{images.port}/v2/?{PLANTED}"):
            images.plan(fault("redirect", "GET", "/blobs/", times=0, to=to))
            result = builder.build("-t", f"{images.name}/{TARGET}:1", check=None, timeout=180)
            assert result.code in (1, 3, 4), result
            assert PLANTED not in result.stdout + result.stderr, result


@pytest.mark.nodes
def test_the_objects_of_a_run_contain_no_login_of_a_registry(real, name, tmp_path):
    where = os.environ["MLK_CLUSTER_REGISTRY"]
    mlk.run("skopeo", "copy", "-q", "--dest-tls-verify=false", f"oci-archive:{base_images.archive()}", f"docker://{where}/base/small:test", check=0)
    login = {"auths": {where: {"auth": base64.b64encode(f"{registry.USER}:{PLANTED}".encode()).decode()}}}
    builder = Builder(tmp_path, f"{where}/base/small:test", login)
    (builder.code / "main.sh").write_text("echo hello from the layer\n")
    file = builder.experiment(f"registry: {where}/team\ncode: {{path: code, layer: true}}\n", name=name)
    env = {"DOCKER_CONFIG": str(tmp_path / "home/.docker"), "XDG_CACHE_HOME": str(tmp_path / "cache"), "MLK_IMAGE": ""}
    submitted = real.mlk("submit", "--wait", file, env=env, check=0, timeout=180)
    run = submitted.stdout.strip()
    assert "hello from the layer" in real.mlk("logs", run, check=0).stdout
    [pod] = real.objects("pods", f"mlk.dev/run={run}")
    assert re.fullmatch(rf"{where}/team/{name}@sha256:[0-9a-f]{{64}}", pod["spec"]["containers"][0]["image"])
    objects = real.kubectl("get", "jobs,pods,configmaps,secrets,events", "-n", real.namespace, "-o", "json").stdout
    assert seen(objects + submitted.stdout + submitted.stderr, everything(PLANTED)) == []
