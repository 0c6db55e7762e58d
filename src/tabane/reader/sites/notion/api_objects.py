"""Responses of Notion's API, as far as they are used here: https://developers.notion.com/reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw, Struct


class NotionMarks(Struct, frozen=True, gc=False):
    bold: bool = False
    italic: bool = False
    strikethrough: bool = False
    code: bool = False


class NotionWords(Struct, frozen=True, gc=False):
    """The words of a run: ``expression`` of an equation, ``content`` of other text."""

    expression: str = ""
    content: str = ""


class NotionText(Struct, frozen=True, gc=False):
    """A run of rich text."""

    type: str = ""
    plain_text: str | None = None
    href: str | None = None
    annotations: NotionMarks | None = None
    equation: NotionWords | None = None
    text: NotionWords | None = None

    @property
    def words(self) -> str:
        """Return the words of the run; an equation is its source."""
        if self.type == "equation" and self.equation is not None:
            return self.equation.expression or self.plain_text or ""
        if self.plain_text is not None:
            return self.plain_text
        return self.text.content if self.text else ""


class NotionFile(Struct, frozen=True, gc=False):
    url: str | None = None


class NotionIcon(Struct, frozen=True, gc=False):
    emoji: str | None = None


class NotionOriginal(Struct, frozen=True, gc=False):
    """The block that a synchronized one repeats."""

    block_id: str | None = None


class NotionContent(Struct, frozen=True):
    """The content of a block of any kind: the fields of other kinds have their defaults."""

    rich_text: list[NotionText] = []
    caption: list[NotionText] = []
    cells: list[list[NotionText]] = []
    checked: bool = False
    language: str | None = None
    expression: str | None = None
    has_column_header: bool = False
    icon: NotionIcon | None = None
    url: str | None = None
    external: NotionFile | None = None
    file: NotionFile | None = None
    name: str | None = None
    title: str | None = None
    synced_from: NotionOriginal | None = None
    type: str | None = None
    page_id: str | None = None
    database_id: str | None = None
    comment_id: str | None = None


@dataclass(slots=True)
class NotionBlock:
    """A block and its children. ``odd``: its content is not of the known form, and is left out."""

    kind: str = ""
    id: str = ""
    has_children: bool = False
    content: NotionContent = field(default_factory=NotionContent)
    odd: bool = False
    inner: list[NotionBlock] = field(default_factory=list)


_fields = msgspec.json.Decoder(dict[str, Raw])
_text = msgspec.json.Decoder(str)
_flag = msgspec.json.Decoder(bool)
_content = msgspec.json.Decoder(NotionContent)


def block_of(raw: Raw | bytes) -> NotionBlock:
    """Decode a block. The member that is named by its kind has its content. Raises DecodeError."""
    fields = _fields.decode(raw)
    kind = _text.decode(fields.get("type", b'""'))
    known = _text.decode(fields.get("id", b'""')), _flag.decode(fields.get("has_children", b"false"))
    try:
        return NotionBlock(kind, *known, _content.decode(fields.get(kind, b"{}")))
    except (msgspec.DecodeError, RecursionError):
        return NotionBlock(kind, *known, odd=True)


class NotionListing(Struct, frozen=True):
    """A page of a list."""

    results: list[Raw]
    has_more: bool = False
    next_cursor: str | None = None


class NotionDataSource(Struct, frozen=True):
    id: str
    name: str | None = None


class NotionObject(Struct, frozen=True):
    """A page, a database or a data source, as far as they have the same."""

    id: str
    url: str = ""
    public_url: str | None = None
    created_time: str | None = None
    last_edited_time: str | None = None
    properties: dict[str, Any] = {}
    title: list[NotionText] = []
    description: list[NotionText] = []
    data_sources: list[NotionDataSource] = []
