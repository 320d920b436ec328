#!/usr/bin/env python3
"""Creates pretended nodes, eight at a time: kubectl's own limit of requests would take 40 s for a thousand.

usage: fake_nodes.py KUBECONFIG COUNT ADDRESS [--taint]
"""

import base64
import concurrent.futures
import http.client
import json
import os
import re
import ssl
import sys
import tempfile
import threading

# Real nodes have the sizes of this machine; these are those of a common GPU server.
RESOURCES = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}


def node(index, address, taint):
    name = f"fake-{index}"
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "type": "kwok"}},
        "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}] if taint else []},
        "status": {"allocatable": RESOURCES, "capacity": RESOURCES, "addresses": [
            {"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]}}


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    path, count, address, taint = sys.argv[1], int(sys.argv[2]), sys.argv[3], len(sys.argv) == 5
    text = open(path, encoding="utf-8").read()
    host, port = re.search(r"https://([^:\"]+):(\d+)", text).groups()

    def data(key):
        return base64.b64decode(re.search(key + r": ([^,}\s]+)", text).group(1))

    trust = ssl.create_default_context(cadata=data("certificate-authority-data").decode())
    with tempfile.NamedTemporaryFile() as pair:  # the ssl module takes a client's key from a file only
        pair.write(data("client-certificate-data") + data("client-key-data"))
        pair.flush()
        trust.load_cert_chain(pair.name)
    connections = threading.local()

    def create(index):
        if not hasattr(connections, "own"):
            connections.own = http.client.HTTPSConnection(host, int(port), context=trust, timeout=30)
        connections.own.request("POST", "/api/v1/nodes", json.dumps(node(index, address, taint)), {"Content-Type": "application/json"})
        answer = connections.own.getresponse()
        body = answer.read()
        if answer.status not in (201, 409):
            sys.exit(f"{os.path.basename(sys.argv[0])}: fake-{index}: {body.decode(errors='replace')}")

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(1, count + 1)))


if __name__ == "__main__":
    main()
