"""Embedding of a space from the newest record to the oldest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tabane.search.engine import SearchableVectors
from tabane.search.filling import PAGE, Text, Told, give_vectors
from tabane.search.filters import Filter
from tabane.search.records import EmbeddingSpace

if TYPE_CHECKING:
    from tabane.search.embedding.embedder import Embedder


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

    Parameters and errors are those of :func:`tabane.search.filling.fill`. It ends early if the space is
    replaced meanwhile. Records that stay without a vector are passed over: they do not keep it from coming
    to the others, however often something is written.
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
