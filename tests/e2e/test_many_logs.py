"""Follows logs whose streams break, or whose nodes send an error in place of lines. Every line arrives exactly once."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import mlk
from fault_proxy import FaultProxy

pytestmark = [pytest.mark.nodes, pytest.mark.timed]

EXPERIMENT = """name: {name}
mode: allreduce
run: 'i=0; while [ $i -lt {lines} ]; do echo line $i; i=$((i+1)); sleep {pause}; done'
workers: {{count: {count}, cpu: 10m, memory: 16Mi}}
restart: {{retries: 0}}
"""


def numbers(output, rank):
    return [int(number) for number in re.findall(rf"^worker/{rank} line (\d+)$", output, re.MULTILINE)]


def follow(cluster, kubeconfig, run, timeout):
    return mlk.run(mlk.MLK, "--kubeconfig", kubeconfig, "logs", "-f", run, check=0, timeout=timeout, env=cluster.env)


@pytest.mark.parametrize("text, said", [
    ("failed to create fsnotify watcher: too many open files", "it is out of inotify instances"),
    ("an error of the node", "it says of the log: an error of the node")])
def test_mlk_logs_loses_no_line_and_reports_the_error_once_if_a_node_sends_an_error_in_place_of_lines(embedded, name, experiment, text, said):
    count, lines = 2, 60
    run = embedded.mlk("submit", experiment(EXPERIMENT.format(name=name, count=count, lines=lines, pause=0.1)), check=0).stdout.strip()
    with FaultProxy(embedded.kubeconfig, plan=[{"do": "end-later", "path": "/log", "text": text, "times": 0}]) as proxy:
        followed = follow(embedded, proxy.kubeconfig, run, 60)
    for rank in range(count):
        assert numbers(followed.stdout, rank) == list(range(lines))
    assert text not in followed.stdout
    assert followed.stderr.count(said) == 1


@pytest.mark.alone
def test_mlk_logs_loses_no_line_of_60_ranks_while_streams_break_and_the_api_server_dies_twice(real, name, experiment):
    """Three commands follow the logs at once. They need more inotify instances than a node has."""
    count, lines = 60, 60
    run = real.mlk("submit", experiment(EXPERIMENT.format(name=name, count=count, lines=lines, pause=0.5)), check=0).stdout.strip()
    with FaultProxy(real.kubeconfig, plan=[{"do": "cut-later", "path": "/log", "times": 0}]) as proxy, ThreadPoolExecutor(3) as pool:
        followers = [pool.submit(follow, real, config, run, 150) for config in (proxy.kubeconfig, real.kubeconfig, real.kubeconfig)]
        mlk.wait_until(lambda: real.mlk("logs", run, "--tail", "1", check=0).stdout.count("line") > count // 2, "half of the ranks to run", 90)
        for _ in range(2):
            real.harness("api-kill")
            time.sleep(8)
        outputs = [follower.result().stdout for follower in followers]
    for output in outputs:
        for rank in range(count):
            assert numbers(output, rank) == list(range(lines))
