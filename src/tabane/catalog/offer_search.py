"""Search of prompts, resources, resource templates and skills, ranked as tools are.

The index is in memory, and is made with the first such search: only clients that search for tools need it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tabane.catalog.gateway import Gateway
from tabane.catalog.offers.found_offer import FoundOffer, prompt_offer, resource_offers, skill_offers
from tabane.catalog.tool_meaning import ToolMeaning
from tabane.catalog.tools.index import ToolIndex
from tabane.catalog.tools.queries import ToolHits, ToolQuery
from tabane.catalog.visibility import may_find, prompt_target, resource_target
from tabane.messages import Lang, say
from tabane.operations import Caller
from tabane.workers.time_slices import TimeSlices

if TYPE_CHECKING:
    from tabane.catalog.tools.tool import Tool
    from tabane.catalog.tools.vector_table import ToolGist

KINDS = ("prompts", "resources", "skills")


class OfferAnswer(Struct, frozen=True):
    """What was found: rows for programs, and the text for a model."""

    results: list[dict[str, Any]]
    total: int
    text: str


class OfferSearch:
    """Finds what servers offer besides tools. A caller finds what it may use."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._offers: dict[str, FoundOffer] = {}
        self._versions: tuple[int, int, int] | None = None
        self._index: ToolIndex | None = None
        self._busy = asyncio.Lock()
        self._meaning = ToolMeaning(gateway.embedding, _OfferVectors(self))

    async def search(
        self, caller: Caller, queries: Sequence[str], kind: str, limit: int, server: str | None
    ) -> OfferAnswer:
        """Return the best offers of a kind, or of all kinds, for the queries; each is found once."""
        await asyncio.gather(
            *(self._gateway.fresh(each, caller) for each in ("prompts", "resources", "skills"))
        )
        await self._refresh()
        names = await self._visible(caller)
        found: dict[str, float] = {}
        total = 0
        for query in queries:
            asked = await self._meaning.of_query(query)
            category = None if kind == "all" else kind
            wanted = ToolQuery(query, limit, server, category=category, names=names)
            hits: ToolHits = await self.with_index(_searching(wanted, asked.vectors))
            total = max(total, hits.total)
            for key, score in _scored(hits):
                found[key] = max(found.get(key, 0.0), score)
        best = sorted(found, key=lambda key: (-found[key], key))[:limit]
        chosen = [(self._offers[key], found[key]) for key in best if key in self._offers]
        rows = [offer.row() | {"score": round(score, 3)} for offer, score in chosen]
        return OfferAnswer(rows, total, _text([offer for offer, _ in chosen], total, kind, caller.lang))

    async def with_index(self, work: Callable[[ToolIndex], Any]) -> Any:
        """Run work on the index in a thread, one at a time."""
        async with self._busy:
            return await asyncio.to_thread(self._worked, work)

    def _worked(self, work: Callable[[ToolIndex], Any]) -> Any:
        if self._index is None:
            self._index = ToolIndex(":memory:")
        return work(self._index)

    async def _refresh(self) -> None:
        """Index what servers offer now, if it has changed."""
        skills = self._gateway.skills
        versions = (self._gateway.prompts.version, self._gateway.resources.version, skills.version)
        if versions == self._versions:
            return
        await skills.read()
        offers, turns = {}, TimeSlices()
        for offer in self._all():
            await turns.pause()
            offers[offer.key] = offer
        tools: dict[str, list[Tool]] = {}
        for offer in offers.values():
            tools.setdefault(offer.server, []).append(offer.as_tool())
        await self.with_index(lambda index: _replace_all(index, tools))
        self._offers, self._versions = offers, versions
        self._meaning.changed()

    def _all(self) -> Iterable[FoundOffer]:
        prompts, resources = self._gateway.prompts, self._gateway.resources
        for name in prompts.names:
            if (prompt := prompts.find(name)) is not None:
                yield prompt_offer(prompt, prompt_target(prompt))
        yield from resource_offers(resources.template_items(), resource_target, templates=True)
        yield from resource_offers(resources.items(), resource_target)
        # Last: what a server says of a skill takes precedence over what it says of the file.
        yield from skill_offers(self._gateway.skills.items(), resource_target)

    async def _visible(self, caller: Caller) -> frozenset[str] | None:
        """Return the keys of the offers that the caller may find; None for all."""
        if caller.access.everything:
            return None
        found, turns = [], TimeSlices()
        for key, offer in list(self._offers.items()):
            await turns.pause()
            if may_find(caller, offer.target):
                found.append(key)
        return frozenset(found)


class _OfferVectors:
    """Vectors in the index of offers."""

    def __init__(self, search: OfferSearch) -> None:
        self._search = search

    async def missing(self, model: str, most: int) -> list[ToolGist]:
        found: list[ToolGist] = await self._search.with_index(
            lambda index: index.vectors.missing(model, most)
        )
        return found

    async def put(self, model: str, vectors: Sequence[tuple[bytes, bytes]]) -> None:
        await self._search.with_index(lambda index: index.vectors.put(model, vectors))

    async def clear(self, models: Sequence[str]) -> None:
        await self._search.with_index(lambda index: index.vectors.clear(models))


def _replace_all(index: ToolIndex, tools: dict[str, list[Tool]]) -> None:
    for server in index.servers() - tools.keys():
        index.remove(server)
    for server, listed in tools.items():
        index.replace(server, listed)


def _searching(query: ToolQuery, vectors: Mapping[str, Sequence[bytes]]) -> Callable[[ToolIndex], ToolHits]:
    return lambda index: index.search(query, vectors)


def _scored(hits: ToolHits) -> Iterable[tuple[str, float]]:
    return ((hit.alias, hit.score) for hit in hits.hits)


def _text(found: Sequence[FoundOffer], total: int, kind: str, lang: Lang) -> str:
    """Return the lines of what was found, and how a model uses it."""
    if not found:
        what = "prompts, resources and skills" if kind == "all" else kind
        return say("No {what} match.", what=what).render(lang)
    lines = [say("{shown} of {total}:", shown=len(found), total=total).render(lang)]
    lines += [offer.line() for offer in found]
    if any(offer.kind == "prompts" for offer in found):
        lines.append('Prompt: call_tool {"name": "get_prompt", "arguments": {"name": …, "arguments": {…}}}')
    if any(offer.kind != "prompts" for offer in found):
        lines.append('Read: call_tool {"name": "read_resource", "arguments": {"uri": …}}')
    return "\n".join(lines)
