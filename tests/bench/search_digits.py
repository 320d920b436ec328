"""Of group search of make bench: searches and early stopping on networks that really learn digits.

The noisy objective is the loss on unseen digits after a short training whose seed is new for each evaluation. What a search has found is
the point of the smallest loss that it saw; its regret is the mean loss of that point over other seeds, less the smallest such mean of all
points that any search found, one that is twenty times as long among them.
"""

import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess

import mlk

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples/data/digits"
SEEDS = 10
CURVES = 10  # seeds of early stopping
EVALUATIONS = 60
LONG, LONG_SEED = 20 * EVALUATIONS, 99
MEASURED = range(1_000_001, 1_000_025)  # seeds of trainings that no search has seen
MOST_EVALUATIONS = 1000  # as in mlk_search.cpp: what sets the seeds of two searches apart
SPACE = {"lr": ("log", 1e-4, 1), "hidden": ("integer", 4, 128), "momentum": ("uniform", 0, 0.99), "batch": ("choice", [8, 16, 32, 64, 128]),
         "decay": ("log", 1e-6, 1e-1)}  # as in digits_training.h


class Losses:
    """A process that trains networks and tells their mean loss."""

    def __enter__(self):
        self.process = subprocess.Popen([mlk.BUILD / "bench_search", f"losses:{DIGITS}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()

    def of(self, point, *seeds):
        print(json.dumps([point, *seeds]), file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def searched(evaluations, seed, *more):
    """The point that our search, or quasi-random search, finds."""
    return json.loads(mlk.run(mlk.BUILD / "bench_search", f"digits:{DIGITS}", evaluations, seed, *more, check=0, timeout=1200).stdout)


def measured(point):
    with Losses() as losses:
        return losses.of(point, *MEASURED)


def optuna_point(study_of, seed):
    """What Optuna finds. study_of: makes its study, and gives the point that a trial of it suggests."""
    study, suggest = study_of(seed, SPACE)
    with Losses() as losses:
        study.optimize(lambda trial: losses.of(suggest(trial), MOST_EVALUATIONS * seed + trial.number), n_trials=EVALUATIONS)
    return study.best_trial.params


def regrets(optuna, seeds):
    """Those of our search, of Optuna's and of quasi-random search, one for each seed. optuna: gives its point for a seed, in any process."""
    numbers = range(1, seeds + 1)
    with concurrent.futures.ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = [pool.map(searched, [EVALUATIONS] * seeds, numbers), pool.map(optuna, numbers),
                 pool.map(searched, [EVALUATIONS] * seeds, numbers, ["random"] * seeds), pool.map(searched, [LONG], [LONG_SEED], ["random"])]
        losses = [list(pool.map(measured, points)) for points in map(list, found)]
    smallest = min(min(of_search) for of_search in losses)
    return [[loss - smallest for loss in of_search] for of_search in losses[:3]]


def early_stopping(seeds=CURVES):
    """For each seed the accuracies and steps of random search, of ASHA that pauses trials, and of ASHA that stops them."""
    subprocess.run(["cmake", "--build", "--preset", "release", "--target", "bench_asha"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        lines = pool.map(lambda seed: mlk.run(mlk.BUILD / "bench_asha", DIGITS, seed, check=0, timeout=1800).stdout, range(1, seeds + 1))
        return [tuple(map(float, line.split())) for line in lines]


def quartiles(values):
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))
