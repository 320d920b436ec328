"""Two users in one namespace: with one login, on the embedded cluster, and with two, on a real one."""

import base64
import copy
import json
import os
import pathlib
import pty
import subprocess

import pytest

import login_plugin
import mlk

PROGRAM = "name: {name}\nmode: single\nrun: sleep 600\nnote: {note}\nworkers: {{cpu: 100m, memory: 32Mi}}\n"


def with_login(cluster, user, folder):
    """The cluster, used by another user of a real cluster who has a certificate of their own."""
    cluster.kubectl_admin("create", "rolebinding", user, "-n", cluster.namespace, "--clusterrole=edit", f"--user={user}")
    pki = pathlib.Path(os.environ["MLK_CLUSTER_DIR"]) / "pki"
    config = json.loads(mlk.run(cluster._kubectl(), "config", "view", "--raw", "-o", "json", check=0, env=cluster.env).stdout)
    crt, key = (base64.b64encode(part.encode()).decode() for part in login_plugin.certificate(pki, 3600, f"/O=colleagues/CN={user}"))
    for entry in config["users"]:
        entry["user"] = {"client-certificate-data": crt, "client-key-data": key}
    path = folder / f"{user}.kubeconfig"
    path.write_text(json.dumps(config))
    return mlk.Cluster("real", path, cluster.admin_kubeconfig, cluster._kubectl, cluster.env, cluster.namespace)


@pytest.fixture
def colleagues(cluster, name, tmp_path):
    """Anna and Ben, each with the cluster as they use it. Both are root on their machines, except on the embedded cluster, which has one login."""
    if cluster.embedded:
        both = [copy.copy(cluster) for _ in range(2)]
        for one, user in zip(both, ("anna", "ben")):
            one.env = {**cluster.env, "USER": user}
        yield both
        return
    users = [f"{name}-anna", f"{name}-ben"]
    try:
        yield [with_login(cluster, user, tmp_path) for user in users]
    finally:
        cluster.kubectl_admin("delete", "rolebinding", *users, "-n", cluster.namespace, "--ignore-not-found")


def submit(user, name, note, folder):
    file = folder / f"{note}.yaml"
    file.write_text(PROGRAM.format(name=name, note=note))
    return user.mlk("submit", "--again", "--set", f"env.WHO={note}", file, check=0).stdout.strip()


def phase(user, run):
    return json.loads(user.mlk("status", run, "-o", "json", check=0).stdout)["phase"]


def test_a_bare_name_means_my_own_run_and_the_run_of_a_colleague_stays_without_a_yes(colleagues, name, tmp_path):
    anna, ben = colleagues
    of_anna = submit(anna, name, "a", tmp_path)
    of_ben = submit(ben, name, "b", tmp_path)
    assert of_anna != of_ben
    # Each sees whose the runs are, and can list only the own ones.
    listed = anna.mlk("ls", name, check=0).stdout
    assert "OWNER" in listed and "anna" in listed and "ben" in listed
    assert anna.mlk("ls", name, "--mine", "-o", "name", check=0).stdout.split() == [of_anna]
    assert ben.mlk("ls", name, "--where", "owner==me", "-o", "name", check=0).stdout.split() == [of_ben]
    assert ben.mlk("ls", name, "--where", "owner!=me", "-o", "name", check=0).stdout.split() == [of_anna]
    # Ben's run is newer, but Anna means her own run.
    stopped = anna.mlk("stop", name, check=0)
    assert of_anna in stopped.stderr and of_ben not in stopped.stderr
    assert phase(anna, of_anna) == "Stopped" and phase(ben, of_ben) in ("Running", "Starting", "Scheduling")
    # She has to say yes before anything happens to Ben's run.
    for command in (["stop"], ["resume"], ["delete"], ["rollback"]):
        refused = anna.mlk(*command, of_ben, check=2)
        assert of_ben in refused.stderr and "ben" in refused.stderr and "--yes" in refused.stderr
    assert phase(ben, of_ben) in ("Running", "Starting", "Scheduling")
    assert "ben" in anna.mlk("status", of_ben, check=0).stdout
    anna.mlk("delete", name, check=0)  # only her own one is meant
    told = anna.mlk("status", name, check=0)
    assert told.stdout.startswith(of_ben) and "ben; none of this name is yours" in told.stderr
    anna.mlk("delete", "--yes", name, check=0)
    assert ben.mlk("ls", name, "-o", "name", check=0).stdout == ""


def test_a_question_about_the_run_of_a_colleague_is_asked_on_a_terminal(colleagues, name, tmp_path):
    anna, ben = colleagues
    run = submit(ben, name, "b", tmp_path)
    for answer, end in (("n", "nothing was changed"), ("y", "stopped")):
        terminal, other = pty.openpty()
        os.write(terminal, f"{answer}\n".encode())
        process = subprocess.Popen([mlk.MLK, "stop", *(["--local"] if anna.embedded else []), name], stdin=other, stdout=other, stderr=other,
                                   env={**os.environ, **anna.env})
        os.close(other)
        code = process.wait(120 * mlk.SLOW)
        said = os.read(terminal, 65536).decode()
        os.close(terminal)
        assert code == 0 and "ben, which you did not submit? [y/N]" in said and end in said, said
    assert phase(ben, run) == "Stopped"
    assert "was submitted by" in anna.mlk("submit", "--set", "env.WHO=b", tmp_path / "b.yaml").stderr
    anna.mlk("delete", name, "--mine-as", "ben" if anna.embedded else f"{name}-ben", check=0)
