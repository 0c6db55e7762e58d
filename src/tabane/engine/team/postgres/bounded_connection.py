"""A connection that gives a server up that is silent for too long.

The server ends statements by its own limit. It cannot do that if it hangs, or if something between it and the
hub takes what is sent and answers nothing. TCP notices neither.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator
from typing import Any, TypeVar

import psycopg

T = TypeVar("T")


class AnswerLimit:
    """The longest silence, in seconds. It may be lowered while connections wait."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class SilentServer(psycopg.OperationalError):
    """Nothing came from the server and nothing could be sent for as long as the limit says."""


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """``limit`` is None while statements run that may take any time."""

    limit: AnswerLimit | None = None

    def wait(self, gen: Generator[Any, Any, T], *given: Any, **named: Any) -> T:
        """Wait as psycopg does, within the limit. Raises SilentServer, and the connection is closed then."""
        try:
            return super().wait(self._within_limit(gen), *given, **named)
        except SilentServer:
            self.pgconn.finish()
            raise

    def _within_limit(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Pass on what a generator of psycopg wants, which is told several times a second if nothing came."""
        heard = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    heard = time.monotonic()
                elif self.limit is not None and time.monotonic() - heard > self.limit.seconds:
                    raise SilentServer(f"no answer within {self.limit.seconds:g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            found: T = end.value
            return found


@contextlib.contextmanager
def unlimited(connection: psycopg.Connection) -> Iterator[None]:
    """Wait as long as it takes, for statements that have no limit at the server either."""
    if not isinstance(connection, BoundedConnection):
        yield
        return
    limit, connection.limit = connection.limit, None
    try:
        yield
    finally:
        connection.limit = limit
