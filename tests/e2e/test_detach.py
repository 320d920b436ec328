"""Sweeps that a driver in the cluster drives. They do not need the machine that started them."""

import concurrent.futures
import json
import os
import signal

import pytest

import mlk

PROGRAM = """
name: {name}
mode: allreduce
image: {image}
run: |
  sleep {seconds}; echo "accuracy=0.$LR"
env: {{LR: "${{sweep.lr}}"}}
workers: {{cpu: 20m, memory: 32Mi}}
restart: {{retries: 0}}
sweep: {{objective: maximize accuracy, parallel: 2}}
"""


def program(name, seconds=0.5, image="mlk-runtime:test"):
    return PROGRAM.format(name=name, seconds=seconds, image=image)


def detach(cluster, *args, check=0):
    return cluster.mlk("sweep", "--detach", *args, check=check, timeout=120)


def status(cluster, sweep):
    return cluster.mlk("status", sweep, "-o", "json", check=0).json()


def results(cluster, sweep):
    return cluster.mlk("results", sweep, "-o", "json", check=0).json()


def allow(cluster):
    """Creates the driver's account in the namespace of the tests, as an administrator would. One account serves all tests."""
    if cluster.embedded:
        return
    account = f"system:serviceaccount:{cluster.namespace}:mlk-driver"

    def given():  # other tests may create the account at the same time
        apply_rights(cluster, cluster.namespace, rights_of(cluster))
        return cluster.kubectl_admin("auth", "can-i", "patch", "leases", "--as", account, "-n", cluster.namespace, check=None).code == 0
    mlk.wait_until(given, "the driver's account to have its rights")


def rights_of(cluster):
    """ServiceAccount, Role and RoleBinding, as the template has them."""
    text = cluster.mlk("templates", "driver-rights", check=0).stdout
    shown = cluster.kubectl_admin("create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-",
                                  input=text.replace("${namespace}", "default"))
    return json.loads("[" + shown.stdout.replace("}\n{", "},\n{") + "]")


def moved_to(namespace, objects):
    return json.loads(json.dumps(objects).replace('"namespace": "default"', f'"namespace": "{namespace}"'))


def apply_rights(cluster, namespace, objects):
    cluster.kubectl_admin("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": moved_to(namespace, objects)}))


@pytest.mark.nodes
def test_a_detached_sweep_continues_after_the_command_that_started_it_has_ended(cluster, name, experiment):
    allow(cluster)
    started = detach(cluster, experiment(program(name)), "lr=1,2,3")
    sweep = started.stdout.strip()
    assert "its driver starts in the cluster" in started.stderr and f"mlk wait {sweep}" in started.stderr
    assert cluster.mlk("wait", sweep, timeout=150).code == 0
    assert [(row["parameters"]["lr"], row["objective"], row["state"]) for row in results(cluster, sweep)] == [
        (3, 0.3, "Succeeded"), (2, 0.2, "Succeeded"), (1, 0.1, "Succeeded")]
    assert cluster.mlk("ls", name, "-o", "name", check=0).stdout.split() == [sweep]
    assert len(cluster.mlk("ls", "--sweep", sweep, "-o", "name", check=0).stdout.split()) == 3
    mlk.wait_until(lambda: f"driver/0 driving {sweep}" in cluster.mlk("logs", sweep, "--role", "driver").stdout, "its log")


def test_mlk_sweep_suggests_detach_only_if_a_cluster_keeps_fewer_ended_pods_than_the_sweep_has_trials(embedded, name, experiment):
    file = experiment(f"name: {name}\nmode: single\nimage: i\nrun: sleep 600 ${{sweep.lr}}\nsweep: {{objective: maximize accuracy, parallel: 2}}\n")
    words = "and --detach does so in the cluster"
    assert words in embedded.mlk("sweep", file, "lr=1..12501", check=0, timeout=120).stderr
    assert words not in embedded.mlk("sweep", "--set", "run=sleep ${sweep.lr}", file, "lr=1..100", check=0).stderr


@pytest.mark.nodes
def test_mlk_sweep_extends_a_detached_sweep_and_mlk_delete_removes_its_driver_too(embedded, name, experiment):
    file = experiment(program(name, seconds=0))
    sweep = detach(embedded, file, "lr=1,2").stdout.strip()
    assert embedded.mlk("wait", sweep, timeout=150).code == 0
    again = detach(embedded, file, "lr=1,2")
    assert again.stdout.strip() == sweep and "2 trials: 0 new" in again.stderr and "driver" not in again.stderr
    more = detach(embedded, file, "lr=1,2,3")
    assert more.stdout.strip() == sweep and "3 trials: 1 new" in more.stderr
    assert embedded.mlk("wait", sweep, timeout=150).code == 0
    assert len(results(embedded, sweep)) == 3
    assert embedded.mlk("delete", sweep, timeout=150).code == 0
    assert not embedded.objects("jobs", f"mlk.dev/name={name}")


