"""Drivers of sweeps are killed, doubled and left without a server. Every trial is started once, and every trial has a result."""

import concurrent.futures
import contextlib
import json
import os
import random
import signal
import subprocess
import threading

import pytest

import mlk

PROGRAM = """
name: {name}
mode: allreduce
image: localhost/mlk-runtime:test
run: |
  {pause}
  echo "accuracy=0.$((1000 + LR))"
env: {{LR: "${{sweep.lr}}"}}
workers: {{count: 1, cpu: 20m, memory: 32Mi}}
restart: {{retries: 0}}
sweep: {{objective: maximize accuracy, parallel: {parallel}}}
"""


class Births:
    """Every Job that ever existed for the trials of an experiment, by its uid. kubectl watches the Jobs, and is started again if the server was
    gone."""

    def __init__(self, cluster, name):
        self.jobs = {}
        self._stopping = threading.Event()
        self._command = [cluster._kubectl(), "get", "jobs", "-n", cluster.namespace, "-l", f"mlk.dev/name={name}", "--watch", "-o",
                         'jsonpath={.metadata.uid} {.metadata.name}{"\\n"}']
        self._env = {**os.environ, **cluster.env}
        self._process = None
        self._thread = threading.Thread(target=self._read)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        if self._process:
            self._process.kill()
        self._thread.join()

    def _read(self):
        while not self._stopping.wait(0.1):
            self._process = subprocess.Popen(self._command, env=self._env, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            for line in self._process.stdout:
                uid, _, job = line.strip().partition(" ")
                if job:
                    self.jobs[uid] = job
            self._process.wait()


class Driven:
    """A sweep whose trials have one value each. The result of a trial shows its value."""

    def __init__(self, cluster, name, file, values=8):
        self.cluster, self.name, self.file, self.values = cluster, name, file, values

    def command(self):
        return "sweep", self.file, "lr=" + ",".join(map(str, range(self.values)))

    def start(self):
        return self.cluster.start(*self.command())

    def sweep(self):
        return self.cluster.mlk("ls", self.name, "-o", "name", check=0).stdout.strip()

    def free_the_lease(self):
        """Deletes the lease, as if 15 s had passed since the death of its holder."""
        self.cluster.kubectl("delete", "lease", "-n", self.cluster.namespace, "--ignore-not-found", self.sweep() or "none")

    def check(self, births):
        """Checks the sweep. Call it after a driver has ended with 0."""
        sweep = self.sweep()
        table = self.cluster.mlk("results", sweep, "-o", "json", check=0, timeout=120).json()
        assert sorted(row["trial"] for row in table) == list(range(self.values))
        assert {row["state"] for row in table} == {"Succeeded"} and {row["tries"] for row in table} == {1}
        told = {row["parameters"]["lr"]: row["objective"] for row in table}
        assert told == {lr: float(f"0.{1000 + lr}") for lr in range(self.values)}
        assert len(self.cluster.mlk("ls", "--sweep", sweep, "-o", "name", check=0).stdout.split()) == self.values
        jobs = [job for job in births.jobs.values() if job.startswith(f"{sweep}-")]
        assert len(jobs) == len(set(jobs)) == self.values, "a trial was started twice"


def kill_drivers(driven, kills, longest, rng):
    """Kills one driver after the other at random moments. A sweep that ends before a kill gets more points, so that every kill hits a driver
    with work to do."""
    killed = 0
    while killed < kills:
        driver = driven.start()
        try:
            said = driver.communicate(timeout=rng.uniform(0, longest))
            assert driver.returncode == 0, said
            driven.values += 8
        except subprocess.TimeoutExpired:
            driver.kill()
            driver.communicate()
            killed += 1
            driven.free_the_lease()
    ended = driven.cluster.mlk(*driven.command(), timeout=300)
    assert ended.code == 0, ended


@pytest.mark.nodes
@pytest.mark.timed
def test_every_trial_is_started_once_though_drivers_are_killed_at_a_hundred_moments(cluster, name, experiment):
    sweeps, kills, longest = (4, 25, 1.5) if cluster.embedded else (2, 5, 6)
    names = [f"{name}-{letter}" for letter in "abcd"[:sweeps]]
    text = PROGRAM.format(name="NAME", pause="sleep 0.$((LR % 3))", parallel=3)
    all_driven = [Driven(cluster, each, experiment(text.replace("NAME", each), f"{each}.yaml")) for each in names]
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(sweeps) as pool:
        births = [stack.enter_context(Births(cluster, each)) for each in names]
        seeds = [random.Random(number) for number in range(sweeps)]
        list(pool.map(lambda driven, rng: kill_drivers(driven, kills, longest, rng), all_driven, seeds))
        for driven, seen in zip(all_driven, births, strict=True):
            driven.check(seen)
            cluster.mlk("delete", "--no-wait", driven.sweep(), check=0)


@pytest.mark.nodes
def test_the_second_of_two_drivers_takes_over_when_the_first_is_killed(cluster, name, experiment):
    driven = Driven(cluster, name, experiment(PROGRAM.format(name=name, pause="sleep 2", parallel=2)))
    with Births(cluster, name) as births:
        drivers = [driven.start(), driven.start()]
        try:
            mlk.wait_until(lambda: len(births.jobs) >= 2, "the first trials")
            lease = json.loads(cluster.kubectl("get", "lease", driven.sweep(), "-n", cluster.namespace, "-o", "json").stdout)
            holder, = [driver for driver in drivers if f"-{driver.pid}-" in lease["spec"]["holderIdentity"]]
            holder.send_signal(signal.SIGKILL)
            drivers.remove(holder)
            holder.communicate()
            _, said = drivers[0].communicate(timeout=120 * mlk.SLOW)
            assert drivers[0].returncode == 0 and f"is driven by {lease['spec']['holderIdentity']}" in said, said
        finally:
            for driver in drivers:
                driver.kill()
        driven.check(births)


def sweep_through_loss(cluster, name, experiment, kill_server):
    driven = Driven(cluster, name, experiment(PROGRAM.format(name=name, pause="sleep 1", parallel=2)))
    with Births(cluster, name) as births:
        driver = driven.start()
        try:
            mlk.wait_until(lambda: len(births.jobs) >= 3, "the third trial")
            kill_server()
            _, said = driver.communicate(timeout=150 * mlk.SLOW)
        finally:
            driver.kill()
        assert driver.returncode == 0, said
        driven.check(births)
    return said


def test_a_driver_starts_a_killed_local_server_again_and_loses_no_trial(fresh_embedded, name, experiment):
    def kill_server():
        told = mlk.run(mlk.MLK, "local", "status", "-o", "json", check=0, env=fresh_embedded.env).json()
        os.kill(told["pid"], signal.SIGKILL)
    assert "starting it again" in sweep_through_loss(fresh_embedded, name, experiment, kill_server)


@pytest.mark.nodes
@pytest.mark.alone
def test_a_driver_continues_when_the_api_server_is_restarted(real, name, experiment):
    sweep_through_loss(real, name, experiment, lambda: real.harness("api-kill"))


@pytest.mark.nodes
def test_mlk_status_says_that_nobody_drives_a_sweep_if_its_mlk_sweep_command_was_interrupted(cluster, name, experiment):
    driven = Driven(cluster, name, experiment(PROGRAM.format(name=name, pause="sleep 4", parallel=1)), values=3)
    driver = driven.start()
    try:
        mlk.wait_until(lambda: driven.sweep() and status(driven)["counts"]["running"] == 1, "a trial runs", interval=0.1)
        assert status(driven)["why"] == ""
        driver.send_signal(signal.SIGINT)
        _, said = driver.communicate(timeout=30 * mlk.SLOW)
    finally:
        driver.kill()
    assert driver.returncode == 130 and "type the same command again to start the others" in said, said
    for seen in (status(driven), cluster.mlk("ls", name, "-o", "json", check=0).json()[0]):
        assert seen["phase"] == "Running" and seen["why"].startswith("nobody drives it; "), seen
        assert "trials wait until its mlk sweep command is typed again" in seen["why"], seen
    cluster.mlk(*driven.command(), check=0, timeout=120)
    assert (status(driven)["phase"], status(driven)["why"]) == ("Succeeded", "")


def status(driven):
    return driven.cluster.mlk("status", driven.sweep(), "-o", "json", check=0).json()
