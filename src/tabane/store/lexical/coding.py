"""The tokens of many texts as numbers, made before the texts are written: a search need not count them.

Counting the tokens of 10 MB of texts one text after the other takes a second, and a search that comes right
behind such a write would have to do it. As numbers in one array they take 4 bytes each, and the texts that
have one of them are found in a millisecond.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import NamedTuple

import numpy as np

from tabane.search.analysis import GAP
from tabane.store.columns import Array
from tabane.store.lexical.analysing import Analysis


@dataclass(frozen=True, slots=True)
class Coded:
    """The tokens of some texts in one space. ``begins``: where each text's are among ``numbers``.

    ``vocabulary`` has no gap. ``lengths``: how many tokens each text has, gaps left out.
    """

    vocabulary: Mapping[str, int]
    numbers: Array
    begins: Array
    lengths: list[int]

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]]) -> Coded:
        known: defaultdict[str, int] = defaultdict(count().__next__)
        numbers = np.fromiter(map(known.__getitem__, chain.from_iterable(texts)), dtype=np.int32)
        begins = np.cumsum([0, *map(len, texts)])
        vocabulary = dict(known)
        gap = vocabulary.pop(GAP, -1)
        gaps = np.concatenate([[0], np.cumsum(numbers == gap)])[begins]
        return cls(vocabulary, numbers, begins, (np.diff(begins) - np.diff(gaps)).tolist())

    def having(self, tokens: Iterable[str]) -> tuple[Array, Array]:
        """The places of texts that have one of these tokens, in order, and how often."""
        wanted = [self.vocabulary[token] for token in tokens if token in self.vocabulary]
        if not wanted:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        meant = self.numbers == wanted[0] if len(wanted) == 1 else np.isin(self.numbers, wanted)
        places = np.searchsorted(self.begins, np.flatnonzero(meant), side="right") - 1
        return np.unique(places, return_counts=True)


class Prepared(NamedTuple):
    """A record's texts, ready: their tokens, and where they are among those of others as numbers."""

    analysis: Analysis | None = None
    coded: Mapping[str, Coded] = {}
    place: int = 0


def prepared(analyses: Sequence[Analysis]) -> list[Prepared]:
    """Records together, whose texts were analysed."""
    spaces = dict.fromkeys(chain.from_iterable(analyses))
    coded = {space: Coded.of([each.get(space, []) for each in analyses]) for space in spaces}
    return [Prepared(analysis, coded, place) for place, analysis in enumerate(analyses)]


@dataclass(slots=True)
class CodedRows:
    """Coded texts and the rows of their records, 0 for those that are not here, or no more."""

    coded: Coded
    rows: Array = field(init=False)

    def __post_init__(self) -> None:
        self.rows = np.zeros(len(self.coded.lengths), dtype=np.int64)

    def having(self, tokens: Iterable[str]) -> dict[int, int]:
        """Rows that have one of these tokens, and how often."""
        places, counts = self.coded.having(tokens)
        rows = self.rows[places]
        return dict(zip(rows[rows > 0].tolist(), counts[rows > 0].tolist(), strict=True))

    def beginning(self, beginning: str) -> list[str]:
        """The tokens that begin so."""
        return [token for token in self.coded.vocabulary if token.startswith(beginning)]
