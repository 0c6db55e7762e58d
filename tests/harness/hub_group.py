"""Hubs of one group in this process, over a real database, each with a home and a port of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tabane.group.membership import HubGroup
from tabane.hub.http.door import HubIdentities
from tests.harness.http_hub import HttpHub, Identities, http_hub
from tests.harness.patience import until
from tests.harness.ports import reserved_port
from tests.harness.postgres_server import PostgresServer
from tests.harness.running_hub import Json


class GroupOfHubs:
    """Hubs that know each other. :meth:`kill` ends one as ``kill -9`` does: it says nothing to the others."""

    def __init__(self, hubs: list[HttpHub], stacks: list[AsyncExitStack]) -> None:
        self.hubs, self._stacks = hubs, stacks

    def group(self, number: int) -> HubGroup:
        found = self.hubs[number].running.group
        assert found is not None
        return found

    async def kill(self, number: int, postgres: PostgresServer, schema: str) -> None:
        """End a hub without a word, and let the database forget when it was last there."""
        group = self.group(number)
        await group.close()
        postgres.execute(
            f"UPDATE \"{schema}\".hub_member SET heartbeat = heartbeat - interval '1 hour' "
            f"WHERE id = '{group.me.id}'"
        )
        await self._stacks[number].aclose()

    async def know(self, count: int) -> None:
        """Wait until every hub that is in the group sees that many."""
        for number in range(len(self.hubs)):
            await until(partial(_knows, self.group(number), count), "the hubs know each other")


def _knows(group: HubGroup, count: int) -> bool:
    return group.joined and len(group.report()["hubs"]) == count


@asynccontextmanager
async def hubs_in_group(
    folder: Path,
    postgres: PostgresServer,
    schema: str,
    servers: Mapping[str, Json],
    count: int = 2,
    identities: Identities = None,
    **settings: Any,
) -> AsyncIterator[GroupOfHubs]:
    """Run hubs over those servers, each of which advertises its own port.

    Their homes are ``hub-0``, ``hub-1`` … in the folder, and may have contents.
    """
    async with AsyncExitStack() as everything:
        hubs, stacks = [], []
        for number in range(count):
            stack = AsyncExitStack()
            everything.push_async_callback(stack.aclose)
            home = folder / f"hub-{number}"
            home.mkdir(mode=0o700, exist_ok=True)
            port = reserved_port(stack)
            address = f"http://127.0.0.1:{port}"
            hub = http_hub(
                home,
                servers,
                identities=identities or HubIdentities,
                engine=postgres.url(schema),
                advertise=address,
                port=port,
                **settings,
            )
            hubs.append(await stack.enter_async_context(hub))
            stacks.append(stack)
        group = GroupOfHubs(hubs, stacks)
        await group.know(count)
        yield group
