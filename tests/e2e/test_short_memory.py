"""A server sends more than fits into memory. mlk ends with an error and an exit code, and does not abort."""

import functools
import http.server
import threading
import zlib

import mlk
import pytest

MEBI = 1 << 20


@functools.cache
def bomb():
    """240 MiB of JSON, gzipped."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    pieces = [packer.compress(b'{"items": ['), *(packer.compress(b" " * MEBI) for _ in range(240)), packer.compress(b"]}")]
    return b"".join([*pieces, packer.flush()])


class Bomb(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(bomb())))
        self.end_headers()
        try:
            self.wfile.write(bomb())
        except OSError:  # the client has read enough
            pass

    def log_message(self, *_):
        pass


@pytest.fixture
def kubeconfig(tmp_path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bomb)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    path = tmp_path / "config"
    path.write_text(f"current-context: c\nclusters: [{{name: k, cluster: {{server: 'http://127.0.0.1:{server.server_port}'}}}}]\n"
                    "users: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n")
    yield path
    server.shutdown()
    server.server_close()


@pytest.mark.timed
@pytest.mark.parametrize("limit", [160, 400, 700])
def test_mlk_fails_with_an_error_if_an_answer_does_not_fit_into_memory(kubeconfig, limit):
    ended = mlk.run("prlimit", f"--as={limit * MEBI}", mlk.MLK, "ls", "--kubeconfig", kubeconfig)
    assert ended.code in (1, 4), ended
    assert ended.stderr.startswith("mlk: error: "), ended
    assert "memory" in ended.stderr and "internal" not in ended.stderr, ended
