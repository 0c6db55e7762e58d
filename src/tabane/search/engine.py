"""The collection under posts, documents and pages, and the values that it exchanges with them.

A :class:`Collection` holds records, and finds them in data derived from the records. Fusion, thresholds and
grouping are above it, once for all engines.

Failure policy of every method: wrong arguments raise :class:`~tabane.errors.BadArguments`, and nothing is
done. A failure of the engine itself (disk full, files unreadable, another process, a server away) raises a
:class:`~tabane.errors.StoreError` whose message says what to do. Acknowledged data stays as it was. Canceling
a caller does not undo a write that was started: it is done as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field

from tabane.messages import Message
from tabane.search.records import (
    EVERYTHING,
    Contains,
    EmbeddingSpace,
    Filter,
    Record,
    Scalar,
    Shape,
    StoredRecord,
    leaves,
)

MOST_AT_ONCE = 1000  # records of a page, hits of a search, values of a facet
DEEPEST_OFFSET = 10_000
MOST_EXCHANGED = 20_000  # records and keys of an exchange
LARGEST_EXCHANGE = 16_000_000  # bytes of texts, fields and payloads of one
LARGEST_VECTORS = 64_000_000  # bytes of vectors of one: they are as large as the text that they are of

T = TypeVar("T")


class Mode(Enum):
    """The combination of the words of a query: any of them, all of them, or all as a phrase."""

    ANY = "any"
    ALL = "all"
    PHRASE = "phrase"


class LexicalQuery(Struct, frozen=True):
    """A query by words. ``exclude``: words that a hit must not have. ``prefix``: the last word is a prefix.

    ``phrases`` are phrases that a hit must have in every mode. ``fields`` are the texts that are searched.
    None: all of them, with their weights. ``spellings`` are searched instead of ``text``: for each word, all
    of its spellings. A text has a word if it has one of them. ``spelled`` is the text in the likeliest ones.
    """

    text: str
    mode: Mode = Mode.ANY
    exclude: tuple[str, ...] = ()
    prefix: bool = False
    fields: tuple[str, ...] | None = None
    phrases: tuple[str, ...] = ()
    spellings: tuple[tuple[str, ...], ...] = ()
    spelled: str = ""


class Combination(Enum):
    """The combination of the similarities of several spaces.

    AVERAGE: their mean, weighted if there are weights. WEIGHTED: their weighted sum; weights may be negative.
    MAXIMUM, MINIMUM. PRODUCT: of the cosines in -1..1, so two negative ones make a positive product. A space
    that a record lacks counts as 0, except for MAXIMUM, which ignores it.
    """

    AVERAGE = "average"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    PRODUCT = "product"
    WEIGHTED = "weighted"


class VectorQuery(Struct, frozen=True):
    """A query by vectors, in the format of records: space → float32, little-endian.

    With one space, the similarity is its cosine, and ``combination`` has no effect. ``weights``: space →
    factor, by default 1. ``threshold``: no hit is below it. ``whole``: only records with a vector in all of
    the spaces. ``proven``: the number of hits that must be exactly the best; None: all requested hits. The
    other hits are the best of the candidates that were compared for these.
    """

    vectors: Mapping[str, bytes]
    combination: Combination = Combination.AVERAGE
    weights: Mapping[str, float] = field(default_factory=dict)
    threshold: float | None = None
    whole: bool = False
    proven: int | None = None


class Ranks(Struct, frozen=True):
    """A part of the ranking of all records, best first: two lists of equal length, and the total."""

    keys: list[str]
    similarities: list[float]
    total: int


class Similarities(Struct, frozen=True):
    """A part of a scan, in order of rows: three lists of equal length."""

    keys: list[str]
    rows: list[int]
    similarities: list[float]


class EngineHit(Struct, frozen=True):
    """A record that was found. ``row`` is valid until it is replaced; ``score`` is the engine's own."""

    key: str
    row: int
    score: float


class EngineHits(Struct, frozen=True):
    """The hits of a search, best first, with equal scores in order of keys.

    ``total`` is the number of all matches. If ``exact`` is False, there may be more. ``ceiling`` is the score
    of a text of usual length that has every word of the query once, even if no text has them. Scores are
    judged by it. It is 0 if the measure needs none, such as the cosine.
    """

    hits: tuple[EngineHit, ...] = ()
    total: int = 0
    exact: bool = True
    ceiling: float = 0.0


class Order(Struct, frozen=True):
    """The order of records by a field that is no list. Absent values come last in both directions."""

    field: str
    descending: bool = False


class SelectedPage(Struct, frozen=True):
    """A part of a selection, and the cursor of the next part; None at the end."""

    records: tuple[StoredRecord, ...] = ()
    after: str | None = None


class Exchanged(Struct, frozen=True):
    """The result of an exchange: ``results`` as of upsert, and the number of deleted records."""

    results: list[bool] = field(default_factory=list)
    deleted: int = 0


class ListedKeys(Struct, frozen=True):
    """A part of a listing of all keys, and the total."""

    keys: list[str]
    total: int


