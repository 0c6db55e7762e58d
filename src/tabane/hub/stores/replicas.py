"""Replicas of the collections of a database: one file a collection in the home, which may be deleted."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tabane.search.engine import Collection
from tabane.search.records import Shape
from tabane.settings.files import private_folder

if TYPE_CHECKING:
    from tabane.engine.collection_copying import ReplicationFeed
    from tabane.engine.collection_replica import CollectionReplica, ReplicatedCollection
    from tabane.engine.embedded.collection import StoredCollection
    from tabane.engine.embedded.store import Store


class ReplicaFiles:
    """The files of the replica of one collection."""

    def __init__(self, folder: Path, name: str, shape: Shape) -> None:
        self._folder, self._name, self._shape = folder, name, shape
        self._store: Store | None = None

    async def is_there(self, *, vectors: bool) -> bool:
        """Return whether the files exist."""
        names = {path.name for path in await asyncio.to_thread(self._paths)}
        older = f"{self._name}.vectors.db"  # taken over when the replica is opened
        held = older in names or any(name.endswith(".vec") for name in names)
        return f"{self._name}.db" in names and (held or not vectors)

    async def opened(self) -> StoredCollection:
        """Return the collection in the files, opened again. Raises StoreError."""
        from tabane.engine.embedded.lexical.lexical_index import open_lexical
        from tabane.engine.embedded.store import Store

        await self.close()
        private_folder(self._folder, parents=False)
        self._store = await Store.open(str(self._folder), self._name, lexical=open_lexical)
        return await self._store.collection(self._shape)

    async def emptied(self) -> StoredCollection:
        """Delete the files, and return a new collection. Raises StoreError."""
        await self.close()
        await asyncio.to_thread(self._delete)
        return await self.opened()

    def _paths(self) -> list[Path]:
        return list(self._folder.glob(f"{self._name}.*"))

    def _delete(self) -> None:
        for path in self._paths():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    async def close(self) -> None:
        """Close the files. A second call does nothing."""
        store, self._store = self._store, None
        if store is not None:
            await store.close()


class OpenReplica(NamedTuple):
    """A replica, its files, and the collection that is read from it."""

    replica: CollectionReplica
    files: ReplicaFiles
    collection: ReplicatedCollection

    async def close(self) -> None:
        await self.replica.close()
        await self.files.close()


class Replicas:
    """The replicas of a hub, each made with the first use of its collection.

    ``folder`` has their files. ``patience``: seconds that a request waits for the last changes, if not the
    usual ones.
    """

    def __init__(self, folder: Path, patience: float | None = None) -> None:
        self._folder, self._patience = folder, patience
        self._open: dict[tuple[str, str], OpenReplica] = {}

    async def replicated(
        self, domain: str, truth: Collection, feed: ReplicationFeed, source: str
    ) -> ReplicatedCollection:
        """Return the collection, read from its replica. ``source`` names the collection and its database."""
        place = (domain, truth.shape.name)
        found = self._open.get(place)
        if found is not None and found.collection.truth is truth:
            return found.collection
        if found is not None:  # its shape has changed
            del self._open[place]
            await found.close()
        opened = self._open[place] = self._opened(f"{domain}-{truth.shape.name}", truth, feed, source)
        opened.replica.start()
        return opened.collection

    def _opened(self, name: str, truth: Collection, feed: ReplicationFeed, source: str) -> OpenReplica:
        # A hub starts without numpy and the engine.
        from tabane.engine.collection_replica import (
            PATIENCE,
            CollectionReplica,
            ReplicaMarkFile,
            ReplicatedCollection,
        )

        files = ReplicaFiles(self._folder, name, replace(truth.shape, spaces=()))
        marks = ReplicaMarkFile(self._folder / f"{name}.mark")
        patience = PATIENCE if self._patience is None else self._patience
        replica = CollectionReplica(source, feed, files, marks, patience)
        return OpenReplica(replica, files, ReplicatedCollection(truth, replica))

    def report(self) -> list[dict[str, Any]]:
        """Return the state of each replica that was used."""
        return [
            {"domain": domain, "collection": name, **each.replica.report()}
            for (domain, name), each in self._open.items()
        ]

    async def close(self) -> None:
        """End following, and close the files. A second call does nothing."""
        replicas, self._open = self._open, {}
        for each in replicas.values():
            await each.close()
