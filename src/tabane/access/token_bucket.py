"""Token buckets: how many calls may begin, by an injected clock; pure."""

from __future__ import annotations

import math
from collections import OrderedDict

from tabane.settings.limit_rules import CallRate

EPSILON = 1e-6
"""Seconds by which a call may come early: what floating point loses."""

MOST_SHARERS = 4096
"""Callers of a shared bucket that are remembered."""

_SHORTEST_WINDOW, _LONGEST_WINDOW = 1.0, 60.0


class TokenBucket:
    """A bucket of tokens. It keeps one number: the time at which it is full again.

    In any time ``t`` it gives at most ``burst + rate · t`` tokens. Its rate is given with each call, so a
    changed setting applies at once. The same as the generic cell rate algorithm (ITU-T I.371, annex A).
    """

    __slots__ = ("_full_at",)

    def __init__(self) -> None:
        self._full_at = -math.inf

    def wait(self, now: float, calls: CallRate, share: int = 1) -> float:
        """Return the seconds until a token is there; 0 if one is there now.

        ``share`` divides burst and rate by the number of callers that share them.
        """
        burst = max(1.0, calls.burst / share)
        seconds = (max(self._full_at, now) - now) - (burst - 1.0) * share / calls.rate
        return seconds if seconds > EPSILON else 0.0

    def take(self, now: float, calls: CallRate, share: int = 1) -> None:
        """Take a token. :meth:`wait` returned 0 for it."""
        self._full_at = max(self._full_at, now) + share / calls.rate

    def give_back(self, calls: CallRate, share: int = 1) -> None:
        """Return a token that was not used."""
        self._full_at -= share / calls.rate

    def tokens(self, now: float, calls: CallRate) -> float:
        """Return the number of tokens left."""
        return min(float(calls.burst), max(0.0, calls.burst - max(0.0, self._full_at - now) * calls.rate))

    def is_full(self, now: float) -> bool:
        return self._full_at <= now


class SharedBucket:
    """A bucket that several callers use. None of them can empty it for the others.

    While ``n`` callers ask for tokens, each gets at most an n-th of burst and rate. A caller that has not
    asked for the time in which the bucket fills (1 to 60 seconds) no longer counts.
    """

    __slots__ = ("_asked", "_whole")

    def __init__(self) -> None:
        self._whole = TokenBucket()
        self._asked: OrderedDict[str, _Sharer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._asked)

    def wait(self, now: float, calls: CallRate, holder: str) -> float:
        """Return the seconds until this caller can have a token; 0 if it can now."""
        sharer = self._sharer(now, calls, holder)
        return max(self._whole.wait(now, calls), sharer.bucket.wait(now, calls, len(self._asked)))

    def take(self, now: float, calls: CallRate, holder: str) -> None:
        self._whole.take(now, calls)
        self._sharer(now, calls, holder).bucket.take(now, calls, len(self._asked))

    def tokens(self, now: float, calls: CallRate) -> float:
        """Return the number of tokens left for all callers together."""
        return self._whole.tokens(now, calls)

    def _sharer(self, now: float, calls: CallRate, holder: str) -> _Sharer:
        sharer = self._asked.get(holder)
        if sharer is None:
            sharer = self._asked[holder] = _Sharer()
        sharer.asked = now
        self._asked.move_to_end(holder)
        oldest = now - min(max(calls.burst / calls.rate, _SHORTEST_WINDOW), _LONGEST_WINDOW)
        while len(self._asked) > MOST_SHARERS or next(iter(self._asked.values())).asked < oldest:
            self._asked.popitem(last=False)
        return sharer


class _Sharer:
    """One caller of a shared bucket, and when it last asked."""

    __slots__ = ("asked", "bucket")

    def __init__(self) -> None:
        self.asked = 0.0
        self.bucket = TokenBucket()
