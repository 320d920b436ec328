"""The key of a run, and the token of the local cluster, are seen by nobody who need not see them."""

import base64
import json
import pathlib

import pytest

import mlk


def processes():
    """All that `ps` could show of the processes of this machine: arguments, and to the owner the environment."""
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield entry.name, (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
            except OSError:
                pass


def forms(secret):
    """How the secret could be written."""
    return [secret, base64.b64encode(secret.encode()).decode().rstrip("=")]


def assert_unseen(secrets, where, text):
    for secret in secrets:
        for form in forms(secret):
            assert form not in text, f"{where} shows a secret"


@pytest.mark.nodes
def test_the_key_of_a_run_is_nowhere_but_in_its_secret(cluster, name):
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

    # What render shows in the key's place is none: two renderings are the same, and not what was stored.
    assert_unseen(keys, "render", rendered.stdout + rendered.stderr)
    again = mlk.run(mlk.MLK, "render", "-o", "json", *flags, check=0, env={**cluster.env, "MLK_IMAGE": "localhost/mlk-runtime:test"})
    assert again.stdout == rendered.stdout


def test_the_token_of_the_local_cluster_is_in_its_kubeconfig_alone(embedded):
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
