"""What is known of the whole archive: counted once, and what was written since is added to it."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import cast

from tabane.posts.post import comparable_user, post_of
from tabane.posts.times import Unit, periods
from tabane.search.engine import Collection as Posts
from tabane.search.engine import Order
from tabane.search.filters import EVERYTHING, And, Equal, Filter, Range
from tabane.text.nearest_names import closest

SUGGESTED = 5
_MOST_PERIODS = 90_000
_FEW = 100  # users who are sooner put in their places than all are sorted


@dataclass(frozen=True, slots=True)
class PostAuthor:
    """Who has posts in the archive, in the spelling that most of them have."""

    name: str
    posts: int


@dataclass(frozen=True, slots=True)
class Census:
    """The archive at one moment. ``users`` are sorted by number of posts; ``counts`` is by folded name.

    Posts without a user are counted under the empty name. ``tags`` is the number of distinct tags.
    ``earliest`` and ``latest`` are timestamps as given, of posts whose time is known.
    """

    posts: int = 0
    users: tuple[PostAuthor, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    summaries: int = 0
    tags: int = 0
    earliest: str | None = None
    latest: str | None = None
    span: tuple[float, float] | None = None

    def knows(self, name: str) -> bool:
        return bool(comparable_user(name)) and comparable_user(name) in self.counts


class Users:
    """Users by folded name: all their posts together, under the most frequent spelling.

    Brought from one tally of spellings to the next by those that have another count.
    """

    def __init__(self) -> None:
        self._spellings: Mapping[str, int] = {}
        self._groups: dict[str, dict[str, int]] = {}
        self._users: dict[str, PostAuthor] = {}
        self._ranked: list[PostAuthor] = []

    def follow(self, spellings: Mapping[str, int]) -> tuple[PostAuthor, ...]:
        """The users of that tally, most posts first."""
        changed = [name for name, count in spellings.items() if self._spellings.get(name) != count]
        changed += [name for name in self._spellings if name not in spellings]
        for name in changed:
            self._groups.setdefault(comparable_user(name), {})[name] = spellings.get(name, 0)
        self._rank({comparable_user(name) for name in changed} - {""})
        self._spellings = spellings
        return tuple(self._ranked)

    def _rank(self, names: Collection[str]) -> None:
        """Put users who changed where they belong: one by one where they are few."""
        anew = len(names) > _FEW
        for name in names:
            before, after = self._users.pop(name, None), _user(self._groups[name])
            if before is not None and not anew:
                del self._ranked[bisect_left(self._ranked, _place(before), key=_place)]
            if after is None:
                del self._groups[name]
                continue
            self._users[name] = after
            if not anew:
                insort(self._ranked, after, key=_place)
        if anew:
            self._ranked = sorted(self._users.values(), key=_place)


def _place(user: PostAuthor) -> tuple[int, str]:
    return -user.posts, user.name


def _user(spellings: dict[str, int]) -> PostAuthor | None:
    """One user by the spellings of the name, of which those without posts are taken out."""
    for name in [name for name, count in spellings.items() if not count]:
        del spellings[name]
    if not spellings:
        return None
    spelt = min(spellings, key=lambda name: (-spellings[name], name))
    return PostAuthor(spelt, sum(spellings.values()))


class Statistics:
    """The census of one collection, kept until the next write."""

    def __init__(self, collection: Callable[[], Awaitable[Posts]]) -> None:
        self._collection = collection
        self._counting = asyncio.Lock()
        self._known: tuple[Posts, int, Census] | None = None
        self._users = Users()

    async def census(self) -> Census:
        """As of the last write that was acknowledged when it was asked for."""
        collection = await self._collection()
        known = self._current(collection)
        if known is None:
            async with self._counting:
                known = self._current(collection)
                if known is None:
                    changes = collection.changes
                    known = await counted(collection, self._users)
                    self._known = (collection, changes, known)
        return known

    def _current(self, collection: Posts) -> Census | None:
        if self._known is None:
            return None
        of, changes, census = self._known
        return census if of is collection and changes == collection.changes else None


async def counted(collection: Posts, users: Users) -> Census:
    """What the collection tells now; ``users`` are those of the last time, or none."""
    counts = cast("dict[str, int]", await collection.tally("user", EVERYTHING))
    spellings = cast("dict[str, int]", await collection.tally("name", EVERYTHING))
    ends = [await _end(collection, descending) for descending in (False, True)]
    known = [end for end in ends if end is not None]
    return Census(
        posts=await collection.count(EVERYTHING),
        users=users.follow(spellings),
        counts=counts,
        summaries=await collection.count(Equal("has", "summary")),
        tags=len(await collection.tally("tags", EVERYTHING)),
        earliest=known[0][1] if known else None,
        latest=known[-1][1] if known else None,
        span=(known[0][0], known[-1][0]) if known else None,
    )


async def _end(collection: Posts, descending: bool) -> tuple[float, str] | None:
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
    known = [comparable_user(user) for user in users]
    return {
        name: [users[place] for place in closest(comparable_user(name), known, SUGGESTED)] for name in missing
    }


async def timeline(
    collection: Posts, where: Filter, span: tuple[float, float] | None, unit: Unit, zone: tzinfo
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
