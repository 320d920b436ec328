"""MPI programs over three pods: Open MPI's and MPICH's mpirun, without ssh."""

import pathlib
import shutil

import mlk
import pytest

# Hydra looks for its proxy beside the program that was called, so a link would not do.
MPIRUN = {"openmpi": "mpirun.openmpi", "mpich": "mpiexec.mpich"}


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request, tmp_path):
    """The folder of a program, and a PATH on which mpirun is that of one MPI."""
    compiler = shutil.which(f"mpicc.{request.param}")
    assert compiler, f"mpicc.{request.param} is missing: tests/support/setup.sh test"
    code, path = tmp_path / "code", tmp_path / "bin"
    code.mkdir()
    path.mkdir()
    mlk.run(compiler, "-o", code / "hello", mlk.ROOT / "tests/support/mpi_hello.c", check=0)
    mpirun = path / "mpirun"
    mpirun.write_text(f'#!/bin/sh\nexec {shutil.which(MPIRUN[request.param])} "$@"\n')
    mpirun.chmod(0o755)
    return f"{path}:/usr/bin:/bin"


def text_of(name, path, *arguments, retries=1):
    return (f"name: {name}\nmode: allreduce\nframework: mpi\nimage: mpi:1\nrun: [./hello, {', '.join(arguments)}]\ncode: code\n"
            f"env: {{PATH: '{path}'}}\nworkers: {{count: 3, processes: 2, cpu: 100m, memory: 64Mi}}\nrestart: {{retries: {retries}}}\n")


def log(cluster, run, rank):
    return cluster.mlk("logs", run, "--role", "worker", "--rank", str(rank), check=0).stdout


def greeted(cluster, run, rank):
    """The lines of a pod, whose processes are numbered in the order of the pods."""
    lines = log(cluster, run, rank)
    return all(f"hello from {number} of 6 in pod {rank}, sum 21" in lines for number in (2 * rank, 2 * rank + 1))


def test_the_processes_of_three_pods_are_one_world_and_each_pod_has_the_lines_of_its_own(embedded, name, experiment, mpi):
    run = embedded.mlk("submit", "--wait", experiment(text_of(name, mpi)), check=0, timeout=120).stdout.strip()
    for rank in range(3):
        assert greeted(embedded, run, rank)
    ranks = embedded.mlk("status", run, "-o", "json", check=0).json()["ranks"]
    assert [rank["state"] for rank in ranks] == ["Succeeded"] * 3
    assert not mlk.processes_with(MLK_RUN=run)


def test_the_pod_of_a_process_that_fails_fails_with_its_code_and_the_others_do_not(embedded, name, experiment, mpi):
    file = experiment(text_of(name, mpi, "fail=3", retries=0))
    run = embedded.mlk("submit", "--wait", file, check=5, timeout=120).stdout.strip()
    status = embedded.mlk("status", run, "-o", "json", check=0).json()
    assert status["first_failure"]["rank"] == 1
    assert status["first_failure"]["exit_code"] == 7
    assert "rank 3 of MPI ended with exit code 7" in log(embedded, run, 1)
    assert not mlk.processes_with(MLK_RUN=run)


def test_an_abort_fails_the_run(embedded, name, experiment, mpi):
    run = embedded.mlk("submit", "--wait", experiment(text_of(name, mpi, "abort=4", retries=0)), check=5, timeout=120).stdout.strip()
    assert embedded.mlk("status", run, "-o", "json", check=0).json()["first_failure"]["exit_code"] != 0


@pytest.mark.parametrize("rank", [0, 2])
def test_a_run_whose_pod_is_killed_starts_again_when_the_pod_is_back(embedded, name, experiment, tmp_path, mpi, rank):
    go_on = tmp_path / "go-on"
    run = embedded.mlk("submit", experiment(text_of(name, mpi, f"hold={go_on}")), check=0).stdout.strip()
    mlk.wait_until(lambda: all(greeted(embedded, run, each) for each in range(3)), "all processes at work")
    embedded.signal(run, "worker", rank, "KILL")
    others = [each for each in range(3) if each != rank]

    def again():
        return all(log(embedded, run, each).count("hello from") == 4 for each in others)
    mlk.wait_until(again, "all processes at work again")
    go_on.touch()
    embedded.mlk("wait", run, check=0, timeout=120)
    ranks = {each["rank"]: each for each in embedded.mlk("status", run, "-o", "json", check=0).json()["ranks"]}
    assert [ranks[each]["restarts"] for each in range(3)] == [int(each == rank) for each in range(3)]


def test_a_run_that_is_stopped_goes_on_with_the_same_pods_when_it_is_resumed(embedded, name, experiment, tmp_path, mpi):
    go_on = tmp_path / "go-on"
    run = embedded.mlk("submit", experiment(text_of(name, mpi, f"hold={go_on}")), check=0).stdout.strip()
    mlk.wait_until(lambda: all(greeted(embedded, run, each) for each in range(3)), "all processes at work")
    embedded.mlk("stop", run, check=0, timeout=120)
    assert embedded.mlk("status", run, "-o", "json", check=0).json()["phase"] == "Stopped"
    assert not mlk.processes_with(MLK_RUN=run)
    go_on.touch()
    embedded.mlk("resume", run, check=0)
    embedded.mlk("wait", run, check=0, timeout=120)


def test_an_image_without_mpirun_is_told_so_and_not_tried_again(embedded, name, experiment, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("sh", "tar", "gzip"):
        (tools / tool).symlink_to(shutil.which(tool))
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "hello").write_text("#!/bin/sh\n")
    run = embedded.mlk("submit", "--wait", experiment(text_of(name, tools)), check=5, timeout=120).stdout.strip()
    assert "the image has neither mpirun nor mpiexec" in log(embedded, run, 0)


def test_a_process_without_the_key_of_the_run_is_answered_nothing(embedded, name, experiment, tmp_path, mpi):
    go_on = tmp_path / "go-on"
    run = embedded.mlk("submit", experiment(text_of(name, mpi, f"hold={go_on}")), check=0).stdout.strip()
    mlk.wait_until(lambda: all(greeted(embedded, run, each) for each in range(3)), "all processes at work")
    [environment] = {pathlib.Path(f"/proc/{pid}/environ").read_bytes() for pid in mlk.processes_with(MLK_RUN=run, MLK_RANK="1")[:1]}
    variables = dict(each.split("=", 1) for each in environment.decode().split("\0") if "=" in each)
    host = variables["MLK_ADDRESS"].split(":")[0]
    wrong = tmp_path / "key"
    wrong.write_text("0" * 64)
    done = tmp_path / "done"
    helper = mlk.BUILD / "mlk-mpi"
    refused = mlk.run(helper, host, f"touch {done}", check=255, env={**variables, "MLK_SECRET": str(wrong)})
    assert "does not answer with the run's key" in refused.stderr
    assert not done.exists()
    obeyed = mlk.run(helper, host, f"touch {done}; echo said; exit 3", check=3, env=variables)
    assert obeyed.stdout == "said\n"
    assert done.exists()
    go_on.touch()
    embedded.mlk("wait", run, check=0, timeout=120)
