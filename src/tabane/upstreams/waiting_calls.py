"""Calls that wait until their server has started or has room for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tabane.access.fair_queue import FairQueue
from tabane.errors import TabaneError, UpstreamOverloaded, UpstreamTimeout
from tabane.messages import say
from tabane.upstreams.call import Call, UpstreamReply


class WaitingCalls:
    """The waiting calls of one instance, in turns between their holders. Each of them is answered."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.queue: FairQueue[Call] = FairQueue()

    def __len__(self) -> int:
        return len(self.queue)

    def __iter__(self) -> Iterator[Call]:
        return iter(self.queue)

    def add(self, call: Call) -> None:
        self.queue.add(call.holder, call)

    def add_first(self, call: Call) -> None:
        """Add a call that comes before all others."""
        self.queue.add_first(call.holder, call)

    def pop(self) -> Call:
        """Remove and return the next call. Raises KeyError if none waits."""
        return self.queue.pop()

    def discard(self, call: Call) -> None:
        """Remove a call without an answer, if it waits."""
        self.queue.discard(call.holder, call)

    def overload(self, call: Call, most: int) -> UpstreamOverloaded | None:
        """Return the error for a call that has no room among ``most``; None if it has."""
        if not self.queue.is_full(call.holder, most):
            return None
        return UpstreamOverloaded(say(
            "{server!n} is overloaded: {count} {count:call is|calls are} waiting. Try again later.",
            server=self._server, count=len(self.queue)))  # fmt: skip

    def expire(self, now: float) -> None:
        """Answer the calls whose time is over."""
        for call in [call for call in self.queue if call.deadline <= now]:
            self.discard(call)
            call.answer(UpstreamReply(failure=UpstreamTimeout(say(
                "{server!n} could not accept the call in time; {count} {count:call is|calls are} waiting.",
                server=self._server, count=len(self.queue) + 1))))  # fmt: skip

    def refuse(self, failure: TabaneError) -> None:
        """Answer all calls with an error."""
        queue, self.queue = self.queue, FairQueue()
        for call in queue:
            call.answer(UpstreamReply(failure=failure))

    def refuse_those(self, chosen: Callable[[Call], bool], failure: TabaneError) -> None:
        """Answer the chosen calls with an error."""
        for call in [call for call in self.queue if chosen(call)]:
            self.discard(call)
            call.answer(UpstreamReply(failure=failure))
