"""The tools of all servers, as a search source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tabane.gateway.gateway import Gateway
from tabane.gateway.tools.disclosure import signature
from tabane.gateway.tools.index import ToolQuery
from tabane.gateway.tools.tool import Tool
from tabane.messages import Message
from tabane.operations import Caller
from tabane.search.source import HitCard, Reference, SearchAnswer, SearchHit, SearchRequest

MOST_TOOLS = 50
"""Tools that one search finds."""


@dataclass(frozen=True, slots=True)
class ToolAnswer(SearchAnswer[Tool]):
    """The best tools, and how many match in all.

    ``nearest``: no tool fits, and these are the nearest. ``waiting`` are servers that are starting,
    ``failed`` says why others have listed nothing.
    """

    total: int = 0
    nearest: Sequence[str] = ()
    waiting: Sequence[str] = ()
    failed: Mapping[str, Message] = field(default_factory=dict)


class ToolSource:
    """Tools found by the words of their definitions, as the index of the catalog ranks them."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def search(self, caller: Caller, request: SearchRequest) -> ToolAnswer:
        return await self.find(caller, ToolQuery(request.query, min(request.limit, MOST_TOOLS)))

    async def find(self, caller: Caller, request: ToolQuery) -> ToolAnswer:
        """Return the best tools. Waits at most two seconds for servers that never listed theirs."""
        unlisted = await self._gateway.wait_listed(caller)
        ranked = await self._gateway.search(request)
        catalogue, asked = self._gateway.catalogue, request.server
        hits = [SearchHit(tool, hit.score) for hit in ranked.hits if (tool := catalogue.get(hit.alias))]
        failed = {name: why for name, why in unlisted.failed.items() if asked in (None, name)}
        waiting = [name for name in unlisted.starting if asked in (None, name)]
        warning = next(iter(failed.values()), None)
        return ToolAnswer(hits, (), warning, ranked.total, ranked.nearest, waiting, failed)

    def card(self, item: Tool) -> HitCard:
        return HitCard(item.alias, signature(item), "", Reference("describe_tools", {"names": [item.alias]}))
