#!/usr/bin/env python3
"""Group search of make bench: the regret of our searches after 60 evaluations beside that of Optuna, with 1, 4, 8 and 32 trials at a
time; ASHA beside random search; the time of a suggestion.

    tests/bench/search.py [SEEDS [PARALLEL...]]     by itself; 30 seeds by default, and 200 where a function is noisy: there the
                                                    median of 30 is off by a fifth

Regret is the value, without noise, of the point that seemed best, less the smallest value there is. Trials take 0.5 to 1.5 units of
time, and the next one is suggested as soon as one ends. The functions are written twice, in search_problems.h and search_hard_problems.h,
and in search_problems.py; their values at fixed points are compared first. Both sides see each function once for each seed, 1, 2, ...
"""

import concurrent.futures
import functools
import heapq
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import mlk  # noqa: E402
import search_digits  # noqa: E402
from search_problems import PROBLEMS, square  # noqa: E402
import wheels  # noqa: E402

EVALUATIONS = 60
SEEDS = 30
NOISY_SEEDS = 200
PARALLEL = (1, 4, 8, 32)  # trials at a time
TRIALS = 500  # before a suggestion is timed
FIXED_POINTS = 20
VERSION = "5.0.0"
OPTUNA = (f"optuna=={VERSION}", "colorlog==6.12.0", "packaging==26.3", "tqdm==4.70.1")
GOAL = 0.95  # our median regret is at most 1.05 times Optuna's
EXACT = 1e-9  # a regret below this is none


def point_of(space, choose):
    """The point with the value that `choose` gives for each name and definition, in order, of those whose conditions hold."""
    point = {}
    for number, (name, (kind, *rest)) in enumerate(space.items()):
        ranged = kind != "choice"
        needed = rest[2:] if ranged else rest[1:]
        if not needed or point.get(needed[0]) in needed[1]:
            point[name] = choose(number, name, kind, *(rest[:2] if ranged else rest[:1]))
    return point


def value_at(place, kind, *bounds):
    if kind == "choice":
        return bounds[0][int(place * len(bounds[0]))]
    low, high = bounds
    if kind == "integer":
        return low + int(place * (high - low + 1))
    if kind == "log":
        return math.exp(math.log(low) * (1 - place) + math.log(high) * place)
    return low * (1 - place) + high * place


def check_functions():
    """Both sides must compute the same, or the figures mean nothing."""
    told = mlk.run(mlk.BUILD / "bench_search", "values", check=0).stdout.splitlines()
    ours = {name: [float(value) for value in values] for name, *values in map(str.split, told)}
    if list(ours) != list(PROBLEMS):
        sys.exit(f"search.py: bench_search has the functions {', '.join(ours)}")
    for name, (function, _, space, *_) in PROBLEMS.items():
        for index, value in enumerate(ours[name]):
            point = point_of(space, lambda number, _, *kind: value_at((square(index + number + 1) % 11 + 0.5) / 11, *kind))  # noqa: B023
            if not (math.isclose(function(point), value, rel_tol=1e-9, abs_tol=1e-12) or math.isnan(function(point)) and math.isnan(value)):
                sys.exit(f"search.py: {name} is {value} in search_problems.h and {function(point)} here, at {point}")
        assert len(ours[name]) == FIXED_POINTS


def mlk_regrets(name, parallel, seeds, *more):
    told = mlk.run(mlk.BUILD / "bench_search", name, EVALUATIONS, parallel, *range(1, seeds + 1), *more, check=0, timeout=1200).stdout
    return [float(line) for line in told.splitlines()]


def optuna_study(path, seed, space, conditional=False):
    """A study, and what gives the point that a trial of it suggests. Conditional spaces get the option that its documentation recommends
    for them."""
    sys.path[:0] = path
    import warnings

    import optuna
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, group=conditional, constant_liar=True)

    def suggested(trial):
        suggest = {"choice": trial.suggest_categorical, "integer": trial.suggest_int, "uniform": trial.suggest_float,
                   "log": lambda name, low, high: trial.suggest_float(name, low, high, log=True)}
        return point_of(space, lambda _, name, kind, *bounds: suggest[kind](name, *bounds))

    return optuna.create_study(sampler=sampler), suggested


def optuna_regret(name, parallel, seed, path):
    """Runs in a process of its own."""
    function, smallest, space, *noise = PROBLEMS[name]
    study, suggested = optuna_study(path, seed, space, conditional=name == "conditional")
    import optuna
    numbers = random.Random(seed)
    now, running, started, best_seen, best = 0, [], 0, math.inf, math.inf
    for _ in range(EVALUATIONS):
        while len(running) < parallel and started < EVALUATIONS:
            trial = study.ask()
            heapq.heappush(running, (now + 0.5 + numbers.random(), started, trial, function(suggested(trial))))
            started += 1
        now, _, trial, value = heapq.heappop(running)
        if math.isnan(value):
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        seen = value + sum(noise) * numbers.gauss(0, 1)
        study.tell(trial, seen)
        if seen < best_seen:
            best_seen, best = seen, value
    return best - smallest


