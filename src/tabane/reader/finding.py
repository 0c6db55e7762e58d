"""Pages as one kind of thing among others: for a search over everything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from tabane.messages import Message
from tabane.reader.cleaning import without_links
from tabane.reader.page_records import head_of, meaning
from tabane.reader.shape import PAGE, PASSAGES, SPACES, TEXT, TITLE
from tabane.search.embedding.embedder import NoModel
from tabane.search.engine import Collection
from tabane.search.hybrid import Found, Ranking, hybrid
from tabane.search.meaning import Meaning, near
from tabane.search.models import Models
from tabane.search.queries import sense, typed
from tabane.search.records import Record
from tabane.search.reordering import judged
from tabane.search.snippets import snippet

_PASSAGES_A_PAGE = 4  # looked at for each page that is wanted, since one page may have the best of all


class Hit(NamedTuple):
    """A page as a hit: ``marks`` are spans of ``text``."""

    key: str
    title: str
    text: str
    score: float
    marks: tuple[tuple[int, int], ...] = ()
    cosine: float | None = None


class Finder:
    """Finds pages that were read, by words and meaning; each once, by its best passage.

    ``question`` is what a text means in the spaces of the collection, or why there is none.
    """

    def __init__(
        self,
        collection: Callable[[], Awaitable[Collection]],
        models: Models,
        question: Callable[[str, Iterable[str]], Awaitable[Meaning | NoModel]],
    ) -> None:
        self._collection, self._models, self._question = collection, models, question

    async def __call__(self, query: str, limit: int) -> tuple[list[Hit], Message | None]:
        """The best, and why they are not all that could be found: no model, no vectors."""
        collection = await self._collection()
        asked = typed(query)
        means = near(await self._question(sense(asked), SPACES))
        depth = min(limit * _PASSAGES_A_PAGE, 400)
        ranking = await hybrid(
            collection, asked, means.query, PASSAGES, depth, fusion=means.fusion, usual=means.usual
        )
        return await self._hits(collection, query, ranking, limit), means.warning

    async def _hits(self, collection: Collection, query: str, ranking: Ranking, limit: int) -> list[Hit]:
        there = await _records(collection, [hit.key for hit in ranking.hits])
        best: dict[str, Found] = {}
        for hit in ranking.hits:
            if hit.key in there:
                best.setdefault(str(there[hit.key].fields[PAGE]), hit)
        found = list(best.values())[:limit]
        texts = {hit.key: meaning(there[hit.key]) for hit in found}
        asked = typed(query)
        words = [asked.text, *asked.phrases]
        ranked = await judged(self._models, sense(asked), found, texts)
        heads = await _records(collection, list(best))
        shown = ((hit, there[hit.key]) for hit in ranked)
        return [
            _hit(hit, record, heads[page], words)
            for hit, record in shown
            if (page := str(record.fields[PAGE])) in heads
        ]


async def _records(collection: Collection, keys: list[str]) -> Mapping[str, Record]:
    return {record.key: record for record in await collection.get(keys) if record is not None}


def _hit(found: Found, passage: Record, page: Record, words: list[str]) -> Hit:
    url = head_of(page).facts["url"]
    shown = snippet(without_links(passage.texts.get(TEXT, "")), words)
    title = passage.texts.get(TITLE) or url
    return Hit(url, title, shown.text, found.score, shown.marks, found.cosine)
