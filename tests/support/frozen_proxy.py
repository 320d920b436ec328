"""A TCP proxy between mlk and an API server. The proxy can freeze its open connections. Frozen connections stay open without an error, but
pass no more bytes, as if a NAT or a load balancer had forgotten them. New connections work.

    with FrozenProxy(kubeconfig) as proxy:
        mlk.run(mlk.MLK, "--kubeconfig", proxy.kubeconfig, ...)
        proxy.freeze()

The proxy passes bytes and does not read TLS or HTTP. So mlk speaks to the server itself, with HTTP/2 if the server supports it.
"""

import json
import re
import select
import socket
import tempfile
import threading
from pathlib import Path

from kubeconfigs import load_kubeconfig, named


class FrozenProxy:
    def __init__(self, kubeconfig):
        self._folder = tempfile.TemporaryDirectory(prefix="mlk-frozen-proxy-")
        self._config = load_kubeconfig(kubeconfig)
        self._lock = threading.Lock()
        self._open, self._frozen = set(), set()
        self._ended = threading.Event()
        self._threads = []

    def __enter__(self):
        context = named(self._config, "contexts", self._config["current-context"])["context"]
        cluster = named(self._config, "clusters", context["cluster"])["cluster"]
        scheme, host, port = re.fullmatch(r"(https?)://(\[[^\]]+\]|[^/:]+):(\d+)/?", cluster["server"]).groups()
        self._goal = (host.strip("[]"), int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        cluster["server"] = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"
        if scheme == "https":
            cluster.setdefault("tls-server-name", host.strip("[]"))
        path = Path(self._folder.name) / "kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(self._config))
        self.kubeconfig = str(path)
        self._start(self._accept)
        return self

    def __exit__(self, *_):
        self._ended.set()
        for thread in self._threads:
            thread.join(timeout=10)
        self._listener.close()
        self._folder.cleanup()

    def freeze(self):
        """Freezes the open connections, and returns their number."""
        with self._lock:
            self._frozen |= self._open
            return len(self._open)

    def _start(self, function, *arguments):
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while not self._ended.is_set():
            if not select.select([self._listener], [], [], 0.1)[0]:
                continue
            near, _ = self._listener.accept()
            self._start(self._serve, near)

    def _serve(self, near):
        with near, socket.create_connection(self._goal, timeout=10) as far:
            key = object()
            with self._lock:
                self._open.add(key)
            try:
                self._pass(near, far, key)
            except OSError:
                pass  # one side has closed the connection
            finally:
                with self._lock:
                    self._open.discard(key)

    def _pass(self, near, far, key):
        while not self._ended.is_set():
            ready = select.select([near, far], [], [], 0.1)[0]
            if key in self._frozen:
                self._ended.wait(0.1)
                continue
            for here in ready:
                data = here.recv(1 << 16)
                if not data:
                    return
                (far if here is near else near).sendall(data)
