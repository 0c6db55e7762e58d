"""The engine on PostgreSQL of a hub: one database, opened on first use, with a store for each domain.

The settings name the database and its index of vectors. Local replicas, one file a collection in the home,
may be deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit

from tabane.errors import ConfigurationError, StoreError, TabaneError
from tabane.extras import extra_command
from tabane.messages import say
from tabane.servers.variables import variables_of
from tabane.settings import Settings
from tabane.settings.addresses import check_engine
from tabane.settings.files import private_folder

if TYPE_CHECKING:
    from tabane.engine.candidate_index import CandidateIndex
    from tabane.engine.collection_copying import ReplicationFeed
    from tabane.engine.collection_replica import CollectionReplica, ReplicatedCollection
    from tabane.engine.embedded.collection import StoredCollection
    from tabane.engine.embedded.store import Store
    from tabane.engine.team.postgres.database import PostgresDatabase
    from tabane.engine.team.postgres.outside_index import IndexFilling
    from tabane.engine.team.postgres.store import PostgresStore
    from tabane.search.engine import Collection
    from tabane.search.records import Shape

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
        from tabane.engine.embedded.lexical.lexical_index import open_lexical
        from tabane.engine.embedded.store import Store

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

    ``patience``: seconds that a request waits for the last changes, if not the usual ones.
    """

    def __init__(self, home: Path, patience: float | None = None) -> None:
        self._folder, self._patience = home / FOLDER, patience
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


EngineAddress = Callable[[], str]
"""Returns the URL of the database with its password; empty: none is used. Raises ConfigurationError."""


IndexOpener = Callable[[], "CandidateIndex"]
"""Returns the index outside of the database, which is not connected yet. Raises ConfigurationError."""

_PATIENCE = 5  # seconds that a report waits for a connection


