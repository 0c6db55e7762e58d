"""A client's calls in flight: sent to upstreams, reported on and canceled."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw

from tabane.gateway.upstreams.call import Call, ServerRequest, UpstreamReply
from tabane.gateway.upstreams.upstream import Upstream
from tabane.hub.clients.questions import SessionClient
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.headers import HeaderMirror
from tabane.wire.json import InvalidJson, Members

DEFAULT_TIMEOUT = 30.0

MOST_UNREAD = 1 << 20
"""Unread bytes above which a client gets no progress of its calls, because answers are more important."""


class ClientCalls:
    """The requests of one client that upstreams work on.

    ``level`` is the place in LOG_LEVELS from which a legacy client wants log messages; None where it
    never said, and is told what servers choose to say. ``ask`` puts a question about a request to the client;
    None if the client cannot be asked.
    """

    __slots__ = ("_in_flight", "_session", "ask", "level")

    def __init__(self, session: SessionClient) -> None:
        self._session = session
        self._in_flight: dict[bytes, tuple[Call, Upstream]] = {}
        self.level: int | None = None
        self.ask: Callable[[bytes, ServerRequest], bool] | None = None

    def __len__(self) -> int:
        return len(self._in_flight)

    def __contains__(self, key: bytes) -> bool:
        return key in self._in_flight

    def send(
        self,
        key: bytes,
        upstream: Upstream,
        method: bytes,
        params: Members,
        meta: Members,
        on_reply: Callable[[UpstreamReply], None],
        *,
        mirrored: tuple[HeaderMirror, ...] = (),
        safe: bool = False,
    ) -> None:
        """Hand a request to an upstream. ``on_reply`` gets the answer, unless the call is cancelled."""
        session = self._session

        def replied(reply: UpstreamReply) -> None:
            self._in_flight.pop(key, None)
            on_reply(reply)

        if self.level is not None:
            meta = {**meta, eras.META_LOG_LEVEL: Raw(json.quote(eras.LOG_LEVELS[self.level]))}
        call = Call(
            method,
            params,
            meta,
            replied,
            lambda notice, about: self._noticed(key, meta, notice, about),
            upstream.server.timeout,
            on_question=self._asker(key),
            session=session.key,
            mirrored=mirrored,
            safe=safe,
            unsent=lambda: session.unsent,
        )
        self._in_flight[key] = (call, upstream)
        upstream.submit(call)

    def cancel(self, key: bytes, reason: str) -> None:
        """Cancel a call; nothing comes back for it."""
        entry = self._in_flight.pop(key, None)
        if entry:
            call, upstream = entry
            upstream.cancel(call, reason)

    def close(self) -> None:
        """Cancel all calls: the client is gone."""
        for key in list(self._in_flight):
            self.cancel(key, "the client is gone")

    def wants(self, params: Raw, level: int | None) -> bool:
        """Return whether a log message is at least as severe as the client asked for."""
        if level is None:
            return self._session.era is Era.LEGACY
        try:
            severity = json.text(json.fields(params).get("level"))
        except InvalidJson:
            return False
        return severity in eras.LOG_LEVELS and eras.LOG_LEVELS.index(severity) >= level

    def _asker(self, key: bytes) -> Callable[[ServerRequest], bool] | None:
        ask = self.ask
        return (lambda question: ask(key, question)) if ask else None

    def _noticed(self, key: bytes, meta: Members, method: str, params: Raw) -> None:
        if self._session.unsent > MOST_UNREAD:
            return
        if method == "notifications/progress":
            token = meta.get("progressToken")
            if token is None:
                return
            params = Raw(json.join({**json.fields(params), "progressToken": token}))
        elif not self.wants(params, eras.log_level(meta)):
            return
        self._session.tell(json.notification_line(method, params), key)
