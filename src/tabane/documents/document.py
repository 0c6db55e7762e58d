"""A document as it is kept: a head that says what it is, and chunks by which it is found; pure.

The head has no texts: it is never found by a search, and says where in the whole each chunk stands. A chunk
knows nothing of its place, so one that is the same after an edit is the same record.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec

from tabane.search.filters import Equal
from tabane.search.records import Field, Kind, Record, Shape, TextField

DOMAIN = "documents"

SPACE = "text"
SPACES = (SPACE,)

HEADING, TEXT = "heading", "text"
PART, DOCUMENT, FILE_TYPE, METADATA, UPDATED_AT = "part", "document", "file_type", "metadata", "updated_at"

SHAPE = Shape(
    "documents",
    (TextField(HEADING, 2.0), TextField(TEXT)),
    (
        Field(PART, Kind.STRING),
        Field(DOCUMENT, Kind.STRING),
        Field(FILE_TYPE, Kind.STRING),
        Field(METADATA, Kind.STRINGS),
        Field(UPDATED_AT, Kind.DATE),  # of heads alone: a chunk is not another one because time passed
    ),
)

HEADS = Equal(PART, "document")
CHUNKS = Equal(PART, "chunk")

TextKind = Literal["markdown", "text", "code"]

Own = str | int | float | bool | list[str]
"""A value of metadata of one's own."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A document to be put. ``filepath`` is its name, by which nothing is opened.

    ``kind`` and ``title`` are found in name and text where they are not given. ``source`` is a word of the
    caller's that is kept with the document and shown to nobody; ``updated_at`` is now where none is given.
    """

    filepath: str
    text: str
    file_type: str | None = None
    normalize: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    kind: TextKind | None = None
    title: str | None = None
    source: str = ""
    updated_at: float | None = None


class Piece(NamedTuple):
    """Where a chunk stands: ``text[start:end]``, in code points. ``suffix`` is the last part of its key."""

    suffix: str
    start: int
    end: int


class Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a document beside its text.

    ``updated_at`` is in seconds since 1970, ``size`` in bytes of UTF-8, ``length`` in code points, ``hash``
    the SHA-256 of the text in hexadecimal. ``measure`` names what its chunks were measured by. ``normalize``
    is as it was asked for: all vectors here have the length one.
    """

    filepath: str
    kind: TextKind
    updated_at: float
    hash: str
    size: int
    length: int
    measure: str
    title: str = ""
    file_type: str | None = None
    normalize: bool = False
    metadata: dict[str, Own] = {}
    source: str = ""
    chunks: list[Piece] = []

    @property
    def keys(self) -> list[str]:
        """The keys of its chunks, in order."""
        first = chunk_prefix(self.filepath)
        return [first + piece.suffix for piece in self.chunks]

    @property
    def updated(self) -> str:
        """When it was put, as ISO 8601."""
        return iso(self.updated_at)

    @property
    def media_type(self) -> str:
        return "text/markdown" if self.kind == "markdown" else "text/plain"


_HEAD = msgspec.json.Decoder(Document)
_HEADINGS = msgspec.json.Decoder(tuple[str, ...])


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def head_key(filepath: str) -> str:
    return "=" + filepath


def chunk_prefix(filepath: str) -> str:
    """How the keys of a document's chunks begin, and those of no other."""
    return "." + _digest(filepath)


LONGEST_PREFIX = 17  # characters: a dot and 96 bits


def chunk_key(filepath: str, heading: str, headings: Sequence[str], text: str, ordinal: int) -> str:
    """The key of a chunk: by what it says, not by where. ``ordinal`` counts those that say the same."""
    return chunk_prefix(filepath) + _digest("\0".join((heading, "\x1f".join(headings), str(ordinal), text)))


def _digest(text: str) -> str:
    """96 bits in 16 characters."""
    return base64.urlsafe_b64encode(hashlib.blake2b(text.encode(), digest_size=12).digest()).decode()


def head_record(document: Document, metadata: tuple[str, ...]) -> Record:
    """``metadata`` is as :func:`tabane.documents.metadata.encoded` gives it."""
    fields = _fields("document", document, metadata) | {UPDATED_AT: document.updated_at}
    return Record(
        key=head_key(document.filepath), fields=fields, payload=msgspec.json.encode(document, order=None)
    )


def chunk_record(
    document: Document, metadata: tuple[str, ...], key: str, heading: str, headings: Sequence[str], text: str
) -> Record:
    return Record(
        key=key,
        texts={HEADING: heading, TEXT: text},
        fields=_fields("chunk", document, metadata),
        payload=msgspec.json.encode(headings),
    )


def _fields(part: str, document: Document, metadata: tuple[str, ...]) -> dict[str, Any]:
    fields: dict[str, Any] = {PART: part, DOCUMENT: document.filepath}
    if document.file_type is not None:
        fields[FILE_TYPE] = document.file_type
    return fields | {METADATA: metadata} if metadata else fields


def document_of(record: Record) -> Document:
    """The document of a head."""
    return _HEAD.decode(record.payload)


def headings_of(record: Record) -> tuple[str, ...]:
    """The headings above a chunk, the outermost first."""
    return _HEADINGS.decode(record.payload)


def text_of(record: Record) -> str:
    """The text of a chunk."""
    return record.texts.get(TEXT, "")


def heading(filepath: str, title: str, headings: Sequence[str]) -> str:
    """What a chunk is found by beside its text: the name, then on lines of their own title and headings."""
    above = [title, *headings] if title and title not in headings[:1] else list(headings)
    return "\n".join((filepath.rstrip("/").rpartition("/")[2] or filepath, *above))


_LOOKED = 200  # characters of a chunk in which its own headings are expected


def meaning(record: Record, space: str = SPACE) -> str:
    """What of a record is embedded: the headings that its text does not repeat, and the text."""
    text = text_of(record)
    if not text.strip():
        return ""
    begins = text[:_LOOKED]
    above = [line for line in record.texts.get(HEADING, "").split("\n")[1:] if line and line not in begins]
    return "\n".join((*above, text.strip()))
