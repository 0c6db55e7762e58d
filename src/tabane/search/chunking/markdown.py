"""Markdown by its blocks and headings, line by line: CommonMark with tables and front matter.

What stands inside list items and quotes is theirs: a heading there is none of the document's. Of link
reference definitions nothing is known; a line of ``===`` under one makes it a heading here.
"""

from __future__ import annotations

import re

from tabane.search.chunking.markdown_marks import (
    ATX,
    RULE,
    SETEXT,
    end_of_code,
    end_of_fence,
    end_of_html,
    end_of_item,
    end_of_quote,
    fence_of,
    html_of,
    interrupts,
    item_of,
    table_at,
)
from tabane.search.chunking.outline import (
    BREAK,
    GLUE,
    HEADING,
    ITEM,
    LEADS,
    PARAGRAPH,
    BlockLines,
    Makeup,
    Outline,
    OutlineBlock,
    indent_of,
    lines_of,
)

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
        at = self._front_matter()
        while at < len(self._lines):
            line = self._lines[at]
            at = at + 1 if not line or line.isspace() else self._block(at, line)
        return Outline(self._blocks, self._paths)

    def _block(self, at: int, line: str) -> int:
        """Read the block that begins in this line; return the line after it."""
        if line[0] in " \t":
            if indent_of(line) >= 4:
                return self._add(at, end_of_code(self._lines, at), "code")
            line = line.lstrip(" \t")
        if line[0] not in _SPECIAL:
            return self._paragraph(at)
        return self._marked(at, line)

    def _marked(self, at: int, line: str) -> int:
        if found := ATX.match(line):
            return self._heading(at, at + 1, len(found[1]), _CLOSING_MARKS.sub("", line[found.end() :]))
        if fence := fence_of(line):
            return self._add(at, end_of_fence(self._lines, at, fence), "code")
        if RULE.match(line):
            return self._rule(at)
        if line[0] == ">":
            return self._add(at, end_of_quote(self._lines, at), "prose")
        if (inside := item_of(self._lines[at])) is not None:
            return self._item(at, inside)
        if line[0] == "<" and (ending := html_of(line)):
            return self._add(at, end_of_html(self._lines, at, ending), "prose")
        return self._paragraph(at)

    def _paragraph(self, at: int) -> int:
        """Read a paragraph, a heading if it is underlined, or a table if its line is the head of one."""
        lines, here = self._lines, at
        while here < len(lines):
            line = lines[here]
            if "|" in line and (end := table_at(lines, here)):
                if here > at:
                    self._add(at, here, "prose")
                return self._add(here, end, "table")
            bare = line.lstrip(" \t")
            if here > at and (not bare or (bare[0] in _SPECIAL and self._ends(here, bare))):
                break
            here += 1
        if here < len(lines) and here > at and (found := _underline(lines[here])):
            title = " ".join(line.strip() for line in lines[at:here])
            return self._heading(at, here + 1, 1 if found == "=" else 2, title)
        return self._add(at, here, "prose")

    def _ends(self, here: int, bare: str) -> bool:
        return bool(_underline(self._lines[here])) or interrupts(self._lines[here], bare)

    def _item(self, at: int, inside: int) -> int:
        after = self._item_end == at  # with nothing but blank lines between
        end = end_of_item(self._lines, at, inside)
        self._add(at, end, "item", ITEM if after else PARAGRAPH)
        while end < len(self._lines) and not self._lines[end].strip():
            end += 1
        self._item_end = end
        return end

    def _rule(self, at: int) -> int:
        self._add(at, at + 1, "whole", BREAK)
        return at + 1

    def _heading(self, at: int, end: int, level: int, title: str) -> int:
        deeper = 0 < self._level < level
        while self._above and self._above[-1][0] >= level:
            self._above.pop()
        self._above.append((level, title_of(title)))
        self._paths.append(tuple(title for _, title in self._above))
        self._leads, self._level = False, 0
        self._put(at, GLUE if deeper else HEADING - level, "heading")
        self._level = level
        return end

    def _add(self, at: int, end: int, makeup: Makeup, strength: int = PARAGRAPH) -> int:
        self._put(at, strength, makeup)
        self._leads = makeup == "prose" and self._lines[end - 1].rstrip().endswith((":", "："))
        return end

    def _put(self, at: int, strength: int, makeup: Makeup) -> None:
        if self._level:
            strength = GLUE
        elif self._leads:
            strength = min(strength, LEADS)
        self._level = 0
        self._blocks.append(OutlineBlock(self._starts[at], strength, makeup, len(self._paths) - 1))

    def _front_matter(self) -> int:
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
