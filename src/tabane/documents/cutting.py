"""A draft as records: checked, cut into chunks, and set against what was there before; pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed

from tabane.documents import document_names, metadata
from tabane.documents.document import (
    SPACE,
    ChunkSpan,
    ChunkText,
    Document,
    Draft,
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
"""Of one document: those there were and those there will be change in one exchange."""

LONGEST_FILE_TYPE = 100  # characters
LONGEST_SOURCE = 20_000
_LONGEST_HEADINGS = 8
_LONGEST_HEADING = 200


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """What puts a document in place of the one that was there.

    ``written``: the head, and chunks that are new or carry other metadata; nothing at all if nothing is to
    be done. ``carried``: the keys of those among them whose text was there before, each with the key that it
    was under, so that its vectors still fit. ``gone``: keys of chunks that are there no more.
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
        """Return whether it is the same document to a reader: at most what is kept beside it differs."""
        return self.before is not None and _reads_alike(self.document, self.before)


def checked(draft: Draft, largest: int) -> Draft:
    """Return the draft in its one spelling. ``largest`` is how many bytes its text may have.

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
            "text: it has {size} bytes, more than the limit of {most}", size=f"{size:,}", most=f"{largest:,}"
        )
        raise BadArguments(message, "text")
    kind = draft.kind or document_names.kind_of(filepath, text)
    title = (
        document_names.title_of(text, kind)
        if draft.title is None
        else _line(draft.title, document_names.LONGEST_TITLE)
    )
    return replace(
        draft,
        filepath=filepath,
        file_type=_file_type(draft.file_type),
        metadata=metadata.checked(draft.metadata),
        kind=kind,
        title=title,
        source=_source(draft.source),
    )


def _file_type(given: str | None) -> str | None:
    found = encodable(given or "", "file_type").strip()
    if len(found) > LONGEST_FILE_TYPE:
        message = say("file_type: it has at most {most} characters", most=LONGEST_FILE_TYPE)
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
    """What is to be done for a draft that is checked. The text is cut if it is not the one there was."""
    document = _described(draft, measure, now)
    same = before is not None and (before.hash, before.measure) == (document.hash, document.measure)
    if before is not None and same:
        document = changed(document, chunks=before.chunks, above=before.above)
        if changed(document, updated_at=before.updated_at) == before:
            return DocumentChange(before, before)
        if _found_alike(document, before):
            return _beside(draft, _dated(document, before), before)
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
    )


def _found_alike(document: Document, before: Document) -> bool:
    """Return whether chunks of the same text are the same records."""
    return (document.kind, document.title, document.file_type, document.metadata) == (
        before.kind, before.title, before.file_type, before.metadata,
    )  # fmt: skip


def _dated(document: Document, before: Document) -> Document:
    """Return the document, as old as the one before where a reader sees no difference."""
    dated = changed(document, updated_at=before.updated_at)
    return dated if _reads_alike(dated, before) else document


def _reads_alike(document: Document, before: Document) -> bool:
    """Return whether they differ at most in what nobody is shown."""
    return before == changed(
        document, source=before.source, measure=before.measure, chunks=before.chunks, above=before.above
    )


def _beside(draft: Draft, document: Document, before: Document) -> DocumentChange:
    """Return the head alone: what is kept beside the text is another."""
    headings = tuple(document.above)
    text = draft.text[: document.chunks[0].end]
    said = ChunkText(text, headings, heading(document.filepath, document.title, headings))
    head = head_record(document, metadata.encoded(document.metadata), said)
    return DocumentChange(document, before, [head], {head.key: head.key})


def _compared(draft: Draft, document: Document, before: Document | None, measure: Measure) -> DocumentChange:
    """Return the text cut, and set against the chunks there were."""
    whole, records = _cut(draft, document, measure)
    there = {} if before is None else dict(zip(map(_suffix, before.chunks), before.keys, strict=True))
    alike = before is not None and (whole.file_type, whole.metadata) == (before.file_type, before.metadata)
    carried: dict[str, str] = {}
    written: list[Record] = []
    for piece, record in zip(whole.chunks, records, strict=True):
        old = there.get(piece.suffix)
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
    # With the first text that is put: a hub that keeps none does without.
    from tabane.search.chunking import chunks

    lang = document_names.ending(document.filepath)
    spans = fewer(chunks(draft.text, document.kind, measure, lang), MOST_CHUNKS)
    parts = [_said(draft.text, document, span) for span in spans]
    times: Counter[ChunkText] = Counter()
    pieces: list[ChunkSpan] = []
    for span, said in zip(spans, parts, strict=True):
        told = suffix(said.heading, said.headings, said.text, times[said])
        times[said] += 1
        pieces.append(ChunkSpan(told, span.start, span.end))
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
    """Headings on a line each, none of them long: each chunk below them carries them."""
    lines = (" ".join(each.split())[:_LONGEST_HEADING] for each in headings[:_LONGEST_HEADINGS])
    return tuple(filter(None, lines))


def fewer(spans: Sequence[Chunk], most: int) -> Sequence[Chunk]:
    """At most so many chunks: where a text has more, neighbours are joined, as evenly as may be."""
    if len(spans) <= most:
        return spans
    joined = []
    for place in range(most):
        first, last = place * len(spans) // most, (place + 1) * len(spans) // most - 1
        joined.append(spans[first]._replace(end=spans[last].end))
    return joined


def with_vectors(made: DocumentChange, vectors: Mapping[str, bytes]) -> list[Record]:
    """Return the records of a change, with the vectors that there are for them by key."""
    return [
        changed(record, vectors={SPACE: vectors[record.key]}) if record.key in vectors else record
        for record in made.written
    ]
