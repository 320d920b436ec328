"""A separate network for a run: a network namespace for each host, and bridges, which can separate the hosts. Needs root."""

import itertools
import secrets
import subprocess
import typing

# Makes the parts of a network in a namespace that ends with the shell.
TRIAL = """
ip link add name whole type bridge
ip link add name wire type veth peer name eth0
tc qdisc add dev wire root tbf rate 2mbit burst 8kb latency 400ms
"""


def ip(*arguments):
    subprocess.run(["ip", *map(str, arguments)], check=True, capture_output=True, timeout=30)


class Host(typing.NamedTuple):
    namespace: str
    address: str
    wire: str  # the name of this host's cable at the switch

    @property
    def command(self):
        """Words before a command. With them, the command runs on this host, in the same process."""
        return ["ip", "netns", "exec", self.namespace]


class Network:
    """A context manager that removes the network at its end. The switch is a namespace as well, so the network of the machine does not change."""

    @staticmethod
    def possible():
        """Whether this user can make a network on this kernel."""
        return subprocess.run(["unshare", "--net", "sh", "-ec", TRIAL], check=False, capture_output=True, timeout=30).returncode == 0

    def __init__(self):
        self.name = f"mlk{secrets.token_hex(3)}"
        self.numbers = itertools.count(1)
        self.hosts = []
        self.namespaces = []

    def __enter__(self):
        self._namespace(self.name)
        for bridge in ("whole", "apart"):
            ip("-n", self.name, "link", "add", bridge, "type", "bridge")
            ip("-n", self.name, "link", "set", bridge, "up")
        return self

    def __exit__(self, *_):
        for namespace in self.namespaces:
            subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True, timeout=30)

    def _namespace(self, name):
        ip("netns", "add", name)
        self.namespaces.append(name)
        ip("-n", name, "link", "set", "lo", "up")

    def add_host(self):
        number = next(self.numbers)
        host = Host(f"{self.name}-{number}", f"10.77.0.{number}", f"wire{number}")
        self._namespace(host.namespace)
        ip("-n", self.name, "link", "add", host.wire, "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
        ip("-n", self.name, "link", "set", host.wire, "master", "whole", "up")
        ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", "eth0")
        ip("-n", host.namespace, "link", "set", "eth0", "up")
        self.hosts.append(host)
        return host

    def split(self, hosts):
        """From now on these hosts hear only each other, until heal()."""
        for host in hosts:
            ip("-n", self.name, "link", "set", host.wire, "master", "apart")

    def heal(self):
        for host in self.hosts:
            ip("-n", self.name, "link", "set", host.wire, "master", "whole")

    def cut(self, one, other):
        """From now on these two hosts do not hear each other, until mend(). All other hosts hear both."""
        for host, peer in ((one, other), (other, one)):
            ip("-n", host.namespace, "neigh", "replace", peer.address, "lladdr", "02:00:00:00:00:77", "dev", "eth0", "nud", "permanent")

    def mend(self, one, other):
        for host, peer in ((one, other), (other, one)):
            ip("-n", host.namespace, "neigh", "del", peer.address, "dev", "eth0")

    def slow(self, host, rate="2mbit"):
        """Delays all packets to and from this host."""
        for where, device in ((self.name, host.wire), (host.namespace, "eth0")):
            subprocess.run(["tc", "-n", where, "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", "8kb",
                            "latency", "400ms"], check=True, capture_output=True, timeout=30)
