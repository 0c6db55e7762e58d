"""Sessions of a hub: attached, notified of changes, drained and closed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, get_args

from msgspec import Raw

from tabane.catalog.gateway import Gateway
from tabane.catalog.long_results import LongResults
from tabane.hub.clients.outlet import ROOM, Outlet, too_large, undelivered
from tabane.hub.clients.questions.parking import HubQuestions
from tabane.hub.clients.server_access import PresentProjects, ProjectAccess, ProjectOffers, ServerAccess
from tabane.hub.clients.session import ClientMethods, Session
from tabane.hub.context import HubContext
from tabane.hub.local.handshake import BEGUN, DRAIN, HELD, Hello
from tabane.messages import language
from tabane.operations import Caller, Face
from tabane.servers.server import Server
from tabane.settings import Mode
from tabane.wire.channel import LineBatch, LineChannel
from tabane.wire.era import Era

if TYPE_CHECKING:
    from tabane.hub.people.access import HubAccess
    from tabane.hub.people.guards import HubGuards

MODES: tuple[Mode, ...] = get_args(Mode)

SOON = 0.1
"""Seconds in which changes are gathered: servers that list at the same time cause one notice."""

MOST_NOTIFIED = 256
"""Lists whose last notice is remembered: three of each project."""

LONGEST = 5.0
"""Seconds between two notices of a list that keeps changing."""

_ERRORS = 16 << 20
"""Bytes of the errors that may replace answers, one for each request in flight."""

_LOOK = 0.02
"""Seconds between two checks whether all sessions are idle."""


class ClientSessions:
    """The MCP clients attached to a hub, over any transport.

    ``methods`` answer requests. ``people`` gives the access of the local user in a profile.
    """

    def __init__(
        self,
        context: HubContext,
        batch: LineBatch,
        gateway: Gateway,
        long_results: LongResults,
        methods: ClientMethods,
        questions: HubQuestions,
        approvals: HubGuards,
        people: HubAccess,
    ) -> None:
        self._people, self.questions, self.approvals = people, questions, approvals
        self._context, self.loop, self.gateway = context, context.loop, gateway
        self.handlers, self.direct, self.unknown = methods
        # Marks the ids of this hub's questions: a bridge may outlive the hub and meet the next.
        self.mark = f"tabane-{os.urandom(4).hex()}"
        self._batch, self._long_results = batch, long_results
        self.draining = False
        self._sessions: dict[str, Session] = {}
        self._count = 0
        self._idle: asyncio.Future[None] = self.loop.create_future()
        self._notices = ListNotices(self.loop, self._tell)
        self.offers = ProjectOffers(context)
        gateway.projects = PresentProjects(self.awaits, self.offers)

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        """Iterate over a copy: a session may end while the others are notified."""
        return iter(list(self._sessions.values()))

    @property
    def max_line(self) -> int:
        """Length limit of a message, in bytes."""
        return self._context.settings.max_line

    @property
    def in_flight(self) -> int:
        """Return the number of requests in flight."""
        return sum(session.in_flight for session in self._sessions.values())

    def attach(self, read_fd: int, write_fd: int, hello: Hello) -> Session:
        """Serve a client on a pair of non-blocking descriptors, which the session owns from here on.

        Raises UnknownName if there is no such profile as the client asks for.
        """
        settings = self._context.settings
        access = self._people.narrowed(hello.profile)
        if hello.server:
            access = ServerAccess(access, hello.server)
        # The working directory of a process has no links.
        folders = (os.path.normpath(hello.cwd),) if os.path.isabs(hello.cwd) else ()
        caller = Caller(
            identity="local",
            face=Face.MCP,
            session=str(self._count + 1),
            lang=language(settings.lang, hello.lang, self._context.environment.get("LANG")),
            client=hello.client,
            cwd=hello.cwd,
            roots=tuple(hello.roots),
            access=ProjectAccess(access, self.gateway, folders),
            server=hello.server,
        )
        self.offers.look(caller)
        mode: Mode = hello.mode if hello.mode in MODES else settings.mode
        outlet = LineOutlet(self.loop, lingers=hello.role == "stdio")
        session = self.begin(caller, mode, outlet)
        outlet.open(
            session,
            self._batch,
            read_fd,
            write_fd,
            max_line=settings.max_line,
            max_outbox=settings.outbox,
        )
        return session

    def begin(
        self, caller: Caller, mode: Mode, outlet: Outlet, era: Era | None = None, *, shared: bool = False
    ) -> Session:
        """Begin a session of that caller. ``shared``: one of several that the caller has at the same time."""
        self._count += 1
        key = f"{caller.session}.{self._count}" if shared else caller.session
        session = Session(self, caller, mode, outlet, era, key=key, shared=shared)
        self._sessions[key] = session
        if caller.server:
            self.gateway.direct.enter(key, session)
        return session

    def left(self, session: Session) -> None:
        """End what runs for a session alone: its client is gone."""
        self._sessions.pop(session.key, None)
        self.gateway.leave(session.key)
        if not session.shared:
            self._long_results.leave(session.key)

    # -- notifications ---------------------------------------------------------------------------

    def changed(self, kind: str = "tools", project: str = "") -> None:
        """Tell clients soon that a list of that kind has changed; those of a project, if one is given."""
        if self._sessions:
            self._notices.changed(kind, project)

    def awaits(self, server: Server) -> bool:
        """Return whether a client sees this server of a project."""
        return any(self.gateway.sees(session.caller.access, server) for session in self)

    def document_changed(self, key: str, listed: bool) -> None:
        """Tell clients that a document has changed or is gone; if ``listed``, the list of all has too."""
        for session in self:
            session.updated(key)
        if listed:
            self.changed("resources")

    def logged(self, server: str, params: Raw) -> None:
        """Pass on a log message of a server that belongs to no request, to clients that may see it."""
        configured = self.gateway.servers.get(server)
        for session in self:
            if configured is not None and self.gateway.sees(session.caller.access, configured):
                session.logged(params)

    def _tell(self, kind: str, project: str) -> None:
        for session in self:
            session.changed(kind, project)

    # -- the end ---------------------------------------------------------------------------------

    async def idle(self, limit: float) -> None:
        """Wait, at most ``limit`` seconds, until all answers are given and read."""
        self._check_idle()
        await asyncio.wait([self._idle], timeout=limit)

    def close(self) -> None:
        """Take no new request, and close all sessions."""
        self.draining = True
        self.offers.close()
        for session in self:
            session.close("the hub ended")

    def _check_idle(self) -> None:
        if not any(session.in_flight or session.unsent for session in self._sessions.values()):
            if not self._idle.done():
                self._idle.set_result(None)
        elif not self._idle.done():
            self.loop.call_later(_LOOK, self._check_idle)


class ListNotices:
    """Notices of lists that have changed. ``tell`` is called with the kind, shortly after a change.

    A client reads the whole list again after each notice. Some lists keep changing: that of resources does
    while a folder of ten thousand files becomes documents. Then the interval between notices doubles up to
    :data:`LONGEST`. The last change always causes a notice.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Callable[[str, str], None]) -> None:
        self._loop, self._tell = loop, tell
        self._due: set[tuple[str, str]] = set()
        self._notified: dict[tuple[str, str], tuple[float, float]] = {}  # last notice, seconds to the next

    def changed(self, kind: str, project: str = "") -> None:
        """Note that a list of that kind has changed, in a project or everywhere."""
        what = (kind, project)
        if what in self._due:
            return
        self._due.add(what)
        now = self._loop.time()
        at, gap = self._notified.get(what, (now, 0.0))
        gap = SOON if now - at >= 2 * gap else min(2 * gap, LONGEST)
        self._loop.call_later(max(SOON, at + gap - now), self._now, what, gap)

    def _now(self, what: tuple[str, str], gap: float) -> None:
        self._due.discard(what)
        if len(self._notified) >= MOST_NOTIFIED:
            self._notified.clear()  # the next notices only come sooner
        self._notified[what] = (self._loop.time(), gap)
        self._tell(*what)


