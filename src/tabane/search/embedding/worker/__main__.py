"""The embedding process: ``python -m tabane.search.embedding.worker``, a worker that loads a model."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from tabane.search.embedding.embedder import MOST_TEXTS, slices
from tabane.search.embedding.process_requests import EmbeddingRequest, ModelSpec
from tabane.workers.serving import LoadedService, ReportProgress, serve_loaded

_FLAT = 1 << 24  # tokens, of the longest text times the number of texts

_BESIDE = 2
"""Batches that run at the same time, each with half of the budget.

The threads of one wait for each other after every product of matrices; those of the other work meanwhile.
"""


def load(opening: bytes) -> LoadedService:
    """Load a model. Raises ImportError if a package is missing, or what the runtime raises."""
    from tabane.search.embedding.worker.loading import load_model

    spec = msgspec.msgpack.decode(opening, type=ModelSpec)
    model = load_model(spec)
    requests = msgspec.msgpack.Decoder(EmbeddingRequest)
    width = model.dimension * 4
    # Torch has one pool of threads for all that runs.
    beside = _BESIDE if spec.threads > 1 and spec.loader != "sentence-transformers" else 1

    def respond(body: bytes, progress: ReportProgress) -> bytearray:
        request = requests.decode(body)
        tokens = model.tokens(request.texts, request.query)
        vectors = bytearray(len(tokens) * width)
        # A model that pads nothing makes batches of its own.
        budget, most = (spec.budget // beside, MOST_TEXTS) if model.pads else (_FLAT, len(tokens))
        parts = slices([len(text) for text in tokens], most, budget, padded=True)

        def embed(batch: Sequence[int]) -> None:
            progress(b"")
            rows = model.vectors([tokens[position] for position in batch])
            for position, row in zip(batch, rows, strict=True):
                vectors[position * width : (position + 1) * width] = row.tobytes()

        if beside == 1 or len(parts) == 1:
            for part in parts:
                embed(part)
        else:
            # Threads of this request alone: they inherit its priority.
            with ThreadPoolExecutor(beside) as pool:
                list(pool.map(embed, parts))
        return vectors

    return LoadedService(msgspec.msgpack.encode(model.dimension), respond, spec.idle)


if __name__ == "__main__":
    serve_loaded(load)
