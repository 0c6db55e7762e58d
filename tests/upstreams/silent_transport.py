"""A transport to a server that never answers."""

from __future__ import annotations

import asyncio

from tabane.upstreams.call import Call
from tabane.upstreams.connection import UpstreamConnection, UpstreamContext, UpstreamLimits
from tabane.wire.era import Era


class SilentTransport:
    """Takes what it is given, and notes the numbers of requests by method, and of canceled ones."""

    exact = mirrors_arguments = closed = False

    def __init__(self) -> None:
        self.asked: dict[str, list[int]] = {}
        self.cancelled: list[int] = []

    def request(self, call: Call, line: bytes, era: Era) -> None:
        self.asked.setdefault(call.method.decode(), []).append(call.number)

    def tell(self, line: bytes, about: int | None = None) -> None: ...

    def cancel(self, call: Call, line: bytes) -> None:
        self.cancelled.append(call.number)

    def position_of(self, call: Call) -> None: ...

    def end_input(self) -> None: ...

    def close(self, why: str) -> None: ...

    @property
    def numbers(self) -> list[int]:
        """The numbers of all requests."""
        return [number for numbers in self.asked.values() for number in numbers]

    def count(self, method: str) -> int:
        return len(self.asked.get(method, ()))


def unconnected(loop: asyncio.AbstractEventLoop) -> UpstreamContext:
    """The context of an instance that starts nothing."""

    async def connect(*_: object) -> UpstreamConnection:
        raise AssertionError

    return UpstreamContext(loop, connect, UpstreamLimits(), asyncio.Semaphore())
