"""Limits of calls: token buckets and concurrency by caller, tool and server, and fair turns.

Every call enters here before it begins, and leaves when it ends. A call of a tier without limits costs one
look-up. Nothing here knows the hub.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from tabane.access.gates import CallGate, GatedCall, GateTable
from tabane.access.table import RateLimitStats
from tabane.access.token_bucket import LeasedBucket, SharedBucket, TokenBucket, TokenLedger, return_unused
from tabane.errors import RateLimited
from tabane.messages import Message, say
from tabane.operations.caller import Caller
from tabane.settings.limit_rules import CallCap, CallRate, LimitRules, TierLimits

if TYPE_CHECKING:
    from tabane.access.keys import KeyRing

MOST_HOLDERS = 16_384
"""Callers that are remembered. Beyond that, the one that has not called for longest is forgotten."""

FEW_HOLDERS = 1024
"""Up to this number, a caller is remembered for :data:`KEPT_FOR`, for the statistics."""

KEPT_FOR = 3600.0
"""Seconds."""

MOST_PLANS = 4096
"""Names of tools for which the limits that apply are remembered."""

REFUSALS = CallRate(20, 50.0)
"""Refusals of one caller that are answered at once. Others are held back, and it is not read on."""

LONGEST_PAUSE = 10.0
"""Seconds that a refusal may be held back: less than the time after which clients give up."""

RETRY_WHEN_FULL = 1.0
"""Seconds after which a call may be tried again that found the queue full."""


class CallTurn:
    """The turn of a call. Await ``waits``, if there is something, before the call begins.

    ``waits`` raises RateLimited if the turn did not come in time. Cancel what awaits it to give up.
    """

    __slots__ = ()

    @property
    def waits(self) -> Awaitable[None] | None:
        """An awaitable that is done when the call may begin; None if it may begin now."""
        return None

    def leave(self) -> None:
        """End the turn. Only the first call has an effect."""


FREE = CallTurn()
"""The turn of each call that has no limits."""


class LimitedTurn(GatedCall, CallTurn):
    """The turn of a call of a holder with limits."""

    __slots__ = ("_limited", "_timer", "_waits")

    def __init__(self, limited: LimitedHolder, gates: tuple[CallGate, ...]) -> None:
        super().__init__(limited.name, gates)
        self._limited: LimitedHolder | None = limited
        self._waits: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> Awaitable[None] | None:
        return self._waits

    def wait(self, seconds: float) -> None:
        """Wait until all gates are passed, so long at most."""
        loop = asyncio.get_running_loop()
        self._waits = loop.create_future()
        self._waits.add_done_callback(self._leave_if_canceled)
        self._timer = loop.call_later(seconds, self._expire, seconds)
        if self._limited is not None:
            self._limited.waiting += 1

    def entered(self) -> None:
        """Let the call begin: it waits no longer."""
        if self._limited is not None:
            self._limited.waiting -= 1
        if self._timer is not None:
            self._timer.cancel()
        if self._waits is not None and not self._waits.done():
            self._waits.set_result(None)

    def leave(self) -> None:
        limited, self._limited = self._limited, None
        if limited is None:
            return
        limited.in_flight -= 1
        if not self.inside:
            limited.waiting -= 1
        if self._timer is not None:
            self._timer.cancel()
        if self._waits is not None and not self._waits.done():
            self._waits.cancel()
        super().leave()

    def _leave_if_canceled(self, waits: asyncio.Future[None]) -> None:
        if waits.cancelled():
            self.leave()

    def _expire(self, seconds: float) -> None:
        if self._limited is not None and self._waits is not None and not self._waits.done():
            self._limited.refused += 1
            message = say(
                "Too many calls at the same time: this call waited {seconds} s for its turn and was not "
                "started.",
                seconds=f"{seconds:.3g}",
            )
            self._waits.set_exception(RateLimited(message, RETRY_WHEN_FULL))
        self.leave()


class DeferredTurn(CallTurn):
    """The turn of a call for which the hub has to take tokens from the place that hubs share.

    ``begin`` returns the real turn then, or raises RateLimited.
    """

    __slots__ = ("_turn", "_work")

    def __init__(self, begin: Callable[[], Awaitable[CallTurn]]) -> None:
        self._turn: CallTurn | None = None
        self._work = asyncio.ensure_future(self._begin_turn(begin))

    @property
    def waits(self) -> Awaitable[None] | None:
        return self._work

    async def _begin_turn(self, begin: Callable[[], Awaitable[CallTurn]]) -> None:
        self._turn = await begin()
        if self._turn.waits is not None:
            await self._turn.waits

    def leave(self) -> None:
        self._work.cancel()
        if self._turn is not None:
            self._turn.leave()


class LimitedHolder:
    """State of one holder: its buckets, gates and counts."""

    __slots__ = (
        "bucket", "buckets", "gates", "in_flight", "leased", "name", "refusals", "refused", "tier", "used",
        "waiting",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name, self.tier = name, ""
        self.bucket = TokenBucket()
        self.refusals = TokenBucket()
        self.buckets: dict[CallCap, TokenBucket] = {}
        self.leased: dict[CallCap | None, LeasedBucket] = {}
        self.gates = GateTable(256)
        self.used = 0.0
        self.in_flight = self.waiting = self.refused = 0

    def is_idle(self, now: float) -> bool:
        """Return whether a new holder would be treated the same."""
        full = self.bucket.is_full(now) and self.refusals.is_full(now)
        own = all(one.is_full(now) for one in self.buckets.values())
        return not self.in_flight and full and own and all(one.is_full(now) for one in self.leased.values())


class _Charge(NamedTuple):
    """A bucket that a call takes a token from. ``cap`` is None for that of the tier."""

    bucket: TokenBucket | SharedBucket | LeasedBucket
    calls: CallRate
    cap: CallCap | None = None

    def wait(self, now: float, holder: str) -> float:
        bucket = self.bucket
        if isinstance(bucket, SharedBucket):
            return bucket.wait(now, self.calls, holder)
        return bucket.wait(now, self.calls)

    def take(self, now: float, holder: str) -> None:
        bucket = self.bucket
        if isinstance(bucket, SharedBucket):
            bucket.take(now, self.calls, holder)
        else:
            bucket.take(now, self.calls)


class CallLimits:
    """Applies the limits. ``clock`` returns seconds, as the event loop's; ``rules`` those in force.

    In a group of hubs, ``ledger`` has the buckets of single callers: all hubs together keep their limits. All
    other limits are those of one hub.

    Changed rules apply to the next call. Calls that run or wait are not interrupted by them.
    """

    def __init__(self, clock: Callable[[], float], rules: Callable[[], LimitRules]) -> None:
        self._clock, self._rules = clock, rules
        self._known: LimitRules | None = None
        self._free: frozenset[str] = frozenset()
        self._holders: OrderedDict[str, LimitedHolder] = OrderedDict()
        self._plans: dict[tuple[str, str], tuple[CallCap, ...]] = {}
        self._shared: dict[CallCap, SharedBucket] = {}
        self._gates = GateTable()
        self._refused = 0
        self.ledger: TokenLedger | None = None

    @property
    def refused(self) -> int:
        """The number of calls that were refused, also of holders that are no longer remembered."""
        return self._refused + sum(limited.refused for limited in self._holders.values())

    def __len__(self) -> int:
        """Return the number of holders that are remembered."""
        return len(self._holders)

    def enter(self, holder: str, tier: str, tool: str, server: str) -> CallTurn:
        """Return the turn of a call, which has to be left.

        ``tool`` is the public name of what is called, ``server`` its upstream, empty for the hub's own.
        Raises RateLimited if there are no tokens, or too many calls of the holder wait. A refused call takes
        no tokens.
        """
        rules = self._rules()
        if rules is not self._known:
            self._take_rules(rules)
        if tier in self._free:
            return FREE
        caps = self._caps_of_tool(rules, tool, server)
        limits = rules.tier(tier)
        if limits.unlimited and not caps:
            return FREE
        limited = self._holders.get(holder)
        if limited is None:
            limited = LimitedHolder(holder)
            self._make_room()
            self._holders[holder] = limited
        else:
            self._holders.move_to_end(holder)
        limited.tier = tier
        return self._enter_call(limited, limits, caps, server)

    def result_size(self, tier: str) -> int:
        """Return the maximum size of a result for a tier in bytes; 0 if there is no limit."""
        return self._rules().result_size(tier) or 0

    def report(self, only: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield a row for each holder that is remembered, the latest first; or for one of them."""
        rules, now = self._rules(), self._clock()
        one = self._holders.get(only or "")
        for limited in reversed(self._holders.values()) if only is None else [one] if one else []:
            calls, leased = rules.tier(limited.tier).calls, limited.leased.get(None)
            tokens = None
            if calls is not None:  # in a group of hubs, the tokens that this hub has taken
                tokens = int(limited.bucket.tokens(now, calls)) if leased is None else leased.tokens
            yield {
                "holder": limited.name,
                "tier": limited.tier,
                "tokens": tokens,
                "burst": calls.burst if calls else None,
                "rate": calls.rate if calls else None,
                "in_flight": limited.in_flight - limited.waiting,
                "waiting": limited.waiting,
                "refused": limited.refused,
                "idle_seconds": round(now - limited.used, 3),
            }

    def shared(self) -> list[dict[str, Any]]:
        """Return a row for each limit that all callers share and that is or was in use."""
        now = self._clock()
        found = []
        for cap in self._rules().caps:
            bucket, gate = self._shared.get(cap), self._gates.find(_cap_key(cap))
            if bucket is None and gate is None:
                continue
            found.append(
                {
                    "kind": cap.kind,
                    "pattern": cap.pattern,
                    "tokens": int(bucket.tokens(now, cap.calls)) if bucket and cap.calls else None,
                    "in_flight": gate.taken if gate else None,
                    "waiting": len(gate.waiting) if gate else None,
                }
            )
        return found

    # -- one call --------------------------------------------------------------------------------

    def _enter_call(
        self, limited: LimitedHolder, limits: TierLimits, caps: tuple[CallCap, ...], server: str
    ) -> CallTurn:
        limited.used = now = self._clock()
        charges = list(self._charges_of_call(limited, limits, caps))
        if self.ledger is not None and (lacking := _buckets_to_fill(charges, now)):
            if any(bucket.waiting >= limits.queue for bucket in lacking):
                raise self._refuse_call(limited, now, _queue_full(limited, limits), RETRY_WHEN_FULL)
            again = partial(self._enter_call, limited, limits, caps, server)
            return DeferredTurn(partial(self._refill_and_enter, self.ledger, lacking, again))
        for charge in charges:
            seconds = charge.wait(now, limited.name)
            if seconds > 0:
                message = say(
                    "Too many calls: the limit of {name} is {burst} {burst:call|calls} at once, then {rate}. "
                    "Try again in {seconds} s.",
                    name=_limit_name(charge.cap, limited.tier),
                    burst=charge.calls.burst,
                    rate=_rate_message(charge.calls.rate),
                    seconds=f"{math.ceil(seconds * 1000 - 0.001) / 1000:.7g}",
                )
                raise self._refuse_call(limited, now, message, seconds)
        gates = tuple(self._gates_of(limited, limits, caps, server))
        if limited.waiting >= limits.queue and any(gate.full or gate.waiting for gate in gates):
            raise self._refuse_call(limited, now, _queue_full(limited, limits), RETRY_WHEN_FULL)
        for charge in charges:
            charge.take(now, limited.name)
        turn = LimitedTurn(limited, gates)
        limited.in_flight += 1
        if not turn.advance():
            turn.wait(limits.wait)
        return turn

    async def _refill_and_enter(
        self, ledger: TokenLedger, lacking: list[LeasedBucket], again: Callable[[], CallTurn]
    ) -> CallTurn:
        """Take tokens for a call, and return its turn. Raises RateLimited."""
        for bucket in lacking:
            assert bucket.calls is not None  # it was asked for
            await bucket.refill(ledger, bucket.calls, self._clock)
        return again()

    async def return_unused(self) -> None:
        """Give the tokens that no call has used back to all hubs of the group. Raises StoreError."""
        if self.ledger is None:
            return
        held = [bucket for limited in self._holders.values() for bucket in limited.leased.values()]
        await return_unused(self.ledger, held, self._clock())

    def _refuse_call(
        self, limited: LimitedHolder, now: float, message: Message, seconds: float
    ) -> RateLimited:
        """Return the error for a refused call, with the time for which its answer is held back.

        A caller that ignores refusals would keep the hub busy with them.
        """
        limited.refused += 1
        error = RateLimited(message, seconds)
        error.pause = limited.refusals.wait(now, REFUSALS)
        if error.pause < LONGEST_PAUSE:
            limited.refusals.take(now, REFUSALS)
        else:  # spread, or all of them would come back at the same moment
            error.pause = LONGEST_PAUSE * random.uniform(0.5, 1.0)
        return error

    def _charges_of_call(
        self, limited: LimitedHolder, limits: TierLimits, caps: tuple[CallCap, ...]
    ) -> Iterator[_Charge]:
        if limits.calls is not None:
            bucket = limited.bucket if self._counts_alone(limited) else _leased_bucket(limited, None)
            yield _Charge(bucket, limits.calls)
        for cap in caps:
            if cap.calls is not None:
                yield _Charge(self._bucket_of_cap(limited, cap), cap.calls, cap)

    def _counts_alone(self, limited: LimitedHolder) -> bool:
        """Return whether this hub alone counts the calls of a holder: the users of machines are not one."""
        return self.ledger is None or limited.name in _OF_MACHINE

    def _bucket_of_cap(
        self, limited: LimitedHolder, cap: CallCap
    ) -> TokenBucket | SharedBucket | LeasedBucket:
        if cap.per == "key" and not self._counts_alone(limited):
            return _leased_bucket(limited, cap)
        if cap.per == "key":
            return limited.buckets.get(cap) or limited.buckets.setdefault(cap, TokenBucket())
        shared = self._shared.get(cap)
        if shared is None:
            shared = self._shared[cap] = SharedBucket()
        return shared

    def _gates_of(
        self, limited: LimitedHolder, limits: TierLimits, caps: tuple[CallCap, ...], server: str
    ) -> Iterator[CallGate]:
        """Yield the gates of a call, first those that delay only its own holder.

        So a call that waits for a place of its own holder has none that others wait for.
        """
        if server and limits.server_concurrency is not None:
            yield limited.gates.gate(f"server:{server}", limits.server_concurrency)
        own = [cap for cap in caps if cap.per == "key" and cap.concurrency is not None]
        for cap in own:
            yield limited.gates.gate(_cap_key(cap), cap.concurrency or 1)
        if limits.concurrency is not None:
            yield limited.gates.gate("", limits.concurrency)
        for cap in caps:
            if cap.per == "hub" and cap.concurrency is not None:
                yield self._gates.gate(_cap_key(cap), cap.concurrency)

    # -- what is remembered ----------------------------------------------------------------------

    def _take_rules(self, rules: LimitRules) -> None:
        """Apply new rules. Buckets and gates stay."""
        self._known = rules
        self._plans.clear()
        known = set(rules.caps)
        self._shared = {cap: bucket for cap, bucket in self._shared.items() if cap in known}
        for limited in self._holders.values():
            limited.buckets = {cap: bucket for cap, bucket in limited.buckets.items() if cap in known}
            limited.leased = {
                cap: bucket for cap, bucket in limited.leased.items() if cap is None or cap in known
            }
        unlimited = (name for name, limits in rules.tiers.items() if limits.unlimited)
        self._free = frozenset() if rules.caps else frozenset(unlimited)

    def _caps_of_tool(self, rules: LimitRules, tool: str, server: str) -> tuple[CallCap, ...]:
        if not rules.caps:
            return ()
        caps = self._plans.get((tool, server))
        if caps is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            caps = tuple(cap for cap in rules.caps if cap.applies(tool, server))
            self._plans[tool, server] = caps
        return caps

    def _make_room(self) -> None:
        """Forget holders that have not called for long: at most two for each new one."""
        now = self._clock()
        for _ in range(2):
            if not self._holders:
                return
            name, oldest = next(iter(self._holders.items()))
            many = len(self._holders) >= FEW_HOLDERS
            if oldest.in_flight and many:
                self._holders.move_to_end(name)  # it calls now: look at the next
            elif self._is_forgettable(oldest, now, many):
                self._refused += oldest.refused
                del self._holders[name]
            else:
                return

    def _is_forgettable(self, oldest: LimitedHolder, now: float, many: bool) -> bool:
        if len(self._holders) >= MOST_HOLDERS:
            return not oldest.in_flight
        return oldest.is_idle(now) and (many or now - oldest.used > KEPT_FOR)


