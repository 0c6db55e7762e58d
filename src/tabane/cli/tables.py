"""Tables on a terminal: columns as wide as their cells, wrapped where the terminal is too narrow."""

from __future__ import annotations

import shutil
from collections.abc import Container, Iterator, Sequence
from itertools import zip_longest

from tabane.cli.terminal_text import Line, StyledText, cells, clean, wrapped

_NARROWEST = 8  # columns of a terminal that a cell keeps


def table_lines(
    rows: Sequence[Sequence[StyledText]], *, gap: int = 2, whole: Container[int] = (), columns: int = 0
) -> Iterator[Line]:
    """Yield the lines of a table of at most ``columns`` columns; 0 is the width of the terminal.

    Columns with the numbers ``whole`` are wrapped only if nothing else is left.
    """
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
        ([number for number in range(len(widths)) if number not in whole], _NARROWEST),
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
