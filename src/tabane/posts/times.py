"""Times of posts: timestamps, times in post ids, and periods; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Literal

from tabane.text.time_zones import seconds_since_1970

Unit = Literal["year", "month", "day"]


def periods(first: float, last: float, unit: Unit, zone: tzinfo) -> tuple[list[str], list[float]]:
    """Return the names of the years, months or days between two times, and their bounds, one more."""
    day = datetime.fromtimestamp(first, zone).date()
    end = datetime.fromtimestamp(last, zone).date()
    names: list[str] = []
    bounds: list[float] = []
    for begin in _begins(day, unit):
        bounds.append(seconds_since_1970(datetime(begin.year, begin.month, begin.day), zone))
        if begin > end:
            return names, bounds
        names.append(_name(begin, unit))
    raise AssertionError("days do not end")


def _begins(day: date, unit: Unit) -> Iterator[date]:
    """Yield the first day of each period, beginning with the period of ``day``."""
    day = day.replace(month=1, day=1) if unit == "year" else day.replace(day=1) if unit == "month" else day
    while True:
        yield day
        if unit == "day":
            day += timedelta(days=1)
        else:
            over = unit == "year" or day.month == 12
            day = day.replace(year=day.year + over, month=1 if over else day.month + 1)


def _name(day: date, unit: Unit) -> str:
    return day.isoformat()[: {"year": 4, "month": 7, "day": 10}[unit]]


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
        found = datetime.fromisoformat(text.strip().replace("/", "-"))
        return (found if found.tzinfo else found.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError):
        return None


def timestamp_of_x(text: str) -> float | None:
    """Return seconds since 1970 of ``Wed Oct 10 20:19:24 +0000 2018`` or ISO 8601. None if it is neither."""
    found = _OF_X.fullmatch(text.strip())
    if found is None or found[1] not in _MONTHS:
        return timestamp_of(text, UTC)
    _, day, hour, minute, second, sign, hours, minutes, year = found.groups()
    ahead = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    try:
        return datetime(
            int(year), _MONTHS.index(found[1]) + 1, int(day), int(hour), int(minute), int(second),
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
