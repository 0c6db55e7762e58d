"""The engine on PostgreSQL of a hub: one database, opened on first use, with a store for each domain.

The settings name the database and its index of vectors.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import re
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tabane.engine.team.postgres.engine_url import parsed as parsed_engine
from tabane.errors import ConfigurationError, StoreError, TabaneError
from tabane.extras import extra_command
from tabane.messages import Lang, Message, say
from tabane.servers.variables import variables_of
from tabane.settings import Settings
from tabane.settings.addresses import check_engine, names_chroma, removed_index

if TYPE_CHECKING:
    from tabane.engine.candidate_index import CandidateIndex
    from tabane.engine.team.postgres.database import PostgresDatabase
    from tabane.engine.team.postgres.store import PostgresStore
    from tabane.hub.stores.open_engine import OpenEngine


log = logging.getLogger(__name__)


class EngineAddress:
    """The URL of the setting engine. Its variables are looked up when the database is opened."""

    def __init__(self, settings: Settings, environment: Mapping[str, str]) -> None:
        self._settings, self._environment = settings, environment

    def filled(self) -> str:
        """Return the URL with the values of its variables. Blocks. Raises ConfigurationError."""
        return filled_address(self._settings.engine, self._settings, self._environment)


IndexOpener = Callable[[], "CandidateIndex | None"]
"""Returns the index outside of the database, which is not connected yet. Raises ConfigurationError.

None: the setting names an index that is no longer supported.
"""

_PATIENCE = 5  # seconds that a report waits for a connection


class PostgresEngine:
    """The stores of one database. The modules are imported when it is opened.

    ``address`` is the URL of the database with its password. ``indexed_from``: number of vectors from which
    they have an approximate index; None: they have none. ``index``: opens an index outside of the database,
    which has the vectors instead. ``migrating``: a migration may open a database that is incomplete.
    """

    def __init__(
        self,
        address: str | EngineAddress,
        indexed_from: int | None = None,
        index: IndexOpener | None = None,
        *,
        migrating: bool = False,
    ) -> None:
        self._address, self._indexed_from, self._index = address, indexed_from, index
        self._migrating = migrating
        self._opened: OpenEngine | None = None
        self._opening = asyncio.Lock()
        self._place: str | None = None

    def is_open(self, domain: str) -> bool:
        """Return whether the store of a domain is open."""
        return self._opened is not None and domain in self._opened.stores

    @property
    def has_index(self) -> bool:
        """Return whether an index outside of the database has the vectors, once the database is open."""
        return self._opened is not None and self._opened.filling is not None

    async def store(self, domain: str) -> PostgresStore:
        """Return the store of a domain. Raises StoreError and ConfigurationError."""
        async with self._opening:
            return (await self._open()).store(domain)

    async def database(self) -> PostgresDatabase:
        """Return the database itself, for what is no store. Raises StoreError and ConfigurationError."""
        async with self._opening:
            return (await self._open()).database

    async def source(self, collection: str) -> str:
        """Return what names a collection and its database in a replica. Raises ConfigurationError."""
        if self._place is None:
            url = parsed_engine(await self._filled())
            self._place = f"{url.place}, schema {url.schema}"
        return f"{collection} in {self._place}"

    async def _filled(self) -> str:
        address = self._address
        return await asyncio.to_thread(address.filled) if isinstance(address, EngineAddress) else address

    async def report(self, lang: Lang = "en") -> dict[str, Any]:
        """Return the place and the versions of the database, or why it cannot be used; within seconds.

        ``indexes``: the approximate indexes of large collections. ``lang`` is that of the error.
        """
        try:
            async with asyncio.timeout(_PATIENCE):
                async with self._opening:
                    opened = await self._open()
                return await opened.report()
        except TimeoutError:
            silent = say(
                "The database has not answered for {seconds} {seconds:second|seconds}", seconds=_PATIENCE
            )
            return {"state": "unreadable", "error": silent.render(lang)}
        except TabaneError as error:
            return {"state": "unreadable", "error": error.text(lang)}

    async def check(self, lang: Lang = "en") -> dict[str, Any]:
        """Return the report after a question to the server, and one to the index."""
        report = await self.report(lang)
        if self._opened is not None and self._opened.filling is not None:
            with contextlib.suppress(StoreError, TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await self._opened.filling.link.connect()
            report = await self.report(lang)
        return report

    async def _open(self) -> OpenEngine:
        if self._opened is None:
            address = await self._filled()
            try:
                await asyncio.to_thread(importlib.import_module, "tabane.hub.stores.open_engine")
            except ImportError as error:
                if (error.name or "").startswith("tabane"):  # the package was replaced
                    raise
                raise StoreError(needs_package()) from error
            from tabane.hub.stores.open_engine import open_engine

            self._opened = await open_engine(
                address, self._indexed_from, self._index, migrating=self._migrating
            )
        return self._opened

    async def close(self) -> None:
        """Finish waiting writes, and close all connections. A second call does nothing."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()


def needs_package() -> Message:
    """Return which package is missing, and how it is installed."""
    return say(
        "the setting engine needs another package. Install it with: {command}",
        command=extra_command("postgres"),
    )


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def named_engine(settings: Settings, environment: Mapping[str, str]) -> PostgresEngine:
    """Return the database that the setting engine names, which must not be empty. It is not opened yet."""

    def index() -> CandidateIndex | None:
        address = settings.vector_index
        if not names_chroma(address):
            address = filled_address(address, settings, environment, "vector_index")
            if settings.vector_index.startswith("${") and (removed := removed_index(address)):
                log.warning("%s", removed)  # of other addresses, the settings warn
        if names_chroma(address):
            return None
        from tabane.engine.team.milvus_index import MilvusIndex, parse_milvus_url

        return MilvusIndex(parse_milvus_url(address))

    return PostgresEngine(
        EngineAddress(settings, environment),
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
        check_engine(address)
        filled = filled_address(address, settings, environment)
        self.name = f"tabane_demo_{token_hex(4)}"
        self.url = f"{filled}{'&' if '?' in filled else '?'}schema={self.name}"
        self._parsed = parsed_engine(self.url)

    def create(self) -> dict[str, Any]:
        """Create the schema. Return the report of the engine, which says what is wrong if it failed."""

        async def creating() -> dict[str, Any]:
            engine = PostgresEngine(self.url)
            try:
                return await engine.check()
            finally:
                await engine.close()

        return asyncio.run(creating())

    def drop(self) -> None:
        """Delete the schema with all that is in it. Raises StoreError."""
        from tabane.engine.team.postgres.database import drop_schema

        drop_schema(self._parsed)
