"""Interface between the HTTP server and a group of hubs, each of which takes the requests of any client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tabane.hub.http.gate import HttpGate
from tabane.hub.http.legacy import HttpSessions, ResumableSession
from tabane.hub.http.request import HttpRequest
from tabane.wire.era import Era
from tabane.wire.json import JsonRpcFrame


class RequestRouting(Protocol):
    """Finds the hub of each request, and answers there what is for another one."""

    @property
    def joined(self) -> bool:
        """Return whether this hub has joined its group, so that clients can be served."""
        ...

    @property
    def hubs(self) -> int:
        """Return how many hubs of the group are alive, with this one."""
        ...

    @property
    def draining(self) -> bool:
        """Return whether the hub is about to end, so that new clients should go to another one."""
        ...

    def admits(self, request: HttpRequest) -> bool:
        """Return whether another hub of the group passes this request on, and has checked it.

        Raises RefusedRequest if that is claimed and not true.
        """
        ...

    async def passes(self, request: HttpRequest, era: Era, frame: JsonRpcFrame | None, body: bytes) -> bool:
        """Answer a request at the hub that it is for. Return False if that is this one.

        ``frame`` is the message of a POST. Raises RefusedRequest and RequesterGone.
        """
        ...

    def marked(self, line: bytes) -> bytes:
        """Return an answer of this hub, whose mark is put before the state of a server."""
        ...

    def unmarked(self, line: bytes) -> bytes:
        """Return a request for this hub, with the state of a server as that made it."""
        ...

    def note(self, session: ResumableSession, method: object, line: bytes) -> None:
        """Keep a message for the hub that may take this session: its first one, and those that change it."""
        ...

    async def close(self) -> None:
        """Finish what is written, and close the connections to other hubs."""
        ...


RoutingMaker = Callable[[HttpGate, HttpSessions], RequestRouting]
"""Makes the routing when the HTTP server is loaded. It may take over what the sessions tell."""
