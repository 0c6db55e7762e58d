"""Answers after which a model server is worth another try, and the pause that it asks for."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tabane.wire.retry_after import retry_after

AGAIN = (408, 425, 429, 500, 502, 503, 504, 529)
"""Statuses after which the same request may be answered."""


def asked_pause(headers: Mapping[str, str]) -> float:
    """Return the seconds that a server asks to wait with Retry-After; 0 if it does not."""
    return retry_after(headers.get("Retry-After"), time.time()) or 0.0
