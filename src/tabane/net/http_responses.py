"""Messages in responses to HTTP requests: in a JSON body or a stream of events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from time import monotonic

from msgspec import UNSET, Raw

from tabane.errors import UpstreamError
from tabane.messages import say
from tabane.net.http_connections import HttpResponse
from tabane.net.http_failures import HttpConnectionBroken, ResponseTooLong
from tabane.wire import json
from tabane.wire.channel import SLICE
from tabane.wire.json import InvalidJson
from tabane.wire.sse import HEAD, Event, EventParser, EventTooLarge

LINGER = 0.25
"""Seconds to wait after the answer for a stream to end, so that its connection can be reused."""

LARGEST_ERROR = 1 << 20
"""Bytes of the body of an error that are read."""

EVENTS = "text/event-stream"
JSON = "application/json"

LARGE = 1 << 20
"""Bytes of a body above which it is parsed in a thread."""

PIECE = 8 << 10
"""Bytes of a stream that are read between two checks of the clock."""

Done = bool | Awaitable[bool]
"""Returns True if no more events are wanted; awaited if nothing may be read until it is known."""

Take = Callable[[bytes], Done]
"""Takes a message in one line."""


@dataclass(slots=True)
class StreamPosition:
    """The position up to which a stream of events was read, for resuming it.

    ``wait`` is how many seconds to wait before resuming, as the server asked; None if it did not.
    """

    last_id: str = ""
    wait: float | None = None
    count: int = 0


def kind_of(response: HttpResponse) -> str:
    """Return the content type, without its parameters, in lower case; empty if there is none."""
    return response.headers.get("Content-Type", "").partition(";")[0].strip().lower()


async def read(
    response: HttpResponse,
    limit: int,
    take: Take,
    position: StreamPosition,
    too_long: Callable[[bytes], None],
    turns: asyncio.Lock | None = None,
) -> None:
    """Hand each message of an answer to ``take`` as it comes, until it wants no more or the end.

    Of a message longer than ``limit`` bytes the beginning goes to ``too_long``. Raises
    :class:`HttpConnectionBroken` if the connection breaks, and UpstreamError for anything else than JSON and
    events.
    """
    kind = kind_of(response)
    if kind == EVENTS:
        await read_events(
            response, limit, lambda event: _take_message(event, take), position, too_long, turns
        )
    elif kind == JSON or not kind:
        text = await body(response, limit)
        found = messages(text) if len(text) <= LARGE else await asyncio.to_thread(messages, text)
        pace = StreamPacer()
        for message in found:
            await _is_settled(take(message), pace)
            await pace.keep()
    else:
        raise UpstreamError(say(

                "the response is {kind}, not JSON or an event stream. Check that the URL is that "
                "of an MCP server.",
            kind=kind))  # fmt: skip


def messages(text: bytes) -> Iterable[bytes]:
    """Return the messages of a JSON body, one or a batch, each in one line."""
    text = one_line(text).strip()
    if not text.startswith(b"["):
        return [text]
    try:
        return [bytes(part) for part in json.elements(text)]
    except InvalidJson:
        return [text]


def one_line(text: bytes) -> bytes:
    """Return the same JSON without line breaks. They occur only between tokens, never inside a string."""
    if b"\n" not in text and b"\r" not in text:
        return text
    pieces = range(0, len(text), LARGE)
    return b"".join([text[at : at + LARGE].translate(_SPACED) for at in pieces])


async def body(response: HttpResponse, limit: int) -> bytes:
    """Return the whole body. Raises :class:`ResponseTooLong` and :class:`HttpConnectionBroken`."""
    length = response.content_length
    if length is not None and length <= limit and "Content-Encoding" not in response.headers:
        return await response.read()
    parts = bytearray()
    pace = StreamPacer()
    while chunk := await response.content.readany():
        parts += chunk
        await pace.keep()
        if len(parts) > limit:
            raise ResponseTooLong(bytes(parts[:HEAD]))
    return bytes(parts)


async def error_body(response: HttpResponse) -> bytes:
    """Return the body of an error; empty if it is too long or breaks off."""
    try:
        return await body(response, LARGEST_ERROR)
    except (ResponseTooLong, HttpConnectionBroken):
        return b""


def error_in(text: bytes) -> Raw | None:
    """Return the error object of a JSON-RPC error, None if the text is something else."""
    for message in messages(text):
        with contextlib.suppress(InvalidJson):
            error = json.decode_frame(message).error
            if error is not UNSET and isinstance(json.decode(error), dict):
                return error
    return None


async def read_events(
    response: HttpResponse,
    limit: int,
    take: Callable[[Event], Done],
    position: StreamPosition,
    too_long: Callable[[bytes], None],
    turns: asyncio.Lock | None = None,
) -> None:
    """Hand each event of a stream to ``take`` as it comes, until it wants no more or the stream ends.

    All streams of a server share ``turns``: together they get one slice of time in a turn of the loop,
    however many calls are in flight. Raises :class:`HttpConnectionBroken` if the connection breaks.
    """
    parser, pace = EventParser(limit), StreamPacer(turns)
    try:
        async for piece in _read_pieces(response, pace):
            try:
                events = parser.feed(piece)
            except EventTooLarge as large:
                events = large.events
                for head in large.heads:
                    too_long(head)
            for event in events:
                position.count += 1
                position.last_id = event.id or position.last_id
                if await _is_settled(take(event), pace):
                    pace.pause()
                    await _to_end(response)
                    return
                # A piece holds hundreds of short events, and each may be forwarded.
                await pace.keep()
    finally:
        pace.pause()
        position.last_id = parser.last_id or position.last_id
        if parser.retry is not None:
            position.wait = parser.retry / 1000


class StreamPacer:
    """Lets the loop turn when a slice of time is used up, since reading available data never does."""

    __slots__ = ("_holds", "_turns", "_until")

    def __init__(self, turns: asyncio.Lock | None = None) -> None:
        self._turns, self._holds = turns, False
        self._until = monotonic() + SLICE

    async def begin(self) -> None:
        """Wait for this stream's turn. It ends with :meth:`pause`."""
        if self._turns is not None and not self._holds:
            await self._turns.acquire()
            self._holds = True
            self._until = monotonic() + SLICE

    def pause(self) -> None:
        """Let another stream have its turn, since this one waits for something else."""
        if self._turns is not None and self._holds:
            self._holds = False
            # In the loop's next turn: none of the others is to have a slice of this one as well.
            asyncio.get_running_loop().call_soon(self._turns.release)

    async def keep(self) -> None:
        """Let other streams run if this one has used up its turn."""
        if monotonic() > self._until:
            held = self._holds
            self.pause()
            await asyncio.sleep(0)
            if held:
                await self.begin()
            self._until = monotonic() + SLICE


async def _to_end(response: HttpResponse) -> None:
    if not response.content.at_eof():
        with contextlib.suppress(TimeoutError, HttpConnectionBroken):
            async with asyncio.timeout(LINGER):
                pace = StreamPacer()
                while await response.content.readany():
                    await pace.keep()


async def _is_settled(done: Done, pace: StreamPacer) -> bool:
    if isinstance(done, bool):
        return done
    pace.pause()
    found = await done
    await pace.begin()
    return found


def _take_message(event: Event, take: Take) -> Done:
    return take(one_line(event.data)) if event.event == "message" and event.data else False


async def _read_pieces(response: HttpResponse, pace: StreamPacer) -> AsyncIterator[bytes]:
    while chunk := await response.content.readany():
        await pace.begin()
        for at in range(0, len(chunk), PIECE):
            yield chunk[at : at + PIECE]
            await pace.keep()
        pace.pause()


_SPACED = bytes.maketrans(b"\r\n", b"  ")
