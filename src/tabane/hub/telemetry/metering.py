"""Metering of a hub's calls: limits, audit entries, counts and traces, composed for the door.

Calls are counted by tool, server and key for Prometheus, with a limited number of series.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Raw

from tabane.errors import AuditError, RateLimited, TabaneError
from tabane.operations import LOCAL, UNMETERED, Caller, CallMarks, CallTarget, Face, OpenCall, Outcome
from tabane.operations.metering import FailureKind, FailureReason
from tabane.wire.channel import Later, at_once

if TYPE_CHECKING:
    from tabane.access.limits import CallLimits, CallTurn
    from tabane.audit.entry import PreparedArguments
    from tabane.audit.log import AuditLog
    from tabane.hub.telemetry.spans import CallSpan, SpanTracing

OTHER = "other"
"""The label of everything beyond a limit."""

OWN = "(hub)"
"""The label of the hub itself as a server, since a server may be called tabane."""

RESOURCES = "resources/read"
"""The tool that reads of resources count as: their number is not limited."""

METHODS = "(methods)"
"""The tool that methods count as that the hub does not know: clients choose their names."""

_UNNAMED = {"resource": RESOURCES, "method": METHODS}

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets of durations, in seconds."""

MOST_TOOLS = 2000
MOST_SERVERS = 200
MOST_KEYS = 1000
MOST_REASONS = 32
MOST_CHARACTERS = 200
"""Characters of a label; the rest is cut."""

_OUTCOMES: dict[Outcome, int] = {"ok": 0, "failed": 0, "refused": 0, "limited": 0, "cancelled": 0}


ENDS = (
    *("ok", "tool_error", "protocol_error", "timeout", "unavailable", "failed"),
    *("refused", "limited", "cancelled"),
)
"""Ways in which a call of a server ends."""


class ServerCounts:
    """Ends, durations and results of a server's calls. ``buckets`` has a count for each bound, and one."""

    __slots__ = ("buckets", "bytes", "ends", "saved", "seconds")

    def __init__(self) -> None:
        self.ends = dict.fromkeys(ENDS, 0)
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.bytes = self.saved = 0


def _kind(reason: str) -> FailureKind:
    """Return the kind of a failure. A tool that says itself that it failed gives no reason."""
    if isinstance(reason, FailureReason):
        return reason.kind
    return "failed" if reason else "tool_error"


class ToolCounts:
    """The calls of one tool by outcome, and the counts of its server."""

    __slots__ = ("outcomes", "server")

    def __init__(self, server: ServerCounts) -> None:
        self.outcomes = dict(_OUTCOMES)
        self.server = server


class CallCounts(NamedTuple):
    """The counters at one moment. Zeros are left out.

    ``calls`` are (server, tool, outcome, count), ``keys`` are (key, outcome, count).
    """

    calls: list[tuple[str, str, Outcome, int]]
    servers: dict[str, ServerCounts]
    keys: list[tuple[str, Outcome, int]]
    limited: int
    auth_failures: list[tuple[str, int]]


class AuditCounts(NamedTuple):
    """Entries of the audit log, written and dropped, and seconds that the oldest waits for the disk."""

    entries: int
    dropped: int
    lag: float


