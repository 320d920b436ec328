"""The key of a run and the token of the local cluster appear only where they are needed."""

import base64
import json
import os
import pathlib
import signal
import subprocess

import pytest

import mlk


def processes():
    """All that `ps` could show of the processes of this machine: the arguments, and for the owner also the environment."""
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield entry.name, (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
            except OSError:
                pass


def forms(secret):
    """The forms in which the secret could be written."""
    return [secret, base64.b64encode(secret.encode()).decode().rstrip("=")]


def assert_unseen(secrets, where, text):
    for secret in secrets:
        for form in forms(secret):
            assert form not in text, f"{where} shows a secret"


@pytest.mark.nodes
def test_the_key_of_a_run_is_only_in_its_secret(cluster, name):
    flags = ["--set", f"name={name}", "--set", "train.steps=300", "--set", "train.step_delay_ms=20", mlk.EXAMPLES / "digits-ps.yaml"]
    rendered = mlk.run(mlk.MLK, "render", "-o", "json", *flags, check=0, env={**cluster.env, "MLK_IMAGE": "localhost/mlk-runtime:test"})
    said = [("submit", cluster.mlk("submit", "-o", "json", *flags, check=0))]
    run = said[0][1].json()["run"]
    stored, = cluster.objects("secrets", f"mlk.dev/run={run}")
    keys = [base64.b64decode(value).decode().strip() for value in stored["data"].values()]
    assert keys and all(len(key) == 64 and int(key, 16) for key in keys)

    mlk.wait_until(lambda: "step=" in cluster.mlk("logs", run, check=0).stdout, f"{run} to train")
    running = list(processes())
    assert len(running) > 3
    said.append(("logs -f", cluster.mlk("logs", "-f", run, check=0, timeout=120)))
    said += [(" ".join(command), cluster.mlk(*command, check=0)) for command in (
        ("submit", *map(str, flags)), ("status", run), ("status", run, "-o", "json"), ("ls", "-o", "json"), ("logs", run), ("context", "-o", "json"))]
    for where, result in said:
        assert_unseen(keys, where, result.stdout + result.stderr)
    for pid, text in running:
        assert_unseen(keys, f"process {pid}", text.decode(errors="replace"))
    for item in cluster.objects("configmaps,services,jobs,pods,events"):
        assert_unseen(keys, f'{item["kind"]} {item["metadata"]["name"]}', json.dumps(item))

    # render does not show a real key: two renderings are equal, and they do not contain the stored key.
    assert_unseen(keys, "render", rendered.stdout + rendered.stderr)
    again = mlk.run(mlk.MLK, "render", "-o", "json", *flags, check=0, env={**cluster.env, "MLK_IMAGE": "localhost/mlk-runtime:test"})
    assert again.stdout == rendered.stdout


def test_the_token_of_the_local_cluster_is_only_in_its_kubeconfig_and_its_credentials(embedded):
    state = pathlib.Path(embedded.env["XDG_STATE_HOME"])
    token = json.loads((state / "mlk/local/credentials.json").read_text())["token"]
    assert token in mlk.run(mlk.MLK, "local", "kubeconfig", check=0, env=embedded.env).stdout
    for command in (("local", "status"), ("local", "status", "-o", "json"), ("local", "up"), ("context", "--local"), ("ls", "--local")):
        result = mlk.run(mlk.MLK, *command, check=0, env=embedded.env)
        assert_unseen([token], " ".join(command), result.stdout + result.stderr)
    for pid, text in processes():
        assert_unseen([token], f"process {pid}", text.decode(errors="replace"))
    holders = {path.relative_to(state).as_posix() for path in state.rglob("*") if path.is_file() and token.encode() in path.read_bytes()}
    assert holders == {"mlk/local/credentials.json", "mlk/local/kubeconfig"}


PLANTED = {name: f"pl4nted-{name}-0123456789" for name in ("token", "key", "variable", "password", "rubbish")}
VERSION = "client.authentication.k8s.io/v1"


def credential(status, version=VERSION):
    return json.dumps({"kind": "ExecCredential", "apiVersion": version, "status": status})


def says(answer, then="exit 0"):
    """The script of a plugin that answers, and that prints all its secrets on standard error."""
    return f"cat <<'END'\n{answer}\nEND\necho \"debug: $SECRET, and the answer was $(cat <<'END'\n{answer}\nEND\n)\" >&2\n{then}\n"


BEGIN, END = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
PLUGINS = {
    "refused": says(credential({"token": PLANTED["token"]})),
    "failing": says(credential({"token": PLANTED["token"]}), "exit 1"),
    "rubbish": says(PLANTED["rubbish"]),
    "rubbish and failing": says(PLANTED["rubbish"], "exit 1"),
    "of another version": says(credential({"token": PLANTED["token"]}, "client.authentication.k8s.io/v1beta1")),
    "half a pair": says(credential({"clientKeyData": f'{BEGIN}\\n{PLANTED["key"]}\\n{END}'})),
    "a key that is none": says(credential({"clientCertificateData": "none", "clientKeyData": f'{BEGIN}\\n{PLANTED["key"]}\\n{END}'})),
    "too much": f'while :; do echo {PLANTED["rubbish"]}; done',
    "gone": None,
}


def plugin_kubeconfig(embedded, folder, script, proxy=""):
    """The kubeconfig of the embedded cluster, with a plugin in place of its token."""
    config = json.loads(json.dumps(fields_of(embedded.kubeconfig)))
    plugin = folder / "plugin"
    if script is not None:
        plugin.write_text(f"#!/bin/sh\n{script}")
        plugin.chmod(0o700)
    for user in config["users"]:
        user["user"] = {"exec": {"apiVersion": VERSION, "interactiveMode": "Never", "command": str(plugin), "provideClusterInfo": True,
                                 "env": [{"name": "SECRET", "value": PLANTED["variable"]}]}}
    if proxy:
        config["clusters"][0]["cluster"]["proxy-url"] = proxy
    path = folder / "config"
    path.write_text(json.dumps(config))
    return path


def fields_of(kubeconfig):
    import kubeconfigs
    return kubeconfigs.load_kubeconfig(kubeconfig)


@pytest.mark.parametrize("kind", PLUGINS)
def test_the_secrets_of_a_plugin_are_in_no_output_and_no_error(embedded, tmp_path, kind):
    config = plugin_kubeconfig(embedded, tmp_path, PLUGINS[kind])
    for command in (["ls"], ["context"], ["context", "-o", "json"]):
        result = mlk.run(mlk.MLK, *command, "--kubeconfig", config, check=4, env=embedded.env)
        assert_unseen(PLANTED.values(), f"{command} with a plugin that is {kind}", result.stdout + result.stderr)
        assert "debug: ***" in result.stderr or kind in ("too much", "gone"), result  # mlk shows the messages of the plugin without the secrets


def test_the_password_of_a_proxy_is_in_no_output_and_no_error(embedded, tmp_path):
    for scheme in ("http", "socks5"):
        config = plugin_kubeconfig(embedded, tmp_path, says(credential({"token": PLANTED["token"]})), f'{scheme}://me:{PLANTED["password"]}@127.0.0.1:1')
        for command in (["ls"], ["context", "-o", "json"]):
            result = mlk.run(mlk.MLK, *command, "--kubeconfig", config, check=4, env=embedded.env)
            assert "proxy" in result.stderr
            assert_unseen(PLANTED.values(), f"{command} through a proxy", result.stdout + result.stderr)


def test_ctrl_c_ends_a_login_plugin_that_hangs_and_the_process_list_shows_no_secret(embedded, tmp_path):
    config = plugin_kubeconfig(embedded, tmp_path, 'echo $$ > "$0.pid"\nsleep 1000\n', f'http://me:{PLANTED["password"]}@127.0.0.1:1')
    process = subprocess.Popen([mlk.MLK, "ls", "--kubeconfig", config], env={**os.environ, **embedded.env}, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        pid = mlk.wait_until(lambda: (tmp_path / "plugin.pid").exists() and (tmp_path / "plugin.pid").read_text().strip(), "the plugin to start")
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    assert_unseen(PLANTED.values(), f"process {entry.name}", (entry / "cmdline").read_text(errors="replace"))
                except OSError:
                    pass
        own = pathlib.Path(f"/proc/{process.pid}/environ").read_text(errors="replace")
        assert_unseen(PLANTED.values(), "the environment of mlk", own)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=20 * mlk.SLOW)
        assert process.returncode == 130, stderr
        assert "interrupted" in stderr and "hint" not in stderr
        mlk.wait_until(lambda: not pathlib.Path(f"/proc/{pid}").exists(), "the plugin to be gone")
    finally:
        process.kill()
        process.wait()
