"""A program on the hub's socket: JSON-RPC lines, each answered by the dispatcher."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tabane.hub.rpc.dispatcher import ClientGone, Dispatcher
from tabane.operations import Caller, Door
from tabane.wire import json, rpc
from tabane.wire.channel import LineBatch, LineChannel

_LOOK = 0.01

_AHEAD = 4 << 20
"""Bytes of a stream that may wait for a program that does not read."""


class RpcSession:
    """The connection of ``caller``. ``on_closed`` is called once when it is gone, and its requests end."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: LineBatch,
        fd: int,
        door: Door,
        caller: Caller,
        on_closed: Callable[[RpcSession], None],
        *,
        max_line: int = 64 << 20,
        max_outbox: int = 64 << 20,
    ) -> None:
        self.caller = caller
        self._loop, self._on_closed = loop, on_closed
        self._dispatcher = Dispatcher(door, caller)
        self._max_line = max_line
        self._ahead = min(_AHEAD, max_outbox // 2)
        self._channel = LineChannel(
            loop,
            batch,
            fd,
            fd,
            on_line=self._line,
            on_close=self._closed,
            on_oversized=self._oversized,
            max_line=max_line,
            # An answer is sent alone, however long; notifications next to it are short.
            max_outbox=1 << 40,
        )

    def start(self) -> None:
        self._channel.start()

    @property
    def busy(self) -> bool:
        """Return whether a request is open, or an answer is not read yet."""
        return bool(self._dispatcher.busy or self._channel.unsent)

    async def idle(self) -> None:
        """Wait until every request is answered, and the client has read the answers."""
        idle: asyncio.Future[None] = self._loop.create_future()
        self._check_idle(idle)
        await idle

    def _check_idle(self, idle: asyncio.Future[None]) -> None:
        if idle.done():
            return
        if self.busy:
            self._loop.call_later(_LOOK, self._check_idle, idle)
        else:
            idle.set_result(None)

    def drain(self) -> None:
        """Refuse new requests: they are answered with an error from now on."""
        self._dispatcher.draining = True

    def close(self, why: str) -> None:
        self._channel.flush()
        self._channel.close(why)

    def _line(self, line: bytes) -> None:
        self._dispatcher.receive(line, self._send)

    async def _send(self, line: bytes) -> None:
        # Each waiting sender checks again: the first one to send may fill the room.
        while self._channel.unsent > self._ahead:  # noqa: ASYNC110  (a channel sends no notice)
            await asyncio.sleep(_LOOK)
        if self._channel.closed:
            raise ClientGone
        self._channel.send(line)
        while self._channel.unsent > self._ahead:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK)

    def _oversized(self, head: bytes) -> None:
        self._channel.send(rpc.oversized(json.id_in(head), self._max_line))

    def _closed(self, why: str) -> None:
        self._dispatcher.cancel()
        self._on_closed(self)
