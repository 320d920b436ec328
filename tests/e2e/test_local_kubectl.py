"""kubectl against the embedded cluster, and what happens to its pods when the server or a supervisor is killed."""

import json
import os
import pathlib
import signal
import ssl
import stat
import subprocess
import threading
import urllib.error
import urllib.request

import mlk
import pytest

JOB = """
apiVersion: v1
kind: ConfigMap
metadata: {name: NAME, labels: {run: NAME}}
data: {greeting: hello}
---
apiVersion: v1
kind: Service
metadata: {name: NAME, labels: {run: NAME}}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {run: NAME}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: NAME-worker, labels: {run: NAME}}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  backoffLimitPerIndex: 3
  podReplacementPolicy: Failed
  podFailurePolicy:
    rules:
    - {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}
    - {action: FailJob, onExitCodes: {operator: In, values: [64]}}
  template:
    metadata: {labels: {run: NAME}}
    spec:
      restartPolicy: Never
      subdomain: NAME
      terminationGracePeriodSeconds: 5
      volumes: [{name: config, configMap: {name: NAME}}]
      containers:
      - name: main
        image: none
        command: [sh, -c]
        args:
        - |
          SCRIPT
        env:
        - {name: PEERS, value: "NAME-worker-0.NAME:7000,NAME-worker-1.NAME.default.svc:7000"}
        - {name: CONFIG, value: /etc/config/greeting}
        - {name: RESULT, value: /dev/termination-log}
        volumeMounts: [{name: config, mountPath: /etc/config}]
"""


class Kubectl:
    """kubectl with the kubeconfig of the embedded cluster and without the user's own settings."""

    def __init__(self, cluster, program, folder):
        self.cluster, self.program = cluster, program
        self.env = {"KUBECONFIG": str(cluster.kubeconfig), "HOME": str(folder)}

    def __call__(self, *words, check=0, input=None, timeout=60):
        return mlk.run(self.program, *words, check=check, input=input, timeout=timeout, env=self.env).stdout

    def json(self, *words):
        return json.loads(self(*words, "-o", "json"))

    def start(self, *words):
        return subprocess.Popen([self.program, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **self.env})

    def apply(self, name, script):
        text = script.replace("\n", "\n          ")
        return self("apply", "-f", "-", input=JOB.replace("SCRIPT", text).replace("NAME", name))

    def pods(self, name):
        return self.json("get", "pods", "-l", f"run={name}")["items"]


@pytest.fixture
def kubectl_for(kubectl, tmp_path):
    program = os.environ.get("MLK_KUBECTL")
    return lambda cluster: Kubectl(cluster, program or kubectl(), tmp_path)


@pytest.fixture
def k(embedded, kubectl_for):
    return kubectl_for(embedded)


def running(k, name, count=2):
    pods = [pod for pod in k.pods(name) if pod["status"]["phase"] == "Running"]
    return pods if len(pods) == count else None


def local(cluster, *words, check=0):
    return mlk.run(mlk.MLK, "local", *words, check=check, env=cluster.env)


