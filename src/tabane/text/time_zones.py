"""Time zones, and the bounds of a period as a person writes them; pure.

A zone is a name of the time zone database, an offset (``+09:00``), ``UTC``, or empty for the zone of this
machine.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo

from tabane.errors import BadArguments, ConfigurationError
from tabane.messages import say

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
    from zoneinfo import ZoneInfo  # most settings name no zone

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
        return seconds_since_1970(moment + _LAST if day and end else moment, zone)
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


def seconds_since_1970(moment: datetime, zone: tzinfo) -> float:
    """Return seconds since 1970 UTC. A time without a zone is in ``zone``."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
