"""Delivery of large answers to clients that are still reading earlier ones.

An answer waits until its client has read most of the earlier ones. Meanwhile, the hub does not read from its
upstream, so the upstream waits too. But one slow client does not delay the other clients of an upstream: if
they wait for it, the hub reads on after a moment, and only the answer continues to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from tabane.upstreams.call import Call, UpstreamReply

SMALL = 64 << 10
"""Bytes up to which an answer never waits."""

ROOM = 1 << 20
"""Unread bytes of a client up to which it gets another answer that is not small."""

HOLD = 1.0
"""Seconds after which the hub reads on from an upstream that others wait for."""

STALLED = 60.0
"""Seconds without progress after which an answer no longer waits for its client."""

LOOK = 0.01
"""Seconds between two looks whether there is room."""

MOST_AT_ONCE = 16
"""Answers that are looked at in that time: if more wait, each is looked at less often."""


class ReplyDelivery:
    """Gives the answers of one upstream to their clients.

    ``awaited`` returns whether anyone but the client of that call waits for the upstream. ``most`` is the
    limit for the bytes of all waiting answers.
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

    def give(self, call: Call, reply: UpstreamReply) -> asyncio.Future[None] | None:
        """Answer a call, now or when there is room. The upstream is not read until a returned future ends."""
        size = len(reply.result or reply.error or b"")
        if size <= SMALL or call.unsent() <= ROOM or self._waiting + size > self._most:
            call.answer(reply)
            return None
        if call.owner is not None:
            # The upstream has finished this call: the next call may go to it.
            call.owner.freed(reply)
        self._waiting += size
        self._count += 1
        giving = self._begin(self._when_room(call, reply, size))
        return None if call.session in self._slow else self._begin(self._hold(giving, call))

    async def _when_room(self, call: Call, reply: UpstreamReply, size: int) -> None:
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
                # Others have waited long enough. Until this client reads, its answers delay nobody.
                self._slow.add(call.session)
                return

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
