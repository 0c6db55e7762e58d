"""An open database with its stores. Imported when the database is opened: its driver is an extra."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tabane.engine.candidate_index import CandidateIndex
from tabane.engine.query_plans import japanese
from tabane.engine.team.postgres.collection_copies import has_copies
from tabane.engine.team.postgres.database import IndexTurn, PostgresDatabase
from tabane.engine.team.postgres.engine_url import parsed
from tabane.engine.team.postgres.index_follower import IndexFilling
from tabane.engine.team.postgres.outside_index import IndexLink
from tabane.engine.team.postgres.store import PostgresStore
from tabane.engine.team.postgres.vector_table import follower_report, index_report
from tabane.errors import StoreIncomplete
from tabane.messages import say


class OpenEngine:
    """A database, the stores of its domains, and the index outside of it if there is one."""

    def __init__(
        self, database: PostgresDatabase, indexed_from: int | None, filling: IndexFilling | None
    ) -> None:
        self.database, self.filling, self._indexed_from = database, filling, indexed_from
        self.stores: dict[str, PostgresStore] = {}

    def store(self, domain: str) -> PostgresStore:
        """Return the store of a domain."""
        if domain not in self.stores:
            self.stores[domain] = PostgresStore(
                self.database, domain, japanese(), self._indexed_from, self.filling
            )
        return self.stores[domain]

    async def report(self) -> dict[str, Any]:
        """Return place, versions, size in bytes, milliseconds of an answer, and indexes.

        Raises StoreError.
        """
        server, size, seconds = await self.database.measure()
        report: dict[str, Any] = {
            "state": "ok",
            "path": self.database.place,
            "server": f"PostgreSQL {server}",
            "pgvector": self.database.versions.pgvector,
            "latency_ms": round(1000 * seconds, 2),
            "size": size,
            "indexes": [],
        }
        if self.filling is not None:
            link = self.filling.link
            followed = await self.database.read(lambda connection: follower_report(connection, link.follower))
            outside = {
                "path": link.place, "state": link.state.value, "server": link.server, "followed": followed
            }  # fmt: skip
            report["vector_index"] = outside | ({"error": str(link.problem)} if link.problem else {})
        elif (least := self._indexed_from) is not None:
            report["indexes"] = await self.database.read(lambda connection: index_report(connection, least))
        return report

    async def close(self) -> None:
        """Finish waiting writes, and close all connections."""
        for store in self.stores.values():
            await store.close()
        if self.filling is not None:
            await self.filling.turn.close()
            await self.filling.link.close()
        await self.database.close()


async def open_engine(
    address: str,
    indexed_from: int | None,
    index: Callable[[], CandidateIndex | None] | None,
    *,
    migrating: bool,
) -> OpenEngine:
    """Open the database at a URL, and the index outside of it. Raises StoreError and ConfigurationError.

    ``migrating``: the database may be incomplete, because a migration to it has not ended.
    """
    database = await PostgresDatabase.open(parsed(address))
    try:
        if not migrating and await database.read(has_copies):
            raise StoreIncomplete(
                say(
                    "{place} is incomplete: a migration to it has not ended. To continue it, run the same "
                    "tabane migrate command again. To give it up, run in the database: "
                    "DROP SCHEMA {schema} CASCADE",
                    place=database.place,
                    schema=database.schema,
                )
            )
        outside = await asyncio.to_thread(index) if index is not None else None
    except BaseException:
        await database.close()
        raise
    if outside is None:
        return OpenEngine(database, indexed_from, None)
    link = IndexLink(outside, indexed_from)
    return OpenEngine(database, indexed_from, IndexFilling(link, IndexTurn(database, link.follower)))
