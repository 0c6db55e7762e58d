"""Metering of a hub's calls: limits, audit entries, counts and traces, composed for the door."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import Raw

from tabane.errors import AuditError, RateLimited, TabaneError
from tabane.operations import LOCAL, UNMETERED, Caller, CallMarks, CallTarget, Face, OpenCall, Outcome
from tabane.wire.channel import Later, at_once

if TYPE_CHECKING:
    from tabane.access.limits import CallLimits, CallTurn
    from tabane.audit.log import AuditLog
    from tabane.audit.prepared_arguments import PreparedArguments
    from tabane.hub.telemetry.tracing import CallSpan, CallTracing

LONGEST_REASON = 200
"""Characters that are recorded of the reason of a failure."""


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
    begins to watch the calls. ``used`` is told of successful calls: their target, the holder, and how many
    they were. ``answered`` is told of each call whose caller gets an answer, before the answer goes out.
    ``returned`` is given the result of each successful call of a tool.

    ``later`` does work that neither a request nor an answer has to wait for, before the next message is read.
    """

    def __init__(
        self,
        limits: Callable[[str], CallLimits | None] = lambda tier: None,
        recorder: AuditLog | None = None,
        count: Count | None = None,
        trace: CallTracing | None = None,
    ) -> None:
        self._limits, self.recorder, self._count, self._trace = limits, recorder, count, trace
        self.later: Later = at_once
        self._ended: list[MeteredCall] = []
        self.watch: CallWatch | None = None
        self.used: Callable[[CallTarget, str, int], None] | None = None
        self.answered: Answered | None = None
        self.returned: Callable[[CallTarget, str, bytes | Raw], None] | None = None

    def begin(self, caller: Caller, target: CallTarget, arguments: bytes, request: str) -> OpenCall:
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


def _only_looks(caller: Caller, target: CallTarget) -> bool:
    """Return whether the user of this machine looks at the web page, which asks again with each change.

    Such calls are no use of tools, and would fill the audit log. What the page reads from the network, calls
    or changes is recorded, and so is everything that the holder of a key looks at.
    """
    if caller.face is not Face.WEB or caller.access is not LOCAL:
        return False
    return target.kind == "operation" and not target.changes and target.source != "pages"


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
        if self._ended:
            return None
        self._ended = True
        if self.turn is not None:
            self.turn.leave()
        self.outcome, self.size, self.saved, self.reason, self.result = outcome, size, saved, reason, result
        return self._meter.ended(self)
