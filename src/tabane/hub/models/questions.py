"""The vectors of questions, which come again while somebody types, pages and filters."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from tabane.messages import say
from tabane.search.embedding.cached import key
from tabane.search.embedding.embedder import NoModel, clean

Answer = bytes | NoModel


class QueryVectors:
    """A cache of ``most`` vectors. The same question at the same time is asked once."""

    def __init__(self, embed: Callable[[str, str], Awaitable[Answer]], most: int) -> None:
        self._embed, self._most = embed, most
        self._known: OrderedDict[bytes, bytes] = OrderedDict()
        self._asked: dict[bytes, asyncio.Task[Answer]] = {}

    def __len__(self) -> int:
        return len(self._known)

    async def ask(self, model: str, text: str) -> Answer:
        """The vector; what is no vector is not kept. A caller who leaves takes nobody's answer along."""
        name = key(model, "query", clean(text))
        known = self._known.get(name)
        if known is not None:
            self._known.move_to_end(name)
            return known
        task = self._asked.get(name)
        if task is None:
            task = self._asked[name] = asyncio.create_task(self._ask(name, model, text))
        await asyncio.wait({task})
        return NoModel(say("The embedding process is being ended.")) if task.cancelled() else task.result()

    async def close(self) -> None:
        """Give up what is being asked."""
        tasks = list(self._asked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, name: bytes, model: str, text: str) -> Answer:
        try:
            found = await self._embed(model, text)
        finally:
            del self._asked[name]
        if isinstance(found, bytes):
            self._known[name] = found
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        return found
