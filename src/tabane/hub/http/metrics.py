"""Metrics for Prometheus: counters of HTTP, the state of hub and servers, and counters of calls."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tabane.build import this_build
from tabane.catalog.operations.server_operations import state_of
from tabane.hub.http.door import HttpDoor
from tabane.hub.http.legacy import HttpSessions
from tabane.hub.http.modern import SingleRequests
from tabane.hub.http.programs import HttpPrograms
from tabane.hub.http.request import HttpRequest
from tabane.hub.http.sources import FailedAttempts
from tabane.hub.telemetry.prometheus import (
    Labels,
    MetricFamily,
    MetricKind,
    MetricSample,
    audit_families,
    call_families,
    exposition,
    single,
)
from tabane.upstreams.connection import UpstreamState
from tabane.upstreams.upstream import Upstream

if TYPE_CHECKING:
    from tabane.hub.http.tls import TlsEntrance

TEXT = b"text/plain; version=0.0.4; charset=utf-8"

METHODS = frozenset(
    [
        "initialize",
        "server/discover",
        "ping",
        "tools/list",
        "tools/call",
        "tools/get",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "completion/complete",
        "logging/setLevel",
        "subscriptions/listen",
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/roots/list_changed",
        "answer",
        "batch",
    ]
)
"""Methods that are counted by name. A client may send any name, so the others are counted as one."""

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

    def count(self, request: HttpRequest) -> None:
        """Count a request that was answered, or lost its client (status 0)."""
        kind = request.method if request.method in ("GET", "POST", "DELETE", "OPTIONS", "HEAD") else "other"
        name = request.method_name
        method = name if name in METHODS else "other" if name else ""
        self._requests[kind, request.era, method, request.status] += 1
        self._received += request.received
        self._sent += request.sent

    async def page(self, *, named: bool) -> str:
        """Return the page.

        ``named``: with the version and the names of servers, tools and keys, which need the token.
        """
        families, calls = list(self._families(named)), self._hub.audit.telemetry.counters.frozen()

        def written() -> str:
            return exposition([*families, *call_families(calls.read(), named)])

        # Thousands of series take tens of milliseconds.
        return await asyncio.to_thread(written) if named else written()

    def _families(self, named: bool) -> Iterator[MetricFamily]:
        if named:
            info: Labels = (("version", this_build().name),)
            yield MetricFamily(
                "tabane_info", "gauge", "The version of the hub; always 1.", [MetricSample(info, 1)]
            )
        yield from self._of_process()
        yield from self._of_http()
        yield from self._of_refusals()
        yield from self._of_hub()
        yield from self._of_servers(named)
        audit = self._hub.audit.counts()
        if audit is not None:
            yield from audit_families(audit)

    def _of_process(self) -> Iterator[MetricFamily]:
        up = self._door.uptime
        yield MetricFamily("tabane_uptime_seconds", "gauge", "Seconds since the hub was started.", single(up))
        try:
            with open("/proc/self/statm", "rb") as file:
                memory = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            return  # not on this platform
        text = "Memory that the hub holds, in bytes."
        yield MetricFamily("process_resident_memory_bytes", "gauge", text, single(memory))

    def _of_http(self) -> Iterator[MetricFamily]:
        requests = [
            MetricSample((("http", kind), ("era", era), ("method", method), ("status", str(status))), count)
            for (kind, era, method, status), count in sorted(self._requests.items())
        ]
        yield MetricFamily(
            "tabane_http_requests_total",
            "counter",
            "Requests over HTTP that were answered; status 0: the client went away before.",
            requests,
        )
        for way, count in (("received", self._received), ("sent", self._sent)):
            text = f"Bytes of bodies {way}, counted when a response ends."
            yield MetricFamily(f"tabane_http_{way}_bytes_total", "counter", text, single(count))
        sessions = self._sessions
        yield MetricFamily(
            "tabane_http_sessions", "gauge", "Sessions of clients with a handshake.", single(len(sessions))
        )
        ended = [
            MetricSample((("why", "idle"),), sessions.expired),
            MetricSample((("why", "room"),), sessions.evicted),
        ]
        yield MetricFamily(
            "tabane_http_sessions_ended_total", "counter", "Sessions that the hub ended, by reason.", ended
        )
        open_now = single(self._modern.in_flight)
        yield MetricFamily(
            "tabane_http_open_requests", "gauge", "Open requests of clients without sessions.", open_now
        )
        connections = single(self._door.connections)
        sockets = single(len(self._programs.sockets))
        yield MetricFamily(
            "tabane_http_websockets", "gauge", "Programs that are connected by WebSocket.", sockets
        )
        yield MetricFamily("tabane_http_connections", "gauge", "Open connections over HTTP.", connections)

    def _of_refusals(self) -> Iterator[MetricFamily]:
        counts = dict(self._attempts.counts)
        if self.entrance is not None:
            counts |= {"handshake": self.entrance.failed, "connection": self.entrance.refused}
        refused = [MetricSample((("reason", reason),), count) for reason, count in sorted(counts.items())]
        yield MetricFamily(
            "tabane_http_refused_total",
            "counter",
            "Requests and connections that were refused because nobody was known by their key or token.",
            refused,
        )

    def _of_hub(self) -> Iterator[MetricFamily]:
        status = self._hub.status()
        yield MetricFamily(
            "tabane_sessions", "gauge", "MCP clients attached, however.", single(status["sessions"])
        )
        yield MetricFamily(
            "tabane_calls_in_flight", "gauge", "Requests being worked on.", single(status["in_flight"])
        )
        yield MetricFamily("tabane_tools", "gauge", "Tools in the catalogue.", single(status["tools"]))

    def _of_servers(self, named: bool) -> Iterator[MetricFamily]:
        gateway = self._hub.gateway
        found = [(server, gateway.instances(server.name)) for server in gateway.servers.values()]
        states = [(server.name, state_of(server, instances)) for server, instances in found]
        counts = Counter(state for _, state in states)
        by_state = [MetricSample((("state", state),), counts[state]) for state in STATES]
        yield MetricFamily("tabane_servers", "gauge", "Servers by the state that they are in.", by_state)
        if not named:
            return
        yield MetricFamily(
            "tabane_server_state",
            "gauge",
            "1 for the state that a server is in, 0 for the others.",
            [
                MetricSample((("server", name), ("state", each)), float(each == state))
                for name, state in states
                for each in STATES
            ],
        )
        for name, kind, help, count in _OF_INSTANCES:
            samples = [
                MetricSample((("server", server.name),), sum(map(count, instances)))
                for server, instances in found
            ]
            yield MetricFamily(f"tabane_server_{name}", kind, help, samples)


_OF_INSTANCES: tuple[tuple[str, MetricKind, str, Callable[[Upstream], int]], ...] = (
    ("starts_total", "counter", "Times that a server was started.", lambda one: one.vitals.starts),
    ("deaths_total", "counter", "Times that a server died.", lambda one: one.vitals.deaths),
    ("calls_in_flight", "gauge", "Calls it works on, or that wait for it.", lambda one: one.in_flight),
)
