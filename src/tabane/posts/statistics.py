"""Statistics of the whole archive, counted once and updated with later changes."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from datetime import tzinfo
from typing import NamedTuple, cast

from msgspec import Struct, field

from tabane.posts.post import Unit, comparable_user, periods, post_of
from tabane.search.engine import Collection as Posts
from tabane.search.engine import Order
from tabane.search.records import EVERYTHING, And, Equal, Filter, Range
from tabane.text.nearest_names import closest

SUGGESTED = 5
_MOST_PERIODS = 90_000
_MOST_TAGS = 200_000  # the most frequent ones are listed
_FEW = 100  # up to so many changed users, inserting each is faster than sorting all


class PostAuthor(Struct, frozen=True):
    """An author of posts in the archive, in the spelling that most of the posts have."""

    name: str
    posts: int


class TagCount(NamedTuple):
    """A tag, and the number of posts that have it."""

    name: str
    posts: int


class Census(Struct, frozen=True):
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
        """Return whether the archive has posts of this user."""
        return bool(comparable_user(name)) and comparable_user(name) in self.counts


class Users:
    """Users by folded name: all their posts together, under the most frequent spelling.

    Updated from one tally of spellings to the next by the changed counts only.
    """

    def __init__(self) -> None:
        self._spellings: Mapping[str, int] = {}
        self._groups: dict[str, dict[str, int]] = {}
        self._users: dict[str, PostAuthor] = {}
        self._ranked: list[PostAuthor] = []

    def follow(self, spellings: Mapping[str, int]) -> tuple[PostAuthor, ...]:
        """Return the users of that tally, most posts first."""
        changed = [name for name, count in spellings.items() if self._spellings.get(name) != count]
        changed += [name for name in self._spellings if name not in spellings]
        for name in changed:
            self._groups.setdefault(comparable_user(name), {})[name] = spellings.get(name, 0)
        self._rank_changed({comparable_user(name) for name in changed} - {""})
        self._spellings = spellings
        return tuple(self._ranked)

    def _rank_changed(self, names: Collection[str]) -> None:
        """Rank the changed users: insert them one by one if they are few, otherwise sort all."""
        sort_all = len(names) > _FEW
        for name in names:
            before, after = self._users.pop(name, None), None
            spellings = {spelling: count for spelling, count in self._groups[name].items() if count}
            if spellings:
                spelled = min(spellings, key=lambda spelling: (-spellings[spelling], spelling))
                after = PostAuthor(spelled, sum(spellings.values()))
            self._groups[name] = spellings
            if before is not None and not sort_all:
                del self._ranked[bisect_left(self._ranked, _sort_key(before), key=_sort_key)]
            if after is None:
                del self._groups[name]
                continue
            self._users[name] = after
            if not sort_all:
                insort(self._ranked, after, key=_sort_key)
        if sort_all:
            self._ranked = sorted(self._users.values(), key=_sort_key)


def _sort_key(user: PostAuthor) -> tuple[int, str]:
    return -user.posts, user.name


class Statistics:
    """The census of one collection, kept until the next write."""

    def __init__(self) -> None:
        self._counting = asyncio.Lock()
        self._census: tuple[Posts, int, Census] | None = None
        self._users = Users()
        self._tags: tuple[Posts, int, Sequence[TagCount]] | None = None

    async def tags(self, collection: Posts) -> Sequence[TagCount]:
        """Return the tags, those of most posts first; at most 200,000."""
        changes = collection.changes
        if self._tags is None or self._tags[:2] != (collection, changes):
            async with self._counting:
                counts = cast("dict[str, int]", await collection.tally("tags", EVERYTHING))
                by_count = await asyncio.to_thread(
                    sorted, counts.items(), key=lambda entry: (-entry[1], entry[0])
                )
                self._tags = (collection, changes, [TagCount(*entry) for entry in by_count[:_MOST_TAGS]])
        return self._tags[2]

    async def census(self, collection: Posts) -> Census:
        """Return the census, with every write that was acknowledged before the call."""
        async with self._counting:
            changes = collection.changes
            if self._census is None or self._census[:2] != (collection, changes):
                self._census = (collection, changes, await counted(collection, self._users))
            return self._census[2]


async def counted(collection: Posts, users: Users) -> Census:
    """Count the collection as it is now. ``users`` are those of the last count, which are updated."""
    counts = cast("dict[str, int]", await collection.tally("user", EVERYTHING))
    spellings = cast("dict[str, int]", await collection.tally("name", EVERYTHING))
    ends: list[tuple[float, str]] = []  # of the first and the last post with a known time
    for descending in (False, True):
        page = await collection.select(Range("at"), order=(Order("at", descending),), limit=1)
        posts = (post_of(stored.record) for stored in page.records)
        ends += [(post.at or 0.0, post.timestamp) for post in posts]
    return Census(
        posts=await collection.count(EVERYTHING),
        users=users.follow(spellings),
        counts=counts,
        summaries=await collection.count(Equal("has", "summary")),
        tags=len(await collection.tally("tags", EVERYTHING)),
        earliest=ends[0][1] if ends else None,
        latest=ends[-1][1] if ends else None,
        span=(ends[0][0], ends[-1][0]) if ends else None,
    )


async def suggested(census: Census, names: Sequence[str]) -> dict[str, list[str]]:
    """Return, for each unknown name, the five most similar names by Levenshtein ratio, best first."""
    missing = [name for name in dict.fromkeys(names) if not census.knows(name)]
    return await asyncio.to_thread(_nearest_names, [user.name for user in census.users], missing)


def _nearest_names(users: Sequence[str], missing: Sequence[str]) -> dict[str, list[str]]:
    names = [comparable_user(user) for user in users]
    return {
        name: [users[place] for place in closest(comparable_user(name), names, SUGGESTED)] for name in missing
    }


async def timeline(
    collection: Posts, where: Filter, span: tuple[float, float] | None, unit: Unit, zone: tzinfo
) -> list[tuple[str, int]]:
    """Count the posts of each year, month or day, in order. Empty periods are left out."""
    if span is None:
        return []
    names, bounds = periods(*span, unit, zone)
    counted_periods: list[tuple[str, int]] = []
    # Neighboring parts share the bound between them.
    for first in range(0, len(names), _MOST_PERIODS):
        part = slice(first, first + _MOST_PERIODS)
        inside = And((where, Range("at")))
        counts = await collection.histogram("at", bounds[first : first + _MOST_PERIODS + 1], inside)
        counted_periods += [(name, count) for name, count in zip(names[part], counts, strict=True) if count]
    return counted_periods
