"""Filters of posts by user, date, tag and kind: as requested, and for the engine; pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import tzinfo
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.operations.parameter_errors import decoder_message
from tabane.posts.post import BOOKMARK, LIKE, POST, comparable_user
from tabane.search.filters import EVERYTHING, And, Filter, In, Not, Range
from tabane.text.time_zones import bound

MOST_NAMES = 1_000
LONGEST_NAME = 200

_unknown = re.compile(r"unknown field `(.*)`", re.DOTALL).search

Name = Annotated[str, Meta(max_length=LONGEST_NAME)]
Names = Annotated[list[Name], Meta(max_length=MOST_NAMES)]
Count = Annotated[int, Meta(ge=0)]
LogType = Literal["post", "like", "bookmark", 1, 2, 3]

LOG_TYPES: Mapping[str | int, int] = {
    "post": POST, "like": LIKE, "bookmark": BOOKMARK, POST: POST, LIKE: LIKE, BOOKMARK: BOOKMARK,
}  # fmt: skip


class UserFilter(Struct, frozen=True, forbid_unknown_fields=True):
    """Whose posts. ``excludes`` counts without ``includes`` alone; thresholds are of posts in the archive."""

    includes: Names | None = None
    excludes: Names | None = None
    threshold_min: Count | None = None
    threshold_max: Count | None = None


class DateFilter(Struct, frozen=True, forbid_unknown_fields=True, rename={"since": "from", "until": "to"}):
    """Posts of when, both ends included."""

    since: Annotated[str, Meta(max_length=LONGEST_NAME)] | None = None
    until: Annotated[str, Meta(max_length=LONGEST_NAME)] | None = None


class PostFilters(Struct, frozen=True):
    """Filters of a search. ``shared`` has the same result for duplicates, ``own`` may differ between them."""

    shared: Filter = EVERYTHING
    own: Filter = EVERYTHING

    @property
    def all(self) -> Filter:
        return And((self.shared, self.own))

    def narrowed(self, *, shared: Filter = EVERYTHING, own: Filter = EVERYTHING) -> PostFilters:
        return PostFilters(And((self.shared, shared)), And((self.own, own)))


T = TypeVar("T", bound=Struct)


def read(kind: type[T], given: Mapping[str, Any] | None, parameter: str) -> T:
    """Convert a filter to its struct. Raises :class:`BadArguments` that names the path."""
    try:
        return msgspec.convert(given or {}, kind)
    except msgspec.ValidationError as error:
        # msgspec ends its messages with " - at `$.path`". They name an unknown member.
        detail, _, path = str(error).partition(" - at `$")
        member = _unknown(detail)
        whole = parameter + path.rstrip("`") + (f".{member[1][:LONGEST_NAME]}" if member else "")
        said = say("{parameter}: {detail}", parameter=whole, detail=decoder_message(detail))
        raise BadArguments(said, whole) from None


def by_user(wanted: UserFilter, counts: Mapping[str, int]) -> Filter:
    """Select posts of those users. ``counts``: number of posts of each in the archive, by folded name.

    For thresholds, a post without a user belongs to a user with 0 posts.
    """
    parts: list[Filter] = []
    if wanted.includes:
        parts.append(In("user", tuple(dict.fromkeys(map(comparable_user, wanted.includes)))))
    elif wanted.excludes:
        parts.append(Not(In("user", tuple(dict.fromkeys(map(comparable_user, wanted.excludes))))))
    if wanted.threshold_min is not None or wanted.threshold_max is not None:
        least = wanted.threshold_min or 0
        most = max(counts.values(), default=0) if wanted.threshold_max is None else wanted.threshold_max
        fits = {name for name, count in counts.items() if least <= (count if name else 0) <= most}
        parts.append(among("user", fits, counts))
    return And(tuple(parts))


def among(field: str, wanted: Collection[str], known: Collection[str]) -> Filter:
    """Select records whose value is in ``wanted``, or exclude the other ``known`` values if they are fewer.

    A record without the field, or with a value added meanwhile, may match or not.
    """
    if 2 * len(wanted) <= len(known):
        return In(field, tuple(wanted))
    return Not(In(field, tuple(value for value in known if value not in wanted)))


def by_date(wanted: DateFilter, zone: tzinfo) -> Filter:
    """Select posts of that period, without posts of unknown time. Raises :class:`BadArguments`."""
    low = _bound(wanted.since, zone, "date_filter.from", end=False)
    high = _bound(wanted.until, zone, "date_filter.to", end=True)
    return EVERYTHING if low is None and high is None else Range("at", low, high)


def _bound(text: str | None, zone: tzinfo, parameter: str, *, end: bool) -> float | None:
    return None if text is None else bound(text, zone, parameter, end=end)


def by_tags(tags: Collection[str] | None) -> Filter:
    """Select posts that have one of the tags."""
    return In("tags", tuple(tags)) if tags else EVERYTHING


def by_log_type(kinds: Collection[LogType] | None) -> Filter:
    """Select posts, likes or bookmarks."""
    return In("log_type", tuple(sorted({LOG_TYPES[kind] for kind in kinds}))) if kinds else EVERYTHING