_OF_MACHINE = frozenset(("local", "loopback"))


def _buckets_to_fill(charges: list[_Charge], now: float) -> list[LeasedBucket]:
    """Return the buckets that have to be filled before it is known whether a call may begin."""
    found = []
    for charge in charges:
        bucket = charge.bucket
        if isinstance(bucket, LeasedBucket):
            bucket.calls = charge.calls
            if bucket.lacks(now):
                found.append(bucket)
    return found


def _leased_bucket(limited: LimitedHolder, cap: CallCap | None) -> LeasedBucket:
    bucket = limited.leased.get(cap)
    if bucket is None:
        bucket = limited.leased[cap] = LeasedBucket(limited.name, _cap_key(cap) if cap else "tier")
    return bucket


def _cap_key(cap: CallCap) -> str:
    return f"{cap.kind}:{cap.pattern}"


# -- texts -------------------------------------------------------------------------------------------


def _rate_message(rate: float) -> Message:
    """Return a rate per the shortest time in which there is at least one call."""
    if rate >= 1:
        return say("{count} a second", count=f"{rate:.4g}")
    if rate >= 1 / 60:
        return say("{count} a minute", count=f"{rate * 60:.4g}")
    if rate >= 1 / 3600:
        return say("{count} an hour", count=f"{rate * 3600:.4g}")
    return say("{count} a day", count=f"{rate * 86_400:.4g}")


