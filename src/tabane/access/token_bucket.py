"""Token buckets: how many calls may begin, by an injected clock.

A group of hubs shares a bucket: each takes tokens in small batches, and returns those it does not use.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from tabane.errors import TabaneError
from tabane.settings.limit_rules import CallRate

log = logging.getLogger(__name__)

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
        """Return whether the bucket is full."""
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
        sharer = self._sharer_of(now, calls, holder)
        return max(self._whole.wait(now, calls), sharer.bucket.wait(now, calls, len(self._asked)))

    def take(self, now: float, calls: CallRate, holder: str) -> None:
        """Take a token for this caller. :meth:`wait` returned 0 for it."""
        self._whole.take(now, calls)
        self._sharer_of(now, calls, holder).bucket.take(now, calls, len(self._asked))

    def tokens(self, now: float, calls: CallRate) -> float:
        """Return the number of tokens left for all callers together."""
        return self._whole.tokens(now, calls)

    def _sharer_of(self, now: float, calls: CallRate, holder: str) -> _Sharer:
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


SLOW = 1.0
"""Seconds that a call waits for tokens of the group."""

IDLE = 2.0
"""Seconds after the last call of a bucket, after which its tokens are given back."""

AWAY = 2.0
"""Seconds for which a hub applies a limit by itself after the shared place could not be reached."""


class TokenGrant(NamedTuple):
    """Tokens that a hub was given. If there are none, ``wait`` is in seconds until there is one."""

    tokens: int
    wait: float = 0.0


class TokenLedger(Protocol):
    """Keeps the buckets that the hubs of a group share. Raises StoreError if it cannot be reached."""

    async def take(self, name: str, calls: CallRate, most: int) -> TokenGrant:
        """Take up to so many tokens of a bucket."""
        ...

    async def give_back(self, name: str, calls: CallRate, tokens: int) -> None:
        """Return tokens that were not used."""
        ...


def granted(full_at: float, now: float, calls: CallRate, most: int) -> tuple[TokenGrant, float]:
    """Return the tokens that a bucket gives, and the time at which it is full then; pure.

    ``full_at`` and ``now`` are of one clock: see :class:`~tabane.access.token_bucket.TokenBucket`.
    """
    full_at = max(full_at, now)
    there = calls.burst - (full_at - now) * calls.rate
    tokens = min(most, math.floor(there + EPSILON * calls.rate + 1e-9))
    if tokens < 1:
        return TokenGrant(0, (1 - there) / calls.rate), full_at
    return TokenGrant(tokens), full_at + tokens / calls.rate


class LeasedBucket:
    """The tokens of one bucket that this hub has. ``name`` is the same at every hub."""

    __slots__ = (
        "_alone",
        "_alone_until",
        "_refilling",
        "_refused_until",
        "_used",
        "calls",
        "name",
        "tokens",
        "waiting",
    )

    def __init__(self, *named: str) -> None:
        self.name = hashlib.sha256("\0".join(named).encode()).hexdigest()[:32]
        self.tokens = self.waiting = 0
        self.calls: CallRate | None = None
        self._used = self._refused_until = self._alone_until = -math.inf
        self._alone = TokenBucket()
        self._refilling: asyncio.Task[None] | None = None

    def lacks(self, now: float) -> bool:
        """Return whether it has no token, and it is not known that there is none."""
        return not self.tokens and now >= max(self._refused_until, self._alone_until)

    def wait(self, now: float, calls: CallRate) -> float:
        """Return the seconds until a token is there; 0 if one is there now."""
        self.calls = calls
        if now < self._alone_until:
            return self._alone.wait(now, calls)
        return 0.0 if self.tokens else max(0.0, self._refused_until - now)

    def take(self, now: float, calls: CallRate) -> None:
        """Take a token. :meth:`wait` returned 0 for it."""
        self._used = now
        if now < self._alone_until:
            self._alone.take(now, calls)
        else:
            self.tokens -= 1

    def is_full(self, now: float) -> bool:
        """Return whether a new bucket would be treated the same: this hub holds no tokens of it."""
        return not self.tokens and self._refilling is None and self._alone.is_full(now)

    async def refill(self, ledger: TokenLedger, calls: CallRate, clock: Callable[[], float]) -> None:
        """Take a batch, at most one at a time. Who waits shares it."""
        if self._refilling is None:
            self._refilling = asyncio.ensure_future(self._take_batch(ledger, calls, clock))
        self.waiting += 1
        try:
            await asyncio.shield(self._refilling)
        finally:
            self.waiting -= 1

    async def _take_batch(self, ledger: TokenLedger, calls: CallRate, clock: Callable[[], float]) -> None:
        await asyncio.sleep(0)  # calls that come in the same moment are counted
        try:
            async with asyncio.timeout(SLOW):
                grant = await ledger.take(self.name, calls, max(batch_of(calls), self.waiting))
        except (TabaneError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            log.warning("a limit is applied by this hub alone for now: %s", reason)
            self._alone_until = clock() + AWAY
        else:
            self.tokens += grant.tokens
            if not grant.tokens:
                self._refused_until = clock() + grant.wait
        finally:
            self._refilling = None

    def unused(self, now: float) -> int:
        """Remove the tokens that were not used for a while, and return how many."""
        if now - self._used < IDLE or self._refilling is not None:
            return 0
        tokens, self.tokens = self.tokens, 0
        return tokens


def batch_of(calls: CallRate) -> int:
    """Return how many tokens a hub takes at once: for half a second, and an eighth of all at most."""
    return max(1, min(calls.burst // 8, int(calls.rate / 2)))


async def return_unused(ledger: TokenLedger, buckets: Iterable[LeasedBucket], now: float) -> None:
    """Give back the tokens that are not used. Raises StoreError."""
    for bucket in buckets:
        tokens = bucket.unused(now)
        if tokens and bucket.calls is not None:
            await ledger.give_back(bucket.name, bucket.calls, tokens)
