"""When a post was made, out of what is written of it; pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo

_EPOCH_OF_IDS = 1_288_834_974_657  # milliseconds since 1970: ids of X count from here, 22 bits below
_FIRST_SUCH_ID = 1 << 34  # ids before November 2010 were given one by one and hold no time
_OF_X = re.compile(
    r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) (\d{1,2}) (\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d) (\d{4})", re.ASCII
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def moment(text: str, zone: tzinfo) -> float | None:
    """Seconds since 1970 of a time as twilog or ISO 8601 writes it, None where it is none.

    A time that names no zone is meant in ``zone``; slashes and a missing time of day are accepted.
    """
    try:
        found = datetime.fromisoformat(text.strip().replace("/", "-"))
        return (found if found.tzinfo else found.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError):
        return None


def moment_of_x(text: str) -> float | None:
    """Seconds since 1970 of ``Wed Oct 10 20:19:24 +0000 2018``, or of ISO 8601; None where it is neither."""
    found = _OF_X.fullmatch(text.strip())
    if found is None or found[1] not in _MONTHS:
        return moment(text, UTC)
    _, day, hour, minute, second, sign, hours, minutes, year = found.groups()
    ahead = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    try:
        return datetime(
            int(year), _MONTHS.index(found[1]) + 1, int(day), int(hour), int(minute), int(second),
            tzinfo=timezone(ahead),
        ).timestamp()  # fmt: skip
    except ValueError:
        return None


def moment_of_id(post_id: int) -> float | None:
    """When X gave the id, None where it is too old to say."""
    return ((post_id >> 22) + _EPOCH_OF_IDS) // 1000 if post_id >= _FIRST_SUCH_ID else None


def written(seconds: float, zone: tzinfo) -> str:
    """The moment as twilog writes it, in that zone."""
    return datetime.fromtimestamp(seconds, zone).strftime("%Y-%m-%d %H:%M:%S")
