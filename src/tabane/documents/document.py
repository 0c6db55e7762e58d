"""Documents as records: a document is stored in chunks, and the first chunk is its head; pure.

The head contains the description of the document and the position of each chunk. Other chunks do not know
their position, so a chunk that is the same after an edit is the same record. A separate head without text
would make texts shorter on average and words rarer: with one for each of 3,000 paragraphs, nDCG@10 fell from
.958 to .947.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct, field

from tabane import documents
from tabane.search.records import EVERYTHING, Equal, Field, Filter, Kind, Record, Shape, TextField

DOMAIN = documents.DOMAIN

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
        Field(UPDATED_AT, Kind.DATE),  # only in heads: a new date must not change the other chunks
    ),
)

HEADS: Filter = Equal(PART, "document")
CHUNKS: Filter = EVERYTHING

TextKind = Literal["markdown", "text", "code"]

Own = str | int | float | bool | list[str]
"""A value of the user's metadata."""


class Draft(Struct, frozen=True):
    """A document to be stored. ``filepath`` is only its name: no file is opened.

    Without ``kind`` and ``title``, they are derived from name and text. ``source`` belongs to the caller: it
    is stored with the document and never shown. The default of ``updated_at`` is now. ``replaces`` is the
    hash of the text that it may replace, empty for none, None for any. ``labels`` are the flow labels of what
    its writer had read.
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
    replaces: str | None = None
    labels: int = 0


class ChunkSpan(NamedTuple):
    """Position of a chunk: ``text[start:end]``, in code points. ``suffix`` is a digest of its content.

    It is the last part of the chunk's key, except for the first chunk.
    """

    suffix: str
    start: int
    end: int


class Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The description of a document, without its text.

    ``updated_at`` is in seconds since 1970, ``size`` in bytes of UTF-8, ``length`` in code points. ``hash``
    is the SHA-256 of the text in hexadecimal. ``measure`` names the token measure of its chunks.
    ``normalize`` is kept as requested; all vectors have length 1 anyway. ``above`` are the headings of the
    first chunk. ``labels`` are flow labels, which stay while the text stays.
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
    labels: int = 0

    @property
    def keys(self) -> list[str]:
        """Return the keys of its chunks, in order."""
        first = chunk_prefix(self.filepath)
        return [head_key(self.filepath), *(first + piece.suffix for piece in self.chunks[1:])]

    @property
    def updated(self) -> str:
        """Return when it was stored, as ISO 8601."""
        return iso(self.updated_at)

    @property
    def media_type(self) -> str:
        """Return the media type of its text."""
        return "text/markdown" if self.kind == "markdown" else "text/plain"


_HEAD = msgspec.json.Decoder(Document)
_HEADINGS = msgspec.json.Decoder(tuple[str, ...])


def iso(seconds: float) -> str:
    """Return a time in seconds since 1970 as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def head_key(filepath: str) -> str:
    """Return the key of a document's first chunk."""
    return "=" + filepath


def chunk_prefix(filepath: str) -> str:
    """Return the prefix of the keys of a document's chunks. No other document has it."""
    return "." + _digest(filepath)


_PREFIX = 17  # characters: a dot and 96 bits


def group(key: str) -> str:
    """Return the group of a key: the same for all chunks of one document, and for no others."""
    return chunk_prefix(key[1:]) if key.startswith("=") else key[:_PREFIX]


def piece_of(document: Document, key: str) -> ChunkSpan | None:
    """Return the position of the chunk with that key. None if the document has no such chunk."""
    if key == head_key(document.filepath):
        return document.chunks[0]
    return next((piece for piece in document.chunks[1:] if piece.suffix == key[_PREFIX:]), None)


def suffix(heading: str, headings: Sequence[str], text: str, ordinal: int) -> str:
    """Return the digest of a chunk's content, 16 characters.

    ``ordinal`` numbers chunks with equal content.
    """
    return _digest("\0".join((heading, "\x1f".join(headings), str(ordinal), text)))


def _digest(text: str) -> str:
    """Return 96 bits of a hash, as 16 characters."""
    return base64.urlsafe_b64encode(hashlib.blake2b(text.encode(), digest_size=12).digest()).decode()


class FileText(NamedTuple):
    """The content of a file, and the format for cutting it into chunks."""

    text: str
    kind: TextKind
    title: str | None = None


class ChunkText(NamedTuple):
    """The content of a chunk: its text, the headings above it, and the searchable heading text."""

    text: str
    headings: tuple[str, ...]
    heading: str


def head_record(document: Document, metadata: tuple[str, ...], content: ChunkText) -> Record:
    """Return the first chunk. ``metadata`` is as :func:`tabane.documents.metadata.encoded` gives it."""
    return Record(
        key=head_key(document.filepath),
        texts={HEADING: content.heading, TEXT: content.text},
        fields=_fields("document", document, metadata) | {UPDATED_AT: document.updated_at},
        payload=msgspec.json.encode(document),
    )


def chunk_record(
    document: Document, metadata: tuple[str, ...], piece: ChunkSpan, content: ChunkText
) -> Record:
    """Return the record of a chunk that is not the first."""
    return Record(
        key=chunk_prefix(document.filepath) + piece.suffix,
        texts={HEADING: content.heading, TEXT: content.text},
        fields=_fields("chunk", document, metadata),
        payload=msgspec.json.encode(content.headings),
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
    """Return the searchable text beside a chunk's text: the name, then title and headings, one line each.

    A name that is only a number is left out, because numbers in queries mean something else.
    """
    above = [title, *headings] if title and title not in headings[:1] else list(headings)
    name = filepath.rstrip("/").rpartition("/")[2]
    return "\n".join(("" if name.partition(".")[0].isdigit() else name, *above))


_LOOKED = 200  # characters of a chunk in which its own headings are expected


def meaning(record: Record, space: str = SPACE) -> str:
    """Return the text of a record to embed: its text, after the headings that the text does not repeat."""
    text = text_of(record)
    if not text.strip():
        return ""
    begins = text[:_LOOKED]
    above = [line for line in record.texts.get(HEADING, "").split("\n")[1:] if line and line not in begins]
    return "\n".join((*above, text.strip()))
