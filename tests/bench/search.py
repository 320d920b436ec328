#!/usr/bin/env python3
"""Group search of make bench: the regret of our searches after 60 evaluations beside that of Optuna; ASHA beside random search.

    tests/bench/search.py [SEEDS]     by itself; 30 seeds by default

Regret is the smallest value found less the smallest there is. The functions are written twice, in search_problems.h and here; their
values at fixed points are compared first. Both sides see each function once for each seed, 1, 2, ...
"""

import concurrent.futures
import functools
import math
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import mlk  # noqa: E402
import search_digits  # noqa: E402
import wheels  # noqa: E402

EVALUATIONS = 60
SEEDS = 30
FIXED_POINTS = 20
VERSION = "5.0.0"
OPTUNA = (f"optuna=={VERSION}", "colorlog==6.12.0", "packaging==26.3", "tqdm==4.70.1")
GOAL = 0.95  # our median regret is at most 1.05 times Optuna's
EXACT = 1e-9  # a regret below this is none


def square(x):
    return x * x


def branin(p):
    x, y = p["x0"], p["x1"]
    return square(y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6) + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


HEIGHT = (1.0, 1.2, 3.0, 3.2)
SCALE = ((10, 3, 17, 3.5, 1.7, 8), (0.05, 10, 17, 0.1, 8, 14), (3, 3.5, 1.7, 10, 17, 8), (17, 8, 0.05, 10, 0.1, 14))
CENTER = ((0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886), (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
          (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650), (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381))


def hartmann6(p):
    x = [p[f"x{i}"] for i in range(6)]
    return -sum(height * math.exp(-sum(a * square(one - c) for a, one, c in zip(scale, x, center)))
                for height, scale, center in zip(HEIGHT, SCALE, CENTER))


def rosenbrock(p):
    x = [p[f"x{i}"] for i in range(5)]
    return sum(100 * square(b - a * a) + square(1 - a) for a, b in zip(x, x[1:]))


def conditional(p):
    rate = math.log10(p["lr"])
    if p["optimizer"] == "sgd":
        loss = 0.1 + 0.3 * square(rate + 1) + 2 * square(p["momentum"] - 0.9)
    else:
        loss = 0.05 * square(rate + 3) + 0.5 * square(p["beta"] - 0.95) + 0.03 * square(math.log10(p["epsilon"]) + 7)
    loss += 0.1 * abs(p["layers"] - 2)
    return loss + sum(0.1 * square(math.log2(p[f"width{i}"] / (256.0 / i))) / p["layers"] for i in range(1, p["layers"] + 1))


def mixed(p):
    shift = {"relu": 0, "tanh": 1, "gelu": 0.3, "sigmoid": 2}[p["activation"]]
    rate, decay = math.log10(p["lr"]), math.log10(p["decay"])
    return (0.2 * shift + 0.4 * square(rate + 2.5 - 0.3 * shift) + 0.05 * square(decay + 4) + 0.02 * square(p["depth"] - 6)
            + 0.3 * abs(p["dropout"] - 0.1 * shift - 0.1) + 0.05 * square(math.log2(p["batch"]) - 6))


def words(p):
    operations = [p[f"op{i}"] for i in range(5)]
    loss = 0.02 * square(p["channels"] - 20)
    loss += sum(0.5 + 0.1 * i for i, (one, right) in enumerate(zip(operations, "cadbe")) if one != right)
    return loss + 0.3 * sum(a == b for a, b in zip(operations, operations[1:]))


def cube(dimensions, low, high):
    return {f"x{i}": ("uniform", low, high) for i in range(dimensions)}


# The function, its smallest value, and its parameters: (kind, low, high) or (kind, values), then whose value it needs.
PROBLEMS = {
    "branin": (branin, 0.39788735772973816, {"x0": ("uniform", -5, 10), "x1": ("uniform", 0, 15)}),
    "hartmann6": (hartmann6, -3.322368011415515, cube(6, 0, 1)),
    "rosenbrock5": (rosenbrock, 0, cube(5, -2.048, 2.048)),
    "conditional": (conditional, 0, {
        "optimizer": ("choice", ["sgd", "adam"]), "lr": ("log", 1e-5, 1),
        "momentum": ("uniform", 0, 1, "optimizer", ["sgd"]), "beta": ("uniform", 0, 1, "optimizer", ["adam"]),
        "epsilon": ("log", 1e-10, 1e-2, "optimizer", ["adam"]), "layers": ("integer", 1, 3), "width1": ("integer", 16, 1024),
        "width2": ("integer", 16, 1024, "layers", [2, 3]), "width3": ("integer", 16, 1024, "layers", [3])}),
    "mixed": (mixed, 0, {
        "activation": ("choice", ["sigmoid", "tanh", "relu", "gelu"]), "lr": ("log", 1e-5, 1), "decay": ("log", 1e-7, 1e-1),
        "depth": ("integer", 1, 12), "dropout": ("uniform", 0, 0.8), "batch": ("choice", [8, 16, 32, 64, 128, 256, 512])}),
    "words": (words, 0, {**{f"op{i}": ("choice", list("abcde")) for i in range(5)}, "channels": ("integer", 4, 40)}),
}


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
    for name, (function, _, space) in PROBLEMS.items():
        for index, value in enumerate(ours[name]):
            point = point_of(space, lambda number, _, *kind: value_at((square(index + number + 1) % 11 + 0.5) / 11, *kind))  # noqa: B023
            if not math.isclose(function(point), value, rel_tol=1e-9, abs_tol=1e-12):
                sys.exit(f"search.py: {name} is {value} in search_problems.h and {function(point)} here, at {point}")
        assert len(ours[name]) == FIXED_POINTS


def mlk_regrets(name, seeds, *more):
    """For each seed the regrets after each evaluation."""
    told = mlk.run(mlk.BUILD / "bench_search", name, EVALUATIONS, *range(1, seeds + 1), *more, check=0, timeout=600).stdout
    lines = [[float(regret) for regret in line.split()] for line in told.splitlines()]
    return [line + [line[-1]] * (EVALUATIONS - len(line)) for line in lines]


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


def optuna_regrets(name, seed, path):
    """Runs in a process of its own."""
    function, smallest, space = PROBLEMS[name]
    study, suggested = optuna_study(path, seed, space, conditional=name == "conditional")
    study.optimize(lambda trial: function(suggested(trial)), n_trials=EVALUATIONS)
    best, regrets = math.inf, []
    for trial in study.trials:
        best = min(best, trial.value)
        regrets.append(best - smallest)
    return regrets


def peer_path():
    """The folders of Optuna and of what it imports."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    numpy = wheels.unpack(f"numpy-2.2.6-{version}", [wheels.NUMPY], "numpy")
    return [str(wheels.unpack(f"optuna-{VERSION}", OPTUNA, f"Optuna {VERSION} to compare with")), str(numpy)]


def quartiles(regrets):
    low, middle, high = statistics.quantiles([line[-1] for line in regrets], n=4, method="inclusive")
    return low, middle, high


def ratio(theirs, ours):
    """Over 1: ours is better. Two that found the smallest value are equal."""
    return (theirs + EXACT) / (ours + EXACT)


def digits(path, seeds):
    """Quartiles of the regrets of the network, as those that compare() yields."""
    optuna = functools.partial(search_digits.optuna_point, functools.partial(optuna_study, path))
    return map(search_digits.quartiles, search_digits.regrets(optuna, seeds))


def compare(seeds=SEEDS):
    """Yields for each function its name, and the quartiles of our regret, of Optuna's, and of quasi-random search."""
    subprocess.run(["cmake", "--build", "--preset", "release", "--target", "bench_search"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    check_functions()
    path = peer_path()
    with concurrent.futures.ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for name in PROBLEMS:
            theirs = list(pool.map(optuna_regrets, [name] * seeds, range(1, seeds + 1), [path] * seeds))
            yield name, quartiles(mlk_regrets(name, seeds)), quartiles(theirs), quartiles(mlk_regrets(name, seeds, "random"))
    yield "network on digits", *digits(path, search_digits.SEEDS if seeds == SEEDS else seeds)


def early_stopping(seeds=search_digits.CURVES):
    """Yields for each kind of ASHA its name, and the quartiles over seeds of its share of the steps of random search, and of the accuracy
    that it falls short of it."""
    told = search_digits.early_stopping(seeds)
    for name, accuracy, steps in (("with checkpoints", 2, 3), ("without checkpoints", 4, 5)):
        yield (name, search_digits.quartiles([line[steps] / line[1] for line in told]),
               search_digits.quartiles([line[0] - line[accuracy] for line in told]))


def search(report):
    for name, ours, theirs, _ in compare():
        seeds = search_digits.SEEDS if name == "network on digits" else SEEDS
        report.regret(f"regret of {name}", ours, f"Optuna {VERSION}", theirs, ratio(theirs[1], ours[1]), GOAL, seeds)
    for name, shares, losses in early_stopping():
        report.bounded(f"ASHA {name}: steps / random search's", shares, 0.4, search_digits.CURVES)
        report.bounded(f"ASHA {name}: accuracy short of it", losses, 0, search_digits.CURVES)


def main():
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    cell = lambda values: "/".join(f"{value:.3g}" for value in values)  # noqa: E731
    print(f"regret after {EVALUATIONS} evaluations, {seeds} seeds: first quartile/median/third quartile; a ratio over 1: ours is smaller")
    print(f'{"function":18} {"mlk":>26} {"Optuna " + VERSION:>26} {"quasi-random":>26}  ratio')
    for name, ours, theirs, random in compare(seeds):
        print(f"{name:18} {cell(ours):>26} {cell(theirs):>26} {cell(random):>26}  {ratio(theirs[1], ours[1]):.2f}x", flush=True)
    for name, shares, losses in early_stopping(min(seeds, search_digits.CURVES)):
        print(f"ASHA {name}: {cell(shares)} of the steps of random search, best accuracy {cell(losses)} below it", flush=True)


if __name__ == "__main__":
    main()
