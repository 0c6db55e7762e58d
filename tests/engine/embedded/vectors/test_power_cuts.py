"""Power cuts and full disks at every step lose nothing that was acknowledged."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

import pytest

from tabane.engine.embedded.database import MIGRATIONS
from tabane.engine.embedded.store import Store
from tabane.errors import StoreFull, StoreNewer
from tabane.search.engine import VectorQuery
from tabane.search.records import EVERYTHING, EmbeddingSpace, Record, Shape
from tests.engine.embedded.opening import EmbeddedCollection, embedded
from tests.engine.embedded.vectors.disks import ForgetfulDisk, FullDisk
from tests.engine.embedded.vectors.older import make_older
from tests.engine.embedded.vectors.oracle import packed

T = TypeVar("T")
SHAPE = Shape("notes", spaces=(EmbeddingSpace("text", 3), EmbeddingSpace("image", 2)))
Contents = dict[str, dict[str, bytes]]
"""The vectors of each record."""


def vectors_of(number: int, *spaces: str) -> dict[str, bytes]:
    """Vectors that no other number has."""
    known = {"text": packed([1, number, 2]), "image": packed([number, 1]), "next": packed([3, 1, number, 4])}
    return {name: known[name] for name in spaces}


def only(vectors: dict[str, bytes], space: str) -> dict[str, bytes]:
    return {name: vector for name, vector in vectors.items() if name == space}


async def contents_of(collection: EmbeddedCollection, keys: list[str]) -> Contents:
    """Return what is there, by every way in which it can be read."""
    found: Contents = {}
    for key, record in zip(keys, await collection.get(keys), strict=True):
        if record is not None:
            found[key] = {}
    for space in collection.spaces:
        vectors = await collection.vectors(list(found), space.name)
        query = VectorQuery({space.name: packed([1.0] * space.dimension)})
        hits = await collection.nearest(query, EVERYTHING, 1000)
        assert {hit.key for hit in hits.hits} & set(keys) == {
            key for key, vector in zip(found, vectors, strict=True) if vector
        }
        for key, vector in zip(found, vectors, strict=True):
            if vector is not None:
                found[key][space.name] = vector
    assert await collection.engine.agrees()
    return found


class Session:
    """A collection on a disk that is cut off at every step, beside what it should hold."""

    def __init__(
        self, home: Path, images: Path, keys: list[str], shape: Shape = SHAPE, openings: int = 1
    ) -> None:
        """``openings``: how often what a cut left is opened and looked at."""
        self.home = home
        self.disk = ForgetfulDisk(home, self._step)
        self.cuts = 0
        self.recording = True
        self._images = images
        self._keys = keys
        self._shape = shape
        self._openings = openings
        self._chance = random.Random(3)
        self._allowed: list[Contents] = [{}]

    def expect(self, contents: Contents) -> None:
        """Say what is there from now on."""
        self._allowed = [contents]

    async def do(self, work: Awaitable[T], after: Contents) -> T:
        """Do something after which that is there. If it is cut off, that is there or what was before."""
        self._allowed.append(after)
        done = await work
        self._allowed = [after]
        return done

    def _step(self) -> None:
        if self.recording:
            for share in (0.0, 1.0, 0.5):
                self.cuts += 1
                image = self._images / str(self.cuts)
                self.disk.cut(image, self._chance, share)
                for _ in range(self._openings):
                    found = asyncio.run(self._reopened(image))
                    assert found in self._allowed, (found, self._allowed)
                shutil.rmtree(image)

    async def _reopened(self, image: Path) -> Contents:
        store = await Store.open(str(image), "test")
        try:
            collection = await store.collection(Shape(self._shape.name))
            found = await contents_of(collection, self._keys)
            # It can be written to, and read again.
            if collection.spaces:
                space = collection.spaces[0]
                new = {space.name: packed([5.0] * space.dimension)}
                await collection.upsert([Record(key="new", vectors=new)])
                assert await collection.vectors(["new"], space.name) == [new[space.name]]
                assert await contents_of(collection, self._keys) == found
            return found
        finally:
            await store.close()


@pytest.mark.heavy("opens a store at every step of another one, many times")
async def test_a_power_cut_at_any_step_loses_nothing_acknowledged(tmp_path: Path) -> None:
    keys = [f"k{number}" for number in range(30)]
    home = tmp_path / "home"
    home.mkdir()
    session = Session(home, tmp_path, keys)
    there: Contents = {}
    for _ in range(2):  # the second time, files are there
        async with embedded(home, Shape("notes"), disk=session.disk) as collection:
            for space in SHAPE.spaces:
                await session.do(collection.add_space(space), there)
            for first in (0, 5):
                records = [
                    Record(key=key, vectors=vectors_of(number + 100 * first, "text", "image"))
                    for number, key in enumerate(keys[first : first + 10], first)
                ]
                after = there | {record.key: dict(record.vectors) for record in records}
                await session.do(collection.upsert(records), after)
                there = after
            after = {key: vectors for key, vectors in there.items() if key not in keys[3:7]}
            await session.do(collection.delete(keys[3:7]), after)
            there = after
            page = await collection.select(EVERYTHING, limit=2)
            for each in page.records:
                new = vectors_of(777 + each.row, "text")
                after = there | {each.record.key: there[each.record.key] | new}
                await session.do(collection.attach({each.row: new}), after)
                there = after
            writes = [
                collection.upsert([Record(key=key, vectors=vectors_of(50 + number, "text"))])
                for number, key in enumerate(keys[20:25])
            ]
            session.recording = False  # several at once: any of them may be there
            await asyncio.gather(*writes)
            session.recording = True
            after = there | {key: vectors_of(50 + number, "text") for number, key in enumerate(keys[20:25])}
            await session.do(collection.engine.compact(), after)
            there = after
            await collection.add_space(EmbeddingSpace("next", 4, "m"))
            page = await collection.select(EVERYTHING, limit=100)
            rows = {each.row: vectors_of(each.row, "next") for each in page.records}
            both = {each.record.key: there[each.record.key] | rows[each.row] for each in page.records}
            await session.do(collection.attach(rows), both)
            after = {key: only(vectors, "image") | {"text": vectors["next"]} for key, vectors in both.items()}
            await session.do(collection.succeed("text", "next"), after)
            await session.do(collection.engine.compact(), after)
            there = {key: only(vectors, "image") for key, vectors in after.items()}
            await session.do(collection.drop_space("text"), there)
            await session.do(collection.engine.compact(), there)
    assert session.cuts > 150


@pytest.mark.heavy("opens a store at every step of another one, many times")
async def test_a_power_cut_while_a_file_is_rewritten_loses_nothing(tmp_path: Path) -> None:
    keys = [f"k{number:05}" for number in range(10_900)]
    home = tmp_path / "home"
    home.mkdir()
    shape = Shape("notes", spaces=(EmbeddingSpace("text", 3),))
    session = Session(home, tmp_path, keys[-300:], shape)
    session.recording = False
    async with embedded(home, shape, disk=session.disk) as collection:
        for first in range(0, len(keys), 1000):
            await collection.upsert(
                [
                    Record(key=key, vectors=vectors_of(number, "text"))
                    for number, key in enumerate(keys[first : first + 1000], first)
                ]
            )
        there = {key: vectors_of(number, "text") for number, key in enumerate(keys) if number >= 10_600}
        await collection.delete(keys[:10_600])
        session.recording = True
        await session.do(collection.engine.compact(), there)
        await session.do(collection.upsert([Record(key="x", vectors=vectors_of(1, "text"))]), there)
        session.recording = False
    assert session.cuts >= 15
    (path,) = home.glob("*.vec")
    assert path.stat().st_size < 4096 + 12 * 4096
    async with embedded(home, shape) as collection:
        assert await contents_of(collection, keys[-300:]) == there


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Contents]:
    """Return a closed home of an older version, and what it holds. Each test takes a copy."""
    home = tmp_path_factory.mktemp("older")
    there: Contents = {
        f"k{number}": vectors_of(number, *(("text", "image") if number % 2 else ("text",)))
        for number in range(40)
    }

    async def run() -> None:
        async with embedded(home, SHAPE) as collection:
            await collection.upsert([Record(key=key, vectors=vectors) for key, vectors in there.items()])
            await collection.delete(["k3", "k10"])

    asyncio.run(run())
    make_older(home)
    del there["k3"], there["k10"]
    return home, there


@pytest.mark.heavy("opens a store at every step of another one, many times")
async def test_a_power_cut_while_an_older_store_is_upgraded_loses_nothing(
    tmp_path: Path, older: tuple[Path, Contents]
) -> None:
    home, there = tmp_path / "home", older[1]
    shutil.copytree(older[0], home)
    # The second opening of what a cut left deletes the older vectors.
    session = Session(home, tmp_path, [f"k{number}" for number in range(40)], openings=3)
    session.expect(there)
    async with embedded(home, SHAPE, disk=session.disk) as collection:
        assert await contents_of(collection, list(there)) == there
    assert session.cuts >= 30
    assert (home / "test.vectors.db").exists()
    async with embedded(home, SHAPE, disk=session.disk) as collection:
        assert await contents_of(collection, list(there)) == there
    assert not (home / "test.vectors.db").exists()
    assert not (home / "test.notes.vectors" / "unit-1").exists()


@pytest.mark.heavy("opens a store on a disk that is full at each of its calls")
async def test_on_a_full_disk_an_older_store_stays_as_it_is(
    tmp_path: Path, older: tuple[Path, Contents]
) -> None:
    there = older[1]
    for full in range(100):
        home = tmp_path / str(full)
        shutil.copytree(older[0], home)
        disk = FullDisk(full)
        try:
            async with embedded(home, SHAPE, disk=disk) as collection:
                assert await contents_of(collection, list(there)) == there
        except StoreFull:
            assert disk.met
        async with embedded(home, SHAPE) as collection:
            assert await contents_of(collection, list(there)) == there
        if not disk.met:
            assert full > 6
            return
    raise AssertionError("it is full still")


@pytest.mark.heavy("opens a store on a disk that is full at each of its calls")
async def test_a_full_disk_refuses_what_does_not_fit_and_keeps_the_rest(tmp_path: Path) -> None:
    for full in range(60):
        home, disk = tmp_path / str(full), FullDisk(full)
        there: Contents = {}
        try:
            async with embedded(home, SHAPE, disk=disk) as collection:
                for number in range(4):
                    records = [
                        Record(
                            key=f"k{number}{each}", vectors=vectors_of(10 * number + each, "text", "image")
                        )
                        for each in range(3)
                    ]
                    try:
                        await collection.upsert(records)
                    except StoreFull:
                        assert disk.met
                    else:
                        there |= {record.key: dict(record.vectors) for record in records}
                    if number == 2:
                        disk.give_room()
                keys = [f"k{number}{each}" for number in range(4) for each in range(3)]
                assert await contents_of(collection, keys) == there
                assert "k30" in there
        except StoreFull:
            assert disk.met
            continue
        async with embedded(home, SHAPE) as collection:
            assert await contents_of(collection, keys) == there
        if not disk.met:
            return
    raise AssertionError("it is full still")


async def test_a_version_before_this_one_refuses_the_store(tmp_path: Path) -> None:
    async with embedded(tmp_path, SHAPE) as collection:
        await collection.upsert([Record(key="k", vectors=vectors_of(1, "text"))])
    with pytest.raises(StoreNewer, match="newer Tabane"):
        await Store.open(str(tmp_path), "test", migrations=MIGRATIONS[:-1])
    async with embedded(tmp_path, SHAPE) as collection:
        assert await collection.vectors(["k"], "text") == [vectors_of(1, "text")["text"]]
