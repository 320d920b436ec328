"""Disturbs a run at random, and checks that the run ends with the same result as an undisturbed run."""

import math
import signal
import time

import mlk
from runtime_processes import newest_checkpoint
from runtime_wires import Wires

PAUSE = 0.25  # seconds between disturbances, on average
RESTART = 0.3  # seconds within which a process starts again after its end
LIMIT = 120  # seconds for the rest of the run after the last disturbance


class Chaos:
    """Kills and freezes processes, and disturbs their connections. Starts processes again after their end, as a cluster would."""

    def __init__(self, run, rng, kills):
        self.run, self.rng, self.kills_left = run, rng, kills
        self.kills = 0
        self.alive = {}  # (role, rank): Process
        self.due = {}  # (role, rank): when it starts again
        self.frozen = {}  # (role, rank): when it continues
        self.trained = False  # a process has ended with 0
        self.history = []

    def play(self):
        """Runs the whole run. Returns how many processes were killed."""
        servers, workers = self.run.start_all()
        self.alive = {("server", rank): process for rank, process in enumerate(servers)}
        self.alive |= {("worker", rank): process for rank, process in enumerate(workers)}
        next_event = time.monotonic() + self.rng.uniform(0, 2 * PAUSE)
        calm_since = None
        while self.alive or self.due:
            now = time.monotonic()
            self.collect(now)
            if calm_since is None and (self.kills_left <= 0 or self.somebody_is_done()):
                calm_since = now
                self.calm()
            if calm_since is None and now >= next_event:
                self.disturb(now)
                next_event = now + self.rng.uniform(0, 2 * PAUSE)
            assert calm_since is None or now < calm_since + LIMIT * mlk.SLOW, f"the run does not end\n{self.story()}"
            time.sleep(0.02)
        return self.kills

    def story(self):
        logs = "".join(f"--- {p.name}\n{p.errors()}" for p in self.run.processes.values() if p.running())
        return "\n".join(self.history) + f"\nstill running:\n{logs}"

    def note(self, what):
        self.history.append(f"{time.monotonic():.2f} {what}")

    def collect(self, now):
        """Notes the processes that have ended, and starts the processes that are due."""
        for who, process in list(self.alive.items()):
            code = process.popen.poll()
            if code is None:
                continue
            del self.alive[who]
            self.frozen.pop(who, None)
            self.note(f"{process.name} ended with {code}")
            assert code in (0, -signal.SIGKILL, 75), f"{process.name} ended with {code}:\n{process.errors()}\n{self.story()}"
            self.trained = self.trained or code == 0
            # After a process has trained to the end, a new process may find no peer.
            if code == -signal.SIGKILL or (code == 75 and not self.trained):
                self.due[who] = now + self.rng.uniform(0, RESTART)
        for who in [who for who, when in self.due.items() if now >= when]:
            del self.due[who]
            self.alive[who] = self.run.start(*who)
        for who in [who for who, when in self.frozen.items() if now >= when]:
            self.thaw(who)

    def thaw(self, who):
        if self.frozen.pop(who, None) and who in self.alive:
            self.alive[who].signal(signal.SIGCONT)

    def somebody_is_done(self):
        return any(process.popen.poll() == 0 or process.done() for process in self.alive.values())

    def calm(self):
        self.note("calm")
        for who in list(self.frozen):
            self.thaw(who)
        if self.run.wires:
            self.run.wires.calm()

    def disturb(self, now):
        choice = self.rng.random()
        if choice < 0.5:
            self.kill(1)
        elif choice < 0.6:
            self.kill((len(self.alive) + 1) // 2)
        elif choice < 0.8 or not self.run.wires:
            self.freeze(now)
        else:
            fault = self.rng.choice(Wires.FAULTS)
            self.note(f"a connection is {fault}")
            self.run.wires.disturb(fault, self.rng)

    def kill(self, count):
        victims = self.rng.sample(sorted(self.alive), min(count, len(self.alive), self.kills_left))
        for who in victims:
            self.alive[who].popen.kill()
        self.kills += len(victims)
        self.kills_left -= len(victims)
        self.note(f"killed: {victims}")

    def freeze(self, now):
        running = sorted(set(self.alive) - set(self.frozen))
        if not running:
            return
        who = self.rng.choice(running)
        # After 5 s the other processes treat this process as lost.
        seconds = 7 if self.rng.random() < 0.1 else self.rng.uniform(0.05, 1)
        self.alive[who].signal(signal.SIGSTOP)
        self.frozen[who] = now + seconds
        self.note(f"frozen for {seconds:.1f} s: {who}")


def final_state(run):
    """(step, position, tensors by name) of the run's last checkpoint, without the tensors of the optimizer."""
    manifest, tensors = newest_checkpoint(run.checkpoints)
    return manifest["step"], manifest["position"], {name: tensor for name, tensor in tensors.items() if name.startswith("layers.")}


def distance(one, other):
    """The distance of two sets of tensors, relative to their size."""
    pairs = [(a, b) for name in one for a, b in zip(one[name], other[name], strict=True)]
    return math.sqrt(sum((a - b) ** 2 for a, b in pairs) / sum(a * a for a, _ in pairs))


def training_loss(run, tensors):
    """The mean cross entropy of a model with these tensors over all training images, computed in plain Python."""
    images = (run.folder / "data/train-images-idx3-ubyte").read_bytes()[16:]
    labels = (run.folder / "data/train-labels-idx1-ubyte").read_bytes()[8:]
    inputs, brightest = len(images) // len(labels), max(images)
    layers = [(tensors[f"layers.{i}.weight"], tensors[f"layers.{i}.bias"]) for i in range(len(tensors) // 2)]
    total = 0.0
    for sample, label in enumerate(labels):
        values = [pixel / brightest for pixel in images[sample * inputs:(sample + 1) * inputs]]
        for number, (weight, bias) in enumerate(layers):
            width = len(values)
            sums = [b + sum(w * v for w, v in zip(weight[row * width:(row + 1) * width], values)) for row, b in enumerate(bias)]
            values = sums if number + 1 == len(layers) else [max(0.0, value) for value in sums]
        largest = max(values)
        total += largest + math.log(sum(math.exp(value - largest) for value in values)) - values[label]
    return total / len(labels)
