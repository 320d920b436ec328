"""Runs of mlk-runtime as plain processes on addresses 127.x.y.z: functions to start, kill, freeze, restart and inspect them."""

import array
import itertools
import json
import os
import pathlib
import random
import re
import secrets
import signal
import socket
import struct
import subprocess
import time

import mlk
import wire_peer
from runtime_wires import Wires

RUNTIME = pathlib.Path(os.environ.get("MLK_RUNTIME", mlk.RUNTIME))
PORT = 7070
MOST_SEEDS = 64
ENDLESS = 1_000_000  # the steps of a run that the test ends with Run.finish() after it has seen its condition, even on a slow machine


class AddressBlock:
    """254 addresses 127.x.y.z, so that runs side by side do not connect to each other. No embedded cluster uses these addresses, and no other
    test gets them before close()."""

    def __init__(self):
        while True:
            self.prefix = f"127.{130 + secrets.randbelow(120)}.{secrets.randbelow(256)}"
            self.claim = socket.socket(socket.AF_UNIX)
            try:
                self.claim.bind(f"\0mlk-test {self.prefix}")
                return
            except OSError:  # another test has this block
                self.claim.close()

    def __str__(self):
        return self.prefix

    def close(self):
        self.claim.close()


def write_digits(folder, samples=600, held_out=200, inputs=16, classes=4, repeat=1):
    """Writes IDX files with clusters of bytes. A small model separates them well, but not in its first steps. repeat: repetitions in a row."""
    rng = random.Random(7)
    centres = [[rng.randrange(60, 196) for _ in range(inputs)] for _ in range(classes)]
    folder.mkdir(exist_ok=True)
    for prefix, count in (("train", samples), ("t10k", held_out)):
        labels = [rng.randrange(classes) for _ in range(count)]
        pixels = bytes(min(255, max(0, int(rng.gauss(value, 30)))) for label in labels for value in centres[label])
        images = struct.pack(">IIII", 0x803, count * repeat, 4, inputs // 4) + pixels * repeat
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(images)
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count * repeat) + bytes(labels) * repeat)


