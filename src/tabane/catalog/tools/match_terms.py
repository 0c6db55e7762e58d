"""Why a tool matches a query: the words of both, where they occur, and what each adds to the score; pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from tabane.catalog.tools.ranking import FIELDS, PostingsOf, ScorePart, ToolRanking
from tabane.search.analysis import is_cjk, placed_runs, tokens

if TYPE_CHECKING:
    from tabane.search.concepts import Concept


_FIELDS = tuple(FIELDS)


class MatchedTerm(Struct, frozen=True):
    """Why a tool matches a part of the query. ``asked`` and ``matched`` are tokens of query and tool.

    ``kind`` is ``word`` if the tool has the word of the query, ``glossary`` if it has a synonym or a
    translation. ``name`` is the match of the whole name, and ``meaning`` that of query and definition as
    compared by models; both have no tokens. ``fields`` are the parts of the definition where it occurs.
    """

    kind: Literal["word", "glossary", "name", "meaning"]
    score: float
    asked: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


class ToolMatches:
    """Explains the scores of a query. ``postings`` are read once for each token."""

    def __init__(self, ranking: ToolRanking, postings: PostingsOf, asked: Sequence[Concept]) -> None:
        self._ranking, self._postings, self._asked = ranking, postings, asked

    def terms(self, numbers: Collection[int], called: Collection[int]) -> dict[int, tuple[MatchedTerm, ...]]:
        """Return why each of these tools matches. The query is the exact name of those in ``called``."""
        parts = {number: self._parts(number, called) for number in numbers}
        said = {token for found in parts.values() for part in found for token in _tokens_of(part)}
        having = {token: self._fields(token, parts) for token in said}
        return {
            number: tuple(_term(part, number, having) for part in found) for number, found in parts.items()
        }

    def _parts(self, number: int, called: Collection[int]) -> list[ScorePart]:
        return [ScorePart(1.0)] if number in called else self._ranking.parts(self._asked, number)

    def _fields(self, token: str, numbers: Collection[int]) -> dict[int, set[str]]:
        having = self._postings(token).fields(numbers)
        return {number: {_FIELDS[place] for place in places} for number, places in having.items()}


def _tokens_of(part: ScorePart) -> tuple[str, ...]:
    return part.variant.tokens if part.variant else ()


def _term(part: ScorePart, number: int, having: dict[str, dict[int, set[str]]]) -> MatchedTerm:
    if part.concept is None or part.variant is None:
        return MatchedTerm("name", part.score, fields=("name",))
    first = part.concept.variants[0]
    fields = {field for token in part.variant.tokens for field in having[token].get(number, ())}
    return MatchedTerm(
        "word" if part.variant == first else "glossary",
        part.score,
        first.tokens,
        part.variant.tokens,
        tuple(field for field in FIELDS if field in fields),
    )


_LONGEST = 4000
"""Characters of a text that are looked through for a word."""


def spelled(wanted: tuple[str, ...], text: str) -> str:
    """Return the words of a text that have these tokens, as the text spells them; else the tokens, joined.

    Tokens have no English inflection: of "issues" the token is "issu", and this returns "issues".
    """
    if all(is_cjk(token) for token in wanted):
        return _overlapped(wanted)
    words = {token: run for _, run in placed_runs(text[:_LONGEST]) for token in reversed(tokens(run))}
    return " ".join(dict.fromkeys(words.get(token, token) for token in wanted))


def _overlapped(bigrams: tuple[str, ...]) -> str:
    """Return the text of overlapping bigrams: メー, ール → メール."""
    text = bigrams[0] if bigrams else ""
    for bigram in bigrams[1:]:
        text += bigram[-1:] if text.endswith(bigram[:1]) else bigram
    return text
