"""Scores of tools from words and meaning, and whether any tool fits; pure.

The weights were chosen on halves of two public sets and on Japanese queries (benchmarks/tools/recall.py).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from tabane.catalog.tools.match_terms import MatchedTerm

if TYPE_CHECKING:
    from tabane.catalog.tools.vector_table import ToolComparison

_MEANING = 0.2  # of a relevance of 1
_WORDS = 1.5  # beside one model
_WORDS_BESIDE_SEVERAL = 1.0
_BEST_WORDS = 0.1  # for the best tool by words, and in proportion for the others
_LIKELY = 1.0  # the relevance of a tool without a vector
_FAINT = 0.5  # below this relevance, a tool without any word is no hit

MOST_BY_WORDS = 200
"""The best tools by words that are compared by meaning too."""

# Relevance of the best tool. Chosen so that recall@5 of the public sets falls by .002 at most, while of 45
# queries about something else, 13 are answered (18 by words alone).
_FITS = 0.9  # enough, whatever the words
_FITS_ALONE = 0.8  # enough for a short query of which no tool has any word
_TOGETHER = 0.745  # enough together with the score of the words, if the words fit
_UNFIT_LONG = 0.4  # below it, a long query needs clear words
_CLEAR_LONG = 0.1  # the score of clear words


class ToolScore(Struct, frozen=True):
    """Score in 0..1 of one tool, its parts, cosine and relevance. Without vectors, only words count.

    ``covered`` is the score of the words alone, in 0..1.
    """

    score: float
    words: float
    meaning: float = 0.0
    cosine: float | None = None
    relevance: float | None = None
    covered: float = 0.0


def best_by_words(words: Mapping[int, float]) -> Sequence[int]:
    if len(words) <= MOST_BY_WORDS:
        return list(words)
    return heapq.nlargest(MOST_BY_WORDS, words, key=words.__getitem__)


def fused(words: Mapping[int, float], compared: ToolComparison) -> dict[int, ToolScore]:
    """Return the scores of the best tools by words and of those that a query was compared with."""
    if not compared.models:
        return {number: ToolScore(score, score, covered=score) for number, score in words.items()}
    weight = _WORDS if compared.models == 1 else _WORDS_BESIDE_SEVERAL
    best = max(words.values(), default=0.0) or 1.0
    found: dict[int, ToolScore] = {}
    for number in {*best_by_words(words), *compared.relevance}:
        said = words.get(number, 0.0)
        relevance = compared.relevance.get(number)
        if not said and (relevance is None or relevance < _FAINT):
            continue
        near = relevance if relevance is not None else _LIKELY * (number in compared.missing)
        by_words, by_meaning = said * (weight + _BEST_WORDS / best), _MEANING * near
        score = -math.expm1(-max(0.0, by_words + by_meaning))
        found[number] = ToolScore(score, by_words, by_meaning, compared.cosines.get(number), relevance, said)
    return found


def fits(words_fit: bool, short: bool, words: Mapping[int, float], compared: ToolComparison) -> bool:
    """Return whether any tool fits. ``words_fit`` is what the words of the best tools say."""
    best = max(compared.relevance.values(), default=None)
    if best is None or (compared.missing and best < _FITS):
        return words_fit
    if best >= _FITS:
        return True
    said = max(words.values(), default=0.0)
    if not short:
        return best >= _UNFIT_LONG or said >= _CLEAR_LONG
    if not said:
        return best >= _FITS_ALONE
    return words_fit and best + said >= _TOGETHER


def explained(score: ToolScore, terms: Iterable[MatchedTerm]) -> tuple[MatchedTerm, ...]:
    """Return why a tool was found: its words and its meaning, with their shares of the score."""
    given = tuple(terms)
    if score.relevance is None:
        return given
    said = sum(term.score for term in given)
    whole = score.words + max(0.0, score.meaning)
    share = score.score * score.words / whole / said if said and whole else 0.0
    near = score.score * score.meaning / whole if whole and score.meaning > 0 else 0.0
    parts = [structs.replace(term, score=term.score * share) for term in given]
    if near:
        parts.append(MatchedTerm("meaning", near))
    return tuple(sorted(parts, key=lambda term: -term.score))
