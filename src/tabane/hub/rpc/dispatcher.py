"""Dispatcher of JSON-RPC: requests become calls through the door, and their results become answers.

:class:`RpcSession` is a program on the hub's socket, which sends lines of JSON-RPC.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import structs

from tabane.errors import (
    AnswerTooLong,
    CodeMissing,
    HubDraining,
    HubError,
    RateLimited,
    TabaneError,
    UnknownName,
    upgraded,
)
from tabane.hub.replacement import CodeReplacement
from tabane.messages import Message, say
from tabane.operations import Caller, Door
from tabane.wire import json, rpc
from tabane.wire.channel import LineBatch, LineChannel
from tabane.wire.rpc import InvalidRequest, Request, RpcMessage

log = logging.getLogger(__name__)


AT_ONCE = 64
"""Requests of one connection that are worked on at the same time."""

MOST_WAITING = 2000
"""Requests of one connection that are open; more are refused."""

STREAMS = 4
"""Streams of one connection at the same time: each has a part in hand that waits for a slow reader."""

MOST_ANSWER = (1 << 20) - 1
"""Bytes of a message to a client over the network: by default, libraries take less than 1 MiB in one."""

LOOK = 1.0
"""Seconds between two looks whether the hub ends: then nothing is held back."""

LEFT_OUT = ("reasoning", "summary", "tags")
"""Optional fields of a post: a model wrote them, for search."""

LONGEST_NAME = 200
"""Characters of a method's name: a longer one is unknown, and cut in the error."""

_ERROR_SIZE = 300
"""Bytes of an error that replaces an answer for which a batch has no room."""

Send = Callable[[bytes], Awaitable[None]]
"""Takes a line to the client, and returns once more may be sent."""


class ClientGone(ConnectionError):
    """Raised by a :data:`Send` that can send no more."""


