"""Links that sign one browser in, once."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

LASTS = 120.0
"""Seconds that a link can be used."""

MOST = 16
"""Links that wait to be used; a further one replaces the oldest."""


class SignInLinks:
    """The codes of links that were not used yet. ``clock`` returns seconds that never go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ends: dict[bytes, float] = {}

    def make(self) -> str:
        """Return a new code."""
        self._drop_old()
        while len(self._ends) >= MOST:
            del self._ends[next(iter(self._ends))]
        code = secrets.token_urlsafe(24)
        self._ends[_hash(code)] = self._clock() + LASTS
        return code

    def use(self, code: str) -> bool:
        """Return whether the code was valid. It is not, from now on."""
        self._drop_old()
        return self._ends.pop(_hash(code), None) is not None

    def _drop_old(self) -> None:
        now = self._clock()
        self._ends = {hashed: end for hashed, end in self._ends.items() if end > now}


def _hash(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).digest()
