"""The ``Retry-After`` header: how long a server asks to wait; pure. Source: RFC 9110, 10.2.3 and 5.6.7."""

from __future__ import annotations

import calendar
import math
import re
import time

LONGEST = 366 * 86_400.0
"""Seconds. A longer wait is cut to this one, so that it cannot overflow a timer or a date."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_ZONE = r"(?:GMT|UTC|UT|(?P<zone>[+-]\d{4}))"
_FORMS = tuple(
    re.compile(form, re.ASCII | re.IGNORECASE)
    for form in (
        rf"(?:[a-z]{{3}}, ?)?(?P<day>\d\d?) (?P<month>[a-z]{{3}}) (?P<year>\d{{4}}) {_CLOCK} {_ZONE}",
        rf"[a-z]{{6,9}}, ?(?P<day>\d\d)-(?P<month>[a-z]{{3}})-(?P<year>\d\d) {_CLOCK} {_ZONE}",
        rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[ \d]\d) {_CLOCK} (?P<year>\d{{4}})",
    )
)
"""Date formats: of today's servers, of RFC 850 (obsolete), and of C's asctime, which is in GMT too."""


def retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds to wait, 0 to :data:`LONGEST`; None if the header is absent or invalid.

    ``now`` is the Unix time, from which a date is counted. A date that is over is 0.
    """
    text = (value or "").strip(" \t")
    if text.isascii() and text.isdigit():
        digits = text.lstrip("0")
        return min(float(digits or "0"), LONGEST) if len(digits) < 10 else LONGEST
    then = http_date(text, now)
    return None if then is None else min(max(0.0, then - now), LONGEST)


def retry_header(seconds: float) -> bytes:
    """Return the header's value: whole seconds, so that who waits that long has waited long enough."""
    return b"%d" % min(max(1, math.ceil(seconds)), int(LONGEST))


def http_date(text: str, now: float) -> float | None:
    """Return the Unix time of an HTTP date in any of its three forms; None if it is not one.

    A year of two digits is the one nearest below ``now`` plus 50 years, as RFC 9110 asks.
    """
    for form in _FORMS:
        if found := form.fullmatch(text):
            return _unix_time(found, now)
    return None


def _unix_time(found: re.Match[str], now: float) -> float | None:
    parts = found.groupdict()
    if parts["month"].lower() not in _MONTHS:
        return None
    month, day = _MONTHS.index(parts["month"].lower()) + 1, int(parts["day"])
    hour, minute, second = (int(parts[name]) for name in ("hour", "minute", "second"))
    year = int(parts["year"])
    if len(parts["year"]) == 2:
        newest = time.gmtime(now).tm_year + 50
        year += (newest - year) // 100 * 100
    if not (year >= 1 and 1 <= day <= calendar.monthrange(year, month)[1]):
        return None
    if hour > 23 or minute > 59 or second > 60:  # 60 is a leap second
        return None
    return float(calendar.timegm((year, month, day, hour, minute, second)) - _offset(parts.get("zone")))


def _offset(zone: str | None) -> int:
    """Return the seconds by which a zone such as ``+0900`` is ahead of GMT."""
    if zone is None:
        return 0
    return int(f"{zone[0]}1") * (int(zone[1:3]) * 3600 + int(zone[3:]) * 60)
