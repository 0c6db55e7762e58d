"""A draft as records: checked, cut into chunks, and set against what was there before; pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed

from tabane.documents import metadata, naming
from tabane.documents.document import (
    Document,
    Draft,
    Piece,
    chunk_key,
    chunk_prefix,
    chunk_record,
    head_key,
    head_record,
    heading,
)
from tabane.documents.files import kinds
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
class Change:
    """What puts a document in place of the one that was there.

    ``written``: chunks that are new, or carry other metadata. ``carried``: keys of those among them whose
    text was there before, so that its vectors still fit. ``gone``: keys of chunks that are there no more.
    ``head`` is None where nothing at all is to be written.
    """

    document: Document
    before: Document | None
    head: Record | None = None
    written: Sequence[Record] = ()
    carried: frozenset[str] = frozenset()
    gone: Sequence[str] = ()

    @property
    def untouched(self) -> bool:
        return self.head is None

    @property
    def unchanged(self) -> bool:
        """Whether it is the same document to a reader: at most what is kept beside it differs."""
        return self.before is not None and _reads_alike(self.document, self.before)


def checked(draft: Draft, largest: int) -> Draft:
    """The draft in its one spelling. ``largest`` is how many bytes its text may have.

    Raises :class:`BadArguments` that names the parameter; :class:`ModelError` for a text that says nothing,
    which no model can embed.
    """
    filepath = naming.checked_filepath(draft.filepath)
    text = encodable(draft.text, "text")
    if not text.strip():
        raise ModelError(say("the text is empty."))
    size = len(text) if text.isascii() else len(text.encode())
    if size > largest:
        message = say("text: it has {size} bytes, and may have {most}", size=f"{size:,}", most=f"{largest:,}")
        raise BadArguments(message, "text")
    kind = draft.kind or naming.kind_of(filepath, text)
    title = naming.title_of(text, kind) if draft.title is None else _line(draft.title, naming.LONGEST_TITLE)
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
        message = say("{field} wants {wanted}", field="source", wanted=f"≤ {LONGEST_SOURCE}")
        raise BadArguments(message, "source")
    return given


def _line(text: str, longest: int) -> str:
    """The text on one line."""
    return " ".join(encodable(text, "title").split())[:longest]


def change(draft: Draft, before: Document | None, measure: Measure, now: float) -> Change:
    """What is to be done for a draft that is checked. The text is cut where it is not the one there was."""
    document = _described(draft, measure, now)
    same = before is not None and (before.hash, before.measure) == (document.hash, document.measure)
    if before is not None and same:
        document = changed(document, chunks=before.chunks)
        if changed(document, updated_at=before.updated_at) == before:
            return Change(before, before)
        if _found_alike(document, before):
            dated = _dated(document, before)
            return Change(dated, before, _head(dated))
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
    """Whether chunks of the same text are the same records."""
    return (document.kind, document.title, document.file_type, document.metadata) == (
        before.kind, before.title, before.file_type, before.metadata,
    )  # fmt: skip


def _dated(document: Document, before: Document) -> Document:
    """The document, as old as the one before where a reader sees no difference."""
    dated = changed(document, updated_at=before.updated_at)
    return dated if _reads_alike(dated, before) else document


def _reads_alike(document: Document, before: Document) -> bool:
    """Whether they differ at most in what nobody is shown."""
    return before == changed(document, source=before.source, measure=before.measure, chunks=before.chunks)


def _head(document: Document) -> Record:
    return head_record(document, metadata.encoded(document.metadata))


def _compared(draft: Draft, document: Document, before: Document | None, measure: Measure) -> Change:
    """The text cut, and set against the chunks there were."""
    whole, records = _cut(draft, document, measure)
    there = frozenset(before.keys if before else ())
    keys = {record.key for record in records}
    alike = before is not None and (whole.file_type, whole.metadata) == (before.file_type, before.metadata)
    written = [record for record in records if not (alike and record.key in there)]
    carried = frozenset(record.key for record in written if record.key in there)
    return Change(whole, before, _head(whole), written, carried, sorted(there - keys))


def _cut(draft: Draft, document: Document, measure: Measure) -> tuple[Document, list[Record]]:
    # With the first text that is put: a hub that keeps none does without.
    from tabane.search.chunking import chunks

    lang = kinds.ending(document.filepath)
    spans = fewer(chunks(draft.text, document.kind, measure, lang), MOST_CHUNKS)
    encoded = metadata.encoded(document.metadata)
    pieces: list[Piece] = []
    records: list[Record] = []
    said: Counter[str] = Counter()
    for span in spans:
        text = draft.text[span.start : span.end]
        headings = _headings(span.headings)
        above = heading(document.filepath, document.title, headings)
        same = "\0".join((above, text))
        key = chunk_key(document.filepath, above, headings, text, said[same])
        said[same] += 1
        pieces.append(Piece(key[len(chunk_prefix(document.filepath)) :], span.start, span.end))
        records.append(chunk_record(document, encoded, key, above, headings, text))
    return changed(document, chunks=pieces), records


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


def exchanged(made: Change, vectors: Mapping[str, Mapping[str, bytes]]) -> list[Record]:
    """The records of a change, with the vectors that there are for them by key."""
    chunk_records = [changed(record, vectors=dict(vectors.get(record.key, {}))) for record in made.written]
    return [*chunk_records, *([made.head] if made.head else ())]


def removed(document: Document) -> list[str]:
    """The keys of a document that is taken out."""
    return [head_key(document.filepath), *document.keys]
