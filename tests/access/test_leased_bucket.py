"""Hubs of a group keep the limits of a caller together, and ask the shared place once for many calls."""

from __future__ import annotations

import asyncio

import pytest

from tabane.access.limits import CallLimits
from tabane.access.token_bucket import IDLE, TokenGrant, batch_of, granted
from tabane.errors import RateLimited, StoreError
from tabane.messages import say
from tabane.settings.limit_rules import TIERS, CallRate, LimitRules, TierLimits
from tests.access.test_limits import Clock

RULES = LimitRules({**TIERS, "one": TierLimits(CallRate(80, 8.0))}, ())


class SharedBuckets:
    """The shared place, in this process. It may be ``away`` or ``silent``."""

    silent = False

    def __init__(self, clock: Clock) -> None:
        self._clock, self.full_at, self.asked, self.away = clock, dict[str, float](), 0, False

    async def take(self, name: str, calls: CallRate, most: int) -> TokenGrant:
        self.asked += 1
        if self.silent:
            await asyncio.Event().wait()
        if self.away:
            raise StoreError(say("the database is away"))
        grant, self.full_at[name] = granted(self.full_at.get(name, 0.0), self._clock(), calls, most)
        return grant

    async def give_back(self, name: str, calls: CallRate, tokens: int) -> None:
        self.full_at[name] -= tokens / calls.rate


def hub(clock: Clock, shared: SharedBuckets) -> CallLimits:
    limits = CallLimits(clock, lambda: RULES)
    limits.ledger = shared
    return limits


async def entered(limits: CallLimits, holder: str = "key:a") -> bool:
    """Whether a call may begin. Its turn ends at once."""
    try:
        turn = limits.enter(holder, "one", "git__log", "git")
        if turn.waits is not None:
            await turn.waits
    except RateLimited as error:
        return not error.retry_after > 0
    turn.leave()
    return True


def test_a_bucket_gives_what_is_there_and_says_when_there_is_more() -> None:
    calls = CallRate(10, 2.0)
    assert granted(0.0, 100.0, calls, 4) == (TokenGrant(4), 102.0)
    assert granted(102.0, 100.0, calls, 20) == (TokenGrant(6), 105.0)
    assert granted(105.0, 100.0, calls, 1) == (TokenGrant(0, 0.5), 105.0)
    assert granted(105.0, 100.5, calls, 5) == (TokenGrant(1), 105.5)
    assert [batch_of(CallRate(*given)) for given in ((1, 0.1), (80, 8.0), (80, 1000.0))] == [1, 4, 10]


async def test_two_hubs_keep_a_limit_together_with_few_questions() -> None:
    clock = Clock()
    shared = SharedBuckets(clock)
    hubs = hub(clock, shared), hub(clock, shared)
    answers = [await entered(hubs[number % 2]) for number in range(100)]
    assert answers.count(True) == 80
    assert shared.asked <= 80 // batch_of(CallRate(80, 8.0)) + 2
    asked = shared.asked
    assert not await entered(hubs[0])
    assert shared.asked == asked, "it is known that there is none"
    clock.now += 1.0
    assert [await entered(hubs[number % 2]) for number in range(20)].count(True) == 8
    assert await entered(hubs[0], "key:b"), "another caller has a limit of its own"
    at_once = await asyncio.gather(*(entered(hubs[1], "key:c") for _ in range(100)))
    assert at_once.count(True) == 80


async def test_unused_tokens_are_given_back() -> None:
    clock = Clock()
    shared = SharedBuckets(clock)
    first, second = hub(clock, shared), hub(clock, shared)
    assert await entered(first)
    assert [await entered(second) for _ in range(80)].count(True) == 76
    await first.return_unused()
    assert not await entered(second), "it may be used at once"
    clock.now += IDLE
    await first.return_unused()
    assert [await entered(second) for _ in range(80)].count(True) == 3 + 8 * IDLE


async def test_a_hub_keeps_the_limit_alone_while_the_shared_place_is_away() -> None:
    clock = Clock()
    shared = SharedBuckets(clock)
    limits = hub(clock, shared)
    shared.away = True
    assert [await entered(limits) for _ in range(100)].count(True) == 80
    assert shared.asked == 1
    shared.away = False
    clock.now += 100.0
    assert await entered(limits)
    assert shared.asked == 2


async def test_a_hub_does_not_wait_long_for_a_shared_place_that_is_silent() -> None:
    clock = Clock()
    shared = SharedBuckets(clock)
    shared.silent = True
    alone = hub(clock, shared)
    assert await entered(alone)
    assert await entered(alone)
    assert shared.asked == 1


async def test_a_call_that_gives_up_while_tokens_are_taken_leaves_nothing() -> None:
    clock = Clock()
    limits = hub(clock, SharedBuckets(clock))
    turn = limits.enter("key:a", "one", "git__log", "git")
    turn.leave()
    assert turn.waits is not None
    with pytest.raises(asyncio.CancelledError):
        await turn.waits
    assert await entered(limits)
    [row] = limits.report()
    assert (row["in_flight"], row["waiting"]) == (0, 0)
