"""Posts as values and as records of a collection, and their times; pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Literal

import msgspec

from tabane import posts
from tabane.search.records import Field, Kind, Record, Shape, TextField
from tabane.text.time_zones import seconds_since_1970

DOMAIN = posts.DOMAIN

SPACES = ("content", "reasoning", "summary")
"""The texts of a post that have vectors, each in its own space. Weights come in this order."""

DUPLICATE_FIELD = "twin"
"""The stored field of :func:`duplicate_key`. Existing archives have it under this name."""

SHAPE = Shape(
    posts.COLLECTION,
    (TextField("content"), TextField("reasoning"), TextField("summary")),
    (
        Field("user", Kind.STRING),
        Field("name", Kind.STRING),
        Field("at", Kind.DATE),
        Field("log_type", Kind.NUMBER),
        Field("tags", Kind.STRINGS),
        Field(DUPLICATE_FIELD, Kind.STRING),
        Field("has", Kind.STRINGS),
    ),
)
"""``user`` is :func:`comparable_user`, ``name`` the spelling of the user.

``has`` names the non-empty texts.
"""

POST, LIKE, BOOKMARK = 1, 2, 3
"""Values of ``log_type``. If two rows have the same post, the larger value is kept."""


class Post(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One post. ``timestamp`` is kept as given; ``at`` is the same time in seconds since 1970 UTC.

    ``user`` is spelled as in the URL of the post, and empty if the URL has none. A model wrote
    ``reasoning``, ``summary`` and ``tags`` for search.
    """

    post_id: int
    content: str
    timestamp: str = ""
    url: str = ""
    user: str = ""
    log_type: int = POST
    at: float | None = None
    reasoning: str = ""
    summary: str = ""
    tags: tuple[str, ...] = ()


class _PostPayload(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of a post's record: the parts that are not texts or fields."""

    timestamp: str = ""
    url: str = ""
    user: str = ""


def comparable_user(user: str) -> str:
    """Return a user name for comparison: without a leading @, and case-folded."""
    return user.removeprefix("@").casefold()


def duplicate_key(post: Post) -> str:
    """Return the same key for posts of one user with the same content, and for no others."""
    text = f"{comparable_user(post.user)}\0{post.content}".encode("utf-8", "replace")
    return hashlib.blake2b(text, digest_size=12).hexdigest()


def record_of(post: Post, vectors: dict[str, bytes] | None = None) -> Record:
    """Return the post as a record of :data:`SHAPE`. ``vectors``: space → float32, little-endian."""
    texts = {"content": post.content, "reasoning": post.reasoning, "summary": post.summary}
    return Record(
        key=str(post.post_id),
        texts=texts,
        fields={
            "user": comparable_user(post.user),
            "name": post.user,
            "log_type": post.log_type,
            "tags": post.tags,
            DUPLICATE_FIELD: duplicate_key(post),
            "has": tuple(name for name in SPACES if texts[name]),
            **({} if post.at is None else {"at": post.at}),
        },
        payload=msgspec.json.encode(_PostPayload(post.timestamp, post.url, post.user)),
        vectors=vectors or {},
    )


def post_of(record: Record) -> Post:
    """Return the post of a record."""
    rest = msgspec.json.decode(record.payload, type=_PostPayload)
    fields, texts = record.fields, record.texts
    at, tags, log_type = fields.get("at"), fields.get("tags"), fields.get("log_type")
    return Post(
        post_id=int(record.key),
        content=texts.get("content", ""),
        timestamp=rest.timestamp,
        url=rest.url,
        user=rest.user,
        log_type=int(log_type) if isinstance(log_type, int | float) else POST,
        at=at if isinstance(at, int | float) else None,
        reasoning=texts.get("reasoning", ""),
        summary=texts.get("summary", ""),
        tags=tags if isinstance(tags, tuple) else (),
    )


# A URL ends at the first non-ASCII character, because Japanese text follows without a space.
_ADDRESS = re.compile(r"(?:https?://|(?<![\w.])www\.)(?:[!-~]+|\S+)", re.IGNORECASE)
# After a letter, a digit or one of these characters, an @ belongs to an e-mail address.
_MENTION = re.compile(r"(?<![A-Za-z0-9_.%+/@＠-])[@＠][A-Za-z0-9_]+(?:@[A-Za-z0-9_.-]+)?")


def cleaned(text: str) -> str:
    """Return the text without URLs and @names, and with single spaces. #tags stay.

    If the result is empty, there is nothing to embed.
    """
    return " ".join(_MENTION.sub(" ", _ADDRESS.sub(" ", text)).split())


Unit = Literal["year", "month", "day"]


def periods(first: float, last: float, unit: Unit, zone: tzinfo) -> tuple[list[str], list[float]]:
    """Return the names of the years, months or days between two times, and their bounds, one more."""
    day = datetime.fromtimestamp(first, zone).date()
    end = datetime.fromtimestamp(last, zone).date()
    names: list[str] = []
    bounds: list[float] = []
    for begin in _period_starts(day, unit):
        bounds.append(seconds_since_1970(datetime(begin.year, begin.month, begin.day), zone))
        if begin > end:
            return names, bounds
        names.append(begin.isoformat()[: {"year": 4, "month": 7, "day": 10}[unit]])
    raise AssertionError("days do not end")


def _period_starts(day: date, unit: Unit) -> Iterator[date]:
    """Yield the first day of each period, beginning with the period of ``day``."""
    day = day.replace(month=1, day=1) if unit == "year" else day.replace(day=1) if unit == "month" else day
    while True:
        yield day
        if unit == "day":
            day += timedelta(days=1)
        else:
            over = unit == "year" or day.month == 12
            day = day.replace(year=day.year + over, month=1 if over else day.month + 1)


_EPOCH_OF_IDS = 1_288_834_974_657  # milliseconds since 1970: ids of X count from here, above 22 other bits
_FIRST_SUCH_ID = 1 << 34  # ids before November 2010 were assigned one by one and contain no time
_OF_X = re.compile(
    r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) (\d{1,2}) (\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d) (\d{4})", re.ASCII
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def timestamp_of(text: str, zone: tzinfo) -> float | None:
    """Return seconds since 1970 of a time as twilog or ISO 8601 writes it. None if it is not a time.

    A time without a zone is in ``zone``. Slashes and a missing time of day are accepted.
    """
    try:
        moment = datetime.fromisoformat(text.strip().replace("/", "-"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError):
        return None


def timestamp_of_x(text: str) -> float | None:
    """Return seconds since 1970 of ``Wed Oct 10 20:19:24 +0000 2018`` or ISO 8601. None if it is neither."""
    match = _OF_X.fullmatch(text.strip())
    if match is None or match[1] not in _MONTHS:
        return timestamp_of(text, UTC)
    _, day, hour, minute, second, sign, hours, minutes, year = match.groups()
    ahead = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    try:
        return datetime(
            int(year), _MONTHS.index(match[1]) + 1, int(day), int(hour), int(minute), int(second),
            tzinfo=timezone(ahead),
        ).timestamp()  # fmt: skip
    except ValueError:
        return None


def timestamp_of_id(post_id: int) -> float | None:
    """Return the time at which X assigned the id. None for old ids, which contain no time."""
    return ((post_id >> 22) + _EPOCH_OF_IDS) // 1000 if post_id >= _FIRST_SUCH_ID else None


def twilog_time(seconds: float, zone: tzinfo) -> str:
    """Format the time as twilog writes it, in that zone."""
    return datetime.fromtimestamp(seconds, zone).strftime("%Y-%m-%d %H:%M:%S")
