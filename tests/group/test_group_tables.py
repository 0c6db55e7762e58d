"""What hubs share in the database: one key, heartbeats by its clock, and sessions that change their hub."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tabane.access.key_store import KeyRecord, hash_of
from tabane.access.permissions import PermissionPatterns
from tabane.access.token_bucket import TokenGrant
from tabane.engine.team.postgres.database import PostgresDatabase
from tabane.engine.team.postgres.engine_url import parsed
from tabane.errors import BadArguments
from tabane.group.membership import GONE_AFTER, LARGEST_SESSION, REMEMBERED, GroupMember, StoredSession
from tabane.group.tables.group_tables import GroupTables
from tabane.group.tables.shared_access import PAGE, PostgresKeys, PostgresTokens
from tabane.settings.limit_rules import CallRate
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


async def test_hubs_share_a_key_and_see_each_other(postgres: PostgresServer) -> None:
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


async def test_a_session_changes_its_hub_only_when_that_is_gone(postgres: PostgresServer) -> None:
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


def key(number: int, name: str = "") -> KeyRecord:
    patterns = PermissionPatterns(("git__*",), ("git__push",), read_only=True)
    id = f"{number:08}"
    return KeyRecord(
        id, hash_of(id), name or f"key {number}", patterns, "work", "default", 10.0, 20.0, person="Alice"
    )


async def test_changes_of_keys_are_followed_in_their_order(postgres: PostgresServer) -> None:
    async with opened(postgres, "keys_table") as tables:
        await tables.join(FIRST)
        keys = PostgresKeys(tables)
        before = (await tables.beat(FIRST)).changes
        assert await keys.add(key(1))
        assert not await keys.add(key(1))
        with pytest.raises(BadArguments, match="already exists"):
            await keys.add(key(2, "key 1"))
        seen = await keys.changed(before)
        assert (seen.records, seen.more) == ([key(1)], False)
        assert seen.last == (await tables.beat(FIRST)).changes
        assert (await keys.changed(seen.last)).records == []
        revoked = replace(key(1), revoked=15.0)
        assert await keys.change(revoked) == revoked
        assert await keys.change(replace(key(1), name="again", person="")) == replace(
            revoked, name="again", person=""
        )
        assert await keys.change(key(3)) is None
        await keys.record_uses({key(1).id: 12.0, "unknown": 1.0})
        assert (await keys.changed(seen.last)).records == [
            replace(revoked, name="again", used=12.0, person="")
        ]


async def test_many_keys_are_followed_in_pages(postgres: PostgresServer) -> None:
    async with opened(postgres, "many_keys") as tables:
        await tables.join(FIRST)
        keys = PostgresKeys(tables)
        await keys.add(key(0))
        columns = "hash, allow, deny, read_only, profile, tier, created, expires, used, revoked"
        postgres.execute(
            f"INSERT INTO many_keys.hub_key (id, name, {columns}, number) SELECT n::text, n::text, "
            f"{columns}, 2 + n / 400 FROM many_keys.hub_key, generate_series(1, {2 * PAGE}) AS n"
        )
        postgres.execute("UPDATE many_keys.hub_counter SET last = 100")
        found, last, more = list[str](), 0, True
        while more:
            page = await keys.changed(last)
            assert page.last > last
            last, more = page.last, page.more
            found += [record.id for record in page.records]
        assert len(found) == len(set(found)) == 2 * PAGE + 1


async def test_tokens_are_taken_by_the_clock_of_the_database(postgres: PostgresServer) -> None:
    async with opened(postgres, "tokens_table") as tables:
        await tables.join(FIRST)
        tokens, calls = PostgresTokens(tables), CallRate(10, 0.001)
        assert await tokens.take("a", calls, 4) == TokenGrant(4)
        assert await tokens.take("b", calls, 20) == TokenGrant(10)
        assert await tokens.take("a", calls, 20) == TokenGrant(6)
        refused = await tokens.take("a", calls, 1)
        assert refused.tokens == 0
        assert 900 < refused.wait < 1001
        await tokens.give_back("a", calls, 3)
        assert await tokens.take("a", calls, 20) == TokenGrant(3)
