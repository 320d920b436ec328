"""The examples for GPUs on the real cluster: as objects on pretended nodes, and as runs that train on emulated GPUs."""

import array
import json
import os
import pathlib
import shutil

import mlk
import pytest

pytestmark = pytest.mark.quiet  # other tests ask for GPUs in order to wait for ever
PLUGIN = mlk.BUILD / "libmlk-cuda-emulated.so"
TRAINS = mlk.EXAMPLES / "digits-gpu.yaml"
GPT2 = mlk.EXAMPLES / "gpt2-allreduce.yaml"
# Both examples go on with one worker, so their Jobs end with the first rank that has ended well, and the pods of slower ranks are deleted with
# their logs. The tests of logs need all ranks to the end.
ALL_RANKS = "workers.min=2"
EXAMPLES = {TRAINS: 2, GPT2: 4}  # the number of workers of each example
ON_PRETENDED_NODES = ["--set", "scheduling.node.selector.type=kwok",
                      "--set", "scheduling.node.tolerations=[{key: kwok.x-k8s.io/node, operator: Exists, effect: NoSchedule}]"]


@pytest.fixture
def pretended_nodes(real):
    """One pretended node with 8 GPUs beside the real nodes. If all nodes of the cluster are pretended, these nodes."""
    if os.environ.get("MLK_CLUSTER_NODES") == "kwok":
        yield
        return
    real.harness("fake-nodes", 1)
    yield
    real.kubectl_admin("delete", "node", "fake-1")


@pytest.fixture
def emulated_gpus(real, request):
    """Emulated GPUs on each real node: one, or as many as the test says."""
    real.harness("gpus", getattr(request, "param", 1))
    yield
    real.harness("gpus", 0)


def scheduled(real, run, count):
    """The pods of the run once all of them have a node."""
    pods = real.objects("pods", f"mlk.dev/run={run}")
    return pods if len(pods) == count and all(pod["spec"].get("nodeName") for pod in pods) else None


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_for_gpus_is_accepted_and_gets_its_gpus(real, name, pretended_nodes, file):
    real.mlk("submit", "--dry-run=server", file, check=0)
    run = real.mlk("submit", "--set", f"name={name}", *ON_PRETENDED_NODES, file, check=0).stdout.strip()
    pods = mlk.wait_until(lambda: scheduled(real, run, EXAMPLES[file]), "a node for each worker")
    for pod in pods:
        assert pod["spec"]["nodeName"].startswith("fake-")
        (container,) = pod["spec"]["containers"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
        assert {"name": "mlk-shm", "mountPath": "/dev/shm"} in container["volumeMounts"]
        assert "NVIDIA_VISIBLE_DEVICES" not in [variable["name"] for variable in container["env"]]


def test_one_worker_waits_if_its_run_asks_for_one_gpu_more_than_the_cluster_has(real, name, pretended_nodes):
    free = 8 * len(json.loads(real.kubectl_admin("get", "nodes", "-l", "type=kwok", "-o", "json").stdout)["items"])
    run = real.mlk("submit", "--set", f"name={name}", "--set", f"workers.count={free + 1}", *ON_PRETENDED_NODES, TRAINS, check=0).stdout.strip()

    def waiting():
        pods = real.objects("pods", f"mlk.dev/run={run}")
        late = [pod for pod in pods if not pod["spec"].get("nodeName")]
        return len(pods) == free + 1 and len(late) == 1 and "Insufficient nvidia.com/gpu" in str(late[0]["status"])
    mlk.wait_until(waiting, "one worker without a GPU")


@pytest.fixture
def shards(real):
    """Writes tokens 0 to 15 in turn into the files that the example asks for. Returns the settings that fit the example's model to these tokens."""
    folder = pathlib.Path(real.env["MLK_CLUSTER_DIR"]) / "volumes/datasets/fineweb"
    folder.mkdir()
    for part, count in (("train", 4096), ("val", 512)):
        head = array.array("I", [20240520, 1, count] + [0] * 253)
        (folder / f"fineweb_{part}_000000.bin").write_bytes(head.tobytes() + array.array("H", (i % 16 for i in range(count))).tobytes())
    yield ["train.data.vocabulary=16", "train.data.batch=4", "train.data.micro_batch=2", "train.model.layers=1", "train.model.width=16",
           "train.model.heads=2", "train.model.context=16", "train.optimizer.lr=0.01", "train.optimizer.schedule.warmup=10", "train.steps=60",
           "workers.count=2", ALL_RANKS, "workers.cpu=500m", "workers.memory=1Gi"]
    shutil.rmtree(folder)


@pytest.mark.nodes
@pytest.mark.skipif(not PLUGIN.exists(), reason="the plugin on the emulator is only built on x86-64")
def test_a_run_learns_the_digits_on_gpus_of_a_cluster(real, name, emulated_gpus):
    ended = real.mlk("submit", "--wait", "--set", f"name={name}", "--set", ALL_RANKS, "--set", "train.steps=600", TRAINS, check=0, timeout=240)
    run = ended.stdout.strip()
    log = real.mlk("logs", run, check=0).stdout
    for rank in (0, 1):
        assert f"mlk-runtime worker/{rank}: computes on emulated device" in log
    status = real.mlk("status", run, "-o", "json", check=0).json()
    assert status["phase"] == "Succeeded"
    assert status["result"]["metrics"]["accuracy"] > 0.9


@pytest.mark.nodes
@pytest.mark.skipif(not PLUGIN.exists(), reason="the plugin on the emulator is only built on x86-64")
@pytest.mark.parametrize("emulated_gpus", [2], indirect=True, ids=["two"])
def test_a_worker_with_two_gpus_trains_with_one_process_for_each_gpu(real, name, emulated_gpus):
    settings = ("--set", f"name={name}", "--set", ALL_RANKS, "--set", "workers.gpu=2", "--set", "train.steps=200")
    run = real.mlk("submit", "--wait", *settings, TRAINS, check=0, timeout=240).stdout.strip()
    log = real.mlk("logs", run, check=0).stdout
    for rank in range(4):
        assert f"mlk-runtime worker/{rank}: computes on emulated device" in log
    pods = real.objects("pods", f"mlk.dev/run={run}")
    assert [pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] for pod in pods] == ["2", "2"]
    status = real.mlk("status", run, "-o", "json", check=0).json()
    assert status["phase"] == "Succeeded"
    assert status["result"]["metrics"]["accuracy"] > 0.8


@pytest.mark.nodes
@pytest.mark.skipif(not PLUGIN.exists(), reason="the plugin on the emulator is only built on x86-64")
def test_a_small_version_of_the_gpt2_example_learns_shards_of_tokens_on_gpus_of_a_cluster(real, name, emulated_gpus, shards):
    settings = [word for setting in (f"name={name}", *shards) for word in ("--set", setting)]
    run = real.mlk("submit", "--wait", *settings, GPT2, check=0, timeout=240).stdout.strip()
    assert "mlk-runtime worker/0: computes on emulated device" in real.mlk("logs", run, check=0).stdout
    assert real.mlk("status", run, "-o", "json", check=0).json()["result"]["metrics"]["accuracy"] > 0.9
