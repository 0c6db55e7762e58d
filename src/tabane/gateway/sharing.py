"""How servers are shared among clients: as configured, or as their own requests have shown."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from tabane.gateway.servers.server import Server, Share

log = logging.getLogger(__name__)

CLIENT_REQUESTS = frozenset({"roots/list", "sampling/createMessage", "elicitation/create"})
"""Requests of a server that no one can answer for all clients together."""

_EACH = {"roots": "set of folders", "client": "client"}


class ServerSharing:
    """Decides whether a server runs once for all clients, for each set of folders, or for each client.

    ``on_learned`` is called with a server and how it has to be shared from now on.
    """

    def __init__(self, on_learned: Callable[[Server, str], None]) -> None:
        self._on_learned = on_learned
        self._learned: dict[tuple[str, str], str] = {}

    def restore(self, learned: dict[tuple[str, str], str]) -> None:
        """Take what was learned in earlier runs: by name and fingerprint."""
        self._learned = learned

    def shared(self, server: Server) -> Server:
        """Return the server with its effective ``share``: the configured one takes precedence."""
        learned = self._learned.get((server.name, server.fingerprint))
        if learned is None or server.share_given or server.share != "hub":
            return server
        return replace(server, share=cast("Share", learned))

    def learn(self, configured: Server | None, running: Server, method: str) -> None:
        """Note that a running server sent a request to its client. From now on it runs for that client."""
        share = "roots" if method == "roots/list" else "client"
        if configured is None or configured.share_given or method not in CLIENT_REQUESTS:
            return
        if running.share == "client" or self.shared(configured).share in (share, "client"):
            return
        self._learned[running.name, running.fingerprint] = share
        log.warning(
            '%s asked its client for %s, so it runs once for each %s from now on. "share" in the servers '
            "file decides otherwise.", running.name, method, _EACH[share],
        )  # fmt: skip
        self._on_learned(running, share)
