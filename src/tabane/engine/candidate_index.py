"""The protocol of an index outside of the database, which proposes rows near a vector, and its parameters.

A vector is dense, or sparse: then its numbers stand for the words of texts.

The database is the truth: it checks that the rows exist and match, and computes their similarities. So an
index may hold rows that are gone, and similarities need not be exact. It holds one set for each space.

All calls block, end within a limited time, and raise StoreError if the index cannot be used. A set is
named by the caller: letters, digits and underscores, at most 60.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from tabane.errors import ConfigurationError
from tabane.messages import say
from tabane.search.records import Filter, Shape, Value
from tabane.settings.addresses import unreadable_index

SparseVector = Mapping[int, float]
"""Dimension, below 2³¹ → number above 0. Other dimensions have 0."""


@dataclass(frozen=True, slots=True)
class IndexedVector:
    """A row with its vector, and the fields that filters look at.

    The vector is a unit vector (float32, little-endian) or sparse.
    """

    row: int
    vector: bytes | SparseVector
    fields: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexVersion:
    """Name and version of the server, for people: ``Milvus 2.6.1``.

    ``sparse``: its sets may have sparse vectors, and are to be used for keywords.
    """

    server: str
    sparse: bool = False


class CandidateIndex(Protocol):
    """Sets of vectors in another place."""

    @property
    def place(self) -> str:
        """Return the address without secrets. Another index has another one."""
        ...

    @property
    def slowest(self) -> float:
        """Return the seconds after which a call of :meth:`nearest` has ended."""
        ...

    @property
    def most(self) -> int:
        """Return the number of rows that :meth:`nearest` returns at most."""
        ...

    def version(self) -> IndexVersion:
        """Connect, and return what runs there."""
        ...

    def mark(self, name: str, shape: Shape) -> str | None:
        """Return the mark of a set; None if there is no such set, or it is of another shape."""
        ...

    def reset(self, name: str, dimension: int | None, shape: Shape) -> None:
        """Create a set without vectors; None: of sparse ones. One that is there is dropped."""
        ...

    def put(self, name: str, vectors: Sequence[IndexedVector], shape: Shape) -> None:
        """Add vectors, or replace those of the same rows."""
        ...

    def remove(self, name: str, rows: Sequence[int]) -> None:
        """Remove vectors, if they are there."""
        ...

    def advance(self, name: str, mark: str) -> str:
        """Mark what the set holds by now. Return a note.

        A search with that note, by any process, sees all that was put before.
        """
        ...

    def narrows(self, where: Filter, shape: Shape) -> bool:
        """Return whether :meth:`nearest` proposes only rows that match the filter."""
        ...

    def nearest(
        self, name: str, vector: bytes | SparseVector, where: Filter, shape: Shape, most: int, note: str
    ) -> Sequence[int]:
        """Return up to ``most`` rows, the most similar first. All that match the filter may be among them."""
        ...

    def drop(self, name: str) -> None:
        """Drop a set, if it is there."""
        ...

    def close(self) -> None:
        """Close the connections. A later call connects again."""
        ...


_NUMBER = re.compile(r"[0-9]{1,4}")
_WORDS = {"true": True, "false": False}

T = TypeVar("T")


class IndexParameters:
    """Parameters that are taken one by one. Each raises ConfigurationError, without its value."""

    def __init__(self, given: dict[str, str]) -> None:
        self._given = given

    def take(self, name: str, read: Callable[[str], T | None], default: T) -> T:
        """Return a parameter as ``read`` parses it, or the default. ``read`` returns None if it is wrong."""
        if name not in self._given:
            return default
        found = read(self._given.pop(name))
        if found is None:
            raise ConfigurationError(
                say("{name} in the setting vector_index has an unknown value", name=name)
            )
        return found

    def end(self) -> None:
        """Raise if a parameter was not taken."""
        for name in self._given:
            raise ConfigurationError(say("the setting vector_index has no parameter {name}", name=name))


class IndexAddress(NamedTuple):
    """The parts of a URL. ``login`` is ``user:password``; empty: there is none."""

    parts: SplitResult
    host: str
    port: int
    login: str
    parameters: IndexParameters


def split_address(url: str, port: int) -> IndexAddress:
    """Split a URL. ``port`` is the default. Raises ConfigurationError, which contains no password."""
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        host, found = parts.hostname or "", parts.port or port
    except ValueError:
        raise unreadable_index() from None
    if parts.fragment or len(dict(pairs)) < len(pairs):
        raise unreadable_index()
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return IndexAddress(parts, host, found, "" if login == ":" else login, IndexParameters(dict(pairs)))


def boolean(text: str) -> bool | None:
    """Parse ``true`` or ``false``; None for anything else."""
    return _WORDS.get(text)


def one_of(words: tuple[str, ...]) -> Callable[[str], str | None]:
    """Return a parser that accepts one of these words."""
    return lambda text: text if text in words else None


def matching(pattern: re.Pattern[str]) -> Callable[[str], str | None]:
    """Return a parser that accepts texts which match the pattern as a whole."""
    return lambda text: text if pattern.fullmatch(text) else None


def whole(least: int, most: int) -> Callable[[str], int | None]:
    """Return a parser that accepts whole numbers from ``least`` to ``most``."""
    return lambda text: int(text) if _NUMBER.fullmatch(text) and least <= int(text) <= most else None


def bracketed(host: str) -> str:
    """Return a host as it is written in a URL."""
    return f"[{host}]" if ":" in host else host
