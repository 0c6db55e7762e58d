"""Text on a terminal: columns of characters, lines cut or wrapped to them, and styles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tabane.text.control_characters import without_controls


class StyledText(NamedTuple):
    """A part of a line. ``style`` has words: a color, ``bold``, ``dim``. It shows on a terminal only."""

    text: str
    style: str = ""


Line = Sequence[str | StyledText]
"""The parts of a line. Only the output writes escape sequences, for the styles."""


def clean(given: object) -> str:
    """Return untrusted text as it is printed, if its width is needed before."""
    return without_controls(str(given))


def plain(line: Line) -> str:
    """Return a line without styles."""
    return "".join(part if isinstance(part, str) else part.text for part in line)


def cells(text: str) -> int:
    """Return the number of columns of a text: two for a wide character, none for a combining one."""
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def fitted(text: str, columns: int) -> str:
    """Return the text, cut with ``…`` if it takes more than ``columns``."""
    if cells(text) <= columns:
        return text
    while text and cells(text) > columns - 1:
        text = text[:-1]
    return text + "…"


def padded(shown: str, columns: int) -> str:
    """Return the text in exactly ``columns``: cut, or filled with spaces."""
    shown = fitted(shown, columns)
    return shown + " " * (columns - cells(shown))


def wrapped(line: str, columns: int) -> Iterator[str]:
    """Split the line into parts of at most ``columns``: at a space if one is near, not in a short word."""
    while cells(line) > columns:
        end = _fitting(line, columns)
        space = line.rfind(" ", end - end // 3, end + 1)
        cut = space if space > 0 else _between_words(line, end, columns)
        yield line[:cut].rstrip()
        line = line[cut:].lstrip(" ")
    yield line


def _between_words(line: str, end: int, columns: int) -> int:
    """Return where to split near ``end``: before the Latin word there if it fits into a part of its own.

    A Japanese sentence may be split anywhere, but not before its punctuation.
    """
    start, stop = end, end
    while start > 0 and line[start - 1].isascii() and line[start - 1] != " ":
        start -= 1
    while stop < len(line) and line[stop].isascii() and line[stop] != " ":
        stop += 1
    if line[end].isascii() and start > 0 and stop - start <= columns:
        return start
    return max(end - 1 if line[end] in "。、」）" else end, 1)


def _fitting(line: str, columns: int) -> int:
    """Return how many characters of the line fit into ``columns``."""
    taken = 0
    for number, character in enumerate(line):
        taken += cells(character)
        if taken > columns:
            return number
    return len(line)
