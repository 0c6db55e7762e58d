"""The documents as data: their code blocks, the marks before them, and their links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])

_BLOCK = re.compile(r"(?:<!-- (?P<mark>[\w:]+) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)```", re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_SPAN = re.compile(r"`(tabane [^`]+)`")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, and the mark ``<!-- mark -->`` on the line before it."""

    page: Path
    kind: str
    mark: str | None
    text: str

    @property
    def name(self) -> str:
        return f"{self.page.name}:{self.mark or self.kind}"


def blocks(mark: str | None = None) -> list[Block]:
    """All blocks of all pages, or those with a mark."""
    found = [
        Block(page, match["kind"], match["mark"], match["text"])
        for page in PAGES
        for match in _BLOCK.finditer(page.read_text(encoding="utf-8"))
    ]
    return [block for block in found if mark is None or block.mark == mark]


def shape(page: Path) -> tuple[list[tuple[str, str | None, str]], list[int], list[int]]:
    """What a page and its translation share: blocks, levels of headings, columns of each table row.

    The text of a block counts without comments, which are translated.
    """
    text = page.read_text(encoding="utf-8")
    found = [
        (block.kind, block.mark, re.sub(r" +(#|//) .*", "", block.text))
        for block in blocks()
        if block.page == page
    ]
    prose = _BLOCK.sub("", text)
    levels = [len(marks) for marks in re.findall(r"^(#+) ", prose, re.MULTILINE)]
    columns = [row.count(" | ") for row in re.findall(r"^\|.*\|$", prose, re.MULTILINE)]
    return found, levels, columns


def links(page: Path) -> list[str]:
    return [match["target"] for match in _LINK.finditer(page.read_text(encoding="utf-8"))]


def commands(page: Path) -> set[str]:
    """Return each ``tabane …`` of a page, in a block or as code in a sentence."""
    text = page.read_text(encoding="utf-8")
    lines = {line.strip() for match in _BLOCK.finditer(text) for line in match["text"].splitlines()}
    return {line for line in lines if line.startswith("tabane ")} | set(_SPAN.findall(_BLOCK.sub("", text)))
