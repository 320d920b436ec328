"""Group sweep of make bench: how fast a driver creates the runs of its trials, and a sweep of 20 000 trials, on a real API server with
pretended nodes.

The peers of the driver only send the same objects to the same server, 32 requests at a time as the driver does: a loop of threads, and
curl over one HTTP/2 connection. They watch nothing. The pods of all fit no node, so that nothing runs meanwhile.
"""

import base64
import concurrent.futures
import http.client
import json
import os
import pathlib
import ssl
import subprocess
import tempfile
import threading
import time

import yaml

import mlk

TRIALS = 1000
OBJECTS = 3  # of each: a ConfigMap, a Service, a Job
ROUNDS = 3
AT_ONCE = 32
MANY = 20_000
MANY_AT_ONCE = 2000
NODES = 40  # of 110 pods each
PATIENCE = 1800  # seconds, for what is not measured

RUNS = """
name: bench-trials
mode: allreduce
image: localhost/mlk-runtime:test
run: "true"
env: {A: "${sweep.a}"}
workers: {count: 1, cpu: 10m, memory: 16Mi}
scheduling: {node: {selector: {bench: nowhere}}}
sweep: {objective: maximize accuracy}
"""
INDEXES = """
name: bench-many
mode: single
image: localhost/mlk-runtime:test
run: "true"
env: {A: "${sweep.a}"}
workers: {cpu: 10m, memory: 16Mi}
sweep: {objective: minimize loss, max_failures: 20000}
"""


def sweep(report, cluster):
    with cluster(kwok=True) as env, tempfile.TemporaryDirectory() as folder:
        mlk.run(mlk.ROOT / "tests/cluster/fake-nodes", str(NODES), check=0, timeout=300, env=env)
        server = Server(env, pathlib.Path(folder))
        creation(report, server)
        many(report, server)


