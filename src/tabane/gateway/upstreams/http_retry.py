"""How often one HTTP request may be sent again, and after how long; pure.

Sent again is what was surely not acted on, and what is safe to send twice. Everything else is the
caller's to decide, who alone knows whether doing it twice does harm.
"""

from __future__ import annotations

BUSY = frozenset({408, 425, 429, 502, 503, 504})
"""Statuses that may be gone at the next try."""

_NOT_BEGUN = frozenset({408, 425, 429})
_MOST_WAIT = 5.0
_FIRST_WAIT = 0.5
_TRIES = 2
_RENEWALS = 2


class HttpRetryPolicy:
    """What is left of the tries of one request. ``safe`` means that it may be sent twice."""

    __slots__ = ("_breaks", "_renewals", "_safe", "_tries", "_waited")

    def __init__(self, safe: bool) -> None:
        self._safe = safe
        self._breaks = 1 if safe else 0
        self._tries = _TRIES
        self._renewals = _RENEWALS
        self._waited = 0.0

    def survives_break(self) -> bool:
        """Whether it is sent again after the connection broke: once, where that is safe."""
        self._breaks -= 1
        return self._breaks >= 0

    def survives_expiry(self) -> bool:
        """Whether it is sent again in a new session, as the old one was not known any more."""
        self._renewals -= 1
        return self._renewals >= 0

    def wait(self, status: int, retry_after: float | None) -> float | None:
        """Seconds to wait after a busy server's answer; None where it is not sent again.

        A 503 that says when to come back was not begun; one without, like 502 and 504, may be the word
        of something in between that lost the connection.
        """
        begun = status not in _NOT_BEGUN and not (status == 503 and retry_after is not None)
        delay = _FIRST_WAIT * (1 + _TRIES - self._tries) if retry_after is None else max(0.05, retry_after)
        if (begun and not self._safe) or not self._tries or self._waited + delay > _MOST_WAIT:
            return None
        self._tries -= 1
        self._waited += delay
        return delay
