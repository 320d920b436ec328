"""The two sides of a comparison: programs that answer each line on stdin with a round's numbers, so that they take turns."""

import json
import statistics
import subprocess
import tempfile
import threading


class Side:
    """A program with the protocol of tests/bench/mlk_gpu.cpp. As a context manager it ends with its block, and is killed after
    `patience` seconds at the latest: all that it is asked for then fails."""

    def __init__(self, command, env, patience):
        self.command, self.errors = [str(word) for word in command], tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.timer = threading.Timer(patience, self.process.kill)
        self.timer.start()
        try:
            self.name = self._answer()  # once it is warm
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.timer.cancel()
        self.process.kill()
        self.process.communicate()
        self.errors.close()

    def round(self):
        try:
            print(file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass  # it has said why
        return json.loads(self._answer())

    def _answer(self):
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            code = self.process.wait()
            self.errors.seek(0)
            said = self.errors.read().strip().splitlines()
            why = f"{said[-1]} ({self.command[0]} ended with {code})" if said else f"{self.command[0]} ended with {code} and said nothing"
            raise RuntimeError(f"it took too long: {why}" if code == -9 else why)
        return line.strip()


def in_turns(sides, turns):
    """{number's name: its values} of each side."""
    rounds = [[side.round() for side in sides] for _ in range(turns)]
    return [{name: [one[name] for one in of_side] for name in of_side[0]} for of_side in zip(*rounds, strict=True)]


def spread(values):
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def figure(name, unit, ours, peer=None, theirs=None, goal=None, better="higher"):
    """One line of the table. A ratio over 1 means that mlk is better."""
    made = {"name": name, "unit": unit, "better": better, "mlk": spread(ours), "runs": len(ours)}
    if theirs:
        ratio = statistics.median(ours) / statistics.median(theirs)
        made |= {"peer": peer, "theirs": spread(theirs), "ratio": round(1 / ratio if better == "lower" else ratio, 3), "goal": goal}
    return made


def row(made):
    def cell(values):
        return "/".join(f"{value:.4g}" for value in values.values())
    line = f"{made['name']:<34} {made['unit']:<8} {cell(made['mlk']):>24}"
    if "ratio" in made:
        line += f" {cell(made['theirs']):>24} {made['ratio']:6.2f}x (goal {made['goal']}x) vs {made['peer']}"
    return line
