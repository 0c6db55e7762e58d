"""Protocols of a search engine under posts, documents and pages, and the values they exchange.

:class:`SearchableRecords` holds the records; :class:`SearchableTexts` and :class:`SearchableVectors` find
them in data derived from the records. Fusion, thresholds and grouping are above them, once for all engines.
An engine says by its capabilities what it can be asked.

Failure policy of every method: wrong arguments raise :class:`~tabane.errors.BadArguments`, and nothing was
done. What the engine itself cannot do (disk full, files unreadable, another process, a server away) raises a
:class:`~tabane.errors.StoreError` whose message says what to do; what was acknowledged before stays as it
was. Canceling a caller does not undo what was started: a write is then either done whole or not at all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from tabane.search.filters import EVERYTHING, Filter
from tabane.search.records import EmbeddingSpace, Record, Scalar, Shape, StoredRecord

MOST_AT_ONCE = 1000  # records of a page, hits of a search, values of a facet
DEEPEST_OFFSET = 10_000
MOST_EXCHANGED = 20_000  # records and keys of an exchange
LARGEST_EXCHANGE = 16_000_000  # bytes of texts, fields and payloads of one
LARGEST_VECTORS = 64_000_000  # bytes of vectors of one: they are as large as the text that they are of


class Capability(Enum):
    """What an index can be asked.

    LEXICAL: words, phrases, exclusion, prefixes. SUBSTRING: :class:`~tabane.search.filters.Contains`
    with the help of an index. VECTOR: nearest vectors. SCAN: all vectors in order of rows. The last two
    are there whenever there is a space.
    """

    LEXICAL = "lexical"
    SUBSTRING = "substring"
    VECTOR = "vector"
    SCAN = "scan"


class Mode(Enum):
    """How the words of a query meet: any of them, all of them, or all in this order side by side."""

    ANY = "any"
    ALL = "all"
    PHRASE = "phrase"


@dataclass(frozen=True, slots=True)
class LexicalQuery:
    """Words to be found. ``exclude``: words that a hit must not have. ``prefix``: the last word may go on.

    ``phrases`` are words that a hit must have side by side, whatever the mode. ``fields`` are the texts
    to look into, None for all of them with their weights.
    """

    text: str
    mode: Mode = Mode.ANY
    exclude: tuple[str, ...] = ()
    prefix: bool = False
    fields: tuple[str, ...] | None = None
    phrases: tuple[str, ...] = ()


class Combination(Enum):
    """How the similarities of several spaces become one.

    AVERAGE: their mean, by weights where there are any. WEIGHTED: their sum by weights, which may be
    negative. MAXIMUM, MINIMUM. PRODUCT: of the cosines as they are, in -1..1, so two negative ones make a
    positive product. A space that a record lacks counts as 0; MAXIMUM looks at those it has.
    """

    AVERAGE = "average"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    PRODUCT = "product"
    WEIGHTED = "weighted"


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """Vectors to be near to, as records have them: space → float32, little-endian.

    One space: its cosine, whatever ``combination`` says. ``weights``: space → factor, 1 where absent.
    ``threshold``: no hit is below it. ``whole``: records that have all of the spaces, and no others.
    ``proven``: how many of the best have to be exactly the best; None: all that are asked for. The others
    are the best of the candidates that were compared for these.
    """

    vectors: Mapping[str, bytes]
    combination: Combination = Combination.AVERAGE
    weights: Mapping[str, float] = field(default_factory=dict)
    threshold: float | None = None
    whole: bool = False
    proven: int | None = None


@dataclass(frozen=True, slots=True)
class Ranks:
    """Part of a ranking of all, best first: two lists of equal length, and how many the whole has."""

    keys: list[str]
    similarities: list[float]
    total: int


@dataclass(frozen=True, slots=True)
class Similarities:
    """Part of a scan, in order of rows: three lists of equal length."""

    keys: list[str]
    rows: list[int]
    similarities: list[float]


@dataclass(frozen=True, slots=True)
class EngineHit:
    """A record that was found: ``row`` until it is replaced, ``score`` by the engine's own measure."""

    key: str
    row: int
    score: float


@dataclass(frozen=True, slots=True)
class EngineHits:
    """What a search found, best first, equal scores in order of keys.

    ``total`` is how many match in all; ``exact`` False: at least so many. ``ceiling`` is what a text of usual
    length scores that has every word of the query once, those too that no text has: how much a score is can
    be told by it. 0 where the measure needs none, as the cosine.
    """

    hits: tuple[EngineHit, ...] = ()
    total: int = 0
    exact: bool = True
    ceiling: float = 0.0


