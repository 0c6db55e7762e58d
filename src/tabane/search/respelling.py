"""Search for other spellings of a query in kana or in Latin letters, beside the query as it was typed.

Which of the spellings of :func:`tabane.search.readings.reading` are meant, the collection says: those that
occur in the best texts with any of them. A word counts less in another spelling than as it was typed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from msgspec import structs

from tabane.search.analysis import normalize
from tabane.search.engine import Collection, EngineHit, EngineHits, LexicalQuery, Mode
from tabane.search.readings import Reading, may_read, reading
from tabane.search.records import Filter, Record

_OTHER = 0.9  # what a word counts in another spelling
_EVIDENCE = 30  # records in which spellings are looked for


async def respelled(collection: Collection, query: LexicalQuery, where: Filter) -> LexicalQuery:
    """Return a query with the spellings of its words that the collection has; unchanged if it has none.

    Queries with kanji, phrases, and words that nobody finished are never changed. Raises the errors of
    :meth:`~tabane.search.engine.Collection.search`.
    """
    if query.prefix or query.mode is Mode.PHRASE or not may_read(query.text):
        return query
    known = await asyncio.to_thread(reading, query.text)
    if known is None:
        return query
    looked = structs.replace(query, mode=Mode.ANY, spellings=known.words)
    hits = (await collection.search(looked, where, _EVIDENCE)).hits
    records = await collection.get([hit.key for hit in hits])
    words = tuple(_spellings_in(records, known.words))
    if all(len(word) == 1 for word in words):
        return query
    return structs.replace(query, spellings=words, spelled=_written(known, words))


def _spellings_in(
    records: Iterable[Record | None], words: Sequence[tuple[str, ...]]
) -> Iterable[tuple[str, ...]]:
    """Yield each word as it was typed, and its spellings in the records, by how many words these have."""
    texts = [normalize("\n".join(record.texts.values())) for record in records if record is not None]
    covered = [sum(any(normalize(each) in text for each in word) for word in words) for text in texts]
    for typed, *others in words:
        worth = {
            spelling: sum(
                many * many / rank
                for rank, (text, many) in enumerate(zip(texts, covered, strict=True), 1)
                if spelling in text
            )
            for spelling in map(normalize, others)
        }
        yield typed, *sorted((each for each in worth if worth[each]), key=lambda each: -worth[each])


def _written(known: Reading, words: Sequence[tuple[str, ...]]) -> str:
    """Return the query with the best spelling of each word; as it is likeliest if no record has one."""
    likeliest = [best[1] if len(best) > 1 else word[1] for best, word in zip(words, known.words, strict=True)]
    return known.written(likeliest)


async def search_words(
    collection: Collection, query: LexicalQuery, where: Filter, limit: int, offset: int = 0
) -> EngineHits:
    """Return the best records by words, in any spelling of the query. Arguments and errors are the engine's.

    Scores of hits in another spelling are such that their share of the ceiling is what they cover.
    """
    if not query.spellings:
        return await collection.search(query, where, limit, offset)
    wanted = limit + offset
    typed = await collection.search(structs.replace(query, spellings=()), where, wanted)
    other = await collection.search(query, where, wanted)
    ceiling = typed.ceiling or other.ceiling
    factor = _OTHER * ceiling / other.ceiling if other.ceiling else 0.0
    best = {hit.key: hit for hit in typed.hits}
    for hit in other.hits:
        known = best.get(hit.key)
        if known is None or known.score < hit.score * factor:
            best[hit.key] = EngineHit(hit.key, hit.row, hit.score * factor)
    hits = sorted(best.values(), key=lambda hit: (-hit.score, hit.key))
    return EngineHits(
        tuple(hits[offset:wanted]),
        max(len(hits), typed.total, other.total),
        typed.exact and other.exact and len(hits) < wanted,
        ceiling,
    )
