"""Marks that begin and end the blocks and containers of Markdown (CommonMark 0.31, tables as on GitHub)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tabane.search.chunking.outline import indent_of

ATX = re.compile(r"(#{1,6})(?:[ \t]+|$)")
# Possessive, because texts are untrusted and lines may be long: each pattern is linear.
RULE = re.compile(r"(?:\*[ \t]*+){3,}+$|(?:-[ \t]*+){3,}+$|(?:_[ \t]*+){3,}+$")
SETEXT = re.compile(r" {0,3}(?:(=)=*|(-)-*)[ \t]*$")

_FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_ITEM = re.compile(r"([-+*]|\d{1,9}[.)])([ \t]+|$)")
_DELIMITERS = re.compile(r"[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+$")
_CELL = re.compile(r"(?<!\\)\|")

# Tags that make a block of HTML wherever they begin a line, by the specification.
_BLOCKS = (
    "address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|"
    "dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|"
    "link|main|menu|menuitem|nav|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|"
    "tfoot|th|thead|title|tr|track|ul"
)
_ATTRIBUTE = r"""\s+[A-Za-z_:][\w:.-]*(?:\s*=\s*(?:[^\s"'=<>`]+|'[^']*'|"[^"]*"))?"""
_LONGEST_TAG = 2000
_BLANK = re.compile(r"\s*$")
_RAW = "script|pre|style|textarea"
_HTML = (  # what begins it, what is in its last line
    (re.compile(rf"<(?:{_RAW})(?:\s|>|$)", re.I), re.compile(rf"</(?:{_RAW})>", re.I)),
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"<\?"), re.compile(r"\?>")),
    (re.compile(r"<![A-Za-z]"), re.compile(r">")),
    (re.compile(r"<!\[CDATA\["), re.compile(r"\]\]>")),
    (re.compile(rf"</?(?:{_BLOCKS})(?:\s|/?>|$)", re.I), _BLANK),
)
_TAG = re.compile(rf"(?:<[A-Za-z][A-Za-z0-9-]*(?:{_ATTRIBUTE})*\s*/?>|</[A-Za-z][A-Za-z0-9-]*\s*>)\s*$")


def fence_of(bare: str) -> str:
    """Return the mark that opens fenced code in this line; "" if none does."""
    found = _FENCE.match(bare)
    return (found[1] or found[2]) if found else ""


def closes(line: str, fence: str) -> bool:
    """Return whether the line ends the code that this mark opened."""
    bare = line.strip(" \t")
    return len(bare) >= len(fence) and not bare.strip(fence[0]) and indent_of(line) < 4


def end_of_fence(lines: Sequence[str], at: int, fence: str) -> int:
    """Return the line after the code; code that nothing closes ends with the text."""
    return next((here + 1 for here in range(at + 1, len(lines)) if closes(lines[here], fence)), len(lines))


def end_of_code(lines: Sequence[str], at: int) -> int:
    """Return the line after indented code."""
    while at < len(lines) and (not lines[at].strip() or indent_of(lines[at]) >= 4):
        at += 1
    return at


def html_of(bare: str, *, alone: bool = True) -> re.Pattern[str] | None:
    """Return the mark in the last line of the HTML that begins here. ``alone``: it may be any tag."""
    bare = bare[:_LONGEST_TAG]
    for begins, ends in _HTML:
        if begins.match(bare):
            return ends
    return _BLANK if alone and _TAG.match(bare) else None


def end_of_html(lines: Sequence[str], at: int, ends: re.Pattern[str]) -> int:
    """Return the line after HTML. A blank line that ends it is not part of it."""
    if ends is _BLANK:
        return next((here for here in range(at, len(lines)) if not lines[here].strip()), len(lines))
    return next((here + 1 for here in range(at, len(lines)) if ends.search(lines[here])), len(lines))


def item_of(line: str) -> int | None:
    """Return the column where the content of a list item begins; None if the line begins none."""
    before = indent_of(line)
    bare = line.lstrip(" \t")
    found = _ITEM.match(bare) if before < 4 else None
    if found is None or RULE.match(bare):
        return None
    width = before + len(found[1])
    gap = indent_of(" " * width + bare[len(found[1]) :]) - width if found[2] else 1
    return width + (gap if gap <= 4 and found.end() < len(bare) else 1)


def interrupts(line: str, bare: str) -> bool:
    """Return whether a line ends the paragraph above it, other than by underlining it."""
    if indent_of(line) >= 4:
        return False
    if ATX.match(bare) or fence_of(bare) or RULE.match(bare) or bare[0] == ">":
        return True
    if bare[0] == "<":
        return html_of(bare, alone=False) is not None
    found = _ITEM.match(bare)
    return found is not None and found.end() < len(bare) and found[1] in ("-", "+", "*", "1.", "1)")


def table_at(lines: Sequence[str], at: int) -> int:
    """Return the line after the table that begins here; 0 if none does."""
    if at + 1 >= len(lines) or not _DELIMITERS.match(lines[at + 1]) or indent_of(lines[at]) >= 4:
        return 0
    if (
        "|" not in lines[at + 1]
        or _cells(lines[at]) != _cells(lines[at + 1])
        or indent_of(lines[at + 1]) >= 4
    ):
        return 0
    here = at + 2
    while here < len(lines) and (bare := lines[here].strip()) and not _ends_table(lines[here], bare):
        here += 1
    return here


def _ends_table(line: str, bare: str) -> bool:
    """Return whether a line is no row: unlike a paragraph, any list item and indented code end a table."""
    return indent_of(line) >= 4 or interrupts(line, bare) or item_of(line) is not None


def _cells(row: str) -> int:
    return len(_CELL.findall(row.strip().removeprefix("|").removesuffix("|"))) + 1


_QUOTE = ">"
_FAR = 500  # characters of a line, within which its marks are looked for


def end_of_item(lines: Sequence[str], at: int, inside: int) -> int:
    """Return the line after a list item whose content begins in that column, without blank lines."""
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
    """Return the line after a quote."""
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
    """State of a container: whether its last line is a paragraph that may continue outside it."""

    def __init__(self) -> None:
        self._fence = ""
        self._paragraph = False

    def take(self, line: str) -> None:
        """Read a line of the container, without its mark or indentation."""
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
        """Return whether a line outside belongs to the paragraph inside."""
        bare = line.strip(" \t")
        if not self._paragraph or not bare:
            return False
        return not interrupts(line, bare) and item_of(line) is None


def _innermost(line: str) -> str | None:
    """Return a line without the marks of all containers that begin in it; None if it is indented as code."""
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
    """Return the line from that column on; a tab that reaches beyond it leaves blanks."""
    column = 0
    for place, character in enumerate(line):
        if column >= columns:
            return " " * (column - columns) + line[place:]
        column += 4 - column % 4 if character == "\t" else 1
    return " " * max(column - columns, 0)
