"""A page as a value."""

from __future__ import annotations

from dataclasses import dataclass, field

from tabane.messages import Message
from tabane.search.filters import Equal, In
from tabane.search.records import Field, Kind, Shape, TextField


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that is content itself: ``data`` in the format of ``media_type``, scaled down."""

    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """What a page says, and what is known of it.

    ``markdown`` is the content alone. ``url`` is where it was read in the end, ``canonical`` where the page
    itself says that it lives. ``date`` is ISO 8601, as exact as it is known. ``way`` says how it was got, in
    a word: github, notion, markdown, extracted, llms.txt, pdf, plain … ``share`` is the part of the page's
    visible text that is in ``markdown``, 0..1, where that was measured. ``media_type`` is what was served.
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

    @property
    def text(self) -> str:
        """Return the content without its marks of Markdown."""
        from tabane.reader.plain_text import plain

        return plain(self.markdown)


DOMAIN = "cache"

SPACE = "text"
SPACES = (SPACE,)
TITLE, TEXT = "title", "text"
PART, PAGE, SITE, READ = "part", "page", "site", "read"

SHAPE = Shape(
    "pages",
    (TextField(TITLE, 2.0), TextField(TEXT)),
    (
        Field(PART, Kind.STRING),
        Field(PAGE, Kind.STRING),  # the key of the head, which has it too
        Field(SITE, Kind.STRING),  # of heads: the host, without a port
        Field(READ, Kind.DATE),  # of heads: when somebody last read it
    ),
)

HEADS = Equal(PART, "head")
PASSAGES = In(PART, ("head", "passage"))
