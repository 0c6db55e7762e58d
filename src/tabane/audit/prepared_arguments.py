"""Arguments of one call, as they are recorded when it ends."""

from __future__ import annotations

from collections.abc import Callable

RedactionWork = Callable[[], tuple[bytes, int]]
"""Returns redacted JSON, and the number of bytes that were sent if it is not all of them."""


class PreparedArguments:
    """Redacted arguments of one call, or the work that makes them. :meth:`take` returns them.

    ``short``: the work may be done on the event loop.
    """

    __slots__ = ("_size", "_text", "_work", "short")

    def __init__(
        self, text: bytes, size: int = 0, work: RedactionWork | None = None, *, short: bool = False
    ) -> None:
        self._text, self._size, self._work, self.short = text, size, work, short

    def take(self) -> tuple[bytes, int]:
        """Return the JSON, empty for none, and the number of bytes that were sent if it is not all of them.

        Bounded: what the thread has not finished is done here.
        """
        if self._work is not None:
            self.finish()
        return self._text, self._size

    def finish(self) -> None:
        """Do the work if it is not done. Two threads may do so at once: both get the same result."""
        work = self._work
        if work is not None:
            self._text, self._size = work()
            self._work = None


NOTHING, EMPTY = PreparedArguments(b""), PreparedArguments(b"{}")
