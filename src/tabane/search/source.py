"""Requests, hits and answers of a search, what each source of hits declares, and the models that it uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from msgspec import Struct, structs

from tabane.messages import Message, say
from tabane.operations import Caller, Face
from tabane.search.fusion import ScoreParts
from tabane.search.snippets import Snippet, snippet

if TYPE_CHECKING:
    from tabane.search.chunking import Measure
    from tabane.search.embedding.embedder import Embedder, NoModel

T = TypeVar("T")


Keywords = Literal["only", "typing"]
"""A search by keywords alone. ``typing``: the last word may be unfinished, and the answer has to be fast."""


class Reference(NamedTuple):
    """The operation that opens a hit. Every face that finds the hit has this operation too."""

    operation: str
    arguments: Mapping[str, Any]

    def row(self, face: Face) -> dict[str, Any]:
        """Return the reference in the form of that face: a tool of MCP, or a method of JSON-RPC."""
        if face is Face.MCP:
            return {"tool": self.operation, "arguments": dict(self.arguments)}
        return {"method": self.operation, "params": dict(self.arguments)}


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A query as it was typed. A source may extend it with conditions of its own.

    Without ``keywords``, the search is by keywords and vectors. ``exact``: a phrase that no text has is not
    given up.
    """

    query: str
    limit: int
    keywords: Keywords | None = field(default=None, kw_only=True)
    exact: bool = field(default=False, kw_only=True)


class SearchHit(Struct, Generic[T], frozen=True):
    """A post, document, page, section or tool that was found. ``score`` is in 0..1 and good for order alone.

    ``cosine`` and ``bm25`` are as the engine gave them: None if there was nothing to compare, or no word was
    found. Only the cosine says how relevant a hit is, whatever else was found. ``parts`` explain the score.
    ``covered`` is how much of the query the words of the hit cover, in 0..1, if its source knows it.
    """

    item: T
    score: float
    cosine: float | None = None
    bm25: float | None = None
    parts: ScoreParts | None = None
    covered: float | None = None


@dataclass(frozen=True, slots=True)
class SearchAnswer(Generic[T]):
    """Hits, best first. ``terms`` are the words to mark in them; ``warning`` says why hits may be missing.

    ``usual`` is the cosine between unrelated texts by the model of the hits, if it was measured.
    ``failed`` is why servers have listed nothing, by name: what they offer cannot be found.
    """

    hits: Sequence[SearchHit[T]] = ()
    terms: Sequence[str] = ()
    warning: Message | None = None
    usual: float | None = field(default=None, kw_only=True)
    failed: Mapping[str, Message] = field(default_factory=dict, kw_only=True)


def joined(one: Message | None, other: Message | None) -> Message | None:
    """Return the warnings that there are, as one."""
    return say("{one} {other}", one=one, other=other) if one and other else one or other


def sentences(warning: Message | None) -> list[Message]:
    """Return the warnings that were :func:`joined`, so that each is said once beside those of others."""
    if warning is None or warning.template != "{one} {other}":
        return [warning] if warning else []
    parts = (warning.fields["one"], warning.fields["other"])
    return [each for part in parts if isinstance(part, Message) for each in sentences(part)]


class HitCard(NamedTuple):
    """An item in a list of several kinds: its snippet is taken from ``text``."""

    key: str
    title: str
    text: str
    reference: Reference


def explained(hit: SearchHit[Any]) -> dict[str, Any]:
    """Return why a hit was found, for a program: parts of its score, ranks, and what the engine measured.

    ``words`` and ``meaning`` add up to the score that the hit had before a reranker moved it.
    """
    parts = hit.parts or ScoreParts()
    return {
        "words": round(parts.words, 4),
        "meaning": round(parts.meaning, 4),
        "words_rank": parts.words_rank,
        "meaning_rank": parts.meaning_rank,
        "fusion": parts.fusion or None,
        "rank_before_reranking": parts.ranked,
        "bm25": None if hit.bm25 is None else round(hit.bm25, 4),
        "cosine": None if hit.cosine is None else round(hit.cosine, 4),
    }


