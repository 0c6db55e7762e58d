"""Searches of the documents: the best passages of each document, and filters of documents."""

from __future__ import annotations

import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any, NamedTuple

from tabane.documents import filtering
from tabane.documents.document import (
    DOCUMENT,
    FILE_TYPE,
    HEADS,
    SPACES,
    Document,
    document_of,
    group,
    head_key,
    headings_of,
    meaning,
    piece_of,
    text_of,
)
from tabane.documents.document_labels import DocumentLabels
from tabane.documents.filtering import resolved
from tabane.errors import BadArguments
from tabane.messages import say
from tabane.operations import Caller
from tabane.search.engine import Collection
from tabane.search.filters import And, Equal, Filter, Prefix
from tabane.search.hybrid import RankedRecord
from tabane.search.models import Models
from tabane.search.pipeline import CollectionSource, QueryVectors, SearchMode, records_of, words_of
from tabane.search.queries import sense, typed
from tabane.search.records import Record, encodable
from tabane.search.source import HitCard, Reference, SearchAnswer, SearchHit, SearchRequest

MOST_PASSAGES = 3
"""Passages of one document in a hit."""


@dataclass(frozen=True, slots=True)
class DocumentSearchRequest(SearchRequest):
    """A search of the documents, with its mode and filters."""

    mode: SearchMode = "hybrid"
    file_type: str | None = None
    filters: Mapping[str, Any] = field(default_factory=dict)


class DocumentPassage(NamedTuple):
    """A matching chunk: ``text`` is ``document[start:end]``, ``headings`` are the headings above it."""

    text: str
    headings: tuple[str, ...]
    start: int
    end: int
    score: float
    cosine: float | None = None


class DocumentMatch(NamedTuple):
    """A document with its passages, best first."""

    document: Document
    passages: tuple[DocumentPassage, ...]


DocumentAnswer = SearchAnswer[DocumentMatch]


class DocumentSearch(CollectionSource[DocumentMatch]):
    """The documents of one collection as a search source. Only chunks in the answer are read."""

    spaces = SPACES
    group_field = DOCUMENT

    def __init__(
        self,
        collection: Callable[[], Awaitable[Collection]],
        models: Models,
        vectors: QueryVectors,
        zone: Callable[[], tzinfo],
        labels: DocumentLabels,
    ) -> None:
        super().__init__(collection, models, vectors)
        self._zone, self._labels = zone, labels

    def text(self, record: Record) -> str:
        return meaning(record)

    def group(self, key: str) -> str:
        return group(key)

    def card(self, item: DocumentMatch) -> HitCard:
        document, best = item.document, item.passages[0]
        title = " › ".join(best.headings) or document.title or document.filepath
        reference = Reference("get_document", {"filepath": document.filepath})
        return HitCard(document.filepath, title, best.text, reference)

    async def find(self, request: DocumentSearchRequest) -> DocumentAnswer:
        """Return the best documents. Raises BadArguments, and ModelMissing if the mode needs a model."""
        words = typed(encodable(request.query, "query"))
        if not sense(words):
            raise BadArguments(say("{parameter}: the search query is empty.", parameter="query"), "query")
        where = await self.meant(request.file_type, request.filters)
        return await self.ranked(words, where, request.limit, request.mode)

    async def search(self, caller: Caller, request: SearchRequest) -> DocumentAnswer:
        encodable(request.query, "query")
        where = await self.meant(None, {})
        found = await self.ranked(words_of(request), where, request.limit, keywords=request.keywords)
        note_labels(self._labels, caller, (hit.item.document for hit in found.hits))
        return found

    async def meant(self, file_type: str | None, filters: Mapping[str, Any]) -> Filter:
        """Return the filter of chunks. Conditions on heads are resolved to documents. Raises BadArguments."""
        return await resolved(await self._collection(), self._meant(file_type, filters))

    async def heads(self, prefix: str, file_type: str | None, filters: Mapping[str, Any]) -> Filter:
        """Return the filter of documents whose names have that prefix. Raises BadArguments."""
        beginning, meant = normalized(prefix), self._meant(file_type, filters)
        return And((HEADS, Prefix(DOCUMENT, beginning), meant)) if beginning else And((HEADS, meant))

    def _meant(self, file_type: str | None, filters: Mapping[str, Any]) -> Filter:
        wanted = filtering.read(filters, self._zone())
        return And((wanted, Equal(FILE_TYPE, encodable(file_type, "file_type")))) if file_type else wanted

    async def read(
        self, collection: Collection, groups: Sequence[Sequence[RankedRecord]]
    ) -> list[SearchHit[DocumentMatch]]:
        best = [hits[:MOST_PASSAGES] for hits in groups]
        records = dict(await records_of(collection, [hit.key for hits in best for hit in hits]))
        names = list(dict.fromkeys(str(record.fields[DOCUMENT]) for record in records.values()))
        heads = await collection.get([head_key(name) for name in names])
        documents = {name: document_of(head) for name, head in zip(names, heads, strict=True) if head}
        # The text of a first chunk is taken from the head that gives its place.
        records |= {head.key: head for head in heads if head is not None}
        found: list[SearchHit[DocumentMatch]] = []
        for hits in best:
            match = _match(hits, records, documents)
            if match is not None:
                found.append(SearchHit(match, hits[0].score, hits[0].cosine, hits[0].bm25, hits[0].parts))
        return found


def note_labels(labels: DocumentLabels, caller: Caller, documents: Iterable[Document]) -> None:
    """Note that a caller reads these documents, if any was written by someone who had read something."""
    for document in documents:
        if document.labels:
            labels.found(caller, document.labels, "documents", f"document {document.filepath[:100]}")


def normalized(prefix: str) -> str:
    """Return the beginning of a name in NFC, as names are. Raises BadArguments."""
    return unicodedata.normalize("NFC", encodable(prefix, "prefix"))


def _match(
    hits: Sequence[RankedRecord], records: Mapping[str, Record], documents: Mapping[str, Document]
) -> DocumentMatch | None:
    passages: list[DocumentPassage] = []
    document = None
    for hit in hits:
        record = records.get(hit.key)
        document = documents.get(str(record.fields[DOCUMENT])) if record else None
        if record is None or document is None:
            return None
        place = piece_of(document, hit.key)
        if place is None:
            return None
        text, headings = text_of(record), headings_of(record)
        passages.append(DocumentPassage(text, headings, place.start, place.end, hit.score, hit.cosine))
    return DocumentMatch(document, tuple(passages)) if document else None
