"""One query over all there is: each kind of thing searched by its own means, the rankings fused."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from msgspec import Meta, Struct

from tabane.errors import TabaneError
from tabane.hub import manual
from tabane.hub.embedding import CollectionEmbedder
from tabane.hub.reference import Reference
from tabane.hub.stores import Stores
from tabane.messages import Lang, Message, say
from tabane.operations import Caller, Face, Operation, Privilege
from tabane.search.engine import Collection
from tabane.search.filters import EVERYTHING
from tabane.search.fusion import reciprocal_ranks
from tabane.search.hybrid import Found, hybrid
from tabane.search.meaning import near
from tabane.search.models import Models
from tabane.search.queries import sense, typed
from tabane.search.reordering import judged
from tabane.search.snippets import snippet
from tabane.wire import json

log = logging.getLogger(__name__)

Where = Literal["posts", "documents", "pages", "tools", "docs"]
KINDS: tuple[Where, ...] = ("posts", "documents", "pages", "tools", "docs")


class SearchEverything(Struct, frozen=True, forbid_unknown_fields=True, rename={"places": "in"}):
    """``places``: the kinds of things to look among, all of them where none is named."""

    query: Annotated[str, Meta(min_length=1, max_length=2000)]
    places: Annotated[list[Where], Meta(max_length=8)] | None = None
    top_k: Annotated[int, Meta(ge=1, le=100)] = 10


class Hit(NamedTuple):
    """A hit: ``opens`` is the operation that shows it, ``marks`` are spans of ``text``."""

    kind: Where
    key: str
    title: str
    text: str
    opens: Reference
    score: float
    marks: tuple[tuple[int, int], ...] = ()
    cosine: float | None = None

    def row(self, face: Face) -> dict[str, Any]:
        row = {
            "kind": self.kind, "key": self.key, "title": self.title, "text": self.text,
            "marks": [list(mark) for mark in self.marks], "open": self.opens.row(face),
            "score": round(self.score, 4),
        }  # fmt: skip
        return row if self.cosine is None else {**row, "cosine": round(self.cosine, 4)}


class Answer(NamedTuple):
    """What one finder found, best first; ``warning`` says why it is not all that could be found."""

    hits: list[Hit]
    warning: Message | None = None


class Finder(Protocol):
    """Searches things of one kind, best first."""

    async def __call__(self, caller: Caller, query: str, limit: int) -> Answer: ...


class Manual:
    """Searches Tabane's own documentation, indexed at the first question and whenever it was written anew."""

    def __init__(self, stores: Stores, models: Models, embedding: CollectionEmbedder) -> None:
        self._stores, self._models, self._embedding = stores, models, embedding
        self._filling = asyncio.Lock()
        self._filled: Collection | None = None

    async def __call__(self, caller: Caller, query: str, limit: int) -> Answer:
        collection = await self._collection()
        question = typed(query)
        means = near(await self._embedding.question(manual.SHAPE.name, sense(question), manual.SPACES))
        found = await hybrid(
            collection, question, means.query, EVERYTHING, limit, fusion=means.fusion, usual=means.usual
        )
        records = await collection.get([hit.key for hit in found.hits])
        there = {record.key: record for record in records if record is not None}
        texts = {key: manual.meaning(record) for key, record in there.items()}
        ranked = await judged(self._models, sense(question), found.hits, texts)
        words = [question.text, *question.phrases]
        hits = [self._hit(hit, there[hit.key].texts, words) for hit in ranked if hit.key in there]
        return Answer(hits, means.warning)

    def _hit(self, found: Found, texts: dict[str, str], words: list[str]) -> Hit:
        shown = snippet(texts.get("text", ""), words)
        opens = Reference("get_documentation", {"section": found.key})
        best, marks = found.score, shown.marks
        return Hit("docs", found.key, texts["title"], shown.text, opens, best, marks, found.cosine)

    async def _collection(self) -> Collection:
        async with self._filling:
            collection = await self._stores.collection("cache", manual.SHAPE)
            # Another one than last time was made anew meanwhile, and may be empty.
            if collection is not self._filled:
                await manual.bring_up_to_date(collection, await asyncio.to_thread(manual.pages))
                self._filled = collection
                self._embedding.wake(manual.SHAPE.name)
        return collection


class Finding:
    """The operation search_everything over finders by kind."""

    def __init__(self, finders: dict[Where, Finder]) -> None:
        self._finders = finders

    def table(self) -> list[Operation]:
        return [
            Operation(
                "search_everything",
                "Search the user's posts, documents, pages read, tools and Tabane's docs.",
                SearchEverything,
                self.search,
                frozenset({Face.MCP, Face.RPC, Face.CLI}),
                Privilege.READ,
                text=as_text,
                read_only=True,
                structured=lambda found, _: found,
            )
        ]

    async def search(self, caller: Caller, params: SearchEverything) -> dict[str, Any]:
        """Hits of all kinds in one order. One kind alone keeps its own scores, several have those of RRF.

        A kind that fails does not take the others along: its failure is a warning, where anything answered.
        """
        kinds = [kind for kind in dict.fromkeys(params.places or KINDS) if kind in self._finders]
        asked = (self._answer(kind, caller, params) for kind in kinds)
        tried = await asyncio.gather(*asked)
        answers = [answer for answer in tried if isinstance(answer, Answer)]
        failed = [error for error in tried if isinstance(error, TabaneError)]
        if failed and not answers:
            raise failed[0]
        answers += [Answer([], error.message) for error in failed]
        found: dict[str, Any] = {
            "results": [hit.row(caller.face) for hit in _ranked(answers)[: params.top_k]]
        }
        warnings = list(dict.fromkeys(answer.warning for answer in answers if answer.warning))
        if warnings:
            found["warning"] = " ".join(warning.render(caller.lang) for warning in warnings)
        return found

    async def _answer(self, kind: Where, caller: Caller, params: SearchEverything) -> Answer | TabaneError:
        try:
            return await self._finders[kind](caller, params.query, params.top_k)
        except TabaneError as error:
            log.warning("%s cannot be searched: %s", kind, error)
            return error


def _ranked(answers: list[Answer]) -> list[Hit]:
    if len(answers) == 1:
        return answers[0].hits
    by_name = {(hit.kind, hit.key): hit for answer in answers for hit in answer.hits}
    fused = reciprocal_ranks([[(hit.kind, hit.key) for hit in answer.hits] for answer in answers])
    return [by_name[name]._replace(score=score) for name, score in fused]


def as_text(found: dict[str, Any], lang: Lang) -> str:
    """The hits for a reader: title, how to open it, passage."""
    warning = [f"⚠ {found['warning']}"] if "warning" in found else []
    if not found["results"]:
        return "\n".join([*warning, say("Nothing was found.").render(lang)])
    head = say("{count} results. To open one, call the tool in its brackets:", count=len(found["results"]))
    blocks = (
        f"{hit['title']}  [{hit['kind']}: {_called(hit['open'])}]\n  " + " ".join(hit["text"].split())
        for hit in found["results"]
    )
    return "\n".join([*warning, head.render(lang), *blocks])


def _called(reference: dict[str, Any]) -> str:
    """Format a call: ``get_post {"post_id":"5"}``."""
    name, arguments = reference.values()
    return f"{name} {json.encode(arguments).decode()}"
