"""MPI programs on three pods, with the mpirun of Open MPI and of MPICH, without ssh."""

import os
import pathlib
import shutil
import sys

import mlk
import pytest

# Hydra looks for its proxy beside the program that was called, so a link to mpirun would not work.
MPIRUN = {"openmpi": "mpirun.openmpi", "mpich": "mpiexec.mpich"}


class Mpi:
    """One MPI on one cluster. Its programs are those of this machine, or those of an image that has only this MPI."""

    def __init__(self, kind, cluster, folder):
        self.kind, self.cluster, self.folder = kind, cluster, folder
        compiler = shutil.which(f"mpicc.{kind}")
        assert compiler, f"mpicc.{kind} is missing: tests/support/setup.sh test"
        (folder / "code").mkdir()
        mlk.run(compiler, "-o", folder / "code" / "hello", mlk.ROOT / "tests/support/mpi_hello.c", check=0)
        self.image = f"localhost/mpi-{kind}:test"
        # Debian's MPICH 4.0 with UCX sometimes hangs in MPI_Finalize if its ranks are on several hosts and have sent messages:
        # one rank waits for an answer of another rank, which waits for the first rank by PMI and does not read any more.
        self.ends_safely = cluster.embedded or kind == "openmpi"
        if cluster.embedded:
            (folder / "bin").mkdir()
            mpirun = folder / "bin" / "mpirun"
            mpirun.write_text(f'#!/bin/sh\nexec {shutil.which(MPIRUN[kind])} "$@"\n')
            mpirun.chmod(0o755)
            self.path = f"{folder}/bin:/usr/bin:/bin"
            self.shared = pathlib.Path(cluster.env["XDG_STATE_HOME"]) / "mlk/local/claims/default/checkpoints"
        else:
            file = folder / f"mpi-{kind}.tar"
            mlk.run(sys.executable, mlk.ROOT / "tests/cluster/lib/image.py", "mpi", file, self.image, kind, check=0)
            cluster.harness("load-image", file)
            self.path = "/usr/bin:/bin"
            self.shared = pathlib.Path(os.environ.get("MLK_CLUSTER_DIR", "")) / "volumes/checkpoints"

    def submit(self, name, *arguments, retries=1, wait=(), check=0):
        """Submits a run of hello with these arguments. Returns the name of the run."""
        file = self.folder / "experiment.yaml"
        arguments = arguments if self.ends_safely else ("alone=", *arguments)
        file.write_text(f"name: {name}\nmode: allreduce\nframework: mpi\nrun: [./hello, {', '.join(arguments)}]\ncode: code\n"
                        f"env: {{PATH: '{self.path}'}}\nworkers: {{count: 3, processes: 2, cpu: 100m, memory: 128Mi}}\n"
                        f"restart: {{retries: {retries}}}\ndata: [{{name: shared, mount: /shared, pvc: checkpoints}}]\n")
        return self.cluster.mlk("submit", *wait, "--set", f"image={self.image}", file, check=check, timeout=180).stdout.strip()

    def hold(self, name):
        """A run whose processes have all started. They run until release()."""
        if not self.ends_safely:
            pytest.skip("MPICH with UCX may hang at its end here")
        run = self.submit(name, f"hold=/shared/{name}")
        mlk.wait_until(lambda: all(greeted(self.cluster, run, rank) for rank in range(3)), "all processes at work", 120)
        return run

    def release(self, name):
        (self.shared / name).touch()


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request, cluster, name, tmp_path):
    used = Mpi(request.param, cluster, tmp_path)
    yield used
    (used.shared / name).unlink(missing_ok=True)


@pytest.fixture(params=["openmpi", "mpich"])
def local_mpi(request, embedded, name, tmp_path):
    used = Mpi(request.param, embedded, tmp_path)
    yield used
    (used.shared / name).unlink(missing_ok=True)


def log(cluster, run, rank):
    return cluster.mlk("logs", run, "--role", "worker", "--rank", str(rank), check=0).stdout


def greeted(cluster, run, rank, times=1):
    """Whether the log of a pod has the lines of the pod's own processes. Processes are numbered in the order of the pods."""
    lines = log(cluster, run, rank)
    return all(lines.count(f"hello from {number} of 6 in pod {rank},") == times for number in (2 * rank, 2 * rank + 1))


def restarts(cluster, run):
    ranks = cluster.mlk("status", run, "-o", "json", check=0).json()["ranks"]
    return {rank["rank"]: rank["restarts"] for rank in ranks}


@pytest.mark.nodes
def test_processes_of_three_pods_form_one_world_and_each_pod_logs_the_lines_of_its_own_processes(cluster, name, mpi):
    run = mpi.submit(name, wait=["--wait"])
    for rank in range(3):
        assert greeted(cluster, run, rank)
        assert ("sum 21" in log(cluster, run, rank)) == mpi.ends_safely
    ranks = cluster.mlk("status", run, "-o", "json", check=0).json()["ranks"]
    assert [rank["state"] for rank in ranks] == ["Succeeded"] * 3


