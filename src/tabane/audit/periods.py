"""Times as a person gives them in queries on the audit log: ``today``, ``7d``, or a date; pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.text.time_zones import bound

_AGO = re.compile(r"([0-9]{1,6}) ?(s|min|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DAYS = {"today": 0, "yesterday": 1}


def moment_of(text: str, zone: tzinfo, now: float, parameter: str, *, end: bool) -> float:
    """Return one end of a period in seconds since 1970 UTC.

    ``7d`` is that long before ``now``; the units are s, m, h, d and w. ``today``, ``yesterday`` and a date
    are the beginning of that day, or its end with ``end``. Raises BadArguments that names the parameter.
    """
    text = text.strip()
    if text == "now":
        return now
    if ago := _AGO.fullmatch(text):
        return now - int(ago[1]) * _SECONDS[ago[2]]
    if text in _DAYS:
        text = (datetime.fromtimestamp(now, zone).date() - timedelta(days=_DAYS[text])).isoformat()
    try:
        return bound(text, zone, parameter, end=end)
    except (BadArguments, OverflowError, OSError):
        raise BadArguments(
            say(
                "{parameter}: {text} is not a time. Use a date such as 2026-11-22, a time in ISO 8601, "
                "today, yesterday, or a time ago such as 30m, 24h or 7d.",
                parameter=parameter,
                text=repr(text[:100]),
            ),
            parameter,
        ) from None


def day_of(moment: float, zone: tzinfo) -> str:
    """Return the day of a time as an ISO date."""
    return datetime.fromtimestamp(moment, zone).date().isoformat()


def time_in(moment: float | None, zone: tzinfo) -> str | None:
    """Return a time in ISO 8601 with milliseconds; None for None."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, zone).isoformat(timespec="milliseconds")
