"""The tokens of a record's texts in every space, for the index and for memory segments.

The tokens of many texts are coded as numbers before the texts are written, so that no search counts them.
Counting the tokens of 10 MB of texts one by one takes a second. As numbers in one array they take 4 bytes
each, and the texts that contain a token are found in a millisecond.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import NamedTuple

import numpy as np

from tabane.engine.embedded.columns import Array
from tabane.engine.text_spaces import Analysis
from tabane.search.analysis import GAP


@dataclass(frozen=True, slots=True)
class CodedTokens:
    """The tokens of some texts in one space. ``begins``: the start of each text's tokens in ``numbers``.

    ``vocabulary`` has no gap. ``lengths``: number of tokens of each text, without gaps.
    """

    vocabulary: Mapping[str, int]
    numbers: Array
    begins: Array
    lengths: list[int]

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]]) -> CodedTokens:
        known: defaultdict[str, int] = defaultdict(count().__next__)
        numbers = np.fromiter(map(known.__getitem__, chain.from_iterable(texts)), dtype=np.int32)
        begins = np.cumsum([0, *map(len, texts)])
        vocabulary = dict(known)
        gap = vocabulary.pop(GAP, -1)
        gaps = np.concatenate([[0], np.cumsum(numbers == gap)])[begins]
        return cls(vocabulary, numbers, begins, (np.diff(begins) - np.diff(gaps)).tolist())

    def having(self, tokens: Iterable[str]) -> tuple[Array, Array]:
        """Return the positions of texts that contain one of these tokens, in order, and the counts."""
        wanted = [self.vocabulary[token] for token in tokens if token in self.vocabulary]
        if not wanted:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        meant = self.numbers == wanted[0] if len(wanted) == 1 else np.isin(self.numbers, wanted)
        places = np.searchsorted(self.begins, np.flatnonzero(meant), side="right") - 1
        return np.unique(places, return_counts=True)


class PreparedTokens(NamedTuple):
    """The analyzed texts of a record: their tokens, and their position among the coded texts."""

    analysis: Analysis | None = None
    coded: Mapping[str, CodedTokens] = {}
    place: int = 0


def prepare_tokens(analyses: Sequence[Analysis]) -> list[PreparedTokens]:
    """Code the tokens of several analyzed records together."""
    spaces = dict.fromkeys(chain.from_iterable(analyses))
    coded = {space: CodedTokens.of([each.get(space, []) for each in analyses]) for space in spaces}
    return [PreparedTokens(analysis, coded, place) for place, analysis in enumerate(analyses)]


@dataclass(slots=True)
class CodedRows:
    """Coded texts and the rows of their records; 0 for records that moved or were deleted."""

    coded: CodedTokens
    rows: Array = field(init=False)

    def __post_init__(self) -> None:
        self.rows = np.zeros(len(self.coded.lengths), dtype=np.int64)

    def having(self, tokens: Iterable[str]) -> dict[int, int]:
        """Return row → count, for rows that contain one of these tokens."""
        places, counts = self.coded.having(tokens)
        rows = self.rows[places]
        return dict(zip(rows[rows > 0].tolist(), counts[rows > 0].tolist(), strict=True))

    def beginning(self, beginning: str) -> list[str]:
        """Return the tokens with that prefix."""
        return [token for token in self.coded.vocabulary if token.startswith(beginning)]
