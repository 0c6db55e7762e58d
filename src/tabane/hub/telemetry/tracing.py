"""Spans of calls for OpenTelemetry: one trace from the client through the hub to the upstream.

A call of an upstream's tool makes two spans: one of the hub as a server, and below it one of the hub as a
client, whose id the upstream gets. On the event loop, a span is a few numbers. A thread completes spans from
a bounded queue and sends them over OTLP in batches; it alone imports OpenTelemetry. A collector that is slow
or dead costs spans, never calls. Its URL and the sampling are from the settings and OpenTelemetry's own
variables.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from random import getrandbits
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from msgspec import Raw

from tabane.build import this_build
from tabane.extras import extra_command
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

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, SpanKind

_EVERY = 1 << 64
"""A ratio of traces is selected by the last 64 bits of their ids, as other OpenTelemetry SDKs do it."""


class CallSpan(Protocol):
    """A call that is traced.

    ``traceparent`` is what the upstream gets, "" for a call without an upstream. ``meta`` are the members
    to merge into ``_meta`` toward it; None: ``_meta`` goes to it as it came.
    """

    traceparent: str
    meta: Members | None

    def end(self, outcome: Outcome, size: int = 0, *, reason: str = "") -> None:
        """End the call. ``reason`` is a word or a code for an outcome that is not ``ok``."""
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
        """Return whether the spans of a trace are recorded."""
        if parent is not None and self._follows:
            return parent.sampled
        return int(trace[-16:], 16) < self._most


class UnrecordedCall:
    """A call whose trace is not recorded. Its upstream learns that."""

    __slots__ = ("meta", "traceparent")

    def __init__(self, traceparent: str, meta: Members | None) -> None:
        self.traceparent, self.meta = traceparent, meta

    def end(self, outcome: Outcome, size: int = 0, *, reason: str = "") -> None:
        """Do nothing."""
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
        """Note how the call ended, and hand it over for export."""
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
        """Begin the span of a call. Never raises an error for what a client sent as its trace context."""
        parent = parse_traceparent(traceparent) if traceparent else None
        state = valid_tracestate(tracestate) if tracestate and parent else ""
        trace = parent.trace if parent else new_trace()
        if not self._sampler.records(trace, parent):
            if not target.server:
                return UnrecordedCall("", None)
            flags = parent.flags & RANDOM if parent else 0
            text = str(TraceParent(trace, parent.span if parent else new_span(), flags))
            return UnrecordedCall(text, context_members(text, state, bool(tracestate)))
        call = TracedCall(self._sink, caller, target, request, trace, parent, state)
        if target.server:
            call.to_upstream(bool(tracestate))
        return call

    async def close(self) -> None:
        """Export what is waiting, at most 2 seconds long."""
        await self._sink.close()


def new_trace() -> str:
    """Return a new random id of a trace, in hexadecimal digits."""
    return f"{getrandbits(128) or 1:032x}"


def new_span() -> str:
    return f"{getrandbits(64) or 1:016x}"


def context_members(traceparent: str, tracestate: str, given: bool) -> Members:
    """Return the members of ``_meta``. A ``tracestate`` that was ``given`` and is not valid is emptied."""
    members = {TRACEPARENT: Raw(b'"%b"' % traceparent.encode())}
    if tracestate or given:
        members[TRACESTATE] = Raw(json.quote(tracestate))
    return members


log = logging.getLogger(__name__)

MOST_WAITING = 4096
"""Calls that wait for the thread; more are dropped and counted."""

MOST_IN_BATCH = 512
INTERVAL = 2.0
"""Seconds after which a batch is sent that is not full."""

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
_LOGGERS = (
    "opentelemetry.exporter.otlp.common.http",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
)
_WORD = re.compile(r"[A-Za-z0-9_.\-]{1,64}", re.ASCII)

Attributes = dict[str, str | int]


class SpanSender(Protocol):
    """Sends completed spans, one batch at a time. Used by one thread only, except :meth:`shutdown`."""

    def send(self, calls: Sequence[TracedCall]) -> bool:
        """Send the spans of these calls. Return whether the collector accepted them."""
        ...

    def shutdown(self) -> None:
        """End a send in progress, and send nothing more."""
        ...


class SpanExport:
    """Takes ended calls on the event loop, and exports them in a thread.

    ``connect`` is called in the thread. It imports OpenTelemetry and returns the sender.
    """

    def __init__(
        self, connect: Callable[[], SpanSender], *, interval: float = INTERVAL, most: int = MOST_WAITING
    ) -> None:
        self._connect, self._interval, self._most = connect, interval, most
        self._waiting: deque[TracedCall] = deque()
        self._some, self._full = threading.Event(), threading.Event()
        self._closing = False
        self._sender: SpanSender | None = None
        self._thread: threading.Thread | None = None
        self._warned = 0.0
        self.dropped = 0
        """Calls whose spans were lost."""

    def take(self, call: TracedCall) -> None:
        """Queue a call that ended. Never waits."""
        waiting = self._waiting
        if len(waiting) >= self._most or self._closing:
            self.dropped += 1
            return
        waiting.append(call)
        if len(waiting) == 1:
            self._some.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="span export", daemon=True)
                self._thread.start()
        elif len(waiting) == MOST_IN_BATCH:
            self._full.set()

    async def close(self, limit: float = FLUSH) -> None:
        """Export what waits, at most ``limit`` seconds long, and end the thread."""
        self._closing = True
        self._full.set()
        self._some.set()
        if self._thread is None:
            return
        await asyncio.to_thread(self._thread.join, limit)
        if self._thread.is_alive():
            self._lost(len(self._waiting))
            self._waiting.clear()
            if self._sender is not None:
                self._sender.shutdown()

    def _run(self) -> None:
        try:
            self._sender = sender = self._connect()
        except Exception as error:
            # Whatever is wrong with the installation, calls go on without spans.
            log.warning("Tracing is off, because OpenTelemetry could not be started: %s", error)
            self._closing = True
            self._waiting.clear()
            return
        while not self._closing:
            self._some.wait()
            self._some.clear()
            self._full.wait(self._interval)
            self._full.clear()
            self._send_all(sender)
        self._send_all(sender)
        sender.shutdown()

    def _send_all(self, sender: SpanSender) -> None:
        while batch := self._next_batch():
            try:
                sent = sender.send(batch)
            except Exception:
                log.exception("spans could not be exported")
                sent = False
            if not sent:
                self._lost(len(batch))

    def _next_batch(self) -> list[TracedCall]:
        batch: list[TracedCall] = []
        with contextlib.suppress(IndexError):  # the event loop may clear what waits
            while len(batch) < MOST_IN_BATCH:
                batch.append(self._waiting.popleft())
        return batch

    def _lost(self, count: int) -> None:
        self.dropped += count
        if self._warned and time.monotonic() - self._warned < SILENCE:
            return
        self._warned = time.monotonic()
        log.warning(
            "The trace collector did not accept the spans of %d calls. Check that it runs, and the setting "
            "otel_endpoint or the variable OTEL_EXPORTER_OTLP_ENDPOINT.", self.dropped,
        )  # fmt: skip


class ExporterLogFilter(logging.Filter):
    """Lets one entry of OpenTelemetry's exporter through each minute: it logs each batch that fails."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + SILENCE
        return True


