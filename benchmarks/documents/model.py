"""A server of embeddings on loopback that makes a vector of any text at once: no model is measured.

The vectors lie around 2,000 centres, off the middle, as those of real models do. A text has the same one
each time. Their components are whole numbers, so that writing and reading them costs next to nothing.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

NAME = "bench-384"
DIMENSION = 384

_CENTRES, _OFF, _NOISE, _SCALE = 2_000, 0.7, 0.9, 24
_SEED = 20261122


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        chance = np.random.default_rng(_SEED)
        middle = _OFF * chance.standard_normal(DIMENSION, dtype=np.float32)
        self._centres = chance.standard_normal((_CENTRES, DIMENSION), dtype=np.float32) + middle

    def vector(self, text: str) -> list[int]:
        chance = np.random.default_rng(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()))
        found = self._centres[chance.integers(_CENTRES)]
        found = found + _NOISE * chance.standard_normal(DIMENSION, dtype=np.float32)
        return np.rint(found * _SCALE).astype(np.int32).tolist()  # type: ignore[no-any-return]


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
def served() -> Iterator[str]:
    """The URL of the server, for as long as it is wanted."""
    server = _Server(_Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
