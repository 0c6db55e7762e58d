"""Metering of a hub's calls: limits, audit entries, counts and traces, composed for the door."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Raw

from tabane.errors import AuditError, RateLimited, TabaneError
from tabane.operations import Caller, CallTarget, OpenCall, Outcome

if TYPE_CHECKING:
    from tabane.access.limits import CallLimits, CallTurn
    from tabane.audit.log import AuditLog
    from tabane.audit.prepared_arguments import PreparedArguments
    from tabane.hub.tracing import CallSpan, CallTracing

LONGEST_REASON = 200
"""Characters that are recorded of the reason of a failure."""


Count = Callable[[CallTarget, str, Outcome, float, int, int], None]
"""Counts a call: target, holder, outcome, seconds, bytes of the result, tokens saved."""


class HubMeter:
    """The meter of a hub. Each part may be None: then it does not apply.

    ``limits`` returns the limits of calls of a tier; None if it has none.
    """

    def __init__(
        self,
        limits: Callable[[str], CallLimits | None] = lambda tier: None,
        recorder: AuditLog | None = None,
        count: Count | None = None,
        trace: CallTracing | None = None,
    ) -> None:
        self._limits, self.recorder, self._count, self._trace = limits, recorder, count, trace

    def begin(self, caller: Caller, target: CallTarget, arguments: bytes, request: str) -> OpenCall:
        call = self._opened(caller, target, request)
        if self.recorder is not None:
            try:
                call.arguments = self.recorder.prepare(arguments)
            except AuditError as error:
                call.end("refused", reason=str(error))
                raise
        limits = self._limits(caller.access.tier)
        if limits is not None:
            call.most = limits.result_size(caller.access.tier)
            try:
                call.turn = limits.enter(caller.access.holder, caller.access.tier, target.name, target.server)
            except RateLimited as error:
                call.end("limited", reason=str(error))
                raise
            call.waits = call.turn.waits
        return call

    def refuse(
        self, caller: Caller, target: CallTarget, arguments: bytes, request: str, error: TabaneError
    ) -> None:
        call = self._opened(caller, target, request)
        if self.recorder is not None:
            call.arguments = self.recorder.prepare(arguments)
        call.end("refused", reason=str(error))

    def _opened(self, caller: Caller, target: CallTarget, request: str) -> MeteredCall:
        call = MeteredCall(self, caller, target, request or caller.request)
        if self._trace is not None:
            parent, state = caller.traceparent or None, caller.tracestate or None
            call.span = self._trace.begin(caller, target, parent, state, request=call.request)
            call.meta = call.span.meta
        return call

    def ended(
        self, call: MeteredCall, outcome: Outcome, size: int, saved: int, reason: str
    ) -> Awaitable[None] | None:
        """Count and record a call that has ended."""
        seconds = time.perf_counter() - call.started
        if self._count is not None:
            self._count(call.target, call.caller.access.holder, outcome, seconds, size, saved)
        if call.span is not None:
            call.span.end(outcome, size, reason=reason)
        if self.recorder is None or call.arguments is None:
            return None
        return self.recorder.record(
            call.caller,
            call.target,
            call.arguments,
            call.request,
            outcome,
            seconds,
            size,
            saved,
            reason[:LONGEST_REASON],
        )


class MeteredCall:
    """A call of a hub that has begun."""

    __slots__ = (
        "_ended", "_meter", "arguments", "caller", "meta", "most", "request", "span", "started", "target",
        "turn", "waits",
    )  # fmt: skip

    def __init__(self, meter: HubMeter, caller: Caller, target: CallTarget, request: str) -> None:
        self._meter, self.caller, self.target, self.request = meter, caller, target, request
        self.started = time.perf_counter()
        self.arguments: PreparedArguments | None = None
        self.waits: Awaitable[None] | None = None
        self.most = 0
        self.meta: dict[str, Raw] | None = None
        self.turn: CallTurn | None = None
        self.span: CallSpan | None = None
        self._ended = False

    def end(
        self, outcome: Outcome, size: int = 0, *, saved: int = 0, reason: str = ""
    ) -> Awaitable[None] | None:
        if self._ended:
            return None
        self._ended = True
        if self.turn is not None:
            self.turn.leave()
        return self._meter.ended(self, outcome, size, saved, reason)
