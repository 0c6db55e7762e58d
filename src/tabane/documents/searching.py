"""A question to the documents: the passages that answer it, grouped by the documents they stand in."""

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
from tabane.documents.filtering import resolved
from tabane.documents.parameters import Mode
from tabane.errors import BadArguments, ModelMissing
from tabane.messages import Message, say
from tabane.search.embedding.embedder import NoModel
from tabane.search.engine import MOST_AT_ONCE, Collection, LexicalQuery, VectorQuery
from tabane.search.filters import And, Equal, Filter, In, Not, Prefix
from tabane.search.hybrid import DEPTH, Found, Fusion, hybrid
from tabane.search.meaning import Meaning, near
from tabane.search.models import Models
from tabane.search.queries import sense, typed
from tabane.search.records import Record, encodable
from tabane.search.reordering import RERANKED, judged

Question = Callable[[str, Iterable[str]], Awaitable[Meaning | NoModel]]

MOST_PASSAGES = 3
"""Of one document that are shown."""

_TRIES = 3
_ROUNDS = (
    100  # of leaving out what was found: each brings another document, and no more than that are asked for
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is wanted, as it was asked for."""

    query: str
    top_k: int = 5
    mode: Mode = "hybrid"
    file_type: str | None = None
    filters: Mapping[str, Any] = field(default_factory=dict)


class Passage(NamedTuple):
    """A chunk that was found: ``text`` is ``document[start:end]``, ``headings`` those above it."""

    text: str
    headings: tuple[str, ...]
    start: int
    end: int
    score: float
    cosine: float | None = None


class Answer(NamedTuple):
    """A document with its passages, best first; its score is that of the first."""

    document: Document
    passages: tuple[Passage, ...]

    @property
    def score(self) -> float:
        return self.passages[0].score


class Answers(NamedTuple):
    """Documents, best first. ``words`` are what was looked for; ``warning`` says why it is not all."""

    found: list[Answer]
    words: list[str]
    warning: Message | None = None


@dataclass(frozen=True, slots=True)
class _Sought:
    """A question as the engine is asked it."""

    words: LexicalQuery | None
    near: VectorQuery | None = None
    usual: float | None = None
    warning: Message | None = None
    fusion: Fusion = "scaled"


class Searching:
    """The documents of one collection, found. Of a chunk's text is read what is shown."""

    def __init__(
        self,
        collection: Callable[[], Awaitable[Collection]],
        models: Models,
        question: Question,
        zone: Callable[[], tzinfo],
    ) -> None:
        self._collection, self._models, self._question, self._zone = collection, models, question, zone

    async def search(self, asked: Asked) -> Answers:
        """The best documents. Raises BadArguments, and ModelMissing where vectors alone are asked for."""
        words = typed(encodable(asked.query, "query"))
        if not sense(words):
            raise BadArguments(say("{parameter}: no search query is given.", parameter="query"), "query")
        collection = await self._collection()
        where = await self.where(asked.file_type, asked.filters)
        sought = await self._sought(asked.mode, words)
        looked = [words.text, *words.phrases]
        for _ in range(_TRIES):
            groups = await self._groups(collection, sought, sense(words), where, asked.top_k)
            found = await _read(collection, groups)
            if len(found) == len(groups):  # else one of them was put anew meanwhile
                break
        return Answers(found, looked, sought.warning)

    async def where(self, file_type: str | None, filters: Mapping[str, Any]) -> Filter:
        """Which chunks are meant; heads have nothing by which they could be found. Raises BadArguments."""
        return await resolved(await self._collection(), self._meant(file_type, filters))

    async def heads(self, prefix: str, file_type: str | None, filters: Mapping[str, Any]) -> Filter:
        """Which documents are meant, of those whose names begin so. Raises BadArguments."""
        begun = unicodedata.normalize("NFC", encodable(prefix, "prefix"))
        meant = self._meant(file_type, filters)
        return And((HEADS, Prefix(DOCUMENT, begun), meant)) if begun else And((HEADS, meant))

    def _meant(self, file_type: str | None, filters: Mapping[str, Any]) -> Filter:
        wanted = filtering.read(filters, self._zone())
        return And((wanted, Equal(FILE_TYPE, encodable(file_type, "file_type")))) if file_type else wanted

    async def _sought(self, mode: Mode, words: LexicalQuery) -> _Sought:
        if mode == "lexical":
            return _Sought(words)
        found = await self._question(sense(words), SPACES)
        if mode == "hybrid":
            means = near(found)
            return _Sought(words, means.query, means.usual, means.warning, means.fusion)
        if isinstance(found, NoModel):
            raise ModelMissing(
                say(
                    "{reason} Mode {mode} needs a model; hybrid does without.", reason=found.reason, mode=mode
                )
            )
        return _Sought(None, found.query, found.usual, found.incomplete.state if found.incomplete else None)

    async def _groups(
        self, collection: Collection, sought: _Sought, asked: str, where: Filter, top_k: int
    ) -> dict[str, list[Found]]:
        """The best chunks of the best documents, by how the keys of each document's begin.

        More and more chunks are asked for until they are of enough documents, and then others than those.
        """
        limit = DEPTH
        groups = _by_document(await self._ranked(collection, sought, asked, where, limit))
        if len(groups.by_prefix) < top_k and groups.chunks == limit:
            limit = MOST_AT_ONCE
            groups = _by_document(await self._ranked(collection, sought, asked, where, limit))
        found, names = groups.by_prefix, set[str]()
        for _ in range(_ROUNDS):
            if len(found) >= top_k or groups.chunks < limit:
                break
            names |= await _names(collection, groups.by_prefix)
            others = And((where, Not(In(DOCUMENT, tuple(sorted(names))))))
            groups = _by_document(await self._ranked(collection, sought, asked, others, limit))
            found |= {prefix: hits for prefix, hits in groups.by_prefix.items() if prefix not in found}
        best = sorted(found.items(), key=lambda group: -group[1][0].score)[:top_k]
        return {prefix: hits[:MOST_PASSAGES] for prefix, hits in best}

    async def _ranked(
        self, collection: Collection, sought: _Sought, asked: str, where: Filter, limit: int
    ) -> Sequence[Found]:
        ranking = await hybrid(
            collection, sought.words, sought.near, where, limit, fusion=sought.fusion, usual=sought.usual
        )
        if self._models.reranker() is None:
            return ranking.hits
        records = await collection.get([hit.key for hit in ranking.hits[:RERANKED]])
        texts = {record.key: meaning(record) for record in records if record is not None}
        return await judged(self._models, asked, ranking.hits, texts)


class _Groups(NamedTuple):
    by_prefix: dict[str, list[Found]]
    chunks: int


def _by_document(hits: Sequence[Found]) -> _Groups:
    """Hits, best first, by the document that their keys tell: nothing need be read for it."""
    groups: dict[str, list[Found]] = {}
    for hit in hits:
        groups.setdefault(group(hit.key), []).append(hit)
    return _Groups(groups, len(hits))


async def _names(collection: Collection, groups: Mapping[str, Sequence[Found]]) -> set[str]:
    records = await collection.get([hits[0].key for hits in groups.values()])
    return {str(record.fields[DOCUMENT]) for record in records if record is not None}


async def _read(collection: Collection, groups: Mapping[str, Sequence[Found]]) -> list[Answer]:
    """What is shown of each document; those are left out that are not what they were."""
    hits = [hit for group in groups.values() for hit in group]
    records = {record.key: record for record in await collection.get([hit.key for hit in hits]) if record}
    names = list(dict.fromkeys(str(record.fields[DOCUMENT]) for record in records.values()))
    heads = await collection.get([head_key(name) for name in names])
    documents = {name: document_of(head) for name, head in zip(names, heads, strict=True) if head}
    # A first chunk is shown as it is in the head that says where it stands.
    records |= {head.key: head for head in heads if head is not None}
    answers = (_answer(group, records, documents) for group in groups.values())
    return [answer for answer in answers if answer is not None]


def _answer(
    hits: Sequence[Found], records: Mapping[str, Record], documents: Mapping[str, Document]
) -> Answer | None:
    passages: list[Passage] = []
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
        passages.append(Passage(text, headings, place.start, place.end, hit.score, hit.cosine))
    return Answer(document, tuple(passages)) if document else None
