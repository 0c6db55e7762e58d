"""Tabane's own documentation as a collection: what it says of itself can be searched as everything else."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

from tabane.messages import Lang
from tabane.search.engine import Collection
from tabane.search.filters import Everything
from tabane.search.records import Field, Kind, Record, Shape, TextField, checked
from tabane.wire import json

SHAPE = Shape(
    "manual",
    (TextField("title", 2.0), TextField("text")),
    (Field("page", Kind.STRING), Field("lang", Kind.STRING)),
)

SPACES = ("text",)


def meaning(record: Record) -> str:
    """What of a section is embedded: its headings, then what is below them."""
    return "\n".join(filter(None, (record.texts.get("title"), record.texts.get("text"))))


_HEADING = re.compile(r"(#{1,3}) (.+)")
_FENCE = re.compile(r"(```|~~~)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


class Section(NamedTuple):
    """Part of a page under one heading. ``title`` has the headings above it too."""

    page: str
    lang: Lang
    title: str
    text: str
    line: int

    @property
    def key(self) -> str:
        return f"{self.page}:{self.line}"


def sections(page: str, markdown: str) -> Iterator[Section]:
    """The sections of a page of Markdown, by headings of three levels; code keeps its lines."""
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


def _section(page: str, lang: Lang, titles: list[str], lines: list[str], line: int) -> Section:
    text = _COMMENT.sub("", "\n".join(lines)).strip()
    return Section(page, lang, " › ".join(titles) or page, text, line)


def pages(folder: Path | None = None) -> list[tuple[str, str]]:
    """Name and text of each page: those that came with the package, or those of the checkout it runs from."""
    places = [folder] if folder else [Path(__file__).parent.parent / "docs", _checkout()]
    found = next((place for place in places if place.is_dir()), None)
    if found is None:
        return []
    return [(page.name, page.read_text(encoding="utf-8")) for page in sorted(found.glob("*.md"))]


def _checkout() -> Path:
    return Path(__file__).parents[3] / "docs"


async def bring_up_to_date(collection: Collection, written: list[tuple[str, str]]) -> None:
    """Update the collection to the current text, and delete sections that no longer exist.

    Sections without changes are not written again, so they keep their vectors.
    """
    written_now = (_record(section) for page, text in written for section in sections(page, text))
    records = {record.key: checked(record, SHAPE) for record in written_now}
    there = {record.key: record async for record in _stored(collection)}
    await collection.upsert([record for key, record in records.items() if there.get(key) != record])
    await collection.delete([key for key in there if key not in records])


async def _stored(collection: Collection) -> AsyncIterator[Record]:
    after: str | None = None
    while True:
        part = await collection.select(Everything(), after=after, limit=1000)
        for stored in part.records:
            yield stored.record
        after = part.after
        if after is None:
            return


def _record(section: Section) -> Record:
    return Record(
        key=section.key,
        texts={"title": section.title, "text": section.text},
        fields={"page": section.page, "lang": section.lang},
        payload=json.encode({"line": section.line}),
    )
