"""The user's own job type and framework, written from the manual pages: a chief with workers, parameter servers and an evaluator."""

import json
import sys

import pytest

import frameworks

JOB_TYPE = '''
# The chief trains with workers and parameter servers; the evaluator looks on.
roles:
  - name: chief
    ends_run: true
    final_exit_codes: {run: ["126-128"]}
  - name: worker
    count: 2
  - name: ps
  - name: evaluator
    environment: {LOOKS: "on"}
'''
FRAMEWORK = '''
role_names: {chief: boss}
outside: [evaluator]
environment:
  PEERS: ${framework.cluster_text}
  ME: ${framework.role}:$(MLK_RANK)
'''

# The other roles know the address of the chief and end when the chief ends.
PLAIN = '''
import json, os, socket, sys, time
peers = json.loads(os.environ["PEERS"])
host, port = peers["boss"][0].split(":")
print(os.environ["ME"], {role: len(addresses) for role, addresses in sorted(peers.items())}, "looks", os.environ.get("LOOKS"), flush=True)
if os.environ["MLK_ROLE"] == "chief":
    with socket.create_server((host, int(port))) as server:
        server.settimeout(60)
        met = [server.accept()[0] for _ in range(4)]
        print("met", len(met))
        sys.exit(int(sys.argv[1]))
for _ in range(300):
    try:
        chief = socket.create_connection((host, int(port)))
        break
    except OSError:
        time.sleep(0.1)
if os.environ["MLK_ROLE"] == "evaluator" and len(sys.argv) > 2:
    sys.exit("nothing to evaluate")
chief.settimeout(60)
chief.recv(1)
'''

TENSORFLOW = '''
import os, time
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
tasks = {job: len(addresses) for job, addresses in sorted(resolver.cluster_spec().as_dict().items())}
print(resolver.task_type, resolver.task_id, tasks, flush=True)
done = os.environ["MLK_CHECKPOINTS"] + "/done"
if resolver.task_type == "chief":
    resolver.rpc_layer = "grpc"
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        total = tf.Variable(0.0)
    print("on", total.device)

    @tf.function
    def add():
        total.assign_add(1.0)
    for _ in range(8):
        coordinator.schedule(add)
    coordinator.join()
    print("total", float(total.read_value()), flush=True)
    os.makedirs(os.path.dirname(done), exist_ok=True)
    open(done, "w").close()
else:
    if resolver.task_type in ("worker", "ps"):
        server = tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc")
    while not os.path.exists(done):
        time.sleep(0.1)
os._exit(0)  # threads of TensorFlow's would look for each other
'''


@pytest.fixture
def submit(embedded, name, experiment, tmp_path):
    """submit(program, framework, *words, env, code) submits a run of the job type below and waits for its end."""
    def do(program, framework, *words, env=None, code=0):
        for path, text in (("jobs/chief.yaml", JOB_TYPE), ("frameworks/mine.yaml", FRAMEWORK)):
            file = tmp_path / "config/mlk/templates" / path
            file.parent.mkdir(parents=True)
            file.write_text(text)
        (tmp_path / "code").mkdir()
        (tmp_path / "code" / "main.py").write_text(program)
        file = experiment(f"name: {name}\nmode: chief\nframework: {framework}\ncode: code\nrun: {json.dumps([sys.executable, 'main.py', *words])}\n"
                          f"env: {json.dumps(env or {})}\nrestart: {{retries: 0}}\n"
                          f"checkpoint: {{volume: {{hostPath: {json.dumps(str(tmp_path))}}}}}\n")
        return embedded.mlk("submit", "--wait", file, check=code, timeout=90, env={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    return do


def logs_of(cluster, run):
    return cluster.mlk("logs", run, check=0).stdout


def states_of(cluster, run):
    return {f"{rank['role']}/{rank['rank']}": rank["state"] for rank in cluster.mlk("status", run, "-o", "json", check=0).json()["ranks"]}


def test_a_run_with_an_evaluator_succeeds_when_its_chief_succeeds(embedded, submit):
    run = submit(PLAIN, "mine", "0").stdout.strip()
    said = logs_of(embedded, run)
    peers = "{'boss': 1, 'ps': 1, 'worker': 2}"
    for line in (f"chief/0 boss:0 {peers} looks None", "chief/0 met 4", f"worker/1 worker:1 {peers} looks None", f"evaluator/0 evaluator:0 {peers} looks on"):
        assert line in said
    assert states_of(embedded, run)["chief/0"] == "Succeeded"


def test_a_run_fails_with_the_reason_of_its_chief_if_the_chief_fails(embedded, submit):
    failed = submit(PLAIN, "mine", "3", code=5)
    assert "chief/0: exit code 3: met 4" in failed.stderr
    status = embedded.mlk("status", failed.stdout.strip(), check=0).stdout
    assert "Failed  chief" in status and "failed first  chief/0: exit code 3" in status


def test_an_evaluator_that_fails_does_not_fail_the_run(embedded, submit):
    run = submit(PLAIN, "mine", "0", "evaluator-fails").stdout.strip()
    assert embedded.mlk("wait", run, check=0).code == 0
    assert states_of(embedded, run)["chief/0"] == "Succeeded"


def test_tensorflow_trains_with_a_chief_and_a_parameter_server_and_workers_and_an_evaluator(embedded, submit):
    """TensorFlow itself reads TF_CONFIG. The variable is on the parameter server, workers add to it, and the evaluator is not in the cluster."""
    run = submit(TENSORFLOW, "tensorflow", env=frameworks.tensorflow()).stdout.strip()
    said = logs_of(embedded, run)
    tasks = "{'chief': 1, 'ps': 1, 'worker': 2}"
    for line in (f"chief/0 chief 0 {tasks}", f"worker/1 worker 1 {tasks}", f"ps/0 ps 0 {tasks}", f"evaluator/0 evaluator 0 {tasks}",
                 "chief/0 on /job:ps/replica:0/task:0/device:CPU:0", "chief/0 total 8.0"):
        assert line in said, said
