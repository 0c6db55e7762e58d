"""The Universal Sentence Encoder, multilingual, over numpy: its stored arrays, its layers, and its tokenizer.

Yang et al. 2020, "Multilingual Universal Sentence Encoder for Semantic Retrieval", its model with
convolutions. The embedding of each token, and three branches of convolutions over 2, 3 and 5 tokens, are
normalized and summed over the text. Feed-forward layers make 512 components of the sum.

Up to the sum in the first convolution, everything depends on one token alone. It is computed once for a
token, and kept for those that come often: half of all products are saved.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tabane.search.embedding.process_requests import ModelSpec
from tabane.search.embedding.universal_encoder import CHECKSUMS, DIMENSION, VOCABULARY, WEIGHTS
from tabane.search.embedding.worker.model import Floats, Whole, finished
from tabane.search.embedding.worker.sentencepiece import BEGIN, END, UnigramTokenizer, vocabulary_of

Arrays = Mapping[str, npt.NDArray[Any]]

LAYER_DIMENSION = 512
CHUNKS = 17  # the vocabulary is dealt to so many tables, each with a scale of its own
_WIDTH = 256
_WINDOWS = ((0, 1), (-1, 1), (-2, 2))  # the first and the last token of each branch's window
_REACH = 2
_TOKENS = 512  # of a part: what its products need stays in the caches of a core
_KEPT_TOKENS = 2048  # 15 KB each
_STREAK = 32  # tokens, for each that is kept, after which it is checked whether those still come


class UniversalEncoder:
    """The layers. ``arrays``: the table of embeddings (uint8, pieces × 512), and weights by their names.

    ``kept`` is the number of tokens whose features are kept. Several threads may use it.
    """

    def __init__(self, arrays: Arrays, threads: int = 1, kept: int = _KEPT_TOKENS) -> None:
        self._tokens = TokenFeatures(arrays, kept)
        self._arrays = {name: array for name, array in arrays.items() if name != "table"}
        self._epsilon = float(arrays["eps"])
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def vectors(self, texts: Sequence[Sequence[int]]) -> Floats:
        """Return texts × 512 of the tokens of each, not yet of length one; none may be empty."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        sums: Floats = np.empty((len(texts), LAYER_DIMENSION + _WIDTH * len(_WINDOWS)), np.float32)
        parts, first, total = [], 0, 0
        for place, length in enumerate(lengths.tolist()):
            if total and total + length > _TOKENS:
                parts.append(slice(first, place))
                first, total = place, 0
            total += length
        if len(lengths):
            parts.append(slice(first, len(lengths)))

        def fill(part: slice) -> None:
            tokens = np.fromiter(chain.from_iterable(texts[part]), np.int64, int(lengths[part].sum()))
            sums[part] = self._summed(tokens, lengths[part])

        if self._pool is None or len(parts) == 1:
            for part in parts:
                fill(part)
        else:
            list(self._pool.map(fill, parts))
        return self._finished(sums, lengths)

    def _summed(self, tokens: Whole, lengths: Whole) -> Floats:
        """Return the sums over each text of all features, normalized for each token: texts × features."""
        looked_up = self._tokens.of(tokens)
        windows = _windows(lengths)
        embedded = looked_up.embedded()
        branches = [self._branch(looked_up, number, windows) for number in range(len(_WINDOWS))]
        features = [embedded, *branches]
        width = LAYER_DIMENSION + _WIDTH * len(branches)
        mean = sum(part.sum(axis=1) for part in features) / width
        squares = sum(np.einsum("ij,ij->i", part, part) for part in features) / width
        factor = 1 / np.sqrt(squares - mean * mean + self._epsilon)
        # Sums over texts as a product of matrices, which is faster than numpy's reduceat.
        weights: Floats = np.zeros((len(lengths), len(tokens)), np.float32)
        weights[np.repeat(np.arange(len(lengths)), lengths), np.arange(len(tokens))] = factor
        sums = np.concatenate([weights @ part for part in features], axis=1)
        sums -= (weights @ mean)[:, None]
        sums *= self._arrays["ln_g"]
        sums += lengths[:, None].astype(np.float32) * self._arrays["ln_b"]
        return sums

    def _branch(self, tokens: LookedUp, number: int, windows: Whole) -> Floats:
        """Return the features of a branch: two convolutions, each added to what goes into it."""
        first, last = _WINDOWS[number]
        size = last - first + 1
        window = windows[:, _REACH + first : _REACH + last + 1]
        count = len(window)
        padded: Floats = np.empty((count + 1, _WIDTH), np.float32)  # the last row: beyond a text
        padded[count] = 0
        state = padded[:count]
        tokens.weighed(number, window, out=state)
        state += self._arrays[f"b1_{size}"]
        np.maximum(state, 0, out=state)
        state += tokens.projected(number)
        joined: Floats = np.empty((count, size * _WIDTH), np.float32)
        padded.take(window.ravel(), axis=0, out=joined.reshape(-1, _WIDTH), mode="clip")
        features: Floats = joined @ self._arrays[f"w2_{size}"]
        features += self._arrays[f"b2_{size}"]
        np.maximum(features, 0, out=features)
        features += state
        return features

    def _finished(self, sums: Floats, lengths: Whole) -> Floats:
        weights = self._arrays
        counts = lengths.astype(np.float32)[:, None]
        first: npt.NDArray[Any] = (sums @ weights["cnn_W"] + counts * weights["cnn_b"]) / np.sqrt(counts)
        second = np.maximum(first @ weights["d0"], 0)
        third = np.maximum(first @ weights["p1"] + second @ weights["d1"], 0)
        fourth = np.maximum(third @ weights["d2"], 0)
        encoded: Floats = np.tanh(third @ weights["p3"] + fourth @ weights["d3"])
        return encoded


