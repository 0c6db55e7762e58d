"""When a server that declined is worth another try, and when it wants to be asked again."""

from __future__ import annotations

import time
from collections.abc import Mapping

AGAIN = (408, 425, 429, 500, 502, 503, 504, 529)
"""Statuses after which the same request may be answered."""


def asked_pause(headers: Mapping[str, str]) -> float:
    """Return the seconds of a Retry-After, which is a number or a date; 0 if there is none."""
    asked = headers.get("Retry-After", "").strip()
    if asked.isdigit():
        return float(asked)
    from email.utils import parsedate_to_datetime  # takes long to import, and few servers answer with dates

    try:
        return max(parsedate_to_datetime(asked).timestamp() - time.time(), 0.0)
    except ValueError:
        return 0.0