class OtlpSender:
    """Sends spans to a collector over OTLP and HTTP. Made in the thread: it imports OpenTelemetry.

    ``endpoint`` is the URL of the collector for traces. Headers, certificates and compression are those of
    the standard environment variables. ``named``: the environment gives the service a name.
    """

    def __init__(self, endpoint: str, *, named: bool = False) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource

        build = this_build()
        given: dict[str, str] = {"service.version": build.version}
        if not named:
            given["service.name"] = "tabane"
        self._writer = SpanWriter(Resource.create(given))
        self._exporter = OTLPSpanExporter(endpoint, timeout=PATIENCE)
        self._quiet = ExporterLogFilter()
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(self._quiet)

    def send(self, calls: Sequence[TracedCall]) -> bool:
        """Send the spans of calls. Blocks. Return whether the collector took them."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        spans = [span for call in calls for span in self._writer.spans(call)]
        return self._exporter.export(spans) is SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Close the connection. Blocks."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self._quiet)


class SpanWriter:
    """Completes the spans of a call."""

    def __init__(self, resource: Resource) -> None:
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._resource = resource
        self._scope = InstrumentationScope("tabane", this_build().version)

    def spans(self, call: TracedCall) -> list[ReadableSpan]:
        """Return the hub's span as a server, and if there is an upstream, as its client."""
        from opentelemetry.trace import SpanKind

        attributes = call_attributes(call)
        parent = call.parent.span if call.parent else ""
        from_client = {**attributes, **caller_attributes(call)}
        spans = [self._span(call, SpanKind.SERVER, call.span, parent, from_client, remote=True)]
        if call.upstream_span:
            spans.append(self._span(call, SpanKind.CLIENT, call.upstream_span, call.span, attributes))
        return spans

    def _span(
        self,
        call: TracedCall,
        kind: SpanKind,
        span: str,
        parent: str,
        attributes: Attributes,
        *,
        remote: bool = False,
    ) -> ReadableSpan:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import Status, StatusCode

        failed = "error.type" in attributes
        return ReadableSpan(
            span_name(call),
            context=_context(call, span, remote=False),
            parent=_context(call, parent, remote=remote) if parent else None,
            resource=self._resource,
            attributes=attributes,
            kind=kind,
            status=Status(StatusCode.ERROR) if failed else Status(StatusCode.UNSET),
            start_time=call.started,
            end_time=call.ended,
            instrumentation_scope=self._scope,
        )


