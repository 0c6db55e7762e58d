"""The way from a bridge to its hub: over the socket of a home, or over TCP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tabane.hub.bridge.side import Side
from tabane.hub.local import stuck
from tabane.hub.local.approach import Approach, Connection

if TYPE_CHECKING:
    from tabane.hub.local.hello import Hello


class Way(Protocol):
    """Connects a bridge, and connects it again when needed."""

    hello: Hello

    def connect(self) -> Connection | None:
        """Try once. Returns None if no hub serves now. Raises NoHub if another attempt cannot help."""
        ...

    def reach(self) -> Connection:
        """Return a hub that serves. Raises NoHub."""
        ...

    def side(self, connection: Connection) -> Side:
        """Return the lines of an established connection."""
        ...

    def stacks(self, pid: int) -> str | None:
        """Return the file with the stacks of the hub of that process id, if its watchdog ended it."""
        ...


class LocalWay(Approach):
    """The hub of a home on this machine."""

    def side(self, connection: Connection) -> Side:
        return Side(connection.fd, connection.fd, connection.welcome.max_line)

    def stacks(self, pid: int) -> str | None:
        logs = self.endpoint.logs
        return stuck.file_of(logs, pid) if stuck.was_stuck(logs, pid) else None
