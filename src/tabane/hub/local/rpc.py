"""A program on the hub's socket: JSON-RPC lines, each an operation through the door."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tabane.errors import HubDraining, HubError, TabaneError, UnknownName
from tabane.messages import say
from tabane.operations import Caller, Door
from tabane.wire import json, rpc
from tabane.wire.channel import Batch, LineChannel
from tabane.wire.rpc import Invalid, Message, Request

log = logging.getLogger(__name__)

AT_ONCE = 64
"""Requests of one connection that are worked on at the same time."""

MOST_WAITING = 2000
"""Requests of one connection that are open; more are refused."""

_LOOK = 0.01


class RpcSession:
    """The connection of ``caller``. ``on_closed`` is called once when it is gone, and its requests end."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: Batch,
        fd: int,
        door: Door,
        caller: Caller,
        on_closed: Callable[[RpcSession], None],
        *,
        max_line: int = 64 << 20,
        max_outbox: int = 64 << 20,
    ) -> None:
        self.caller = caller
        self._loop, self._door, self._on_closed = loop, door, on_closed
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._open = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = False
        self._max_line = max_line
        self._channel = LineChannel(
            loop,
            batch,
            fd,
            fd,
            on_line=self._line,
            on_close=self._closed,
            on_oversized=self._oversized,
            max_line=max_line,
            max_outbox=max_outbox,
        )

    def start(self) -> None:
        self._channel.start()

    @property
    def busy(self) -> bool:
        """Whether a request is open, or an answer not yet taken."""
        return bool(self._tasks or self._channel.unsent)

    async def idle(self) -> None:
        """Wait until everything asked for was answered, and the answers taken."""
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
        """Begin nothing new: requests that come now are answered with an error."""
        self._draining = True

    def close(self, why: str) -> None:
        self._channel.flush()
        self._channel.close(why)

    def _line(self, line: bytes) -> None:
        task = self._loop.create_task(self._answer(rpc.read(line)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, message: Message) -> None:
        if not message.batch:
            answers = [await self._part(message.parts[0])]
        else:
            answers = await asyncio.gather(*(self._part(part) for part in message.parts))
        said = [answer for answer in answers if answer is not None]
        if said:
            self._channel.send(rpc.together(said) if message.batch else said[0])

    async def _part(self, part: Request | Invalid) -> bytes | None:
        if isinstance(part, Invalid):
            return part.answer
        answer = await self._call(part)
        return answer if part.id is not None else None

    async def _call(self, request: Request) -> bytes:
        name = request.id or b"null"
        if self._draining or self._open >= MOST_WAITING:
            return rpc.failure(name, self._overload(), self.caller.lang)
        self._open += 1
        try:
            async with self._turn:
                return await self._invoke(name, request)
        except TabaneError as error:
            return rpc.failure(name, error, self.caller.lang)
        except Exception:
            log.exception("%s failed", request.method[:100])
            return rpc.internal(name)
        finally:
            self._open -= 1

    async def _invoke(self, name: bytes, request: Request) -> bytes:
        try:
            self._door.operation(self.caller, request.method)
        except UnknownName as error:
            return rpc.unknown_method(name, error, self.caller.lang)
        return rpc.result(name, await self._door.invoke(self.caller, request.method, request.params))

    def _overload(self) -> HubError:
        if self._draining:
            return HubDraining(say("The hub is about to end and takes no more requests."))
        return HubError(say("More than {limit} requests are open on this connection.", limit=MOST_WAITING))

    def _oversized(self, head: bytes) -> None:
        text = f"a message may have {self._max_line} bytes at most"
        error = json.error_object(rpc.INVALID_REQUEST, text)
        self._channel.send(json.error_line(json.id_in(head), error))

    def _closed(self, why: str) -> None:
        for task in self._tasks:
            task.cancel()
        self._on_closed(self)