@dataclass(frozen=True, slots=True)
class _Rows:
    """Features of tokens, a row for each; the last row is zero, for what is beyond a text.

    ``weighed`` has the products with the weights of the first convolutions: for each branch, and for each
    token of its window.
    """

    embedded: Floats
    projected: list[Floats]
    weighed: list[list[Floats]]

    @classmethod
    def empty(cls, count: int) -> _Rows:
        def zeros(width: int) -> Floats:
            return np.zeros((count + 1, width), np.float32)

        sizes = [last - first + 1 for first, last in _WINDOWS]
        weighed = [[zeros(_WIDTH) for _ in range(size)] for size in sizes]
        return cls(zeros(LAYER_DIMENSION), [zeros(_WIDTH) for _ in sizes], weighed)

    def all(self) -> list[Floats]:
        return [self.embedded, *self.projected, *chain.from_iterable(self.weighed)]


class _KeptRows:
    """Rows of the tokens that came first. ``places`` has their rows; others have that of zeros."""

    def __init__(self, vocabulary: int, most: int) -> None:
        self.rows = _Rows.empty(most)
        self.places = np.full(vocabulary, most, np.int64)
        self.used = 0
        self.asked = self.missed = 0


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Features of the tokens of a part: kept ones, and those that were computed for it.

    ``places`` are rows of ``kept``. For the tokens at ``missing``, ``others`` are rows of ``computed``.
    """

    kept: _Rows
    places: Whole
    computed: _Rows
    others: Whole

    def embedded(self) -> Floats:
        """Return the embeddings of the tokens: tokens × dimension, float32."""
        return self._take(self.kept.embedded, self.computed.embedded)

    def projected(self, branch: int) -> Floats:
        """Return what goes into the first convolution of a branch."""
        return self._take(self.kept.projected[branch], self.computed.projected[branch])

    def weighed(self, branch: int, window: Whole, out: Floats) -> None:
        """Write the sums of the products of each token's window; ``window`` has the positions of tokens."""
        places = np.append(self.places, len(self.kept.embedded) - 1)
        others = np.append(self.others, len(self.computed.embedded) - 1)
        row: Floats = np.empty_like(out)
        for slot, (kept, computed) in enumerate(
            zip(self.kept.weighed[branch], self.computed.weighed[branch], strict=True)
        ):
            at = window[:, slot]
            kept.take(places[at], axis=0, out=out if slot == 0 else row, mode="clip")
            if slot:
                out += row
            other = others[at]
            some = np.flatnonzero(other < len(computed) - 1)
            out[some] += computed[other[some]]

    def _take(self, kept: Floats, computed: Floats) -> Floats:
        rows: Floats = kept.take(self.places, axis=0)
        some = np.flatnonzero(self.others < len(computed) - 1)
        rows[some] = computed[self.others[some]]
        return rows