class CallCounters:
    """Counts every call of the hub. Belongs to the event loop."""

    __slots__ = ("_auth_failures", "_keys", "_servers", "_tools")

    def __init__(self) -> None:
        self._tools: dict[tuple[str, str], ToolCounts] = {}
        self._servers: dict[str, ServerCounts] = {}
        self._keys: dict[str, dict[Outcome, int]] = {}
        self._auth_failures: Counter[str] = Counter()

    def count(
        self,
        target: CallTarget,
        holder: str,
        outcome: Outcome,
        seconds: float,
        size: int,
        saved: int,
        reason: str = "",
    ) -> None:
        """Count a call that ended. ``size`` are the bytes of its result, ``saved`` the tokens that it saved.

        A call that was refused or limited was not made, so it has no duration.
        """
        name = _UNNAMED.get(target.kind, target.name)
        tool = self._tools.get((target.server, name))
        if tool is None:
            tool = self._add_tool(target.server, name)
        tool.outcomes[outcome] += 1
        try:
            self._keys[holder][outcome] += 1
        except KeyError:
            self._add_key(holder)[outcome] += 1
        server = tool.server
        server.ends[outcome if outcome != "failed" else _kind(reason)] += 1
        if outcome == "refused" or outcome == "limited":
            return
        server.buckets[bisect_left(BOUNDS, seconds)] += 1
        server.seconds += seconds
        server.bytes += size
        if saved:
            server.saved += saved

    def count_auth_failure(self, reason: str) -> None:
        """Count a refused key or token. ``reason`` is one word, such as ``expired``."""
        reason = reason[:MOST_CHARACTERS]
        known = reason in self._auth_failures or len(self._auth_failures) < MOST_REASONS
        self._auth_failures[reason if known else OTHER] += 1

    def frozen(self) -> CallCounters:
        """Return counters with the series of this moment, which another thread may read.

        Their numbers are shared and go on: a number is never torn.
        """
        found = CallCounters()
        found._tools, found._servers = self._tools.copy(), self._servers.copy()
        found._keys, found._auth_failures = self._keys.copy(), self._auth_failures.copy()
        return found

    def read(self) -> CallCounts:
        """Return what was counted until now."""
        calls = [
            (server or OWN, tool, outcome, count)
            for (server, tool), found in self._tools.items()
            for outcome, count in found.outcomes.items()
            if count
        ]
        keys = [
            (key, outcome, count)
            for key, outcomes in self._keys.items()
            for outcome, count in outcomes.items()
            if count
        ]
        limited = sum(count for _, outcome, count in keys if outcome == "limited")
        servers = {server or OWN: counts for server, counts in self._servers.items()}
        return CallCounts(calls, servers, keys, limited, sorted(self._auth_failures.items()))

    def _add_tool(self, server: str, name: str) -> ToolCounts:
        """Return the counts of a tool that is new, or those that it shares beyond the limits."""
        if server == OWN or (len(self._servers) >= MOST_SERVERS and server not in self._servers):
            server = OTHER
        key = (server[:MOST_CHARACTERS], name[:MOST_CHARACTERS])
        if len(self._tools) >= MOST_TOOLS:
            key = (key[0], OTHER)
        counts = self._servers.setdefault(key[0], ServerCounts())
        return self._tools.setdefault(key, ToolCounts(counts))

    def _add_key(self, holder: str) -> dict[Outcome, int]:
        name = holder[:MOST_CHARACTERS] if len(self._keys) < MOST_KEYS else OTHER
        return self._keys.setdefault(name, dict(_OUTCOMES))


LONGEST_REASON = 200
"""Characters that are recorded of the reason of a failure."""

MOST_EARLIER = 200
"""Ended calls that are kept for whoever begins to watch."""


class EarlierCall(NamedTuple):
    """A call that ended while nobody watched, without its arguments and its result. ``ended`` is its time."""

    ended: float
    caller: Caller
    target: CallTarget
    request: str
    outcome: Outcome
    seconds: float
    size: int
    saved: int
    reason: str


Count = Callable[[CallTarget, str, Outcome, float, int, int, str], None]
"""Counts a call: target, holder, outcome, seconds, bytes of the result, tokens saved, reason of a failure."""


class Answered(Protocol):
    """Is told of a call whose caller gets an answer. ``result`` is None if it is not known."""

    def __call__(
        self, caller: Caller, target: CallTarget, arguments: bytes = b"", result: bytes | Raw | None = b""
    ) -> None: ...


class WatchedCall(CallMarks, Protocol):
    """A call that is watched."""

    def ended(self, outcome: Outcome, size: int, saved: int, reason: str) -> None:
        """Note how the call ended."""
        ...