@pytest.mark.nodes
def test_a_detached_sweep_continues_when_it_is_resumed_after_a_stop(cluster, name, experiment):
    allow(cluster)
    sweep = detach(cluster, experiment(program(name, seconds=2)), "lr=1,2,3").stdout.strip()
    mlk.wait_until(lambda: status(cluster, sweep)["counts"]["running"] == 2, "two trials to run", interval=0.1)
    cluster.mlk("stop", sweep, check=0)
    assert cluster.mlk("wait", sweep, timeout=60).code == 8, "its driver counts for nothing"
    mlk.wait_until(lambda: "the sweep is stopped" in cluster.mlk("logs", sweep, "--role", "driver").stdout, "the driver to wait")
    resumed = cluster.mlk("resume", sweep, check=0)
    assert "its driver in the cluster starts the next ones" in resumed.stderr
    assert cluster.mlk("wait", sweep, timeout=150).code == 0
    assert status(cluster, sweep)["counts"]["succeeded"] == 3


@pytest.mark.nodes
def test_the_cluster_starts_another_driver_if_sigterm_ends_a_driver(embedded, name, experiment):
    without_image = program(name).replace("image: mlk-runtime:test\n", "")
    sweep = detach(embedded, experiment(without_image), "lr=1,2,3").stdout.strip()
    mlk.wait_until(lambda: status(embedded, sweep)["counts"]["running"] > 0, "a trial to run", interval=0.1)  # each runs for half a second
    drivers = [pid for pid in mlk.processes_with(KUBECONFIG="", HOME="/nonexistent") if runs(pid, "drive", sweep)]
    assert len(drivers) == 1
    os.kill(drivers[0], signal.SIGTERM)
    mlk.wait_until(lambda: status(embedded, sweep)["driver"].startswith("failed: interrupted"), "its end to be told", interval=0.1)  # until the next one starts
    assert embedded.mlk("wait", sweep, timeout=150).code == 0
    assert sorted(row["trial"] for row in results(embedded, sweep)) == [0, 1, 2]


def runs(pid, *words):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as line:
            return set(words) <= set(line.read().split("\0"))
    except OSError:
        return False


@pytest.mark.nodes
def test_a_detached_sweep_keeps_its_results_if_the_cluster_runs_the_trials_and_no_command_watches_them(cluster, name, experiment):
    allow(cluster)
    text = program(name).replace("mode: allreduce", "mode: single")
    started = detach(cluster, experiment(text), "lr=1,2,3")
    sweep = started.stdout.strip()
    assert "the cluster runs them by itself" in started.stderr

    def kept():
        ledger = cluster.objects("configmaps", f"mlk.dev/sweep={sweep}")
        lines = "".join(map_["data"].get("trials.jsonl", "") for map_ in ledger)
        objectives = {json.loads(line).get("o") for line in lines.splitlines()}  # a trial that still runs has no result yet
        pods = [(pod["metadata"]["name"], pod["status"]) for pod in cluster.objects("pods", f"mlk.dev/sweep={sweep}")]
        assert objectives == {0.1, 0.2, 0.3}, f"{objectives} beside these pods: {pods}"
        return True
    mlk.wait_until(kept, "the ledger to be written without us", timeout=90)
    cluster.kubectl("delete", "pods", "-n", cluster.namespace, "-l", f"mlk.dev/sweep={sweep}", "--wait=false")
    assert [row["objective"] for row in results(cluster, sweep)] == [0.3, 0.2, 0.1]


@pytest.mark.nodes
def test_a_detached_training_sweep_gets_its_data_files_and_its_results_can_be_read_with_another_kubeconfig(real, name, tmp_path):
    allow(real)
    arguments = ["--set", f"name={name}", "--set", "mode=ps", "--set", "servers={cpu: 50m, memory: 64Mi}", "--set", "workers.cpu=50m",
                 "--set", "train.steps=100", mlk.EXAMPLES / "digits-sweep.yaml", "hidden=[32]", "lr=0.1,0.01"]
    sweep = detach(real, *arguments).stdout.strip()
    other = tmp_path / "kubeconfig"
    other.write_text(real.kubectl_admin("config", "view", "--raw").stdout, encoding="utf-8")
    env = {"KUBECONFIG": str(other)}
    assert real.mlk("wait", "-n", real.namespace, sweep, env=env, timeout=150).code == 0
    table = real.mlk("results", "-n", real.namespace, sweep, "-o", "json", env=env, check=0).json()
    assert len(table) == 2 and all(row["state"] == "Succeeded" and row["objective"] > 0.5 for row in table)


