"""Frames between the hub and the process that renders Markdown: ``python -m tabane.web.markdown_worker``."""

from __future__ import annotations

import msgspec


class MarkdownRequest(msgspec.Struct, frozen=True):
    """A text to render. ``top`` is the level of its first heading, 2 to 6; ``start`` its place in the whole,
    of which the ids of headings are made. ``title`` is shown already: a first heading that says the same
    is left out."""

    text: str
    top: int = 2
    start: int = 0
    title: str = ""


class OutlineEntry(msgspec.Struct, frozen=True):
    """A heading: its level in the page, its text, and the id of its element."""

    level: int
    text: str
    anchor: str


class MarkdownResult(msgspec.Struct, frozen=True):
    """Safe HTML and the headings in it; ``html`` is None if there is none."""

    html: str | None = None
    outline: list[OutlineEntry] = []


REQUESTS = msgspec.msgpack.Decoder(MarkdownRequest)
RESULTS = msgspec.msgpack.Decoder(MarkdownResult)
