"""Search for other spellings of a query in kana or in Latin letters, beside the query as it was typed.

Which of the spellings of :func:`tabane.search.readings.readings` are meant, the collection says: those that
occur in the best texts with any of them. A word counts less in another spelling than as it was typed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import structs

from tabane.search.analysis import normalize
from tabane.search.engine import Collection, EngineHit, EngineHits, LexicalQuery, Mode
from tabane.search.readings import Reading, may_read, may_sound, readings, sounds_of
from tabane.search.records import Filter, Record

_OTHER = 0.9  # what a word counts in another spelling
_EVIDENCE = 30  # records in which spellings are looked for
_READ = 4_000  # characters of each


async def respelled(collection: Collection, query: LexicalQuery, where: Filter) -> LexicalQuery:
    """Return a query with the spellings of its words that the collection has; unchanged if it has none.

    Queries with kanji, phrases, and words that nobody finished are never changed. Raises the errors of
    :meth:`~tabane.search.engine.Collection.search`.
    """
    if query.prefix or query.mode is Mode.PHRASE or not may_read(query.text):
        return query
    known = await asyncio.to_thread(readings, query.text)
    if not known:
        return query
    best = await _best_fit(collection, query, where, known)
    return structs.replace(query, spellings=best.words, spelled=best.text) if best.text else query


async def _best_fit(
    collection: Collection, query: LexicalQuery, where: Filter, known: Sequence[Reading]
) -> _Fit:
    best = _Fit(0)
    for each in known:
        if sum(len(typed) for typed, *_ in each.words) <= best.letters:
            continue  # cannot fit better
        looked = structs.replace(query, mode=Mode.ANY, spellings=each.words)
        hits = (await collection.search(looked, where, _EVIDENCE)).hits
        records = await collection.get([hit.key for hit in hits])
        fit = await asyncio.to_thread(_fit, each, records)
        best = fit if fit.letters > best.letters else best
    return best


class _Fit(NamedTuple):
    """How well a reading fits the best record: the letters of its words that the record has, in any spelling.

    ``words`` have only the spellings that occur, best first. ``text`` is the query in the best ones, or empty
    if none occurs.
    """

    letters: int
    words: tuple[tuple[str, ...], ...] = ()
    text: str = ""


def _fit(reading: Reading, records: Iterable[Record | None]) -> _Fit:
    texts = [normalize("\n".join(record.texts.values()))[:_READ] for record in records if record is not None]
    everything = "\n".join(texts)
    places = {
        spelling: [place for place, text in enumerate(texts) if spelling in text]
        for word in reading.words
        for spelling in word
        if spelling in everything
    }
    letters = [0] * len(texts)
    for word in reading.words:
        for place in {place for spelling in word for place in places.get(spelling, ())}:
            letters[place] += len(word[0])
    worth = [many * many / rank for rank, many in enumerate(letters, 1)]
    found = [
        sorted(
            (each for each in others if each in places),
            key=lambda each: -sum(worth[at] for at in places[each]),
        )
        for _, *others in reading.words
    ]
    if not any(found):
        return _Fit(max(letters, default=0))
    # A spelling that no record has would only raise the ceiling.
    words = tuple(
        (*[word[0]] * (word[0] in places or not others), *others)
        for word, others in zip(reading.words, found, strict=True)
    )
    likeliest = [(*others, *word[1:], word[0])[0] for word, others in zip(reading.words, found, strict=True)]
    return _Fit(max(letters), words, reading.written(likeliest))


async def search_words(
    collection: Collection, query: LexicalQuery, where: Filter, limit: int, offset: int = 0
) -> EngineHits:
    """Return the best records by words, in any spelling of the query. Arguments and errors are the engine's.

    Scores of hits in another spelling are such that their share of the ceiling is what they cover. A word of
    kanji that no record has is searched in kana.
    """
    if not query.spellings:
        found = await collection.search(query, where, limit, offset)
        if found.total or offset or query.phrases or query.mode is Mode.PHRASE or not may_sound(query.text):
            return found
        if not (kana := await asyncio.to_thread(sounds_of, query.text)):
            return found
        fit = await _best_fit(collection, query, where, [Reading(((query.text, *kana),), (0,))])
        in_kana = structs.replace(query, spellings=fit.words)
        return await collection.search(in_kana, where, limit) if fit.text else found
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
