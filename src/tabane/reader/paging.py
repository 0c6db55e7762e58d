"""Paging of long pages: where a part ends, and how to begin the next so that it can be read alone. Pure.

Parts end before a heading if there is one in their second half, else between paragraphs or items, and inside
code, a table or a line only if that is longer than half a part. Code and tables that go on in the next part
are closed in this one and opened again there. Offsets are characters of the whole Markdown.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, get_args

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.reader.hidden_text import fence_after
from tabane.reader.table import Format
from tabane.text.cutting import cut_at
from tabane.wire.cursors import CursorCodec, ForeignCursor

FORMATS: tuple[Format, ...] = get_args(Format)

_HEADING = re.compile(r" {0,3}#{1,6}[ \t]")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]")
_ROW = re.compile(r"[ \t>]*\|")
_RULE = re.compile(r"[ \t>]*\|[ \t:|-]*-[ \t:|-]*\|?[ \t]*$")


def tokens(text: str) -> int:
    """Estimate the tokens of a text: one for four ASCII characters, or for one of any other script.

    The estimate of catalog/result_parts.py, bytes / 4, is a third too low for Japanese, where pages are long.
    """
    ascii_count = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return (ascii_count + 3) // 4 + len(text) - ascii_count


class PagePart(NamedTuple):
    """A part of a page: ``text``, readable alone, and its span in the whole."""

    text: str
    start: int
    end: int
    last: bool


class _LineStart(NamedTuple):
    """A line: its start, how well a part may end before it, and what has to be opened again there.

    ``rank``: 0 inside code or a table, 1 inside a paragraph, 2 before an item, 3 before a paragraph, 4 before
    a heading; -1 between lines that belong together. ``closing`` ends the open fence or table, ``opening``
    begins it again.
    """

    start: int
    rank: int
    closing: str = ""
    opening: str = ""


def part(whole: str, start: int, budget: int, *, structured: bool = True) -> PagePart:
    """Return the part that begins at ``start``, of about ``budget`` tokens; never empty before the end.

    ``structured`` False: the text is not Markdown.
    """
    budget = max(budget, 1)
    window = whole[start : start + 4 * budget]
    if tokens(window) <= budget:
        limit = start + len(window)
    else:
        low, high = 1, len(window)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if tokens(window[:middle]) <= budget else (low, middle - 1)
        limit = start + low
    first = inside = _LineStart(start, 0)
    best: _LineStart | None = None
    for line in _line_starts(whole, structured):
        if line.start > limit:
            break
        inside = line
        if line.start <= start:
            first = line
        else:
            best = _better_end(best, line, start, limit)
    if limit >= len(whole):
        return PagePart(first.opening + whole[start:], start, len(whole), True)
    if best is None or (best.start - start) * 10 < limit - start:
        # The line is longer than a part, so it is cut. What is open at its start is open in all of it.
        end = cut_at(whole, max(start, inside.start), limit)
        closing = f"\n{inside.closing}" if inside.closing else ""
        return PagePart(first.opening + whole[start:end] + closing, start, end, False)
    text = whole[start : best.start].rstrip("\n")
    return PagePart(f"{first.opening}{text}\n{best.closing}", start, best.start, False)


def _better_end(best: _LineStart | None, line: _LineStart, start: int, limit: int) -> _LineStart:
    """Return the better of two ends: the higher rank, if the part is then half full, else the later."""
    if best is None:
        return line
    enough = start + (limit - start) // 2
    if best.start >= enough and best.rank > line.rank:
        return best
    return line


def _line_starts(whole: str, structured: bool) -> Iterator[_LineStart]:
    """Yield all lines of the text, with the fence or table open at the start of each."""
    state = _OpenMarkdown()
    at = 0
    for line in whole.splitlines(keepends=True):
        yield state.before(line, at) if structured else _LineStart(at, 3 if state.blank else 1)
        state.pass_by(line)
        at += len(line)


@dataclass(slots=True)
class _OpenMarkdown:
    """The open parts during the walk: a fence and the line that opened it, a table and its head."""

    fence: str | None = None
    opened: str = ""
    begun: bool = False  # by the line just passed
    head: tuple[str, ...] = ()
    rows: int = 0
    blank: bool = True
    heading: bool = False

    def before(self, line: str, at: int) -> _LineStart:
        if self.fence is not None:
            # The closing fence is indented like the opening one, but does not begin a list item.
            indent = re.sub(r"[^\s>]", " ", self.opened[: self.opened.index(self.fence)])
            return _LineStart(at, -1 if self.begun else 0, f"{indent}{self.fence}\n", self.opened)
        if self.rows >= 2 and _ROW.match(line):
            return _LineStart(at, 0, "", "".join(self.head) if len(self.head) == 2 else "")
        if _ROW.match(line) and self.rows == 1:
            return _LineStart(at, -1)
        if self.heading:
            return _LineStart(at, -1)  # a heading stays with its text
        if _HEADING.match(line):
            rank = 4
        elif _ITEM.match(line):
            rank = 2
        else:
            rank = 3 if self.blank and line.strip() and not line.startswith((" ", "\t")) else 1
        return _LineStart(at, rank)

    def pass_by(self, line: str) -> None:
        opened = self.fence
        self.fence = fence_after(line, self.fence)
        self.begun = self.fence is not None and opened is None
        if self.begun:
            self.opened = line if line.endswith("\n") else f"{line}\n"
        self._pass_row(line, opened is not None or self.fence is not None)
        self.heading = (_HEADING.match(line) is not None and opened is None) or (
            self.heading and not line.strip()
        )
        self.blank = not line.strip()

    def _pass_row(self, line: str, is_code: bool) -> None:
        if is_code or not _ROW.match(line):
            self.rows, self.head = 0, ()
            return
        self.rows += 1
        if self.rows == 1:
            self.head = (line,)
        elif self.rows == 2 and _RULE.match(line.rstrip("\n")):
            self.head = (*self.head, line)


class PageCursor(NamedTuple):
    """The content of a cursor: the start of the next part, and the parameters of the request."""

    start: int
    form: Format
    links: bool
    budget: int
    page: bytes  # the digest of the Markdown that offsets are of
    url: bytes  # the digest of the requested URL


_CURSORS = CursorCodec("page", PageCursor)


def digest(text: str) -> bytes:
    """Return eight bytes that name a text."""
    return hashlib.blake2s(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def encode(cursor: PageCursor) -> str:
    """Return the cursor as text."""
    return _CURSORS.encode(cursor)


def decode(text: str, url: str) -> PageCursor:
    """Decode a cursor. Raises BadArguments if it is not one, or belongs to another URL."""
    try:
        cursor = _CURSORS.decode(text)
    except ForeignCursor:
        raise BadArguments(
            say("cursor: it was not issued by this tool. Leave it out to read from the start."), "cursor"
        ) from None
    if cursor.url != digest(url):
        raise BadArguments(
            say("cursor: it belongs to another URL. Use it with the url that it was issued for."), "cursor"
        )
    return cursor
