"""Search over every source: each kind is searched separately, and the rankings are fused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct

from tabane.errors import Forbidden, TabaneError
from tabane.messages import Lang, Message, say
from tabane.operations import Caller, CallTarget, Face, Operation, Privilege
from tabane.search.fusion import reciprocal_ranks
from tabane.search.source import SearchHit, SearchRequest, SearchSource, ShownItem, shown
from tabane.wire import json

log = logging.getLogger(__name__)

SearchKind = Literal["posts", "documents", "pages", "tools", "docs"]
KINDS: tuple[SearchKind, ...] = ("posts", "documents", "pages", "tools", "docs")


_READING: Mapping[SearchKind, CallTarget] = {
    "posts": CallTarget("search_similar", source="posts", kind="operation", changes=False),
    "documents": CallTarget("search_documents", source="documents", kind="operation", changes=False),
    "pages": CallTarget("list_pages", source="pages", kind="operation", changes=False),
    "tools": CallTarget("search_tools", source="hub", kind="operation", changes=False),
    "docs": CallTarget("get_documentation", source="docs", kind="operation", changes=False),
}
"""The operation that a caller has to be allowed to use, to search things of each kind."""


class SearchEverything(Struct, frozen=True, forbid_unknown_fields=True, rename={"places": "in"}):
    """``places``: the kinds of things to look among, all of them where none is named."""

    query: Annotated[str, Meta(min_length=1, max_length=2000)]
    places: Annotated[list[SearchKind], Meta(max_length=8)] | None = None
    top_k: Annotated[int, Meta(ge=1, le=100)] = 10


class _KindAnswer(NamedTuple):
    kind: SearchKind
    hits: Sequence[SearchHit[ShownItem]]
    warning: Message | None = None
    error: TabaneError | None = None


class EverythingSearch:
    """The operation search_everything over sources by kind."""

    def __init__(self, sources: Mapping[SearchKind, SearchSource[Any]]) -> None:
        self._sources = sources

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
                source="hub",
            )
        ]

    async def search(self, caller: Caller, params: SearchEverything) -> dict[str, Any]:
        """Return hits of all kinds in one order, with the scores of RRF; one kind alone keeps its own scores.

        A kind that fails does not affect the others: if any kind answered, the failure is a warning.
        """
        kinds = [
            kind
            for kind in dict.fromkeys(params.places or KINDS)
            if kind in self._sources and caller.access.allows(_READING[kind])
        ]
        answers = await asyncio.gather(*(self._answer(kind, caller, params) for kind in kinds))
        if not kinds:
            raise Forbidden(say("Your key may not search any of these. Ask the hub's owner for permission."))
        failed = [answer for answer in answers if answer.error is not None]
        if answers and len(failed) == len(answers):
            assert failed[0].error is not None
            raise failed[0].error
        hits = _ranked(answers)[: params.top_k]
        found: dict[str, Any] = {"results": [_row(kind, hit, caller.face) for kind, hit in hits]}
        told = [answer.warning for answer in answers] + [each.error.message for each in failed if each.error]
        warnings = list(dict.fromkeys(warning for warning in told if warning))
        if warnings:
            found["warning"] = " ".join(warning.render(caller.lang) for warning in warnings)
        return found

    async def _answer(self, kind: SearchKind, caller: Caller, params: SearchEverything) -> _KindAnswer:
        try:
            answer = await shown(self._sources[kind], caller, SearchRequest(params.query, params.top_k))
        except TabaneError as error:
            log.warning("%s cannot be searched: %s", kind, error)
            return _KindAnswer(kind, (), error=error)
        return _KindAnswer(kind, answer.hits, answer.warning)


def _ranked(answers: Sequence[_KindAnswer]) -> list[tuple[SearchKind, SearchHit[ShownItem]]]:
    if len(answers) == 1:
        return [(answers[0].kind, hit) for hit in answers[0].hits]
    by_name = {(each.kind, hit.item.card.key): hit for each in answers for hit in each.hits}
    fused = reciprocal_ranks([[(each.kind, hit.item.card.key) for hit in each.hits] for each in answers])
    return [(name[0], replace(by_name[name], score=score)) for name, score in fused]


def _row(kind: SearchKind, hit: SearchHit[ShownItem], face: Face) -> dict[str, Any]:
    card, passage = hit.item
    row = {
        "kind": kind, "key": card.key, "title": card.title, "text": passage.text,
        "marks": [list(mark) for mark in passage.marks], "open": card.reference.row(face),
        "score": round(hit.score, 4),
    }  # fmt: skip
    return row if hit.cosine is None else {**row, "cosine": round(hit.cosine, 4)}


def as_text(found: dict[str, Any], lang: Lang) -> str:
    """Format the hits for a reader: title, how to open it, passage."""
    warning = [f"⚠ {found['warning']}"] if "warning" in found else []
    if not found["results"]:
        return "\n".join([*warning, say("Nothing was found.").render(lang)])
    head = say(
        "{count} {count:result|results}. To open one, call the tool in its brackets:",
        count=len(found["results"]),
    )
    blocks = (
        f"{hit['title']}  [{hit['kind']}: {_called(hit['open'])}]\n  " + " ".join(hit["text"].split())
        for hit in found["results"]
    )
    return "\n".join([*warning, head.render(lang), *blocks])


def _called(reference: dict[str, Any]) -> str:
    """Format a call: ``get_post {"post_id":"5"}``."""
    name, arguments = reference.values()
    return f"{name} {json.encode(arguments).decode()}"
