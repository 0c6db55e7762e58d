"""A schema of its own in a database, for data that is deleted afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from tabane.hub.stores.named_engine import filled_address
from tabane.hub.stores.postgres_engine import PostgresEngine
from tabane.settings import Settings
from tabane.settings.engine_address import check_engine


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
