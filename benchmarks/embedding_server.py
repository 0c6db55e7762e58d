"""A server of embeddings on loopback that knows its vectors, so that no model is in any figure."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Vector = Callable[[str], Sequence[float]]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, vector: Vector) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.vector = vector


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]
        texts = [asked] if isinstance(asked, str) else asked
        data = [{"index": at, "embedding": self.server.vector(text)} for at, text in enumerate(texts)]
        body = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def embedding_server(vector: Vector, port: int = 0) -> Iterator[int]:
    """Serve the vectors of texts, each as a list of numbers, and return the port."""
    server = _Server(port, vector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
