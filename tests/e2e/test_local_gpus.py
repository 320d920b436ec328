"""The GPUs of this machine with --local. The GPUs are pretended: there are device files, and a plugin that runs on an emulator."""

import mlk
import pytest

PLUGIN = mlk.BUILD / "libmlk-cuda-emulated.so"

WAITS = """
name: NAME
mode: allreduce
run: |
  sh -c 'echo "sees <$CUDA_VISIBLE_DEVICES>"; while [ ! -e DONE ]; do sleep 0.1; done'
workers: {count: 3, gpu: 1}
"""


def test_each_worker_trains_on_a_gpu_of_its_own(embedded_with_two_gpus, name):
    if not PLUGIN.exists():
        pytest.skip("the plugin on the emulator is only built on x86-64")
    cluster = embedded_with_two_gpus
    node = cluster.kubectl("get", "node", "local", "-o", "jsonpath={.status.allocatable}").stdout
    assert '"nvidia.com/gpu":"2"' in node
    submitted = cluster.mlk("submit", "--wait", "--set", f"name={name}", "--set", "train.steps=60",
                            mlk.EXAMPLES / "digits-gpu.yaml", check=0, timeout=300)
    assert "GPU" not in submitted.stderr  # the machine has as many GPUs as the run asks for
    logs = cluster.mlk("logs", name, check=0).stdout
    assert logs.count("computes on emulated device") == 2
    pods = cluster.objects("pods", f"mlk.dev/name={name}")
    assert sorted(pod["metadata"]["annotations"]["mlk.dev/gpus"] for pod in pods) == ["0", "1"]


def test_a_worker_waits_until_a_gpu_is_free(embedded_with_two_gpus, name, experiment, tmp_path):
    cluster = embedded_with_two_gpus
    submitted = cluster.mlk("submit", experiment(WAITS.replace("NAME", name).replace("DONE", str(tmp_path / "done"))), check=0)
    assert "this machine has 2 GPUs, and the pods ask for 3: some of them wait until others have ended" in submitted.stderr

    def one_waits():
        pods = cluster.objects("pods", f"mlk.dev/name={name}")
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
        running = [pod for pod in pods if pod.get("status", {}).get("phase") == "Running"]
        return len(running) == 2 and len(waiting) == 1 and "Insufficient nvidia.com/gpu" in str(waiting[0]["status"])
    mlk.wait_until(one_waits, "a worker without a GPU")
    (tmp_path / "done").touch()
    cluster.mlk("wait", name, check=0, timeout=120)
    seen = cluster.mlk("logs", name, check=0).stdout
    assert seen.count("sees <0>") + seen.count("sees <1>") == 3
    assert "sees <0>" in seen and "sees <1>" in seen