@pytest.mark.nodes
def test_mlk_status_names_the_pod_and_the_mpi_rank_and_the_exit_code_of_the_process_that_failed_first(cluster, name, mpi):
    run = mpi.submit(name, "fail=3", retries=0, wait=["--wait"], check=5)
    first = cluster.mlk("status", run, "-o", "json", check=0).json()["first_failure"]
    assert (first["role"], first["rank"], first["exit_code"]) == ("worker", 1, 7)
    assert "rank 3 of MPI ended with exit code 7" in str(first), first


def test_a_run_fails_if_an_mpi_process_aborts(embedded, name, local_mpi):
    run = local_mpi.submit(name, "abort=4", retries=0, wait=["--wait"], check=5)
    assert embedded.mlk("status", run, "-o", "json", check=0).json()["first_failure"]["exit_code"] != 0


@pytest.mark.nodes
@pytest.mark.parametrize("rank", [0, 2])
def test_all_processes_of_a_run_start_again_when_its_killed_pod_is_back(cluster, name, mpi, rank):
    run = mpi.hold(name)
    cluster.signal(run, "worker", rank, "KILL")
    others = [each for each in range(3) if each != rank]
    mlk.wait_until(lambda: all(greeted(cluster, run, each, times=2) for each in others), "all processes at work again", 120)
    mpi.release(name)
    cluster.mlk("wait", run, check=0, timeout=120)
    assert restarts(cluster, run) == {each: int(each == rank) for each in range(3)}


def test_mlk_status_counts_no_restarts_of_the_other_ranks_if_a_pod_is_deleted(embedded, name, local_mpi):
    run = local_mpi.hold(name)
    [pod] = embedded.objects("pods", f"mlk.dev/run={run},batch.kubernetes.io/job-completion-index=1")
    embedded.kubectl("delete", "pod", pod["metadata"]["name"], "-n", embedded.namespace, "--wait=false")
    mlk.wait_until(lambda: all(greeted(embedded, run, each, times=2) for each in (0, 2)), "all processes at work again", 120)
    local_mpi.release(name)
    embedded.mlk("wait", run, check=0, timeout=120)
    found = restarts(embedded, run)
    assert found[0] == found[2] == 0


def test_a_stopped_run_leaves_no_process_and_continues_when_it_is_resumed(embedded, name, local_mpi):
    run = local_mpi.hold(name)
    embedded.mlk("stop", run, check=0, timeout=120)
    assert embedded.mlk("status", run, "-o", "json", check=0).json()["phase"] == "Stopped"
    assert not mlk.processes_with(MLK_RUN=run)
    local_mpi.release(name)
    embedded.mlk("resume", run, check=0)
    embedded.mlk("wait", run, check=0, timeout=120)


def test_a_run_fails_without_a_restart_and_its_log_says_why_if_its_image_has_no_mpirun(embedded, name, experiment, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("sh", "tar", "gzip"):
        (tools / tool).symlink_to(shutil.which(tool))
    file = experiment(f"name: {name}\nmode: allreduce\nframework: mpi\nrun: [./hello]\nenv: {{PATH: {tools}}}\n"
                      "workers: {count: 2, cpu: 100m, memory: 64Mi}\n")
    run = embedded.mlk("submit", "--wait", file, check=5, timeout=120).stdout.strip()
    assert "the image has neither mpirun nor mpiexec" in log(embedded, run, 0)
    assert restarts(embedded, run)[0] == 0


def test_an_agent_executes_a_command_only_if_the_caller_has_the_key_of_the_run(embedded, name, tmp_path, local_mpi):
    run = local_mpi.hold(name)
    pid = mlk.processes_with(MLK_RUN=run, MLK_RANK="1")[0]
    pairs = pathlib.Path(f"/proc/{pid}/environ").read_text(encoding="utf-8").split("\0")
    variables = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    host = variables["MLK_ADDRESS"].split(":")[0]
    wrong, done, helper = tmp_path / "key", tmp_path / "done", mlk.BUILD / "mlk-mpi"
    wrong.write_text("0" * 64)
    refused = mlk.run(helper, host, f"touch {done}", check=255, env={**variables, "MLK_SECRET": str(wrong)})
    assert "does not answer with the run's key" in refused.stderr
    assert not done.exists()
    obeyed = mlk.run(helper, host, f"touch {done}; echo said; exit 3", check=3, env=variables)
    assert obeyed.stdout == "said\n"
    assert done.exists()
    local_mpi.release(name)
    embedded.mlk("wait", run, check=0, timeout=120)
