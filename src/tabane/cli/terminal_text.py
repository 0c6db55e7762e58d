"""Text on a terminal: columns of characters, lines cut or wrapped to them, and control characters."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import click

# controls except tab and newline, DEL, and the second set of controls: a terminal obeys all of them
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def readable(text: str, *, on_terminal: bool) -> str:
    """Return untrusted text so that it can be printed.

    Halves of surrogate pairs, which no encoding has, are replaced. On a terminal, so are characters that
    move its cursor or change its colors.
    """
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n")) if on_terminal else text


def clean(given: object) -> str:
    """Return untrusted text without control characters."""
    return readable(str(given), on_terminal=True)


def painted(shown: str, **style: Any) -> str:
    """Return the text in a style of click, if stdout is a terminal and NO_COLOR is not set."""
    return click.style(shown, **style) if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else shown


def cells(text: str) -> int:
    """Return the number of columns of a text: two for a wide character, none for a combining one."""
    from unicodedata import combining, east_asian_width

    return sum(2 if east_asian_width(char) in "WF" else 0 if combining(char) else 1 for char in text)


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
    """Split the line into parts of at most ``columns``, at a space if one is near."""
    while cells(line) > columns:
        end = _fitting(line, columns)
        space = line.rfind(" ", end - end // 3, end + 1)
        cut = space if space > 0 else max(end, 1)
        yield line[:cut].rstrip()
        line = line[cut:].lstrip(" ")
    yield line


def _fitting(line: str, columns: int) -> int:
    """Return how many characters of the line fit into ``columns``."""
    taken = 0
    for number, character in enumerate(line):
        taken += cells(character)
        if taken > columns:
            return number
    return len(line)
