"""Embedded collections of a hub, and the texts of each that are embedded."""

from __future__ import annotations

from tabane.documents import document
from tabane.hub.sources import manual
from tabane.hub.sources.coverage import EmbeddedCollection
from tabane.messages import say
from tabane.posts import post
from tabane.posts.post import cleaned
from tabane.reader import page as pages
from tabane.search.filters import EVERYTHING, Equal
from tabane.search.records import Record


def _meaning_of_post(record: Record, space: str) -> str:
    return cleaned(record.texts.get(space, ""))


def _meaning_of_passage(record: Record, space: str) -> str:
    # The modules for pages are imported with the first page.
    from tabane.reader.page_records import meaning

    return meaning(record)


EMBEDDED = (
    EmbeddedCollection(
        "cache",
        manual.SHAPE,
        {"text": EVERYTHING},
        lambda record, _: manual.meaning(record),
        follows=True,
        called=say("Tabane's documentation"),
    ),
    EmbeddedCollection(
        post.DOMAIN,
        post.SHAPE,
        {name: Equal("has", name) for name in post.SPACES},
        _meaning_of_post,
        newest="at",
        called=say("your posts"),
    ),
    EmbeddedCollection(
        pages.DOMAIN,
        pages.SHAPE,
        {pages.SPACE: pages.PASSAGES},
        _meaning_of_passage,
        follows=True,
        called=say("the pages you have read"),
    ),
    EmbeddedCollection(
        document.DOMAIN,
        document.SHAPE,
        {document.SPACE: document.CHUNKS},
        document.meaning,
        called=say("your documents"),
    ),
)

SHAPES = {
    domain: tuple(each.shape for each in EMBEDDED if each.domain == domain)
    for domain in dict.fromkeys(each.domain for each in EMBEDDED)
}
"""The collections by domain."""

OWN = frozenset({manual.SHAPE.name})
"""Collections that belong to this copy of Tabane: its documentation. They stay in its home."""
