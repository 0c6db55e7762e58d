"""Documents as one kind of thing among others: for a search over everything."""

from __future__ import annotations

from typing import NamedTuple

from tabane.documents.searching import Answer, Asked, Searching
from tabane.messages import Message
from tabane.operations import Caller
from tabane.search.queries import sense, typed
from tabane.search.snippets import snippet


class Hit(NamedTuple):
    """A document that was found: ``marks`` are spans of ``text``, which is part of its best passage."""

    key: str
    title: str
    text: str
    score: float
    marks: tuple[tuple[int, int], ...] = ()
    cosine: float | None = None


class Finder:
    """Finds documents by words and meaning."""

    def __init__(self, searching: Searching) -> None:
        self._searching = searching

    async def __call__(self, caller: Caller, query: str, limit: int) -> tuple[list[Hit], Message | None]:
        """The best, and why they are not all that could be found."""
        if not sense(typed(query)):
            return [], None
        answer = await self._searching.search(Asked(query, limit))
        return [_hit(found, answer.words) for found in answer.found], answer.warning


def _hit(found: Answer, words: list[str]) -> Hit:
    best, document = found.passages[0], found.document
    shown = snippet(best.text, words)
    title = " › ".join(best.headings) or document.title or document.filepath
    return Hit(document.filepath, title, shown.text, found.score, shown.marks, best.cosine)
