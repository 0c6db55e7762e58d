"""A server of embeddings on loopback whose vectors are made or known, so that no model is in any figure."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

Vector = Callable[[str], Sequence[float]]

DIMENSION = 384
"""Components of a made vector."""

_CENTERS, _OFF, _NOISE, _SCALE = 2_000, 0.7, 0.9, 24
_SEED = 20261122


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
def embedding_server(vector: Vector, port: int = 0) -> Iterator[str]:
    """Serve the vectors of texts, each as a list of numbers, and return the URL."""
    server = _Server(port, vector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


class MadeVectors:
    """Vectors around 2,000 centers, off the middle, as those of real models are.

    A text has the same one each time. Components are whole numbers, which are quick to write and read.
    """

    def __init__(self) -> None:
        chance = np.random.default_rng(_SEED)
        middle = _OFF * chance.standard_normal(DIMENSION, dtype=np.float32)
        self._centers = chance.standard_normal((_CENTERS, DIMENSION), dtype=np.float32) + middle

    def vector(self, text: str) -> list[int]:
        """Return the vector of a text."""
        chance = np.random.default_rng(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()))
        center = self._centers[chance.integers(_CENTERS)]
        vector = center + _NOISE * chance.standard_normal(DIMENSION, dtype=np.float32)
        return np.rint(vector * _SCALE).astype(np.int32).tolist()  # type: ignore[no-any-return]
