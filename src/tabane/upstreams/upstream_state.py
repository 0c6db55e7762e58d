"""State and health of an instance of a server."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from tabane.messages import Message


class UpstreamState(Enum):
    IDLE = "idle"
    DOWNLOADING = "downloading"
    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"
    OPEN = "circuit open"
    LOGIN = "login required"
    STOPPED = "stopped"


class UpstreamHealth(Struct):
    """Health of an instance, for list_servers and status.

    ``since`` is when it became ready, by the clock of the event loop, ``ready_at`` by that of the computer.
    """

    starts: int = 0
    deaths: int = 0
    failures: int = 0
    error: Message | None = None
    calls: int = 0
    failed_calls: int = 0
    last_failure: Message | None = None
    healthy: bool = True
    since: float = 0.0
    ready_at: float | None = None
    used: float = 0.0