class TokenFeatures:
    """The values that depend on one token alone, for the tokens of a part."""

    def __init__(self, arrays: Arrays, most: int) -> None:
        self._most = most
        self._table, self._scale, self._low = arrays["table"], arrays["scale"], arrays["lo"]
        sizes = [last - first + 1 for first, last in _WINDOWS]
        self._projections = [arrays[f"proj{size}"] for size in sizes]
        self._biases, self._gains, self._shifts = (
            [arrays[f"{name}{size}"] for size in sizes] for name in ("proj_b", "ln_g", "ln_b")
        )
        self._weights = [arrays[f"w1_{size}"].reshape(size, _WIDTH, _WIDTH) for size in sizes]
        self._epsilon = float(arrays["eps"])
        self._kept = _KeptRows(len(self._table), self._most)
        self._turn = threading.Lock()

    def of(self, tokens: Whole) -> LookedUp:
        """Look up the features of tokens, and compute those that are not kept."""
        with self._turn:
            kept = self._kept
            places = kept.places[tokens]
            missing = np.flatnonzero(places == self._most)
            kept.asked += len(tokens)
            kept.missed += len(missing)
            distinct, others = np.unique(tokens[missing], return_inverse=True)
            new = distinct[: self._most - kept.used]
            if len(new):
                self._compute(new, kept.rows.all(), kept.used)
                kept.places[new] = np.arange(kept.used, kept.used + len(new))
                kept.used += len(new)
                places = kept.places[tokens]
                missing = np.flatnonzero(places == self._most)
                distinct, others = np.unique(tokens[missing], return_inverse=True)
            if kept.asked > self._most * _STREAK:
                if kept.missed * 2 > kept.asked:
                    self._kept = _KeptRows(len(self._table), self._most)  # texts of another language
                kept.asked = kept.missed = 0
        computed = _Rows.empty(len(distinct))
        if len(distinct):
            self._compute(distinct, computed.all(), 0)
        rows = np.full(len(tokens), len(distinct))
        rows[missing] = others
        return LookedUp(kept.rows, places, computed, rows)

    def _compute(self, tokens: Whole, rows: list[Floats], start: int) -> None:
        """Write the rows of tokens, from ``start`` on."""
        at = slice(start, start + len(tokens))
        chunk = tokens % CHUNKS
        embedded: Floats = self._table[tokens].astype(np.float32)
        embedded *= self._scale[chunk, None]
        embedded += self._low[chunk, None]
        rows[0][at] = embedded
        projected = np.concatenate([embedded @ weights for weights in self._projections], axis=1)
        projected += np.concatenate(self._biases)
        _normalize(projected, self._epsilon)
        projected *= np.concatenate(self._gains)
        projected += np.concatenate(self._shifts)
        own = np.split(projected, len(_WINDOWS), axis=1)
        products = (part @ slot for part, slots in zip(own, self._weights, strict=True) for slot in slots)
        for row, values in zip(rows[1:], chain(own, products), strict=True):
            row[at] = values


def _windows(lengths: Whole) -> Whole:
    """Return the positions of the tokens -2 to 2 away, tokens × 5; one past the last if beyond the text."""
    count = int(lengths.sum())
    end = np.repeat(np.cumsum(lengths), lengths)
    first = end - np.repeat(lengths, lengths)
    positions: Whole = np.arange(count)[:, None] + np.arange(-_REACH, _REACH + 1)
    positions[(positions < first[:, None]) | (positions >= end[:, None])] = count
    return positions


def _normalize(rows: Floats, epsilon: float) -> None:
    """Give each row the mean 0 and the variance 1, in place (Ba et al. 2016)."""
    rows -= rows.mean(axis=1, keepdims=True)
    rows *= (1 / np.sqrt(np.einsum("ij,ij->i", rows, rows) / rows.shape[1] + epsilon))[:, None]


_ENDING = ".npy"
_WHOLE = "whole"


def kept_arrays(folder: str, name: str, make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays under this name in ``folder``; what ``make`` returns is stored there first.

    Whatever cannot be read is made again. If it cannot be stored, it is used from memory, and stderr says so.
    ``folder`` "" stores nothing.
    """
    if not folder:
        return make()
    place = os.path.join(folder, name)
    try:
        os.stat(os.path.join(place, _WHOLE))
        return _mapped(place)
    except (OSError, ValueError, EOFError):
        arrays = make()
    try:
        _store(folder, place, arrays)
        stored = _mapped(place)
        # It takes a second, in which texts can be embedded.
        threading.Thread(target=_confirm, args=(place,), daemon=True).start()
        return stored
    except (OSError, ValueError, EOFError) as error:
        print(f"{place} cannot be stored: {error}", file=sys.stderr)
        return arrays


def _mapped(place: str) -> Arrays:
    arrays = {
        name.removesuffix(_ENDING): np.load(os.path.join(place, name), mmap_mode="r")
        for name in os.listdir(place)
        if name.endswith(_ENDING)
    }
    if not arrays:
        raise ValueError("empty")
    return arrays


def _store(folder: str, place: str, arrays: Arrays) -> None:
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="making-") as room:
        staging = os.path.join(room, "arrays")
        os.mkdir(staging)
        for name, array in arrays.items():
            np.save(os.path.join(staging, name + _ENDING), array, allow_pickle=False)
        shutil.rmtree(place, ignore_errors=True)
        os.rename(staging, place)


def _confirm(place: str) -> None:
    """Write the arrays to the disk, then the file that says so: a crash before it may leave zeros in them."""
    with contextlib.suppress(OSError):
        for name in os.listdir(place):
            with open(os.path.join(place, name), "rb") as file:
                os.fsync(file.fileno())
        with open(os.path.join(place, _WHOLE), "xb"):
            return


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

    def tokens(self, texts: Sequence[str], query: str = "") -> list[Sized]:
        """Return the tokens of each text, cut to what the model accepts."""
        return [[BEGIN, *pieces, END] for pieces in self._tokenizer.encode(texts, self._most)]

    def vectors(self, batch: Sequence[Sized]) -> Floats:
        """Return one vector for each text: texts × dimension, float32, of length 1."""
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
        arrays = {name: file[name] for name in file.files if not name.startswith("q")}
        rows, width = file["q1"].shape
    table = arrays["table"] = np.empty((rows * CHUNKS, width), np.uint8)

    def fill(chunk: int) -> None:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            table[chunk::CHUNKS] = file[f"q{chunk + 1}"]

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fill, range(CHUNKS)))
    return arrays


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
