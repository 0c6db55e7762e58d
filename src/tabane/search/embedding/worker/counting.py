"""Counts tokens: ``python -m tabane.search.embedding.worker.counting TOKENIZER SECONDS``.

Texts come on descriptor 0 and numbers go out on 1, in frames of a length of four bytes, big-endian, and
MessagePack. It ends with the pipe, or when nothing was asked for so many seconds. No model is loaded.
"""

from __future__ import annotations

import os
import select
import signal
import sys

import msgspec
from tokenizers import Tokenizer

from tabane.search.embedding.frames import length

_BATCH = 256  # texts whose tokens are in memory at once


def main() -> None:
    """Descriptor 1 is for numbers alone: what a library prints goes where its errors go."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the hub ends first, and the pipe with it
    numbers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    tokenizer = Tokenizer.from_file(sys.argv[1])
    tokenizer.no_padding()  # the file may have its own, to a fixed length
    tokenizer.no_truncation()
    texts = msgspec.msgpack.Decoder(list[str])
    with os.fdopen(0, "rb", buffering=0) as asked:
        while (
            select.select([asked], [], [], float(sys.argv[2]))[0]
            and len(head := _read(asked.fileno(), 4)) == 4
        ):
            body = msgspec.msgpack.encode(
                _counts(tokenizer, texts.decode(_read(asked.fileno(), length(head))))
            )
            numbers.write(len(body).to_bytes(4, "big") + body)
            numbers.flush()


def _counts(tokenizer: Tokenizer, texts: list[str]) -> list[int]:
    found: list[int] = []
    for start in range(0, len(texts), _BATCH):
        batch = tokenizer.encode_batch_fast(texts[start : start + _BATCH], add_special_tokens=False)
        found += [len(encoding) for encoding in batch]
    return found


def _read(descriptor: int, size: int) -> bytes:
    """So many bytes; fewer where the pipe ends."""
    parts = []
    while size and (part := os.read(descriptor, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


if __name__ == "__main__":
    main()
