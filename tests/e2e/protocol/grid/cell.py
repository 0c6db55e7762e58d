"""One cell of the grid: a kind of client, and a kind of server behind the hub."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from mcp import Client
from pydantic import BaseModel

from tests.harness.official_client import KINDS, MODES, Era, GridHub, Kind, over_http, over_stdio
from tests.harness.servers.both_eras import Upstream

Way = Literal["stdio", "http"]

OF_AN_ERA = frozenset({"resultType", "ttlMs", "cacheScope", "nextCursor"})
"""Members of results that 2026-07-28 has and others do not, or that are a hop's own."""


@dataclass(frozen=True)
class Cell:
    """``era`` and ``way`` are the client's, ``kind`` the server's."""

    era: Era
    way: Way
    kind: Kind

    def __str__(self) -> str:
        return f"{self.era}-{self.way}-to-{self.kind.era}-{self.kind.transport}"

    @property
    def within(self) -> bool:
        """Whether both are of one era, so that questions can be put."""
        return self.era == self.kind.era

    def name(self, name: str) -> str:
        """The hub's name of a tool or prompt of the server."""
        return f"{self.kind.name}__{name}"

    def own(self, path: str) -> str:
        """A resource that the server alone has."""
        return f"grid://{self.kind.name}/{path}"

    @property
    def common(self) -> str:
        """The hub's name of the resource that every server has under the same URI."""
        return f"tabane://upstream/{self.kind.name}/{quote('grid://common/text', safe='')}"

    def client(
        self, here: GridHub, mode: str = "full", **options: Any
    ) -> AbstractAsyncContextManager[Client]:
        """A client of the hub."""
        if self.way == "stdio":
            return over_stdio(here, self.era, mode, **options)
        return over_http(f"{here.url}/{mode}", self.era, here.token, **options)

    @asynccontextmanager
    async def direct(self, here: GridHub, **options: Any) -> AsyncIterator[Client]:
        """A client of the same server without any hub, in this process."""
        server = Upstream(self.kind.name, str(here.folder / "direct.marks")).server()
        async with Client(server, mode=MODES[self.kind.era], **options) as client:
            yield client


CELLS = [Cell(era, way, kind) for era in ("legacy", "modern") for way in ("stdio", "http") for kind in KINDS]  # type: list[Cell]


def plain(value: Any) -> Any:
    """What a result says, whatever the era it came in: without envelope and the stamps of servers."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: plain(item) for key, item in value.items() if key not in OF_AN_ERA}
    meta = kept.get("_meta")
    if isinstance(meta, dict):
        kept["_meta"] = {key: item for key, item in meta.items() if not key.startswith("io.modelcontext")}
        if not kept["_meta"]:
            del kept["_meta"]
    return kept


async def pages(fetch: Callable[..., Awaitable[Any]], key: str) -> list[Any]:
    """All items of a list, page by page. A list that gives a cursor twice fails."""
    items: list[Any] = []
    seen: set[str] = set()
    cursor: str | None = None
    while True:
        page = await fetch(cursor=cursor)
        items += getattr(page, key)
        cursor = page.next_cursor
        if cursor is None:
            return items
        assert cursor not in seen
        seen.add(cursor)
