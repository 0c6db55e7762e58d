"""The process that counts tokens with a tokenizer alone: it loads no model."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec

from tabane.search.embedding.process_requests import TokenizerSpec
from tabane.search.embedding.universal_encoder import VOCABULARY
from tabane.workers.serving import LoadedService, ReportProgress, serve_loaded

_BATCH = 256  # texts whose tokens are in memory at once
_EVERYTHING = 1 << 30  # tokens: nothing is cut

Count = Callable[[Sequence[str]], list[int]]


def load(opening: bytes) -> LoadedService:
    """Load a tokenizer. Results are the numbers of tokens of the texts, without special ones."""
    spec = msgspec.msgpack.decode(opening, type=TokenizerSpec)
    count = _unigrams(spec) if os.path.basename(spec.path) == VOCABULARY else _tokenizer(spec)
    requests = msgspec.msgpack.Decoder(list[str])

    def respond(body: bytes, progress: ReportProgress) -> bytes:
        texts = requests.decode(body)
        progress(b"")
        sizes: list[int] = []
        for start in range(0, len(texts), _BATCH):
            sizes += count(texts[start : start + _BATCH])
        return msgspec.msgpack.encode(sizes)

    return LoadedService(b"", respond, spec.idle)


def _tokenizer(spec: TokenizerSpec) -> Count:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(spec.path)
    tokenizer.no_padding()  # the file may have its own, to a fixed length
    tokenizer.no_truncation()

    def count(texts: Sequence[str]) -> list[int]:
        return [len(encoding) for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    return count


def _unigrams(spec: TokenizerSpec) -> Count:
    from tabane.search.embedding.worker.universal_model import tokenizer_in

    tokenizer = tokenizer_in(os.path.dirname(spec.path), spec.kept)

    def count(texts: Sequence[str]) -> list[int]:
        return [len(pieces) for pieces in tokenizer.encode(texts, _EVERYTHING)]

    return count


if __name__ == "__main__":
    serve_loaded(load)