class PostgresEngine:
    """The stores of one database. The modules are imported when it is opened.

    ``indexed_from``: number of vectors from which they have an approximate index; None: they have none.
    ``index``: opens an index outside of the database, which has the vectors instead.
    """

    def __init__(
        self, address: EngineAddress, indexed_from: int | None = None, index: IndexOpener | None = None
    ) -> None:
        self._address, self._indexed_from, self._index = address, indexed_from, index
        self._filling: IndexFilling | None = None
        self._database: PostgresDatabase | None = None
        self._stores: dict[str, PostgresStore] = {}
        self._opening = asyncio.Lock()

    def is_open(self, domain: str) -> bool:
        return domain in self._stores

    async def store(self, domain: str) -> PostgresStore:
        """Return the store of a domain. Raises StoreError and ConfigurationError."""
        async with self._opening:
            if domain not in self._stores:
                self._stores[domain] = await self._opened(domain)
            return self._stores[domain]

    async def database(self) -> PostgresDatabase:
        """Return the database itself, for what is no store. Raises StoreError and ConfigurationError."""
        async with self._opening:
            return await self._connected()

    async def report(self) -> dict[str, Any]:
        """Return the place and the versions of the database, or why it cannot be used; within seconds.

        ``indexes``: the approximate indexes of large collections.
        """
        try:
            async with asyncio.timeout(_PATIENCE):
                async with self._opening:
                    found = await self._connected()
                indexes = await self._indexes(found)
                outside = await self._outside(found)
        except TimeoutError:
            return {"state": "unreadable", "error": str(say("the database has not answered yet"))}
        except TabaneError as error:
            return {"state": "unreadable", "error": str(error)}
        versions = found.versions
        return {
            "state": "ok",
            "path": found.place,
            "server": f"PostgreSQL {versions.server}",
            "pgvector": versions.pgvector,
            "indexes": indexes,
            **outside,
        }

    async def _indexes(self, database: PostgresDatabase) -> list[dict[str, Any]]:
        if self._indexed_from is None or self._index is not None:
            return []
        from tabane.engine.team.postgres.vector_table import index_report

        least = self._indexed_from
        return await database.read(lambda connection: index_report(connection, least))

    async def _outside(self, database: PostgresDatabase) -> dict[str, Any]:
        """Return where the index outside is, its state, and how far it is."""
        if self._filling is None:
            return {}
        from tabane.engine.team.postgres.vector_table import follower_report

        link = self._filling.link
        followed = await database.read(lambda connection: follower_report(connection, link.follower))
        found = {"path": link.place, "state": link.state.value, "server": link.server, "followed": followed}
        return {"vector_index": found | ({"error": str(link.problem)} if link.problem else {})}

    async def check(self) -> dict[str, Any]:
        """Return the report after a question to the server, and one to the index."""
        report = await self.report()
        if self._filling is not None:
            with contextlib.suppress(StoreError, TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await self._filling.link.connect()
            report = await self.report()
        if self._database is not None and report["state"] == "ok":
            try:
                await self._database.read(lambda connection: connection.execute("SELECT 1"))
            except StoreError as error:
                return {**report, "state": "unreadable", "error": str(error)}
        return report

    async def _opened(self, domain: str) -> PostgresStore:
        database = await self._connected()
        await asyncio.to_thread(importlib.import_module, "tabane.engine.team.postgres.store")
        from tabane.engine.query_plans import japanese
        from tabane.engine.team.postgres.store import PostgresStore

        return PostgresStore(database, domain, japanese(), self._indexed_from, self._filling)

    async def _connected(self) -> PostgresDatabase:
        if self._database is None:
            address = await asyncio.to_thread(self._address)
            try:
                await asyncio.to_thread(importlib.import_module, "tabane.engine.team.postgres.database")
            except ImportError as error:
                message = say(
                    "the setting engine needs another package. Install it with: {command}",
                    command=extra_command("postgres"),
                )
                raise StoreError(message) from error
            from tabane.engine.team.postgres.database import PostgresDatabase
            from tabane.engine.team.postgres.engine_url import parsed

            database = await PostgresDatabase.open(parsed(address))
            if self._index is not None:
                self._filling = await self._linked(self._index, database)
            self._database = database
        return self._database

    async def _linked(self, index: IndexOpener, database: PostgresDatabase) -> IndexFilling:
        await asyncio.to_thread(importlib.import_module, "tabane.engine.team.postgres.outside_index")
        from tabane.engine.team.postgres.database import IndexTurn
        from tabane.engine.team.postgres.outside_index import IndexFilling, IndexLink

        try:
            link = IndexLink(await asyncio.to_thread(index), self._indexed_from)
        except BaseException:
            await database.close()
            raise
        return IndexFilling(link, IndexTurn(database, link.follower))

    async def close(self) -> None:
        """Finish waiting writes, and close all connections. A second call does nothing."""
        stores, self._stores = self._stores, {}
        for store in stores.values():
            await store.close()
        filling, self._filling = self._filling, None
        if filling is not None:
            await filling.turn.close()
            await filling.link.close()
        database, self._database = self._database, None
        if database is not None:
            await database.close()


def opened_index(address: str) -> CandidateIndex:
    """Return the index at that URL. It connects with its first call. Raises ConfigurationError. Blocks."""
    scheme = urlsplit(address).scheme
    if scheme.startswith("chroma"):
        return _chroma(address)
    if scheme == "milvus":
        importlib.import_module("tabane.engine.team.milvus.index")
        from tabane.engine.team.milvus.index import MilvusIndex
        from tabane.engine.team.milvus.index_url import parsed

        return MilvusIndex(parsed(address))
    from tabane.engine.candidate_index import unreadable_index

    raise unreadable_index()


def _chroma(address: str) -> CandidateIndex:
    importlib.import_module("tabane.engine.team.chroma.index")
    from tabane.engine.team.chroma.index import chroma_index
    from tabane.engine.team.chroma.service import parsed

    return chroma_index(parsed(address))


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def named_engine(settings: Settings, environment: Mapping[str, str]) -> PostgresEngine:
    """Return the database that the setting engine names, which must not be empty. It is not opened yet."""

    def index() -> CandidateIndex:
        address = filled_address(settings.vector_index, settings, environment, "vector_index")
        return opened_index(address)

    return PostgresEngine(
        lambda: filled_address(settings.engine, settings, environment),
        settings.vector_index_from or None,
        index if settings.vector_index else None,
    )


def filled_address(
    address: str, settings: Settings, environment: Mapping[str, str], setting: str = "engine"
) -> str:
    """Return the URL of a database with the values of its variables. Raises ConfigurationError."""
    variables = variables_of(settings, environment)
    whole = address.startswith("${")

    def filled(found: re.Match[str]) -> str:
        value = variables.get(found[1])
        if value is None:
            message = say(
                "{setting} needs the variable {name}, which is not set. Set it with: "
                "tabane secrets set {name}",
                setting=setting,
                name=found[1],
            )
            raise ConfigurationError(message)
        return value if whole else quote(value, safe="")

    return _VARIABLE.sub(filled, address)


class TemporarySchema:
    """A schema with a random name. ``url`` holds the password; ``name`` may be shown."""

    def __init__(self, address: str, settings: Settings, environment: Mapping[str, str]) -> None:
        """Take an address as in the setting engine. Raises ConfigurationError."""
        from tabane.engine.team.postgres.engine_url import parsed

        check_engine(address)
        filled = filled_address(address, settings, environment)
        self.name = f"tabane_demo_{token_hex(4)}"
        self.url = f"{filled}{'&' if '?' in filled else '?'}schema={self.name}"
        self._parsed = parsed(self.url)

    def create(self) -> dict[str, Any]:
        """Create the schema. Return the report of the engine, which says what is wrong if it failed."""

        async def creating() -> dict[str, Any]:
            engine = PostgresEngine(lambda: self.url)
            try:
                return await engine.check()
            finally:
                await engine.close()

        return asyncio.run(creating())

    def drop(self) -> None:
        """Delete the schema with all that is in it. Raises StoreError."""
        from tabane.engine.team.postgres.database import drop_schema

        drop_schema(self._parsed)