@dataclass(frozen=True, slots=True)
class Order:
    """Records in order of a field that is no list. Absent values come last, whichever the direction."""

    field: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class SelectedPage:
    """Part of a selection, and the cursor of the next part: None at the end."""

    records: tuple[StoredRecord, ...] = ()
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What an exchange did: ``results`` as upsert has them, ``deleted`` how many of the keys were there."""

    results: list[bool] = field(default_factory=list)
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class ListedKeys:
    """Part of a listing of all, and how many the whole has."""

    keys: list[str]
    total: int


class SearchableRecords(Protocol):
    """The truth of one collection: what was acknowledged is there, whole, after any death of the process.

    Acknowledged means committed to disk and found by every search, select and count that begins
    afterwards. Records are checked before anything is written.
    """

    @property
    def shape(self) -> Shape:
        """What it holds now: the spaces too that were added since it was opened."""
        ...

    async def upsert(self, records: Sequence[Record], models: Mapping[str, str] | None = None) -> list[bool]:
        """Put records in, each in place of the one of its key: True where it is new or differs from it.

        Up to 100 records and 1 MB are written together or not at all; more are cut into parts of that
        size, in order, and an error leaves the parts before it in place. A key that comes twice is
        written twice: the last one stays.

        ``models``: space → what made the vectors for it, where that is known. Vectors for a space that is of
        another model by now, or is not there any more, are left out: the record lacks them.
        """
        ...

    async def delete(self, keys: Sequence[str]) -> int:
        """Remove records; the answer is how many were there. Cut into parts as upsert is."""
        ...

    async def exchange(
        self,
        records: Sequence[Record],
        gone: Sequence[str] = (),
        models: Mapping[str, str] | None = None,
    ) -> Exchanged:
        """Put records in and take keys out, in one commit: all of it or nothing, whatever dies.

        What is asked sees all of it or nothing too: each search, select, count, facet or listing that begins
        before it is done, and everything derived from it at once.

        A record that is equal to the one there, and comes without vectors, leaves that one untouched: row and
        vectors stay. One that differs comes in its place with the vectors it brings and no others. A key that
        comes twice among the records is written twice: the last one stays. ``models`` as :meth:`upsert` has
        it.

        At most 20,000 records and keys, 16 MB of texts, fields and payloads, and 64 MB of vectors. More, or a
        key that is to be put and to be taken out: BadArguments. Who writes meanwhile waits for the
        commit, which is as long as it is large: some 0.06 s for 1 MB of texts with vectors, a second for
        10 MB, on two busy cores. Who asked for it waits besides for its texts to be analysed, two seconds
        for 10 MB: nobody's search has to do that afterwards.
        """
        ...

    async def get(self, keys: Sequence[str]) -> list[Record | None]:
        """The records of these keys, in their order, None where there is none. At most 1,000 keys."""
        ...

    async def select(
        self, where: Filter, *, order: tuple[Order, ...] = (), after: str | None = None, limit: int = 100
    ) -> SelectedPage:
        """Records that match, in order; ties, and all without an order, in order of keys.

        ``after`` is the cursor of the page before. It says where that page ended, not how many came
        before it: a record that was not touched between two pages comes exactly once, whatever was
        written in the meantime. ``limit`` is 1 to 1,000.
        """
        ...

    async def facet(self, field: str, where: Filter, limit: int = 100) -> list[tuple[Scalar, int]]:
        """The values of a field among the records that match, and how many have each.

        Most frequent first, then in order of values. An element that a list has twice counts once.
        """
        ...

    async def count(self, where: Filter) -> int:
        """How many records match, exactly."""
        ...


class SearchableTexts(Protocol):
    """What finds records by their texts. Derived: it can be lost, late or away without loss of truth.

    Whether it lags is not the caller's business: what it does not hold yet is found all the same.
    While it is rebuilt, searches answer from what there is, and ``Hits.exact`` is False.
    """

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What may be asked now. Anything else raises a StoreError that says what is missing."""
        ...

    async def search(self, query: LexicalQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        """The best of the records that match both, in an order that is the same each time.

        ``limit`` is 1 to 1,000, ``offset`` 0 to 10,000. A query without a single word finds nothing.
        """
        ...


class SearchableVectors(Protocol):
    """What finds records by their vectors, exactly: the nearest are the nearest.

    A record is found by the spaces it has; one that has none of those asked for is not found at all.

    Spaces come and go while the collection is open, and each of these changes is one commit: whatever is
    asked sees the spaces of one moment, and a death leaves them as they were before or after. A shape makes
    those it names where they are not there yet, and leaves the others as they are. What asks for a space that
    is not there, or was not any more when its turn came, raises :class:`~tabane.errors.BadArguments`.
    """

    @property
    def spaces(self) -> tuple[EmbeddingSpace, ...]:
        """Those there are now, in order of making."""
        ...

    async def add_space(self, space: EmbeddingSpace) -> None:
        """Make a space. Where it is there already, nothing; one without a model is taken for the one there.

        Raises BadArguments, which names both, where another one has that name.
        """
        ...

    async def drop_space(self, name: str) -> None:
        """Let go of a space and its vectors, which are deleted by and by. Nothing where there is none."""
        ...

    async def succeed(self, name: str, by: str) -> None:
        """Let the space ``by`` take the place of ``name``, in one commit; the one that was there is dropped.

        Raises BadArguments where ``by`` is not there. ``name`` need not be.
        """
        ...

    async def attach(
        self, vectors: Mapping[int, Mapping[str, bytes]], model: str = "", epoch: int | None = None
    ) -> int:
        """Give records vectors after the fact: row → space → vector, in place of one that is there.

        A row that is live no more (its record was replaced meanwhile) is passed over: what was worked
        out for it does not fit. The answer is how many rows were. Acknowledged as an upsert is. ``model``
        is what made the vectors, where that is known: a space that is of another model by now, or is not
        there any more, is passed over too. ``epoch`` is that of the rows (:class:`StoredRecord`): if rows
        were numbered again since, all are passed over.
        """
        ...

    async def similarities(self, query: VectorQuery, keys: Sequence[str]) -> list[float | None]:
        """The similarity of each of these records, in their order; ``query.threshold`` does not matter.

        None where there is no record, or none of the spaces asked for. At most 1,000 keys.
        """
        ...

    async def vectors(self, keys: Sequence[str], space: str) -> list[bytes | None]:
        """The vectors of these records as they were given, None where there is none. At most 1,000 keys."""
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

    async def nearest(self, query: VectorQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        """The most similar of the records that match, best first, equal ones in order of keys.

        The score is the cosine, or what their combination gives. ``Hits.total`` counts the records that
        could be compared; with a threshold, those found to reach it. While what is derived from many
        vectors is made anew, those it holds already are compared, and ``Hits.exact`` is False.
        """
        ...

    def scan(self, query: VectorQuery, where: Filter) -> AsyncIterator[Similarities]:
        """The similarity of every record that matches, in order of rows, as of one moment, in blocks.

        A block is worked out when it is asked for. Records deleted or replaced since are left out. It
        waits, a minute at most, for what is being made anew: then it raises StoreBusy.
        """
        ...


class RankableVectors(Protocol):
    """What puts all records in order of their likeness to a query."""

    def ranking(self, query: VectorQuery, where: Filter) -> AsyncIterator[Ranks]:
        """Every record that matches and can be compared, most similar first, in blocks of 20,000.

        As of one moment, equal ones in order of rows, by float32. ``query.threshold`` does not count.
        Nothing where there is none. The first block comes before the others are sorted.
        """
        ...


class CountableRecords(Protocol):
    """What is told of many records at once, and whether it would come out otherwise now."""

    @property
    def changes(self) -> int:
        """A number that is a higher one after each write."""
        ...

    async def tally(self, field: str, where: Filter) -> dict[Scalar, int]:
        """How many of the records that match have each value: all values there are, in no order.

        For fields of strings whose values are few against the records, or fit in memory all the same.
        """
        ...

    async def histogram(self, field: str, bounds: Sequence[float], where: Filter) -> list[int]:
        """How many match from each bound to before the next: one number less than there are bounds.

        For numbers and dates; bounds rise, and are at most 100,000.
        """
        ...

    async def firsts(self, field: str, order: Order, where: Filter) -> dict[Scalar, str]:
        """Of the records that match, the key of the first of each value of a field of strings.

        By a number or date, absent ones last, equal ones in order of keys. For filters that leave few.
        """
        ...

    def listing(self, order: Order, where: Filter) -> AsyncIterator[ListedKeys]:
        """The keys of all that match, by a number or date, absent ones last, in blocks of 20,000.

        As of one moment, equal ones in order of rows. Nothing where there is none.
        """
        ...


class Collection(
    SearchableRecords, SearchableTexts, SearchableVectors, RankableVectors, CountableRecords, Protocol
):
    """All of them, over one shape."""