def optuna_times(path, name, trials):
    """Milliseconds of some suggestions after so many trials. Runs in a process of its own."""
    function, _, space = PROBLEMS[name]
    study, suggested = optuna_study(path, 1, space)
    import optuna
    random_study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    for _ in range(trials):
        trial = random_study.ask()
        value = function(point_of(space, lambda _, name, kind, *bounds: trial.suggest_float(name, *bounds)))  # noqa: B023
        random_study.tell(trial, value)
        study.add_trial(random_study.trials[-1])
    times = []
    for _ in range(11):
        start = time.perf_counter()
        trial = study.ask()
        point = suggested(trial)
        times.append(1000 * (time.perf_counter() - start))
        study.tell(trial, function(point))
    return times


def peer_path():
    """The folders of Optuna and of what it imports."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    numpy = wheels.unpack(f"numpy-2.2.6-{version}", [wheels.NUMPY], "numpy")
    return [str(wheels.unpack(f"optuna-{VERSION}", OPTUNA, f"Optuna {VERSION} to compare with")), str(numpy)]


def quartiles(regrets):
    low, middle, high = statistics.quantiles(regrets, n=4, method="inclusive")
    return low, middle, high


def ratio(theirs, ours):
    """Over 1: ours is better. Two that found the smallest value are equal."""
    return (theirs + EXACT) / (ours + EXACT)


def seeds_of(name):
    """How many seeds a row has, unless the user says so."""
    if name == "network on digits":
        return search_digits.SEEDS
    return NOISY_SEEDS if len(PROBLEMS[name]) > 3 else SEEDS


def digits(path, seeds):
    """Quartiles of the regrets of the network, as those that compare() yields."""
    optuna = functools.partial(search_digits.optuna_point, functools.partial(optuna_study, path))
    return map(search_digits.quartiles, search_digits.regrets(optuna, seeds))


def compare(wanted=None, parallels=PARALLEL):
    """Yields for each number of trials at a time and each function their names, the number of seeds, and the quartiles of our regret, of
    Optuna's, and of quasi-random search. `wanted`: so many seeds for each."""
    subprocess.run(["cmake", "--build", "--preset", "release", "--target", "bench_search"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    check_functions()
    path = peer_path()
    with concurrent.futures.ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for parallel in parallels:
            for name in PROBLEMS:
                seeds = wanted or seeds_of(name)
                theirs = list(pool.map(optuna_regret, [name] * seeds, [parallel] * seeds, range(1, seeds + 1), [path] * seeds))
                yield (f"{name}, {parallel} at a time", seeds, quartiles(mlk_regrets(name, parallel, seeds)), quartiles(theirs),
                       quartiles(mlk_regrets(name, parallel, seeds, "random")))
    name = "network on digits"
    seeds = wanted or seeds_of(name)
    yield name, seeds, *digits(path, seeds)


def suggestion_times():
    """Milliseconds of suggestions after TRIALS trials: ours and Optuna's."""
    name = "hartmann6"
    told = mlk.run(mlk.BUILD / "bench_search", "time", name, TRIALS, check=0, timeout=600).stdout
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        return list(map(float, told.split())), pool.submit(optuna_times, peer_path(), name, TRIALS).result()


def early_stopping(seeds=search_digits.CURVES):
    """Yields for each kind of ASHA its name, and the quartiles over seeds of its share of the steps of random search, and of the accuracy
    that it falls short of it."""
    told = search_digits.early_stopping(seeds)
    for name, accuracy, steps in (("with checkpoints", 2, 3), ("without checkpoints", 4, 5)):
        yield (name, search_digits.quartiles([line[steps] / line[1] for line in told]),
               search_digits.quartiles([line[0] - line[accuracy] for line in told]))


def search(report):
    for name, seeds, ours, theirs, _ in compare():
        report.regret(f"regret of {name}", ours, f"Optuna {VERSION}", theirs, ratio(theirs[1], ours[1]), GOAL, seeds)
    ours, theirs = suggestion_times()
    report.add(f"a suggestion after {TRIALS} trials", "ms", ours, f"Optuna {VERSION}", theirs, None)
    for name, shares, losses in early_stopping():
        report.bounded(f"ASHA {name}: steps / random search's", shares, 0.4, search_digits.CURVES)
        report.bounded(f"ASHA {name}: accuracy short of it", losses, 0, search_digits.CURVES)


def main():
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else None
    cell = lambda values: "/".join(f"{value:.3g}" for value in values)  # noqa: E731
    print(f"regret after {EVALUATIONS} evaluations: first quartile/median/third quartile over the seeds; a ratio over 1: ours is smaller")
    print(f'{"function":26} seeds {"mlk":>26} {"Optuna " + VERSION:>26} {"quasi-random":>26}  ratio')
    logarithms = []
    for name, seeds, ours, theirs, chance in compare(wanted, tuple(map(int, sys.argv[2:])) or PARALLEL):
        lead = ratio(theirs[1], ours[1])
        logarithms.append(math.log(min(max(lead, 0.01), 100)))
        print(f"{name:26} {seeds:5} {cell(ours):>26} {cell(theirs):>26} {cell(chance):>26}  {lead:.2f}x", flush=True)
    print(f"geometric mean of the ratios, none counted above 100: {math.exp(statistics.mean(logarithms)):.2f}x")
    ours, theirs = suggestion_times()
    print(f"a suggestion after {TRIALS} trials: {statistics.median(ours):.3g} ms, Optuna {statistics.median(theirs):.3g} ms", flush=True)
    for name, shares, losses in early_stopping(min(wanted or SEEDS, search_digits.CURVES)):
        print(f"ASHA {name}: {cell(shares)} of the steps of random search, best accuracy {cell(losses)} below it", flush=True)


if __name__ == "__main__":
    main()
