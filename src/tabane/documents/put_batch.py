"""Writes several documents: embedded together, committed one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tabane.documents.cutting import DocumentChange, with_vectors
from tabane.documents.document import SPACE, Document, meaning
from tabane.documents.put_embedding import PutEmbedding, PutVectors, space_of, too_much
from tabane.errors import BadArguments, ModelError, ModelMissing, ModelUnavailable, TabaneError
from tabane.messages import Message, say
from tabane.search.engine import LARGEST_VECTORS, MOST_AT_ONCE, Collection
from tabane.search.records import Record

_ROUNDS = 3
_AT_ONCE = 64  # exchanges: the writer of a store takes a thousand jobs, and has other callers


@dataclass(frozen=True, slots=True)
class PutOutcome:
    """The outcome for a draft. ``existed``: a document of that name existed; ``unchanged``: it was equal.

    ``dimension`` is that of the collection's vectors, None if there is no model. ``embedded``: the document
    has its own vectors already; otherwise ``warning`` says why not.
    """

    document: Document
    existed: bool
    unchanged: bool
    dimension: int | None = None
    embedded: bool = False
    warning: Message | None = None


async def written(
    collection: Collection, embedding: PutEmbedding, changes: Mapping[int, DocumentChange | TabaneError]
) -> dict[int, PutOutcome | TabaneError]:
    """Return what became of each change, by its place. Raises StoreError if nothing can be read."""
    batch = _PutBatch(collection, embedding)
    ready = {place: change for place, change in changes.items() if isinstance(change, DocumentChange)}
    failed = {place: error for place, error in changes.items() if isinstance(error, TabaneError)}
    failed |= await batch.write({place: change for place, change in ready.items() if not change.untouched})
    return {**await batch.stored({at: ready[at] for at in ready if at not in failed}), **failed}


class _PutBatch:
    def __init__(self, collection: Collection, embedding: PutEmbedding) -> None:
        self._collection, self._embedding = collection, embedding
        self._results: dict[int, PutVectors] = {}
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def write(self, changes: Mapping[int, DocumentChange]) -> dict[int, TabaneError]:
        """Embed and commit; why each failed that did.

        A model may take the place of another meanwhile: then what was made by the other is rebuilt.
        """
        failed: dict[int, TabaneError] = {}
        for _ in range(_ROUNDS):
            failed = await self._embed(changes)
            ready = [place for place in changes if place not in failed]
            used = {result.space for result in self._results.values()} | {space_of(self._collection)}
            errors = await asyncio.gather(*(self._exchange(place, changes[place]) for place in ready))
            failed |= {place: error for place, error in zip(ready, errors, strict=True) if error}
            if used <= {space_of(self._collection), None}:
                break
        return failed

    async def stored(self, changes: Mapping[int, DocumentChange]) -> dict[int, PutOutcome]:
        """Return what there is now, of changes that did not fail."""
        space = space_of(self._collection)
        lacking = await self._lacking(changes) if space else set(changes)
        found: dict[int, PutOutcome] = {}
        for place, change in changes.items():
            embedded = place not in lacking
            result = self._results.get(place)
            why = result.warning if result and result.warning else too_much()
            found[place] = PutOutcome(
                change.document,
                change.before is not None,
                change.unchanged,
                space.dimension if space else None,
                embedded,
                None if embedded else why,
            )
        return found

    async def _embed(self, changes: Mapping[int, DocumentChange]) -> dict[int, TabaneError]:
        """Embed all new chunks at once; if that fails, those of each document separately."""
        new = {place: _new(change) for place, change in changes.items()}
        new = {place: records for place, records in new.items() if records}
        try:
            result = await self._ask([meaning(record) for records in new.values() for record in records], new)
        except (ModelMissing, ModelUnavailable) as error:
            return dict.fromkeys(new, error)
        except ModelError as error:
            return dict.fromkeys(new, error) if len(new) == 1 else await self._embed_each(new)
        at = 0
        for place, records in new.items():
            self._results[place] = replace(result, vectors=result.vectors[at : at + len(records)])
            at += len(records)
        return {}

    async def _embed_each(self, new: Mapping[int, Sequence[Record]]) -> dict[int, TabaneError]:
        failed: dict[int, TabaneError] = {}
        for place, records in new.items():
            try:
                self._results[place] = await self._ask([meaning(record) for record in records], new)
            except ModelError as error:
                failed[place] = error
        return failed

    async def _ask(self, texts: Sequence[str], new: Mapping[int, Sequence[Record]]) -> PutVectors:
        return await self._embedding.embed_texts(self._collection, texts) if new else PutVectors()

    async def _exchange(self, place: int, change: DocumentChange) -> TabaneError | None:
        """Return one document's commit; why it failed, where it did."""
        try:
            space = space_of(self._collection)  # before vectors are read: those of other models are left out
            vectors = await self._carried(change)
            result = self._results.get(place)
            if result is not None and result.space is not None and result.vectors:
                vectors, space = (vectors if result.space == space else {}), result.space
                new = (record.key for record in _new(change))
                vectors |= dict(zip(new, result.vectors, strict=True))
            if sum(map(len, vectors.values())) > LARGEST_VECTORS:
                vectors = {}
                self._results[place] = PutVectors(warning=too_much())
            async with self._turn:
                models = {} if space is None else {space.name: space.model}
                await self._collection.exchange(with_vectors(change, vectors), change.gone, models)
        except BadArguments:
            # All else was checked: short enough as text, of characters that take several bytes to store.
            message = say("text: it is too large for one document. Split it into several")
            return BadArguments(message, "text")
        except TabaneError as error:
            return error
        return None

    async def _carried(self, change: DocumentChange) -> dict[str, bytes]:
        """Return the vectors of chunks that are written again with the same text."""
        found: dict[str, bytes] = {}
        if space_of(self._collection) is None:
            return found
        for part in _slices(list(change.carried)):
            vectors = await self._collection.vectors([change.carried[key] for key in part], SPACE)
            found |= {key: vector for key, vector in zip(part, vectors, strict=True) if vector is not None}
        return found

    async def _lacking(self, changes: Mapping[int, DocumentChange]) -> set[int]:
        """Return those with a chunk that has no vector, among the first 1,000 of each."""
        looked = {
            place: change.document.keys[:MOST_AT_ONCE]
            for place, change in changes.items()
            if not self._has_all(place, change)
        }
        without: set[str] = set()
        for part in _slices([key for keys in looked.values() for key in keys]):
            vectors = await self._collection.vectors(part, SPACE)
            without |= {key for key, vector in zip(part, vectors, strict=True) if vector is None}
        return {place for place, keys in looked.items() if not without.isdisjoint(keys)}

    def _has_all(self, place: int, change: DocumentChange) -> bool:
        """Return whether each of its chunks just got a vector."""
        result = self._results.get(place)
        return result is not None and 0 < len(change.document.chunks) == len(result.vectors)


def _new(change: DocumentChange) -> list[Record]:
    """Return the chunks whose text was not there before."""
    return [record for record in change.written if record.key not in change.carried]


def _slices(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[first : first + MOST_AT_ONCE] for first in range(0, len(keys), MOST_AT_ONCE))
