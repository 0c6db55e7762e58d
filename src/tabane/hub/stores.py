"""The stores of a hub, each opened when it is first needed and closed at the end."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from tabane.settings.files import private_folder

if TYPE_CHECKING:
    from tabane.search.records import Shape
    from tabane.store.collection import Collection
    from tabane.store.store import Store

FOLDER = "store"
"""Under the home: a file a domain, and a folder of index beside it for each collection."""


class Stores:
    """One store a domain. A hub that only forwards never opens any, nor imports what they need."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER
        self._open: dict[str, Store] = {}
        self._opening = asyncio.Lock()

    async def collection(self, domain: str, shape: Shape) -> Collection:
        """A collection of that domain. Raises StoreError that says what to do where it cannot be opened."""
        async with self._opening:
            if domain not in self._open:
                self._open[domain] = await self._opened(domain)
        return await self._open[domain].collection(shape)

    async def _opened(self, domain: str) -> Store:
        from tabane.store.lexical.lexical import open_lexical
        from tabane.store.store import Store

        private_folder(self._folder)
        return await Store.open(str(self._folder), domain, lexical=open_lexical)

    async def close(self) -> None:
        """Close every store; what was acknowledged is on disk already."""
        stores, self._open = list(self._open.values()), {}
        for store in stores:
            with contextlib.suppress(Exception):
                await store.close()
