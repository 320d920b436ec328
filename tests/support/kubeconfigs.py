"""Reads kubeconfigs, also without PyYAML, and connects to the API server that a kubeconfig names."""

import asyncio
import base64
import json
import re
import ssl
from pathlib import Path

BODY_LIMIT = 64 * 1024 * 1024
CONNECT_TIMEOUT = 10


class Upstream:
    """The API server of a kubeconfig: its address, and how to authenticate there."""

    def __init__(self, kubeconfig, folder):
        config = load_kubeconfig(kubeconfig)
        base = Path(kubeconfig).resolve().parent
        context = named(config, "contexts", config["current-context"])["context"]
        cluster = named(config, "clusters", context["cluster"])["cluster"]
        user = named(config, "users", context["user"])["user"] if context.get("user") else {}
        self.namespace = context.get("namespace", "default")
        match = re.fullmatch(r"(https?)://(\[[^\]]+\]|[^/:]+)(?::(\d+))?(/.*)?", cluster["server"].rstrip("/"))
        if not match:
            raise ValueError(f"{kubeconfig}: server is not a URL")
        scheme, host, port, prefix = match.groups()
        self.host, self.prefix = host.strip("[]"), prefix or ""
        self.port = int(port or (443 if scheme == "https" else 80))
        self.authority = host + (f":{port}" if port else "")
        self.server_name = cluster.get("tls-server-name") or self.host
        self.authorization = None
        self.tls = None
        if scheme == "https":
            self.tls = self._context(cluster, user, base, folder)
        token = user.get("token") or (read(base, user["tokenFile"]).strip() if user.get("tokenFile") else None)
        if token:
            self.authorization = f"Bearer {token}"

    @staticmethod
    def _context(cluster, user, base, folder):
        context = ssl.create_default_context()
        if cluster.get("certificate-authority-data"):
            context.load_verify_locations(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        elif cluster.get("certificate-authority"):
            context.load_verify_locations(cafile=str(base / cluster["certificate-authority"]))
        if str(cluster.get("insecure-skip-tls-verify", "")).lower() == "true":
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        pair = []
        for field in ("client-certificate", "client-key"):
            if user.get(field + "-data"):
                path = folder / field
                path.touch(mode=0o600)
                path.write_bytes(base64.b64decode(user[field + "-data"]))
                pair.append(str(path))
            elif user.get(field):
                pair.append(str(base / user[field]))
        if len(pair) == 2:
            context.load_cert_chain(*pair)
        return context

    async def connect(self):
        name = self.server_name if self.tls else None
        opening = asyncio.open_connection(self.host, self.port, ssl=self.tls, server_hostname=name, limit=BODY_LIMIT)
        return await asyncio.wait_for(opening, CONNECT_TIMEOUT)


def read(base, name):
    return (base / name).read_text()


def named(config, kind, name):
    for entry in config.get(kind) or []:
        if entry["name"] == name:
            return entry
    raise ValueError(f"no {name} in {kind}")


def load_kubeconfig(path):
    """Reads a kubeconfig as JSON, or as YAML with PyYAML. Without PyYAML, reads it with parse_plain_yaml()."""
    text = Path(path).read_text()
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        import yaml
        return yaml.safe_load(text)
    except ImportError:
        return parse_plain_yaml(text)


def parse_plain_yaml(text):
    """The part of YAML in which kubeconfigs are written: block and one-line flow maps and lists, plain and quoted scalars."""
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in text.splitlines()
             if line.strip() and not line.strip().startswith("#") and line.strip() != "---"]

    def flow(source):
        position = 0

        def blanks():
            nonlocal position
            while position < len(source) and source[position] in " \t":
                position += 1

        def value(ends):
            nonlocal position
            blanks()
            if position < len(source) and source[position] in "{[":
                closing = "}" if source[position] == "{" else "]"
                out = {} if closing == "}" else []
                position += 1
                while True:
                    blanks()
                    if position >= len(source):
                        raise ValueError("flow collection over several lines")
                    if source[position] == closing:
                        position += 1
                        return out
                    if source[position] == ",":
                        position += 1
                        continue
                    if closing == "]":
                        out.append(value(",]"))
                    else:
                        key = value(":")
                        position += 1
                        out[key] = value(",}")
            if position < len(source) and source[position] in "\"'":
                quote, start = source[position], position + 1
                position = source.index(quote, start) + 1
                return source[start:position - 1]
            start = position
            while position < len(source) and not (source[position] in ends and
                                                  (source[position] != ":" or source[position + 1:position + 2] in (" ", ""))):
                position += 1
            return source[start:position].strip()

        return value("")

    def block(at, indent):
        """Reads the collection whose lines are indented by `indent`, from line `at`. Returns (value, next line)."""
        out = None
        while at < len(lines) and lines[at][0] == indent:
            line = lines[at][1]
            if line.startswith("- ") or line == "-":
                out = [] if out is None else out
                inner = line[1:].lstrip()
                if inner and inner[0] not in "{[\"'" and re.match(r"[^\s:]+:(\s|$)", inner):
                    lines[at] = (indent + len(line) - len(inner), inner)
                    item, at = block(at, lines[at][0])
                else:
                    item, at = flow(inner), at + 1
                out.append(item)
                continue
            out = {} if out is None else out
            if isinstance(out, list):
                break
            key, rest = re.match(r"([^:]+(?::[^\s:]+)*):\s*(.*)", line).groups()
            at += 1
            if rest:
                out[key.strip("\"'")] = flow(rest)
            elif at < len(lines) and (lines[at][0] > indent or (lines[at][0] == indent and lines[at][1].startswith("-"))):
                out[key.strip("\"'")], at = block(at, lines[at][0])
            else:
                out[key.strip("\"'")] = None
        return out, at

    return block(0, lines[0][0])[0] if lines else {}
