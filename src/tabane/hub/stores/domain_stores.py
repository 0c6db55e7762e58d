"""Stores of a hub. Each is opened on first use and closed at the end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tabane.errors import StoreBusy, StoreCorrupt, StoreError, StoreIncomplete, StoreNewer
from tabane.messages import Lang, say
from tabane.operations import Caller, Operation
from tabane.operations.job_turns import SharedTurn, TurnOpener
from tabane.settings.files import private_folder

if TYPE_CHECKING:
    from tabane.engine.checked_collection import CheckedCollection
    from tabane.engine.collection_replica import Replicas
    from tabane.engine.embedded.store import PersistentVectorCache, Store
    from tabane.engine.team.postgres.change_feed import ChangeProbe
    from tabane.engine.team.postgres.collection import PostgresCollection
    from tabane.engine.team.postgres.database import PostgresDatabase
    from tabane.engine.team.postgres.store import PostgresStore
    from tabane.hub.stores.postgres_engine import PostgresEngine
    from tabane.search.engine import Collection as SearchableCollection
    from tabane.search.records import Shape

    OpenTruth = tuple[PostgresStore, CheckedCollection[PostgresCollection]]

log = logging.getLogger(__name__)

FOLDER = "store"
"""Under the home: a file a domain, and a folder of index beside it for each collection."""

MARK = "copying"
"""Names the mark of a place that a migration fills: a file in the folder, or a domain in a database."""

REPLICAS = "replica"
"""Under the home: files of the embedded engine, and the mark of each replica."""

UNFINISHED = ".embedding"
"""Ends the name of a file in the folder while the collection of that name is being embedded."""

DERIVED = frozenset({"cache"})
"""Domains with derived data only: if the file is lost, its contents are rebuilt."""

_ASKED, _ASKED_AGAIN = 3.0, 0.3
"""Seconds that the first request waits for a database to be opened, and others, before a replica answers."""

Shapes = Mapping[str, Sequence["Shape"]]


class CheckStores(Struct, frozen=True, forbid_unknown_fields=True):
    """``mend``: also rebuild derived data that does not agree."""

    mend: bool = False


class Stores:
    """One store for each domain. A hub that only forwards opens none, and does not import their modules.

    ``shapes`` returns the collections of each domain, and is called at the first use. ``postgres``: the
    database that holds them, except ``own``, which belong to this copy of Tabane and never leave its home.
    ``replicated``: copies of them in the home are read instead. ``cache_size``: the largest number of bytes
    of cached embeddings.
    """

    def __init__(
        self,
        home: Path,
        shapes: Callable[[], Shapes],
        postgres: PostgresEngine | None = None,
        own: Collection[str] = (),
        replicated: bool = False,
        cache_size: int = 1 << 30,
    ) -> None:
        self._folder, self._declared, self._copies = home / FOLDER, shapes, home / REPLICAS
        self._postgres, self._own, self._replicated = postgres, own, replicated
        self._replicas: Replicas | None = None
        self._openings: dict[tuple[str, str], asyncio.Task[OpenTruth]] = {}
        self._alone: dict[tuple[str, str], Shape] = {}  # collections whose replica has no database
        self._following: set[asyncio.Task[None]] = set()
        self._cache_size = cache_size
        self._probe: ChangeProbe | None = None
        self._open: dict[str, Store] = {}
        self._opening = asyncio.Lock()

    @cached_property
    def _shapes(self) -> Shapes:
        return self._declared()

    async def collection(self, domain: str, shape: Shape) -> SearchableCollection:
        """Return a collection of that domain. Raises StoreError if it cannot be opened."""
        if self._postgres is not None and shape.name not in self._own:
            return await self._shared(self._postgres, domain, shape)
        return await (await self._store(domain)).collection(shape)

    async def _shared(self, postgres: PostgresEngine, domain: str, shape: Shape) -> SearchableCollection:
        """Return a collection of the database, read from its replica.

        If the database does not answer within seconds, return the replica as the last hub left it, if there
        is one. Raises StoreError.
        """
        if not self._replicated:
            return await (await postgres.store(domain)).collection(shape)
        from tabane.engine.collection_replica import Replicas
        from tabane.engine.team.postgres.change_feed import ChangeProbe

        self._replicas = self._replicas or Replicas(self._copies)
        place, patience = (domain, shape.name), _ASKED_AGAIN
        if place not in self._openings:  # requests share an attempt
            patience = _ASKED
            attempt = self._openings[place] = asyncio.create_task(self._open_truth(postgres, domain, shape))
            attempt.add_done_callback(partial(self._forget_opening, place))
        opening = self._openings[place]
        await asyncio.wait([opening], timeout=patience)
        problem = (
            opening.exception() if opening.done() else StoreBusy(say("the database has not answered yet"))
        )
        source = await postgres.source(shape.name)
        if isinstance(problem, StoreError) and not isinstance(problem, StoreNewer | StoreIncomplete):
            alone = await self._replicas.alone(domain, shape, source, problem)
            if alone is not None:
                self._alone[place] = shape
                return alone
        store, truth = await asyncio.shield(opening)
        self._alone.pop(place, None)
        for (other, _), missed in self._alone.items():  # the database is back for these, too
            self._following.add(task := asyncio.create_task(self._follow(other, missed)))
            task.add_done_callback(self._following.discard)
        self._alone.clear()
        self._probe = self._probe or ChangeProbe(store.database)
        return await self._replicas.replicated(
            domain, truth.engine, truth.engine.feed, self._probe, source, indexed=postgres.has_index
        )

    async def _follow(self, domain: str, shape: Shape) -> None:
        """Let the replica of a collection follow the database. If that fails, its next request does it."""
        with contextlib.suppress(StoreError):
            await self.collection(domain, shape)

    def _forget_opening(self, place: tuple[str, str], opening: asyncio.Task[OpenTruth]) -> None:
        """Let the next request try again. A failure may have nobody who still waits for it."""
        self._openings.pop(place, None)
        if not opening.cancelled():
            opening.exception()

    async def _open_truth(self, postgres: PostgresEngine, domain: str, shape: Shape) -> OpenTruth:
        store = await postgres.store(domain)
        return store, await store.collection(shape)

    def holds(self, domain: str) -> bool:
        """Return whether anything of that domain was ever stored. Of a database, that is not known."""
        return self._is_shared(domain) or domain in self._open or (self._folder / f"{domain}.db").exists()

    def is_open(self, domain: str) -> bool:
        """Return whether the store is open, so that a request does not have to open it."""
        if self._postgres is not None and self._is_shared(domain):
            return self._postgres.is_open(domain)
        return domain in self._open

    async def database(self) -> PostgresDatabase:
        """Return the database that the setting engine names. There is one. Raises StoreError."""
        assert self._postgres is not None
        return await self._postgres.database()

    def turn(self, kind: str, collection: str) -> TurnOpener | None:
        """Return what opens the turn for a kind of job on a collection among all hubs of the database.

        None if the collection belongs to this hub alone.
        """
        if self._postgres is None or collection in self._own:
            return None

        async def opened() -> SharedTurn:
            database = await self.database()
            from tabane.engine.team.postgres.database import JobTurn

            return JobTurn(database, f"{kind} {collection}")

        return opened

    async def report(self, lang: Lang = "en") -> dict[str, Any]:
        """Return the database, its versions, state and replicas; nothing if files hold everything."""
        return (
            {}
            if self._postgres is None
            else {"engine": await self._postgres.report(lang) | {"replicas": self.replicas()}}
        )

    def replicas(self) -> list[dict[str, Any]]:
        """Return the state of each replica that was used."""
        return [] if self._replicas is None else self._replicas.report()

    def _is_shared(self, domain: str) -> bool:
        """Return whether the database holds collections of that domain."""
        return self._postgres is not None and any(
            shape.name not in self._own for shape in self._shapes.get(domain, ())
        )

    async def kept(self) -> PersistentVectorCache:
        """Return the cache of embeddings, which has a limited number of bytes."""
        return await (await self._store("cache")).kept(self._cache_size)

    async def check(self, *, mend: bool, lang: Lang = "en") -> list[dict[str, Any]]:
        """Return the state of each store on disk:

        domain, path, ``state`` (ok, mended, stale, damaged, unreadable; unused: the setting engine names a
        database instead).

        Reads everything. Stale data is derived and disagrees with the truth. ``mend`` rebuilds it, and moves
        a damaged file aside if all that was in it is derived.
        """
        rows = (
            []
            if self._postgres is None
            else [{"domain": "*", **await self._postgres.check(lang), "replicas": self.replicas()}]
        )
        for domain in self._shapes:
            path = self._folder / f"{domain}.db"
            if not path.exists():
                continue
            if self._is_shared(domain) and domain not in DERIVED:
                rows.append({"domain": domain, "path": str(path), "state": "unused"})
            else:
                rows.append({"domain": domain, "path": str(path), **await self._checked(domain, path, mend)})
        return rows

    def table(self) -> list[Operation]:
        """Return the operation that checks stores."""
        return [
            Operation(
                "check_stores", "How what is stored is.",
                CheckStores, self.check_stores,
            )
        ]  # fmt: skip

    async def close(self) -> None:
        """Close every store; what was acknowledged is on disk already."""
        openings, self._openings = list(self._openings.values()), {}
        await asyncio.gather(*openings, *self._following, return_exceptions=True)
        if self._replicas is not None:
            await self._replicas.close()
        if self._probe is not None:
            await self._probe.close()
        if self._postgres is not None:
            await self._postgres.close()
        stores, self._open = self._open, {}
        for domain, store in stores.items():
            try:
                await store.close()
            except StoreError as error:
                log.error("closing the store of %s failed: %s", domain, error)

    async def check_stores(self, caller: Caller, params: CheckStores) -> dict[str, Any]:
        """Return the state of each store, as :meth:`check`."""
        return {"results": await self.check(mend=params.mend, lang=caller.lang)}

    async def _checked(self, domain: str, path: Path, mend: bool) -> dict[str, Any]:
        try:
            store = await self._store(domain)
            for shape in self._shapes[domain]:
                if self._postgres is None or shape.name in self._own:
                    await store.collection(shape)
            stale = await store.check()
            for name in stale if mend else ():
                await store.mend(name)
        except StoreCorrupt as error:
            derived = domain in DERIVED
            if derived and mend:
                await self._put_aside(domain, path)
                return {"state": "mended"}
            return {"state": "damaged", "error": str(error), "derived": derived}
        except StoreError as error:
            return {"state": "unreadable", "error": str(error)}
        if not stale:
            return {"state": "ok"}
        return {"state": "mended"} if mend else {"state": "stale", "collections": stale}

    async def _put_aside(self, domain: str, path: Path) -> None:
        store = self._open.pop(domain, None)
        if store is not None:
            with contextlib.suppress(StoreError):
                await store.close()
        await asyncio.to_thread(_aside, path)

    async def _store(self, domain: str) -> Store:
        async with self._opening:
            if domain not in self._open:
                self._open[domain] = await self._opened(domain)
            return self._open[domain]

    async def _opened(self, domain: str) -> Store:
        from tabane.engine.embedded.lexical.lexical_index import open_lexical
        from tabane.engine.embedded.store import Store

        if domain not in DERIVED and (self._folder / MARK).exists():
            raise StoreIncomplete(
                say(
                    "{folder} is incomplete: a migration to it has not ended. To continue it, run the same "
                    "tabane migrate command again. To give it up, stop the hub and delete that folder",
                    folder=self._folder,
                )
            )
        private_folder(self._folder, parents=False)
        return await Store.open(str(self._folder), domain, lexical=open_lexical)


def _aside(path: Path) -> None:
    path.replace(path.with_suffix(".broken"))
    for companion in ("-wal", "-shm"):
        path.with_name(path.name + companion).unlink(missing_ok=True)
