"""How a bridge connects to its hub: over the socket of a home, or over TCP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tabane.hub.bridge.peer import LinePeer
from tabane.hub.local import hang_dumps
from tabane.hub.local.connector import HubConnection, HubConnector

if TYPE_CHECKING:
    from tabane.hub.local.handshake import Hello


class BridgeConnector(Protocol):
    """Connects a bridge, and connects it again when needed."""

    hello: Hello

    def connect(self) -> HubConnection | None:
        """Try once. Returns None if no hub serves now. Raises NoHub if another attempt cannot help."""
        ...

    def reach(self) -> HubConnection:
        """Return a hub that serves. Raises NoHub."""
        ...

    def side(self, connection: HubConnection) -> LinePeer:
        """Return the lines of an established connection."""
        ...

    def stacks(self, pid: int) -> str | None:
        """Return the file with the stacks of the hub of that process id, if its watchdog ended it."""
        ...


class LocalBridgeConnector(HubConnector):
    """The hub of a home on this machine."""

    def side(self, connection: HubConnection) -> LinePeer:
        return LinePeer(connection.fd, connection.fd, connection.welcome.max_line)

    def stacks(self, pid: int) -> str | None:
        logs = self.endpoint.logs
        return hang_dumps.file_of(logs, pid) if hang_dumps.was_stuck(logs, pid) else None
