"""Server-sent events of the page: one stream for each browser, shared by its tabs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from starlette.requests import Request
from starlette.responses import StreamingResponse

from tabane.web.headers import NOT_KEPT
from tabane.web.hub import HubEvent, Visit, WebHub
from tabane.web.sessions import FoundSession
from tabane.wire.sse import KEEP_ALIVE

LOOK = 2.0
"""Seconds between two checks that the session has not ended."""

QUIET = 15.0
"""Seconds of silence, after which a comment is sent for the proxies on the way."""

MOST_STREAMS = 512
"""Streams at the same time."""


class EventStreams:
    """The open streams of events."""

    def __init__(self, hub: WebHub) -> None:
        self._hub = hub
        self.count = 0

    @property
    def full(self) -> bool:
        return self.count >= MOST_STREAMS

    def answer(self, request: Request, found: FoundSession, visit: Visit) -> StreamingResponse:
        """Return the stream of a browser, from the event after the last one that it has seen."""
        after = request.headers.get("last-event-id") or None
        body = self._events(found, after, visit)
        # In the headers: as a type, it would get a charset, which the format does not have.
        stream = {"content-type": "text/event-stream", "x-accel-buffering": "no"}
        return StreamingResponse(body, 200, {**NOT_KEPT, **stream})

    async def _events(self, found: FoundSession, after: str | None, visit: Visit) -> AsyncIterator[bytes]:
        self.count += 1
        try:
            yield b": open\n\n"
            batches = self._hub.feed.follow(after, found.access)
            async for batch in _with_pauses(batches, lambda: self._goes_on(found, visit)):
                yield b"".join(map(_encoded, batch)) if batch else KEEP_ALIVE
        finally:
            self.count -= 1

    def _goes_on(self, found: FoundSession, visit: Visit) -> bool:
        return not visit.ended() and self._hub.sessions.is_live(found.session, found.access)


async def _with_pauses(
    batches: AsyncIterator[Sequence[HubEvent]], goes_on: Callable[[], bool]
) -> AsyncIterator[Sequence[HubEvent]]:
    """Yield the batches, and an empty one after :data:`QUIET` seconds, while ``goes_on``."""
    waiting: asyncio.Task[Sequence[HubEvent]] | None = None
    quiet = 0.0
    try:
        while goes_on():
            waiting = waiting or asyncio.ensure_future(anext(batches))
            done, _ = await asyncio.wait({waiting}, timeout=LOOK)
            if done:
                batch, waiting, quiet = waiting.result(), None, 0.0
                yield batch
            elif (quiet := quiet + LOOK) >= QUIET:
                quiet = 0.0
                yield []
    except StopAsyncIteration:
        return
    finally:
        if waiting is not None:
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                await waiting
        if (close := getattr(batches, "aclose", None)) is not None:
            await close()


def _encoded(event: HubEvent) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event.id.encode(), event.topic.encode(), event.data)