class CallWatch(Protocol):
    """Watches calls from their beginning."""

    def began(self, caller: Caller, target: CallTarget, arguments: bytes, request: str) -> WatchedCall | None:
        """Return what is told of the steps of a call; None if it is not watched."""
        ...


class HubMeter:
    """The meter of a hub. Each part may be None: then it does not apply.

    ``limits`` returns the limits of calls of a tier; None if it has none. ``watch`` is set when somebody
    begins to watch the calls; until then, ``earlier`` has the last ones. ``used`` is told of successful
    calls: their target, the holder, and how many they were. ``answered`` is told of each call whose caller
    gets an answer, before the answer goes out.
    ``returned`` is given the result of each successful call of a tool.

    ``later`` does work that neither a request nor an answer has to wait for, before the next message is read.
    """

    def __init__(
        self,
        limits: Callable[[str], CallLimits | None] = lambda tier: None,
        recorder: AuditLog | None = None,
        count: Count | None = None,
        trace: SpanTracing | None = None,
    ) -> None:
        self._limits, self.recorder, self._count, self._trace = limits, recorder, count, trace
        self.later: Later = at_once
        self._ended: list[MeteredCall] = []
        self.watch: CallWatch | None = None
        self.begun = time.time()
        self.earlier: deque[EarlierCall] = deque(maxlen=MOST_EARLIER)
        self.used: Callable[[CallTarget, str, int], None] | None = None
        self.answered: Answered | None = None
        self.returned: Callable[[CallTarget, str, bytes | Raw], None] | None = None

    def begin(self, caller: Caller, target: CallTarget, arguments: bytes, request: str) -> OpenCall:
        """Return the call that begins: it has to be ended. Raises RateLimited and AuditError."""
        if caller.face is Face.WEB and _only_looks(caller, target):
            return UNMETERED
        call = MeteredCall(self, caller, target, request or caller.request)
        call.given = arguments
        if self._trace is not None or self.watch is not None:
            self._follow(call, arguments)
        if self.recorder is not None:
            try:
                prepared = call.arguments = self.recorder.prepare(arguments)
            except AuditError as error:
                call.end("refused", reason=str(error))
                raise
            if prepared.short:
                self.later(prepared.finish)
        limits = self._limits(caller.access.tier)
        if limits is not None:
            call.most = limits.result_size(caller.access.tier)
            try:
                call.turn = limits.enter(caller.access.holder, caller.access.tier, target.name, target.server)
            except RateLimited as error:
                call.end("limited", reason=str(error))
                raise
            call.waits = call.turn.waits
            if call.marks is not None and isinstance(call.waits, asyncio.Future):
                call.waits.add_done_callback(call.turned)
        return call

    def refuse(
        self, caller: Caller, target: CallTarget, arguments: bytes, request: str, error: TabaneError
    ) -> None:
        """Record a call that was refused before it began."""
        call = MeteredCall(self, caller, target, request or caller.request)
        self._follow(call, arguments)
        if self.recorder is not None:
            call.arguments = self.recorder.prepare(arguments)
        call.end("refused", reason=str(error))

    def _follow(self, call: MeteredCall, arguments: bytes) -> None:
        """Begin the span of a call, and let it be watched, if somebody wants that."""
        caller, target = call.caller, call.target
        if self._trace is not None:
            parent, state = caller.traceparent or None, caller.tracestate or None
            call.span = self._trace.begin(caller, target, parent, state, request=call.request)
            call.meta = call.span.meta
        if self.watch is not None:
            call.marks = self.watch.began(caller, target, arguments, call.request)

    def ended(self, call: MeteredCall) -> Awaitable[None] | None:
        """Record a call that has ended, and have it counted."""
        call.seconds = time.perf_counter() - call.started
        caller, target, outcome = call.caller, call.target, call.outcome
        if self.answered is not None and (outcome == "ok" or (outcome == "failed" and target.server)):
            # The text of an error is its server's. One of the hub's own shows nothing of what was to be read.
            self.answered(caller, target, call.given, call.result)
            call.given = b""
        if call.span is not None:
            call.span.end(outcome, call.size, reason=call.reason)
        if call.marks is not None:
            call.marks.ended(outcome, call.size, call.saved, call.reason)
        self._ended.append(call)
        if len(self._ended) == 1:
            self.later(self._note_ended)
        if self.recorder is None or call.arguments is None:
            return None
        return self.recorder.record(
            caller,
            target,
            call.arguments,
            call.request,
            outcome,
            call.seconds,
            call.size,
            call.saved,
            call.reason[:LONGEST_REASON] if call.reason else "",
        )

    def _note_ended(self) -> None:
        """Count the calls that have ended, and tell who wants to know."""
        ended, self._ended = self._ended, []
        if self.watch is None:
            now = time.time()
            self.earlier += [_earlier_call(call, now) for call in ended]
        count, returned, used = self._count, self.returned, self.used
        last: MeteredCall | None = None
        times = 0
        for call in ended:
            target, holder, outcome = call.target, call.holder, call.outcome
            if count is not None:
                count(target, holder, outcome, call.seconds, call.size, call.saved, call.reason)
            if outcome != "ok":
                continue
            if returned is not None and call.result is not None:
                returned(target, holder, call.result)
            if last is not None and (last.target is not target or last.holder != holder):
                if used is not None:
                    used(last.target, last.holder, times)
                times = 0
            last, times = call, times + 1
        if last is not None and used is not None:
            used(last.target, last.holder, times)


