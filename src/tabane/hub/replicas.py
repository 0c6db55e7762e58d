"""Local replicas of the collections of a database: one file each in the home, which may be deleted."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabane.settings.files import private_folder

if TYPE_CHECKING:
    from tabane.engines.collection_replica import CollectionReplica
    from tabane.engines.replicated_collection import ReplicatedCollection
    from tabane.engines.replication import ReplicationFeed
    from tabane.search.engine import Collection
    from tabane.search.records import Shape
    from tabane.store.collection import StoredCollection
    from tabane.store.store import Store

FOLDER = "replica"
"""Under the home: files of the embedded engine, and the mark of each replica."""


class ReplicaFiles:
    """The files of the replica of one collection."""

    def __init__(self, folder: Path, name: str, shape: Shape) -> None:
        self._folder, self._name, self._shape = folder, name, shape
        self._store: Store | None = None

    async def is_there(self, *, vectors: bool) -> bool:
        names = [f"{self._name}.db", *([f"{self._name}.vectors.db"] if vectors else [])]
        return await asyncio.to_thread(lambda: all((self._folder / name).exists() for name in names))

    async def opened(self) -> StoredCollection:
        from tabane.store.lexical.lexical_index import open_lexical
        from tabane.store.store import Store

        await self.close()
        private_folder(self._folder, parents=False)
        self._store = await Store.open(str(self._folder), self._name, lexical=open_lexical)
        return await self._store.collection(self._shape)

    async def emptied(self) -> StoredCollection:
        await self.close()
        await asyncio.to_thread(self._delete)
        return await self.opened()

    def _delete(self) -> None:
        for path in self._folder.glob(f"{self._name}.*"):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    async def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            await store.close()


class Replicas:
    """The replicas of a hub, each made with the first use of its collection."""

    def __init__(self, home: Path, patience: float | None = None) -> None:
        self._folder, self._patience = home / FOLDER, patience
        self._open: dict[tuple[str, str], tuple[CollectionReplica, ReplicaFiles]] = {}
        self._known: dict[tuple[str, str], ReplicatedCollection] = {}

    def replicated(
        self, domain: str, truth: Collection, feed: ReplicationFeed, source: str
    ) -> ReplicatedCollection:
        """Return the collection, read from its replica. ``source`` names the collection in its database."""
        from dataclasses import replace

        from tabane.engines.collection_replica import PATIENCE, CollectionReplica
        from tabane.engines.replica_mark import ReplicaMarkFile
        from tabane.engines.replicated_collection import ReplicatedCollection

        shape = truth.shape
        place = (domain, shape.name)
        if place not in self._known:
            name = f"{domain}-{shape.name}"
            files = ReplicaFiles(self._folder, name, replace(shape, spaces=()))
            patience = PATIENCE if self._patience is None else self._patience
            marks = ReplicaMarkFile(self._folder / f"{name}.mark")
            replica = CollectionReplica(source, feed, files, marks, patience)
            replica.start()
            self._open[place] = (replica, files)
            self._known[place] = ReplicatedCollection(truth, replica)
        return self._known[place]

    def report(self) -> list[dict[str, Any]]:
        """Return the state of each replica that was used."""
        return [
            {"domain": domain, "collection": name, **replica.report()}
            for (domain, name), (replica, _) in self._open.items()
        ]

    async def close(self) -> None:
        """End following, and close the files. A second call does nothing."""
        replicas, self._open = self._open, {}
        self._known.clear()
        for replica, files in replicas.values():
            await replica.close()
            await files.close()