def test_mlk_sweep_with_detach_creates_nothing_and_prints_objects_for_an_administrator_if_the_driver_lacks_its_account_or_a_right(real, name, experiment):
    file = experiment(program(name, image="localhost/mlk-runtime:test"))
    with mlk.namespace_of_its_own(real, f"detach-{name}") as namespace:
        refused = detach(real, "-n", namespace, file, "lr=1,2", check=4)
        assert "ServiceAccount mlk-driver" in refused.stderr and "which is not there" in refused.stderr
        forbidden = detach(real, "-n", namespace, "--create-rbac", file, "lr=1,2", check=4)
        assert "Role mlk-driver cannot be created" in forbidden.stderr and "kind: RoleBinding" in forbidden.stdout
        left = real.kubectl_admin("get", "configmaps,jobs,secrets,services,pods", "-n", namespace, "-o", "name").stdout.split()
        assert left == ["configmap/kube-root-ca.crt"]
        real.kubectl_admin("apply", "-f", "-", input=refused.stdout)
        rights = real.kubectl_admin("get", "role", "mlk-driver", "-n", namespace, "-o", "json").stdout
        lacking = [right for right in rights_in(json.loads(rights)["rules"])]
        assert len(lacking) == 22
        # `mlk sweep` reports each missing right before it creates an object, so the user learns it without starting the sweep.
        for right in lacking:
            patch_rules(real, namespace, without(json.loads(rights)["rules"], right))
            mlk.wait_until(lambda right=right: f"may not {words_of(right)}: " in detach(real, "-n", namespace, file, "lr=1,2", check=4).stderr,
                           f"the refusal without {right}", interval=0.05)
        patch_rules(real, namespace, json.loads(rights)["rules"])
        mlk.wait_until(lambda: detach(real, "-n", namespace, "--dry-run=server", file, "lr=1,2").code == 0, "the whole Role to do")


@pytest.mark.nodes
def test_a_driver_reports_each_right_that_it_lacks(real, name, experiment):
    """The user may not ask for the driver's rights beforehand. The driver starts, and the status of its sweep names the missing right."""
    file = experiment(program(name, image="localhost/mlk-runtime:test"))
    objects = rights_of(real)
    role = next(each for each in objects if each["kind"] == "Role")
    rights = rights_in(role["rules"])
    assert len(rights) == 22
    real.kubectl_admin("apply", "-f", "-", input=json.dumps(modest_user(name)))

    lacking = {f"lack-{name}-{number}": right for number, right in enumerate(rights)}

    def rights_without(namespace):
        return moved_to(namespace, [{**each, "rules": without(each["rules"], lacking[namespace])} if each["kind"] == "Role" else each
                                    for each in objects])

    def tells(namespace):
        started = detach(real, "-n", namespace, file, "lr=1,2")
        assert "you may not ask for the rights of ServiceAccount mlk-driver" in started.stderr
        what = f"the driver may not {words_of(lacking[namespace])} in namespace '{namespace}'"
        mlk.wait_until(lambda: what in real.mlk("status", "-n", namespace, started.stdout.strip(), "-o", "json").json()["why"], what, timeout=90)
    names = list(lacking)
    try:
        for some in (names[:11], names[11:]):  # a driver runs in each namespace
            with mlk.namespaces_of_their_own(real, some, f"modest-{name}", rights_without), concurrent.futures.ThreadPoolExecutor(11) as pool:
                list(pool.map(tells, some))
    finally:
        real.kubectl_admin("delete", "clusterrole", f"modest-{name}")


def modest_user(name):
    """Only the rights that runs need. The user may neither read ServiceAccounts nor impersonate them."""
    every = ["get", "list", "watch", "create", "patch", "delete"]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": f"modest-{name}"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps", "secrets", "services", "pods", "pods/log", "events"], "verbs": every},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": every}]}


def rights_in(rules):
    return [(group, resource, verb) for rule in rules
            for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]]


def words_of(right):
    return f"{right[2]} {right[1]}"


def without(rules, right):
    """The same rules without this one right, with one rule for each right."""
    return [{"apiGroups": [group], "resources": [resource], "verbs": [verb]}
            for group, resource, verb in rights_in(rules) if (group, resource, verb) != right]


def patch_rules(cluster, namespace, rules):
    cluster.kubectl_admin("patch", "role", "mlk-driver", "-n", namespace, "--type=merge", "-p", json.dumps({"rules": rules}))