def _earlier_call(call: MeteredCall, now: float) -> EarlierCall:
    reason = call.reason[:LONGEST_REASON]
    return EarlierCall(
        now, call.caller, call.target, call.request, call.outcome, call.seconds, call.size, call.saved, reason
    )


def _only_looks(caller: Caller, target: CallTarget) -> bool:
    """Return whether the user of this machine looks at the web page, which asks again with each change.

    Such calls are no use of tools, and would fill the audit log. What the page reads from the network, calls
    or changes is recorded, and so is everything that the holder of a key looks at.
    """
    if caller.face is not Face.WEB or caller.access is not LOCAL:
        return False
    if target.kind != "operation" or target.changes:
        return False
    return target.source != "pages" or target.name == "list_pages"


class MeteredCall:
    """A call of a hub that has begun. ``outcome`` and what follows it are set when it has ended."""

    __slots__ = (
        "_ended", "_meter", "arguments", "caller", "given", "holder", "marks", "meta", "most", "outcome",
        "reason", "request", "result", "saved", "seconds", "size", "span", "started", "target", "turn",
        "waits",
    )  # fmt: skip
    outcome: Outcome
    seconds: float
    size: int
    saved: int
    reason: str
    result: bytes | Raw | None

    def __init__(self, meter: HubMeter, caller: Caller, target: CallTarget, request: str) -> None:
        self._meter, self.caller, self.target, self.request = meter, caller, target, request
        self.holder = caller.access.holder
        self.started = time.perf_counter()
        self.arguments: PreparedArguments | None = None
        self.given = b""
        self.waits: Awaitable[None] | None = None
        self.most = 0
        self.meta: dict[str, Raw] | None = None
        self.turn: CallTurn | None = None
        self.span: CallSpan | None = None
        self.marks: WatchedCall | None = None
        self._ended = False

    def turned(self, waited: asyncio.Future[None]) -> None:
        """Note that it is the turn of the call."""
        if self.marks is not None and not self._ended:
            self.marks.admitted()

    def end(
        self,
        outcome: Outcome,
        size: int = 0,
        *,
        saved: int = 0,
        reason: str = "",
        result: bytes | Raw | None = None,
    ) -> Awaitable[None] | None:
        """Note how the call ended: counters, audit log, spans and watchers."""
        if self._ended:
            return None
        self._ended = True
        if self.turn is not None:
            self.turn.leave()
        self.outcome, self.size, self.saved, self.reason, self.result = outcome, size, saved, reason, result
        return self._meter.ended(self)
