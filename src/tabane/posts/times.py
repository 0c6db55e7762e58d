"""Times of posts: timestamps, times in post ids, time zones, bounds of filters, and periods; pure.

A zone is a name of the time zone database, an offset (``+09:00``), ``UTC``, or empty for the zone of this
machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Literal
from zoneinfo import ZoneInfo

from tabane.errors import BadArguments, ConfigurationError
from tabane.messages import say

Unit = Literal["year", "month", "day"]

_DAY = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})|([0-9]{4})([0-9]{2})([0-9]{2})")
_TIME = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})[ T]+([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2}))?")
_OFFSET = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})")
_LAST = timedelta(days=1, microseconds=-1)


class Machine(tzinfo):
    """The time zone of this machine, with daylight saving time."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        if moment is None:
            return None
        try:
            return moment.replace(tzinfo=None).astimezone().utcoffset()
        except (OverflowError, ValueError, OSError):
            return timedelta(0)  # outside the range that the platform supports

    def dst(self, moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        return None if moment is None else moment.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, moment: datetime) -> datetime:
        return moment.replace(tzinfo=UTC).astimezone().replace(tzinfo=self)


def zone_of(name: str) -> tzinfo:
    """Return the zone of that name, or of this machine if it is empty. Raises :class:`ConfigurationError`."""
    if not name:
        return Machine()
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        if offset := _OFFSET.fullmatch(name):
            ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
            return timezone(-ahead if offset[1] == "-" else ahead)
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        raise ConfigurationError(
            say(
                'posts_zone: "{name}" is not a time zone. Use a name such as Asia/Tokyo, or an '
                "offset such as +09:00.",
                name=name,
            )
        ) from None


def bound(text: str, zone: tzinfo, parameter: str, *, end: bool) -> float:
    """Parse one end of a period (``2024-03-15 14:30:25``, ISO 8601). Return seconds since 1970 UTC.

    A text without a zone is in ``zone``. A day without a time (``20240315``, ``2024-3-5``) is the beginning
    of the day, or its last microsecond with ``end``. Raises :class:`BadArguments` that names the parameter.
    """
    try:
        moment, day = _read(text)
        return _since_1970(moment + _LAST if day and end else moment, zone)
    except ValueError:
        raise BadArguments(
            say(
                "{parameter}: {text} is not a date. Use YYYY-MM-DD HH:MM:SS, YYYY-MM-DD, YYYYMMDD "
                "or ISO 8601.",
                parameter=parameter,
                text=repr(text[:100]),
            ),
            parameter,
        ) from None


def _read(text: str) -> tuple[datetime, bool]:
    """Return the time, and whether it means a whole day. Raises ValueError."""
    text = text.strip()
    if day := _DAY.fullmatch(text):
        year, month, number = (int(part) for part in day.groups() if part is not None)
        return datetime(year, month, number), True
    if time := _TIME.fullmatch(text):
        return datetime(*(int(part or 0) for part in time.groups())), False  # type: ignore[arg-type]
    moment = datetime.fromisoformat(text)
    try:
        date.fromisoformat(text)
    except ValueError:
        return moment, False
    return moment, True


def _since_1970(moment: datetime, zone: tzinfo) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()


def periods(first: float, last: float, unit: Unit, zone: tzinfo) -> tuple[list[str], list[float]]:
    """Return the names of the years, months or days between two times, and their bounds, one more."""
    day = datetime.fromtimestamp(first, zone).date()
    end = datetime.fromtimestamp(last, zone).date()
    names: list[str] = []
    bounds: list[float] = []
    for begin in _begins(day, unit):
        bounds.append(_since_1970(datetime(begin.year, begin.month, begin.day), zone))
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
