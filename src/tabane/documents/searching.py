"""Searches of the documents: the best passages of each document, and filters of documents."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta, tzinfo
from typing import Any, NamedTuple, Protocol

from tabane.documents import metadata
from tabane.documents.document import (
    DOCUMENT,
    FILE_TYPE,
    HEADS,
    METADATA,
    SPACES,
    UPDATED_AT,
    Document,
    document_of,
    group,
    head_key,
    headings_of,
    meaning,
    piece_of,
    text_of,
)
from tabane.documents.document_reader import DocumentContext
from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.operations import Caller
from tabane.search.engine import Collection
from tabane.search.pipeline import (
    CollectionSource,
    QueryVectors,
    RankedRecord,
    SearchMode,
    records_of,
)
from tabane.search.records import (
    DEEPEST,
    MOST_VALUES,
    And,
    Equal,
    Filter,
    In,
    Not,
    Or,
    Prefix,
    Range,
    Record,
    encodable,
    leaves,
)
from tabane.search.source import HitCard, Models, Reference, SearchAnswer, SearchHit, SearchRequest
from tabane.search.typed_query import sense, typed, words_of

MOST_NAMES = MOST_VALUES // 2


async def resolved(collection: Collection, where: Filter) -> Filter:
    """Return the filter with conditions on dates replaced by names of documents: only heads have a date.

    Raises BadArguments if both the matching and the other documents are too many to list.
    """
    replacements: dict[Filter, Filter] = {
        leaf: await _documents_with(collection, leaf)
        for leaf in leaves(where)
        if isinstance(leaf, Range) and leaf.field == UPDATED_AT
    }
    return _replace_leaves(where, replacements) if replacements else where


async def _documents_with(collection: Collection, leaf: Filter) -> Filter:
    """Return a filter with the names of matching documents, or with the other ones if they are fewer."""
    matching, others = And((HEADS, leaf)), And((HEADS, Not(leaf)))
    inside, outside = await collection.count(matching), await collection.count(others)
    if min(inside, outside) <= MOST_NAMES:
        fewer = matching if inside <= outside else others
        names = In(DOCUMENT, tuple(await collection.tally(DOCUMENT, fewer)))
        return names if inside <= outside else Not(names)
    message = say(
        "filters: updated_at can be used only if at most {most} {most:document|documents} match it, or at "
        "most {most} do not",
        most=MOST_NAMES,
    )
    raise BadArguments(message, "filters.updated_at")


def _replace_leaves(where: Filter, replacements: Mapping[Filter, Filter]) -> Filter:
    match where:
        case Not(of):
            return Not(_replace_leaves(of, replacements))
        case And(of):
            return And(tuple(_replace_leaves(each, replacements) for each in of))
        case Or(of):
            return Or(tuple(_replace_leaves(each, replacements) for each in of))
        case _:
            return replacements.get(where, where)


OPERATORS = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "prefix")

_FIELDS = {"filepath": DOCUMENT, "file_type": FILE_TYPE}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

Operand = str | int | float | bool


def read(filters: Mapping[str, Any], zone: tzinfo, parameter: str = "filters", depth: int = 1) -> Filter:
    """Parse filters, all of which must match. Raises :class:`BadArguments` that names the path.

    Dates without an offset are in ``zone``.
    """
    if depth > DEEPEST // 2:
        wanted = say("a filter is at most {most} {most:level|levels} deep", most=DEEPEST // 2)
        raise _filter_error(parameter, wanted)
    return And(
        tuple(_read_member(key, value, zone, f"{parameter}.{key}", depth) for key, value in filters.items())
    )


def _read_member(key: str, value: Any, zone: tzinfo, path: str, depth: int) -> Filter:
    if key in ("$and", "$or"):
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise _filter_error(path, say("it must be a list of filters"))
        of = tuple(read(each, zone, f"{path}[{place}]", depth + 1) for place, each in enumerate(value))
        return And(of) if key == "$and" else Or(of)
    if key == "$not":
        if not isinstance(value, dict):
            raise _filter_error(path, say("it must be a filter"))
        return Not(read(value, zone, path, depth + 1))
    name = _filter_field(key, zone, path)
    if isinstance(value, dict):
        if not value:
            raise _filter_error(path, say("it must be an operator: {known}", known=", ".join(OPERATORS)))
        return And(tuple(_read_condition(name, key, operand, path) for key, operand in value.items()))
    return _any_of(name, value, path) if isinstance(value, list) else name.equal(_check_operand(value, path))


def _read_condition(name: FilterField, key: str, operand: Any, path: str) -> Filter:
    operator, path = key.removeprefix("$"), f"{path}.{key}"
    match operator:
        case "eq":
            return name.equal(_check_operand(operand, path))
        case "ne":
            return Not(name.equal(_check_operand(operand, path)))
        case "in":
            return _any_of(name, operand, path)
        case "nin":
            return Not(_any_of(name, operand, path))
        case "prefix":
            if not isinstance(operand, str):
                raise _filter_error(path, say("it must be a string"))
            return name.prefix(str(_check_operand(operand, path)))
        case "gt" | "gte" | "lt" | "lte":
            return name.compared(operator, _check_operand(operand, path))
    raise _filter_error(path, say("it must be an operator: {known}", known=", ".join(OPERATORS)))


def _any_of(name: FilterField, values: Any, path: str) -> Filter:
    if not isinstance(values, list):
        raise _filter_error(path, say("it must be a list"))
    return Or(tuple(name.equal(_check_operand(each, path)) for each in values))


def _check_operand(value: Any, path: str) -> Operand:
    return metadata.checked_scalar(value, path)


def _filter_error(path: str, rule: Message) -> BadArguments:
    return BadArguments(say("{parameter}: {wanted}", parameter=path, wanted=rule), path)


@dataclass(frozen=True, slots=True)
class FilterField:
    """The conditions that one value of a document supports."""

    equal: Callable[[Operand], Filter]
    compared: Callable[[str, Operand], Filter]
    prefix: Callable[[str], Filter]


def _filter_field(key: str, zone: tzinfo, path: str) -> FilterField:
    if key == "updated_at":
        return _date_field(zone, path)
    field = _FIELDS.get(key)
    if field is not None:

        def string(value: Operand) -> str:
            if not isinstance(value, str):
                raise _filter_error(path, say("it must be a string"))
            return unicodedata.normalize("NFC", value) if field == DOCUMENT else value

        return FilterField(
            lambda value: Equal(field, string(value)),
            lambda operator, value: _string_range(field, operator, string(value)),
            lambda text: Prefix(field, string(text)),
        )
    return _metadata_field(metadata.checked_key(key, path), path)


def _string_range(field: str, operator: str, bound: str) -> Filter:
    if operator.startswith("g"):
        return Range(field, bound, include_low=operator == "gte")
    return Range(field, high=bound, include_high=operator == "lte")


def _metadata_field(key: str, path: str) -> FilterField:
    """Return a field of the user's metadata. Strings are compared with strings, numbers with numbers."""

    def compared(operator: str, value: Operand) -> Filter:
        kind = metadata.kind_of_value(value)
        if kind == metadata.BOOLEAN:
            raise _filter_error(path, say("true and false have no order"))
        first, last = metadata.beginning(key, kind), metadata.beginning(key, chr(ord(kind) + 1))
        bound = first + metadata.spelled(value)
        if operator.startswith("g"):
            return Range(METADATA, bound, last, include_low=operator == "gte", include_high=False)
        return Range(METADATA, first, bound, include_high=operator == "lte")

    return FilterField(
        lambda value: Equal(METADATA, metadata.element(key, value)),
        compared,
        lambda text: Prefix(METADATA, metadata.element(key, text)),
    )


