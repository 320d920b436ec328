#!/usr/bin/env python3
"""A proxy between mlk and any API server that misbehaves as a plan says.

From the kubeconfig of a server the proxy writes another kubeconfig that points at the proxy, over TLS with a certificate of its own.
It authenticates every request to the server as the first kubeconfig says. If the first kubeconfig has no credentials, the proxy passes on
those of the request.
The proxy speaks HTTP/1.1 on both sides, with one connection to the server per request. It needs only the standard library and the openssl
command.

    with FaultProxy(kubeconfig, plan=[{"do": "cut-after", "method": "POST", "nth": 2}]) as proxy:
        subprocess.run(["mlk", "--kubeconfig", proxy.kubeconfig, ...])
        assert proxy.count("POST") == 3

A plan is a list of rules. The first rule that matches a request and is not used up decides:

    method, path   which requests: a method, and a regular expression searched in the path with its query; all by default
    nth            only the nth of these requests (from 1)
    times          how often the rule applies, without nth (default 1; 0: always)
    do             cut-before   close the connection before the server sees the request
                   cut-after    let the server answer, then close without passing the answer on
                   cut-mid      pass on the head and `bytes` (default 20) of the body, then close
                   cut-mid-line of a stream: pass on `lines` (default 1) lines and half of the next line, then close
                   status       answer `status` (default 429) with the headers `headers` (default Retry-After: 1)
                                and the body `body`: a text or an object (default a Status)
                   delay        wait `seconds` (default 1), then continue as usual
                   cut-later    pass the answer on for `seconds` (default 1), then close
                   end-later    pass whole lines on for `seconds` (default 1), then `text`, and an orderly end
                   half-open    accept the request and never answer
                   drip         pass the answer on byte by byte, `seconds` (default 0.05) apart
                   gone         in a watch: pass on `lines` (default 0) lines, then the event ERROR 410 and an orderly end
                   version      answer GET /version as Kubernetes `version` (default "1.30")

By hand:  fault_proxy.py --upstream KUBECONFIG --out NEW-KUBECONFIG [--plan JSON | --plan-file FILE] [--log FILE]
The program prints "ready PORT" and runs until SIGTERM or SIGINT. Each line of the log is one request as JSON: number, method,
path, what the proxy did, status, bytes of the body. The proxy reads the plan file again when the file changes.
"""

import argparse
import asyncio
import base64
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from kubeconfigs import Upstream

HEAD_LIMIT = 64 * 1024
ANSWER_TIMEOUT = 900  # a watch may stay silent as long as its own time-out
TOKEN = "fault-proxy"  # kubectl asks for a password if there are no credentials at all
HOP_BY_HOP = {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "content-length", "te", "upgrade", "expect"}


def make_certificate(folder):
    """A self-signed certificate for 127.0.0.1: (certificate, key) as paths."""
    certificate, key = folder / "proxy.crt", folder / "proxy.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
               "-subj", "/CN=fault-proxy", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
               "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return certificate, key


class Plan:
    """Chooses the rule for each request, if any, and counts the requests that match each rule."""

    def __init__(self, rules):
        self.rules = [dict(rule, seen=0, used=0) for rule in rules]

    def pick(self, method, path):
        picked = None
        for rule in self.rules:
            if rule.get("method", method) != method or not re.search(rule.get("path", ""), path):
                continue
            rule["seen"] += 1
            times = rule.get("times", 1)
            fits = rule["seen"] == rule["nth"] if "nth" in rule else times == 0 or rule["used"] < times
            if picked is None and fits:
                rule["used"] += 1
                picked = rule
        return picked


class Cut(Exception):
    """Raised to close the connection to the client now."""


class Message:
    """The head of a request or an answer."""

    def __init__(self, first_line, headers):
        self.first_line, self.headers = first_line, headers

    def get(self, name, default=""):
        return next((value for key, value in self.headers if key.lower() == name), default)

    @classmethod
    async def read_from(cls, reader):
        head = await reader.readuntil(b"\r\n\r\n")
        if len(head) > HEAD_LIMIT:
            raise Cut()
        first, *rest = head.decode("latin-1").split("\r\n")[:-2]
        return cls(first, [tuple(part.strip() for part in line.split(":", 1)) for line in rest if ":" in line])


async def read_chunks(reader, message, has_body=True):
    """The body in pieces, as they arrive."""
    if not has_body:
        return
    if message.get("transfer-encoding").lower() == "chunked":
        while True:
            size = int((await reader.readline()).split(b";")[0] or b"0", 16)
            if size == 0:
                await reader.readline()
                return
            yield await reader.readexactly(size)
            await reader.readline()
    elif message.get("content-length"):
        left = int(message.get("content-length"))
        while left > 0:
            piece = await reader.read(min(left, 65536))
            if not piece:
                raise Cut()
            left -= len(piece)
            yield piece
    elif not message.first_line.startswith("HTTP/"):
        return  # a request without a length has no body
    else:
        while piece := await reader.read(65536):
            yield piece


