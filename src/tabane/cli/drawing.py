"""Drawings on a terminal: tables with columns as wide as their cells, and lines of progress."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from types import FrameType
from typing import Any, NamedTuple

from tabane.cli.terminal_text import Line, StyledText, cells, clean, fitted, wrapped
from tabane.messages import Lang, say

_NARROWEST_COLUMN = 8  # columns of a terminal that a cell keeps


def table_lines(
    rows: Sequence[Sequence[StyledText]], *, gap: int = 2, whole: Container[int] = (), columns: int = 0
) -> Iterator[Line]:
    """Yield the lines of a table of at most ``columns`` columns; 0 is the width of the terminal.

    Columns with the numbers ``whole`` are wrapped only if nothing else is left.
    """
    import shutil  # completion and help draw no table, and this loads three compressors

    parts = [[(clean(cell.text).split("\n"), cell.style) for cell in row] for row in rows]
    natural = [
        max((cells(line) for lines, _ in column for line in lines), default=0)
        for column in zip_longest(*parts, fillvalue=([""], ""))
    ]
    room = (columns or shutil.get_terminal_size().columns) - gap * (len(natural) - 1)
    widths = fitting(natural, room, whole)
    for row in parts:
        shown = [
            [part for line in lines for part in wrapped(line, width)]
            for (lines, _), width in zip(row, widths, strict=False)
        ]
        for pieces in zip_longest(*shown, fillvalue=""):
            styled = (
                (piece, style, width) for piece, (_, style), width in zip(pieces, row, widths, strict=False)
            )
            yield _line(styled, gap)


def fitting(natural: Sequence[int], room: int, whole: Container[int]) -> list[int]:
    """Return widths whose sum is at most ``room``, if that is possible: the widest columns give way first."""
    widths = list(natural)
    for flexible, least in (
        ([number for number in range(len(widths)) if number not in whole], _NARROWEST_COLUMN),
        (list(range(len(widths))), 1),
    ):
        while flexible and sum(widths) > room:
            widest = max(flexible, key=lambda number: widths[number])
            if widths[widest] <= least:
                break
            second = max((widths[n] for n in flexible if widths[n] < widths[widest]), default=least)
            widths[widest] = max(least, second, widths[widest] - (sum(widths) - room))
            if widths[widest] == second and sum(widths) > room and second > least:
                widths[widest] = second - 1
    return widths


def _line(pieces: Iterator[tuple[str, str, int]], gap: int) -> Line:
    """Return a line: each piece in its style, filled up to its width, without spaces at the end."""
    line: list[str | StyledText] = []
    pending = 0
    for piece, style, width in pieces:
        if piece:
            line += [" " * pending, StyledText(piece, style)]
            pending = 0
        pending += width - cells(piece) + gap
    return line


FIRST, EVERY = 0.7, 0.1
"""Seconds until the line appears, and between two of its steps."""

_STEPS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN_STEPS = "-\\|/"
_CLEAR = "\r\x1b[K"
_WIDEST, _NARROWEST_LINE = 30, 6


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Show ``what`` and the elapsed seconds on standard error while the block runs.

    Nothing is shown if that is not a terminal, or before :data:`FIRST` seconds. A timer signal redraws the
    line, not a thread: a process that forks a hub must not have threads. After a block inside of another one,
    the line of the outer one goes on.
    """
    if not _wanted():
        yield
        return
    line = _ElapsedLine(what)
    before = signal.signal(signal.SIGALRM, line.step)
    outer = signal.setitimer(signal.ITIMER_REAL, FIRST, EVERY)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        line.clear()
        signal.setitimer(signal.ITIMER_REAL, *outer)


class Glyphs(NamedTuple):
    """Characters of a bar: done, not done, and the frames of a spinner for jobs of unknown length."""

    full: str
    rest: str
    steps: str


FINE, PLAIN = Glyphs("█", "░", _STEPS), Glyphs("#", "-", _PLAIN_STEPS)


class Bar:
    """The progress line of a job, redrawn for each state. ``wanted`` is whether it is shown at all."""

    def __init__(self, lang: Lang) -> None:
        self.wanted = _wanted()
        self._lang: Lang = lang
        self._began = time.monotonic()
        self._glyphs = FINE if can_print("".join(FINE), err=True) else PLAIN
        self._shown = 0

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            _write(_CLEAR)

    def show(self, state: dict[str, Any]) -> None:
        """Draw the state of a job, if a terminal is there and the job takes long enough."""
        if self.wanted and time.monotonic() - self._began >= FIRST:
            _write(_CLEAR + bar_line(state, _columns() - 1, self._lang, self._glyphs, self._shown))
            self._shown += 1


def bar_line(state: dict[str, Any], columns: int, lang: Lang, glyphs: Glyphs = FINE, step: int = 0) -> str:
    """Return a job's state in at most ``columns``: title, bar, count, rate and remaining time."""
    label = clean(state["title"] + (f": {state['note']}" if state["note"] else "")).replace("\n", " ")
    figures = job_figures(state, lang)
    if state["total"]:
        total = state["total"]
        done = min(state["done"], total)
        figures = f"{done * 100 // total} % {figures}"
        room = min(_WIDEST, columns - cells(label) - cells(figures) - 2)
        if room >= _NARROWEST_LINE:
            full = done * room // total
            figures = glyphs.full * full + glyphs.rest * (room - full) + " " + figures
    else:
        label = f"{glyphs.steps[step % len(glyphs.steps)]} {label}"
    left = columns - cells(figures) - 1
    return fitted(f"{fitted(label, left)} {figures}" if left >= _NARROWEST_LINE else figures, columns)


def job_figures(state: dict[str, Any], lang: Lang) -> str:
    """Return how far a job is, and if it is known, its rate and the remaining time."""
    done, total, rate, left = (state[name] for name in ("done", "total", "rate", "left"))
    parts = [f"{done:,}/{total:,}" if total else f"{done:,}"]
    if rate is not None:
        parts.append(say("{rate}/s", rate=f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}").render(lang))
    if left is not None:
        parts.append(say("{time} left", time=clock(left)).render(lang))
    return " ".join(parts)


def clock(seconds: float) -> str:
    """Format a duration as ``m:ss``, or ``h:mm:ss`` from one hour on."""
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _ElapsedLine:
    def __init__(self, what: str) -> None:
        self._what = clean(what)
        self._began = time.monotonic()
        self._steps = _STEPS if can_print(_STEPS, err=True) else _PLAIN_STEPS
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


def can_print(text: str, *, err: bool = False) -> bool:
    """Return whether stdout, or stderr, can encode the text.

    No encoding has half surrogates; small ones lack much.
    """
    try:
        text.encode((sys.stderr if err else sys.stdout).encoding or "ascii")
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
