"""The calls that run, and the last ones that have ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from tabane.hub.telemetry.live.live_call import LiveCall
from tabane.operations import Caller, CallTarget

MOST_ENDED, MOST_BYTES = 500, 4 << 20
"""Calls that are kept when they have ended, and the bytes of their arguments and results."""

MOST_RUNNING = 1000
"""Calls that are listed while they run. Those beyond are listed when they have ended."""

_OWN = frozenset({"list_live_calls", "show_live_call", "get_activity"})
"""Operations that show this: to list them too would only show that somebody looks."""


class RecentCalls:
    """Calls, numbered in the order of their beginning. ``on_begin`` and ``on_end`` are called with each.

    ``on_find`` is called with those in which credentials were found.

    What the web page only reads is left out: a page that is open would fill the list with itself.
    """

    def __init__(
        self,
        on_begin: Callable[[LiveCall], None],
        on_end: Callable[[LiveCall], None],
        on_find: Callable[[LiveCall], None],
    ) -> None:
        self._on_begin, self._on_end, self._on_find = on_begin, on_end, on_find
        self._running: dict[int, LiveCall] = {}
        self._ended: deque[LiveCall] = deque()
        self._texts: deque[LiveCall] = deque()
        self._bytes = 0
        self.last = 0

    def began(self, caller: Caller, target: CallTarget, arguments: bytes, request: str) -> LiveCall | None:
        """Return the call that begins, to be told of its steps; None if it is not listed."""
        if target.name in _OWN or (caller.face.value == "web" and _only_reads(target)):
            return None
        self.last += 1
        call = LiveCall(self.last, caller, target, arguments, request, self._over, self._on_find)
        if len(self._running) < MOST_RUNNING:
            self._running[call.number] = call
        self._on_begin(call)
        return call

    @property
    def running(self) -> int:
        return len(self._running)

    def find(self, number: int) -> LiveCall | None:
        """Return the call of that number; None if it is no longer kept."""
        found = self._running.get(number)
        return found or next((call for call in reversed(self._ended) if call.number == number), None)

    def newest_first(self) -> Iterator[LiveCall]:
        """Yield the calls that run, then those that have ended, the latest first."""
        yield from reversed(self._running.values())
        yield from reversed(self._ended)

    def _over(self, call: LiveCall) -> None:
        self._running.pop(call.number, None)
        self._ended.append(call)
        self._texts.append(call)
        self._bytes += call.weight
        if len(self._ended) > MOST_ENDED:
            self._ended.popleft()
        while len(self._texts) > MOST_ENDED or self._bytes > MOST_BYTES:
            oldest = self._texts.popleft()
            self._bytes -= oldest.weight
            oldest.forget_texts()
        self._on_end(call)


def _only_reads(target: CallTarget) -> bool:
    return target.kind == "operation" and not target.changes
