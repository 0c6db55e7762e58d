"""The Universal Sentence Encoder of its package, as a model that is loaded; and its tokenizer alone."""

from __future__ import annotations

import functools
import hashlib
import io
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import numpy as np

from tabane.search.embedding.process_requests import ModelSpec
from tabane.search.embedding.universal_encoder import CHECKSUMS, DIMENSION, VOCABULARY, WEIGHTS
from tabane.search.embedding.worker.kept_arrays import Arrays, kept_arrays
from tabane.search.embedding.worker.model import Floats, TokenizedText, finished
from tabane.search.embedding.worker.sentencepiece import BEGIN, END, UnigramTokenizer, vocabulary_of
from tabane.search.embedding.worker.universal_layers import CHUNKS, UniversalEncoder

_MAKING = 1  # counts up when arrays are made in another way
_AROUND = 2  # pieces around a text


class UniversalModel:
    """Implements :class:`~tabane.search.embedding.worker.model.LoadedModel`."""

    pads = False

    def __init__(self, spec: ModelSpec) -> None:
        """Load the files in the spec's folder. Raises ValueError if their checksums are wrong; OSError."""
        self._tokenizer = tokenizer_in(spec.folder, spec.kept)
        weights = functools.partial(weights_in, spec.folder, spec.threads)
        self._encoder = UniversalEncoder(kept_arrays(spec.kept, _name(WEIGHTS), weights), spec.threads)
        self._most = max(spec.max_tokens - _AROUND, 1)
        self._kept = spec.dimension
        self.dimension = min(spec.dimension or DIMENSION, DIMENSION)

    def tokens(self, texts: Sequence[str], query: str = "") -> list[TokenizedText]:
        found = self._tokenizer.encode(texts, self._most)
        return [cast(TokenizedText, [BEGIN, *pieces, END]) for pieces in found]

    def vectors(self, batch: Sequence[TokenizedText]) -> Floats:
        return finished(self._encoder.vectors(cast(Sequence[Sequence[int]], batch)), self._kept)


def tokenizer_in(folder: str, kept: str) -> UnigramTokenizer:
    """Return the tokenizer of the files in ``folder``. Raises ValueError if the checksum is wrong."""
    return UnigramTokenizer(
        kept_arrays(kept, _name(VOCABULARY), lambda: vocabulary_of(_checked(folder, VOCABULARY)))
    )


def weights_in(folder: str, threads: int) -> Arrays:
    """Return the arrays of the files in ``folder``. Raises ValueError if the checksum is wrong."""
    content = _checked(folder, WEIGHTS)
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        made = {name: file[name] for name in file.files if not name.startswith("q")}
        rows, width = file["q1"].shape
    table = made["table"] = np.empty((rows * CHUNKS, width), np.uint8)

    def fill(chunk: int) -> None:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            table[chunk::CHUNKS] = file[f"q{chunk + 1}"]

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fill, range(CHUNKS)))
    return made


def _checked(folder: str, name: str) -> bytes:
    """Return the content of a file of the package. Raises ValueError if it is another one."""
    path = os.path.join(folder, name)
    with open(path, "rb") as file:
        content = file.read()
    if hashlib.sha256(content).hexdigest() != CHECKSUMS[name]:
        raise ValueError(f"{path} is not the file that Tabane was released with: its checksum is wrong")
    return content


def _name(file: str) -> str:
    return f"use-{_MAKING}-{CHECKSUMS[file][:24]}"
