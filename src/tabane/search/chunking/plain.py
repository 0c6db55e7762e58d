"""Plain text by its paragraphs, and source code by its blank lines and indentation."""

from __future__ import annotations

from tabane.search.chunking.outline import (
    BREAK,
    CODE_BLANK,
    CODE_LINE,
    DEFINITION,
    PARAGRAPH,
    Outline,
    OutlineBlock,
    indent_of,
    lines_of,
)

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
