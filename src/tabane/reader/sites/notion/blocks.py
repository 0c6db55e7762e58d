"""The blocks of a page with those within them, as far as they are to be had."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.sites.notion.api import Api, Block, Listing

DEPTH = 10
"""Levels of blocks within blocks."""

REQUESTS = 120
"""Requests for one page: at three a second that is less than a read may take."""

AT_ONCE = 3

# Pages of their own, which are named and not read.
_CLOSED = frozenset({"child_page", "child_database"})


@dataclass(slots=True)
class Node:
    """A block and what is within it."""

    block: Block
    inner: list[Node] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return str(self.block.get("type", ""))

    @property
    def content(self) -> Block:
        """What is said of it under the name of its own kind."""
        found = self.block.get(self.kind)
        return found if isinstance(found, dict) else {}


class Gathering:
    """Reads the blocks of one page, level by level, so that what is cut off is what lies deepest."""

    def __init__(self, api: Api) -> None:
        self._api, self._left = api, REQUESTS
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._unread = 0
        self._deep = 0
        self._why: ReadError | None = None

    async def of_page(self, id_: str) -> tuple[list[Node], tuple[Message, ...]]:
        """All blocks, with a word on those that are missing. Raises ReadError where there is none at all."""
        nodes = [Node(block) for block in await self._children(id_)]
        level = nodes
        for _ in range(DEPTH - 1):
            level = await self._below(level)
            if not level:
                break
        self._deep = sum(_has_more(node) for node in level)
        return nodes, tuple(self._warnings())

    async def _below(self, level: list[Node]) -> list[Node]:
        """The next level, every block hung where it belongs."""
        opened = [node for node in level if _has_more(node)]
        await asyncio.gather(*(self._open(node) for node in opened))
        return [inner for node in opened for inner in node.inner]

    async def _open(self, node: Node) -> None:
        original = node.content.get("synced_from")
        id_ = original.get("block_id") if isinstance(original, dict) else None
        try:
            blocks = await self._children(str(id_ or node.block.get("id", "")))
        except ReadError as error:
            self._unread, self._why = self._unread + 1, error
            return
        node.inner = [Node(block) for block in blocks]

    async def _children(self, id_: str) -> list[Block]:
        """All blocks right below one, page by page; those so far where the next is not to be had."""
        found: list[Block] = []
        cursor: str | None = None
        while True:
            if self._left <= 0:
                self._unread += 1
                return found
            self._left -= 1
            try:
                async with self._turns:
                    part = await self._api.get(
                        f"blocks/{id_}/children", Listing, page_size=100, start_cursor=cursor
                    )
            except ReadError as error:
                if not found:
                    raise
                self._unread, self._why = self._unread + 1, error
                return found
            found += part.results
            cursor = part.next_cursor
            if not part.has_more or not cursor:
                return found

    def _warnings(self) -> list[Message]:
        warnings = []
        if self._why is not None:
            warnings.append(
                say(
                    "{count} parts of the page could not be read: {reason}",
                    count=self._unread,
                    reason=self._why.message,
                )
            )
        elif self._unread:
            warnings.append(
                say(
                    "The page has more parts than are read at once: {count} are left out.", count=self._unread
                )
            )
        if self._deep:
            warnings.append(say("Blocks more than {depth} levels deep are left out.", depth=DEPTH))
        return warnings


def _has_more(node: Node) -> bool:
    return bool(node.block.get("has_children")) and node.kind not in _CLOSED
