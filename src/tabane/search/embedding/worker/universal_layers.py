"""The layers of the Universal Sentence Encoder, multilingual, over numpy.

Yang et al. 2020, "Multilingual Universal Sentence Encoder for Semantic Retrieval", its model with
convolutions. The embedding of each token, and three branches of convolutions over 2, 3 and 5 tokens, are
normalized and summed over the text. Feed-forward layers make 512 components of the sum.

Up to the sum in the first convolution, everything depends on one token alone. It is computed once for a
token, and kept for those that come often: half of all products are saved.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from tabane.search.embedding.worker.model import Floats, Whole

Arrays = Mapping[str, npt.NDArray[Any]]

DIMENSION = 512
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
        sums: Floats = np.empty((len(texts), DIMENSION + _WIDTH * len(_WINDOWS)), np.float32)
        parts = _parts(lengths)

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
        width = DIMENSION + _WIDTH * len(branches)
        mean = sum(part.sum(axis=1) for part in features) / width
        squares = sum(np.einsum("ij,ij->i", part, part) for part in features) / width
        factor = 1 / np.sqrt(squares - mean * mean + self._epsilon)
        # Sums over texts as a product of matrices, which is faster than numpy's reduceat.
        weights: Floats = np.zeros((len(lengths), len(tokens)), np.float32)
        weights[np.repeat(np.arange(len(lengths)), lengths), np.arange(len(tokens))] = factor
        found = np.concatenate([weights @ part for part in features], axis=1)
        found -= (weights @ mean)[:, None]
        found *= self._arrays["ln_g"]
        found += lengths[:, None].astype(np.float32) * self._arrays["ln_b"]
        return found

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
        found: Floats = joined @ self._arrays[f"w2_{size}"]
        found += self._arrays[f"b2_{size}"]
        np.maximum(found, 0, out=found)
        found += state
        return found

    def _finished(self, sums: Floats, lengths: Whole) -> Floats:
        weights = self._arrays
        counts = lengths.astype(np.float32)[:, None]
        first: npt.NDArray[Any] = (sums @ weights["cnn_W"] + counts * weights["cnn_b"]) / np.sqrt(counts)
        second = np.maximum(first @ weights["d0"], 0)
        third = np.maximum(first @ weights["p1"] + second @ weights["d1"], 0)
        fourth = np.maximum(third @ weights["d2"], 0)
        found: Floats = np.tanh(third @ weights["p3"] + fourth @ weights["d3"])
        return found


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
        return cls(zeros(DIMENSION), [zeros(_WIDTH) for _ in sizes], weighed)

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
        found: Floats = kept.take(self.places, axis=0)
        some = np.flatnonzero(self.others < len(computed) - 1)
        found[some] = computed[self.others[some]]
        return found


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
                self._keep(kept, new)
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
        found = np.full(len(tokens), len(distinct))
        found[missing] = others
        return LookedUp(kept.rows, places, computed, found)

    def _keep(self, kept: _KeptRows, tokens: Whole) -> None:
        self._compute(tokens, kept.rows.all(), kept.used)
        kept.places[tokens] = np.arange(kept.used, kept.used + len(tokens))
        kept.used += len(tokens)

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


def _parts(lengths: Whole) -> list[slice]:
    """Return slices of texts with at most :data:`_TOKENS` tokens each, unless a text has more."""
    found, first, total = [], 0, 0
    for place, length in enumerate(lengths.tolist()):
        if total and total + length > _TOKENS:
            found.append(slice(first, place))
            first, total = place, 0
        total += length
    return [*found, slice(first, len(lengths))] if len(lengths) else []


def _windows(lengths: Whole) -> Whole:
    """Return the positions of the tokens -2 to 2 away, tokens × 5; one past the last if beyond the text."""
    count = int(lengths.sum())
    end = np.repeat(np.cumsum(lengths), lengths)
    first = end - np.repeat(lengths, lengths)
    found: Whole = np.arange(count)[:, None] + np.arange(-_REACH, _REACH + 1)
    found[(found < first[:, None]) | (found >= end[:, None])] = count
    return found


def _normalize(rows: Floats, epsilon: float) -> None:
    """Give each row the mean 0 and the variance 1, in place (Ba et al. 2016)."""
    rows -= rows.mean(axis=1, keepdims=True)
    rows *= (1 / np.sqrt(np.einsum("ij,ij->i", rows, rows) / rows.shape[1] + epsilon))[:, None]