class Server:
    """The proxy, on the event loop of the caller."""

    def __init__(self, upstream, certificate, key, plan, log):
        self.upstream, self.plan, self.log = upstream, plan, log
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(certificate, key)
        self.tls.set_alpn_protocols(["http/1.1"])
        self.requests = []
        self.tasks = set()
        self.listener = None

    async def start(self):
        self.listener = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=self.tls, limit=HEAD_LIMIT)
        return self.listener.sockets[0].getsockname()[1]

    async def stop(self):
        self.listener.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def serve(self, reader, writer):
        task = asyncio.current_task()
        self.tasks.add(task)
        try:
            while await self.exchange(reader, writer):
                pass
        except (Cut, OSError, EOFError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.TimeoutError, ValueError,
                asyncio.CancelledError):
            pass  # one side closed the connection, or the proxy did
        finally:
            self.tasks.discard(task)
            writer.transport.abort()

    async def exchange(self, reader, writer):
        request = await Message.read_from(reader)
        method, path, _ = request.first_line.split(" ", 2)
        body = b"".join([piece async for piece in read_chunks(reader, request)])
        rule = self.plan().pick(method, path) or {}
        fault = rule.get("do", "pass")
        entry = {"n": len(self.requests) + 1, "method": method, "path": path, "did": fault, "status": None, "sent": len(body)}
        self.requests.append(entry)
        try:
            return await self.execute(fault, rule, request, method, path, body, writer, entry)
        finally:
            self.log(entry)

    async def execute(self, fault, rule, request, method, path, body, writer, entry):
        if fault == "cut-before":
            raise Cut()
        if fault == "half-open":
            await asyncio.sleep(ANSWER_TIMEOUT)
            raise Cut()
        if fault == "delay":
            await asyncio.sleep(rule.get("seconds", 1))
        if fault == "status" or (fault == "version" and path.startswith("/version")):
            await self.answer(fault, rule, writer, entry)
            return True
        up_reader, up_writer = await self.upstream.connect()
        try:
            await self.forward(request, method, path, body, up_writer)
            while True:
                answer = await asyncio.wait_for(Message.read_from(up_reader), ANSWER_TIMEOUT)
                entry["status"] = int(answer.first_line.split()[1])
                if entry["status"] >= 200:
                    break
            has_body = method != "HEAD" and entry["status"] not in (204, 304)
            pieces = read_chunks(up_reader, answer, has_body)
            if fault == "cut-after":
                async for _ in pieces:
                    pass
                raise Cut()
            await self.pass_on(fault, rule, answer, pieces, has_body, writer)
            return True
        finally:
            up_writer.transport.abort()

    async def forward(self, request, method, path, body, writer):
        headers = [(name, value) for name, value in request.headers
                   if name.lower() not in HOP_BY_HOP | {"host", "authorization"}]
        authorization = self.upstream.authorization
        if authorization is None and request.get("authorization") != f"Bearer {TOKEN}":
            authorization = request.get("authorization")
        if authorization:
            headers.append(("Authorization", authorization))
        headers += [("Host", self.upstream.authority), ("Connection", "close"), ("Content-Length", str(len(body)))]
        head = f"{method} {self.upstream.prefix}{path} HTTP/1.1\r\n" + "".join(f"{n}: {v}\r\n" for n, v in headers) + "\r\n"
        writer.write(head.encode("latin-1") + body)
        await writer.drain()

    @staticmethod
    async def answer(fault, rule, writer, entry):
        status = 200 if fault == "version" else rule.get("status", 429)
        headers = {} if fault == "version" else rule.get("headers", {"Retry-After": "1"})
        if fault == "version":
            version = rule.get("version", "1.30")
            major, minor = version.split(".")[:2]
            content = {"major": major, "minor": minor, "gitVersion": f"v{version}.0"}
        else:
            content = rule.get("body", {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status,
                                        "reason": "TooManyRequests" if status == 429 else "Fault",
                                        "message": "answered by the fault proxy"})
        body = (content if isinstance(content, str) else json.dumps(content)).encode()
        entry["status"] = status
        lines = [f"HTTP/1.1 {status} Fault", "Content-Type: application/json", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + body)
        await writer.drain()

    async def pass_on(self, fault, rule, answer, pieces, has_body, writer):
        headers = [(name, value) for name, value in answer.headers if name.lower() not in HOP_BY_HOP]
        if has_body:
            headers.append(("Transfer-Encoding", "chunked"))
        head = answer.first_line + "\r\n" + "".join(f"{n}: {v}\r\n" for n, v in headers) + "\r\n"
        writer.write(head.encode("latin-1"))
        await writer.drain()
        if not has_body:
            return
        async for piece in self.shape(fault, rule, pieces):
            if piece is None:
                raise Cut()
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    @staticmethod
    async def shape(fault, rule, pieces):
        """The body as the client gets it. None means a cut."""
        if fault == "gone" and rule.get("lines", 0) == 0:
            yield GONE_EVENT
            return
        if fault in ("cut-later", "end-later"):
            async for piece in Server.shape_for_a_time(fault, rule, pieces):
                yield piece
            return
        left = rule.get("bytes", 20) if fault == "cut-mid" else rule.get("lines", 0 if fault == "gone" else 1)
        async for piece in pieces:
            if fault == "cut-mid":
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    yield None
            elif fault == "drip":
                for i in range(len(piece)):
                    yield piece[i:i + 1]
                    await asyncio.sleep(rule.get("seconds", 0.05))
            elif fault in ("cut-mid-line", "gone"):
                for line in piece.splitlines(keepends=True):
                    if left == 0:  # only for cut-mid-line
                        yield line[:max(1, len(line) // 2)]
                        yield None
                    yield line
                    left -= line.endswith(b"\n")
                    if left == 0 and fault == "gone":
                        yield GONE_EVENT
                        return
            else:
                yield piece

    @staticmethod
    async def shape_for_a_time(fault, rule, pieces):
        end = time.monotonic() + rule.get("seconds", 1)
        rest = b""
        while True:
            try:
                rest += await asyncio.wait_for(anext(pieces), max(0, end - time.monotonic()))
            except StopAsyncIteration:
                if rest:
                    yield rest
                return
            except asyncio.TimeoutError:
                break
            passed = len(rest) if fault == "cut-later" else rest.rfind(b"\n") + 1
            if passed:
                yield rest[:passed]
            rest = rest[passed:]
        yield None if fault == "cut-later" else rule.get("text", "").encode()


GONE_EVENT = json.dumps({"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410,
                                                     "reason": "Expired", "message": "too old resource version"}}).encode() + b"\n"


class FaultProxy:
    """The proxy on its own thread, for tests. mlk gets the kubeconfig `kubeconfig`. See the top of the file."""

    def __init__(self, upstream, plan=(), out=None, log=None):
        self._folder = tempfile.TemporaryDirectory(prefix="mlk-fault-proxy-")
        self._upstream, self._out, self._log = upstream, out, log
        self._plan = Plan(plan)
        self._lock = threading.Lock()
        self.kubeconfig = None
        self.port = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def start(self):
        folder = Path(self._folder.name)
        try:
            certificate, key = make_certificate(folder)
            self._server = Server(Upstream(self._upstream, folder), certificate, key, lambda: self._plan, self._write)
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
            self._thread.start()
            self.port = asyncio.run_coroutine_threadsafe(self._server.start(), self._loop).result(timeout=30)
            self.kubeconfig = str(self._out or folder / "kubeconfig")
            self._write_kubeconfig(certificate)
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def stop(self):
        if self.port is None:
            return
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(timeout=30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=30)
        self._loop.close()
        self._folder.cleanup()
        self.port = None

    def set_plan(self, plan):
        """Replaces the plan. The new rules count requests from here on."""
        self._plan = Plan(plan)

    @property
    def requests(self):
        """All requests so far: dictionaries with n, method, path, did, status, sent (bytes of the body)."""
        return list(self._server.requests)

    def count(self, method, path=""):
        return sum(r["method"] == method and re.search(path, r["path"]) is not None for r in self.requests)

    def sent(self, path=""):
        return sum(r["sent"] for r in self.requests if re.search(path, r["path"]))

    def _write(self, entry):
        if self._log:
            with self._lock, open(self._log, "a") as file:
                file.write(json.dumps(entry) + "\n")

    def _write_kubeconfig(self, certificate):
        authority = base64.b64encode(certificate.read_bytes()).decode()
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "fault-proxy",
            "clusters": [{"name": "fault-proxy", "cluster": {"server": f"https://127.0.0.1:{self.port}",
                                                             "certificate-authority-data": authority}}],
            "users": [{"name": "fault-proxy", "user": {"token": TOKEN}}],
            "contexts": [{"name": "fault-proxy", "context": {"cluster": "fault-proxy", "user": "fault-proxy",
                                                             "namespace": self._server.upstream.namespace}}]}
        path = Path(self.kubeconfig)
        path.touch(mode=0o600)
        path.write_text(json.dumps(config, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--upstream", required=True, help="kubeconfig of the server behind")
    parser.add_argument("--out", required=True, help="where to write the kubeconfig that points at the proxy")
    parser.add_argument("--plan", default="[]", help="the plan as JSON")
    parser.add_argument("--plan-file", help="a file with the plan; read again when it changes")
    parser.add_argument("--log", help="append one line of JSON per request")
    options = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())

    def plan_and_stamp():
        if not options.plan_file:
            return json.loads(options.plan), None
        return json.loads(Path(options.plan_file).read_text()), os.stat(options.plan_file).st_mtime_ns

    plan, stamp = plan_and_stamp()
    with FaultProxy(options.upstream, plan, out=options.out, log=options.log) as proxy:
        print(f"ready {proxy.port}", flush=True)
        while not ended.wait(0.2):
            if not options.plan_file or os.stat(options.plan_file).st_mtime_ns == stamp:
                continue
            try:
                plan, stamp = plan_and_stamp()
                proxy.set_plan(plan)
            except ValueError:
                time.sleep(0.05)  # the plan file is being written
    return 0


if __name__ == "__main__":
    sys.exit(main())