def _date_field(zone: tzinfo, path: str) -> FilterField:
    """Return a field of dates. A day means the time from its beginning to its end."""

    def equal(value: Operand) -> Filter:
        begin, end = span(value, zone, path)
        return Range(UPDATED_AT, begin, end, include_high=begin == end)

    def compared(operator: str, value: Operand) -> Filter:
        begin, end = span(value, zone, path)
        match operator:
            case "gte":
                return Range(UPDATED_AT, begin)
            case "gt":
                return Range(UPDATED_AT, end, include_low=begin < end)
            case "lt":
                return Range(UPDATED_AT, high=begin, include_high=False)
            case _:
                return Range(UPDATED_AT, high=end, include_high=begin == end)

    def prefix(text: str) -> Filter:
        raise _filter_error(path, say("times cannot be matched by prefix"))

    return FilterField(equal, compared, prefix)


def span(value: Operand, zone: tzinfo, path: str) -> tuple[float, float]:
    """Return begin and end in seconds since 1970: equal for a time, from midnight to midnight for a day."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), float(value)
    try:
        if isinstance(value, str) and _DAY.fullmatch(value):
            midnight = datetime.combine(datetime.fromisoformat(value), time(), zone)
            next_one = datetime.combine(midnight.date() + timedelta(days=1), time(), zone)
            return midnight.timestamp(), next_one.timestamp()
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=zone)
            return moment.timestamp(), moment.timestamp()
    except (ValueError, OverflowError):
        pass
    raise _filter_error(path, say("it must be YYYY-MM-DD, an ISO 8601 time, or seconds since 1970"))


class DocumentLabels(Protocol):
    """Knows what a caller has read, and learns what it reads. Labels are bits of an int."""

    def read_by(self, caller: Caller) -> int:
        """Return the labels of what a caller has read."""
        ...

    def found(self, caller: Caller, labels: int, source: str, tool: str) -> None:
        """Note that a caller reads something with these labels, of a source, with a tool."""
        ...


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
        context: DocumentContext,
        labels: DocumentLabels,
    ) -> None:
        super().__init__(collection, models, vectors)
        self._context, self._labels = context, labels

    def text(self, record: Record) -> str:
        """Return the text by which a chunk is compared."""
        return meaning(record)

    def group(self, key: str) -> str:
        """Return the same text for all chunks of a document."""
        return group(key)

    def card(self, item: DocumentMatch) -> HitCard:
        """Return a document as a search over everything shows it."""
        document, best = item.document, item.passages[0]
        title = " › ".join(best.headings) or document.title or document.filepath
        reference = Reference("get_document", {"filepath": document.filepath})
        return HitCard(document.filepath, title, best.text, reference)

    async def find(self, collection: Collection, request: DocumentSearchRequest) -> DocumentAnswer:
        """Return the best documents. Raises BadArguments, and ModelMissing if the mode needs a model."""
        words = typed(encodable(request.query, "query"))
        if not sense(words):
            raise BadArguments(say("{parameter}: the search query is empty.", parameter="query"), "query")
        where = await self.chunk_filter(collection, request.file_type, request.filters)
        return await self.ranked(collection, words, where, request.limit, request.mode)

    async def search(self, caller: Caller, request: SearchRequest) -> DocumentAnswer:
        """Return the best documents of a search over everything."""
        encodable(request.query, "query")
        words = words_of(request)
        if not sense(words):
            return SearchAnswer()
        collection = await self._collection()
        where = await self.chunk_filter(collection, None, {})
        keywords, exact = request.keywords, request.exact
        answer = await self.ranked(collection, words, where, request.limit, keywords=keywords, exact=exact)
        note_labels(self._labels, caller, (hit.item.document for hit in answer.hits))
        return answer

    async def chunk_filter(
        self, collection: Collection, file_type: str | None, filters: Mapping[str, Any]
    ) -> Filter:
        """Return the filter of chunks. Conditions on heads are resolved to documents. Raises BadArguments."""
        return await resolved(collection, self._read_filters(file_type, filters))

    def heads(self, prefix: str, file_type: str | None, filters: Mapping[str, Any]) -> Filter:
        """Return the filter of documents whose names have that prefix. Raises BadArguments."""
        beginning, where = normalized(prefix), self._read_filters(file_type, filters)
        return And((HEADS, Prefix(DOCUMENT, beginning), where)) if beginning else And((HEADS, where))

    def _read_filters(self, file_type: str | None, filters: Mapping[str, Any]) -> Filter:
        where = read(filters, self._context.zone)
        return And((where, Equal(FILE_TYPE, encodable(file_type, "file_type")))) if file_type else where

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
        matches: list[SearchHit[DocumentMatch]] = []
        for hits in best:
            match = _match_of(hits, records, documents)
            if match is not None:
                matches.append(SearchHit(match, hits[0].score, hits[0].cosine, hits[0].bm25, hits[0].parts))
        return matches


def note_labels(labels: DocumentLabels, caller: Caller, documents: Iterable[Document]) -> None:
    """Note that a caller reads these documents, if any was written by someone who had read something."""
    for document in documents:
        if document.labels:
            labels.found(caller, document.labels, "documents", f"document {document.filepath[:100]}")


def normalized(prefix: str) -> str:
    """Return the beginning of a name in NFC, as names are. Raises BadArguments."""
    return unicodedata.normalize("NFC", encodable(prefix, "prefix"))


def _match_of(
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
