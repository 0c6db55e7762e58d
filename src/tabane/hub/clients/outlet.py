"""Where a client's messages go: a line channel here, responses over HTTP elsewhere."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from tabane.errors import HubError
from tabane.hub.local.handshake import DRAIN
from tabane.messages import say
from tabane.wire import json, rpc
from tabane.wire.channel import LineBatch, LineChannel

if TYPE_CHECKING:
    from tabane.hub.clients.session import Session
    from tabane.messages import Lang

MIB = 1 << 20

ROOM = MIB
"""Bytes that may wait for a client before it gets another answer, however large that is."""

_ERRORS = 16 << 20
"""Bytes of the errors that may replace answers, one for each request in flight."""


def undelivered(request_id: bytes | None, size: int, waiting: int, lang: Lang) -> bytes:
    """Return the error for an answer of ``size`` bytes while ``waiting`` bytes are unread."""
    error = HubError(say(
        "The answer ({megabytes} MiB) was dropped, because the client has not read {waiting} MiB of "
        "earlier answers yet. Request less data at a time.",
        megabytes=-(-size // MIB), waiting=-(-waiting // MIB)))  # fmt: skip
    return json.error_line(request_id, rpc.error_of(error, lang))


class Outlet(Protocol):
    """Takes the messages of a session to its client. Each ``line`` is one message, newline included."""

    @property
    def unsent(self) -> int:
        """Bytes that the client has not read yet."""
        ...

    @property
    def closed(self) -> bool: ...

    def answer(self, request_id: bytes | None, line: bytes, ok: bool) -> None:
        """The final answer to the request of that id (verbatim); None where a message had none to read.

        ``ok`` is False where it is an error object.
        """
        ...

    def tell(self, line: bytes, about: bytes | None) -> None:
        """A notification or a question; ``about`` is the id of the client's request that it belongs to."""
        ...

    def drain(self) -> None:
        """Ask for no more requests, where the client understands that."""
        ...

    def close(self, why: str) -> None:
        """Send what is due, and end."""
        ...


class LineOutlet:
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
        """Begin to read for that session; the descriptors are the channel's from here on."""
        self._session, self._most = session, max_outbox
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
            max_outbox=max(max_outbox, ROOM + max_line) + _ERRORS,
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
        if waiting > ROOM and waiting + len(line) > self._most:
            line = undelivered(request_id, len(line), waiting, self._session.caller.lang)
        self._channel.send(line)

    def tell(self, line: bytes, about: bytes | None) -> None:
        waiting = self._channel.unsent
        if waiting <= ROOM or waiting + len(line) <= self._most:
            self._channel.send(line)

    def drain(self) -> None:
        self._channel.send(DRAIN)

    def close(self, why: str) -> None:
        self._channel.flush()
        self._channel.close(why)

    def _linger(self) -> None:
        """The client asks nothing more: close when it has had the answers that are still due."""
        if (self._session.in_flight or self.unsent) and not self.closed:
            self._loop.call_later(0.01, self._linger)
        else:
            self._session.close("end of file")
