"""The store of one domain (posts, documents, the hub's own data, a cache): collections that share a file."""

from __future__ import annotations

import asyncio
import importlib
import os
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tabane.engine.embedded.clean_points import PAGES
from tabane.engine.embedded.database import Database
from tabane.engine.embedded.migrations import MIGRATIONS, Migration
from tabane.engine.embedded.vector_cache import PersistentVectorCache
from tabane.search.records import Shape

if TYPE_CHECKING:
    from tabane.engine.embedded.collection import LexicalFollower, StoredCollection
    from tabane.engine.embedded.collection_table import CollectionTable
    from tabane.engine.embedded.vector_process import VectorSearchProcess
    from tabane.engine.embedded.vectors.vector_database import VectorDatabase

# Makes the lexical index of a table, in its folder.
OpenLexicalIndex = Callable[[str, "CollectionTable"], Awaitable["LexicalFollower"]]

# Makes the process that searches the vectors of a collection, None for none.
MakeSearchProcess = Callable[[], "VectorSearchProcess | None"]


class Store:
    """One domain's file and its collections, each opened once. Made by :meth:`open`."""

    def __init__(
        self,
        database: Database,
        lexical: OpenLexicalIndex | None,
        pages: int = PAGES,
        searching: MakeSearchProcess | None = None,
    ) -> None:
        self.database = database
        self._lexical = lexical
        self._pages = pages
        self._searching = searching
        self._collections: dict[str, StoredCollection] = {}
        self._vectors: VectorDatabase | None = None  # opened with the first collection that has some
        self._kept: PersistentVectorCache | None = None
        self._opening = asyncio.Lock()
        self._opening_vectors = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        folder: str,
        domain: str,
        *,
        lexical: OpenLexicalIndex | None = None,
        migrations: Sequence[Migration] = MIGRATIONS,
        pages: int = PAGES,
        searching: MakeSearchProcess | None = None,
    ) -> Store:
        """Open ``<folder>/<domain>.db``, created if it is new. Raises :class:`~tabane.errors.StoreError`.

        ``pages``: number of changed pages of a file after which a checkpoint is made. ``searching`` makes the
        process that searches vectors of a collection; it starts under load only.
        """
        path = os.path.join(folder, f"{domain}.db")
        database = await asyncio.to_thread(Database.open, path, migrations, pages=pages)
        return cls(database, lexical, pages, searching)

    async def collection(self, shape: Shape) -> StoredCollection:
        """Return the collection of that shape, made if it is new. The same one at every call.

        Spaces of the shape are made if they are not there; those that the shape does not name stay.
        Raises BadArguments if one of them is there with another dimension or model.
        """
        async with self._opening:
            found = self._collections.get(shape.name)
            if found is None or not _same(found.shape, shape):
                if found is not None:
                    await found.close()
                found = self._collections[shape.name] = await self._opened(shape)
        for space in shape.spaces:
            await found.add_space(space)
        return found

    async def _opened(self, shape: Shape) -> StoredCollection:
        table = await self.table(shape)
        from tabane.engine.embedded.collection import StoredCollection
        from tabane.engine.embedded.vector_process import search_process

        process = (self._searching or search_process)()
        if self._lexical is None:
            return StoredCollection(table, process=process)
        folder = os.path.splitext(self.database.path)[0] + f".{shape.name}"
        return StoredCollection(table, await self._lexical(folder, table), process)

    async def table(self, shape: Shape) -> CollectionTable:
        """Open the table of a collection, without its index and maintenance. The caller closes it."""
        # numpy comes with the first collection: a hub that only forwards does without. Importing it takes
        # a fifth of a second, which is no business of the event loop's.
        await asyncio.to_thread(importlib.import_module, "tabane.engine.embedded.collection")
        from tabane.engine.embedded.collection_table import CollectionTable

        return await CollectionTable.open(self.database, shape, self._vector_file)

    async def _vector_file(self) -> VectorDatabase:
        async with self._opening_vectors:
            if self._vectors is None:
                from tabane.engine.embedded.vectors.vector_database import VectorDatabase, path_of

                path = path_of(self.database.path)
                self._vectors = await asyncio.to_thread(
                    VectorDatabase.open, path, after_crash=self.database.recovered, pages=self._pages
                )
                self.database.accompany(self._vectors)
            return self._vectors

    async def kept(self, most: int = 1_000_000_000) -> PersistentVectorCache:
        """Return the cache of computed vectors. Every call returns the same one.

        ``most`` is its limit in bytes. The value of the first call counts.
        """
        async with self._opening:
            if self._kept is None:
                self._kept = await PersistentVectorCache.open(self.database, most)
            return self._kept

    async def check(self) -> list[str]:
        """Return the names of open collections whose columns or index do not agree with their records.

        Raises StoreCorrupt if the file itself is damaged. Reads everything; used by checks only.
        """
        await self.database.examine()
        if self._vectors is not None:
            await asyncio.to_thread(self._vectors.examine)
        return [name for name, each in self._collections.items() if not await each.agrees()]

    async def mend(self, name: str) -> StoredCollection:
        """Open the collection of that name again, with all derived data rebuilt. Return it."""
        async with self._opening:
            found = self._collections.pop(name)
            await found.close()
            await self.database.run(found.table.truth.unseal)
            await asyncio.to_thread(shutil.rmtree, found.table.vector_folder, ignore_errors=True)
            found = self._collections[name] = await self._opened(found.shape)
            if found.lexical is not None:
                await found.lexical.remake()
            return found

    async def close(self) -> None:
        """Close all collections and the file. A second call does nothing."""
        for collection in self._collections.values():
            await collection.close()
        self._collections.clear()
        await self.database.close()
        if self._vectors is not None:
            vectors, self._vectors = self._vectors, None
            await asyncio.to_thread(vectors.close)


def _same(one: Shape, other: Shape) -> bool:
    """Return whether texts and fields are; spaces come and go."""
    return replace(one, spaces=()) == replace(other, spaces=())
