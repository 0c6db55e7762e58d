"""Networks and servers that fail: clear errors, bounded waits, nothing lost and nothing written twice."""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tabane.engine.team.postgres.database import READERS, Patience, PostgresDatabase
from tabane.engine.team.postgres.engine_url import parsed
from tabane.engine.team.postgres.store import PostgresStore
from tabane.errors import ConfigurationError, StoreBusy, StoreError, StoreFull, StoreReadOnly
from tabane.group.membership import GroupMember
from tabane.group.tables.group_tables import GroupTables
from tabane.search.records import EVERYTHING
from tests.engine.team.postgres.collections import DatabaseCollection
from tests.engine.team.postgres.writing import SHAPE, check_whole, record
from tests.harness.certificates import HubCertificate
from tests.harness.network_proxy import NetworkProxy, network_proxy
from tests.harness.patience import LONG, until
from tests.harness.postgres_server import PostgresServer

SECRET = "hunter2"
BRIEF = Patience(restart=0.5, ending=0.5)
SOON = "connect_timeout=2&timeout=0.4"  # the client gives a silent server up after a quarter more


@pytest.fixture
def network(postgres: PostgresServer) -> Iterator[NetworkProxy]:
    with network_proxy(postgres.socket) as proxy:
        yield proxy


@pytest.fixture
def schema(postgres: PostgresServer, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"n_{request.node.name.partition('[')[0][5:40]}"
    postgres.drop(name)
    yield name
    postgres.drop(name)


def url(schema: str, *proxies: NetworkProxy, more: str = "", user: str = "postgres") -> str:
    servers = ",".join(f"127.0.0.1:{each.port}" for each in proxies)
    return f"postgresql://{user}:{SECRET}@{servers}/postgres?schema={schema}&{more}".rstrip("&")


@asynccontextmanager
async def opened(address: str, patience: Patience | None = BRIEF) -> AsyncIterator[DatabaseCollection]:
    database = await PostgresDatabase.open(parsed(address), patience)
    store = PostgresStore(database, "test", None)
    try:
        yield await store.collection(SHAPE)
    finally:
        await store.close()
        await database.close()


async def refusal(collection: DatabaseCollection, *, write: bool = False) -> StoreError:
    """The error of a request, which never has the password."""
    with pytest.raises(StoreError) as raised:
        await (collection.upsert([record("refused")]) if write else collection.count(EVERYTHING))
    assert SECRET not in str(raised.value)
    return raised.value


async def test_a_write_is_made_once_wherever_its_connection_is_cut(
    network: NetworkProxy, schema: str
) -> None:
    """Each is answered as new. What is answered with an error was not written."""
    chance, refused = random.Random(11), set[str]()
    async with opened(url(schema, network)) as collection:
        await collection.upsert([record("first")])
        before = network.passed
        await collection.upsert([record("second")])
        length = network.passed - before
        for number in range(60):
            # also in the new connection, and in the second attempt
            network.cut_after(chance.randrange(1, 2 * length))
            key = f"k{number}"
            try:
                assert await collection.upsert([record(key)]) == [True]
            except StoreError:
                refused.add(key)
        network.cut_after(1 << 40)
        assert len(refused) < 30
        expected = {"first", "second", *(f"k{number}" for number in range(60))} - refused
        assert await check_whole(collection, expected) == len(expected)


async def test_reads_do_not_notice_that_connections_were_cut(network: NetworkProxy, schema: str) -> None:
    async with opened(url(schema, network)) as collection:
        await collection.upsert([record("one")])
        for _ in range(3):
            await asyncio.gather(*(collection.count(EVERYTHING) for _ in range(READERS)))
            network.cut()
        assert await collection.count(EVERYTHING) == 1


@pytest.mark.heavy("a real PostgreSQL")
async def test_a_silent_server_is_given_up_while_everything_else_goes_on(
    network: NetworkProxy, schema: str
) -> None:
    async with opened(url(schema, network, more=SOON)) as collection:
        await collection.upsert([record("before")])
        network.silent = True
        requests = [refusal(collection) for _ in range(READERS + 2)]
        waiting = asyncio.gather(*requests, refusal(collection, write=True))
        turns = 0
        while not waiting.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns > 100  # the event loop was free
        for error in await waiting:
            assert "cannot be reached" in str(error)
        network.silent = False
        assert await collection.count(EVERYTHING) == 1
        assert await collection.upsert([record("after")]) == [True]


async def test_a_heartbeat_gives_a_silent_connection_up_long_before_other_hubs_believe_its_hub_gone(
    network: NetworkProxy, schema: str
) -> None:
    database = await PostgresDatabase.open(parsed(url(schema, network, more="timeout=600")), BRIEF)
    tables, me = GroupTables(database), GroupMember("first", "aa", "http://a", "1.0")
    await tables.join(me)
    network.silent = True
    began = time.monotonic()
    with pytest.raises(StoreError, match="cannot be reached"):
        await tables.beat(me)
    assert time.monotonic() - began < LONG
    network.silent = False
    assert [each.id for each in (await tables.beat(me)).members] == ["first"]
    await tables.close()
    await database.close()


async def test_a_silent_server_does_not_keep_a_hub_from_stopping(
    network: NetworkProxy, schema: str, postgres: PostgresServer
) -> None:
    """The limit of a hub that stops holds for requests that wait already."""
    running = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query = 'SELECT pg_sleep(3600)'"

    try:
        database = await PostgresDatabase.open(parsed(url(schema, network, more="timeout=86400")), BRIEF)
        sleeping = database.read(lambda connection: connection.execute("SELECT pg_sleep(3600)").fetchone())
        waiting = asyncio.create_task(sleeping)
        await until(lambda: asyncio.to_thread(postgres.execute, running), "the statement runs")
        network.silent = True
        await database.close()
        with pytest.raises(StoreError, match=r"no answer within 0\.5 s"):
            await waiting
    finally:
        postgres.end_connections()


async def test_a_short_restart_is_waited_for(network: NetworkProxy, schema: str) -> None:
    address = url(schema, network)
    async with opened(address, Patience(restart=LONG)) as collection, opened(address) as hasty:
        await collection.upsert([record("before")])
        network.refuse()
        network.cut()
        reading = asyncio.create_task(collection.select(EVERYTHING))
        writing = asyncio.create_task(collection.upsert([record("after")]))
        assert "cannot be reached" in str(await refusal(hasty))  # both have found nobody there by then
        network.accept()
        assert "before" in {stored.record.key for stored in (await reading).records}
        assert await writing == [True]


async def test_a_server_that_comes_back_is_used_at_once(network: NetworkProxy, schema: str) -> None:
    async with opened(url(schema, network)) as collection:
        await collection.upsert([record("before")])
        network.refuse()
        network.cut()
        for write in (False, True):
            assert "cannot be reached" in str(await refusal(collection, write=write))
        network.accept()
        assert await collection.count(EVERYTHING) == 1
        assert await collection.upsert([record("after")]) == [True]


async def test_a_slow_network_only_makes_things_slow(network: NetworkProxy, schema: str) -> None:
    """The limit is one of silence: an answer may take longer than that to arrive."""
    async with opened(url(schema, network, more="timeout=2")) as collection:
        await collection.upsert([record(f"k{number}") for number in range(40)])
        await collection.count(EVERYTHING)
        network.delay, network.rate = 0.01, 40_000
        page = await collection.select(EVERYTHING, limit=40)
        assert len(page.records) == 40
        assert await collection.upsert([record("slow")]) == [True]


async def test_the_next_server_of_the_url_takes_over(postgres: PostgresServer, schema: str) -> None:
    with network_proxy(postgres.socket) as first, network_proxy(postgres.socket) as second:
        address = url(schema, first, second, more="target_session_attrs=read-write")
        async with opened(address) as collection:
            await collection.upsert([record("first")])
            assert second.connections == 0
            first.refuse()
            first.cut()
            assert await collection.upsert([record("second")]) == [True]
            assert await check_whole(collection, ["first", "second"]) == 2
            assert second.connections > 0


async def test_a_primary_that_became_a_standby_is_left(
    postgres: PostgresServer, network: NetworkProxy, schema: str
) -> None:
    postgres.execute("DROP ROLE IF EXISTS demoted; CREATE ROLE demoted LOGIN SUPERUSER")
    async with opened(url(schema, network, user="demoted")) as collection:
        await collection.upsert([record("before")])
        postgres.execute("ALTER ROLE demoted SET default_transaction_read_only = on")
        network.cut()
        error = await refusal(collection, write=True)
        assert isinstance(error, StoreReadOnly)
        assert "primary" in str(error)
        assert await collection.count(EVERYTHING) == 1
        postgres.execute("ALTER ROLE demoted RESET ALL")
        assert await collection.upsert([record("after")]) == [True]


async def test_too_many_connections_and_a_role_that_may_not_log_in_are_named(
    postgres: PostgresServer, network: NetworkProxy, schema: str
) -> None:
    postgres.execute("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN")
    postgres.execute("GRANT CREATE ON DATABASE postgres TO guest; CREATE EXTENSION IF NOT EXISTS vector")
    async with opened(url(schema, network, user="guest")) as collection:
        await collection.upsert([record("before")])
        for change, kind, words in (
            ("CONNECTION LIMIT 0", StoreBusy, "too busy"),
            ("CONNECTION LIMIT -1 NOLOGIN", StoreError, "refused the login"),
        ):
            postgres.execute(f"ALTER ROLE guest {change}")
            for write in (False, True):
                network.cut()
                error = await refusal(collection, write=write)
                assert isinstance(error, kind)
                assert words in str(error)
        postgres.execute("ALTER ROLE guest LOGIN")
        assert await collection.upsert([record("after")]) == [True]


async def test_a_full_disk_refuses_writes_and_loses_nothing(
    postgres: PostgresServer, network: NetworkProxy, schema: str
) -> None:
    async with opened(url(schema, network)) as collection:
        await collection.upsert([record("before")])
        postgres.execute(
            f"CREATE FUNCTION {schema}.full_disk() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE disk_full USING MESSAGE = 'No space left on device'; END $$; "
            f"CREATE TRIGGER full_disk BEFORE UPDATE ON {schema}.collection "
            f"FOR EACH ROW EXECUTE FUNCTION {schema}.full_disk()"
        )
        error = await refusal(collection, write=True)
        assert isinstance(error, StoreFull)
        assert "disk" in str(error)
        assert await collection.count(EVERYTHING) == 1
        postgres.execute(f"DROP FUNCTION {schema}.full_disk CASCADE")
        assert await collection.upsert([record("after")]) == [True]
        assert await check_whole(collection, ["before", "after"]) == 2


async def test_only_the_server_of_the_certificate_is_talked_to(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    files, context = HubCertificate(tmp_path), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)

    with network_proxy(postgres.socket, context) as network:
        address = url(schema, network, more=f"sslmode=verify-full&sslrootcert={files.ca}")
        async with opened(address) as collection:
            assert await collection.upsert([record("encrypted")]) == [True]
            network.cut()  # which is no problem of the certificate
            assert await check_whole(collection, ["encrypted"]) == 1
            files.issue("another.example")
            context.load_cert_chain(files.certificate, files.key)
            network.cut()
            for write in (False, True):
                error = await refusal(collection, write=write)
                assert "no encrypted connection" in str(error)
                assert "another.example" in str(error)
            network.refuse()
            assert "cannot be reached" in str(await refusal(collection))


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("a,b:5433/db", "a,b:5433/db"),
        ("[::1]:5433,b/db?timeout=3", "[::1]:5433,b/db"),
        ("/db?host=/run,/tmp", "/run,/tmp/db"),
    ],
)
def test_several_servers_of_a_url_are_shown_without_the_password(given: str, place: str) -> None:
    found = parsed(f"postgresql://me:{SECRET}@{given}")
    assert found.place == f"postgresql://{place}"
    assert SECRET in found.conninfo
    assert "timeout" not in found.conninfo


@pytest.mark.parametrize("timeout", ["", "soon", "0", "-1", "inf", "nan"])
def test_a_timeout_is_a_number_of_seconds(timeout: str) -> None:
    with pytest.raises(ConfigurationError, match="timeout"):
        parsed(f"postgresql://localhost/db?timeout={timeout}")
