"""What begins and ends the blocks of Markdown (CommonMark 0.31, tables as GitHub has them)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tabane.search.chunking.block import indent_of

ATX = re.compile(r"(#{1,6})(?:[ \t]+|$)")
RULE = re.compile(r"(?:\*[ \t]*){3,}$|(?:-[ \t]*){3,}$|(?:_[ \t]*){3,}$")
SETEXT = re.compile(r" {0,3}(?:(=)=*|(-)-*)[ \t]*$")

_FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_ITEM = re.compile(r"([-+*]|\d{1,9}[.)])([ \t]+|$)")
_DELIMITERS = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
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
    """The mark that opens fenced code in this line; "" where none does."""
    found = _FENCE.match(bare)
    return (found[1] or found[2]) if found else ""


def closes(line: str, fence: str) -> bool:
    """Whether the line ends the code that this mark opened."""
    bare = line.strip(" \t")
    return len(bare) >= len(fence) and not bare.strip(fence[0]) and indent_of(line) < 4


def end_of_fence(lines: Sequence[str], at: int, fence: str) -> int:
    """The line after the code; code that nothing closes goes to the end."""
    return next((here + 1 for here in range(at + 1, len(lines)) if closes(lines[here], fence)), len(lines))


def end_of_code(lines: Sequence[str], at: int) -> int:
    """The line after code that is indented."""
    while at < len(lines) and (not lines[at].strip() or indent_of(lines[at]) >= 4):
        at += 1
    return at


def html_of(bare: str, *, alone: bool = True) -> re.Pattern[str] | None:
    """What the last line has of the HTML that begins here. ``alone``: it may be any tag."""
    bare = bare[:_LONGEST_TAG]
    for begins, ends in _HTML:
        if begins.match(bare):
            return ends
    return _BLANK if alone and _TAG.match(bare) else None


def end_of_html(lines: Sequence[str], at: int, ends: re.Pattern[str]) -> int:
    """The line after HTML: that of a blank line is not its own."""
    if ends is _BLANK:
        return next((here for here in range(at, len(lines)) if not lines[here].strip()), len(lines))
    return next((here + 1 for here in range(at, len(lines)) if ends.search(lines[here])), len(lines))


def item_of(line: str) -> int | None:
    """The column where the content of a list item begins; None where the line begins none."""
    before = indent_of(line)
    bare = line.lstrip(" \t")
    found = _ITEM.match(bare) if before < 4 else None
    if found is None or RULE.match(bare):
        return None
    width = before + len(found[1])
    gap = indent_of(" " * width + bare[len(found[1]) :]) - width if found[2] else 1
    return width + (gap if gap <= 4 and found.end() < len(bare) else 1)


def interrupts(line: str, bare: str) -> bool:
    """Whether a line ends the paragraph above it, other than by underlining it."""
    if indent_of(line) >= 4:
        return False
    if ATX.match(bare) or fence_of(bare) or RULE.match(bare) or bare[0] == ">":
        return True
    if bare[0] == "<":
        return html_of(bare, alone=False) is not None
    found = _ITEM.match(bare)
    return found is not None and found.end() < len(bare) and found[1] in ("-", "+", "*", "1.", "1)")


def table_at(lines: Sequence[str], at: int) -> int:
    """The line after the table that begins here; 0 where none does."""
    if at + 1 >= len(lines) or not _DELIMITERS.match(lines[at + 1]) or indent_of(lines[at]) >= 4:
        return 0
    if (
        "|" not in lines[at + 1]
        or _cells(lines[at]) != _cells(lines[at + 1])
        or indent_of(lines[at + 1]) >= 4
    ):
        return 0
    here = at + 2
    while here < len(lines) and (bare := lines[here].strip()) and not interrupts(lines[here], bare):
        here += 1
    return here


def _cells(row: str) -> int:
    return len(_CELL.findall(row.strip().removeprefix("|").removesuffix("|"))) + 1
