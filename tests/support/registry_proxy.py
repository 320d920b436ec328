"""A front before a registry on a UNIX socket. It records each request with the sizes of its body and of the answer's body, asks for tokens if
it has a gate, and misbehaves as a plan says. The front passes bodies in pieces, and never stores a whole body.

A plan is a list of rules as in fault_proxy.py, here made by `fault(do, method, path, ...)`. The first rule that matches a request and is
not used up decides; `nth` (from 1) chooses the nth of the requests that match, `times` says how often (0: always). What `do` can be:

    status        answer `status` (429 if not given) with `headers`, `body` (bytes, or what becomes JSON); with `share`: after that share of
                  the request's body, which reaches the registry
    cut           close the connection after `share` (1/2 if not given) of the body: of the request, for GET of the answer. 1 means after
                  all of the request, before any answer; of an answer, one byte before its end
    stall         never answer
    delay         wait `seconds`, then continue as usual
    revoke        all tokens that were issued until now become invalid
    forget        the upload session is gone: 404 BLOB_UPLOAD_UNKNOWN, also in the registry
    redirect      307 to `to`, or to the same path on the second host of the registry
    headers       the answer with these `headers` instead of its own; None removes a header
    wrong-digest  the answer with the Docker-Content-Digest of something else
    wrong-bytes   the answer with one byte changed, at `share` of it
    short         the answer without its last byte, and with the Content-Length of the shorter body
"""

import base64
import dataclasses
import hashlib
import http.client
import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fault_proxy import HOP_BY_HOP, Plan

PIECE = 256 * 1024
UNKNOWN_LENGTH = 64 * 1024  # a share refers to this length if a request does not say how long its body is
FIELDS = {"nth", "times", "share", "status", "headers", "body", "seconds", "to"}
KINDS = {"status", "cut", "stall", "delay", "revoke", "forget", "redirect", "headers", "wrong-digest", "wrong-bytes", "short"}


def fault(do, method, path="", **fields):
    """One rule of a plan; see the top of the file."""
    assert do in KINDS, do
    assert fields.keys() <= FIELDS, fields
    return {"do": do, "method": method, "path": path, **fields}


def error_body(code, message="said by the front of the test"):
    """The body with which a registry reports an error."""
    return {"errors": [{"code": code, "message": message, "detail": None}]}


@dataclasses.dataclass
class Exchange:
    """One request: `sent` and `received` are bytes of bodies, as the client sent and received them."""

    method: str
    path: str
    headers: dict
    did: str = "pass"
    status: int = 0
    sent: int = 0
    received: int = 0


