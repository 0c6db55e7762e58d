"""Spans of calls, by the SDK of OpenTelemetry: it samples, batches and sends them. Imported if tracing is on.

A call of an upstream's tool makes two spans: one of the hub as a server, and below it one of the hub as a
client, whose id the upstream gets. A thread of the SDK sends ended spans over OTLP from a bounded queue. A
collector that is slow or dead costs spans, never calls.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence

from msgspec import Raw
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from tabane.build import this_build
from tabane.operations import Caller, Face
from tabane.operations.caller import CallTarget
from tabane.operations.metering import Outcome
from tabane.wire import json
from tabane.wire.json import Members
from tabane.wire.rpc import (
    RANDOM,
    SAMPLED,
    TRACEPARENT,
    TRACESTATE,
    TraceParent,
    parse_traceparent,
    valid_tracestate,
)

log = logging.getLogger(__name__)

MOST_WAITING = 8192
"""Spans that wait for the thread, unless OTEL_BSP_MAX_QUEUE_SIZE says another number."""

INTERVAL = 2.0
"""Seconds after which a batch is sent that is not full, unless OTEL_BSP_SCHEDULE_DELAY says others."""

PATIENCE = 5.0
"""Seconds for one batch, with its repetitions."""

FLUSH = 2.0
"""Seconds at the end of the hub for everything that waits."""

SILENCE = 60.0
"""Seconds between two warnings about the collector."""

_METHODS = {
    "tool": "tools/call",
    "operation": "tools/call",
    "prompt": "prompts/get",
    "resource": "resources/read",
}
_EXPORTER_LOGGERS = (
    "opentelemetry.exporter.otlp.common.http",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
)
_HEADER_LOGGER = "opentelemetry.util.re"
_WORD = re.compile(r"[A-Za-z0-9_.\-]{1,64}", re.ASCII)

Attributes = dict[str, str | int]


class CallSpan:
    """A call that is traced.

    ``traceparent`` is what the upstream gets, "" for a call without an upstream. ``meta`` are the members
    to merge into ``_meta`` toward it; None: ``_meta`` goes to it as it came. ``spans`` are empty if the trace
    is not recorded.
    """

    __slots__ = ("_spans", "meta", "traceparent")

    def __init__(self, spans: Sequence[Span], traceparent: str, meta: Members | None) -> None:
        self._spans, self.traceparent, self.meta = spans, traceparent, meta

    def end(self, outcome: Outcome, size: int = 0, *, reason: str = "") -> None:
        """End the call, once. ``reason`` is a word or a code for an outcome that is not ``ok``."""
        spans, self._spans = self._spans, ()
        if not spans:
            return
        attributes = outcome_attributes(outcome, size, reason)
        for span in spans:
            span.set_attributes(attributes)
            if outcome != "ok":
                span.set_status(Status(StatusCode.ERROR))
            span.end()


class SpanTracing:
    """Traces calls by a provider of OpenTelemetry, whose spans go to ``exporter``."""

    def __init__(self, provider: TracerProvider, exporter: SpanExporter) -> None:
        self._provider, self._exporter = provider, exporter
        self._tracer = provider.get_tracer("tabane", this_build().version)

    def begin(
        self,
        caller: Caller,
        target: CallTarget,
        traceparent: str | None = None,
        tracestate: str | None = None,
        *,
        request: str = "",
    ) -> CallSpan:
        """Begin the spans of a call. Never raises an error for what a client sent as its trace context."""
        parent = parse_traceparent(traceparent) if traceparent else None
        state = valid_tracestate(tracestate) if tracestate and parent else ""
        name = span_name(caller, target)
        server = last = self._tracer.start_span(name, _context(parent, state), SpanKind.SERVER)
        spans: Sequence[Span] = ()
        if server.is_recording():
            attributes = call_attributes(caller, target)
            server.set_attributes({**attributes, **caller_attributes(caller, request)})
            spans = (server,)
            if target.server:
                inside = set_span_in_context(server, Context())
                last = self._tracer.start_span(name, inside, SpanKind.CLIENT, attributes)
                spans = (last, server)
        if not target.server:
            return CallSpan(spans, "", None)
        found = last.get_span_context()
        # The span of a trace that is not recorded is known to nobody: its parent's stands for it.
        span = parent.span if parent and not spans else f"{found.span_id:016x}"
        flags = found.trace_flags & (SAMPLED | (parent.flags & RANDOM if parent else 0))
        text = str(TraceParent(f"{found.trace_id:032x}", span, flags))
        return CallSpan(spans, text, context_members(text, state, bool(tracestate)))

    async def close(self, limit: float = FLUSH) -> None:
        """Export what is waiting, at most ``limit`` seconds long."""
        end = threading.Thread(target=self._provider.shutdown, name="end of spans", daemon=True)
        end.start()
        await asyncio.to_thread(end.join, limit)
        if end.is_alive():
            self._exporter.shutdown()


class WatchedExporter(SpanExporter):
    """Sends spans by another exporter, and warns at most once a minute about those that were lost."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._warned, self._lost, self._ended = 0.0, 0, False
        for name in _EXPORTER_LOGGERS:
            logging.getLogger(name).addFilter(self._seldom)
        self._entry = -SILENCE

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans. Blocks."""
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            self._lost += sum(span.kind is SpanKind.SERVER for span in spans)
            if not self._warned or time.monotonic() - self._warned >= SILENCE:
                self._warned = time.monotonic()
                log.warning(
                    "The trace collector did not accept the spans of %d calls. Check that it runs, and the "
                    "setting otel_endpoint or the variable OTEL_EXPORTER_OTLP_ENDPOINT.",
                    self._lost,
                )
        return result

    def shutdown(self) -> None:
        """End a send in progress, and send nothing more."""
        if not self._ended:
            self._ended = True
            self._exporter.shutdown()
            for name in _EXPORTER_LOGGERS:
                logging.getLogger(name).removeFilter(self._seldom)

    def _seldom(self, record: logging.LogRecord) -> bool:
        """Let one entry of OpenTelemetry's exporter through each minute: it logs each batch that fails."""
        if time.monotonic() - self._entry < SILENCE:
            return False
        self._entry = time.monotonic()
        return True


