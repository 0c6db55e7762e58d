"""Where list items and quotes end: what is indented or marked is theirs, and a paragraph's next line too."""

from __future__ import annotations

from collections.abc import Sequence

from tabane.search.chunking.block import indent_of
from tabane.search.chunking.marks import ATX, RULE, closes, fence_of, interrupts, item_of

_QUOTE = ">"
_FAR = 500  # characters of a line, within which its marks are looked for


def end_of_item(lines: Sequence[str], at: int, inside: int) -> int:
    """The line after a list item whose content begins in that column; blank lines behind it are not its."""
    state = _Inside()
    state.take(_without(lines[at], inside))
    end = here = at + 1
    if not lines[at].strip()[1:].strip(".) \t0123456789") and here < len(lines) and not lines[here].strip():
        return end  # an item that begins with a blank line has no more of them
    while here < len(lines):
        line = lines[here]
        blank = not line.strip()
        if blank or indent_of(line) >= inside:
            state.take(_without(line, inside))
        elif not state.goes_on(line):
            break
        here += 1
        end = end if blank else here
    return end


def end_of_quote(lines: Sequence[str], at: int) -> int:
    """The line after a quote."""
    state, here = _Inside(), at
    while here < len(lines):
        bare = lines[here].lstrip(" \t")
        if bare.startswith(_QUOTE) and indent_of(lines[here]) < 4:
            state.take(bare[1:].removeprefix(" "))
        elif not bare or not state.goes_on(lines[here]):
            break
        here += 1
    return here


class _Inside:
    """What is read of a container: whether its last line is a paragraph that may go on outside it."""

    def __init__(self) -> None:
        self._fence = ""
        self._paragraph = False

    def take(self, line: str) -> None:
        """A line of the container, without its mark or indentation."""
        bare = line.strip(" \t")
        if self._fence:
            self._fence = "" if closes(line, self._fence) else self._fence
            self._paragraph = False
            return
        inner = _innermost(line) if bare else ""
        if inner is None:  # indented as code, unless a paragraph goes on
            return
        self._fence = fence_of(inner)
        self._paragraph = bool(inner) and not (self._fence or ATX.match(inner) or RULE.match(inner))

    def goes_on(self, line: str) -> bool:
        """Whether a line outside belongs to the paragraph inside."""
        bare = line.strip(" \t")
        if not self._paragraph or not bare:
            return False
        return not interrupts(line, bare) and item_of(line) is None


def _innermost(line: str) -> str | None:
    """A line without the marks of all containers that begin in it; None where it is indented as code."""
    line = line[:_FAR]
    while True:
        if indent_of(line) >= 4:
            return None
        bare = line.lstrip(" \t")
        if bare.startswith(_QUOTE):
            line = bare[1:].removeprefix(" ")
        elif (inside := item_of(line)) is not None:
            line = _without(line, inside)
        else:
            return bare.rstrip(" \t")


def _without(line: str, columns: int) -> str:
    """The line from that column on; a tab that reaches beyond it leaves blanks."""
    column = 0
    for place, character in enumerate(line):
        if column >= columns:
            return " " * (column - columns) + line[place:]
        column += 4 - column % 4 if character == "\t" else 1
    return " " * max(column - columns, 0)
