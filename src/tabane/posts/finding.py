"""Posts as one kind of thing among others: for a search over everything."""

from __future__ import annotations

from typing import NamedTuple

from tabane.messages import Message
from tabane.operations import Caller
from tabane.posts.post import Post
from tabane.posts.query import escaped_meaning
from tabane.posts.searching import Scored, Searching, Wish
from tabane.search.queries import typed
from tabane.search.snippets import snippet


class Hit(NamedTuple):
    """A post as a hit: ``marks`` are spans of ``text``."""

    key: str
    title: str
    text: str
    score: float
    marks: tuple[tuple[int, int], ...] = ()
    cosine: float | None = None


class Finder:
    """Finds posts by words and meaning; a bar in the question is a bar."""

    def __init__(self, searching: Searching) -> None:
        self._searching = searching

    async def __call__(self, caller: Caller, query: str, limit: int) -> tuple[list[Hit], Message | None]:
        """The best, and why they are not all that could be found: no model, no vectors."""
        if not query.strip():
            return [], None
        answer = await self._searching.similar(escaped_meaning(query), Wish("hybrid"), limit)
        question = typed(query)
        words = [question.text, *question.phrases]
        return [_hit(scored, words) for scored in answer.hits], answer.warning


def _hit(found: Scored, words: list[str]) -> Hit:
    post = found.post
    shown = snippet(post.content, words)
    return Hit(str(post.post_id), _title(post), shown.text, found.score, shown.marks, found.cosine)


def _title(post: Post) -> str:
    parts = (f"@{post.user}" if post.user else "", post.timestamp)
    return " ".join(part for part in parts if part) or str(post.post_id)
