"""Limits of calls: rates, places and turns, with an injected clock."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.access.limits import (
    FEW_HOLDERS,
    KEPT_FOR,
    LONGEST_PAUSE,
    MOST_HOLDERS,
    REFUSALS,
    CallLimits,
    CallTurn,
)
from tabane.errors import RateLimited
from tabane.settings.limit_rules import DEFAULT_RULES, TIERS, CallCap, CallRate, LimitRules, TierLimits


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Limited:
    """Limits with rules that a test can change."""

    def __init__(self, *caps: CallCap, **tiers: TierLimits) -> None:
        self.clock = Clock()
        self.rules = LimitRules({**TIERS, **tiers}, caps)
        self.limits = CallLimits(self.clock, lambda: self.rules)

    def enter(
        self, holder: str = "key:a", tier: str = "one", tool: str = "git__log", server: str = "git"
    ) -> CallTurn:
        return self.limits.enter(holder, tier, tool, server)

    def refused(self, *given: str) -> RateLimited:
        with pytest.raises(RateLimited) as caught:
            self.enter(*given)
        return caught.value

    def row(self, holder: str = "key:a") -> dict[str, Any]:
        return next(row for row in self.limits.report() if row["holder"] == holder)


def places(concurrency: int | None = None, **others: Any) -> TierLimits:
    return TierLimits(None, concurrency, **others)


# -- rates -------------------------------------------------------------------------------------------


def test_the_local_user_is_unlimited_and_nothing_is_kept_of_it() -> None:
    limits = CallLimits(Clock(), lambda: DEFAULT_RULES)
    first, second = (limits.enter("local", "local", "git__log", "git") for _ in range(2))
    assert first is second
    assert first.waits is None
    first.leave()
    assert len(limits) == 0


def test_a_call_beyond_the_burst_is_refused_and_succeeds_after_the_wait() -> None:
    limited = Limited(one=TierLimits(CallRate(3, 2.0)))
    for _ in range(3):
        limited.enter()
    error = limited.refused()
    assert error.retry_after == pytest.approx(0.5)
    limited.clock.now += error.retry_after
    limited.enter()
    limited.refused()


def test_the_error_names_the_limit_and_when_to_try_again() -> None:
    limited = Limited(one=TierLimits(CallRate(1, 0.1)))
    limited.enter()
    assert str(limited.refused()) == (
        "Too many calls: the limit of the tier one is 1 call at once, then 6 a minute. Try again in 10 s."
    )


def test_holders_have_tokens_of_their_own() -> None:
    limited = Limited(one=TierLimits(CallRate(1, 0.1)))
    limited.enter("key:a")
    limited.refused("key:a")
    limited.enter("key:b")


def test_a_tier_that_does_not_exist_has_the_limits_of_the_default_tier() -> None:
    limited = Limited()
    turns = [limited.enter(tier="gone") for _ in range(8)]
    for turn in turns:
        turn.leave()
    assert limited.row()["burst"] == 100


def test_a_refused_call_takes_no_token_of_any_bucket() -> None:
    cap = CallCap("tool", "git__*", CallRate(1, 0.1), per="key")
    limited = Limited(cap, one=TierLimits(CallRate(10, 0.1)))
    limited.enter()
    for _ in range(20):
        limited.refused()
    assert limited.row()["tokens"] == 9
    assert limited.row()["refused"] == 20
    limited.enter(tool="time__now", server="time")


def test_a_limit_of_tools_counts_the_tools_of_its_pattern_for_all_callers() -> None:
    limited = Limited(CallCap("tool", "git__*", CallRate(2, 0.01)))
    limited.enter("key:a", "local", "git__log")
    limited.enter("key:a", "local", "git__diff")
    limited.enter("key:a", "local", "time__now", "time")
    limited.refused("key:a", "local", "git__log")
    limited.clock.now += 101
    limited.enter("key:b", "local", "git__diff")
    assert "the tools git__*" in str(limited.refused("key:b", "local", "git__diff"))


def test_a_limit_of_a_server_can_count_each_caller_on_its_own() -> None:
    limited = Limited(CallCap("server", "git", CallRate(1, 0.01), per="key"))
    limited.enter("key:a", "local")
    assert "the server git" in str(limited.refused("key:a", "local"))
    limited.enter("key:b", "local")


def test_changed_rules_apply_to_the_next_call() -> None:
    limited = Limited(one=TierLimits(CallRate(1, 0.1)))
    limited.enter()
    limited.refused()
    limited.rules = limited.rules._replace(tiers={**TIERS, "one": TierLimits(CallRate(100, 10.0))})
    limited.clock.now += limited.refused().retry_after
    assert limited.clock.now == pytest.approx(1000.1)
    limited.enter()
    limited.clock.now += 1
    limited.rules = limited.rules._replace(caps=(CallCap("tool", "*", CallRate(1, 0.1)),))
    limited.enter()
    limited.refused()
    limited.rules = limited.rules._replace(caps=())
    limited.enter()


Steps = st.lists(
    st.tuples(st.sampled_from(["key:a", "key:b"]), st.floats(0, 2, allow_nan=False)), max_size=120
)


@given(Steps, st.integers(1, 20), st.floats(0.1, 50, allow_nan=False))
def test_no_holder_gets_more_than_its_rate(steps: list[tuple[str, float]], burst: int, rate: float) -> None:
    limited = Limited(one=TierLimits(CallRate(burst, rate)))
    begun = limited.clock.now
    entered = {"key:a": 0, "key:b": 0}
    for holder, step in steps:
        limited.clock.now += step
        try:
            limited.enter(holder)
            entered[holder] += 1
        except RateLimited as error:
            limited.clock.now += error.retry_after
            limited.enter(holder)
            entered[holder] += 1
        assert max(entered.values()) <= burst + rate * (limited.clock.now - begun) + 0.01


# -- places and turns --------------------------------------------------------------------------------


async def test_a_call_without_a_place_waits_for_one() -> None:
    limited = Limited(one=places(1))
    first, second = limited.enter(), limited.enter()
    assert first.waits is None
    assert second.waits is not None
    waiting = asyncio.ensure_future(second.waits)
    await asyncio.sleep(0)
    assert not waiting.done()
    assert limited.row()["waiting"] == 1
    first.leave()
    await waiting
    assert limited.row()["in_flight"] == 1
    second.leave()
    assert limited.row()["in_flight"] == 0


async def test_a_full_queue_refuses() -> None:
    limited = Limited(one=places(1, queue=2))
    turns = [limited.enter() for _ in range(3)]
    error = limited.refused()
    assert error.retry_after > 0
    assert "1 is running and 2 are waiting" in str(error)
    turns[1].leave()
    limited.enter().leave()
    for turn in turns:
        turn.leave()
    assert limited.enter().waits is None


async def test_a_holder_that_floods_waits_behind_its_own_calls() -> None:
    limited = Limited(CallCap("server", "git", None, 1), one=places(queue=1000))
    order: list[str] = []

    async def call(turn: CallTurn, name: str) -> None:
        if turn.waits is not None:
            await turn.waits
        order.append(name)
        turn.leave()

    running = limited.enter("key:flood")
    flood = [call(limited.enter("key:flood"), "flood") for _ in range(50)]
    other = [call(limited.enter("key:other"), "other") for _ in range(3)]
    local = [call(limited.enter("local", "local"), "local")]
    tasks = [asyncio.ensure_future(one) for one in (*flood, *other, *local)]
    running.leave()
    await asyncio.gather(*tasks)
    assert order[:7] == ["flood", "other", "local", "flood", "other", "flood", "other"]


async def test_calls_that_wait_at_one_server_do_not_hold_up_another() -> None:
    limited = Limited(one=places(4, server_concurrency=2))
    slow = [limited.enter() for _ in range(10)]
    assert sum(turn.waits is None for turn in slow) == 2
    assert limited.enter(tool="time__now", server="time").waits is None


async def test_a_canceled_wait_frees_its_place_in_the_queue() -> None:
    limited = Limited(one=places(1, queue=1))
    first, second = limited.enter(), limited.enter()
    assert second.waits is not None
    waiting = asyncio.ensure_future(_awaited(second))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert limited.row()["waiting"] == 0
    third = limited.enter()
    first.leave()
    assert third.waits is not None
    await third.waits
    third.leave()
    second.leave()
    assert limited.row()["in_flight"] == 0


async def _awaited(turn: CallTurn) -> None:
    """Wait for a turn without leaving it: as if its caller had been careless."""
    assert turn.waits is not None
    await turn.waits


async def test_a_call_that_waits_too_long_is_refused() -> None:
    limited = Limited(one=places(1, wait=0.001))
    first, second = limited.enter(), limited.enter()
    assert second.waits is not None
    with pytest.raises(RateLimited, match="waited"):
        await second.waits
    second.leave()
    first.leave()
    assert limited.row()["in_flight"] == limited.row()["waiting"] == 0
    assert limited.row()["refused"] == 1


async def test_more_places_take_effect_when_the_next_call_ends() -> None:
    limited = Limited(one=places(1))
    turns = [limited.enter() for _ in range(4)]
    limited.rules = limited.rules._replace(tiers={**TIERS, "one": places(3)})
    turns.append(limited.enter())
    turns[0].leave()
    for turn in turns[1:4]:
        assert turn.waits is not None
        await turn.waits
    for turn in turns:
        turn.leave()
    assert limited.row()["in_flight"] == 0


HOLDERS, SERVERS = ("key:a", "key:b", "local"), ("git", "time")
Moves = st.lists(
    st.tuples(
        st.sampled_from(["enter", "leave", "cancel", "leave twice"]),
        st.sampled_from(HOLDERS),
        st.sampled_from(SERVERS),
        st.integers(0, 50),
    ),
    max_size=80,
)


@given(Moves, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 5))
async def test_every_turn_gives_back_what_it_took(
    moves: list[tuple[str, str, str, int]], each: int, own: int, shared: int, queue: int
) -> None:
    limited = Limited(
        CallCap("server", "git", None, shared),
        CallCap("tool", "time__*", None, own, "key"),
        one=places(each, server_concurrency=own, queue=queue),
    )
    turns: list[tuple[str, str, CallTurn]] = []
    for what, holder, server, which in moves:
        if what == "enter":
            _enter(limited, turns, holder, server, queue)
        elif turns:
            await _end(what, turns.pop(which % len(turns))[2])
        _check_places(limited, turns, each, own, shared)
    for *_, turn in turns:
        turn.leave()
    _check_empty(limited)


def _enter(
    limited: Limited, turns: list[tuple[str, str, CallTurn]], holder: str, server: str, queue: int
) -> None:
    try:
        turn = limited.enter(holder, _tier(holder), f"{server}__x", server)
        turns.append((holder, server, turn))
    except RateLimited:
        assert limited.row(holder)["waiting"] >= queue


async def _end(what: str, turn: CallTurn) -> None:
    if what == "cancel" and isinstance(turn.waits, asyncio.Future) and not turn.waits.done():
        turn.waits.cancel()
        await asyncio.sleep(0)
        return
    turn.leave()
    if what == "leave twice":
        turn.leave()


def _tier(holder: str) -> str:
    return "local" if holder == "local" else "one"


def _check_empty(limited: Limited) -> None:
    """Check that nothing is in flight, and that every call can begin at once."""
    for row in limited.limits.report():
        assert (row["in_flight"], row["waiting"]) == (0, 0)
    for holder in HOLDERS:
        for server in SERVERS:
            turn = limited.enter(holder, _tier(holder), f"{server}__x", server)
            assert turn.waits is None
            turn.leave()


def _check_places(
    limited: Limited, turns: list[tuple[str, str, CallTurn]], each: int, own: int, shared: int
) -> None:
    inside = [(holder, server) for holder, server, turn in turns if _is_inside(turn)]
    assert sum(server == "git" for _, server in inside) <= shared
    for holder in HOLDERS:
        mine = [server for one, server in inside if one == holder]
        if holder != "local":
            assert len(mine) <= each
            assert all(mine.count(server) <= own for server in SERVERS)
        assert mine.count("time") <= own


def _is_inside(turn: CallTurn) -> bool:
    waits = turn.waits
    return waits is None or (isinstance(waits, asyncio.Future) and waits.done() and not waits.cancelled())


# -- what is remembered ------------------------------------------------------------------------------


@pytest.mark.heavy("input that is expensive on purpose")
def test_a_million_holders_are_not_remembered() -> None:
    limited = Limited(one=TierLimits(CallRate(1000, 1000.0)))
    for number in range(200_000):
        limited.clock.now += 0.001
        limited.enter(f"key:{number}").leave()
    assert len(limited.limits) <= FEW_HOLDERS + 10


def test_holders_with_empty_buckets_are_bounded_too() -> None:
    limited = Limited(one=TierLimits(CallRate(1, 0.001)))
    for number in range(MOST_HOLDERS + 1000):
        limited.enter(f"key:{number}").leave()
    assert len(limited.limits) <= MOST_HOLDERS


def test_a_holder_with_calls_in_flight_is_never_forgotten() -> None:
    limited = Limited(one=TierLimits(CallRate(1000, 1000.0), 100))
    turn = limited.enter("key:busy")
    for number in range(3 * FEW_HOLDERS):
        limited.clock.now += KEPT_FOR
        limited.enter(f"key:{number}").leave()
    assert limited.row("key:busy")["in_flight"] == 1
    turn.leave()


def test_a_forgotten_holder_is_treated_the_same() -> None:
    limited = Limited(one=TierLimits(CallRate(2, 1.0)))
    limited.enter("key:a").leave()
    limited.clock.now += KEPT_FOR + 1
    limited.enter("key:b")
    assert [row["holder"] for row in limited.limits.report()] == ["key:b"]
    limited.enter("key:a")
    limited.enter("key:a")
    limited.refused("key:a")


def test_refusals_beyond_a_rate_are_held_back() -> None:
    limited = Limited(one=TierLimits(CallRate(1, 0.1)))
    limited.enter()
    pauses = [limited.refused().pause for _ in range(1000)]
    assert pauses[: REFUSALS.burst] == [0.0] * REFUSALS.burst
    assert 0 < pauses[REFUSALS.burst] <= pauses[-1] <= LONGEST_PAUSE
    assert pauses[REFUSALS.burst : 200] == sorted(pauses[REFUSALS.burst : 200])
    assert len(set(pauses[600:])) > 300
    limited.enter("key:other")
    assert limited.refused("key:other").pause == 0


def test_a_caller_that_waits_after_a_refusal_is_never_held_back() -> None:
    limited = Limited(one=TierLimits(CallRate(1, 10.0)))
    for _ in range(1000):
        limited.enter()
        error = limited.refused()
        assert error.pause == 0
        limited.clock.now += error.retry_after
