"""Large answers on their way to clients that still read earlier ones.

An answer waits until its client has read most of what it was given before. While it waits, its upstream
is not read on, so the upstream waits too; but one slow client does not stop the others of an upstream:
where they wait for it, it is read on after a moment, and the answer alone goes on waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from tabane.gateway.upstreams.call import Call, Reply

SMALL = 64 << 10
"""Bytes up to which an answer never waits."""

ROOM = 1 << 20
"""Bytes that a client may have left to read when it is given a further answer that is not small."""

HOLD = 1.0
"""Seconds after which an upstream is read on where others wait for it."""

STALLED = 60.0
"""Seconds without a byte read after which an answer waits no longer for its client."""

LOOK = 0.01
"""Seconds between two looks whether there is room."""

MOST_AT_ONCE = 16
"""Answers that are looked at in that time: where more wait, each is looked at less often."""


class Delivery:
    """Gives the answers of one upstream to their clients.

    ``awaited`` tells whether anybody but the client of that call waits for the upstream; ``most`` bytes of
    answers may wait in all.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        awaited: Callable[[Call], bool],
        most: int,
        stalled: float = STALLED,
    ) -> None:
        self._loop, self._awaited, self._most, self._stalled = loop, awaited, most, stalled
        self._waiting = self._count = 0
        self._slow: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def give(self, call: Call, reply: Reply) -> asyncio.Future[None] | None:
        """Answer a call, now or when there is room. A future: the upstream is not read until then."""
        size = len(reply.result or reply.error or b"")
        if size <= SMALL or call.unsent() <= ROOM or self._waiting + size > self._most:
            call.answer(reply)
            return None
        if call.owner is not None:
            # The upstream has done its part: the next call may go to it.
            call.owner.freed(reply)
        self._waiting += size
        self._count += 1
        giving = self._begin(self._when_room(call, reply, size))
        return None if call.session in self._slow else self._begin(self._hold(giving, call))

    async def _when_room(self, call: Call, reply: Reply, size: int) -> None:
        try:
            await self._room(call)
        finally:
            self._waiting -= size
            self._count -= 1
            self._slow.discard(call.session)
            call.answer(reply)

    async def _room(self, call: Call) -> None:
        left, since = -1, self._loop.time()
        while not call.done and (unsent := call.unsent()) > ROOM:
            now = self._loop.time()
            if unsent != left:
                left, since = unsent, now
            elif now - since > self._stalled:
                return
            await asyncio.sleep(LOOK * max(1.0, self._count / MOST_AT_ONCE))

    async def _hold(self, giving: asyncio.Task[None], call: Call) -> None:
        while not giving.done():
            await asyncio.wait([giving], timeout=HOLD)
            if not giving.done() and self._awaited(call):
                # Others have waited long enough: until it reads, its answers hold up nobody.
                self._slow.add(call.session)
                return

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
