"""One query over all there is: each kind of thing searched by its own means, the rankings fused."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from msgspec import Meta, Struct

from tabane.hub import manual
from tabane.hub.stores import Stores
from tabane.messages import Lang, say
from tabane.operations import Caller, Face, Operation, Privilege
from tabane.search.engine import Collection
from tabane.search.filters import Everything
from tabane.search.fusion import reciprocal_ranks
from tabane.search.queries import typed
from tabane.search.snippets import snippet

Where = Literal["tools", "docs"]
KINDS: tuple[Where, ...] = ("tools", "docs")


class SearchEverything(Struct, frozen=True, forbid_unknown_fields=True, rename={"places": "in"}):
    """``places``: the kinds of things to look among, all of them where none is named."""

    query: Annotated[str, Meta(min_length=1, max_length=2000)]
    places: Annotated[list[Where], Meta(max_length=8)] | None = None
    top_k: Annotated[int, Meta(ge=1, le=100)] = 10


class Hit(NamedTuple):
    """One thing that was found: ``opens`` is the command that shows it, ``marks`` spans of ``text``."""

    kind: Where
    key: str
    title: str
    text: str
    opens: str
    score: float
    marks: tuple[tuple[int, int], ...] = ()

    def row(self) -> dict[str, Any]:
        return {
            "kind": self.kind, "key": self.key, "title": self.title, "text": self.text,
            "marks": [list(mark) for mark in self.marks], "open": self.opens, "score": round(self.score, 4),
        }  # fmt: skip


class Finder(Protocol):
    """Searches things of one kind, best first."""

    async def __call__(self, caller: Caller, query: str, limit: int) -> list[Hit]: ...


class Manual:
    """Searches Tabane's own documentation, indexed at the first question and whenever it was written anew."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._filling = asyncio.Lock()
        self._filled: Collection | None = None

    async def __call__(self, caller: Caller, query: str, limit: int) -> list[Hit]:
        collection = await self._collection()
        question = typed(query)
        found = (await collection.search(question, Everything(), limit)).hits
        records = await collection.get([hit.key for hit in found])
        words = [question.text, *question.phrases]
        return [
            self._hit(record.key, record.texts, words, hit.score)
            for hit, record in zip(found, records, strict=True)
            if record is not None
        ]

    def _hit(self, key: str, texts: dict[str, str], words: list[str], score: float) -> Hit:
        shown = snippet(texts.get("text", ""), words)
        page = key.partition(":")[0]
        return Hit("docs", key, texts["title"], shown.text, f"docs/{page}", score, shown.marks)

    async def _collection(self) -> Collection:
        async with self._filling:
            collection = await self._stores.collection("cache", manual.SHAPE)
            # Another one than last time was made anew meanwhile, and may be empty.
            if collection is not self._filled:
                await manual.bring_up_to_date(collection, await asyncio.to_thread(manual.pages))
                self._filled = collection
        return collection


class Finding:
    """The operation search_everything over finders by kind."""

    def __init__(self, finders: dict[Where, Finder]) -> None:
        self._finders = finders

    def table(self) -> list[Operation]:
        return [
            Operation(
                "search_everything",
                "Search tools and documentation at once.",
                SearchEverything,
                self.search,
                frozenset({Face.RPC, Face.CLI}),
                Privilege.READ,
                text=as_text,
                read_only=True,
            )
        ]

    async def search(self, caller: Caller, params: SearchEverything) -> dict[str, Any]:
        """Hits of all kinds in one order. One kind alone keeps its own scores, several have those of RRF."""
        kinds = list(dict.fromkeys(params.places or KINDS))
        found = await asyncio.gather(
            *(self._finders[kind](caller, params.query, params.top_k) for kind in kinds)
        )
        if len(found) == 1:
            return {"results": [hit.row() for hit in found[0][: params.top_k]]}
        by_name = {(hit.kind, hit.key): hit for hits in found for hit in hits}
        fused = reciprocal_ranks([[(hit.kind, hit.key) for hit in hits] for hits in found])
        return {"results": [by_name[name]._replace(score=s).row() for name, s in fused[: params.top_k]]}


def as_text(found: dict[str, Any], lang: Lang) -> str:
    """The hits for a reader: title, how to open it, passage."""
    if not found["results"]:
        return say("Nothing was found.").render(lang)
    blocks = (
        f"{hit['title']}  [{hit['kind']}: {hit['open']}]\n  " + " ".join(hit["text"].split())
        for hit in found["results"]
    )
    return "\n".join(blocks)
