"""What hubs share in the database: one key, heartbeats by its clock, and sessions that change their hub."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tabane.group.state import GONE_AFTER, LARGEST_SESSION, REMEMBERED, GroupMember, StoredSession
from tabane.postgres.database import PostgresDatabase
from tabane.postgres.engine_url import parsed
from tabane.postgres.group_tables import GroupTables
from tests.harness.patience import run
from tests.harness.postgres_server import PostgresServer

FIRST = GroupMember("first", "aa", "http://a", "1.0")
SECOND = GroupMember("second", "bb", "http://b", "1.0")
SESSION = StoredSession("digest", "first", "local", "full", (b'{"id":0}', b'{"id":1}'))


@asynccontextmanager
async def opened(postgres: PostgresServer, schema: str) -> AsyncIterator[GroupTables]:
    database = await PostgresDatabase.open(parsed(postgres.url(schema)))
    tables = GroupTables(database)
    try:
        yield tables
    finally:
        await tables.close()
        await database.close()


def late(postgres: PostgresServer, schema: str, hub: str, seconds: float) -> None:
    """Let a hub have had its last heartbeat that long ago."""
    postgres.execute(
        f"UPDATE \"{schema}\".hub_member SET heartbeat = clock_timestamp() - interval '{seconds} seconds' "
        f"WHERE id = '{hub}'"
    )


def test_hubs_share_a_key_and_see_each_other(postgres: PostgresServer) -> None:
    async def scenario() -> None:
        async with opened(postgres, "presence") as tables:
            key = await tables.join(FIRST)
            assert len(key) == 32
            assert await tables.join(SECOND) == key
            view = await tables.beat(FIRST)
            assert {each.id for each in view.members} == {"first", "second"}
            assert all(each.alive for each in view.members)
            late(postgres, "presence", "second", GONE_AFTER)
            assert [each.alive for each in (await tables.beat(FIRST)).members] == [True, False]
            late(postgres, "presence", "second", REMEMBERED + 1)
            await tables.join(FIRST)
            assert [each.id for each in (await tables.beat(FIRST)).members] == ["first"]

    run(scenario)


def test_a_session_changes_its_hub_only_when_that_is_gone(postgres: PostgresServer) -> None:
    async def scenario() -> None:
        async with opened(postgres, "sessions_table") as tables:
            await tables.join(FIRST)
            await tables.join(SECOND)
            await tables.keep_session(SESSION)
            assert await tables.claim_session("digest", "second") == SESSION
            assert await tables.claim_session("other", "second") is None
            late(postgres, "sessions_table", "first", GONE_AFTER + 1)
            taken = await tables.claim_session("digest", "second")
            assert taken is not None
            assert (taken.hub, taken.messages) == ("second", SESSION.messages)
            # The first hub is there again: what it lost stays with the second one.
            await tables.beat(FIRST)
            assert await tables.lost_sessions(["digest", "other"], "first") == ["digest"]
            await tables.keep_session(SESSION)
            await tables.drop_session("digest", "first")
            kept = await tables.claim_session("digest", "first")
            assert kept == taken
            await tables.beat(GroupMember("second", "bb", "http://b", "1.0", "leaving"))
            back = await tables.claim_session("digest", "first")
            assert back is not None
            assert back.hub == "first"
            large = StoredSession("digest", "first", "local", "full", (b"x" * LARGEST_SESSION,))
            await tables.keep_session(large)
            assert await tables.claim_session("digest", "first") is None

    run(scenario)
