"""Outlines of texts: blocks, and the strength of the borders between them; of plain text and of code."""

from __future__ import annotations

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
    """Runs of lines without a blank one; what begins at the margin is a definition of its own."""
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
