"""Texts as sparse vectors, whose inner product with that of a query is about its score by BM25; pure.

A token of a space is a dimension: a hash of its name. There, a text has the weight of the token's frequency,
by the average length at the time when it was indexed. A query has the rarity of the token, by the counts of
its own time. So only the average may be an old one, and scores are computed again from the texts.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tabane.engine import bm25
from tabane.engine.candidate_index import SparseVector
from tabane.engine.query_plans import PAIRS, ScoredTerm, TermMatch
from tabane.engine.team.postgres import spelling
from tabane.engine.team.postgres.collection_state import LexicalState
from tabane.engine.text_spaces import RecordAnalyzer
from tabane.search.analysis import GAP

_DIMENSIONS = 0x7FFFFFFF
_HIRAGANA = re.compile(
    r"[ぁ-ゖゝゞ-]{2}"
)  # that are scored (ー is a dash); the others are only for substrings

Rarities = Mapping[TermMatch, float]


class KeywordVectors:
    """The vectors of texts and queries. Any thread may use it."""

    def __init__(self, analyzer: RecordAnalyzer) -> None:
        self._analyzer = analyzer

    def of_texts(self, texts: Mapping[str, str], lexical: LexicalState) -> SparseVector:
        """Return the vector of the texts of a record. It is empty if they have no words."""
        found: dict[int, float] = {}
        for space, (counts, length) in self._counted(texts):
            average = lexical.average(space)
            for name, count in counts.items():
                place = dimension(name)
                found[place] = found.get(place, 0.0) + bm25.saturation(count, length, average)
        return found

    def score(
        self,
        texts: Mapping[str, str],
        leaves: Sequence[ScoredTerm],
        rarities: Rarities,
        lexical: LexicalState,
    ) -> float | None:
        """Return the exact score of texts; None if they have none of the terms."""
        counted, score = dict(self._counted(texts)), None
        for leaf in leaves:
            counts, length = counted.get(leaf.term.space, (Counter[str](), 0))
            count = counts[name_of(leaf.term)]
            if count:
                worth = bm25.saturation(count, length, lexical.average(leaf.term.space))
                score = (score or 0.0) + leaf.weight * rarities[leaf.term] * worth
        return score

    def _counted(self, texts: Mapping[str, str]) -> Iterator[tuple[str, tuple[Counter[str], int]]]:
        """Yield the occurrences of the tokens of each space, by their names, and the length of the text.

        The length is the one that is scored.
        """
        for space, tokens, length in self._analyzer.whole(texts):
            if space.startswith(f"{PAIRS}_"):
                tokens = [each for each in tokens if _HIRAGANA.fullmatch(each)]
            names = Counter(spelling.token_key(space, each) for each in tokens if each != GAP)
            yield space, (names, bm25.kept_length(length))


def of_query(leaves: Sequence[ScoredTerm], rarities: Rarities) -> SparseVector:
    """Return the vector of a query."""
    found: dict[int, float] = {}
    for leaf in leaves:
        place = dimension(name_of(leaf.term))
        found[place] = found.get(place, 0.0) + leaf.weight * rarities[leaf.term]
    return found


def name_of(term: TermMatch) -> str:
    return spelling.token_key(term.space, term.token)


def dimension(name: str) -> int:
    return zlib.crc32(name.encode(errors="surrogatepass")) % _DIMENSIONS
