"""Chunks of texts that a model can take, cut at borders that a reader would choose; pure.

The same text, kind and measure are cut in the same places, and an edit moves the cuts around it alone. A text
is outlined, broken up where a part is too long, and joined again. Joining removes the weakest borders first,
if the parts beside them fit together. What becomes of a border depends only on its weaker neighbors. Borders
of equal strength are ordered by a checksum of the text around them, not by their position. A cutter that
fills one chunk after the other changes everything up to the next heading.

What is inside list items and quotes is theirs: a heading there is none of the document. Nothing is known of
link reference definitions; a line of ``===`` under one makes it a heading here. Marks that begin and end the
blocks and containers of Markdown are those of CommonMark 0.31, tables as on GitHub.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, takewhile
from typing import Literal, NamedTuple, Protocol, runtime_checkable

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
    match = _FENCE.match(bare)
    return (match[1] or match[2]) if match else ""


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
    match = _ITEM.match(bare) if before < 4 else None
    if match is None or RULE.match(bare):
        return None
    width = before + len(match[1])
    gap = indent_of(" " * width + bare[len(match[1]) :]) - width if match[2] else 1
    return width + (gap if gap <= 4 and match.end() < len(bare) else 1)


def interrupts(line: str, bare: str) -> bool:
    """Return whether a line ends the paragraph above it, other than by underlining it."""
    if indent_of(line) >= 4:
        return False
    if ATX.match(bare) or fence_of(bare) or RULE.match(bare) or bare[0] == ">":
        return True
    if bare[0] == "<":
        return html_of(bare, alone=False) is not None
    match = _ITEM.match(bare)
    return match is not None and match.end() < len(bare) and match[1] in ("-", "+", "*", "1.", "1)")


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
    while here < len(lines) and (bare := lines[here].strip()):
        # Unlike a paragraph, any list item and indented code end a table.
        if indent_of(lines[here]) >= 4 or interrupts(lines[here], bare) or item_of(lines[here]) is not None:
            break
        here += 1
    return here


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
        if match := ATX.match(line):
            return self._read_heading(at, at + 1, len(match[1]), _CLOSING_MARKS.sub("", line[match.end() :]))
        if fence := fence_of(line):
            return self._add_block(at, end_of_fence(self._lines, at, fence), "code")
        if RULE.match(line):
            self._add_block(at, at + 1, "whole", BREAK)
            return at + 1
        if line[0] == ">":
            return self._add_block(at, end_of_quote(self._lines, at), "prose")
        if (inside := item_of(self._lines[at])) is not None:
            after = self._item_end == at  # with nothing but blank lines between
            end = end_of_item(self._lines, at, inside)
            self._add_block(at, end, "item", ITEM if after else PARAGRAPH)
            while end < len(self._lines) and not self._lines[end].strip():
                end += 1
            self._item_end = end
            return end
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
        if here < len(lines) and here > at and (mark := _underline(lines[here])):
            title = " ".join(line.strip() for line in lines[at:here])
            return self._read_heading(at, here + 1, 1 if mark == "=" else 2, title)
        return self._add_block(at, here, "prose")

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
    match = SETEXT.match(line)
    return (match[1] or match[2]) if match else ""


Kind = Literal["markdown", "text", "code"]
"""The structure of a text: by its headings and blocks, by its paragraphs, or by its indentation."""


class Chunk(NamedTuple):
    """A part of a text: code points ``start`` to ``end`` of it.

    ``headings`` are those that apply to all of it, the outermost first; only in Markdown.
    """

    start: int
    end: int
    headings: tuple[str, ...]


class Measure(Protocol):
    """The unit of length: tokens of a model, or an estimate of them. Several threads may use it.

    Failure policy: it always answers. Counting may need a process or a file, so it stays off event loops.
    """

    @property
    def capacity(self) -> int:
        """Return the tokens that a chunk and the headings above it may have together; at least one."""
        ...

    @property
    def name(self) -> str:
        """Return a name. Two measures of one name cut every text in the same places."""
        ...

    def count(self, text: str) -> int:
        """Return the tokens of a text, without those that a model adds itself."""
        ...


@runtime_checkable
class BatchMeasure(Protocol):
    """A measure that is faster with many texts at once."""

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return :meth:`Measure.count` of each."""
        ...


