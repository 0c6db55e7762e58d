"""Outlines of texts: blocks, headings and the strength of borders, of Markdown, plain text and code.

What stands inside list items and quotes is theirs: a heading there is none of the document's. Of link
reference definitions nothing is known; a line of ``===`` under one makes it a heading here.

Marks that begin and end the blocks and containers of Markdown (CommonMark 0.31, tables as on GitHub).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

Makeup = Literal["heading", "prose", "item", "table", "code", "whole"]
"""The places to split a block that is too long: at sentences, nested items, rows, or blank lines."""

# A border is given up in the order of its strength, the weakest first, where what it parts fits together.
GLUE = 0  # between a heading and what it is above
LEADS = 2  # between "as follows:" and what follows
GRAPHEME = 5
WORD = 8
CLAUSE = 12
CODE_LINE = 20  # less what the line is indented
LINE = 30
SENTENCE = 32
SENTENCE_LINE = 34  # a sentence that ends with its line
ROW = 40
CODE_BLANK = 50  # less what the line after it is indented
NESTED = 56  # an item within an item, less its depth
ITEM = 58
PARAGRAPH = 60
BREAK = 64  # two blank lines, a line across the page
DEFINITION = 66  # of code: a blank line before what stands at the margin
HEADING = 80  # less its level

OVERLAPS = SENTENCE_LINE
"""Prose that is cut at a border as weak as this is given again in part."""


class OutlineBlock(NamedTuple):
    """A block. ``strength`` is that of the border before it; ``section`` counts the headings up to it."""

    start: int
    strength: int
    makeup: Makeup
    section: int = 0


class Outline(NamedTuple):
    """The blocks of a text, each up to the next, and the headings that apply in each section."""

    blocks: list[OutlineBlock]
    paths: list[tuple[str, ...]]


class BlockLines(NamedTuple):
    """A text by its lines: ``starts`` has one more, the end. A line has no line break."""

    lines: list[str]
    starts: list[int]


def lines_of(text: str) -> BlockLines:
    """Return the lines of a text with the line ends of any system."""
    if "\r" in text:  # of the same length, so that places stay what they are
        text = text.replace("\r\n", " \n").replace("\r", "\n")
    lines, starts, at = text.split("\n"), [], 0
    for line in lines:
        starts.append(at)
        at += len(line) + 1
    starts.append(len(text))
    if len(lines) > 1 and not lines[-1]:  # what ends in a line break has no line behind it
        lines.pop()
        starts.pop()
    return BlockLines(lines, starts)


def indent_of(line: str) -> int:
    """Return the columns that a line is indented: a tab advances to the next multiple of four."""
    column = 0
    for character in line:
        if character == " ":
            column += 1
        elif character == "\t":
            column += 4 - column % 4
        else:
            break
    return column


_DEEP = 18  # columns, beyond which all is as deep
_CLOSING = ("}", ")", "]", "end", "fi", "done", "esac")
_IDEOGRAPHIC_SPACE = "\u3000"


def text_outline(text: str) -> Outline:
    """Return paragraphs: after blank lines, and at lines that begin with the blank of a Japanese one."""
    blocks: list[OutlineBlock] = []
    blank = 0
    lines, starts = lines_of(text)
    for line, start in zip(lines, starts, strict=False):
        if not line or line.isspace():
            blank += 1
            continue
        if "\f" in line or blank > 1:
            blocks.append(OutlineBlock(start, BREAK, "prose"))
        elif blank or not blocks:
            blocks.append(OutlineBlock(start, PARAGRAPH, "prose"))
        elif line.startswith(_IDEOGRAPHIC_SPACE):
            blocks.append(OutlineBlock(start, PARAGRAPH - 1, "prose"))
        blank = 0
    return Outline(blocks, [()])


def code_outline(text: str) -> Outline:
    """Return runs of lines without a blank line. A line at the margin begins a definition."""
    blocks = [OutlineBlock(start, strength, "code") for start, strength in code_parts(text)]
    return Outline(blocks, [()])


def code_parts(text: str) -> list[tuple[int, int]]:
    """Return where runs of lines without a blank one begin, and the strength of the border before each."""
    parts: list[tuple[int, int]] = []
    blank, inside = 1, False  # inside: the line before was part of something that began at the margin
    lines, starts = lines_of(text)
    for line, start in zip(lines, starts, strict=False):
        if not line or line.isspace():
            blank += 1
            continue
        indent = indent_of(line)
        closing = line.lstrip().startswith(_CLOSING)
        if blank and parts and closing:
            parts.append((start, CODE_LINE))
        elif blank:
            parts.append((start, DEFINITION if not indent else CODE_BLANK - min(indent, _DEEP)))
        elif not indent and inside and not closing:
            parts.append((start, CODE_BLANK))
        blank, inside = 0, bool(indent) or closing
    return parts


def code_lines(text: str) -> list[tuple[int, int]]:
    """Return where lines begin, and the strength of the border before each: the deeper, the weaker."""
    lines, starts = lines_of(text)
    parts = []
    for line, start in zip(lines, starts, strict=False):
        if line and not line.isspace():
            deep = _DEEP if line.lstrip().startswith(_CLOSING) else min(indent_of(line), _DEEP)
            parts.append((start, CODE_LINE - deep // 2))
    return parts


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
        or _count_cells(lines[at]) != _count_cells(lines[at + 1])
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


def _count_cells(row: str) -> int:
    return len(_CELL.findall(row.strip().removeprefix("|").removesuffix("|"))) + 1


_QUOTE = ">"
_FAR = 500  # characters of a line, within which its marks are looked for


def end_of_item(lines: Sequence[str], at: int, inside: int) -> int:
    """Return the line after a list item whose content begins in that column, without blank lines."""
    state = _Inside()
    state.take(_cut_columns(lines[at], inside))
    end = here = at + 1
    if not lines[at].strip()[1:].strip(".) \t0123456789") and here < len(lines) and not lines[here].strip():
        return end  # an item that begins with a blank line has no more of them
    while here < len(lines):
        line = lines[here]
        blank = not line.strip()
        if blank or indent_of(line) >= inside:
            state.take(_cut_columns(line, inside))
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
            line = _cut_columns(line, inside)
        else:
            return bare.rstrip(" \t")


def _cut_columns(line: str, columns: int) -> str:
    """Return the line from that column on; a tab that reaches beyond it leaves blanks."""
    column = 0
    for place, character in enumerate(line):
        if column >= columns:
            return " " * (column - columns) + line[place:]
        column += 4 - column % 4 if character == "\t" else 1
    return " " * max(column - columns, 0)


_FRONT = {"---": ("---", "..."), "+++": ("+++",)}
_MOST_FRONT = 500  # lines
_LONGEST_TITLE = 300
_SPECIAL = frozenset("#`~>-+*_<=0123456789|")
_TITLE_MARKS = re.compile(
    r"!?\[([^\]]*)\]\([^)]*\)|</?[A-Za-z][^>]*>|[*`]+|(?<!\w)_+|_+(?!\w)|\s*\{#[^}]*\}\s*$|¶\s*$"
)
_CLOSING_MARKS = re.compile(r"(?:^|[ \t])#+[ \t]*$")


def markdown_outline(text: str) -> Outline:
    """Return the blocks of a document and the headings above them."""
    return _Scanner(lines_of(text)).outline()


def title_of(line: str) -> str:
    """Return the text of a heading, without marks of emphasis, code and links, on one line."""
    return " ".join(_TITLE_MARKS.sub(r"\1", line[:_LONGEST_TITLE]).split())


class _Scanner:
    """Reads a document once, from its first line to its last."""

    def __init__(self, whole: BlockLines) -> None:
        self._lines, self._starts = whole
        self._blocks: list[OutlineBlock] = []
        self._paths: list[tuple[str, ...]] = [()]
        self._above: list[tuple[int, str]] = []  # level and title of the headings that hold
        self._item_end = -1  # the line that the last list item ended before
        self._leads = False  # whether the block before says "as follows:"
        self._level = 0  # of the heading right before, 0 where there is none

    def outline(self) -> Outline:
        at = self._read_front_matter()
        while at < len(self._lines):
            line = self._lines[at]
            at = at + 1 if not line or line.isspace() else self._read_block(at, line)
        return Outline(self._blocks, self._paths)

    def _read_block(self, at: int, line: str) -> int:
        """Read the block that begins in this line; return the line after it."""
        if line[0] in " \t":
            if indent_of(line) >= 4:
                return self._add_block(at, end_of_code(self._lines, at), "code")
            line = line.lstrip(" \t")
        if line[0] not in _SPECIAL:
            return self._paragraph(at)
        return self._read_marked_block(at, line)

    def _read_marked_block(self, at: int, line: str) -> int:
        if found := ATX.match(line):
            return self._read_heading(at, at + 1, len(found[1]), _CLOSING_MARKS.sub("", line[found.end() :]))
        if fence := fence_of(line):
            return self._add_block(at, end_of_fence(self._lines, at, fence), "code")
        if RULE.match(line):
            self._add_block(at, at + 1, "whole", BREAK)
            return at + 1
        if line[0] == ">":
            return self._add_block(at, end_of_quote(self._lines, at), "prose")
        if (inside := item_of(self._lines[at])) is not None:
            return self._read_item(at, inside)
        if line[0] == "<" and (ending := html_of(line)):
            return self._add_block(at, end_of_html(self._lines, at, ending), "prose")
        return self._paragraph(at)

    def _paragraph(self, at: int) -> int:
        """Read a paragraph, a heading if it is underlined, or a table if its line is the head of one."""
        lines, here = self._lines, at
        while here < len(lines):
            line = lines[here]
            if "|" in line and (end := table_at(lines, here)):
                if here > at:
                    self._add_block(at, here, "prose")
                return self._add_block(here, end, "table")
            bare = line.lstrip(" \t")
            if here > at and not bare:
                break
            if here > at and bare[0] in _SPECIAL and (_underline(line) or interrupts(line, bare)):
                break
            here += 1
        if here < len(lines) and here > at and (found := _underline(lines[here])):
            title = " ".join(line.strip() for line in lines[at:here])
            return self._read_heading(at, here + 1, 1 if found == "=" else 2, title)
        return self._add_block(at, here, "prose")

    def _read_item(self, at: int, inside: int) -> int:
        after = self._item_end == at  # with nothing but blank lines between
        end = end_of_item(self._lines, at, inside)
        self._add_block(at, end, "item", ITEM if after else PARAGRAPH)
        while end < len(self._lines) and not self._lines[end].strip():
            end += 1
        self._item_end = end
        return end

    def _read_heading(self, at: int, end: int, level: int, title: str) -> int:
        deeper = 0 < self._level < level
        while self._above and self._above[-1][0] >= level:
            self._above.pop()
        self._above.append((level, title_of(title)))
        self._paths.append(tuple(title for _, title in self._above))
        self._leads, self._level = False, 0
        self._append_block(at, GLUE if deeper else HEADING - level, "heading")
        self._level = level
        return end

    def _add_block(self, at: int, end: int, makeup: Makeup, strength: int = PARAGRAPH) -> int:
        self._append_block(at, strength, makeup)
        self._leads = makeup == "prose" and self._lines[end - 1].rstrip().endswith((":", "："))
        return end

    def _append_block(self, at: int, strength: int, makeup: Makeup) -> None:
        if self._level:
            strength = GLUE
        elif self._leads:
            strength = min(strength, LEADS)
        self._level = 0
        self._blocks.append(OutlineBlock(self._starts[at], strength, makeup, len(self._paths) - 1))

    def _read_front_matter(self) -> int:
        """Read the part before the document between lines of dashes; return the line after it."""
        ends = _FRONT.get(self._lines[0].rstrip()) if self._lines else None
        if ends is None or len(self._lines) < 2 or not self._lines[1].strip():
            return 0
        for at in range(1, min(len(self._lines), _MOST_FRONT)):
            if self._lines[at].rstrip() in ends:
                self._blocks.append(OutlineBlock(0, HEADING, "whole"))
                return at + 1
        return 0


def _underline(line: str) -> str:
    """Return ``=`` or ``-`` if the line makes a heading of the paragraph above it."""
    found = SETEXT.match(line)
    return (found[1] or found[2]) if found else ""
