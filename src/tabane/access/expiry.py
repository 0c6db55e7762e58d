"""Times at which keys expire: parsing of ``90d``, ``12h``, ``2w``, ISO dates and ``never``; pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from tabane.errors import BadArguments
from tabane.messages import say

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 365 * 86_400}
_duration = re.compile(r"([0-9]{1,6})\s*([mhdwy])").fullmatch

FURTHEST = 100 * _SECONDS["y"]
"""Seconds until the latest expiry."""


def expiry_of(text: str, now: float) -> float | None:
    """Return the time at which a key expires, in Unix seconds; None for ``never``.

    A date without a time is its end in UTC. Raises BadArguments.
    """
    given = text.strip().lower()
    if given == "never":
        return None
    duration = _duration(given)
    when = now + int(duration[1]) * _SECONDS[duration[2]] if duration else _date(text.strip())
    if when <= now:
        raise BadArguments(say("expires: {given} is in the past.", given=text[:50]), "expires")
    if when > now + FURTHEST:
        raise BadArguments(
            say("expires: {given} is more than 100 years away. Use never.", given=text[:50]), "expires"
        )
    return float(when)


def _date(text: str) -> float:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise BadArguments(
            say(
                "expires: {given} is not understood. Write 90d, 12h, 2w, 1y, a date such as 2027-01-31, "
                "or never.",
                given=ascii(text[:50]),
            ),
            "expires",
        ) from None
    if len(text) <= len("2027-01-31"):
        when = when.replace(hour=23, minute=59, second=59)
    try:
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (OverflowError, ValueError):
        return float("-inf") if when.year < 1970 else float("inf")


def iso(time: float | None) -> str | None:
    """Return a Unix time as ISO 8601 in UTC, to the second."""
    if time is None:
        return None
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
