"""Metrics for Prometheus: counters of HTTP, the state of hub and servers, and counters of calls."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tabane.build import this_build
from tabane.catalog.operations.server_operations import state_of
from tabane.hub.http.door import HttpDoor
from tabane.hub.http.legacy import HttpSessions
from tabane.hub.http.modern import SingleRequests
from tabane.hub.http.programs import HttpPrograms
from tabane.hub.http.request import HttpRequest
from tabane.hub.http.sources import FailedAttempts
from tabane.hub.telemetry.prometheus import (
    Metric,
    MetricFamily,
    audit_families,
    call_families,
    counter,
    database_families,
    exposition,
    gauge,
    labeled,
)
from tabane.upstreams.connection import UpstreamState
from tabane.upstreams.upstream import Upstream

if TYPE_CHECKING:
    from tabane.hub.http.tls import TlsEntrance

TEXT = b"text/plain; version=0.0.4; charset=utf-8"

METHODS = frozenset((
    "initialize", "server/discover", "ping", "tools/list", "tools/call", "tools/get", "prompts/list",
    "prompts/get", "resources/list", "resources/templates/list", "resources/read", "resources/subscribe",
    "resources/unsubscribe", "completion/complete", "logging/setLevel", "subscriptions/listen",
    "notifications/initialized", "notifications/cancelled", "notifications/progress",
    "notifications/roots/list_changed", "answer", "batch",
))  # fmt: skip
"""Methods that are counted by name. A client may send any name, so the others are counted as one."""

FRESH = 5.0
"""Seconds in which the database is asked once, however many pages are read."""

STATES = ("disabled", *(state.value for state in UpstreamState))


class HttpMetrics:
    """Counts requests, and writes the page of metrics.

    ``entrance`` is the port's TLS, whose refused connections are counted; None without TLS.
    """

    def __init__(
        self,
        door: HttpDoor,
        sessions: HttpSessions,
        modern: SingleRequests,
        programs: HttpPrograms,
        attempts: FailedAttempts,
    ) -> None:
        self._door, self._hub, self._attempts = door, door.hub, attempts
        self._sessions, self._modern, self._programs = sessions, modern, programs
        self.entrance: TlsEntrance | None = None
        self._requests: Counter[tuple[str, str, str, int]] = Counter()
        self._received = self._sent = 0
        self._engine: dict[str, Any] = {}
        self._asked = -FRESH

    def count(self, request: HttpRequest) -> None:
        """Count a request that was answered, or lost its client (status 0)."""
        kind = request.method if request.method in ("GET", "POST", "DELETE", "OPTIONS", "HEAD") else "other"
        name = request.method_name
        method = name if name in METHODS else "other" if name else ""
        self._requests[kind, request.era, method, request.status] += 1
        self._received += request.received
        self._sent += request.sent

    async def page(self, *, named: bool, hubs: int | None = None) -> str:
        """Return the page.

        ``named``: with the version and the names of servers, tools and keys, which need the token. ``hubs``:
        how many are in the group of this one.
        """
        if time.monotonic() - self._asked >= FRESH:
            self._asked = time.monotonic()
            self._engine = (await self._hub.stores.report()).get("engine", {})
        families, calls = list(self._families(named)), self._hub.audit.counters.frozen()
        if self._engine:
            families += database_families(self._engine, time.time())
        if hubs is not None:
            families.append(gauge("tabane_group_hubs", "Hubs of the group that are alive.", hubs))

        def written() -> str:
            return exposition([*families, *call_families(calls.read(), named)])

        # Thousands of series take tens of milliseconds.
        return await asyncio.to_thread(written) if named else written()

    def _families(self, named: bool) -> Iterator[MetricFamily]:
        if named:
            version = labeled("version", [(this_build().name, 1)])
            yield gauge("tabane_info", "The version of the hub; always 1.", version)
        yield gauge("tabane_uptime_seconds", "Seconds since the hub was started.", self._door.uptime)
        with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/statm", "rb") as file:
            memory = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            yield gauge("process_resident_memory_bytes", "Memory that the hub holds, in bytes.", memory)
        yield from self._of_http()
        status = self._hub.status()
        yield gauge("tabane_sessions", "MCP clients attached, however.", status["sessions"])
        yield gauge("tabane_calls_in_flight", "Requests being worked on.", status["in_flight"])
        yield gauge("tabane_tools", "Tools in the catalogue.", status["tools"])
        yield from self._of_servers(named)
        audit = self._hub.audit.counts()
        if audit is not None:
            yield from audit_families(audit)

    def _of_http(self) -> Iterator[MetricFamily]:
        requests = (
            (*request, str(status), count) for (*request, status), count in sorted(self._requests.items())
        )
        yield counter(
            "tabane_http_requests_total",
            "Requests over HTTP that were answered; status 0: the client went away before.",
            labeled("http era method status", requests),
        )
        for way, count in (("received", self._received), ("sent", self._sent)):
            text = f"Bytes of bodies {way}, counted when a response ends."
            yield counter(f"tabane_http_{way}_bytes_total", text, count)
        sessions = self._sessions
        yield gauge("tabane_http_sessions", "Sessions of clients with a handshake.", len(sessions))
        ended = labeled("why", [("idle", sessions.expired), ("room", sessions.evicted)])
        yield counter("tabane_http_sessions_ended_total", "Sessions that the hub ended, by reason.", ended)
        in_flight = self._modern.in_flight
        yield gauge("tabane_http_open_requests", "Open requests of clients without sessions.", in_flight)
        sockets = len(self._programs.sockets)
        yield gauge("tabane_http_websockets", "Programs that are connected by WebSocket.", sockets)
        yield gauge("tabane_http_connections", "Open connections over HTTP.", self._door.connections)
        counts = dict(self._attempts.counts)
        if self.entrance is not None:
            counts |= {"handshake": self.entrance.failed, "connection": self.entrance.refused}
        yield counter(
            "tabane_http_refused_total",
            "Requests and connections that were refused because nobody was known by their key or token.",
            labeled("reason", sorted(counts.items())),
        )

    def _of_servers(self, named: bool) -> Iterator[MetricFamily]:
        gateway = self._hub.gateway
        found = [(server, gateway.instances(server.name)) for server in gateway.servers.values()]
        states = [(server.name, state_of(server, instances)) for server, instances in found]
        counts = Counter(state for _, state in states)
        by_state = labeled("state", ((state, counts[state]) for state in STATES))
        yield gauge("tabane_servers", "Servers by the state that they are in.", by_state)
        if not named:
            return
        each_state = ((name, each, float(each == state)) for name, state in states for each in STATES)
        yield gauge(
            "tabane_server_state",
            "1 for the state that a server is in, 0 for the others.",
            labeled("server state", each_state),
        )
        for name, metric, help, count in _OF_INSTANCES:
            rows = ((server.name, sum(map(count, instances))) for server, instances in found)
            yield metric(f"tabane_server_{name}", help, labeled("server", rows))


_OF_INSTANCES: tuple[tuple[str, Metric, str, Callable[[Upstream], int]], ...] = (
    ("starts_total", counter, "Times that a server was started.", lambda one: one.vitals.starts),
    ("deaths_total", counter, "Times that a server died.", lambda one: one.vitals.deaths),
    ("calls_in_flight", gauge, "Calls it works on, or that wait for it.", lambda one: one.in_flight),
)
