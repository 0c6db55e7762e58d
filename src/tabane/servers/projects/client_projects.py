"""The projects that clients work in, as the gateway knows them."""

from __future__ import annotations

from tabane.messages import Message
from tabane.operations import Caller
from tabane.servers.server import Server


class ClientProjects:
    """The projects that clients work in. Without clients, there are none."""

    def awaits(self, server: Server) -> bool:
        """Return whether a client is there that sees this server of a project."""
        return False

    def notice(self, caller: Caller) -> Message | None:
        """Return what a caller should know about servers of its project that are not trusted."""
        return None

    def applied(self) -> None:
        """Note that the servers have changed, maybe because others are trusted."""