def span_name(call: TracedCall) -> str:
    """Return the name of the spans: the method and, if it has no high cardinality, what it is called on."""
    target = call.target
    if _plain_rpc(call) or target.kind == "list":
        return target.name
    method = _METHODS[target.kind]
    return method if target.kind == "resource" else f"{method} {target.name}"


def call_attributes(call: TracedCall) -> Attributes:
    """Return the attributes of both spans, after the semantic conventions for MCP. No arguments."""
    target, found = call.target, Attributes()
    if _plain_rpc(call):
        found |= {"rpc.system.name": "jsonrpc", "rpc.method": target.name}
    else:
        found["mcp.method.name"] = _METHODS.get(target.kind, target.name)
    if target.kind in ("tool", "operation") and not _plain_rpc(call):
        found |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": target.name}
    elif target.kind == "prompt":
        found["gen_ai.prompt.name"] = target.name
    elif target.kind == "resource":
        found["mcp.resource.uri"] = target.name.removeprefix(f"{target.server}__")
    if target.server:
        found["tabane.server"] = target.server
    if call.outcome == "ok":
        found["tabane.result.size"] = call.size
    else:
        outcome = "tool_error" if call.outcome == "failed" else str(call.outcome)
        # A word of few values: the reason if it is one word, else the outcome.
        found["error.type"] = call.reason if _WORD.fullmatch(call.reason) else outcome
    found["tabane.outcome"] = str(call.outcome)
    return found


def caller_attributes(call: TracedCall) -> Attributes:
    """Return the attributes of the client, which only the span of the hub as a server has."""
    caller = call.caller
    found: Attributes = {"tabane.face": caller.face.value, "tabane.holder": caller.access.holder}
    if call.request:
        found["jsonrpc.request.id"] = call.request
    if caller.session:
        found["mcp.session.id"] = caller.session
    if caller.client:
        found["tabane.client"] = caller.client
    return found


def _plain_rpc(call: TracedCall) -> bool:
    """Return whether an operation of the hub was called by its own name, not as a tool of MCP."""
    return call.target.kind == "operation" and call.caller.face is not Face.MCP


def _context(call: TracedCall, span: str, *, remote: bool) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags, TraceState

    state = TraceState.from_header([call.state]) if call.state else None
    return SpanContext(int(call.trace, 16), int(span, 16), remote, TraceFlags(call.flags), state)


TRACES_PATH = "/v1/traces"
DEFAULT_ENDPOINT = "http://localhost:4318"

_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SAMPLER, _SAMPLER_ARGUMENT = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"


@dataclass(frozen=True, slots=True)
class TraceCollector:
    """The destination of spans, and their selection. ``named``: the environment gives the service a name.

    ``ratio`` and ``follows`` are those of :class:`TraceSampler`.
    """

    url: str
    named: bool = False
    ratio: float = 1.0
    follows: bool = True

    def connect(self) -> OtlpSender:
        """Return a sender of spans to it. Imports OpenTelemetry, so call it in a thread."""
        return OtlpSender(self.url, named=self.named)


