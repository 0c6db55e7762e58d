"""A collector of OpenTelemetry: an HTTP server that decodes the spans that it is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.harness.patience import LONG


@dataclass(frozen=True)
class CollectedSpan:
    """A span as the collector got it. Ids are in hexadecimal; ``parent`` is "" for a root."""

    name: str
    kind: str
    trace: str
    span: str
    parent: str
    state: str
    status: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    nanoseconds: int


@dataclass
class TraceCollectorServer:
    """What it was sent. ``status`` is its answer; while ``stuck`` is set, it does not answer."""

    url: str = ""
    status: int = 200
    requests: int = 0
    paths: list[str] = field(default_factory=list)
    spans: list[CollectedSpan] = field(default_factory=list)
    stuck: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait_for(self, count: int) -> list[CollectedSpan]:
        """Return the spans once there are so many."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.spans) >= count, LONG), self.spans
            return list(self.spans)

    def wait_for_request(self) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.requests > 0, LONG)

    def take(self, path: str, body: bytes) -> None:
        with self.changed:
            self.requests += 1
            self.paths.append(path)
            if self.status == 200:
                self.spans += _spans(body)
            self.changed.notify_all()


@contextmanager
def trace_collector() -> Iterator[TraceCollectorServer]:
    """Run a collector at a free port of this machine."""
    collector = TraceCollectorServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.path, self.rfile.read(int(self.headers["content-length"])))
            if collector.stuck.is_set():
                collector.ended.wait(LONG)
                return
            self.send_response(collector.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield collector
    finally:
        collector.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _spans(body: bytes) -> Iterator[CollectedSpan]:
    request = ExportTraceServiceRequest.FromString(body)
    for group in request.resource_spans:
        resource = _attributes(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield CollectedSpan(
                    span.name,
                    Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.trace_state,
                    "error" if span.status.code == 2 else "unset",
                    _attributes(span.attributes),
                    resource,
                    span.end_time_unix_nano - span.start_time_unix_nano,
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        assert isinstance(pair, KeyValue)
        found[pair.key] = getattr(pair.value, str(pair.value.WhichOneof("value")))
    return found
