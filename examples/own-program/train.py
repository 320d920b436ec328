"""Fits a line to noisy points by stochastic gradient descent, with as many workers as the run has.

Every worker computes the gradient of points of its own; rank 0 adds them up and keeps the checkpoint. When a worker is lost the
others end too. Kubernetes starts them again, and they go on from the checkpoint.
"""

import json
import os
import pathlib
import random
import signal
import socket
import sys
import time

STEPS = int(os.environ.get("STEPS", "2000"))
DELAY = float(os.environ.get("DELAY", "0"))  # seconds a step takes at least
REPORT_EVERY, SAVE_EVERY, BATCH, RATE = 50, 100, 32, 0.1

rank = int(os.environ["MLK_RANK"])
workers = os.environ["MLK_SEEDS_WORKER"].split(",")  # host:port of each
folder = os.environ.get("MLK_CHECKPOINTS")  # none without checkpoint.volume
stopping = False


def on_sigterm(number, frame):
    global stopping
    stopping = True


def load():
    """Step and weights of the checkpoint, or those to begin with."""
    if not folder:
        return 0, [0.0, 0.0]
    try:
        saved = json.loads(pathlib.Path(folder, "state.json").read_text())
        print(f"going on from step {saved['step']}")
        return saved["step"], saved["weights"]
    except FileNotFoundError:
        return 0, [0.0, 0.0]


def save(step, weights):
    if not folder:
        return
    target = pathlib.Path(folder, "state.json")
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_suffix(".tmp")
    aside.write_text(json.dumps({"step": step, "weights": weights}))
    os.replace(aside, target)  # whole, or not at all


def peers():
    """Rank 0: a file for each other worker. The others: a list with the one that leads to rank 0."""
    host, port = workers[0].rsplit(":", 1)
    if rank == 0:
        own = host if host.replace(".", "").isdigit() else ""  # a name stands for all addresses of a pod
        with socket.create_server((own, int(port))) as server:
            server.settimeout(300)
            return [server.accept()[0].makefile("rw") for _ in workers[1:]]
    for attempt in range(300):  # rank 0, or its name, may not be there yet
        try:
            return [socket.create_connection((host, int(port)), timeout=300).makefile("rw")]
        except OSError:
            time.sleep(1)
    sys.exit("worker 0 cannot be reached")


def send(file, value):
    file.write(json.dumps(value) + "\n")
    file.flush()


def receive(file):
    line = file.readline()
    if not line:
        sys.exit("a worker is lost")
    return json.loads(line)


def gradient(weights):
    """Sum over a batch, of the squared error and of its slope: of y = 3x - 1 with some noise."""
    loss, slope = 0.0, [0.0, 0.0]
    for _ in range(BATCH):
        x = random.uniform(-1, 1)
        error = weights[0] * x + weights[1] - (3 * x - 1 + random.gauss(0, 0.1))
        loss += error * error
        slope[0] += 2 * error * x
        slope[1] += 2 * error
    return loss, slope


def main():
    signal.signal(signal.SIGTERM, on_sigterm)
    random.seed(rank)
    files = peers()
    if rank == 0:
        step, weights = load()
        for file in files:
            send(file, [step, weights])
    else:
        step, weights = receive(files[0])
    began, first = time.monotonic(), step
    while step < STEPS:
        loss, slope = gradient(weights)
        if rank == 0:
            stop = stopping
            for file in files:
                their_loss, their_slope, their_stop = receive(file)
                loss += their_loss
                slope = [a + b for a, b in zip(slope, their_slope)]
                stop = stop or their_stop
            for file in files:
                send(file, [loss, slope, stop])
        else:
            send(files[0], [loss, slope, stopping])
            loss, slope, stop = receive(files[0])
        samples = BATCH * len(workers)
        weights = [weight - RATE * each / samples for weight, each in zip(weights, slope)]
        step += 1
        if rank == 0 and (step % SAVE_EVERY == 0 or step == STEPS or stop):
            save(step, weights)
        if rank == 0 and (step % REPORT_EVERY == 0 or step == STEPS):
            speed = (step - first) * samples / (time.monotonic() - began)
            print(f"mlk step={step} loss={loss / samples:.4g} samples_per_s={speed:.0f} world={len(workers)}")
        if stop:
            sys.exit(143)  # stopped, not trained: the run may be resumed
        time.sleep(DELAY)
    if rank == 0:
        print(f"y = {weights[0]:.2f} x + {weights[1]:.2f}")


main()
