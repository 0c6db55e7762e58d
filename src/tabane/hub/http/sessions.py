"""Sessions over HTTP in the handshake era: created, looked up, ended when idle, limited in number."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
from collections.abc import Callable, Iterable, Iterator

from tabane.hub.clients.sessions import ClientSessions
from tabane.hub.http.authentication import has_ended
from tabane.hub.http.gate import HttpGate
from tabane.hub.http.legacy import ResumableSession
from tabane.hub.http.request import HttpReply, HttpRequest, refusal
from tabane.hub.http.stream import Pulse
from tabane.settings import Mode, Settings
from tabane.wire.era import Era

log = logging.getLogger(__name__)

LONGEST_LOOK = 30.0
"""Most seconds between two checks for sessions that are idle too long."""


class HttpSessions:
    """Sessions by ids that nobody can guess. If there are too many, the one idle longest is ended."""

    def __init__(
        self, settings: Callable[[], Settings], gate: HttpGate, clients: ClientSessions, pulse: Pulse
    ) -> None:
        self._settings, self._gate, self._clients, self._pulse = settings, gate, clients, pulse
        self._loop = pulse.loop
        self._by_id: dict[str, ResumableSession] = {}
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self.expired = self.evicted = 0
        self.name_new: Callable[[], str] = _random_name
        """Returns the id of a new session."""
        self.on_end: Callable[[ResumableSession], None] = _nothing
        """Called with each session that has ended."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[ResumableSession]:
        return iter(self._by_id.values())

    def make(self, request: HttpRequest, mode: Mode) -> ResumableSession:
        """Create a session. Raises RefusedRequest if there are too many, and none of them is idle."""
        return self._begin(request, mode, self.name_new())

    def take(self, request: HttpRequest, name: str, mode: Mode, messages: Iterable[bytes]) -> None:
        """Go on with a session of another hub: ``messages`` of the client bring it to its state.

        Raises RefusedRequest as :meth:`make`.
        """
        taken = self._begin(request, mode, name)
        for line in messages:
            taken.session.receive(line)  # it was answered before: the outlet knows no such request
        taken.session.sees_others()

    def _begin(self, request: HttpRequest, mode: Mode, name: str) -> ResumableSession:
        settings = self._settings()
        if len(self._by_id) >= settings.http_sessions:
            self._make_room()
        self._count += 1
        created = ResumableSession(name, self._pulse, settings.outbox, request.owner)
        assert request.access is not None  # identified before
        caller = self._gate.caller(request, f"http-{self._count}", request.access)
        created.session = self._clients.begin(caller, mode, created, Era.LEGACY)
        self._by_id[name] = created
        self._look_later()
        return created

    def find(self, name: str | None, owner: str) -> ResumableSession:
        """Return a session by its id, for the identity that made it.

        Raises RefusedRequest: 400 without an id, 404 if there is no such session, or it is another's.
        """
        if not name:
            raise refusal(400, "Mcp-Session-Id is missing: begin with initialize, and send the id it gives")
        found = self._by_id.get(name)
        if found is None or found.owner != owner:
            raise refusal(404, "Mcp-Session-Id: no such session, or it has ended; begin with initialize")
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._by_id

    def get(self, name: str) -> ResumableSession | None:
        """Return a session by its id, whoever asks."""
        return self._by_id.get(name)

    def end(self, session: ResumableSession, why: str) -> None:
        """Cancel what it has in flight, end its streams, forget it."""
        if self._by_id.pop(session.id, None) is None:
            return
        self.on_end(session)
        log.info("session %s over HTTP ended: %s", session.session.caller.session, why)
        gone: HttpReply = refusal(404, f"the session has ended: {why}").reply
        session.end(gone)
        session.session.gone()

    def end_revoked(self) -> None:
        """End the sessions of keys that were revoked or have expired."""
        for session in list(self):
            if has_ended(session.session.caller.access):
                self.end(session, "its key or token is no longer valid")

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()
        for session in list(self._by_id.values()):
            session.close("the hub ended")
            self.end(session, "the hub ended")

    def _make_room(self) -> None:
        idle = min((one for one in self if not one.busy), key=lambda one: one.used, default=None)
        if idle is None:
            text = "the hub has as many sessions as it takes, and all of them are in use"
            raise refusal(503, text, (b"retry-after", b"30"))
        self.evicted += 1
        self.end(idle, "it was idle longest when another client came")

    def _look_later(self) -> None:
        if self._timer is None and self._by_id:
            limit = self._settings().http_idle * 60
            self._timer = self._loop.call_later(min(LONGEST_LOOK, limit / 2), self._look)

    def _look(self) -> None:
        self._timer = None
        now, limit = self._loop.time(), self._settings().http_idle * 60
        for session in list(self):
            session.tidy(now)
            if now - session.used > limit and not session.busy:
                self.expired += 1
                self.end(session, "it was idle")
        self._look_later()


def _random_name() -> str:
    return base64.urlsafe_b64encode(os.urandom(24)).decode()


def _nothing(session: ResumableSession) -> None:
    return
