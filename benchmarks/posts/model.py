"""A server of embeddings on loopback, which knows the questions and their vectors: no model is measured."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.posts.sources import Sources
from benchmarks.search.vectors.corpus import Matrix


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    vectors: dict[str, Matrix]

    def vector(self, text: str) -> list[float]:
        """Any other text has the first one's."""
        found = self.vectors.get(text)
        return (next(iter(self.vectors.values())) if found is None else found).tolist()  # type: ignore[return-value]


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
def served(sources: Sources, place: Path) -> Iterator[str]:
    """The URL of the server, for as long as it is wanted. ``place`` is a file that keeps its port.

    An archive knows its model by that URL.
    """
    port = int(place.read_text()) if place.exists() else 0
    server = _Server(("127.0.0.1", port), _Handler)
    place.write_text(str(server.server_port))
    server.vectors = sources.vectors()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