class SearchSource(Protocol[T]):
    """Items of one kind that can be searched."""

    async def search(self, caller: Caller, request: SearchRequest) -> SearchAnswer[T]:
        """Return the best hits. A query without a single word finds nothing."""
        ...

    def card(self, item: Any) -> HitCard:
        """Return how one of this source's own items reads."""
        ...


class ShownItem(NamedTuple):
    """An item as it is shown in a list of several kinds.

    ``terms`` are the words to mark in it; ``unfinished``: the last of them is the beginning of a word.
    """

    card: HitCard
    terms: Sequence[str] = ()
    unfinished: bool = False

    def snippet(self) -> Snippet:
        """Return its best passage. It takes a millisecond for a long text: call it for what is shown."""
        return snippet(self.card.text, self.terms, unfinished=self.unfinished)


async def shown(source: SearchSource[Any], caller: Caller, request: SearchRequest) -> SearchAnswer[ShownItem]:
    """Search one source, and return its hits as they are shown in a list of several kinds."""
    answer = await source.search(caller, request)
    unfinished = request.keywords == "typing"
    hits = [
        structs.replace(hit, item=ShownItem(source.card(hit.item), answer.terms, unfinished))
        for hit in answer.hits
    ]
    return SearchAnswer(hits, answer.terms, answer.warning, usual=answer.usual, failed=answer.failed)


class FoundThing(NamedTuple):
    """A hit of one kind. ``hit.score`` is its relevance among all kinds."""

    kind: str
    hit: SearchHit[ShownItem]


class ThingEntry(Struct, frozen=True):
    """A thing with its best passage, and ``also``, the same thing of another kind."""

    thing: FoundThing
    also: tuple[FoundThing, ...] = ()


class KindAnswer(Struct, frozen=True):
    """The hits of one kind, in its own order."""

    kind: str
    answer: SearchAnswer[ShownItem]

    @property
    def warning(self) -> Message | None:
        return self.answer.warning


class SourceHolder(Protocol):
    """Has a source that is made on first use."""

    @property
    def there(self) -> bool:
        """Whether anything can be found. If not, the source is not made."""
        ...

    @property
    def searching(self) -> SearchSource[Any]:
        """The source, made on first use."""
        ...


class OnDemandSource:
    """A source that is made by its first search."""

    def __init__(self, holder: SourceHolder) -> None:
        self._holder = holder

    async def search(self, caller: Caller, request: SearchRequest) -> SearchAnswer[Any]:
        """Search the source, which is made now if anything can be found; else find nothing."""
        if not self._holder.there:
            return SearchAnswer()
        return await self._holder.searching.search(caller, request)

    def card(self, item: Any) -> HitCard:
        """Return how an item of the source reads."""
        return self._holder.searching.card(item)


class Reranker(Protocol):
    """A model that reads a query and a text together: slower than vectors, and more accurate."""

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return how well each text answers ``query``, in 0..1, in their order. Higher is better.

        Texts that are longer than the model accepts are cut at their end. Raises ModelError and its kinds.
        """
        ...


class Models(Protocol):
    """The models of the hub. Each is opened once, on first use."""

    async def wanted(self) -> Embedder | NoModel:
        """Return the model of the settings, for texts that are embedded now. Vectors are cached by text."""
        ...

    async def serving(self, model: str) -> Embedder | NoModel:
        """Return the model with this fingerprint, for vectors that it made.

        An id without ``#`` (of an imported archive) is served by that model at any revision. The reason of a
        :class:`NoModel` says how to fix it.
        """
        ...

    async def for_tools(self) -> Sequence[Embedder] | NoModel:
        """Return the models by which tools are compared with a query: one, or several to be averaged.

        Returns at once: it starts no process and waits for no download. A process starts with the first text.
        """
        ...

    async def query(self, model: str, text: str) -> bytes | NoModel:
        """Return a query as a vector of that model. Never raises ModelError, never waits for long."""
        ...

    def reranker(self) -> Reranker | None:
        """Return the reranker of the settings, which is opened by its first query; None if there is none."""
        ...

    def measure(self) -> Measure:
        """Return the measure for texts that are cut for the current model of the settings.

        It is the model's own tokenizer if its file is on this machine, else an estimate. Never raises an
        error, downloads or starts a model. Reads a few files, so call it off the event loop.
        """
        ...