def _limit_name(cap: CallCap | None, tier: str) -> Message:
    if cap is None:
        return say("the tier {tier}", tier=tier)
    if cap.kind == "tool":
        return say("the tools {pattern}", pattern=cap.pattern)
    return say("the server {pattern}", pattern=cap.pattern)


def _queue_full(limited: LimitedHolder, limits: TierLimits) -> Message:
    return say(
        "Too many calls at the same time: {running} {running:is|are} running and {waiting} "
        "{waiting:is|are} waiting. Try again when some have finished. The limits are concurrency, "
        "server_concurrency and queue of the tier {tier} in tabane.toml.",
        running=limited.in_flight - limited.waiting,
        waiting=limited.waiting,
        tier=limited.tier,
    )


class LimitOperations:
    """Operations on the limits of a hub."""

    def __init__(self, limits: CallLimits, keys: KeyRing) -> None:
        self._limits, self._keys = limits, keys

    async def stats(self, caller: Caller, params: RateLimitStats) -> dict[str, Any]:
        """Return the limits in use: a row for each caller, and those that all callers share."""
        limits = self._limits
        rows = list(islice(limits.report(params.holder or None), params.limit))
        names = await self._keys.holders(row["holder"] for row in rows)
        for row in rows:
            named = names.get(row["holder"])
            row["label"], row["person"] = (named.key, named.person or None) if named else (None, None)
        return {
            "results": rows,
            "total": len(limits),
            "refused": limits.refused,
            "shared": limits.shared(),
        }
