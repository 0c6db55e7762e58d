"""What an engine under posts, documents and pages is: two protocols, and the values they speak in.

``Records`` keeps the truth, ``Index`` finds in what is derived from it. Fusion, thresholds and folding
stand above them, once for all engines; an engine says by its capabilities what it can be asked.

Failure policy, for every method of both: wrong arguments raise
:class:`~tabane.errors.BadArguments` and nothing was done. Whatever the engine itself cannot do (disk
full, files unreadable, another process, a server away) raises a :class:`~tabane.errors.StoreError`
whose message says what to do; what was acknowledged before stays as it was. Cancelling a caller does
not take back what was begun: a write is then either done whole or not at all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from tabane.search.filters import Filter
from tabane.search.records import Record, Scalar, Shape, Stored

MOST_AT_ONCE = 1000  # records of a page, hits of a search, values of a facet
DEEPEST_OFFSET = 10_000


class Capability(Enum):
    """What an index can be asked.

    LEXICAL: words, phrases, exclusion, prefixes. SUBSTRING: :class:`~tabane.search.filters.Contains`
    with the help of an index. VECTOR: nearest vectors. SCAN: all vectors in order of rows.
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
    negative. MAXIMUM, MINIMUM. PRODUCT: of similarities that are at least 0, so that two opposites do
    not make a likeness. A space that a record lacks counts as 0; MAXIMUM looks at those it has.
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
    ``threshold``: no hit is below it.
    """

    vectors: Mapping[str, bytes]
    combination: Combination = Combination.AVERAGE
    weights: Mapping[str, float] = field(default_factory=dict)
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Similarities:
    """Part of a scan, in order of rows: three lists of equal length."""

    keys: list[str]
    rows: list[int]
    similarities: list[float]


@dataclass(frozen=True, slots=True)
class Hit:
    """A record that was found: ``row`` until it is replaced, ``score`` by the engine's own measure."""

    key: str
    row: int
    score: float


@dataclass(frozen=True, slots=True)
class Hits:
    """What a search found, best first, equal scores in order of keys.

    ``total`` is how many match in all; ``exact`` False: at least so many.
    """

    hits: tuple[Hit, ...] = ()
    total: int = 0
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Order:
    """Records in order of a field that is no list. Absent values come last, whichever the direction."""

    field: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a selection, and the cursor of the next part: None at the end."""

    records: tuple[Stored, ...] = ()
    after: str | None = None


class Records(Protocol):
    """The truth of one collection: what was acknowledged is there, whole, after any death of the process.

    Acknowledged means committed to disk and found by every search, select and count that begins
    afterwards. Records are checked before anything is written.
    """

    @property
    def shape(self) -> Shape: ...

    async def upsert(self, records: Sequence[Record]) -> list[bool]:
        """Put records in, each in place of the one of its key: True where it is new or differs from it.

        Up to 100 records and 1 MB are written together or not at all; more are cut into parts of that
        size, in order, and an error leaves the parts before it in place. A key that comes twice is
        written twice: the last one stays.
        """
        ...

    async def delete(self, keys: Sequence[str]) -> int:
        """Remove records; the answer is how many were there. Cut into parts as upsert is."""
        ...

    async def get(self, keys: Sequence[str]) -> list[Record | None]:
        """The records of these keys, in their order, None where there is none. At most 1,000 keys."""
        ...

    async def select(
        self, where: Filter, *, order: tuple[Order, ...] = (), after: str | None = None, limit: int = 100
    ) -> Page:
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


class Index(Protocol):
    """What finds records by their texts. Derived: it can be lost, late or away without loss of truth.

    Whether it lags is not the caller's business: what it does not hold yet is found all the same.
    While it is rebuilt, searches answer from what there is, and ``Hits.exact`` is False.
    """

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What may be asked now. Anything else raises a StoreError that says what is missing."""
        ...

    async def search(self, query: LexicalQuery, where: Filter, limit: int, offset: int = 0) -> Hits:
        """The best of the records that match both, in an order that is the same each time.

        ``limit`` is 1 to 1,000, ``offset`` 0 to 10,000. A query without a single word finds nothing.
        """
        ...


class Vectors(Protocol):
    """What finds records by their vectors, exactly: the nearest are the nearest.

    A record is found by the spaces it has; one that has none of those asked for is not found at all.
    """

    async def attach(self, vectors: Mapping[int, Mapping[str, bytes]]) -> int:
        """Give records vectors after the fact: row → space → vector, in place of one that is there.

        A row that is live no more (its record was replaced meanwhile) is passed over: what was worked
        out for it does not fit. The answer is how many rows were. Acknowledged as an upsert is.
        """
        ...

    async def vectors(self, keys: Sequence[str], space: str) -> list[bytes | None]:
        """The vectors of these records as they were given, None where there is none. At most 1,000 keys."""
        ...

    async def lacking(self, space: str, after: int = 0, limit: int = 100) -> list[Stored]:
        """Records behind row ``after`` that have no vector in a space, in order of rows."""
        ...

    async def nearest(self, query: VectorQuery, where: Filter, limit: int, offset: int = 0) -> Hits:
        """The most similar of the records that match, best first, equal ones in order of keys.

        The score is the cosine, or what their combination gives. ``Hits.total`` counts the records that
        could be compared; with a threshold, those found to reach it.
        """
        ...

    def scan(self, query: VectorQuery, where: Filter) -> AsyncIterator[Similarities]:
        """The similarity of every record that matches, in order of rows, as of one moment, in blocks.

        A block is worked out when it is asked for. Records deleted or replaced since are left out.
        """
        ...


class Collection(Records, Index, Vectors, Protocol):
    """All of them, over one shape."""
