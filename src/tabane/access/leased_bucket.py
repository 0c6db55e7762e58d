"""Token buckets of a group of hubs: each takes tokens in small batches, and returns those it does not use.

A batch takes one round trip to the place that the hubs share. A call takes none while its hub has tokens.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from tabane.access.token_bucket import EPSILON, TokenBucket
from tabane.errors import TabaneError
from tabane.settings.limit_rules import CallRate

log = logging.getLogger(__name__)

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
        return not self.tokens and self._refilling is None and self._alone.is_full(now)

    async def refill(self, ledger: TokenLedger, calls: CallRate, clock: Callable[[], float]) -> None:
        """Take a batch, at most one at a time. Who waits shares it."""
        if self._refilling is None:
            self._refilling = asyncio.ensure_future(self._refilled(ledger, calls, clock))
        self.waiting += 1
        try:
            await asyncio.shield(self._refilling)
        finally:
            self.waiting -= 1

    async def _refilled(self, ledger: TokenLedger, calls: CallRate, clock: Callable[[], float]) -> None:
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
        """Take out the tokens that were not used for a while, and return how many."""
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
