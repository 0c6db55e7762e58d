"""What goes between the hub and the embedding process: frames of MessagePack over two pipes.

A frame is four bytes of length, big-endian, and a message. The first to the process is a
:class:`Spec`, and its answer :class:`Ready` or :class:`Failed`; then :class:`Ask` after :class:`Ask`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tabane.search.embedding.families import Pooling

Loader = Literal["onnx", "weights", "sentence-transformers"]

LONGEST = 64 * 1024 * 1024
"""Bytes of a frame."""


class Spec(msgspec.Struct, frozen=True, tag=True):
    """The model to be run. ``scores``: one that reads pairs, a question and a text, and scores them.

    ``folder`` has the files, ``graph`` is the path of the ONNX graph in it. ``kept`` is a folder where
    graphs that were made are kept. ``budget`` is the tokens of a batch, ``idle``
    the seconds without work after which the process ends, 0 for never.
    """

    loader: Loader
    folder: str
    graph: str = ""
    revision: str = ""
    int8: bool = False
    pooling: Pooling = Pooling.MEAN
    max_tokens: int = 512
    dimension: int = 0
    output: str = ""
    threads: int = 1
    budget: int = 1024
    idle: float = 0
    kept: str = ""
    scores: bool = False


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The model runs; its vectors have ``dimension`` components, a score is one of one."""

    dimension: int


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The model does not run; ``missing`` names a package that is not installed, where that is why."""

    reason: str
    missing: str = ""


class Ask(msgspec.Struct, frozen=True, tag=True):
    """Texts to be embedded, their prefixes in front; or to be scored against ``query``.

    ``urgent``: before all that are not.
    """

    id: int
    texts: list[str]
    urgent: bool = False
    query: str = ""


class Begun(msgspec.Struct, frozen=True, tag=True):
    """A batch of this request goes to the model now."""

    id: int


class Done(msgspec.Struct, frozen=True, tag=True):
    """The vectors of a request, one after the other."""

    id: int
    vectors: bytes


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The model could not embed the texts of a request; the process goes on."""

    id: int
    reason: str


Report = Ready | Failed | Begun | Done | Refused
Order = Spec | Ask

_ORDERS: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
_REPORTS: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)


def pack(message: Order | Report) -> bytes:
    """A frame. Raises ValueError where it would be longer than :data:`LONGEST`."""
    body = msgspec.msgpack.encode(message)
    if len(body) > LONGEST:
        raise ValueError(f"a frame of {len(body)} bytes")
    return len(body).to_bytes(4, "big") + body


def length(head: bytes) -> int:
    """The length of the body after these four bytes. Raises ValueError beyond :data:`LONGEST`."""
    size = int.from_bytes(head, "big")
    if size > LONGEST:
        raise ValueError(f"a frame of {size} bytes")
    return size


def order(body: bytes) -> Order:
    """What the process is told."""
    return _ORDERS.decode(body)


def report(body: bytes) -> Report:
    """What the process tells."""
    return _REPORTS.decode(body)
