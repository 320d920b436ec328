"""Group scaling of make bench: workers against the time to a fixed loss, and what eight asynchronous ones cost in accuracy.

Each worker sleeps before every step, which stands for a slower device: two cores so show what eight devices do. The batch of a
worker stays, and the learning rate grows with the workers (the linear rule of Goyal et al., arXiv:1706.02677), which with async the
server divides by each update's staleness again.
"""

import pathlib
import subprocess
import tempfile
import time

import mlk
import runtime_processes

DEVICE_MS = 20  # of each step: what a device would compute for
BATCH, RATE = 64, 0.05
LOSS = 0.25
SAMPLES_A_LINE = 2560  # the loss in a line of metrics is a mean over these, whatever the number of workers
TURNS = 3  # but for one worker, whose time hardly varies
WORKERS = (1, 2, 4, 8)
MODES = [("ps sync", "ps", "sync"), ("ps async", "ps", "async"), ("allreduce", "allreduce", "sync")]
ACCURACY_SAMPLES = 400_000
CONSTANT, TO_ZERO = {"type": "constant", "warmup": 0}, {"type": "linear", "warmup": 0, "final": 0}


def scaling(report):
    subprocess.run(["cmake", "--build", "--preset", "release", "--target", "teacher_data"], cwd=mlk.ROOT, check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(dir=mlk.BUILD) as folder:
        data = pathlib.Path(folder, "teacher")
        data.mkdir()
        mlk.run(mlk.BUILD / "teacher_data", data, check=0, timeout=120)
        print(f"time to a training loss of {LOSS}: 60 000 x 784, MLP [128], batch {BATCH} a worker, step_delay_ms {DEVICE_MS}; the ratio is the speed-up")
        for name, mode, consistency in MODES:
            times = {count: [seconds_to_loss(folder, data, mode, consistency, count) for _ in range(TURNS if count > 1 else 1)]
                     for count in WORKERS}
            for count in WORKERS[1:]:
                report.add(f"time to loss, {name}, {count} workers", "s", times[count], "1 worker", times[1], None)
        one, eight = accuracy(folder, data, 1, 0), accuracy(folder, data, 8, DEVICE_MS)
        print(f"accuracy after {ACCURACY_SAMPLES} samples: 1 worker {one:.4f}, 8 asynchronous workers {eight:.4f}")
        report.hold("accuracy lost by 8 async workers", "%", [100 * (one - eight)], 0.3)


def running(folder, data, mode, consistency, count, schedule=CONSTANT, **config):
    run = runtime_processes.Run(pathlib.Path(tempfile.mkdtemp(dir=folder)), mode, workers=count, consistency=consistency,
                                model={"type": "mlp", "hidden": [128]}, data={"format": "idx", "batch": BATCH},
                                optimizer={"type": "sgd", "lr": RATE * count, "momentum": 0, "schedule": schedule},
                                patience_seconds=60, **config)
    run.data = data
    return run


def seconds_to_loss(folder, data, mode, consistency, count):
    """From the moment when all train."""
    a_step = BATCH * (1 if consistency == "async" else count)
    with running(folder, data, mode, consistency, count, steps=10**6, step_delay_ms=DEVICE_MS, report_every=SAMPLES_A_LINE // a_step) as run:
        servers, workers = run.start_all()
        speaker = (servers or workers)[0]
        mlk.wait_until(lambda: speaker.members() == count, "all workers", interval=0.01)
        start = time.monotonic()
        mlk.wait_until(lambda: any(float(line["loss"]) <= LOSS for line in workers[0].lines()), f"loss {LOSS}", timeout=120, interval=0.02)
        return time.monotonic() - start


def accuracy(folder, data, count, delay):
    """Of a run with servers on the held-out set, after as many samples for any number of workers."""
    with running(folder, data, "ps", "async", count, schedule=TO_ZERO, steps=ACCURACY_SAMPLES // BATCH, step_delay_ms=delay, report_every=1000) as run:
        servers, workers = run.start_all()
        for process in servers + workers:
            assert process.wait(120) == 0, process.errors()
        return runtime_processes.accuracy(workers[0])
