"""A document as it is kept: in chunks, the first of which is its head and says what it is; pure.

The head tells where in the whole each chunk stands. The others know nothing of their place, so one that is
the same after an edit is the same record. A head of its own, without a text, would make texts shorter on
average and words rarer than they are: with one for each of 3,000 paragraphs, nDCG@10 fell from .958 to .947.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec

from tabane.search.filters import EVERYTHING, Equal, Filter
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
        Field(UPDATED_AT, Kind.DATE),  # of heads alone: others are not another one because time passed
    ),
)

HEADS: Filter = Equal(PART, "document")
CHUNKS: Filter = EVERYTHING

TextKind = Literal["markdown", "text", "code"]

Own = str | int | float | bool | list[str]
"""A value of metadata of one's own."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A document to be put. ``filepath`` is its name, by which nothing is opened.

    ``kind`` and ``title`` are found in name and text if they are not given. ``source`` is a word of the
    caller's that is kept with the document and shown to nobody; ``updated_at`` is now if none is given.
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


class ChunkSpan(NamedTuple):
    """Position of a chunk: ``text[start:end]``, in code points. ``suffix`` tells what it says.

    It is the last part of its key, where the chunk is not the first.
    """

    suffix: str
    start: int
    end: int


class Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a document beside its text.

    ``updated_at`` is in seconds since 1970, ``size`` in bytes of UTF-8, ``length`` in code points, ``hash``
    the SHA-256 of the text in hexadecimal. ``measure`` names what its chunks were measured by. ``normalize``
    is as it was asked for: all vectors here have the length one. ``above`` are the headings of the first
    chunk.
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
    chunks: list[ChunkSpan] = []
    above: list[str] = []

    @property
    def keys(self) -> list[str]:
        """Return the keys of its chunks, in order."""
        first = chunk_prefix(self.filepath)
        return [head_key(self.filepath), *(first + piece.suffix for piece in self.chunks[1:])]

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
    """Return how the keys of a document's chunks begin, and those of no other."""
    return "." + _digest(filepath)


_PREFIX = 17  # characters: a dot and 96 bits


def group(key: str) -> str:
    """Return what the keys of one document's chunks have in common, and those of no other."""
    return chunk_prefix(key[1:]) if key.startswith("=") else key[:_PREFIX]


def piece_of(document: Document, key: str) -> ChunkSpan | None:
    """Return the position of the chunk of that key in its document; None if it is no chunk of it."""
    if key == head_key(document.filepath):
        return document.chunks[0]
    return next((piece for piece in document.chunks[1:] if piece.suffix == key[_PREFIX:]), None)


def suffix(heading: str, headings: Sequence[str], text: str, ordinal: int) -> str:
    """Return what a chunk says, in 16 characters. ``ordinal`` counts those that say the same."""
    return _digest("\0".join((heading, "\x1f".join(headings), str(ordinal), text)))


def _digest(text: str) -> str:
    """96 bits in 16 characters."""
    return base64.urlsafe_b64encode(hashlib.blake2b(text.encode(), digest_size=12).digest()).decode()


class ChunkText(NamedTuple):
    """What a chunk says: its text, the headings above it, and all that it is found by beside the text."""

    text: str
    headings: tuple[str, ...]
    heading: str


def head_record(document: Document, metadata: tuple[str, ...], said: ChunkText) -> Record:
    """Return the first chunk. ``metadata`` is as :func:`tabane.documents.metadata.encoded` gives it."""
    return Record(
        key=head_key(document.filepath),
        texts={HEADING: said.heading, TEXT: said.text},
        fields=_fields("document", document, metadata) | {UPDATED_AT: document.updated_at},
        payload=msgspec.json.encode(document),
    )


def chunk_record(document: Document, metadata: tuple[str, ...], piece: ChunkSpan, said: ChunkText) -> Record:
    """Another chunk."""
    return Record(
        key=chunk_prefix(document.filepath) + piece.suffix,
        texts={HEADING: said.heading, TEXT: said.text},
        fields=_fields("chunk", document, metadata),
        payload=msgspec.json.encode(said.headings),
    )


def _fields(part: str, document: Document, metadata: tuple[str, ...]) -> dict[str, Any]:
    fields: dict[str, Any] = {PART: part, DOCUMENT: document.filepath}
    if document.file_type is not None:
        fields[FILE_TYPE] = document.file_type
    return fields | {METADATA: metadata} if metadata else fields


def document_of(record: Record) -> Document:
    """Return the document of a head."""
    return _HEAD.decode(record.payload)


def headings_of(record: Record) -> tuple[str, ...]:
    """Return the headings above a chunk, the outermost first."""
    if record.fields.get(PART) == "document":
        return tuple(document_of(record).above)
    return _HEADINGS.decode(record.payload)


def text_of(record: Record) -> str:
    """Return the text of a chunk."""
    return record.texts.get(TEXT, "")


def heading(filepath: str, title: str, headings: Sequence[str]) -> str:
    """What a chunk is found by beside its text: the name, then on lines of their own title and headings.

    A name that is a mere number is none: questions have numbers that mean something else.
    """
    above = [title, *headings] if title and title not in headings[:1] else list(headings)
    name = filepath.rstrip("/").rpartition("/")[2]
    return "\n".join(("" if name.partition(".")[0].isdigit() else name, *above))


_LOOKED = 200  # characters of a chunk in which its own headings are expected


def meaning(record: Record, space: str = SPACE) -> str:
    """Return what of a record is embedded: the headings that its text does not repeat, and the text."""
    text = text_of(record)
    if not text.strip():
        return ""
    begins = text[:_LOOKED]
    above = [line for line in record.texts.get(HEADING, "").split("\n")[1:] if line and line not in begins]
    return "\n".join((*above, text.strip()))
