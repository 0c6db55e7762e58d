"""How a bridge gets to its hub: over the socket of a home, or over TCP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tabane.hub.bridge.side import Side
from tabane.hub.local import stuck
from tabane.hub.local.approach import Approach, Connection

if TYPE_CHECKING:
    from tabane.hub.local.hello import Hello


class Way(Protocol):
    """Connects a bridge, again and again if need be."""

    hello: Hello

    def connect(self) -> Connection | None:
        """One try. None where no hub serves now. Raises NoHub where trying again is of no use."""
        ...

    def reach(self) -> Connection:
        """A hub that serves. Raises NoHub."""
        ...

    def side(self, connection: Connection) -> Side:
        """The lines of a connection that was made."""
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
