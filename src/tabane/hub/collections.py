"""The collections that a hub has, and what of them is embedded."""

from __future__ import annotations

from tabane.hub import manual
from tabane.hub.embedding import Embedded
from tabane.posts import post
from tabane.posts.importing.clean import cleaned
from tabane.search.filters import EVERYTHING, Equal
from tabane.search.records import Record


def _meaning_of_post(record: Record, space: str) -> str:
    return cleaned(record.texts.get(space, ""))


EMBEDDED = (
    Embedded(
        "cache", manual.SHAPE, {"text": EVERYTHING}, lambda record, _: manual.meaning(record), follows=True
    ),
    Embedded(post.DOMAIN, post.SHAPE, {name: Equal("has", name) for name in post.SPACES}, _meaning_of_post),
)

SHAPES = {each.domain: (each.shape,) for each in EMBEDDED}
"""The collections by domain."""
