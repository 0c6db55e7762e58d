"""The engine on PostgreSQL of a hub: one database, opened on first use, with a store for each domain."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tabane.errors import StoreError, TabaneError
from tabane.extras import extra_command
from tabane.messages import say

if TYPE_CHECKING:
    from tabane.engine.candidate_index import CandidateIndex
    from tabane.engine.team.postgres.database import PostgresDatabase
    from tabane.engine.team.postgres.index_follower import IndexFilling
    from tabane.engine.team.postgres.store import PostgresStore

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
        from tabane.engine.team.postgres.index_report import index_report

        least = self._indexed_from
        return await database.read(lambda connection: index_report(connection, least))

    async def _outside(self, database: PostgresDatabase) -> dict[str, Any]:
        """Return where the index outside is, its state, and how far it is."""
        if self._filling is None:
            return {}
        from tabane.engine.team.postgres.index_report import follower_report

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
        from tabane.engine.team.postgres.store import PostgresStore
        from tabane.search.japanese import japanese

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
        await asyncio.to_thread(importlib.import_module, "tabane.engine.team.postgres.index_follower")
        from tabane.engine.team.postgres.index_follower import IndexFilling
        from tabane.engine.team.postgres.index_link import IndexLink
        from tabane.engine.team.postgres.index_turn import IndexTurn

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
