"""The occurrences of tokens in new records, gathered into one part for each token; pure.

A part holds rows with their counts and lengths (:data:`ENTRY`), and the positions of the token for phrases.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import numpy as np

from tabane.engine.query_plans import PAIRS
from tabane.engine.team.postgres import spelling
from tabane.engine.unit_vectors import Array
from tabane.search.analysis import GAP, is_cjk

ENTRY = np.dtype([("row", "<u8"), ("count", "<u4"), ("length", "<u4")])
_LEFT_OUT = -1


class PostingBatch:
    """The occurrences of tokens in some records, which are added in order of rows."""

    def __init__(self) -> None:
        self._keys: dict[str, int] = {}
        self._spaces: dict[str, _SpaceCodes] = {}
        self._codes = array("i")
        self._rows, self._lengths, self._sizes = array("q"), array("q"), array("q")

    def add(self, space: str, row: int, found: Sequence[str], length: int) -> None:
        """Add the tokens of a text, in order and with gaps. ``length`` is that of the text in this space."""
        codes = self._spaces.get(space)
        if codes is None:
            codes = self._spaces[space] = _SpaceCodes(space, self._keys)
        self._codes.extend(map(codes.__getitem__, found))
        self._rows.append(row)
        self._lengths.append(length)
        self._sizes.append(len(found))

    def parts(self) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield token, entries and places of each part, in order of tokens."""
        texts, places, codes = self._sorted()
        if not len(codes):
            return
        firsts = _firsts(codes, texts)  # of each token in each text
        entries = np.empty(len(firsts), dtype=ENTRY)
        entries["row"] = np.asarray(self._rows)[texts[firsts]]
        entries["length"] = np.asarray(self._lengths)[texts[firsts]]
        entries["count"] = np.diff(firsts, append=len(codes))
        starts = np.append(_firsts(codes[firsts]), len(firsts))  # of each code among the entries
        bounds = (np.append(firsts, len(codes))[starts] * places.itemsize).tolist()
        ends: list[int] = (starts * ENTRY.itemsize).tolist()
        packed, placed, keys = entries.tobytes(), places.tobytes(), self._keys
        for token in sorted(keys):
            code = keys[token]
            following = code + 1
            yield token, packed[ends[code] : ends[following]], placed[bounds[code] : bounds[following]]

    def _sorted(self) -> tuple[Array, Array, Array]:
        """Return text, position and code of each occurrence, by code, then in order."""
        sizes, codes = np.asarray(self._sizes), np.asarray(self._codes)
        texts = np.repeat(np.arange(len(sizes)), sizes)
        places = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        order = np.argsort(codes, kind="stable")
        order = order[np.searchsorted(codes[order], 0) :]  # without those that are left out
        return texts[order], places[order].astype("<u4"), codes[order]


class _SpaceCodes(dict[str, int]):
    """Tokens of one space with their codes. Those that are not searched for have a negative one."""

    def __init__(self, space: str, keys: dict[str, int]) -> None:
        super().__init__()
        self._space, self._keys = space, keys
        self._only_cjk = space.startswith(f"{PAIRS}_")  # no other pairs are searched for

    def __missing__(self, token: str) -> int:
        if token == GAP or (self._only_cjk and not _is_pair_of_cjk(token)):
            code = _LEFT_OUT
        else:
            code = self._keys.setdefault(spelling.token_key(self._space, token), len(self._keys))
        self[token] = code
        return code


def _is_pair_of_cjk(pair: str) -> bool:
    """Return whether a pair may stand in a word of CJK, where ー is spelt as a dash."""
    return is_cjk(pair) or (pair[0] == "-" and (pair == "--" or is_cjk(pair[1:])))


def _firsts(*columns: Array) -> Array:
    """Return the places at which one of the columns has another value than before."""
    changed = np.zeros(len(columns[0]), dtype=np.bool_)
    changed[0] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)
