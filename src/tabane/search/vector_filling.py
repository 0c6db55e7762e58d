"""Embedding of the records that lack vectors, in order of rows or from the newest to the oldest."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from tabane.errors import ModelError
from tabane.search.embedding.embedder import embed_parts
from tabane.search.engine import Collection
from tabane.search.records import EVERYTHING, EmbeddingSpace, Filter, Record, StoredRecord

if TYPE_CHECKING:
    from tabane.search.embedding.embedder import Embedder

PAGE = 200
"""Records that are read at once, at most."""

_FIRST_PAGE, _SHORTEST_PAGE = 32, 4
_QUICK, _LONG = 1.0, 4.0  # seconds of a page: a new record waits for one before its turn

Told = Callable[[int], None]
Text = Callable[[Record], str]


async def fill(
    collection: Collection,
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
        given, failed = await _give_vectors(collection, space, embedder, text, page, _after(done, told))
        if failed is not None:
            raise failed
        done += given
        after = page[-1].row


def _after(done: int, told: Told) -> Told:
    """Return a function that adds those that were done before."""
    return lambda given: told(done + given)


async def _give_vectors(
    collection: Collection,
    space: EmbeddingSpace,
    embedder: Embedder,
    text: Text,
    page: Sequence[StoredRecord],
    told: Told,
) -> tuple[int, ModelError | None]:
    """Embed one page of records, and attach each vector as soon as it is there.

    ``told`` gets the number of records that got one so far. Returns it, and why others did not. Raises
    ModelError if none did.
    """
    texts = {stored.row: meant for stored in page if (meant := text(stored.record))}
    rows, given = list(texts), 0

    async def attach(positions: Sequence[int], vectors: Sequence[bytes]) -> None:
        nonlocal given
        made = {rows[at]: {space.name: vector} for at, vector in zip(positions, vectors, strict=True)}
        attached = await collection.attach(made, space.model, page[0].epoch)
        given += attached  # after the wait: another part may have been attached meanwhile
        told(given)

    try:
        if texts:
            await embed_parts(embedder, list(texts.values()), attach)
    except ModelError as error:
        if not given:
            raise
        return given, error
    return given, None


class _PageSize:
    """Records of a page: as many as are embedded in some seconds."""

    def __init__(self) -> None:
        self.records = _FIRST_PAGE
        self._began = time.monotonic()

    def next(self) -> int:
        """Return the size of the next page, which begins now."""
        self._began = time.monotonic()
        return self.records

    def over(self) -> None:
        """Learn how long the page took."""
        seconds = time.monotonic() - self._began
        if seconds < _QUICK:
            self.records = min(2 * self.records, PAGE)
        elif seconds > _LONG:
            self.records = max(self.records // 2, _SHORTEST_PAGE)


class NewestFirst(Struct, frozen=True):
    """The records that get a vector, and their order.

    ``field`` holds the time of a record; without one, the record that was written last is the newest.
    ``written`` counts the writes so far: after another write, the order begins again at its top.
    """

    where: Filter
    field: str | None
    written: Callable[[], int]


async def fill_newest(
    collection: Collection,
    space: EmbeddingSpace,
    embedder: Embedder,
    text: Text,
    told: Told,
    order: NewestFirst,
) -> None:
    """Give a vector to each record that lacks one, the newest first.

    Parameters and errors are those of :func:`fill`. It ends early if the space is replaced meanwhile. Records
    that stay without a vector are passed over: they do not keep it from coming to the others, however often
    something is written. An error that concerns only some records of a page is raised at the end.
    """
    done = passed = reached = 0
    problem: ModelError | None = None
    seen, top = order.written(), False
    size = _PageSize()
    while space in collection.spaces:
        top = not top and order.written() != seen
        if top:
            seen, reached, passed = order.written(), max(reached, passed), 0
        page = await collection.waiting(space.name, order.where, order.field, passed, size.next())
        if not page:
            break
        given, failed = await _give_vectors(collection, space, embedder, text, page, _after(done, told))
        problem = problem or failed
        passed += len(page) - given
        size.over()
        if not given:  # nothing new here: back to where it was before the write
            passed = max(passed, reached)
        done += given
    if problem is not None:
        raise problem
