"""When a post was written: timestamps as they are given, the zone they mean, and days as bounds; pure.

A zone is a name of the time zone database, an offset (``+09:00``), ``UTC``, or empty: the machine's.
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
    """The zone that this machine is in, with its summer times."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        if moment is None:
            return None
        try:
            return moment.replace(tzinfo=None).astimezone().utcoffset()
        except (OverflowError, ValueError, OSError):
            return timedelta(0)  # at the ends of what the platform can tell

    def dst(self, moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        return None if moment is None else moment.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, moment: datetime) -> datetime:
        return moment.replace(tzinfo=UTC).astimezone().replace(tzinfo=self)


def zone_of(name: str) -> tzinfo:
    """The zone of that name, the machine's own where it is empty. Raises :class:`ConfigurationError`."""
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
    """One end of a span of time (``2024-03-15 14:30:25``, ISO 8601) in seconds since 1970 UTC.

    What names no zone is in ``zone``. A day without a time (``20240315``, ``2024-3-5``) is its begin, or
    its last moment where ``end``. Raises :class:`BadArguments` that names the parameter.
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
    """The moment, and whether it stands for a whole day. Raises ValueError."""
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
    """The years, months or days from one moment to another: their names, and their bounds, one more."""
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
    """The first days of that unit, from the one that ``day`` is in."""
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
