"""Collections with their lexical index, in a folder, and ways to put records into tail or index."""

from __future__ import annotations

from collections.abc import Iterable

from tabane.engine.embedded.lexical.lexical_index import LexicalIndex
from tabane.search.engine import Collection, EngineHits, LexicalQuery
from tabane.search.records import EVERYTHING, Filter, Record, Shape, TextField

BODY = Shape("notes", (TextField("body"),))


def lexical(collection: Collection) -> LexicalIndex:
    found = collection.engine.lexical  # type: ignore[attr-defined]
    assert isinstance(found, LexicalIndex)
    return found


def bodies(texts: Iterable[str]) -> list[Record]:
    return [Record(key=f"k{number:03}", texts={"body": text}) for number, text in enumerate(texts)]


async def found(
    collection: Collection, text: str | LexicalQuery, where: Filter = EVERYTHING, limit: int = 100
) -> list[str]:
    """The keys of the hits, in order."""
    query = LexicalQuery(text) if isinstance(text, str) else text
    return [hit.key for hit in (await collection.search(query, where, limit)).hits]


def scores(hits: EngineHits) -> dict[str, float]:
    return {hit.key: hit.score for hit in hits.hits}