def counted(measure: Measure, texts: Sequence[str]) -> list[int]:
    """Return the tokens of each text."""
    if isinstance(measure, BatchMeasure):
        return measure.counts(texts)
    return [measure.count(text) for text in texts]


_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f"
# One token each: up to six letters of a Latin word, two digits, two letters of another script, a sign.
_TOKENS = re.compile(rf"[A-Za-z]{{1,6}}|[0-9]{{1,2}}|[^\W\d_A-Za-z{_CJK}]{{1,2}}|[^\w\s]|[_\d]")
_IDEOGRAPHS = re.compile(rf"[{_CJK}]+")


@dataclass(frozen=True, slots=True)
class Estimate:
    """Counts by scripts: three tokens for four characters of Chinese, Japanese and Korean.

    Two digits are one token: WordPiece has most pairs, and few longer numbers. With three, tables of
    measurements had 30 % more tokens than estimated. With two, years have 20 % fewer.

    Tokenizers of many languages make two to two and a half of these; those of English alone make four, but
    then their models read nothing in them either.
    """

    capacity: int
    name: str

    def count(self, text: str) -> int:
        """Return the estimated tokens of a text."""
        tokens = len(_TOKENS.findall(text))
        if text.isascii():
            return tokens
        return tokens + (3 * sum(map(len, _IDEOGRAPHS.findall(text))) + 3) // 4

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return the estimated tokens of each text."""
        return [self.count(text) for text in texts]


_CLOSERS = "」』）】〉》〕”’\"')\\]*_`"
# A full stop of Japanese ends a sentence at once, a Latin one only before a blank.
_SENTENCE_ENDS = re.compile(rf"[。！？｡]+[{_CLOSERS}]*[ \t\u3000]*|[.!?…]+[{_CLOSERS}]*[ \t]+")
_LINE_ENDS = re.compile(r"(?:\r\n|\n|\r)\s*")
_CLAUSE_ENDS = re.compile(r"[、，，､；：]+[ \t]*|[,;:–—|][ \t]+|(?<=[」』）])(?=[^」』）。、])")
_WORDS = re.compile(r"\S[\s\S]{15,}?(?:\s+|\Z)")
# What a reader takes for one character, near enough: marks and joiners stay with what they follow.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0e31\u0e34-\u0e3a"
    "\u0e47-\u0e4e\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe00-\ufe0f\ufe20-\ufe2f"
    "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef"
)
_BASE = r"\r\n|[\U0001f1e6-\U0001f1ff]{2}|[\ud800-\udbff][\udc00-\udfff]|[\s\S]"
_GRAPHEME = rf"(?:{_BASE})(?:[{_MARKS}]|\u200d[\s\S]?)*"
_GRAPHEMES = re.compile(_GRAPHEME)
_RUNS = re.compile(rf"(?:{_GRAPHEME}){{1,32}}")
_MARKER = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)|[ \t]*>")

OVERLAP = 8
"""The part of a chunk that may be of the one before it: one of so many."""

Borders = Iterable[tuple[int, int]]
"""The beginnings of parts of a text, and the strength of the border before each; 0 among them or not."""


class ChunkAtom(NamedTuple):
    """A part of a text that is not broken up. ``prose``: it continues the prose of the part before it."""

    start: int
    end: int
    strength: int
    tokens: int
    section: int
    prose: bool = False


class _OversizedBlock(NamedTuple):
    """A block to break into parts of at most so many tokens, and the ways that are left."""

    atom: ChunkAtom
    most: int
    ways: tuple[Callable[[str], Borders], ...]


def broken(
    text: str, atoms: Sequence[tuple[ChunkAtom, Makeup]], rooms: Sequence[int], measure: Measure
) -> list[ChunkAtom]:
    """Return the atoms, broken up if they do not fit. ``rooms``: the tokens of a chunk in each section.

    An atom that is still too long is one character to its reader.
    """
    done: list[ChunkAtom] = []
    large: list[_OversizedBlock] = []
    above = 0  # tokens of the headings right before, which are to fit in with what follows
    for atom, makeup in atoms:
        room = rooms[atom.section]
        most = room - above if atom.strength == GLUE and above <= room // 2 else room
        if atom.tokens <= most:
            done.append(atom)
        else:
            large.append(_OversizedBlock(atom, most, _WAYS[makeup]))
        above = (above + atom.tokens if atom.strength == GLUE else atom.tokens) if makeup == "heading" else 0
    while large:
        pieces = [(part, whole) for whole in large for part in _split_atom(text, whole.atom, whole.ways[0])]
        tokens = counted(measure, [text[part.start : part.end] for part, _ in pieces])
        large = []
        for (part, whole), size in zip(pieces, tokens, strict=True):
            part = part._replace(tokens=size)
            # Where more of the same stands before a part, some of that comes with it.
            most = whole.most - whole.most // OVERLAP if part.prose else whole.most
            if size <= most or len(whole.ways) == 1:
                done.append(part)
            else:
                large.append(whole._replace(atom=part, ways=whole.ways[1:]))
    return sorted(done)


def _split_atom(text: str, atom: ChunkAtom, way: Callable[[str], Borders]) -> Iterator[ChunkAtom]:
    borders = [(start, strength) for start, strength in way(text[atom.start : atom.end]) if start > 0]
    starts = [atom.start, *(atom.start + start for start, _ in borders), atom.end]
    strengths = [atom.strength, *(strength for _, strength in borders)]
    prose = way in _PROSE
    for (start, end), strength in zip(pairwise(starts), strengths, strict=True):
        yield ChunkAtom(start, end, strength, 0, atom.section, atom.prose if start == atom.start else prose)


def _block_borders(text: str) -> Borders:
    """Return the borders at blank lines, and at items and quotes within an item."""
    blank = False
    lines, starts = lines_of(text)
    for line, start in zip(lines, starts, strict=False):
        if not line or line.isspace():
            blank = True
        else:
            if blank or _MARKER.match(line):
                yield start, NESTED - min(indent_of(line), 12) // 2
            blank = False


def _row_borders(text: str) -> Borders:
    """Return the borders of the rows of a table; the line under its head stays with it."""
    _, starts = lines_of(text)
    return ((start, GLUE if place == 2 else ROW) for place, start in enumerate(starts[:-1]) if place != 1)


def _sentence_borders(text: str) -> Borders:
    ends = {match.end(): SENTENCE for match in _SENTENCE_ENDS.finditer(text)}
    for match in _LINE_ENDS.finditer(text):
        ends[match.end()] = SENTENCE_LINE if match.start() in ends else LINE
        ends.pop(match.start(), None)
    return sorted(pair for pair in ends.items() if pair[0] < len(text))


def _clause_borders(text: str) -> Borders:
    ends = {match.end() for match in _CLAUSE_ENDS.finditer(text)}
    return ((end, CLAUSE) for end in sorted(ends) if end < len(text))


def _starts_of(pattern: re.Pattern[str], strength: int) -> Callable[[str], Borders]:
    return lambda text: ((match.start(), strength) for match in pattern.finditer(text))


_LAST = (_starts_of(_WORDS, WORD), _starts_of(_RUNS, GRAPHEME), _starts_of(_GRAPHEMES, GRAPHEME))
_TEXT = (_sentence_borders, _clause_borders, *_LAST)
_PROSE = frozenset(_TEXT)
_WAYS: dict[Makeup, tuple[Callable[[str], Borders], ...]] = {
    "heading": _TEXT,
    "prose": (_block_borders, *_TEXT),
    "item": (_block_borders, *_TEXT),
    "table": (_row_borders, *_TEXT),
    "code": (code_parts, code_lines, *_LAST),
    "whole": (code_lines, *_LAST),
}

_HEADINGS = 4  # the part of a chunk that headings above it may take, one of so many

_OUTLINES: Mapping[Kind, Callable[[str], Outline]] = {
    "markdown": markdown_outline,
    "text": text_outline,
    "code": code_outline,
}


def chunks(text: str, kind: Kind, measure: Measure) -> list[Chunk]:
    """Cut a text into chunks that the measure's capacity holds together with the headings above them.

    Spans are in order and cover the text without a gap: white space belongs to what it follows. Where a
    long paragraph had to be cut, the next chunk begins with the last words of the one before. A grapheme
    that is longer than the capacity is a chunk all the same. An empty text has no chunks.
    """
    if not text:
        return []
    outline = _OUTLINES[kind](text)
    blocks = outline.blocks or [OutlineBlock(0, 0, "prose")]
    blocks = [blocks[0]._replace(start=0), *blocks[1:]]  # the first one begins where the text begins
    above = counted(measure, ["\n".join(path) for path in outline.paths])
    capacity = max(measure.capacity, 1)
    rooms = [capacity - min(tokens, capacity // _HEADINGS) for tokens in above]
    ends = [*(block.start for block in blocks[1:]), len(text)]
    spans = [(block.start, end) for block, end in zip(blocks, ends, strict=True)]
    tokens = counted(measure, [text[start:end] for start, end in spans])
    pieces: list[tuple[ChunkAtom, Makeup]] = [
        (ChunkAtom(start, end, block.strength, size, block.section), block.makeup)
        for block, (start, end), size in zip(blocks, spans, tokens, strict=True)
    ]
    atoms = broken(text, pieces, rooms, measure)
    return [_chunk_of(piece, atoms, outline.paths) for piece in joined(text, atoms, rooms)]


def _chunk_of(piece: JoinedAtoms, atoms: Sequence[ChunkAtom], paths: Sequence[tuple[str, ...]]) -> Chunk:
    above = paths[atoms[piece.first].section]
    for section in range(atoms[piece.first].section + 1, atoms[piece.last - 1].section + 1):
        both = zip(above, paths[section], strict=False)
        above = tuple(title for title, _ in takewhile(lambda pair: pair[0] == pair[1], both))
    return Chunk(piece.start, atoms[piece.last - 1].end, above)


_AROUND = 24  # code points on either side of a border, of which the checksum is made
_MOST_BACK = 4  # atoms
_ENOUGH = 4  # sections that have this part of a chunk each, one of so many, stay apart


class JoinedAtoms(NamedTuple):
    """The atoms ``first`` to ``last`` (not included) in one chunk, which begins at ``start``."""

    first: int
    last: int
    start: int


def joined(text: str, atoms: Sequence[ChunkAtom], rooms: Sequence[int]) -> list[JoinedAtoms]:
    """Join atoms into chunks. ``rooms``: the tokens that a chunk of each section may have."""
    sums = list(accumulate((atom.tokens for atom in atoms), initial=0))
    back = [_overlap_start(atoms, place, rooms[atom.section]) for place, atom in enumerate(atoms)]
    first = [place - 1 for place in range(len(atoms) + 1)]  # of the piece that ends there
    last = [place + 1 for place in range(len(atoms) + 1)]  # of the piece that begins there
    for border in sorted(range(1, len(atoms)), key=[_border_rank(text, atom) for atom in atoms].__getitem__):
        low, high = first[border], last[border]
        room = rooms[atoms[low].section]
        if sums[high] - sums[back[low]] > room:
            continue
        shorter = min(sums[border] - sums[low], sums[high] - sums[border])
        if atoms[border].strength > BREAK and shorter >= room // _ENOUGH:
            continue  # both sides are long enough to be chunks of their own
        last[low], first[high] = high, low
    pieces, place = [], 0
    while place < len(atoms):
        pieces.append(JoinedAtoms(place, last[place], atoms[back[place]].start))
        place = last[place]
    return pieces


def _border_rank(text: str, atom: ChunkAtom) -> int:
    around = text[max(atom.start - _AROUND, 0) : atom.start + _AROUND]
    return atom.strength << 32 | zlib.crc32(around.encode("utf-8", "surrogatepass"))


def _overlap_start(atoms: Sequence[ChunkAtom], place: int, room: int) -> int:
    """Return the atom at which the chunk before this border begins to overlap:

    earlier, if the cut is in prose.
    """
    most = min(room // OVERLAP, room - atoms[place].tokens)
    if not atoms[place].prose or atoms[place].strength > OVERLAPS:
        return place
    begin, tokens = place, 0
    while place - begin < _MOST_BACK and begin and (tokens := tokens + atoms[begin - 1].tokens) <= most:
        begin -= 1
        if not atoms[begin].prose:
            break
    return begin
