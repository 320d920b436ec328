"""The functions that the searches are compared on, as in search_problems.h and search_hard_problems.h. NaN: the trial fails."""

import math


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


def coordinates(p):
    return [p[f"x{i}"] for i in range(len(p))]


def valley4(p):
    x = coordinates(p)
    return 100 * (square(x[1] - x[0] * x[0]) + square(x[2] - x[0] * x[1]) + square(x[3] - 0.5 * x[0])) + square(1 - x[0])


def ellipsoid6(p):
    x = [value - 0.3 - 0.08 * i for i, value in enumerate(coordinates(p))]
    along = sum(x) / len(x)
    return sum(10 ** (3 * i / 5) * square(value - 2 * along) for i, value in enumerate(x))


def plateau3(p):
    distances = [abs(value - center) for value, center in zip(coordinates(p), (0.23, 0.61, 0.83))]
    return sum(math.floor(8 * distance) + 0.01 * distance for distance in distances)


def bowl4(p):
    return sum(square(value - center) for value, center in zip(coordinates(p), (0.2, 0.7, 0.4, 0.9)))


def active10(p):
    return branin({"x0": 15 * p["x3"] - 5, "x1": 15 * p["x7"]})


def optima(p):
    x, y = p["x"], p["y"]
    return {"broad": 0.3 + 0.3 * (square(x - 0.8) + square(y - 0.2)), "wavy": 0.5 + 0.2 * math.sin(9 * x) * math.cos(9 * y),
            "steep": 1.5 * math.hypot(x - 0.25, y - 0.7), "flat": 0.6 + abs(x - y)}[p["kind"]]


def ackley4(p):
    x = [value - 3 for value in coordinates(p)]
    return (20 + math.e - 20 * math.exp(-0.2 * math.sqrt(sum(map(square, x)) / len(x)))
            - math.exp(sum(math.cos(2 * math.pi * value) for value in x) / len(x)))


def rastrigin2(p):
    return sum(10 + square(value - 1) - 10 * math.cos(2 * math.pi * (value - 1)) for value in coordinates(p))


def cliff(p):
    momentum = p["momentum"]
    speed = math.log10(p["lr"]) - math.log10(1 - momentum)
    if speed > -0.5:
        return math.nan
    return (0.2 * (-0.5 - speed) + 0.5 * square(momentum - 0.9) + 0.05 * square(math.log10(p["decay"]) + 3)
            + 0.3 * square((p["warmup"] - 300) / 500))


def integers5(p):
    center = (4, 17, 9, 12, 2)
    total, before = 0, center[0]
    for i, middle in enumerate(center):
        number = p[f"n{i}"]
        total += 0.05 * square(number - middle - 0.5 * (before - center[max(i - 1, 0)]))
        before = number
    return total


def cube(dimensions, low, high):
    return {f"x{i}": ("uniform", low, high) for i in range(dimensions)}


MIXED = {
    "activation": ("choice", ["sigmoid", "tanh", "relu", "gelu"]), "lr": ("log", 1e-5, 1), "decay": ("log", 1e-7, 1e-1),
    "depth": ("integer", 1, 12), "dropout": ("uniform", 0, 0.8), "batch": ("choice", [8, 16, 32, 64, 128, 256, 512])}

# The function, its smallest value, its parameters: (kind, low, high) or (kind, values), then whose value it needs; and the deviation of
# noise, if there is any.
PROBLEMS = {
    "branin": (branin, 0.39788735772973816, {"x0": ("uniform", -5, 10), "x1": ("uniform", 0, 15)}),
    "hartmann6": (hartmann6, -3.322368011415515, cube(6, 0, 1)),
    "rosenbrock5": (rosenbrock, 0, cube(5, -2.048, 2.048)),
    "conditional": (conditional, 0, {
        "optimizer": ("choice", ["sgd", "adam"]), "lr": ("log", 1e-5, 1),
        "momentum": ("uniform", 0, 1, "optimizer", ["sgd"]), "beta": ("uniform", 0, 1, "optimizer", ["adam"]),
        "epsilon": ("log", 1e-10, 1e-2, "optimizer", ["adam"]), "layers": ("integer", 1, 3), "width1": ("integer", 16, 1024),
        "width2": ("integer", 16, 1024, "layers", [2, 3]), "width3": ("integer", 16, 1024, "layers", [3])}),
    "mixed": (mixed, 0, MIXED),
    "words": (words, 0, {**{f"op{i}": ("choice", list("abcde")) for i in range(5)}, "channels": ("integer", 4, 40)}),
    "valley4": (valley4, 0, cube(4, -1.5, 1.5)),
    "ellipsoid6": (ellipsoid6, 0, cube(6, 0, 1)),
    "plateau3": (plateau3, 0, cube(3, 0, 1)),
    "noisy_bowl4": (bowl4, 0, cube(4, 0, 1), 0.2),
    "noisy_mixed": (mixed, 0, MIXED, 0.3),
    "active10": (active10, 0.39788735772973816, cube(10, 0, 1)),
    "optima": (optima, 0, {"kind": ("choice", ["flat", "broad", "steep", "wavy"]), "x": ("uniform", 0, 1), "y": ("uniform", 0, 1)}),
    "ackley4": (ackley4, 0, cube(4, -5, 10)),
    "rastrigin2": (rastrigin2, 0, cube(2, -4, 5)),
    "cliff": (cliff, 0, {"lr": ("log", 1e-5, 10), "momentum": ("uniform", 0, 0.99), "decay": ("log", 1e-6, 1), "warmup": ("integer", 0, 1000)}),
    "integers5": (integers5, 0, {f"n{i}": ("integer", 0, 20) for i in range(5)}),
}
