"""Embedding of the records that lack vectors, in order of rows or from the newest to the oldest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tabane.search.engine import SearchableVectors
from tabane.search.filters import EVERYTHING, Filter
from tabane.search.records import EmbeddingSpace, Record, StoredRecord

if TYPE_CHECKING:
    from tabane.search.embedding.embedder import Embedder

PAGE = 200
"""Records that are embedded before what they got is on the disk."""

Told = Callable[[int], None]
Text = Callable[[Record], str]


async def fill(
    collection: SearchableVectors,
    space: EmbeddingSpace,
    embedder: Embedder,
    text: Text,
    told: Told,
    after: int = 0,
    where: Filter = EVERYTHING,
) -> int:
    """Give a vector to each record after row ``after`` that matches and lacks one in ``space``.

    Returns the last row that was checked. ``embedder`` is that of the space's vectors, or one of the same
    model if the space names only the model. ``text`` returns the text to embed, "" for nothing: such a
    record gets no vector. ``told`` gets the number of vectors made so far. If the process is killed,
    attached vectors stay, and another call continues after them. A record that is written meanwhile comes
    last and is found too, unless it comes after the end.

    Raises ModelError and StoreError; vectors that were attached before stay.
    """
    done = 0
    while True:
        page = await collection.lacking(space.name, after, PAGE, where)
        if not page:
            return after
        done += await give_vectors(collection, space, embedder, text, page)
        after = page[-1].row
        told(done)


async def give_vectors(
    collection: SearchableVectors,
    space: EmbeddingSpace,
    embedder: Embedder,
    text: Text,
    page: Sequence[StoredRecord],
) -> int:
    """Embed one page of records and attach their vectors. Return how many records got one."""
    texts = {stored.row: meant for stored in page if (meant := text(stored.record))}
    if not texts:
        return 0
    vectors = await embedder.embed(list(texts.values()))
    made = {row: {space.name: vector} for row, vector in zip(texts, vectors, strict=True)}
    return await collection.attach(made, space.model, page[0].epoch)


@dataclass(frozen=True, slots=True)
class NewestFirst:
    """The records that get a vector, and their order.

    ``field`` holds the time of a record; without one, the record that was written last is the newest.
    ``written`` counts the writes so far: after another write, the order begins again at its top.
    """

    where: Filter
    field: str | None
    written: Callable[[], int]


async def fill_newest(
    collection: SearchableVectors,
    space: EmbeddingSpace,
    embedder: Embedder,
    text: Text,
    told: Told,
    order: NewestFirst,
) -> None:
    """Give a vector to each record that lacks one, the newest first.

    Parameters and errors are those of :func:`fill`. It ends early if the space is replaced meanwhile. Records
    that stay without a vector are passed over: they do not keep it from coming to the others, however often
    something is written.
    """
    done = passed = reached = 0
    seen, top = order.written(), False
    while space in collection.spaces:
        top = not top and order.written() != seen
        if top:
            seen, reached, passed = order.written(), max(reached, passed), 0
        page = await collection.waiting(space.name, order.where, order.field, passed, PAGE)
        if not page:
            return
        given = await give_vectors(collection, space, embedder, text, page)
        passed += len(page) - given
        if not given:  # nothing new here: back to where it was before the write
            passed = max(passed, reached)
        done += given
        told(done)