class Dispatcher:
    """Answers the requests of one connection of ``caller``.

    An answer that is not streamed, and each part of one that is, has ``most`` bytes at most; None is no
    limit. Set ``draining`` to begin nothing new. ``on_held`` is called when :attr:`holding` changes.
    ``code`` follows the files of Tabane, for a client that sends a request again to the next hub.
    """

    def __init__(
        self, door: Door, caller: Caller, most: int | None = None, code: CodeReplacement | None = None
    ) -> None:
        self._code = code
        self.caller = caller
        self.draining = False
        self.on_held: Callable[[], None] = _ignore
        self._held = 0
        self._door, self._most = door, most
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._streams = asyncio.Semaphore(STREAMS)
        self._open = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        """Return whether a received message is not answered yet."""
        return bool(self._tasks)

    @property
    def holding(self) -> bool:
        """Return whether refusals are held back, so that the client should not be read on."""
        return self._held > 0

    def receive(self, text: bytes, send: Send) -> asyncio.Task[None]:
        """Begin to answer a message. Never raises."""
        task = asyncio.get_running_loop().create_task(self.answer(rpc.read(text), send))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def cancel(self) -> None:
        """Cancel all requests: the client is gone."""
        for task in self._tasks:
            task.cancel()

    def streams(self, message: RpcMessage) -> bool:
        """Return whether the answer to a message comes in parts."""
        part = message.parts[0]
        return (
            not message.batch and isinstance(part, Request) and part.id is not None and self._is_stream(part)
        )

    async def answer(self, message: RpcMessage, send: Send) -> None:
        """Call what a message asks for, and send the answers; a notification has none."""
        first = message.parts[0]
        if message.batch:
            answer = await self._batch(message.parts)
        elif isinstance(first, Request) and self.streams(message):
            answer = await self._in_turn(first, self._send_parts, first, send)
        else:
            answer = await self._answer_part(first)
        if answer is not None:
            await send(answer)

    # -- one request -----------------------------------------------------------------------------

    async def _answer_part(self, part: Request | InvalidRequest) -> bytes | None:
        if isinstance(part, InvalidRequest):
            return part.answer
        answer = await self._in_turn(part, self._call_operation, part)
        return answer if part.id is not None else None

    async def _in_turn(
        self, request: Request, work: Callable[..., Awaitable[bytes | None]], *arguments: Any
    ) -> bytes | None:
        """Return the answer of ``work`` when it is its turn, or its failure."""
        name = request.id or b"null"
        if self.draining or self._open >= MOST_WAITING:
            return rpc.failure(name, self._overload_error(), self.caller.lang)
        self._open += 1
        try:
            self._check_method(request)
            async with self._turn:
                return await work(*arguments)
        except _UnknownMethod as unknown:
            return rpc.unknown_method(name, unknown.error, self.caller.lang)
        except TabaneError as error:
            if isinstance(error, RateLimited):
                await self._hold_back(error.pause)
            return rpc.failure(name, error, self.caller.lang)
        except ClientGone:
            raise
        except Exception as error:
            log.exception("%s failed", request.method[:100])
            old = await self._replaced(request, error)
            return rpc.failure(name, old, self.caller.lang) if old else rpc.internal(name)
        finally:
            self._open -= 1

    async def _replaced(self, request: Request, error: Exception) -> HubError | None:
        """Return what to answer if code is missing since Tabane was upgraded; None if it is not.

        If the request has not begun, or changes nothing, the client can send it to the next hub.
        """
        old = upgraded(error)
        if old is None or self._code is None or not isinstance(error, ImportError):
            return old
        if not isinstance(error, CodeMissing):
            operation = self._door.table.get(request.method)
            if operation is None or not operation.read_only:
                return old
        return _draining() if await self._code.takes_over() else old

    async def _hold_back(self, seconds: float) -> None:
        """Wait before a refusal is answered: its client ignores that it is over its limits."""
        if seconds <= 0:
            return
        self._held += 1
        self.on_held()
        try:
            loop = asyncio.get_running_loop()
            until = loop.time() + seconds
            while (left := until - loop.time()) > 0 and not self.draining:  # noqa: ASYNC110  (nothing tells)
                await asyncio.sleep(min(left, LOOK))
        finally:
            self._held -= 1
            self.on_held()

    def _check_method(self, request: Request) -> None:
        """Raise _UnknownMethod if there is no such method, Forbidden if this caller may not use it."""
        try:
            if len(request.method) > LONGEST_NAME:
                raise UnknownName(say("Method not found: {name}", name=f"{request.method[:LONGEST_NAME]}…"))
            self._door.operation(self.caller, request.method)
        except UnknownName as error:
            raise _UnknownMethod(error) from None

    async def _call_operation(self, request: Request) -> bytes:
        name = request.id or b"null"
        said: Message | None = None

        def render(value: Any) -> bytes:
            nonlocal said
            said = getattr(value, "warning", None)
            return json.encode(value)

        caller = structs.replace(self.caller, request=name.decode("utf-8", "replace")[:LONGEST_NAME])
        body = await self._door.respond(caller, request.method, request.params, render)
        warning = said.render(self.caller.lang) if isinstance(said, Message) else ""
        line = rpc.with_warning(name, body, warning) if warning else json.result_line(name, body)
        if self._most is None or len(line) <= self._most:
            return line
        return await asyncio.to_thread(shortened_answer, name, body, self._most, warning)

    async def _send_parts(self, request: Request, send: Send) -> None:
        name = request.id or b"null"
        parts = self._door.stream(
            self.caller, request.method, request.params, name.decode("utf-8", "replace")[:LONGEST_NAME]
        )
        async with self._streams, contextlib.aclosing(parts):
            async for part in parts:
                line = rpc.part(name, part.value, part.more)
                if self._most is not None and len(line) > self._most:
                    raise answer_too_long(len(line), self._most)
                # The next part is made when this one is on its way: a slow reader costs one.
                await send(line)

    def _is_stream(self, request: Request) -> bool:
        operation = self._door.table.get(request.method)
        return operation is not None and operation.kind == "stream"

    def _overload_error(self) -> HubError:
        if self.draining:
            return _draining()
        return HubError(
            say(
                "More than {limit} {limit:request is|requests are} open on this connection.",
                limit=MOST_WAITING,
            )
        )

    # -- several at once -------------------------------------------------------------------------

    async def _batch(self, parts: list[Request | InvalidRequest]) -> bytes | None:
        room = None if self._most is None else _BatchRoom(self._most - _ERROR_SIZE * len(parts))
        answers = await asyncio.gather(*(self._of_batch(part, room) for part in parts))
        lines = [answer for answer in answers if answer is not None]
        if not lines:
            return None
        line = rpc.batch_answer(lines)
        if self._most is not None and len(line) > self._most:
            return rpc.failure(None, self._no_room(), self.caller.lang)
        return line

    async def _of_batch(self, part: Request | InvalidRequest, room: _BatchRoom | None) -> bytes | None:
        if isinstance(part, Request) and self._is_stream(part):
            return rpc.refused_in_batch(part.id or b"null", part.method)
        answer = await self._answer_part(part)
        if answer is None or room is None or room.takes(len(answer)):
            return answer
        name = part.id if isinstance(part, Request) else None
        return rpc.failure(name, self._no_room(), self.caller.lang)

    def _no_room(self) -> AnswerTooLong:
        return AnswerTooLong(
            say(
                "The responses of this batch have more than {limit} {limit:byte|bytes} together. Send "
                "this request alone.",
                limit=self._most,
            )
        )

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        # The client may go away while it is answered: anything else is a fault of ours.
        if error is not None and not isinstance(error, ClientGone):
            log.error("a request could not be answered", exc_info=error)


