"""Requests to the processes of models, in MessagePack.

The opening of the embedding process is a :class:`ModelSpec`, and its greeting the dimension of a vector. A
request is an :class:`EmbeddingRequest`, and its result the vectors, one after the other. The opening of the
process that counts tokens is a :class:`TokenizerSpec`. A request is a list of texts, and its result a list of
the numbers of their tokens.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tabane.search.embedding.model_families import Pooling

Loader = Literal["onnx", "weights", "sentence-transformers"]


class ModelSpec(msgspec.Struct, frozen=True):
    """The model to run. ``scores``: it reads pairs of a question and a text, and scores them.

    ``folder`` has the files, ``graph`` is the path of the ONNX graph in it. ``kept`` is a folder where
    generated graphs are stored. ``budget`` is the tokens of a batch, ``idle`` the seconds without work after
    which the process ends, 0 for never.
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
    """The tokenizer to count tokens with: the path of a tokenizer.json. ``idle`` as for a model."""

    path: str
    idle: float = 0


class EmbeddingRequest(msgspec.Struct, frozen=True):
    """Texts to embed, with their prefixes; or to score against ``query``."""

    texts: list[str]
    query: str = ""
