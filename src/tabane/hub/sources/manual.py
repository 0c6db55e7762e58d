"""Tabane's documentation: sections of its pages, and the operation that reads them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from tabane.errors import BadArguments
from tabane.messages import Lang, say
from tabane.operations import EVERYONE, Caller, Face, Operation, Privilege
from tabane.text.nearest_names import nearest

_HEADING = re.compile(r"(#{1,3}) (.+)")
_NOT_IN_ANCHORS = re.compile(r"[^\w -]")
_FENCE = re.compile(r"(```|~~~)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


class ManualSection(NamedTuple):
    """Part of a page under one heading. ``title`` has the headings above it too."""

    page: str
    lang: Lang
    title: str
    text: str
    line: int

    @property
    def anchor(self) -> str:
        """The anchor that GitHub gives the heading."""
        return _NOT_IN_ANCHORS.sub("", self.title.rpartition(" › ")[2].lower()).replace(" ", "-")

    @property
    def key(self) -> str:
        return f"{self.page}:{self.line}"


def sections(page: str, markdown: str) -> Iterator[ManualSection]:
    """Return the sections of a Markdown page, by headings of three levels; code keeps its lines."""
    lang: Lang = "ja" if page.endswith(".ja.md") else "en"
    titles: list[str] = []
    lines: list[str] = []
    begun, fenced = 1, False
    for number, line in enumerate(markdown.splitlines(), 1):
        fenced ^= _FENCE.match(line) is not None
        heading = None if fenced else _HEADING.fullmatch(line.strip())
        if heading is None:
            lines.append(line)
            continue
        if any(map(str.strip, lines)):
            yield _section(page, lang, titles, lines, begun)
        titles = [*titles[: len(heading[1]) - 1], heading[2].replace("`", "")]
        lines, begun = [], number
    if any(map(str.strip, lines)):
        yield _section(page, lang, titles, lines, begun)


def _section(page: str, lang: Lang, titles: list[str], lines: list[str], line: int) -> ManualSection:
    text = _COMMENT.sub("", "\n".join(lines)).strip()
    return ManualSection(page, lang, " › ".join(titles) or page, text, line)


def pages(folder: Path | None = None) -> list[tuple[str, str]]:
    """Return name and text of each page, from the package, or from the checkout that it runs from."""
    places = [folder] if folder else [Path(__file__).parents[2] / "docs", Path(__file__).parents[4] / "docs"]
    docs = next((place for place in places if place.is_dir()), None)
    if docs is None:
        return []
    return [(page.name, page.read_text(encoding="utf-8")) for page in sorted(docs.glob("*.md"))]


class GetDocumentation(Struct, frozen=True, forbid_unknown_fields=True):
    """``section`` is a page, ``page#anchor`` for a section of it, or ``page.md:line`` for that of a line."""

    section: (
        Annotated[str, Meta(min_length=1, max_length=200, description="page, page#anchor or page.md:line")]
        | None
    ) = None


def documentation_table() -> list[Operation]:
    """Return the operation that reads the manual."""
    return [
        Operation(
            "get_documentation",
            "Read the manual of Tabane, this MCP hub: settings, commands, how to add servers. Without a "
            "section, it lists the pages.",
            GetDocumentation, get_documentation, EVERYONE, text=_documentation_text,
            structured=lambda found, _: found, source="docs", privilege=Privilege.READ,
        )
    ]  # fmt: skip


async def get_documentation(caller: Caller, params: GetDocumentation) -> dict[str, Any]:
    """Return one section, one page, or the names of all pages. Raises BadArguments for an unknown one."""
    texts = dict(await asyncio.to_thread(pages))
    if params.section is None:
        found: dict[str, Any] = {"pages": list(texts)}
        if caller.face is Face.WEB:
            found["titles"] = {page: _page_title(text) or page for page, text in texts.items()}
        return found
    named, _, anchor = params.section.partition("#")
    given, _, line = named.partition(":")
    page = _page_of(given, texts, caller.lang)
    if page is None:
        known = ", ".join(texts) or "–"
        message = say("section: there is no page {page}. Pages: {known}", page=given, known=known)
        raise BadArguments(message, "section")
    if anchor:
        section = _anchored(page, anchor, texts)
        return {"section": section.key, "title": section.title, "text": section.text}
    if not line:
        return {"section": page, "title": page, "text": _COMMENT.sub("", texts[page])}
    if not line.isdecimal():
        raise BadArguments(say("section: {line} is not a line number", line=line), "section")
    parts = list(sections(page, texts[page]))
    if not parts:
        return {"section": page, "title": page, "text": _COMMENT.sub("", texts[page])}
    # The section that contains the line, or the first one for an earlier line.
    section = next((part for part in reversed(parts) if part.line <= int(line)), parts[0])
    return {"section": section.key, "title": section.title, "text": section.text}


def _page_title(text: str) -> str:
    """Return the first heading of a page."""
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found[1].replace("`", "").strip() if found else ""


def _page_of(name: str, texts: Mapping[str, str], lang: Lang) -> str | None:
    """Return the page of that name. Without .md, it is the page in the language of the caller."""
    suffixes = (".ja.md", ".md") if lang == "ja" else (".md",)
    return next((page for page in (name, *(name + suffix for suffix in suffixes)) if page in texts), None)


def _anchored(page: str, anchor: str, texts: Mapping[str, str]) -> ManualSection:
    """Return the section with an anchor, as GitHub gives it to headings. Raises BadArguments.

    A translated page also has the anchors of the English one: its sections are in the same order.
    """
    parts = list(sections(page, texts[page]))
    english = page.replace(".ja.md", ".md")
    originals = list(sections(english, texts[english])) if english in texts else parts
    pairs = [(part.anchor, part) for part in parts]
    if len(originals) == len(parts):
        pairs += [(original.anchor, part) for original, part in zip(originals, parts, strict=True)]
    found = dict(reversed(pairs)).get(anchor)
    if found is None:
        near = ", ".join(nearest(anchor, [name for name, _ in pairs]) or [name for name, _ in pairs[:20]])
        raise BadArguments(
            say(
                "section: {page} has no section {anchor}. Sections: {near}",
                page=page,
                anchor=anchor,
                near=near,
            ),
            "section",
        )
    return found


def _documentation_text(answer: dict[str, Any], lang: Lang) -> str:
    if "pages" in answer:
        return "\n".join(answer["pages"])
    return f"{answer['title']}\n\n{answer['text']}"