class NoTracing(Exception):
    """Traces were requested, but cannot be exported. The text is the reason, and what to do."""


def open_tracing(otel_endpoint: str, environment: Mapping[str, str]) -> SpanTracing | None:
    """Return the tracing that the setting and the environment request; None if they request none.

    Logs a warning if it cannot work, and returns None then too.
    """
    try:
        collector = collector_of(otel_endpoint, environment)
        if collector is None:
            return None
        check_installed()
    except NoTracing as reason:
        log.warning("Tracing is off: %s", reason)
        return None
    log.info("traces go to %s", _shown(collector.url))
    export = SpanExport(collector.connect)
    return SpanTracing(export, TraceSampler(collector.ratio, follows=collector.follows))


def collector_of(otel_endpoint: str, environment: Mapping[str, str]) -> TraceCollector | None:
    """Return the collector that is requested; None if none is. Raises NoTracing.

    The setting is stronger than the variables. OTEL_SDK_DISABLED is stronger than both.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    url = _with_path(otel_endpoint.strip()) if otel_endpoint.strip() else _url_of(environment)
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise NoTracing(f"the endpoint is not a URL such as {DEFAULT_ENDPOINT}: {_shown(url)}")
    ratio, follows = _sampling(environment)
    pairs = environment.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")
    names = {pair.partition("=")[0].strip() for pair in pairs}
    named = bool(environment.get("OTEL_SERVICE_NAME")) or "service.name" in names
    return TraceCollector(url, named, ratio, follows)


def check_installed() -> None:
    """Raise NoTracing if the extra with OpenTelemetry is not installed."""
    for module in ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http"):
        try:
            found = find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise NoTracing(f"OpenTelemetry is not installed. Run: {extra_command('otel')}")


def _url_of(environment: Mapping[str, str]) -> str | None:
    """Return the URL that the variables of OpenTelemetry request."""
    exporters = [name.strip().lower() for name in environment.get(_EXPORTER, "").split(",") if name.strip()]
    if exporters and "otlp" not in exporters:
        if "none" in exporters:
            return None
        raise NoTracing(f"{_EXPORTER}={environment[_EXPORTER]} is not supported. Use otlp or none.")
    for_traces, base = (environment.get(name, "").strip() for name in _ENDPOINTS)
    if not (exporters or for_traces or base):
        return None
    protocol = next((found for name in _PROTOCOLS if (found := environment.get(name, "").strip())), "")
    if protocol == "grpc":
        raise NoTracing(
            "spans are sent over HTTP only, but the environment asks for gRPC. Set "
            f"{_PROTOCOLS[0]}=http/protobuf and {_ENDPOINTS[0]}, for example {DEFAULT_ENDPOINT}{TRACES_PATH}"
        )
    return for_traces or _with_path(base or DEFAULT_ENDPOINT)


def _with_path(base: str) -> str:
    """Return the URL for traces of a collector."""
    base = base.rstrip("/")
    return base if base.endswith(TRACES_PATH) else base + TRACES_PATH


def _sampling(environment: Mapping[str, str]) -> tuple[float, bool]:
    """Return the ratio of new traces to record, and whether the decision of a client is followed."""
    name = environment.get(_SAMPLER, "").strip().lower() or "parentbased_always_on"
    follows, kind = name.startswith("parentbased_"), name.removeprefix("parentbased_")
    if kind in ("always_on", "always_off"):
        return float(kind == "always_on"), follows
    if kind == "traceidratio":
        return _ratio(environment.get(_SAMPLER_ARGUMENT, "")), follows
    log.warning("%s=%s is unknown; all traces are recorded that clients record.", _SAMPLER, name)
    return 1.0, True


def _ratio(text: str) -> float:
    try:
        ratio = float(text or 1.0)
    except ValueError:
        ratio = -1.0
    if 0.0 <= ratio <= 1.0:
        return ratio
    log.warning("%s=%s is not a number from 0 to 1; 1 is used.", _SAMPLER_ARGUMENT, text)
    return 1.0


def _shown(url: str) -> str:
    """Return a URL without user name, password and query."""
    address, _, _ = url.partition("?")
    scheme, mark, rest = address.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}" if mark else address.rpartition("@")[2]