class Record:
    """All requests so far."""

    def __init__(self, log=None):
        self._exchanges, self._log, self._lock = [], log, threading.Lock()

    def begin(self, exchange):
        with self._lock:
            self._exchanges.append(exchange)
        return exchange

    def end(self, exchange):
        if self._log:
            entry = {**dataclasses.asdict(exchange), "headers": None}
            with self._lock, open(self._log, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")

    def select(self, method=None, path=""):
        """The requests with this method, or with any method if it is None, whose path with its query matches the regular expression."""
        with self._lock:
            return [each for each in self._exchanges if method in (None, each.method) and re.search(path, each.path)]

    def count(self, method=None, path=""):
        return len(self.select(method, path))

    def sent(self, method=None, path=""):
        return sum(each.sent for each in self.select(method, path))

    def received(self, method=None, path=""):
        return sum(each.received for each in self.select(method, path))

    def clear(self):
        with self._lock:
            self._exchanges.clear()

    def __repr__(self):
        return "\n".join(f"{each.method} {each.path} {each.did} {each.status} sent {each.sent} received {each.received}" for each in self.select())


class Cut(Exception):
    """Raised to close the connection to the client now."""


class Incoming:
    """The body of a request in pieces, as they arrive."""

    def __init__(self, file, headers, exchange):
        self._file, self._exchange = file, exchange
        self.chunked = "chunked" in headers.get("Transfer-Encoding", "").lower()
        self.length = None if self.chunked else int(headers.get("Content-Length") or 0)
        self._left = 0 if self.chunked else self.length  # bytes left of the chunk, or of the whole body
        self.ended = self.length == 0

    def pieces(self, most=None):
        """The rest of the body, or its next `most` bytes."""
        while not self.ended and most != 0:
            if self.chunked and self._left == 0:
                self._left = int(self._line().split(b";")[0], 16)
                if self._left == 0:
                    while self._line().strip():
                        pass
                    self.ended = True
                    return
            piece = self._file.read1(min(PIECE, self._left, most or PIECE))
            if not piece:
                raise Cut()
            self._left -= len(piece)
            self._exchange.sent += len(piece)
            most = most and most - len(piece)
            if self._left == 0:
                if self.chunked:
                    self._line()
                else:
                    self.ended = True
            yield piece

    def part(self, share):
        return int((UNKNOWN_LENGTH if self.length is None else self.length) * share)

    def _line(self):
        line = self._file.readline(1024)
        if not line:
            raise Cut()
        return line


def socket_address(name):
    """The address for connect(). Go writes the zero byte of an abstract name as @."""
    return re.sub("^@", "\0", name)


class Upstream(http.client.HTTPConnection):
    """A connection to the registry."""

    def __init__(self, name):
        super().__init__("localhost", timeout=120)
        self._socket_name = name

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(socket_address(self._socket_name))


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 300

    def serve(self):
        front = self.server.front
        self.entry = front.record.begin(Exchange(self.command, self.path, dict(self.headers.items())))
        self.body = Incoming(self.rfile, self.headers, self.entry)
        rule = front.pick(self.command, self.path)
        self.entry.did = rule["do"]
        try:
            self.execute(front, rule, rule["do"])
        except (Cut, OSError, http.client.HTTPException):  # one side closed the connection, or the front did
            self.close_connection = True
        finally:
            front.record.end(self.entry)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = serve

    def execute(self, front, rule, do):
        if do == "stall":
            front.stopping.wait()
            raise Cut()
        if do == "delay":
            front.stopping.wait(rule.get("seconds", 1))
        if do == "revoke":
            front.gate.revoke()
        refusal = front.gate.check(self.command, self.path, self.headers, front) if front.gate else None
        if refusal:
            return self.answer(*refusal)
        if do == "status" and "share" not in rule:
            return self.answer_rule(rule)
        if do == "redirect":
            return self.answer(307, {"Location": rule.get("to") or front.elsewhere.url + self.path}, b"")
        if front.out_of_order and front.out_of_order(self.command, self.path, self.headers):
            return self.answer(416, {}, error_body("RANGE_INVALID"))
        connection = Upstream(front.upstream)
        try:
            self.exchange(front, rule, do, connection)
        finally:
            connection.close()

    def exchange(self, front, rule, do, connection):
        if do == "forget":
            self.forward(front, connection, method="DELETE", most=0)
            connection.getresponse().read()
            return self.answer(404, {}, error_body("BLOB_UPLOAD_UNKNOWN"))
        share = rule.get("share", 0.5)
        most = self.body.part(share) if do == "status" or (do == "cut" and self.command != "GET" and share < 1) else None
        try:
            self.forward(front, connection, most=most)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the registry has answered already
        if do == "status":
            return self.answer_rule(rule)
        if most is not None:
            raise Cut()
        answer = connection.getresponse()
        self.entry.status = answer.status
        if do == "cut" and self.command != "GET":
            answer.read()
            raise Cut()
        self.pass_on(rule, do, answer)

    def forward(self, front, connection, method=None, most=None):
        """Sends the request to the registry, with at most `most` bytes of its body."""
        path = front.resume(self.path) if front.resume else self.path
        connection.putrequest(method or self.command, path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in HOP_BY_HOP and not (name.lower() == "authorization" and (front.gate or front.authorization)):
                connection.putheader(name, value)
        if front.authorization:
            connection.putheader("Authorization", front.authorization)
        if front.tls:
            connection.putheader("X-Forwarded-Proto", "https")
        if self.body.chunked:
            connection.putheader("Transfer-Encoding", "chunked")
        elif "Content-Length" in self.headers:
            connection.putheader("Content-Length", "0" if method else str(self.body.length))
        connection.endheaders()
        for piece in self.body.pieces(most):
            connection.send(b"%x\r\n%s\r\n" % (len(piece), piece) if self.body.chunked else piece)
        if self.body.chunked and most is None:
            connection.send(b"0\r\n\r\n")

    def pass_on(self, rule, do, answer):
        """Passes the registry's answer to the client."""
        length = answer.getheader("Content-Length")
        headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in HOP_BY_HOP]
        changed = rule.get("headers", {}) if do == "headers" else {}
        if do == "wrong-digest":
            changed = {"Docker-Content-Digest": "sha256:" + hashlib.sha256(b"something else").hexdigest()}
        lower = {name.lower() for name in changed}
        headers = [pair for pair in headers if pair[0].lower() not in lower] + [pair for pair in changed.items() if pair[1] is not None]
        has_body = self.command != "HEAD" and answer.status not in (204, 304)
        total = int(length) if length is not None else 0
        most = total - 1 if do == "short" and has_body else total
        if length is not None:
            headers.append(("Content-Length", str(most)))
        elif has_body:
            headers.append(("Transfer-Encoding", "chunked"))
        if not self.body.ended:
            headers.append(("Connection", "close"))
        self.head(answer.status, answer.reason, headers)
        cut_at = min(total - 1, int(total * rule.get("share", 0.5))) if do == "cut" else None
        wrong_at = min(total - 1, int(total * rule.get("share", 0.5))) if do == "wrong-bytes" else None
        at = 0
        while has_body and (piece := answer.read(PIECE)):
            if wrong_at is not None and at <= wrong_at < at + len(piece):
                piece = piece[:wrong_at - at] + bytes([piece[wrong_at - at] ^ 1]) + piece[wrong_at - at + 1:]
            end = most if cut_at is None else cut_at
            whole, piece = at + len(piece), piece if length is None else piece[:max(0, end - at)]
            at = whole
            self.write(b"%x\r\n%s\r\n" % (len(piece), piece) if length is None else piece, len(piece))
            if cut_at is not None and at > cut_at:
                raise Cut()
        if has_body and length is None:
            self.write(b"0\r\n\r\n", 0)
        self.drain()

    def answer_rule(self, rule):
        status = rule.get("status", 429)
        code = {429: "TOOMANYREQUESTS", 401: "UNAUTHORIZED", 403: "DENIED", 404: "NAME_UNKNOWN"}.get(status, "UNKNOWN")
        self.answer(status, rule.get("headers", {"Retry-After": "1"} if status == 429 else {}), rule.get("body", error_body(code)))

    def answer(self, status, headers, body):
        """Answers in place of the registry."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Docker-Distribution-Api-Version": "registry/2.0", "Content-Type": "application/json", **headers, "Content-Length": str(len(content))}
        if not self.body.ended:
            headers["Connection"] = "close"
        self.entry.status = status
        self.head(status, http.client.responses.get(status, "Unknown"), headers.items())
        if self.command != "HEAD":
            self.write(content, len(content))
        self.drain()

    def head(self, status, reason, headers):
        self.send_response_only(status, reason)
        for name, value in headers:
            self.send_header(name, value)  # a header `Connection: close` closes the connection afterwards
        self.end_headers()

    def write(self, data, counted):
        self.wfile.write(data)
        self.entry.received += counted

    def drain(self):
        """Reads the rest of the body. A connection that is closed with unread bytes is reset, and then the client may not see the answer."""
        if not self.body.ended:
            self.close_connection = True
            self.request.settimeout(5)
            for _ in self.body.pieces():
                pass

    def log_message(self, *_):
        pass


class Listener(ThreadingHTTPServer):
    """The listening socket of a front. Connections that are open at its end are closed."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address, handler, front):
        self.front, self._open, self._lock = front, set(), threading.Lock()
        super().__init__(address, handler)

    def get_request(self):
        request, client_address = super().get_request()
        if self.front.tls:  # the handshake happens at the first read, on the thread of the connection
            request = self.front.tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        return request, client_address

    def process_request(self, request, client_address):
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        pass  # for example, the client does not trust our certificate

    def server_bind(self):
        super(ThreadingHTTPServer, self).server_bind()
        self.server_name, self.server_port = self.server_address[:2]  # without a request to DNS for the name of the host

    def stop(self):
        self.shutdown()
        self.server_close()
        with self._lock:
            for request in self._open:
                try:
                    request.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


class Front:
    """The listener and its plan, for tests. `upstream` is the registry's UNIX socket. If `authorization` is given, the registry gets it instead
    of the client's header. `resume` changes the path of each request to the registry. `out_of_order` says whether a part of an upload is
    not the next part."""

    handler = Handler

    def __init__(self, upstream, host="127.0.0.1", port=0, tls=None, gate=None, authorization=None, elsewhere=None, resume=None, out_of_order=None,
                 log=None):
        self.upstream, self.tls, self.gate, self.authorization = upstream, tls, gate, authorization
        self.elsewhere, self.resume, self.out_of_order = elsewhere, resume, out_of_order
        self.record = Record(log)
        self.stopping = threading.Event()
        self._plan, self._lock = Plan([]), threading.Lock()
        self._listener = Listener((host, port), self.handler, self)
        self.host, self.port = self._listener.server_address[:2]
        self.name = f"{self.host}:{self.port}"
        self.url = f"{'https' if tls else 'http'}://{self.name}"
        self._thread = threading.Thread(target=self._listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def plan(self, *rules):
        """Replaces the plan. The new rules count requests from here on."""
        with self._lock:
            self._plan = Plan(rules)

    def pick(self, method, path):
        with self._lock:
            return self._plan.pick(method, path) or {"do": "pass"}

    def unmet(self):
        """The rules that were not used by any request. A test proves nothing if its fault did not happen."""
        with self._lock:
            return [rule for rule in self._plan.rules if rule["used"] == 0]

    def stop(self):
        self.stopping.set()
        self._listener.stop()
        self._thread.join(10)


def basic_authorization(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