class LineOutlet(Outlet):
    """A client on a line channel: the socket of a bridge, or standard input and output.

    If it ``lingers`` (standard input; a bridge waits itself), all requests before its end of file are
    answered. ``max_outbox`` bytes may wait for a client that reads slowly. An answer that does not fit is
    replaced by an error; a notification that does not fit is dropped. The client stays connected.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, lingers: bool) -> None:
        self._loop, self._lingers = loop, lingers
        self._channel: LineChannel

    def open(
        self,
        session: Session,
        batch: LineBatch,
        read_fd: int,
        write_fd: int,
        *,
        max_line: int,
        max_outbox: int,
    ) -> None:
        """Begin to read for the session. The channel owns the descriptors from here on."""
        self._session, self._most = session, max_outbox
        self._largest = max(max_outbox, ROOM + max_line)
        self._channel = LineChannel(
            self._loop,
            batch,
            read_fd,
            write_fd,
            on_line=session.receive,
            on_close=lambda why: session.gone(),
            on_oversized=session.oversized,
            on_end=self._linger if self._lingers else None,
            max_line=max_line,
            max_outbox=self._largest + _ERRORS,
        )
        self._channel.start()

    @property
    def unsent(self) -> int:
        return self._channel.unsent

    @property
    def closed(self) -> bool:
        return self._channel.closed

    def answer(self, request_id: bytes | None, line: bytes, ok: bool) -> None:
        waiting = self._channel.unsent
        if len(line) > self._largest:
            # Bytes that are not UTF-8 take three times as many after they are replaced.
            line = too_large(request_id, len(line), self._largest, self._session.caller.lang)
        elif waiting > ROOM and waiting + len(line) > self._most:
            line = undelivered(request_id, len(line), waiting, self._session.caller.lang)
        self._channel.send(line)

    def tell(self, line: bytes, about: bytes | None) -> None:
        waiting = self._channel.unsent
        if len(line) <= self._largest and (waiting <= ROOM or waiting + len(line) <= self._most):
            self._channel.send(line)

    def drain(self) -> None:
        self._channel.send(DRAIN)

    def hold(self, request_id: bytes, *, held: bool) -> bool:
        bridge = not self._lingers
        if bridge:
            self._channel.send((HELD if held else BEGUN) + request_id + b"}\n")
            self._channel.flush()
        return bridge

    def close(self, why: str) -> None:
        self._channel.flush()
        self._channel.close(why)

    def _linger(self) -> None:
        """Close when the client has received the answers that are still due: it asks nothing more."""
        if (self._session.in_flight or self.unsent) and not self.closed:
            self._loop.call_later(0.01, self._linger)
        else:
            self._session.close("end of file")
