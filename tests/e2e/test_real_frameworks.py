"""PyTorch, JAX and TensorFlow themselves in runs on this machine. The small programs fail unless all of their processes take part.

tests/support/frameworks.py says where the frameworks come from.
"""

import json
import re
import sys

import pytest

import frameworks
import mlk

pytestmark = pytest.mark.foreign

DDP = '''
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(100):
    x = torch.randn(16, 4)
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
weights = [torch.empty(1, 4) for _ in range(dist.get_world_size())]
dist.all_gather(weights, model.module.weight.detach())
assert all(torch.equal(weights[0], each) for each in weights), weights
assert loss < 0.1, loss
print("trained by", dist.get_world_size(), flush=True)
dist.barrier()
os._exit(0)  # the threads of PyTorch 2.15 may abort a process that ends while another of its group does
'''

# The program is slow until its restart, so that the test can kill it in the middle. It computes the mean of the gradients and the new weights
# itself: DistributedDataParallel and torch.optim import PyTorch's compiler, for which each of the eight processes would need more than a second.
ELASTIC = '''
import os, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.Linear(4, 1)
file = os.environ["MLK_CHECKPOINTS"] + "/newest.pt"
first = 0
if os.path.exists(file):
    kept = torch.load(file)
    model.load_state_dict(kept["model"])
    first = kept["step"]
for weights in model.parameters():
    dist.broadcast(weights.detach(), 0)
print(f"process {dist.get_rank()} of {dist.get_world_size()} from step {first}\\n", end="", flush=True)
for step in range(first + 1, 1001 if first == 0 else first + 11):
    x = torch.randn(16, 4)
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for weights in model.parameters():
            dist.all_reduce(weights.grad)  # waits until all have read the file
            weights -= 0.05 / dist.get_world_size() * weights.grad
    if first == 0:
        time.sleep(0.2)
    if dist.get_rank() == 0:
        os.makedirs(os.path.dirname(file), exist_ok=True)
        torch.save({"model": model.state_dict(), "step": step}, file + ".new")
        os.replace(file + ".new", file)
        print(f"step {step}\\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
'''

JAX = '''
import os
import jax
jax.distributed.initialize(num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"]))
import numpy
from jax.experimental import multihost_utils
gathered = multihost_utils.process_allgather(numpy.array([jax.process_index() + 1.0]))
print(f"{jax.process_count()} processes, {jax.device_count()} devices, sum {gathered.sum()}")
'''

TENSORFLOW = '''
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()

@tf.function
def total():
    def one_of(): return tf.distribute.get_replica_context().all_reduce("sum", tf.constant([strategy.cluster_resolver.task_id + 1.0]))
    return strategy.reduce("mean", strategy.run(one_of), axis=None)

resolver = strategy.cluster_resolver
print(f"{resolver.task_type} {resolver.task_id} of {strategy.num_replicas_in_sync}, sum {float(total()[0])}")
'''


@pytest.fixture
def submit(embedded, name, experiment, tmp_path):
    """submit(program, framework, env, *args) submits a run of two pods and returns its name. of_workers and further are added to its file."""
    def do(program, framework, env, *args, of_workers="", further=""):
        (tmp_path / "code").mkdir()
        (tmp_path / "code" / "main.py").write_text(program)
        file = experiment(f"name: {name}\nmode: allreduce\nframework: {framework}\ncode: code\nrun: {json.dumps([sys.executable, 'main.py'])}\n"
                          f"env: {json.dumps(env)}\nworkers: {{count: 2, cpu: 100m, memory: 256Mi{of_workers}}}\n"
                          f"checkpoint: {{volume: {{hostPath: {json.dumps(str(tmp_path))}}}}}\n{further}")
        return embedded.mlk("submit", *args, file, check=0, timeout=180).stdout.strip()
    return do


def log_of(cluster, run, rank):
    return cluster.mlk("logs", run, "--role", "worker", "--rank", str(rank), check=0).stdout


def test_two_pytorch_workers_train_one_model_with_distributed_data_parallel(embedded, submit):
    run = submit(DDP, "torch", frameworks.torch(), "--wait")
    for rank in (0, 1):
        assert "trained by 2" in log_of(embedded, run, rank)


def test_torchrun_in_the_command_of_mlk_run_starts_the_processes_of_two_workers(embedded, name, tmp_path):
    """No flag tells torchrun where the others are, since the framework of the run sets the defaults of these flags."""
    (tmp_path / "main.py").write_text(DDP)
    env = [word for pair in frameworks.torch().items() for word in ("-e", "=".join(pair))]
    run = embedded.mlk("run", "--name", name, "--workers", "2", "--memory", "512Mi", "--cpu", "100m", *env, "--",
                       sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "main.py", cwd=tmp_path, check=0).stdout.strip()
    embedded.mlk("wait", run, check=0, timeout=180)
    for rank in (0, 1):
        assert log_of(embedded, run, rank).count("trained by 4") == 2


def test_two_jax_processes_form_one_system(embedded, submit):
    run = submit(JAX, "jax", frameworks.jax(), "--wait")
    for rank in (0, 1):
        assert "2 processes, 2 devices, sum 3.0" in log_of(embedded, run, rank)


def test_two_tensorflow_workers_compute_the_sum_of_their_values(embedded, submit):
    run = submit(TENSORFLOW, "tensorflow", frameworks.tensorflow(), "--wait")
    for rank in (0, 1):
        assert f"worker {rank} of 2, sum 3.0" in log_of(embedded, run, rank)


def test_torchrun_continues_from_a_checkpoint_when_a_pod_is_killed(embedded, submit, tmp_path):
    """The agent of the other pod still runs, and starts its processes again. torchrun forgets the dead agent, and lets the new agent join."""
    (tmp_path / "bin").mkdir()
    launcher = tmp_path / "bin" / "torchrun"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -m torch.distributed.run "$@"\n')
    launcher.chmod(0o755)
    env = {**frameworks.torch(), "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    run = submit(ELASTIC, "torch", env, of_workers=", min: 2, processes: 2", further="elastic: true\n")
    mlk.wait_until(lambda: "step 3\n" in log_of(embedded, run, 0) + log_of(embedded, run, 1), "the third step", timeout=60)
    embedded.signal(run, "worker", 1, "SIGKILL")
    embedded.mlk("wait", run, check=0, timeout=120)
    said = log_of(embedded, run, 0) + log_of(embedded, run, 1)
    again = re.findall(r"process (\d) of 4 from step ([1-9]\d*)", said)
    assert sorted(process for process, step in again) == ["0", "1", "2", "3"], said
    assert len({step for process, step in again}) == 1
    status = embedded.mlk("status", run, "-o", "json", check=0).json()
    assert [rank["restarts"] for rank in status["ranks"]] == [0, 1]
