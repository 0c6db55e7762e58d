"""A page as a value, and the shape of the collection of pages."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from tabane.messages import Message
from tabane.reader import page_domain
from tabane.search.records import Equal, Field, In, Kind, Shape, TextField


class Picture(Struct, frozen=True):
    """An image that is content itself: ``data`` in the format of ``media_type``, scaled down."""

    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """The content and the metadata of a page.

    ``markdown`` is the content only. ``url`` is the final URL, ``canonical`` the one that the page names as
    its own. ``date`` is ISO 8601, as precise as known. ``way`` names the source of the content: github,
    notion, markdown, extracted, llms.txt, pdf, plain … ``share`` is the part of the page's visible text that
    is in ``markdown``, 0..1, if it was measured. ``media_type`` is that of the response. ``private``: it was
    read with imported cookies, so it is what its site shows to one person. ``kind`` names what
    the page is if it is not the content that was asked for: one of NOT_KEPT, or paywall. ``onward`` are the
    addresses that a browser loads in its place or within it: frames, and a refresh (see
    :mod:`tabane.reader.extraction.metadata`).
    """

    url: str
    markdown: str
    title: str | None = None
    author: str | None = None
    date: str | None = None
    site: str | None = None
    lang: str | None = None
    canonical: str | None = None
    way: str = ""
    share: float | None = None
    media_type: str = "text/html"
    warnings: tuple[Message, ...] = ()
    pictures: tuple[Picture, ...] = field(default=(), repr=False)
    private: bool = False
    kind: str = ""
    onward: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the content without its marks of Markdown."""
        from tabane.reader.plain_text import plain

        return plain(self.markdown)


BARRED = frozenset({"bot-wall", "consent-wall", "login", "age-gate"})
"""Kinds of pages that stand before the content, which is there for others."""

NOT_KEPT = BARRED | {"not-found", "parked"}
"""Kinds of pages that are not cached, found or remembered, because they are not content."""

DOMAIN = page_domain.DOMAIN

SPACE = "text"
SPACES = (SPACE,)
TITLE, TEXT = "title", "text"
PART, PAGE, SITE, READ = "part", "page", "site", "read"

SHAPE = Shape(
    "pages",
    (TextField(TITLE, 2.0), TextField(TEXT)),
    (
        Field(PART, Kind.STRING),
        Field(PAGE, Kind.STRING),  # the key of the head, which has this field too
        Field(SITE, Kind.STRING),  # of heads: the host, without a port
        Field(READ, Kind.DATE),  # of heads: time of the last read
    ),
)

HEADS = Equal(PART, "head")
PASSAGES = In(PART, ("head", "passage"))
