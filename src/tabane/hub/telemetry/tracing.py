"""Spans of calls for OpenTelemetry: one trace from the client through the hub to the upstream.

A call of an upstream's tool makes two spans: one of the hub as a server, and below it one of the hub as a
client, whose id the upstream gets. On the event loop, a span is a few numbers; it is completed and exported
in the thread of :mod:`tabane.hub.telemetry.span_export`, which alone imports OpenTelemetry.
"""

from __future__ import annotations

import time
from random import getrandbits
from typing import Protocol

from msgspec import Raw

from tabane.operations import Caller
from tabane.operations.access import CallTarget
from tabane.operations.metering import Outcome
from tabane.wire import json
from tabane.wire.json import Members
from tabane.wire.trace_context import (
    RANDOM,
    SAMPLED,
    TRACEPARENT,
    TRACESTATE,
    TraceParent,
    parse_traceparent,
    valid_tracestate,
)

_EVERY = 1 << 64
"""A ratio of traces is selected by the last 64 bits of their ids, as other OpenTelemetry SDKs do it."""


class CallSpan(Protocol):
    """A call that is traced.

    ``traceparent`` is what the upstream gets, "" for a call without an upstream. ``meta`` are the members
    to merge into ``_meta`` towards it; None: ``_meta`` goes to it as it came.
    """

    traceparent: str
    meta: Members | None

    def end(self, outcome: Outcome, size: int = 0, *, reason: str = "") -> None:
        """End the call. ``reason`` is a word or a code for an outcome that is not ``ok``."""
        ...


class CallTracing(Protocol):
    """Traces calls."""

    def begin(
        self,
        caller: Caller,
        target: CallTarget,
        traceparent: str | None = None,
        tracestate: str | None = None,
        *,
        request: str = "",
    ) -> CallSpan:
        """Begin the span of a call. Never raises an error for what a client sent as its trace context."""
        ...

    async def close(self) -> None:
        """Export what is waiting, at most 2 seconds long."""
        ...


class SpanSink(Protocol):
    """Takes ended calls without waiting, and drops them if it is full."""

    def take(self, call: TracedCall) -> None: ...

    async def close(self) -> None: ...


class TraceSampler:
    """Decides which traces are recorded.

    ``ratio`` is the part of new traces, from 0 to 1. With ``follows``, a trace that a client began is
    recorded if the client records it.
    """

    def __init__(self, ratio: float = 1.0, *, follows: bool = True) -> None:
        self._most, self._follows = round(ratio * _EVERY), follows

    def records(self, trace: str, parent: TraceParent | None) -> bool:
        if parent is not None and self._follows:
            return parent.sampled
        return int(trace[-16:], 16) < self._most


class UnrecordedCall:
    """A call whose trace is not recorded. Its upstream learns that."""

    __slots__ = ("meta", "traceparent")

    def __init__(self, traceparent: str, meta: Members | None) -> None:
        self.traceparent, self.meta = traceparent, meta

    def end(self, outcome: Outcome, size: int = 0, *, reason: str = "") -> None:
        return


class TracedCall:
    """A call of which spans are recorded. Times are nanoseconds since 1970."""

    __slots__ = (
        "_begun",
        "_sink",
        "caller",
        "ended",
        "flags",
        "meta",
        "outcome",
        "parent",
        "reason",
        "request",
        "size",
        "span",
        "started",
        "state",
        "target",
        "trace",
        "traceparent",
        "upstream_span",
    )

    def __init__(
        self,
        sink: SpanSink,
        caller: Caller,
        target: CallTarget,
        request: str,
        trace: str,
        parent: TraceParent | None,
        state: str,
    ) -> None:
        self._sink, self.caller, self.target, self.request = sink, caller, target, request
        self.trace, self.parent, self.state = trace, parent, state
        self.flags = SAMPLED | (parent.flags & RANDOM if parent else 0)
        self.span = new_span()
        self.upstream_span = self.traceparent = ""
        self.meta: Members | None = None
        self.outcome: Outcome | None = None
        self.size = self.ended = 0
        self.reason = ""
        self.started, self._begun = time.time_ns(), time.perf_counter_ns()

    def to_upstream(self, given: bool) -> None:
        """Make the span of the upstream's part. ``given``: the client sent a ``tracestate``."""
        self.upstream_span = new_span()
        self.traceparent = f"00-{self.trace}-{self.upstream_span}-{self.flags:02x}"
        self.meta = context_members(self.traceparent, self.state, given)

    def end(self, outcome: Outcome, size: int = 0, *, reason: str = "") -> None:
        if self.outcome is None:
            self.ended = self.started + time.perf_counter_ns() - self._begun
            self.outcome, self.size, self.reason = outcome, size, reason
            self._sink.take(self)


class SpanTracing:
    """Traces calls, and gives those that are recorded to ``sink``."""

    def __init__(self, sink: SpanSink, sampler: TraceSampler) -> None:
        self._sink, self._sampler = sink, sampler

    def begin(
        self,
        caller: Caller,
        target: CallTarget,
        traceparent: str | None = None,
        tracestate: str | None = None,
        *,
        request: str = "",
    ) -> CallSpan:
        parent = parse_traceparent(traceparent) if traceparent else None
        state = valid_tracestate(tracestate) if tracestate and parent else ""
        trace = parent.trace if parent else new_trace()
        if not self._sampler.records(trace, parent):
            return _unrecorded(target, trace, parent, state, bool(tracestate))
        call = TracedCall(self._sink, caller, target, request, trace, parent, state)
        if target.server:
            call.to_upstream(bool(tracestate))
        return call

    async def close(self) -> None:
        await self._sink.close()


def new_trace() -> str:
    return f"{getrandbits(128) or 1:032x}"


def new_span() -> str:
    return f"{getrandbits(64) or 1:016x}"


def context_members(traceparent: str, tracestate: str, given: bool) -> Members:
    """Return the members of ``_meta``. A ``tracestate`` that was ``given`` and is not valid is emptied."""
    members = {TRACEPARENT: Raw(b'"%b"' % traceparent.encode())}
    if tracestate or given:
        members[TRACESTATE] = Raw(json.quote(tracestate))
    return members


def _unrecorded(
    target: CallTarget, trace: str, parent: TraceParent | None, state: str, given: bool
) -> UnrecordedCall:
    if not target.server:
        return UnrecordedCall("", None)
    flags = parent.flags & RANDOM if parent else 0
    text = str(TraceParent(trace, parent.span if parent else new_span(), flags))
    return UnrecordedCall(text, context_members(text, state, given))