class Server:
    """The API server, as mlk, kubectl and curl see it."""

    def __init__(self, env, folder):
        self.env, self.folder = env, folder
        self.kubectl = pathlib.Path(mlk.run(mlk.ROOT / "tests/cluster/build", check=0, timeout=1800).stdout.strip()) / "kubectl"
        config = yaml.safe_load(pathlib.Path(env["KUBECONFIG"]).read_text(encoding="utf-8"))
        self.url = config["clusters"][0]["cluster"]["server"]
        self.flags = []
        for flag, part, key in (("cacert", "clusters", "certificate-authority-data"), ("cert", "users", "client-certificate-data"),
                                ("key", "users", "client-key-data")):
            path = folder / flag
            path.write_bytes(base64.b64decode(config[part][0][part[:-1]][key]))
            self.flags += [f"--{flag}", str(path)]
        self.objects = f"{self.url}/api/v1/namespaces/mlk-test"
        self.jobs = f"{self.url}/apis/batch/v1/namespaces/mlk-test/jobs"
        self.asking = self.connect()

    def experiment(self, text):
        path = self.folder / "experiment.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    def connect(self):
        trust = ssl.create_default_context(cafile=self.flags[1])
        trust.load_cert_chain(self.flags[3], self.flags[5])
        return http.client.HTTPSConnection(self.url.removeprefix("https://"), context=trust, timeout=60)

    def get(self, url):
        """Over a connection that stays: what is asked while a driver or its peer works costs the server next to nothing. The server
        closes one that was idle for minutes."""
        try:
            self.asking.request("GET", url.removeprefix(self.url))
            answer = self.asking.getresponse()
        except (http.client.HTTPException, OSError):
            self.asking = self.connect()
            self.asking.request("GET", url.removeprefix(self.url))
            answer = self.asking.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return json.loads(body)

    def count(self, url):
        """Of all objects there."""
        answer = self.get(url + ("&" if "?" in url else "?") + "limit=1")
        return len(answer["items"]) + answer["metadata"].get("remainingItemCount", 0)

    def until_empty(self):
        """What the garbage collector still deletes would slow down who comes next."""
        kinds = [self.jobs, *(f"{self.objects}/{kind}" for kind in ("services", "pods", "configmaps?fieldSelector=metadata.name!=kube-root-ca.crt"))]
        mlk.wait_until(lambda: all(self.count(kind) == 0 for kind in kinds), "an empty namespace", timeout=PATIENCE, interval=1)
        time.sleep(3)  # for what the controllers still have to do

    def measured(self, *args):
        """mlk with these arguments: what it said, seconds, the most memory in MiB."""
        start = time.monotonic()
        process = subprocess.Popen([str(mlk.MLK), *map(str, args)], env={**os.environ, **self.env}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, said
        return said, time.monotonic() - start, usage.ru_maxrss / 1024


def creation(report, server):
    ours, loop, curl = [], [], []
    for turn in range(ROUNDS):
        ours.append(by_mlk(server, turn))
        loop.append(by_posts(server, f"loop-{turn}", post_by_loop))
        curl.append(by_posts(server, f"curl-{turn}", post_by_curl))
    report.add(f"{TRIALS} trials of {OBJECTS} objects, driven", "s", ours, f"bare POSTs, {AT_ONCE} threads", loop, 0.8)
    report.add(f"{TRIALS} trials of {OBJECTS} objects, driven", "s", ours, f"curl --parallel-max {AT_ONCE}", curl, None)


def until_created(server, start):
    """Asks all the time, so that it costs each side the same."""
    mlk.wait_until(lambda: server.count(server.jobs) >= TRIALS, f"{TRIALS} Jobs", timeout=PATIENCE, interval=0.1)
    return time.monotonic() - start


def by_mlk(server, turn):
    """From the start of the command to the last Job."""
    file = server.experiment(RUNS)
    command = ["sweep", file, f"a=1..{TRIALS}", "--parallel", TRIALS, "-e", f"TURN={turn}"]
    start = time.monotonic()
    driver = subprocess.Popen([str(mlk.MLK), *map(str, command)], env={**os.environ, **server.env}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        took = until_created(server, start)
    finally:
        driver.kill()
        sweep = driver.communicate()[0].strip()
    services = server.count(f"{server.objects}/services")
    assert services == TRIALS, services
    mlk.run(server.kubectl, "delete", "configmap", sweep, "--wait=false", check=0, env=server.env)
    server.until_empty()
    return took


def by_posts(server, name, post):
    """From the first request to the last Job. That the bodies are made before is the peer's advantage."""
    file = server.experiment(RUNS.replace("${sweep.a}", "1").replace("sweep: {objective: maximize accuracy}", ""))
    items = json.loads(mlk.run(mlk.MLK, "render", "-o", "json", file, check=0, env=server.env).stdout)["items"]
    run = next(item["metadata"]["name"] for item in items if item["kind"] == "ConfigMap")
    owner = json.loads(mlk.run(server.kubectl, "create", "configmap", f"bench-{name}", "-o", "json", check=0, env=server.env).stdout)["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["name"], "uid": owner["uid"]}
    urls = {"ConfigMap": f"{server.objects}/configmaps", "Service": f"{server.objects}/services", "Job": server.jobs}
    assert sorted(item["kind"] for item in items) == sorted(urls), items
    requests = []
    for trial in range(TRIALS):
        for item in items:
            body = json.loads(json.dumps(item).replace(run, f"bench-{name}-{trial:04}"))
            body["metadata"]["ownerReferences"] = [reference]
            requests.append((f'{urls[item["kind"]]}?fieldManager=bench&fieldValidation=Strict', json.dumps(body)))
    with concurrent.futures.ThreadPoolExecutor(1) as side:
        send = post(server, requests)
        start = time.monotonic()
        posting = side.submit(send)
        took = until_created(server, start)
        posting.result()
    mlk.run(server.kubectl, "delete", "configmap", owner["name"], "--wait=false", check=0, env=server.env)
    server.until_empty()
    return took


def post_by_loop(server, requests):
    """To be called: threads that take one request after the other, each over a connection of its own that stays."""
    connections = threading.local()

    def post(request):
        if not hasattr(connections, "own"):
            connections.own = server.connect()
        connections.own.request("POST", request[0].removeprefix(server.url), request[1], {"Content-Type": "application/json"})
        answer = connections.own.getresponse()
        body = answer.read()
        assert answer.status == 201, body

    def send():
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(post, requests))

    return send


def post_by_curl(server, requests):
    """To be called."""
    common = ['header = "Content-Type: application/json"', 'output = "/dev/null"', "fail"]
    common += [f'{flag[2:]} = "{value}"' for flag, value in zip(server.flags[::2], server.flags[1::2])]
    sections = []
    for number, (url, body) in enumerate(requests):
        path = server.folder / f"{number}.json"
        path.write_text(body, encoding="utf-8")
        sections.append("\n".join([f'url = "{url}"', f'data = "@{path}"', *common]))
    config = server.folder / "requests"
    config.write_text("\nnext\n".join(sections) + "\n", encoding="utf-8")
    return lambda: mlk.run("curl", "--silent", "--show-error", "--parallel", "--parallel-max", AT_ONCE, "--config", config, check=0,
                           timeout=PATIENCE)


def many(report, server):
    """A sweep that the cluster runs by itself."""
    file = server.experiment(INDEXES)
    said, took, memory = server.measured("sweep", file, f"a=1..{MANY}", "--parallel", MANY_AT_ONCE, "-o", "json")
    name = json.loads(said.splitlines()[0] if said.startswith("{") else said[said.index("{"):said.index("}") + 1])["sweep"]
    report.hold(f"mlk sweep of {MANY} trials", "s", [took], 30)
    report.hold(f"mlk sweep of {MANY} trials, memory", "MiB", [memory], 1024)
    statuses, ended = [], 0

    def look():
        nonlocal ended
        said, took, memory = server.measured("status", name, "-o", "json")
        statuses.append((took, memory))
        counts = json.loads(said)["counts"]
        ended = counts["succeeded"] + counts["failed"]
        assert sum(counts.values()) == MANY, counts
        return ended == MANY

    begin = time.monotonic()
    mlk.wait_until(look, f"the end of {MANY} trials", timeout=PATIENCE, interval=20)
    print(f"{MANY} trials ended after {time.monotonic() - begin:.0f} s; what bounds them is the rate of the Job controller's requests", flush=True)
    report.hold(f"status of {MANY} trials, as they run", "s", [took for took, _ in statuses], 2)
    report.hold(f"status of {MANY} trials, memory", "MiB", [memory for _, memory in statuses], 1024)
    for which in ("first", "later"):  # the first look reads logs and writes the ledger
        said, took, memory = server.measured("results", name, "-o", "json")
        assert len(json.loads(said)) == MANY
        report.hold(f"results of {MANY} trials, {which} look", "s", [took], 180 if which == "first" else 10)
        report.hold(f"results of {MANY} trials, {which} look, memory", "MiB", [memory], 2048)
    again = [server.measured("status", name)[1] for _ in range(5)]
    report.hold(f"status of {MANY} trials that have ended", "s", again, 2)
    maps = server.get(f"{server.objects}/configmaps?labelSelector=mlk.dev/sweep={name}")["items"]
    stored = [sum(len(text.encode()) for text in item.get("data", {}).values()) + len(json.dumps(item["metadata"])) for item in maps]
    report.hold("the largest object of the sweep", "KiB", [max(stored) / 1024], 1024)
    mlk.run(server.kubectl, "delete", "configmap", name, "--wait=false", check=0, env=server.env)
