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
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    NonRecordingSpan,
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

_QUERY = re.compile(r"\?[^\s'\"()]+")
_UNSET, _ERROR = Status(StatusCode.UNSET), Status(StatusCode.ERROR)

Attributes = dict[str, str | int]


class CallSpan:
    """A call that is traced.

    ``traceparent`` is what the upstream gets, "" for a call without an upstream. ``meta`` are the members
    to merge into ``_meta`` toward it; None: ``_meta`` goes to it as it came. There is no ``record`` if the
    trace is not recorded.
    """

    __slots__ = ("_record", "meta", "traceparent")

    def __init__(self, record: CallRecord | None, traceparent: str, meta: Members | None) -> None:
        self._record, self.traceparent, self.meta = record, traceparent, meta

    def end(self, outcome: Outcome, size: int = 0, *, reason: str = "") -> None:
        """End the call, once. ``reason`` is a word or a code for an outcome that is not ``ok``."""
        record, self._record = self._record, None
        if record is not None:
            record.end(outcome, size, reason)


class CallRecord:
    """A call of which spans are recorded. They are built when it ends: that takes a fifth of the time of
    spans of the SDK, which are filled one attribute at a time.
    """

    __slots__ = (
        *("_begun", "_caller", "_client", "_parent", "_request"),
        *("_server", "_started", "_target", "_tracing"),
    )

    def __init__(
        self,
        tracing: SpanTracing,
        caller: Caller,
        target: CallTarget,
        request: str,
        parent: SpanContext | None,
        server: SpanContext,
        client: SpanContext | None,
    ) -> None:
        self._tracing, self._caller, self._target, self._request = tracing, caller, target, request
        self._parent, self._server, self._client = parent, server, client
        self._started, self._begun = time.time_ns(), time.perf_counter_ns()

    def end(self, outcome: Outcome, size: int, reason: str) -> None:
        """Hand the spans over for export."""
        ended = self._started + time.perf_counter_ns() - self._begun
        attributes = call_attributes(self._caller, self._target) | outcome_attributes(outcome, size, reason)
        status = _UNSET if outcome == "ok" else _ERROR
        of_client = caller_attributes(self._caller, self._request)
        both = [(self._server, self._parent, SpanKind.SERVER, attributes | of_client)]
        if self._client is not None:
            both.insert(0, (self._client, self._server, SpanKind.CLIENT, attributes))
        for context, parent, kind, about in both:
            self._tracing.export(
                ReadableSpan(
                    span_name(self._caller, self._target),
                    context=context,
                    parent=parent,
                    resource=self._tracing.resource,
                    attributes=about,
                    kind=kind,
                    status=status,
                    start_time=self._started,
                    end_time=ended,
                    instrumentation_scope=self._tracing.scope,
                )
            )


class SpanTracing:
    """Traces calls. The provider samples and makes ids; ``processor`` gets the spans of ended calls for
    ``exporter``.
    """

    def __init__(self, provider: TracerProvider, processor: SpanProcessor, exporter: SpanExporter) -> None:
        self._sampler, self._ids = provider.sampler, provider.id_generator
        self._processor, self._exporter = processor, exporter
        self.resource, self.export = provider.resource, processor.on_end
        self.scope = InstrumentationScope("tabane", this_build().version)

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
        above = _parent_context(parent, state) if parent else None
        context = set_span_in_context(NonRecordingSpan(above), Context()) if above else Context()
        trace = above.trace_id if above else self._ids.generate_trace_id()
        name, kind = span_name(caller, target), SpanKind.SERVER
        decision = self._sampler.should_sample(context, trace, name, kind).decision
        recorded = decision is Decision.RECORD_AND_SAMPLE
        random = parent.flags & RANDOM if parent else 0
        # The span of a trace that is not recorded is known to nobody: its parent's stands for it.
        last = above.span_id if above and not recorded else self._ids.generate_span_id()
        record = None
        if recorded:
            flags, states = TraceFlags(SAMPLED | random), above.trace_state if above else None
            client, server = None, SpanContext(trace, last, False, flags, states)
            if target.server:
                last = self._ids.generate_span_id()
                client = SpanContext(trace, last, False, flags, states)
            record = CallRecord(self, caller, target, request, above, server, client)
        if not target.server:
            return CallSpan(record, "", None)
        text = f"00-{trace:032x}-{last:016x}-{random | SAMPLED * recorded:02x}"
        return CallSpan(record, text, context_members(text, state, bool(tracestate)))

    async def close(self, limit: float = FLUSH) -> None:
        """Export what is waiting, at most ``limit`` seconds long."""
        end = threading.Thread(target=self._processor.shutdown, name="end of spans", daemon=True)
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
        record.msg, record.args = _QUERY.sub("?…", record.getMessage()), ()  # it can have a key
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
    # It may refuse what the environment says, and the processor has a thread.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    processor = BatchSpanProcessor(
        exporter,
        max_queue_size=None if environment.get("OTEL_BSP_MAX_QUEUE_SIZE") else MOST_WAITING,
        schedule_delay_millis=None if environment.get("OTEL_BSP_SCHEDULE_DELAY") else interval * 1000,
    )
    return SpanTracing(provider, processor, exporter)


def _without_values(record: logging.LogRecord) -> bool:
    """Hide the header in an entry about one that is not valid: it can be a key."""
    record.args = ("…",) * len(record.args or ())
    return True


def _parent_context(parent: TraceParent, state: str) -> SpanContext:
    return SpanContext(
        int(parent.trace, 16),
        int(parent.span, 16),
        is_remote=True,
        trace_flags=TraceFlags(parent.flags),
        trace_state=TraceState.from_header([state]) if state else None,
    )


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
