"""Places that hold collections: the home of a hub, or a PostgreSQL database.

A place that is being filled has a mark until the migration has ended, so that a second run continues it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from tabane.errors import CallerError, HubError
from tabane.hub.local import lock
from tabane.hub.stores.named_engine import filled_address
from tabane.hub.stores.postgres_engine import PostgresEngine
from tabane.hub.stores.stores import FOLDER
from tabane.messages import say
from tabane.settings import Settings
from tabane.settings.engine_address import check_engine
from tabane.settings.files import private_folder

if TYPE_CHECKING:
    from tabane.engine.collection_copying import CopySource, CopyTarget
    from tabane.engine.embedded.collection_table import CollectionTable
    from tabane.engine.embedded.store import Store
    from tabane.search.engine import Collection
    from tabane.search.records import Shape

Indexed = Callable[[int, int], None]
"""Is told how many records of how many are in a lexical index that is built."""

_MARK = "copying"
_LOCK = "hub.lock"
_POLLED = 0.5  # seconds between two reports about an index
_LONGEST = 3600.0  # seconds until the vectors of a home are indexed


class MigrationPlace(Protocol):
    """A home or a database, with the collections in it."""

    @property
    def name(self) -> str:
        """Return the address without a password."""
        ...

    async def source(self, domain: str, shape: Shape) -> CopySource: ...

    async def target(self, domain: str, shape: Shape) -> CopyTarget: ...

    async def is_begun(self) -> bool:
        """Return whether a migration to this place began and has not ended."""
        ...

    async def begin(self) -> None:
        """Mark the place. It has no records."""
        ...

    async def end(self) -> None:
        """Remove the mark: the migration is complete."""
        ...

    async def collection(self, domain: str, shape: Shape, told: Indexed) -> Collection:
        """Return a collection as the hub uses it, with complete indexes. No source or target is open."""
        ...

    async def release(self) -> None:
        """Close what is open. A second call does nothing."""
        ...


def place_of(address: str, settings: Settings, environment: Mapping[str, str]) -> MigrationPlace:
    """Return the place of a URL. Raises CallerError, ConfigurationError, and HubError if a hub runs there."""
    from tabane.engine.team.postgres.engine_url import parsed

    parts = urlsplit(address)
    if parts.scheme in ("postgresql", "postgres") or address.startswith("${"):
        check_engine(address)
        filled = filled_address(address, settings, environment)
        return DatabasePlace(parsed(filled).place, PostgresEngine(lambda: filled))
    if parts.scheme not in ("", "file") or not parts.path:
        raise CallerError(
            say(
                "{address} is neither a folder nor a URL such as postgresql://user@host/database",
                address=address,
            )
        )
    path = unquote(parts.path) if parts.scheme else address
    return HomePlace(Path(path).expanduser().absolute())


class HomePlace:
    """The home of a hub that does not run. No hub can start there while the process runs."""

    def __init__(self, home: Path) -> None:
        self.name = str(home)
        private_folder(home)
        self._folder = home / FOLDER
        held = lock.acquire(str(home / _LOCK))
        if held is None:
            raise HubError(say("A hub runs in {home}. Stop it with: tabane stop", home=home))
        self._lock = held
        self._stores: dict[str, Store] = {}
        self._tables: list[CollectionTable] = []

    async def source(self, domain: str, shape: Shape) -> CopySource:
        from tabane.engine.embedded.collection_copies import EmbeddedSource

        return EmbeddedSource(await self._table(domain, shape))

    async def target(self, domain: str, shape: Shape) -> CopyTarget:
        from tabane.engine.embedded.collection_copies import EmbeddedTarget

        return EmbeddedTarget(await self._table(domain, shape))

    async def is_begun(self) -> bool:
        return self._mark.exists()

    async def begin(self) -> None:
        private_folder(self._folder)
        self._mark.touch(mode=0o600)

    async def end(self) -> None:
        from tabane.engine.embedded.collection_copies import forget_copies

        self._mark.unlink(missing_ok=True)
        for store in self._stores.values():
            await store.database.run(forget_copies)

    @property
    def _mark(self) -> Path:
        return self._folder / _MARK

    async def collection(self, domain: str, shape: Shape, told: Indexed) -> Collection:
        from tabane.engine.embedded.lexical.lexical_index import LexicalIndex

        found = await (await self._store(domain, indexed=True)).collection(shape)
        index = found.lexical
        assert isinstance(index, LexicalIndex)
        settled = asyncio.ensure_future(index.settled())
        while not settled.done():
            if index.progress is not None:
                told(*index.progress)
            await asyncio.wait([settled], timeout=_POLLED)
        await settled
        if found.table.vectors is not None:
            await asyncio.to_thread(found.table.vectors.wait_until_whole, _LONGEST)
        return found

    async def _table(self, domain: str, shape: Shape) -> CollectionTable:
        table = await (await self._store(domain)).table(shape)
        self._tables.append(table)
        return table

    async def _store(self, domain: str, *, indexed: bool = False) -> Store:
        from tabane.engine.embedded.store import Store

        if domain not in self._stores:
            private_folder(self._folder)
            opening = None
            if indexed:
                from tabane.engine.embedded.lexical.lexical_index import open_lexical

                opening = open_lexical
            self._stores[domain] = await Store.open(str(self._folder), domain, lexical=opening)
        return self._stores[domain]

    async def release(self) -> None:
        tables, self._tables = self._tables, []
        for table in tables:
            await table.close()
        stores, self._stores = self._stores, {}
        for store in stores.values():
            await store.close()


class DatabasePlace:
    """A PostgreSQL database."""

    def __init__(self, name: str, engine: PostgresEngine) -> None:
        self.name = name
        self._engine = engine

    async def source(self, domain: str, shape: Shape) -> CopySource:
        store = await self._engine.store(domain)
        from tabane.engine.team.postgres.collection_copies import PostgresSource

        return PostgresSource(store, await store.tables(shape))

    async def target(self, domain: str, shape: Shape) -> CopyTarget:
        store = await self._engine.store(domain)
        from tabane.engine.team.postgres.collection_copies import PostgresTarget

        return PostgresTarget(store, await store.tables(shape))

    async def is_begun(self) -> bool:
        store = await self._engine.store(_MARK)
        from tabane.engine.team.postgres.collection_copies import has_copies

        return await store.database.read(has_copies)

    async def begin(self) -> None:
        store = await self._engine.store(_MARK)
        from tabane.engine.team.postgres.collection_copies import begin_copies

        await store.write(begin_copies)

    async def end(self) -> None:
        store = await self._engine.store(_MARK)
        from tabane.engine.team.postgres.collection_copies import forget_copies

        await store.write(forget_copies)

    async def collection(self, domain: str, shape: Shape, told: Indexed) -> Collection:
        return await (await self._engine.store(domain)).collection(shape)

    async def release(self) -> None:
        await self._engine.close()