class JoinedRecords(Protocol):
    """The requests that can be joined into one: see :meth:`Collection.together`."""

    async def get(self, keys: Sequence[str]) -> list[Record | None]:
        """Return the records of these keys, in order; None for a missing one. At most 1,000 keys."""
        ...

    async def select(
        self, where: Filter, *, order: tuple[Order, ...] = (), after: str | None = None, limit: int = 100
    ) -> SelectedPage:
        """Return matching records in order. Ties, and all records without an order, are in order of keys.

        ``after`` is the cursor of the page before. It holds the end of that page, not a count. So a record
        that did not change between two pages occurs exactly once, whatever was written in the meantime.
        ``limit`` is 1 to 1,000.
        """
        ...

    async def firsts(self, field: str, order: Order, where: Filter) -> dict[Scalar, str]:
        """Return the key of the first matching record for each value of a field of strings.

        The order is by a number or date, absent ones last, equal ones in order of keys. For filters that few
        records match.
        """
        ...

    async def similarities(self, query: VectorQuery, keys: Sequence[str]) -> list[float | None]:
        """Return the similarity of each of these records, in their order. ``query.threshold`` has no effect.

        None: there is no such record, or it has no vector in the requested spaces. At most 1,000 keys.
        """
        ...

    async def nearest(self, query: VectorQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        """Return the most similar of the matching records, best first, equal ones in order of keys.

        The score is the cosine, or the combination of cosines. ``total`` of the hits is the number of records
        that were compared; with a threshold, of those that reach it. While the derived index of many vectors
        is rebuilt, only the vectors in it are compared, and ``exact`` is False.
        """
        ...


class NearestRequest(Struct, frozen=True):
    """A request for the nearest records, from the first one on."""

    query: VectorQuery
    where: Filter
    limit: int


class Collection(JoinedRecords, Protocol):
    """Records that can be searched: the door from the sources to an engine.

    **Records.** Acknowledged records survive any death of the process. Acknowledged means committed to disk,
    and found by every search, select and count that begins afterwards. Records are checked before anything is
    written.

    **Texts.** The index is derived, so no record is lost with it. Records that it does not have yet are found
    too. While it is rebuilt, searches use the part that is ready, and ``EngineHits.exact`` is False.

    **Vectors.** Scores are exact. A nearer record is missed only where thousands are about as near, as among
    random vectors. Recall is in docs/development/performance.md. A record is found by the spaces in which it
    has a vector. Without any in the requested spaces, it is not found.

    Spaces can be added and dropped while the collection is open. Each change is one commit: a request sees
    the spaces of one moment, and the death of the process leaves them as before or after. A shape creates the
    spaces that it names, if they are missing, and does not change others. A request for a space that does not
    exist, or not any more at its turn, raises :class:`~tabane.errors.BadArguments`.
    """

    @property
    def shape(self) -> Shape:
        """Return the current shape, with spaces that were added since the collection was opened."""
        ...

    async def upsert(self, records: Sequence[Record], models: Mapping[str, str] | None = None) -> list[bool]:
        """Write records, each in place of that with its key. Return True for each that is new or different.

        Up to 100 records and 1 MB are written together or not at all. More are written in order, in several
        commits, so that others can write in between. After an error, some of the first ones remain. If a key
        occurs twice, the last record remains.

        ``models``: space → the model that made its vectors, if known. If a space has another model by now, or
        does not exist any more, its vectors are left out.
        """
        ...

    async def delete(self, keys: Sequence[str]) -> int:
        """Delete records, and return how many existed. They are split into parts of 100."""
        ...

    async def exchange(
        self, records: Sequence[Record], gone: Sequence[str] = (), models: Mapping[str, str] | None = None
    ) -> Exchanged:
        """Write records and delete the keys ``gone`` in one commit: all of it or nothing, whatever dies.

        Each search, select, count, facet or listing also sees all of it or nothing.

        If a record equals the stored one and has no vectors, the stored one is not changed: its row and
        vectors remain. A different record replaces the stored one, and has only its own vectors. If a key
        occurs twice among the records, the last record remains. ``models`` is that of :meth:`upsert`.

        At most 20,000 records and keys, 16 MB of texts, fields and payloads, and 64 MB of vectors. Raises
        BadArguments for more, or if a key is to be written and deleted. Other writers wait for the commit:
        some 0.06 s for 1 MB of texts with vectors, and a second for 10 MB, on two busy cores. The caller also
        waits for the analysis of the texts, two seconds for 10 MB, so that no search has to do it.
        """
        ...

    async def facet(self, field: str, where: Filter, limit: int = 100) -> list[tuple[Scalar, int]]:
        """Return the values of a field among matching records, and how many records have each.

        Most frequent first, then in order of values. An element that a list has twice counts once.
        """
        ...

    async def count(self, where: Filter) -> int:
        """Return the exact number of matching records."""
        ...

    # Counts

    @property
    def changes(self) -> int:
        """Return a number that grows with each write."""
        ...

    async def tally(self, field: str, where: Filter) -> dict[Scalar, int]:
        """Return the number of matching records for each value, in no order.

        For fields of strings whose values are few compared with the records, or fit in memory.
        """
        ...

    async def histogram(self, field: str, bounds: Sequence[float], where: Filter) -> list[int]:
        """Return the number of matching records from each bound up to the next, which is excluded.

        For numbers and dates. At most 100,000 bounds, in ascending order.
        """
        ...

    def listing(self, order: Order, where: Filter) -> AsyncIterator[ListedKeys]:
        """Yield the keys of all matching records by a number or date, absent ones last, in blocks of 20,000.

        They are of one moment, and equal ones are in order of rows. No record, no block.
        """
        ...

    # Texts

    @property
    def remark(self) -> Message | None:
        """Return what the last answers may lack, for their reader; None if nothing."""
        ...

    async def search(self, query: LexicalQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        """Return the best records that match both, in a stable order.

        ``limit`` is 1 to 1,000, ``offset`` 0 to 10,000. A query without a single word finds nothing.
        """
        ...

    # Vectors

    @property
    def spaces(self) -> tuple[EmbeddingSpace, ...]:
        """Return the current spaces, in order of creation."""
        ...

    async def add_space(self, space: EmbeddingSpace) -> None:
        """Create a space, unless it exists. A space without a model counts as the one that exists.

        Raises BadArguments that names both, if another space has that name.
        """
        ...

    async def drop_space(self, name: str) -> None:
        """Drop a space, if it exists. Its vectors are deleted later."""
        ...

    async def succeed(self, name: str, by: str) -> None:
        """Rename the space ``by`` to ``name`` in one commit. A space that has that name is dropped.

        Raises BadArguments if ``by`` does not exist.
        """
        ...

    async def attach(
        self, vectors: Mapping[int, Mapping[str, bytes]], model: str = "", epoch: int | None = None
    ) -> int:
        """Attach vectors to records: row → space → vector. Existing vectors are replaced.

        Returns the number of rows that got one. They are acknowledged as by upsert. Rows whose records were
        replaced meanwhile are skipped. ``model`` made the vectors, if known. A space that has another model
        by now, or does not exist any more, is skipped. ``epoch`` is that of the rows (:class:`StoredRecord`).
        If rows were numbered again since then, all are skipped.
        """
        ...

    async def vectors(self, keys: Sequence[str], space: str) -> list[bytes | None]:
        """Return the vectors of these records as given; None if there is none. At most 1,000 keys."""
        ...

    async def lacking(
        self, space: str, after: int = 0, limit: int = 100, where: Filter = EVERYTHING
    ) -> list[StoredRecord]:
        """Return records after row ``after`` that match and have no vector in a space, in order of rows.

        Only the returned records are read.
        """
        ...

    async def embedded(self, space: str, where: Filter) -> int:
        """Count the records that match and have a vector in a space; 0 if there is no such space."""
        ...

    async def waiting(
        self, space: str, where: Filter, newest: str | None = None, skip: int = 0, limit: int = 100
    ) -> list[StoredRecord]:
        """Return records that match and have no vector in a space, newest first, without the first ``skip``.

        ``newest`` is the field with their time; those without one come last. If it is None, and among equal
        times, the record that was written last comes first.
        """
        ...

    def scan(self, query: VectorQuery, where: Filter) -> AsyncIterator[Similarities]:
        """Yield the similarities of all matching records at one moment, in order of rows, in blocks.

        A block is computed when it is requested. Records that were deleted or replaced since are left out. If
        the index is being rebuilt, it waits up to a minute, then raises StoreBusy.
        """
        ...

    def ranking(self, query: VectorQuery, where: Filter) -> AsyncIterator[Ranks]:
        """Yield all matching records that can be compared, most similar first, in blocks of 20,000.

        They are of one moment, and equal ones are in order of rows, by float32. ``query.threshold`` has no
        effect. No record, no block. The first block is yielded before the others are sorted.
        """
        ...

    # Several requests

    async def together(
        self,
        work: Callable[[JoinedRecords], Coroutine[Any, Any, T]],
        *,
        long: bool = False,
        first: NearestRequest | None = None,
    ) -> T:
        """Return the result of ``work``, which makes several requests and awaits nothing else.

        An engine that can, answers all of them at one moment and in one turn of its reading thread, where
        ``work`` runs then. Others answer one after the other. ``long``: the requests take more than some
        milliseconds, see :func:`demanding`. ``first`` is the nearest request that ``work`` begins with: an
        engine may have it answered elsewhere before, as of the moment of this call or later.
        """
        ...


def demanding(query: VectorQuery | None, where: Filter) -> bool:
    """Return whether a request takes more than some milliseconds: it reads texts, or asks several spaces."""
    if query is not None and len(query.vectors) > 1:
        return True
    return any(isinstance(leaf, Contains) for leaf in leaves(where))
