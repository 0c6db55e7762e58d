"""What is known of the whole archive: counted once, and again when something was written since."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo

from tabane.posts.clock import Unit, periods
from tabane.posts.post import folded, post_of
from tabane.search.engine import Collection, Order
from tabane.search.filters import EVERYTHING, And, Equal, Filter, Range

SUGGESTED = 5
_MOST_PERIODS = 90_000


@dataclass(frozen=True, slots=True)
class User:
    """Who has posts in the archive, in the spelling that most of them have."""

    name: str
    posts: int


@dataclass(frozen=True, slots=True)
class Census:
    """The archive at one moment. ``users`` have most posts first; ``counts`` is by folded name, posts of
    nobody known included. ``earliest`` and ``latest`` are timestamps as given, of posts whose time is known.
    """

    posts: int = 0
    users: tuple[User, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    summaries: int = 0
    tagged: int = 0
    earliest: str | None = None
    latest: str | None = None
    span: tuple[float, float] | None = None

    def knows(self, name: str) -> bool:
        return bool(folded(name)) and folded(name) in self.counts


class Statistics:
    """The census of one collection, kept until the next write."""

    def __init__(self, collection: Callable[[], Awaitable[Collection]]) -> None:
        self._collection = collection
        self._counting = asyncio.Lock()
        self._known: tuple[Collection, int, Census] | None = None

    async def census(self) -> Census:
        """As of the last write that was acknowledged when it was asked for."""
        collection = await self._collection()
        known = self._current(collection)
        if known is None:
            async with self._counting:
                known = self._current(collection)
                if known is None:
                    changes = collection.changes
                    known = await counted(collection)
                    self._known = (collection, changes, known)
        return known

    def _current(self, collection: Collection) -> Census | None:
        if self._known is None:
            return None
        of, changes, census = self._known
        return census if of is collection and changes == collection.changes else None


async def counted(collection: Collection) -> Census:
    """Count anew."""
    counts = {str(name): count for name, count in (await collection.tally("user", EVERYTHING)).items()}
    spellings = await collection.tally("name", EVERYTHING)
    ends = [await _end(collection, descending) for descending in (False, True)]
    known = [end for end in ends if end is not None]
    return Census(
        posts=await collection.count(EVERYTHING),
        users=_users({str(name): count for name, count in spellings.items()}),
        counts=counts,
        summaries=await collection.count(Equal("has", "summary")),
        tagged=await collection.count(Range("tags")),
        earliest=known[0][1] if known else None,
        latest=known[-1][1] if known else None,
        span=(known[0][0], known[-1][0]) if known else None,
    )


def _users(spellings: Mapping[str, int]) -> tuple[User, ...]:
    """Users by folded name: all their posts together, under the most frequent spelling."""
    found: dict[str, tuple[str, int, int]] = {}
    for name, count in sorted(spellings.items(), key=lambda entry: (-entry[1], entry[0])):
        spelt, most, posts = found.get(folded(name), (name, count, 0))
        found[folded(name)] = (spelt, most, posts + count)
    found.pop("", None)
    users = (User(name, posts) for name, _, posts in found.values())
    return tuple(sorted(users, key=lambda user: (-user.posts, user.name)))


async def _end(collection: Collection, descending: bool) -> tuple[float, str] | None:
    """Time and timestamp of the first or last post whose time is known."""
    page = await collection.select(Range("at"), order=(Order("at", descending),), limit=1)
    for stored in page.records:
        post = post_of(stored.record)
        return post.at or 0.0, post.timestamp
    return None


async def suggested(census: Census, names: Sequence[str]) -> dict[str, list[str]]:
    """For each name that no user has, the five names nearest by Levenshtein ratio, nearest first."""
    missing = [name for name in dict.fromkeys(names) if not census.knows(name)]
    return await asyncio.to_thread(_nearest, [user.name for user in census.users], missing)


def _nearest(users: Sequence[str], missing: Sequence[str]) -> dict[str, list[str]]:
    from rapidfuzz.distance import Indel
    from rapidfuzz.process import extract

    known = [folded(user) for user in users]
    found: dict[str, list[str]] = {}
    for name in missing:
        near = extract(folded(name), known, scorer=Indel.normalized_similarity, limit=SUGGESTED)
        found[name] = [users[place] for _, _, place in near]
    return found


async def timeline(
    collection: Collection, where: Filter, span: tuple[float, float] | None, unit: Unit, zone: tzinfo
) -> list[tuple[str, int]]:
    """How many posts each year, month or day has, in order; those without any are left out."""
    if span is None:
        return []
    names, bounds = periods(*span, unit, zone)
    found: list[tuple[str, int]] = []
    # Neighbouring parts share the bound between them.
    for first in range(0, len(names), _MOST_PERIODS):
        part = slice(first, first + _MOST_PERIODS)
        inside = And((where, Range("at")))
        counts = await collection.histogram("at", bounds[first : first + _MOST_PERIODS + 1], inside)
        found += [(name, count) for name, count in zip(names[part], counts, strict=True) if count]
    return found
