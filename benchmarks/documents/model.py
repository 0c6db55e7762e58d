"""A model of made vectors, which embeds any text at once.

The vectors lie around 2,000 centers, off the middle, as those of real models do. A text has the same one
each time. Their components are whole numbers, so that writing and reading them costs next to nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from benchmarks.embedding_server import embedding_server

NAME = "bench-384"
DIMENSION = 384

_CENTERS, _OFF, _NOISE, _SCALE = 2_000, 0.7, 0.9, 24
_SEED = 20261122


class _Model:
    def __init__(self) -> None:
        chance = np.random.default_rng(_SEED)
        middle = _OFF * chance.standard_normal(DIMENSION, dtype=np.float32)
        self._centers = chance.standard_normal((_CENTERS, DIMENSION), dtype=np.float32) + middle

    def vector(self, text: str) -> list[int]:
        chance = np.random.default_rng(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()))
        found = self._centers[chance.integers(_CENTERS)]
        found = found + _NOISE * chance.standard_normal(DIMENSION, dtype=np.float32)
        return np.rint(found * _SCALE).astype(np.int32).tolist()  # type: ignore[no-any-return]


@contextmanager
def served() -> Iterator[str]:
    """Serve the model and return the URL."""
    with embedding_server(_Model().vector) as port:
        yield f"http://127.0.0.1:{port}/v1"
