"""A line that shows that something is being done: on a terminal only, and only when it takes a while."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

FIRST, EVERY = 0.7, 0.1
"""Seconds until the line appears, and between two of its steps."""

_STEPS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN_STEPS = "-\\|/"
_CLEAR = "\r\x1b[K"


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Show ``what``, with the seconds it takes, on standard error while the block runs.

    Nothing is shown where that is no terminal, or where the block is quicker than :data:`FIRST`. The
    line is driven by a timer signal, not by a thread: a process that forks a hub has no threads.
    """
    if not _wanted():
        yield
        return
    line = _Line(what)
    before = signal.signal(signal.SIGALRM, line.step)
    signal.setitimer(signal.ITIMER_REAL, FIRST, EVERY)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        line.clear()


def cells(text: str) -> int:
    """How many columns of a terminal a text takes: two for each wide character, none for what combines."""
    from unicodedata import combining, east_asian_width

    return sum(2 if east_asian_width(char) in "WF" else 0 if combining(char) else 1 for char in text)


def fitted(text: str, columns: int) -> str:
    """The text, cut with ``…`` where it takes more than ``columns``."""
    if cells(text) <= columns:
        return text
    while text and cells(text) > columns - 1:
        text = text[:-1]
    return text + "…"


class _Line:
    def __init__(self, what: str) -> None:
        self._what = what
        self._began = time.monotonic()
        self._steps = _STEPS if _speaks(_STEPS) else _PLAIN_STEPS
        self._shown = 0

    def step(self, number: int, frame: FrameType | None) -> Any:
        seconds = time.monotonic() - self._began
        text = f"{self._steps[self._shown % len(self._steps)]} {self._what} {seconds:.0f} s"
        self._shown += 1
        _write(_CLEAR + fitted(text, _columns() - 1))

    def clear(self) -> None:
        if self._shown:
            _write(_CLEAR)


def _wanted() -> bool:
    return (
        sys.stderr.isatty()
        and os.environ.get("TERM") != "dumb"
        and threading.current_thread() is threading.main_thread()
    )


def _speaks(text: str) -> bool:
    try:
        text.encode(sys.stderr.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80


def _write(text: str) -> None:
    # Past Python's buffer: the signal may have come in the midst of a write to it.
    os.write(2, text.encode(sys.stderr.encoding or "ascii", "replace"))
