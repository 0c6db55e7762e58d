"""Export of spans over OTLP: a bounded queue, and a thread that completes spans and sends them in batches.

OpenTelemetry is imported in the thread. A collector that is slow or dead costs spans, never calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from tabane.build import this_build
from tabane.hub.telemetry.tracing import TracedCall
from tabane.operations import Face

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, SpanKind

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
        from opentelemetry.sdk.trace.export import SpanExportResult

        spans = [span for call in calls for span in self._writer.spans(call)]
        return self._exporter.export(spans) is SpanExportResult.SUCCESS

    def shutdown(self) -> None:
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
        found["error.type"] = _error_type(call)
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


def _error_type(call: TracedCall) -> str:
    """Return a word of low cardinality: the reason if it is one word, else the outcome."""
    if _WORD.fullmatch(call.reason):
        return call.reason
    return "tool_error" if call.outcome == "failed" else str(call.outcome)


def _context(call: TracedCall, span: str, *, remote: bool) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags, TraceState

    state = TraceState.from_header([call.state]) if call.state else None
    return SpanContext(int(call.trace, 16), int(span, 16), remote, TraceFlags(call.flags), state)