def open_spans(url: str, environment: Mapping[str, str], interval: float = INTERVAL) -> SpanTracing:
    """Return a tracing whose spans go to the collector at ``url``.

    Headers, certificates, compression, sampling and batching are those of the standard variables.
    """
    logging.getLogger(_HEADER_LOGGER).addFilter(_without_values)
    resource = Resource.create({SERVICE_VERSION: this_build().version})
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "tabane"}))
    exporter = WatchedExporter(OTLPSpanExporter(url, timeout=PATIENCE))
    processor = BatchSpanProcessor(
        exporter,
        max_queue_size=None if environment.get("OTEL_BSP_MAX_QUEUE_SIZE") else MOST_WAITING,
        schedule_delay_millis=None if environment.get("OTEL_BSP_SCHEDULE_DELAY") else interval * 1000,
    )
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return SpanTracing(provider, exporter)


def _without_values(record: logging.LogRecord) -> bool:
    """Hide the header in an entry about one that is not valid: it can be a key."""
    record.args = ("…",) * len(record.args or ())
    return True


def _context(parent: TraceParent | None, state: str) -> Context:
    if parent is None:
        return Context()
    context = SpanContext(
        int(parent.trace, 16),
        int(parent.span, 16),
        is_remote=True,
        trace_flags=TraceFlags(parent.flags),
        trace_state=TraceState.from_header([state]) if state else None,
    )
    return set_span_in_context(NonRecordingSpan(context), Context())


def context_members(traceparent: str, tracestate: str, given: bool) -> Members:
    """Return the members of ``_meta``. A ``tracestate`` that was ``given`` and is not valid is emptied."""
    members = {TRACEPARENT: Raw(b'"%b"' % traceparent.encode())}
    if tracestate or given:
        members[TRACESTATE] = Raw(json.quote(tracestate))
    return members


def span_name(caller: Caller, target: CallTarget) -> str:
    """Return the name of the spans: the method and, if it has no high cardinality, what it is called on."""
    if _plain_rpc(caller, target) or target.kind == "list":
        return target.name
    method = _METHODS[target.kind]
    return method if target.kind == "resource" else f"{method} {target.name}"


def call_attributes(caller: Caller, target: CallTarget) -> Attributes:
    """Return the attributes of both spans, after the semantic conventions for MCP. No arguments."""
    found = Attributes()
    if _plain_rpc(caller, target):
        found |= {"rpc.system.name": "jsonrpc", "rpc.method": target.name}
    else:
        found["mcp.method.name"] = _METHODS.get(target.kind, target.name)
        if target.kind in ("tool", "operation"):
            found |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": target.name}
    if target.kind == "prompt":
        found["gen_ai.prompt.name"] = target.name
    elif target.kind == "resource":
        found["mcp.resource.uri"] = target.name.removeprefix(f"{target.server}__")
    if target.server:
        found["tabane.server"] = target.server
    return found


def outcome_attributes(outcome: Outcome, size: int, reason: str) -> Attributes:
    """Return the attributes of both spans that are known at the end."""
    found: Attributes = {"tabane.outcome": str(outcome)}
    if outcome == "ok":
        found["tabane.result.size"] = size
    else:
        word = "tool_error" if outcome == "failed" else str(outcome)
        # A word of few values: the reason if it is one word, else the outcome.
        found["error.type"] = reason if _WORD.fullmatch(reason) else word
    return found


def caller_attributes(caller: Caller, request: str) -> Attributes:
    """Return the attributes of the client, which only the span of the hub as a server has."""
    found: Attributes = {"tabane.face": caller.face.value, "tabane.holder": caller.access.holder}
    if request:
        found["jsonrpc.request.id"] = request
    if caller.session:
        found["mcp.session.id"] = caller.session
    if caller.client:
        found["tabane.client"] = caller.client
    return found


def _plain_rpc(caller: Caller, target: CallTarget) -> bool:
    """Return whether an operation of the hub was called by its own name, not as a tool of MCP."""
    return target.kind == "operation" and caller.face is not Face.MCP
