"""What Prometheus is told, in its text format 0.0.4: counters of HTTP, and the state of hub and servers."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from tabane.build import this_build
from tabane.gateway.server_status import state_of
from tabane.gateway.upstreams.upstream import Upstream, UpstreamState

if TYPE_CHECKING:
    from tabane.hub.http.app import App
    from tabane.hub.http.door import HttpDoor
    from tabane.hub.http.request import Request

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
"""Methods that are counted by name. A client may write anything there, so the others are one."""

STATES = ("disabled", *(state.value for state in UpstreamState))

Labels = tuple[tuple[str, str], ...]
Samples = Iterable[tuple[Labels, float]]


class Family(NamedTuple):
    """A metric with its samples, each with its labels."""

    name: str
    kind: str
    help: str
    samples: Samples


class Metrics:
    """Counts requests, and writes the page when asked."""

    def __init__(self, door: HttpDoor, app: App) -> None:
        self._door, self._app = door, app
        self._requests: Counter[tuple[str, str, str, int]] = Counter()
        self._received = self._sent = 0

    def count(self, request: Request) -> None:
        """A request has been answered, or its client has gone (status 0)."""
        kind = request.method if request.method in ("GET", "POST", "DELETE", "OPTIONS", "HEAD") else "other"
        name = request.method_name
        method = name if name in METHODS else "other" if name else ""
        self._requests[kind, request.era, method, request.status] += 1
        self._received += request.received
        self._sent += request.sent

    def page(self, *, named: bool) -> str:
        """Return the page. ``named``: with the names of servers and the version, which need the token."""
        return "".join(_written(family) for family in self._families(named))

    def _families(self, named: bool) -> Iterator[Family]:
        if named:
            info: Labels = (("version", this_build().name),)
            yield Family("tabane_info", "gauge", "The version of the hub; always 1.", [(info, 1)])
        yield from self._of_process()
        yield from self._of_http()
        yield from self._of_hub()
        yield from self._of_servers(named)

    def _of_process(self) -> Iterator[Family]:
        up = self._door.uptime
        yield Family("tabane_uptime_seconds", "gauge", "Seconds since the hub was started.", _one(up))
        memory = _resident()
        if memory is not None:
            yield Family(
                "process_resident_memory_bytes", "gauge", "Memory that the hub holds, in bytes.", _one(memory)
            )

    def _of_http(self) -> Iterator[Family]:
        requests = (
            ((("http", kind), ("era", era), ("method", method), ("status", str(status))), count)
            for (kind, era, method, status), count in sorted(self._requests.items())
        )
        yield Family(
            "tabane_http_requests_total",
            "counter",
            "Requests over HTTP that were answered; status 0: the client went away before.",
            requests,
        )
        for way, count in (("received", self._received), ("sent", self._sent)):
            text = f"Bytes of bodies {way}, counted when a response ends."
            yield Family(f"tabane_http_{way}_bytes_total", "counter", text, _one(count))
        sessions = self._app.sessions
        yield Family(
            "tabane_http_sessions", "gauge", "Sessions of clients with a handshake.", _one(len(sessions))
        )
        ended: Samples = [((("why", "idle"),), sessions.expired), ((("why", "room"),), sessions.evicted)]
        yield Family(
            "tabane_http_sessions_ended_total", "counter", "Sessions that the hub ended, by reason.", ended
        )
        open_now = _one(self._app.modern.in_flight)
        yield Family(
            "tabane_http_open_requests", "gauge", "Open requests of clients without sessions.", open_now
        )
        connections = _one(self._door.connections)
        sockets = _one(len(self._app.programs.sockets))
        yield Family("tabane_http_websockets", "gauge", "Programs that are connected by WebSocket.", sockets)
        yield Family("tabane_http_connections", "gauge", "Open connections over HTTP.", connections)

    def _of_hub(self) -> Iterator[Family]:
        status = self._door.hub.status()
        yield Family("tabane_sessions", "gauge", "MCP clients attached, however.", _one(status["sessions"]))
        yield Family(
            "tabane_calls_in_flight", "gauge", "Requests being worked on.", _one(status["in_flight"])
        )
        yield Family("tabane_tools", "gauge", "Tools in the catalogue.", _one(status["tools"]))

    def _of_servers(self, named: bool) -> Iterator[Family]:
        gateway = self._door.hub.gateway
        found = [(server, gateway.instances(server.name)) for server in gateway.servers.values()]
        states = [(server.name, state_of(server, instances)) for server, instances in found]
        counts = Counter(state for _, state in states)
        by_state = [((("state", state),), float(counts[state])) for state in STATES]
        yield Family("tabane_servers", "gauge", "Servers by the state that they are in.", by_state)
        if not named:
            return
        yield Family(
            "tabane_server_state",
            "gauge",
            "1 for the state that a server is in, 0 for the others.",
            [((("server", name), ("state", s)), float(s == state)) for name, state in states for s in STATES],
        )
        for name, kind, help, count in _OF_INSTANCES:
            sums = [(server.name, float(sum(map(count, instances)))) for server, instances in found]
            samples: Samples = [((("server", server),), value) for server, value in sums]
            yield Family(f"tabane_server_{name}", kind, help, samples)


_OF_INSTANCES: tuple[tuple[str, str, str, Callable[[Upstream], int]], ...] = (
    ("starts_total", "counter", "Times that a server was started.", lambda one: one.vitals.starts),
    ("deaths_total", "counter", "Times that a server died.", lambda one: one.vitals.deaths),
    ("calls_in_flight", "gauge", "Calls it works on, or that wait for it.", lambda one: one.in_flight),
)


def _one(value: float) -> Samples:
    return [((), value)]


def _written(family: Family) -> str:
    lines = [f"# HELP {family.name} {_escaped(family.help)}\n# TYPE {family.name} {family.kind}\n"]
    for labels, value in family.samples:
        shown = ",".join(f'{name}="{_escaped(text, quoted=True)}"' for name, text in labels)
        lines.append(f"{family.name}{{{shown}}} {value:.15g}\n" if shown else f"{family.name} {value:.15g}\n")
    return "".join(lines)


def _escaped(text: str, *, quoted: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quoted else text


def _resident() -> int | None:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
