"""Drafts as records: checks, chunks, and the comparison with the stored document; pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import structs
from msgspec.structs import replace as changed

from tabane.documents import document_names, front_matter, metadata
from tabane.documents.document import (
    SPACE,
    ChunkSpan,
    ChunkText,
    Document,
    Draft,
    Own,
    chunk_record,
    head_record,
    heading,
    suffix,
)
from tabane.errors import BadArguments, ModelError
from tabane.messages import say
from tabane.search.engine import MOST_EXCHANGED
from tabane.search.records import Record, encodable

if TYPE_CHECKING:
    from tabane.search.chunking import Chunk, Measure

MOST_CHUNKS = MOST_EXCHANGED // 2 - 10
"""Chunks of one document: one exchange replaces all the old ones by all the new ones."""

LONGEST_FILE_TYPE = 100  # characters
LONGEST_SOURCE = 20_000
_LONGEST_HEADINGS = 8
_LONGEST_HEADING = 200


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """The records to write and delete, so that a document replaces the stored one.

    ``written``: the head, and chunks that are new or have other metadata; empty if there is nothing to do.
    ``carried``: written key → old key, for chunks whose text was stored before. Their vectors still fit.
    ``gone``: keys of chunks to delete.
    """

    document: Document
    before: Document | None
    written: Sequence[Record] = ()
    carried: Mapping[str, str] = field(default_factory=dict)
    gone: Sequence[str] = ()

    @property
    def untouched(self) -> bool:
        return not self.written

    @property
    def unchanged(self) -> bool:
        """Return whether a reader sees the same document. Internal members may differ."""
        return self.before is not None and _reads_alike(self.document, self.before)


def checked(draft: Draft, largest: int) -> Draft:
    """Return the normalized draft. ``largest`` is the limit of its text in bytes.

    Raises :class:`BadArguments` that names the parameter; :class:`ModelError` for a text that says nothing,
    which no model can embed.
    """
    filepath = document_names.checked_filepath(draft.filepath)
    text = encodable(draft.text, "text")
    if not text.strip():
        raise ModelError(say("the text is empty."))
    size = len(text) if text.isascii() else len(text.encode())
    if size > largest:
        message = say(
            "text: it has {size} {size:byte|bytes}, more than the limit of {most}",
            size=f"{size:,}",
            most=f"{largest:,}",
        )
        raise BadArguments(message, "text")
    kind = draft.kind or document_names.kind_of(filepath, text)
    front = front_matter.read(text) if kind == "markdown" else front_matter.NONE
    title = draft.title
    if title is None:
        title = front.title or document_names.title_of(text[front.end :], kind)
    return structs.replace(
        draft,
        filepath=filepath,
        file_type=_file_type(draft.file_type),
        metadata=_metadata(front.metadata, metadata.checked(draft.metadata)),
        kind=kind,
        title=_line(title, document_names.LONGEST_TITLE),
        source=_source(draft.source),
    )


def _metadata(front: Mapping[str, Own], given: Mapping[str, Own]) -> Mapping[str, Own]:
    """Return both; what was given counts. What is too much together is only what was given."""
    try:
        return metadata.checked({**front, **given}) if front else given
    except BadArguments:
        return given


def _file_type(given: str | None) -> str | None:
    found = encodable(given or "", "file_type").strip()
    if len(found) > LONGEST_FILE_TYPE:
        message = say("file_type: it has at most {most} {most:character|characters}", most=LONGEST_FILE_TYPE)
        raise BadArguments(message, "file_type")
    return found or None


def _source(given: str) -> str:
    if len(encodable(given, "source")) > LONGEST_SOURCE:
        message = say("{field} must be {wanted}", field="source", wanted=f"≤ {LONGEST_SOURCE}")
        raise BadArguments(message, "source")
    return given


def _line(text: str, longest: int) -> str:
    """Return the text on one line."""
    return " ".join(encodable(text, "title").split())[:longest]


def change(draft: Draft, before: Document | None, measure: Measure, now: float) -> DocumentChange:
    """Return the change for a checked draft. The text is cut only if it differs from the stored one."""
    document = _described(draft, measure, now)
    same = before is not None and (before.hash, before.measure) == (document.hash, document.measure)
    if before is not None and same:
        document = changed(
            document, chunks=before.chunks, above=before.above, labels=document.labels | before.labels
        )
        if changed(document, updated_at=before.updated_at) == before:
            return DocumentChange(before, before)
        if _found_alike(document, before):
            return _head_change(draft, _dated(document, before), before)
    return _compared(draft, document if before is None else _dated(document, before), before, measure)


def _described(draft: Draft, measure: Measure, now: float) -> Document:
    encoded = draft.text.encode()
    return Document(
        filepath=draft.filepath,
        kind=draft.kind or "text",
        updated_at=round(now if draft.updated_at is None else draft.updated_at, 3),
        hash=hashlib.sha256(encoded).hexdigest(),
        size=len(encoded),
        length=len(draft.text),
        measure=measure.name,
        title=draft.title or "",
        file_type=draft.file_type,
        normalize=draft.normalize,
        metadata=dict(draft.metadata),
        source=draft.source,
        labels=draft.labels,
    )


def _found_alike(document: Document, before: Document) -> bool:
    """Return whether chunks with the same text have the same records."""
    return (document.kind, document.title, document.file_type, document.metadata) == (
        before.kind, before.title, before.file_type, before.metadata,
    )  # fmt: skip


def _dated(document: Document, before: Document) -> Document:
    """Return the document, with the old date if a reader sees no difference."""
    dated = changed(document, updated_at=before.updated_at)
    return dated if _reads_alike(dated, before) else document


def _reads_alike(document: Document, before: Document) -> bool:
    """Return whether they differ at most in internal members."""
    return before == changed(
        document,
        source=before.source,
        measure=before.measure,
        chunks=before.chunks,
        above=before.above,
        labels=before.labels,
    )


def _head_change(draft: Draft, document: Document, before: Document) -> DocumentChange:
    """Return a change of the head alone, if only internal members differ."""
    headings = tuple(document.above)
    text = draft.text[: document.chunks[0].end]
    said = ChunkText(text, headings, heading(document.filepath, document.title, headings))
    head = head_record(document, metadata.encoded(document.metadata), said)
    return DocumentChange(document, before, [head], {head.key: head.key})


def _compared(draft: Draft, document: Document, before: Document | None, measure: Measure) -> DocumentChange:
    """Cut the text, and compare its chunks with the stored ones."""
    whole, records = _cut(draft, document, measure)
    stored = {} if before is None else dict(zip(map(_suffix, before.chunks), before.keys, strict=True))
    alike = before is not None and (whole.file_type, whole.metadata) == (before.file_type, before.metadata)
    carried: dict[str, str] = {}
    written: list[Record] = []
    for piece, record in zip(whole.chunks, records, strict=True):
        old = stored.get(piece.suffix)
        if old == record.key and alike and record is not records[0]:
            continue
        written.append(record)
        if old is not None:
            carried[record.key] = old
    gone = set(before.keys if before else ()) - {record.key for record in records}
    return DocumentChange(whole, before, written, carried, sorted(gone))


def _suffix(piece: ChunkSpan) -> str:
    return piece.suffix


def _cut(draft: Draft, document: Document, measure: Measure) -> tuple[Document, list[Record]]:
    # Imported with the first text: a hub without documents does not need it.
    from tabane.search.chunking import chunks

    lang = document_names.ending(document.filepath)
    spans = fewer(chunks(draft.text, document.kind, measure, lang), MOST_CHUNKS)
    parts = [_said(draft.text, document, span) for span in spans]
    times: Counter[ChunkText] = Counter()
    pieces: list[ChunkSpan] = []
    for span, said in zip(spans, parts, strict=True):
        digest = suffix(said.heading, said.headings, said.text, times[said])
        times[said] += 1
        pieces.append(ChunkSpan(digest, span.start, span.end))
    whole = changed(document, chunks=pieces, above=list(parts[0].headings))
    encoded = metadata.encoded(whole.metadata)
    others = zip(pieces[1:], parts[1:], strict=True)
    records = [chunk_record(whole, encoded, piece, said) for piece, said in others]
    return whole, [head_record(whole, encoded, parts[0]), *records]


def _said(text: str, document: Document, span: Chunk) -> ChunkText:
    headings = _headings(span.headings)
    above = heading(document.filepath, document.title, headings)
    return ChunkText(text[span.start : span.end], headings, above)


def _headings(headings: Sequence[str]) -> tuple[str, ...]:
    """Return the headings, one line each, shortened because every chunk below stores them."""
    lines = (" ".join(each.split())[:_LONGEST_HEADING] for each in headings[:_LONGEST_HEADINGS])
    return tuple(filter(None, lines))


def fewer(spans: Sequence[Chunk], most: int) -> Sequence[Chunk]:
    """Return at most ``most`` chunks. If there are more, neighbors are joined as evenly as possible."""
    if len(spans) <= most:
        return spans
    joined = []
    for place in range(most):
        first, last = place * len(spans) // most, (place + 1) * len(spans) // most - 1
        joined.append(spans[first]._replace(end=spans[last].end))
    return joined


def with_vectors(made: DocumentChange, vectors: Mapping[str, bytes]) -> list[Record]:
    """Return the records of a change with their vectors. ``vectors`` is by key, and may lack some."""
    return [
        changed(record, vectors={SPACE: vectors[record.key]}) if record.key in vectors else record
        for record in made.written
    ]
