"""The process that counts tokens with a tokenizer alone: it loads no model."""

from __future__ import annotations

import msgspec
from tokenizers import Tokenizer

from tabane.search.embedding.process_requests import TokenizerSpec
from tabane.workers.serving import LoadedService, ReportProgress, serve_loaded

_BATCH = 256  # texts whose tokens are in memory at once


def load(opening: bytes) -> LoadedService:
    """Load a tokenizer. Results are the numbers of tokens of the texts, without special ones."""
    spec = msgspec.msgpack.decode(opening, type=TokenizerSpec)
    tokenizer = Tokenizer.from_file(spec.path)
    tokenizer.no_padding()  # the file may have its own, to a fixed length
    tokenizer.no_truncation()
    requests = msgspec.msgpack.Decoder(list[str])

    def respond(body: bytes, progress: ReportProgress) -> bytes:
        texts = requests.decode(body)
        progress(b"")
        found: list[int] = []
        for start in range(0, len(texts), _BATCH):
            batch = tokenizer.encode_batch_fast(texts[start : start + _BATCH], add_special_tokens=False)
            found += [len(encoding) for encoding in batch]
        return msgspec.msgpack.encode(found)

    return LoadedService(b"", respond, spec.idle)


if __name__ == "__main__":
    serve_loaded(load)