def runs(pid):
    """Whether the process exists and is not a zombie that waits to be reaped. A process whose other threads are still ending holds its locks
    and its port."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return state != "Z" or len(os.listdir(f"/proc/{pid}/task")) > 1
    except (FileNotFoundError, ProcessLookupError):  # the process may also end between opening and reading the file
        return False


def kill_server(cluster):
    """Kills the server and waits for its end. As long as the server answers, no command would start another one."""
    pid = state_of(cluster)["pid"]
    os.kill(pid, signal.SIGKILL)
    mlk.wait_until(lambda: not runs(pid), "the server to be gone", interval=0.01)


def state_of(cluster):
    return local(cluster, "status", "-o", "json").json()


def test_kubectl_can_create_a_job_with_its_objects_and_wait_for_the_job_and_delete_everything(k, name):
    k.apply(name, 'cat $CONFIG; echo " $JOB_COMPLETION_INDEX $PEERS"; echo \'{"step":1}\' > $RESULT')
    k("wait", "--for=condition=Complete", f"job/{name}-worker", "--timeout=60s", timeout=90)
    pods = k.pods(name)
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded", "Succeeded"]
    addresses = [pod["status"]["podIP"] for pod in pods]
    assert len(set(addresses)) == 2 and all(address.startswith("127.") for address in addresses)
    log = k("logs", pods[1]["metadata"]["name"])
    assert log == f"hello 1 {addresses[0]}:7000,{addresses[1]}:7000\n"
    assert pods[0]["status"]["containerStatuses"][0]["state"]["terminated"]["message"] == '{"step":1}\n'
    table = k("get", "jobs", f"{name}-worker")
    assert "Complete" in table and "2/2" in table
    k("delete", "configmap,service,job", "-l", f"run={name}")
    mlk.wait_until(lambda: not k.pods(name), "the pods went with their Job")


def test_kubectl_logs_follows_a_pod_to_its_end(k, name):
    k.apply(name, "for i in 1 2 3 4 5; do echo line $i; sleep 0.2; done")
    begun = lambda: [pod for pod in k.pods(name) if pod["status"]["phase"] != "Pending"]  # noqa: E731; the pod may have ended before it is read
    pod = mlk.wait_until(begun, "a pod runs", interval=0.1)[0]["metadata"]["name"]
    follower = k.start("logs", "-f", pod)
    output, _ = follower.communicate(timeout=60)
    assert output == "".join(f"line {i}\n" for i in range(1, 6))
    assert k("logs", pod, "--tail=2") == "line 4\nline 5\n"
    stamped = k("logs", pod, "--timestamps").splitlines()
    assert all(line[:4].isdigit() and line.split(" ")[0].endswith("Z") for line in stamped)
    k("delete", "job", f"{name}-worker")


def test_kubectl_watches_pods_from_their_creation_to_their_deletion(k, name):
    k.apply(name, "sleep 60")
    mlk.wait_until(lambda: running(k, name), "both pods run")
    watch = k.start("get", "pods", "-l", f"run={name}", "--watch", "--output-watch-events")
    bound = threading.Timer(60 * mlk.SLOW, watch.kill)  # ends the loop below that reads its output
    bound.start()
    try:
        seen = ""
        deleted = False
        while seen.count("DELETED") < 2:
            line = watch.stdout.readline()
            assert line, f"the watch ended early: {seen}"
            seen += line
            if seen.count("ADDED") == 2 and not deleted:
                k("delete", "job", f"{name}-worker", "--wait=false")
                deleted = True
        assert "Terminating" in seen
    finally:
        bound.cancel()
        watch.kill()
        watch.wait()


def test_a_deleted_pod_gets_sigterm_and_its_grace_period(k, name, tmp_path):
    k.apply(name, f"trap 'echo stopped > {tmp_path}/$JOB_COMPLETION_INDEX; exit 143' TERM\nwhile true; do sleep 0.1; done")
    pod = mlk.wait_until(lambda: running(k, name), "both pods run")[0]["metadata"]
    mlk.wait_until(lambda: k("logs", pod["name"]) is not None, "the log can be read")
    k("delete", "pod", pod["name"])
    assert (tmp_path / "0").read_text() == "stopped\n"
    k("delete", "job", f"{name}-worker")


def test_a_job_fails_and_its_other_pod_stops_if_a_pod_ends_with_an_exit_code_that_forbids_a_retry(k, name):
    k.apply(name, 'if [ $JOB_COMPLETION_INDEX = 1 ]; then echo "bad configuration"; exit 64; fi; sleep 60')
    k("wait", "--for=condition=Failed", f"job/{name}-worker", "--timeout=60s", timeout=90)
    conditions = k.json("get", "job", f"{name}-worker")["status"]["conditions"]
    assert [c["reason"] for c in conditions if c["type"] == "Failed"] == ["PodFailurePolicy"]
    left = k.pods(name)
    assert [pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] for pod in left] == [64]
    k("delete", "job", f"{name}-worker")


def test_the_local_server_refuses_an_object_with_a_misspelt_field(k):
    text = JOB.replace("SCRIPT", "true").replace("NAME", "typo").replace("backoffLimitPerIndex", "backofLimitPerIndex")
    mlk_result = mlk.run(k.program, "apply", "-f", "-", input=text, env=k.env)
    assert mlk_result.code != 0
    assert 'unknown field "spec.backofLimitPerIndex"' in mlk_result.stderr
    k("delete", "configmap,service", "-l", "run=typo")


def test_kubectl_can_create_and_change_and_describe_and_delete_objects_of_the_local_server(k, name):
    # kubectl would send objects that it makes itself as protobuf. The server refuses protobuf, and its error names this workaround.
    assert "--dry-run=client" in mlk.run(k.program, "create", "configmap", name, "--from-literal=a=1", env=k.env).stderr
    k("apply", "-f", "-", input=k("create", "configmap", name, "--from-literal=a=1", "--dry-run=client", "-o", "yaml"))
    k("label", "configmap", name, "team=x")
    k("annotate", "configmap", name, "note=y")
    k("patch", "configmap", name, "--type=merge", "-p", '{"data":{"a":"2"}}')
    k("apply", "--server-side", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"b": "3"}}))
    found = k.json("get", "configmap", name)
    assert found["data"] == {"a": "2", "b": "3"} and found["metadata"]["labels"]["team"] == "x"
    assert name in k("describe", "configmap", name)
    assert k("auth", "can-i", "create", "jobs").strip() == "yes"
    assert "configmaps" in k("api-resources") and "local" in k("get", "nodes") and "default" in k("get", "namespaces")
    k("apply", "-f", "-", input=k("create", "secret", "generic", name, "--from-literal=k=v", "--dry-run=client", "-o", "yaml"))
    k("delete", "configmap,secret", name)


def test_a_namespace_is_deleted_with_all_its_objects(k, name):
    for words in (["namespace", name], ["configmap", "a", "-n", name]):
        k("apply", "-f", "-", input=k("create", *words, "--dry-run=client", "-o", "yaml"))
    k("delete", "namespace", name)
    assert "not found" in mlk.run(k.program, "get", "namespace", name, env=k.env).stderr.lower()


def test_pods_still_run_and_their_job_completes_after_the_local_server_was_killed_and_started_again(fresh_embedded, kubectl_for, name):
    k = kubectl_for(fresh_embedded)
    k.apply(name, "for i in $(seq 1 40); do echo $i; sleep 0.1; done")
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in mlk.wait_until(lambda: running(k, name), "both pods run", interval=0.1)}
    kill_server(fresh_embedded)
    local(fresh_embedded, "up")
    k("wait", "--for=condition=Complete", f"job/{name}-worker", "--timeout=60s", timeout=90)
    pods = k.pods(name)
    assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods} == before
    for pod in before:
        assert k("logs", pod).split() == [str(i) for i in range(1, 41)]
    assert k.json("get", "job", f"{name}-worker")["status"]["succeeded"] == 2


def test_no_pod_fails_if_the_local_server_is_killed_and_started_again_four_times(fresh_embedded, kubectl_for, name):
    k = kubectl_for(fresh_embedded)
    k.apply(name, "sleep 4")
    for _ in range(4):
        kill_server(fresh_embedded)
        local(fresh_embedded, "up")
    k("wait", "--for=condition=Complete", f"job/{name}-worker", "--timeout=60s", timeout=90)
    assert k.json("get", "job", f"{name}-worker")["status"].get("failed", 0) == 0


def test_a_program_ends_and_the_job_replaces_its_pod_if_the_supervisor_of_the_pod_is_killed(fresh_embedded, kubectl_for, name):
    k = kubectl_for(fresh_embedded)
    k.apply(name, f"echo $$$$; while [ ! -e {fresh_embedded.env['XDG_STATE_HOME']}/go ]; do sleep 0.1; done")
    pods = mlk.wait_until(lambda: running(k, name), "both pods run")
    uid, pod = pods[0]["metadata"]["uid"], pods[0]["metadata"]["name"]
    program = int(mlk.wait_until(lambda: k("logs", pod), "the pod printed its process id"))
    folder = f"{state_of(fresh_embedded)['state']}/pods/{uid}"
    supervisors = subprocess.run(["pgrep", "-f", f"supervise {folder}"], capture_output=True, text=True, check=True).stdout.split()
    assert len(supervisors) == 1
    os.kill(int(supervisors[0]), signal.SIGKILL)
    lost = mlk.wait_until(lambda: [p for p in k.pods(name) if p["metadata"]["uid"] == uid and p["status"]["phase"] == "Failed"], "the pod failed")
    assert [c["status"] for c in lost[0]["status"]["conditions"] if c["type"] == "DisruptionTarget"] == ["True"]
    assert not runs(program)
    mlk.wait_until(lambda: running(k, name), "the Job replaced it")
    open(f"{fresh_embedded.env['XDG_STATE_HOME']}/go", "w").close()
    k("wait", "--for=condition=Complete", f"job/{name}-worker", "--timeout=60s", timeout=90)


def test_mlk_local_down_stops_the_pods_and_mlk_local_up_continues_their_job(fresh_embedded, kubectl_for, name):
    k = kubectl_for(fresh_embedded)
    k.apply(name, f"while [ ! -e {fresh_embedded.env['XDG_STATE_HOME']}/go ]; do sleep 0.1; done")
    mlk.wait_until(lambda: running(k, name), "both pods run")
    said = local(fresh_embedded, "down")
    assert said.stderr.count("stopped pod") + said.stdout.count("stopped pod") == 2
    local(fresh_embedded, "status", check=3)
    local(fresh_embedded, "down")
    open(f"{fresh_embedded.env['XDG_STATE_HOME']}/go", "w").close()
    local(fresh_embedded, "up")
    k("wait", "--for=condition=Complete", f"job/{name}-worker", "--timeout=60s", timeout=90)


def test_commands_that_start_the_local_cluster_at_the_same_time_get_the_same_local_server(fresh_embedded):
    local(fresh_embedded, "down")
    env = {**os.environ, **fresh_embedded.env}
    starters = [subprocess.Popen([str(mlk.MLK), "local", "up"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    said = [starter.communicate(timeout=60) for starter in starters]
    assert [starter.returncode for starter in starters] == [0, 0, 0, 0], said
    assert len(set(said)) == 1


def test_the_local_server_refuses_requests_without_the_token_and_only_the_owner_may_read_its_state(embedded):
    state = state_of(embedded)
    context = ssl._create_unverified_context()
    for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}):
        for method, body in (("GET", None), ("POST", b"{}"), ("DELETE", None)):
            request = urllib.request.Request(f"{state['server']}/api/v1/namespaces/default/secrets", body, header, method=method)
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, context=context, timeout=30)
            assert refused.value.code == 401
    assert stat.S_IMODE(os.stat(state["state"]).st_mode) == 0o700
    for file in ("kubeconfig", "credentials.json"):
        assert stat.S_IMODE(os.stat(f"{state['state']}/{file}").st_mode) == 0o600
