"""Clients that are connected to one server alone, and what their server tells or asks them.

The hub does not know these messages, so it cannot say which client one of them is for. A notification goes to
every client of the instance, unless they are of different identities. A request goes to the only client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import Raw

from tabane.operations import Caller
from tabane.upstreams.call import ServerRequest

if TYPE_CHECKING:
    from tabane.upstreams.upstream import Upstream


log = logging.getLogger(__name__)


class DirectClient(Protocol):
    """A client that is connected to one server alone."""

    caller: Caller

    def told(self, method: str, params: Raw) -> None:
        """Take a notification that the hub does not know."""
        ...

    def asked(self, question: ServerRequest) -> bool:
        """Take a request of the server. Return whether the client can be asked."""
        ...


class DirectClients:
    """The clients by their sessions. ``instance_of`` returns the running instance that serves a caller."""

    def __init__(self, instance_of: Callable[[Caller], Upstream | None]) -> None:
        self._instance_of = instance_of
        self._clients: dict[str, DirectClient] = {}

    def enter(self, session: str, client: DirectClient) -> None:
        self._clients[session] = client

    def leave(self, session: str) -> None:
        self._clients.pop(session, None)

    def of(self, upstream: Upstream) -> list[DirectClient]:
        """Return the clients that an instance serves."""
        name = upstream.server.name
        named = [client for client in self._clients.values() if client.caller.server == name]
        return [client for client in named if self._instance_of(client.caller) is upstream]


class ServerMessages:
    """The messages of one instance that belong to no call, and that the hub does not know."""

    def __init__(self, clients: DirectClients, upstream: Upstream) -> None:
        self._clients, self._upstream = clients, upstream

    def notified(self, method: str, params: Raw) -> None:
        """Pass on a notification. If the clients are of different identities, nobody gets it."""
        clients = self._clients.of(self._upstream)
        if len({client.caller.access.holder for client in clients}) > 1:
            log.debug("%s: a notification was dropped, since it is not known whose it is", self._name)
            return
        for client in clients:
            client.told(method, params)

    def asked(self, question: ServerRequest) -> bool:
        """Put a request to the only client. Return whether there is one that can be asked."""
        clients = self._clients.of(self._upstream)
        return len(clients) == 1 and clients[0].asked(question)

    @property
    def _name(self) -> str:
        return self._upstream.server.name