def _ignore() -> None:
    return


def _draining() -> HubDraining:
    return HubDraining(say("The hub is shutting down and accepts no more requests."))


class _BatchRoom:
    """The bytes that are left for the answers of a batch."""

    def __init__(self, left: int) -> None:
        self._left = left

    def takes(self, size: int) -> bool:
        """Take room for an answer of that size. Return whether there was enough."""
        if size > self._left:
            return False
        self._left -= size
        return True


class _UnknownMethod(Exception):
    """The method does not exist: this has another error code than an unknown name in its arguments."""

    def __init__(self, error: UnknownName) -> None:
        super().__init__(str(error))
        self.error = error


def shortened_answer(request_id: bytes, body: bytes, most: int, warning: str = "") -> bytes:
    """Return an answer as a line, without the optional fields of posts and with a note on that.

    ``body`` is the JSON text of the whole result, ``warning`` another warning beside it. Raises
    AnswerTooLong if that is not enough.
    """
    # Making objects of a large body holds the interpreter: it is done only if there are posts in it.
    value = json.decode(body) if b'"post_id"' in body else None
    found = _leave_out(value)
    if found:
        names = [name for name in LEFT_OUT if name in found]
        line = rpc.shortened(request_id, json.encode(value), names, warning)
        if len(line) <= most:
            return line
    raise answer_too_long(len(body), most)


def answer_too_long(size: int, most: int) -> AnswerTooLong:
    """Return the error for an answer of ``size`` bytes that is too long."""
    return AnswerTooLong(
        say(
            "The response has {size} {size:byte|bytes}, but one message can have at most {limit}. Request "
            "less data.",
            size=size,
            limit=most,
        )
    )


def _leave_out(value: Any) -> set[str]:
    """Remove those members from every post in ``value``. Return the names of the removed ones."""
    found: set[str] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            if "post_id" in one:
                found.update(name for name in LEFT_OUT if one.pop(name, None) is not None)
            waiting += one.values()
    return found


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
        code: CodeReplacement | None = None,
        max_line: int = 64 << 20,
        max_outbox: int = 64 << 20,
    ) -> None:
        self.caller = caller
        self._loop, self._on_closed = loop, on_closed
        self._dispatcher = Dispatcher(door, caller, code=code)
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
        """Begin to read requests."""
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
        """Send what waits, and close the connection."""
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