def complete_optimizer(given):
    """Adds the keys that the defaults of the experiment file would fill in."""
    of_type = {"momentum": 0.9, "nesterov": False} if given["type"] == "sgd" else {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
    return {"weight_decay": 0, **of_type, "schedule": {"type": "constant", "warmup": 0}, **given}


class Process:
    def __init__(self, name, popen, log, metrics, result):
        self.name, self.popen, self.log, self.metrics, self.result_path = name, popen, log, metrics, result

    def wait(self, timeout=300):
        try:
            return self.popen.wait(timeout * mlk.SLOW)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {timeout} s:\n{self.errors()}") from None

    def running(self):
        return self.popen.poll() is None

    def signal(self, number):
        self.popen.send_signal(number)

    def kill(self):
        self.popen.kill()
        self.popen.wait(10)

    def errors(self):
        return self.log.read_text()

    def lines(self):
        """The metrics lines so far, as dicts."""
        return [dict(pair.split("=") for pair in line.split()[1:])
                for line in self.metrics.read_text().splitlines() if line.startswith("mlk ")]

    def step(self):
        lines = self.lines()
        return int(lines[-1]["step"]) if lines else 0

    def world(self):
        """How many workers take part, by the last metrics line."""
        lines = self.lines()
        return int(lines[-1]["world"]) if lines else 0

    def members(self):
        """How many workers take part, by the last message of this process. Only some processes report this number."""
        count = 0
        for line in self.errors().splitlines():
            if told := re.search(r"generation \d+: (\d+) of|training with (\d+) of|is lost, (\d+) go on", line):
                count = int(next(group for group in told.groups() if group))
            elif line.endswith("has joined"):
                count += 1
        return count

    def result(self):
        return json.loads(self.result_path.read_text())

    def done(self):
        """Whether the process has written the result of a trained run. False while the file is being rewritten."""
        try:
            return self.result()["done"] is True
        except (OSError, ValueError):
            return False


def kill_at_once(processes):
    """Stops all processes before it kills them, so that a process cannot notice the loss of another one and report it."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in processes:
            process.signal(number)
    for process in processes:
        process.popen.wait(10)


class Run:
    """One run. As a context manager it kills the remaining processes at its end.

    network: a runtime_network.Network, of which each process gets a host of its own. wires: processes connect through proxies, see
    runtime_wires.Wires. With steps=ENDLESS the run has checkpoints, which finish() needs.
    """

    def __init__(self, folder, mode, workers=2, servers=None, consistency="async", checkpoints=False, network=None, wires=False,
                 **config):
        self.folder = folder
        self.servers_count = (1 if servers is None else servers) if mode == "ps" else 0
        self.workers_count = workers
        self.checkpoints = folder / "checkpoints" if checkpoints or config.get("steps") == ENDLESS else None
        self.processes = {}
        self.started = itertools.count()
        self.hosts = {}
        block = AddressBlock()
        self.blocks = [block]
        self.addresses = {"worker": [f"{block}.{1 + r}:{PORT}" for r in range(workers)],
                          "server": [f"{block}.{129 + r}:{PORT}" for r in range(self.servers_count)]}
        self.spare = f"{block}.250:{PORT}"  # an address for one more process
        if network:
            for role, addresses in self.addresses.items():
                for rank in range(len(addresses)):
                    self.hosts[role, rank] = host = network.add_host()
                    addresses[rank] = f"{host.address}:{PORT}"
        self.seeds = {role: addresses[:MOST_SEEDS] for role, addresses in self.addresses.items()}
        self.wires = None
        if wires:
            proxies = AddressBlock()
            self.blocks.append(proxies)
            behind = {f"{proxies}.{address.split(':')[0].split('.')[3]}:{PORT}": address
                      for addresses in self.seeds.values() for address in addresses}
            self.wires = Wires(behind)
            front = {address: proxy for proxy, address in behind.items()}
            self.seeds = {role: [front[address] for address in addresses] for role, addresses in self.seeds.items()}
        settings = {
            "schema": 1, "mode": mode, "model": {"type": "mlp", "hidden": [16]}, "precision": "float32",
            "data": {"format": "idx", "batch": 16},
            "optimizer": {"type": "sgd", "lr": 0.02, "momentum": 0.9}, "consistency": consistency, "steps": 200, "seed": 1,
            "report_every": 10, "evaluate_every": 0, "step_delay_ms": 0,
            "workers": {"count": workers, "min": config.pop("minimum", workers)},
            "servers": {"count": self.servers_count}, "checkpoint": {"every": 0, "keep": 3}, "patience_seconds": 30,
            "offline_seconds": 60}
        settings.update(config)
        settings["optimizer"] = complete_optimizer(settings["optimizer"])
        self.steps = settings["steps"]
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(settings))
        (folder / "key").write_text(secrets.token_hex(32))
        self.data = folder / "data"
        write_digits(self.data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            if process.running():
                process.signal(signal.SIGCONT)
                process.kill()
        if self.wires:
            self.wires.close()
        for block in self.blocks:
            block.close()

    def start(self, role, rank, under=(), **env):
        """under: a command that starts the process."""
        number = next(self.started)
        base = self.folder / f"{role}-{rank}-{number}"
        environment = {
            "PATH": os.environ["PATH"], "MLK_RUN": "run", "MLK_ROLE": role, "MLK_RANK": str(rank),
            "MLK_ADDRESS": self.addresses[role][rank], "MLK_SEEDS_WORKER": ",".join(self.seeds["worker"]),
            "MLK_SEEDS_SERVER": ",".join(self.seeds["server"]), "MLK_CONFIG": str(self.folder / "config.json"),
            "MLK_DATA": str(self.data), "MLK_SECRET": str(self.folder / "key"),
            "MLK_RESULT": f"{base}.result", "MLK_INCARNATION": f"{role}-{rank}-{number}",
            "MLK_LATE_SECONDS": "3"}  # in many tests a lost process does not come back
        if self.checkpoints:
            environment["MLK_CHECKPOINTS"] = str(self.checkpoints)
        environment.update(env)
        log, metrics = pathlib.Path(f"{base}.log"), pathlib.Path(f"{base}.out")
        with log.open("wb") as errors, metrics.open("wb") as out:
            command = [*(self.hosts[role, rank].command if self.hosts else []), *under, RUNTIME]
            popen = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
        process = Process(f"{role}/{rank}", popen, log, metrics, pathlib.Path(f"{base}.result"))
        self.processes[role, rank, number] = process
        return process

    def start_all(self, **env):
        """Starts all processes. Returns (servers, workers)."""
        servers = [self.start("server", rank, **env) for rank in range(self.servers_count)]
        return servers, [self.start("worker", rank, **env) for rank in range(self.workers_count)]

    def finish(self, servers, workers, **env):
        """Ends an endless run: SIGTERM ends these processes, and new processes train the checkpoint to the end. workers: sorted by rank, so that
        the first worker reports. Returns the new processes: (servers, workers)."""
        # A process that has just returned has the whole model only after the next step. Before, it cannot save the model.
        self.until_step(workers[0], workers[0].step() + 1)
        self.stop(servers + workers)
        return self.train_what_is_saved(**env)

    def stop(self, processes):
        """Sends SIGTERM, after which the processes save and end with 143."""
        for process in processes:
            process.signal(signal.SIGTERM)
        for process in processes:
            assert process.wait() == 143, f"{process.name}: {process.errors()}"

    def saved_step(self):
        """The step of the newest checkpoint, or 0 if there is none."""
        return max((int(folder.name.removeprefix("step-")) for folder in self.checkpoints.glob("step-*")), default=0)

    def train_what_is_saved(self, **env):
        """Starts the whole run again. It continues from its checkpoint and ends soon. Returns (servers, workers)."""
        saved = self.saved_step()
        assert saved > 0, f"there is no checkpoint\n{self.logs()}"
        self.steps = max(saved + 30, 200)
        config = json.loads((self.folder / "config.json").read_text())
        config["steps"] = self.steps
        config["workers"]["min"] = self.workers_count  # the run waits for all workers, so that no worker is late for the few steps
        (self.folder / "config.json").write_text(json.dumps(config))
        servers, workers = self.start_all(**env)
        assert_trained(servers + workers, self.steps, workers[0])
        assert workers[0].result()["restored_step"] == saved
        return servers, workers

    def beside(self, rank, role, at, incarnation=7):
        """A worker that the test controls (wire_peer.Rank). It connects with process `at` of this role as soon as the process listens."""
        address = self.addresses[role][at]
        self.until(lambda: listens(address), f"{role}/{at} to listen")
        return wire_peer.Rank(address, bytes.fromhex((self.folder / "key").read_text()), rank, incarnation)

    def until(self, condition, what, timeout=30):
        deadline = time.monotonic() + timeout * mlk.SLOW
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not come within {timeout} s\n{self.logs()}")
            time.sleep(0.05)

    def logs(self):
        return "".join(f"--- {process.name}\n{process.errors()}" for process in self.processes.values())

    def until_world(self, reporter, count):
        """Waits until `count` workers take part, by metrics lines of steps after this call."""
        self.until_step(reporter, reporter.step() + 20)
        self.until(lambda: reporter.world() == count, f"{count} workers in a line of {reporter.name}")

    def until_logged(self, process, words, times=1):
        self.until(lambda: process.errors().count(words) >= times, f"'{words}' of {process.name}")

    def until_step(self, process, step):
        self.until(lambda: process.step() >= step, f"step {step} of {process.name}")


def listens(address):
    try:
        wire_peer.connect(address, over_unix=False).close()
        return True
    except ConnectionRefusedError:
        return False


def newest_checkpoint(folder):
    """(manifest, {name: floats}) of the newest checkpoint in the folder. Tensors whose parts are in several files are joined."""
    newest = max(folder.glob("step-*"))
    parts = {}
    for path in newest.glob("*.safetensors"):
        content = path.read_bytes()
        data = 8 + struct.unpack_from("<Q", content)[0]
        for name, tensor in json.loads(content[8:data]).items():
            if name != "__metadata__":
                begin, end = tensor["data_offsets"]
                parts[name] = content[data + begin:data + end]
    joined = {name: array.array("f", data) for name, data in join_parts(parts).items()}
    return json.loads((newest / "manifest.json").read_text()), joined


def join_parts(parts):
    """Joins parts with names such as "name[begin:end]" to tensors by name."""
    begin_of = {part: int((part.partition("[")[2].partition(":")[0] or "0")) for part in parts}
    joined = {}
    for part in sorted(parts, key=begin_of.get):
        joined[part.partition("[")[0]] = joined.get(part.partition("[")[0], b"") + parts[part]
    return joined


def accuracy(process):
    return process.result()["metrics"]["accuracy"]


def assert_trained(processes, steps, reporter):
    """Checks that every process ends with 0, and that the reporter's result is a run that is trained to its end with a good accuracy."""
    for process in processes:
        assert process.wait() == 0, f"{process.name}: {process.errors()}"
    result = reporter.result()
    assert result["done"] is True
    assert result["step"] == steps
    assert accuracy(reporter) >= 0.95, f"{accuracy(reporter)}: {result}\n" + "\n".join(f"{each.name}: {each.errors()}" for each in processes)
