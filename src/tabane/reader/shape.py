"""The shape of the collection of pages."""

from __future__ import annotations

from tabane.search.filters import Equal, In
from tabane.search.records import Field, Kind, Shape, TextField

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
