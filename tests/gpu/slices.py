"""The slices of tests/gpu/run. Each returns what is written of it. What a machine lacks is one line in there, and no failure."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import sides

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLICE_TIME = 480
MLP = {"model": {"type": "mlp", "hidden": [512, 512]}, "data": {"format": "idx", "batch": 128}, "optimizer": {"type": "adamw", "lr": 0.001}}
GPT = {"model": {"type": "gpt", "layers": 4, "width": 256, "heads": 4, "context": 128}, "data": {"format": "text", "batch": 8},
       "optimizer": {"type": "adamw", "lr": 0.001}}
TINY_MLP = {**MLP, "model": {"type": "mlp", "hidden": [8]}, "data": {"format": "idx", "batch": 8}}
TINY_GPT = {**GPT, "model": {"type": "gpt", "layers": 1, "width": 16, "heads": 2, "context": 8}, "data": {"format": "text", "batch": 1}}


def command(*words, timeout=SLICE_TIME, env=None):
    done = subprocess.run([str(word) for word in words], cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False, env=env)
    if done.returncode != 0:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


class Slices:
    """build: the folder of the programs. tiny: sizes for the emulator, which show only that everything runs."""

    def __init__(self, build, plugin, tiny=False):
        self.build, self.plugin, self.tiny = build, plugin, tiny
        self.turns = 2 if tiny else 7
        # Not by the name of a test, which may be written again: the name of a suite is the path of its file.
        self.tests = [build / "unit_cuda", "-ts=cuda/ops"] if tiny else [build / "gpu_tests"]
        self.python = os.environ.get("MLK_TORCH_PYTHON") or sys.executable
        self.libraries = library_path()

    def operations(self):
        said = command(*self.tests, "--no-colors", env={**os.environ, **self.libraries})
        passed, failed = re.search(r"test cases:.*?(\d+) passed.*?(\d+) failed", said).groups()
        return {"passed": int(passed), "failed": int(failed)}

    def memcheck(self):
        return self._sanitized("memcheck", "--leak-check", "no")

    def racecheck(self):
        return self._sanitized("racecheck")

    def _sanitized(self, tool, *options):
        path = os.pathsep.join([os.environ["PATH"], "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"])
        sanitizer = shutil.which("compute-sanitizer", path=path)
        if not sanitizer:
            return {"not measured": "compute-sanitizer is not here; it comes with the CUDA toolkit"}
        # Tests ask for more memory than there is, which is an error of the API and none of a kernel.
        said = command(sanitizer, "--tool", tool, *options, "--report-api-errors", "no", "--error-exitcode", "99", *self.tests,
                       env={**os.environ, **self.libraries})
        summaries = [line.strip("= ") for line in said.splitlines() if "SUMMARY" in line]
        if not summaries:
            raise RuntimeError(f"compute-sanitizer gave no summary:\n{said[-1000:]}")
        return {"said": summaries[-1]}

    def train(self, folder, mode, steps, settings, gpus=(), workers=1, **more):
        """The losses of a run, what it took (seconds for each step after the first tenth) and the log of rank 0. gpus: the
        environment of each worker's GPU; none: on processors."""
        from runtime_processes import Run
        with Run(pathlib.Path(folder), mode, workers=workers, steps=steps, report_every=max(1, steps // 10), **settings, **more) as run:
            lines = 100 if self.tiny else 4000  # the last tenth is evaluated at the end: of 4000, that takes the emulator longer than all steps
            (run.data / "train.txt").write_text("".join(f"line {i} of {i * i % 97} and {i % 7}.\n" for i in range(lines)))
            for rank in range(run.servers_count):
                run.start("server", rank)
            envs = [{"MLK_GPUS": "1", "MLK_GPU_LIBRARY": str(self.plugin), **self.libraries, **env} for env in gpus] or [{}] * workers
            processes = [run.start("worker", rank, **envs[rank]) for rank in range(workers)]
            run.until(lambda: processes[0].step() >= steps // 10, "the first steps", 300)
            first, begin = processes[0].step(), time.monotonic()
            for process in processes:
                if process.wait(SLICE_TIME) != 0:
                    raise RuntimeError(process.errors())
            seconds = time.monotonic() - begin
            losses = [float(line["loss"]) for line in processes[0].lines() if "loss" in line]
            return losses, seconds / max(1, steps - first), processes[0].errors()

    def training(self):
        results, small = {}, (TINY_MLP, TINY_GPT) if self.tiny else (
            {**MLP, "model": {"type": "mlp", "hidden": [16]}}, {**GPT, "model": {**GPT["model"], "layers": 2, "width": 64, "heads": 2, "context": 32}})
        for mode, workers, more in (("single", 1, {}), ("ps", 2, {"consistency": "sync"}), ("allreduce", 2, {})):
            for settings in small:
                both = []
                for gpus in ([], [{}] * workers):
                    with tempfile.TemporaryDirectory() as folder:
                        both.append(self.train(folder, mode, 10 if self.tiny else 50, settings, gpus, workers, **more)[0])
                results[f"{mode} {settings['model']['type']}"] = furthest(*both)
        return {"largest difference of a loss": results}

    def speed(self):
        results, models = {}, {"tiny mlp": TINY_MLP, "tiny gpt": TINY_GPT} if self.tiny else {"mlp 512-512": MLP, "gpt 4x256": GPT}
        for name, settings in models.items():
            unit = settings["data"]["batch"] * settings["model"].get("context", 1)
            for gpus, what, more in (([], "processor", {}), ([{}], "gpu", {}), ([{}], "gpu, bfloat16", {"precision": "bfloat16"})):
                with tempfile.TemporaryDirectory() as folder:
                    _, seconds, _ = self.train(folder, "single", 10 if self.tiny else 100, settings, gpus, **more)
                results[f"{name}, {what}"] = round(unit / seconds)
        return {"samples or tokens a second": results}

    def gpt2(self):
        return self._beside_torch("gpt", lambda ours, theirs, peer: [
            sides.figure("GPT-2 124M, bfloat16, T 1024", "tokens/s", ours["tokens a second"], peer, theirs.get("tokens a second"), 1.0)])

    def mlp(self):
        return self._beside_torch("mlp", lambda ours, theirs, peer: [
            sides.figure("MLP [512,512]/128 as a graph", "steps/s", ours["steps a second"], peer, theirs.get("steps a second"), 1.3)])

    def attention(self):
        def figures(ours, theirs, peer):
            made = []
            for way in ("forward", "backward"):
                found = {key.partition(", ")[2]: values for key, values in theirs.items() if key.startswith(way)}
                for kind, values in (found or {None: None}).items():
                    made.append(sides.figure(f"attention, {way}, 64, T 1024", "ms", ours[f"{way} ms"], f"{peer}, {kind}", values, 0.9, better="lower"))
            return made
        return self._beside_torch("attention", figures)

    def memory(self):
        """Kernels that memory bounds, beside a copy of the same rounds."""
        with self._ours("memory") as ours:
            (found,) = sides.in_turns([ours], self.turns)
            copy = next(name for name in ("copy by the driver", "copy by a kernel") if name in found)
            return {"device": ours.name, "figures": [sides.figure(name, "GB/s", values, copy, found[copy], 0.85)
                                                     for name, values in found.items() if name != copy]}

    def _ours(self, workload):
        return sides.Side([self.build / "bench_gpu", self.plugin, workload, *(["--tiny"] if self.tiny else [])],
                          {**os.environ, **self.libraries}, SLICE_TIME)

    def _beside_torch(self, workload, figures):
        with self._ours(workload) as ours:
            script = [self.python, ROOT / "tests/bench/torch_gpu.py", workload, *(["--tiny"] if self.tiny else [])]
            try:
                peer = sides.Side(script, None, SLICE_TIME)  # it knows where its libraries are
            except (OSError, RuntimeError) as error:
                (found,) = sides.in_turns([ours], self.turns)
                return {"device": ours.name, "peer not measured": str(error), "figures": figures(found, {}, None)}
            with peer:
                return {"device": ours.name, "figures": figures(*sides.in_turns([ours, peer], self.turns), peer.name)}

    def gpus(self):
        """Two ranks that add up by NCCL, beside the same through the hosts, and the losses of processors."""
        if not self.tiny and (there := count_gpus()) < 2:
            return {"not measured": f"sums by NCCL need two GPUs, and {there} is here"}
        steps, settings = (10, TINY_GPT) if self.tiny else (200, GPT)
        with tempfile.TemporaryDirectory() as folder:
            fake = {"MLK_NCCL_LIBRARY": str(self.build / "libmlk-fake-nccl.so"), "MLK_FAKE_NCCL_FOLDER": folder} if self.tiny else {}
            nccl = [{"CUDA_VISIBLE_DEVICES": str(index), **fake} for index in range(2)]
            hosts = [{**env, "MLK_NCCL_LIBRARY": "none"} for env in nccl]
            runs = {}
            for name, gpus in (("processors", []), ("by NCCL", nccl), ("through the hosts", hosts)):
                runs[name] = self.train(f"{folder}/{name}", "allreduce", steps, settings, gpus, workers=2, step_delay_ms=20 if self.tiny else 0)
        if "sums go by NCCL, over 2 GPUs" not in runs["by NCCL"][2]:
            raise RuntimeError(f"NCCL did not add up:\n{runs['by NCCL'][2]}")
        tokens = 2 * settings["data"]["batch"] * settings["model"]["context"]
        return {"largest difference of a loss": furthest(runs["processors"][0], runs["by NCCL"][0]),
                "tokens a second": {name: round(tokens / run[1]) for name, run in runs.items()}}


def furthest(some, others):
    return max(abs(a - b) for a, b in zip(some, others, strict=True))


def count_gpus():
    try:
        return len(command("nvidia-smi", "-L", timeout=30).splitlines())
    except (OSError, RuntimeError, subprocess.TimeoutExpired):
        return 0


def library_path():
    """The environment in which the loader finds cuBLASLt and NCCL, also those of pip's packages."""
    folders = [pathlib.Path(path) / "nvidia" / name / "lib" for path in sys.path for name in ("cu13", "nccl", "cublas")]
    there = [str(folder) for folder in [*folders, pathlib.Path("/usr/local/cuda/lib64")] if folder.is_dir()]
    given = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": os.pathsep.join([*([given] if given else []), *there])}
