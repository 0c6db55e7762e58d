"""Processes that die between two files, files that are torn: vectors are those of their records."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from tabane.engine.embedded.database import CommitCompanion
from tabane.engine.embedded.store import Store
from tabane.engine.embedded.vectors.vector_format import EMPTY
from tabane.errors import StoreCorrupt
from tabane.search.engine import VectorQuery
from tabane.search.records import EVERYTHING, EmbeddingSpace, Record, Shape
from tests.engine.embedded.dying import Nursery
from tests.engine.embedded.lanes import LANES, after, operations, outcomes
from tests.engine.embedded.model import Model, agrees, all_of
from tests.engine.embedded.opening import EmbeddedCollection, embedded
from tests.engine.embedded.vectors.contract import crowd
from tests.engine.embedded.vectors.lanes import BARE, RECORDS, SHAPE, of_generation, space_of, vectors_of
from tests.engine.embedded.vectors.older import make_older
from tests.engine.embedded.vectors.oracle import SHAPE as OTHER
from tests.engine.embedded.vectors.oracle import packed
from tests.harness.patience import until

ROUNDS = int(os.environ.get("TABANE_TEST_KILLS", "60")) // 2
_PER_HOME = 25


@pytest.mark.heavy("kills real processes, many times")
async def test_a_process_killed_while_writing_vectors_leaves_records_with_their_own(
    nursery: Nursery, tmp_path: Path
) -> None:
    chance = random.Random(9)
    for first in range(0, ROUNDS, _PER_HOME):
        home = tmp_path / str(first)
        lanes: list[Model] = [{} for _ in range(LANES)]
        for seed in range(first, min(ROUNDS, first + _PER_HOME)):
            if chance.random() < 0.3:  # so that what is derived is made anew while the process is killed
                shutil.rmtree(home / "test.notes.vectors", ignore_errors=True)
            pages = chance.choice([1, 3, 20, 1000])  # few: killed in the middle of checkpoints, too
            with nursery.child("vectors", home, seed=seed, pages=pages) as child:
                child.listen(chance.choice([0, 1, 2, chance.randrange(2, 30)]))
                child.kill(chance.choice([0, 0.0005, 0.002, 0.01, 0.03]) * chance.random())
            assert child.ended == -9
            lanes = await _survived(home, seed, child.said, lanes)
        shutil.rmtree(home)


async def _survived(home: Path, seed: int, said: list[str], lanes: list[Model]) -> list[Model]:
    """Check what is there after a death, and return it, lane by lane."""
    found: list[Model] = [{} for _ in range(LANES)]

    async with embedded(home, SHAPE) as collection:
        records = await all_of(collection, limit=1000)
        for record in records:
            found[int(record.key[0])][record.key] = record
        await agrees(collection, {record.key: record for record in records})
        await _own_vectors(collection, records)
    for lane in range(LANES):
        acknowledged = said.count(f"done {lane}")
        *done, begun = islice(operations(seed, lane), acknowledged + 1)
        expected = lanes[lane]
        for operation in done:
            expected = after(expected, operation)
        assert found[lane] in outcomes(expected, begun), f"seed {seed}, lane {lane}, after {acknowledged}"
    assert _kept(home) == sum(len(vectors_of(record)) for lane in found for record in lane.values())
    return found


async def _own_vectors(collection: EmbeddedCollection, records: list[Record]) -> None:
    for space in SHAPE.spaces:
        keys = [record.key for record in records]
        expected = [vectors_of(record).get(space.name) for record in records]
        assert await collection.vectors(keys[:1000], space.name) == expected[:1000]
        hits = await collection.nearest(
            VectorQuery({space.name: packed([1.0] * space.dimension)}), EVERYTHING, 1000
        )
        wanted = {key for key, vector in zip(keys, expected, strict=True) if vector}
        assert {hit.key for hit in hits.hits} == wanted
    assert await collection.engine.agrees()


def _kept(home: Path) -> int:
    """How many vectors records have."""
    with contextlib.closing(sqlite3.connect(home / "test.db")) as connection:
        return int(connection.execute("SELECT count(*) FROM vector_1").fetchone()[0])


def _folder(home: Path, space: str) -> Path:
    """Where the files made of a space's vectors are."""
    with contextlib.closing(sqlite3.connect(home / "test.db")) as connection:
        found = connection.execute("SELECT birth FROM space WHERE name = ?", (space,)).fetchone()
    return home / "test.notes.vectors" / f"{found[0]:016x}"


def _vectors(home: Path, space: str) -> Path:
    """Where the vectors of a space are."""
    return next(home.glob(f"test.{_folder(home, space).name}-*.vec"))


@pytest.mark.heavy("kills real processes, many times")
async def test_a_process_killed_while_a_space_succeeds_leaves_the_one_before_or_the_one_after(
    nursery: Nursery, tmp_path: Path
) -> None:
    chance = random.Random(4)
    for first in range(0, ROUNDS // 2, _PER_HOME):
        home = tmp_path / str(first)
        generation = 0
        for _ in range(min(_PER_HOME, ROUNDS // 2 - first)):
            with nursery.child("spaces", home, first=generation + 1) as child:
                child.listen(chance.choice([1, 2, 3, chance.randrange(3, 12)]))
                child.kill(0.03 * chance.random() ** 2)
            assert child.ended == -9
            said = [int(line.split()[1]) for line in child.said if line.startswith("done")]
            begun = [int(line.split()[1]) for line in child.said if line.startswith("begun")]
            found = await _generation(home)
            assert found in {max([generation, *said]), *begun[-1:]}, child.said
            generation = found
        shutil.rmtree(home)


async def _generation(home: Path) -> int:
    """The generation that the collection is of, all of it; 0 before the first."""

    async with embedded(home, BARE) as collection:
        spaces = {space.name: space for space in collection.spaces}
        assert spaces.keys() <= {"text", "next"}
        keys = [f"k{number:03}" for number in range(RECORDS)]
        for name, space in spaces.items():
            number = int(space.model)
            assert space == space_of(name, number)
            vectors = await collection.vectors(keys, name)
            lacking = {each.record.key for each in await collection.lacking(name, limit=1000)}
            assert vectors == [None if key in lacking else of_generation(number) for key in keys]
            assert name == "next" or not lacking
            hits = await collection.nearest(VectorQuery({name: of_generation(number)}), EVERYTHING, 1000)
            assert {hit.key for hit in hits.hits} == set(keys) - lacking
            assert all(abs(hit.score - 1) < 1e-6 for hit in hits.hits)
        assert await collection.engine.agrees()
        await collection.engine.compact()
        of_all = [await collection.vectors(keys, name) for name in spaces]
        kept = sum(vector is not None for of_one in of_all for vector in of_one)
    assert _kept(home) == kept
    assert len(list((home / "test.notes.vectors").glob("*"))) <= len(spaces)
    assert len(list(home.glob("*.vec"))) == len(spaces)
    return int(spaces["text"].model) if "text" in spaces else 0


async def test_a_store_from_before_spaces_had_models_is_taken_over(tmp_path: Path) -> None:
    """As it was written then: names in the file of vectors alone, and the spaces in the shape."""
    records = crowd(300)
    async with embedded(tmp_path, OTHER) as collection:
        await collection.upsert(records)
    make_older(tmp_path, 1)
    store = await Store.open(str(tmp_path), "test")
    collection = await store.collection(BARE)
    assert collection.spaces == OTHER.spaces
    keys = [record.key for record in records]
    for space in OTHER.spaces:
        expected = [record.vectors.get(space.name) for record in records]
        assert await collection.vectors(keys, space.name) == expected
    assert await store.check() == []
    await collection.succeed("text", "image")
    await store.close()
    async with embedded(tmp_path, BARE) as collection:
        assert collection.spaces == (EmbeddingSpace("text", 70),)
        assert await collection.vectors(keys, "text") == [record.vectors.get("image") for record in records]


@pytest.mark.parametrize("version", [1, 2])
async def test_vectors_that_are_lost_while_a_store_is_upgraded_are_lacking(
    tmp_path: Path, version: int
) -> None:
    async with embedded(tmp_path, OTHER) as collection:
        await collection.upsert(crowd(20))
    make_older(tmp_path, version)
    (tmp_path / "test.vectors.db").unlink()
    store = await Store.open(str(tmp_path), "test")
    collection = await store.collection(OTHER)
    assert len(await collection.lacking("text")) == 20
    if version == 2:  # what version 1 knew of spaces was in the file of vectors alone
        with pytest.raises(StoreCorrupt, match=r"vectors\.db was deleted"):
            await store.check()
    await store.close()


async def test_without_a_place_for_codes_all_is_found(tmp_path: Path) -> None:
    """All vectors are compared one by one until there is one."""
    records = crowd(5000)
    async with embedded(tmp_path, OTHER) as collection:
        await collection.upsert(records)
    shutil.rmtree(tmp_path / "test.notes.vectors")
    (tmp_path / "test.notes.vectors").touch()  # so that no folder can be made there, until it is removed
    async with embedded(tmp_path, OTHER) as collection:
        query = VectorQuery({"image": records[7].vectors["image"]})
        for _ in range(2):
            hits = await collection.nearest(query, EVERYTHING, 10)
            assert hits.exact
            assert hits.hits[0].key == "k00007"
            with contextlib.suppress(FileNotFoundError):
                (tmp_path / "test.notes.vectors").unlink()
        await until(lambda: (tmp_path / "test.notes.vectors").is_dir())
        assert await collection.engine.agrees()


def _shortened(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\xff" * 64)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a store of 7,000 records, which is closed: each test takes a copy."""
    home = tmp_path_factory.mktemp("filled")

    async def run() -> None:
        async with embedded(home, OTHER) as collection:
            await collection.upsert(crowd(7000))

    asyncio.run(run())
    return home


@pytest.mark.parametrize("harm", [_shortened, _overwritten, Path.unlink])
@pytest.mark.parametrize("name", ["standing.json", "codes-1-1", "rows"])
async def test_files_that_are_torn_are_made_anew(
    tmp_path: Path, filled: Path, name: str, harm: Callable[[Path], None]
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    path = _folder(tmp_path, "image") / name
    assert path.exists()
    harm(path)
    async with embedded(tmp_path, OTHER) as collection:
        assert await collection.engine.agrees()
        query = VectorQuery({"image": crowd(7000)[1].vectors["image"]})
        assert (await collection.nearest(query, EVERYTHING, 1)).hits[0].key == "k00001"


def _flipped(path: Path) -> None:
    """One word of one code, of a vector that is not looked at when the files are opened."""
    with path.open("r+b") as file:
        file.seek(4096 + 8 * 100)
        word = file.read(8)
        file.seek(-8, os.SEEK_CUR)
        file.write(bytes(255 - byte for byte in word))


async def test_a_check_up_finds_codes_that_say_something_else_and_mends_them(
    tmp_path: Path, filled: Path
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    _flipped(_folder(tmp_path, "image") / "codes-1-1")
    store = await Store.open(str(tmp_path), "test")
    await store.collection(OTHER)
    assert await store.check() == ["notes"]
    await store.mend("notes")
    assert await store.check() == []
    await store.close()


def _exchanged(path: Path) -> None:
    """Two vectors in each other's place."""
    with path.open("r+b") as file:
        file.seek(4096 + 39 * 70 * 4)
        held = file.read(2 * 70 * 4)
        file.seek(4096 + 39 * 70 * 4)
        file.write(held[70 * 4 :] + held[: 70 * 4])


async def test_a_check_up_names_vectors_that_are_not_what_was_written_and_leaves_them_out(
    tmp_path: Path, filled: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    _exchanged(_vectors(tmp_path, "image"))
    store = await Store.open(str(tmp_path), "test")
    collection = await store.collection(OTHER)
    before = await collection.embedded("image", EVERYTHING)
    assert await store.check() == ["notes"]
    assert "the vector of k00059, k00061 in image is not what was written" in caplog.text
    await store.mend("notes")
    assert await store.check() == []
    assert await collection.vectors(["k00059", "k00061"], "image") == [None, None]
    assert await collection.embedded("image", EVERYTHING) == before - 2
    await store.close()


def _zeroed(path: Path) -> None:
    """Most of the vectors."""
    with path.open("r+b") as file:
        file.seek(4096 + 39 * 70 * 4)
        file.write(bytes(2000 * 70 * 4))


async def test_a_check_up_tells_that_a_file_of_vectors_is_another_one(tmp_path: Path, filled: Path) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    _zeroed(_vectors(tmp_path, "image"))
    store = await Store.open(str(tmp_path), "test")
    await store.collection(OTHER)
    with pytest.raises(StoreCorrupt, match="is damaged"):
        await store.check()
    await store.close()


@pytest.mark.parametrize("harm", [_shortened, _overwritten])
async def test_vectors_that_are_torn_are_said_to_be(
    tmp_path: Path, filled: Path, harm: Callable[[Path], None]
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    harm(_vectors(tmp_path, "image"))
    with pytest.raises(StoreCorrupt, match="is damaged"):
        async with embedded(tmp_path, OTHER):
            pass


async def test_after_a_death_the_newest_vectors_are_compared_with_their_checksums(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Records lack those that are others, and everything else serves."""
    async with embedded(tmp_path, OTHER) as collection:
        await collection.upsert(crowd(100))
        before = {stored.record.key for stored in await collection.lacking("image")}
    _exchanged(_vectors(tmp_path, "image"))
    async with embedded(tmp_path, OTHER):
        pass
    (tmp_path / "test.db.lock").write_bytes(b"open  \n")
    async with embedded(tmp_path, OTHER) as collection:
        assert "the vector of k00059, k00061 in image is not what was written" in caplog.text
        lacking = {stored.record.key for stored in await collection.lacking("image")}
        assert lacking == before | {"k00059", "k00061"}
        assert await collection.engine.agrees()
        query = VectorQuery({"image": crowd(100)[59].vectors["image"]})
        hits = (await collection.nearest(query, EVERYTHING, 100)).hits
        assert len(hits) == 100 - len(lacking)
        assert not {hit.key for hit in hits} & lacking


async def test_vectors_that_are_lost_are_lacking_and_not_somebody_elses(tmp_path: Path) -> None:
    async with embedded(tmp_path, OTHER) as collection:
        await collection.upsert(crowd(20))
    for path in tmp_path.glob("*.vec"):
        path.unlink()
    async with embedded(tmp_path, OTHER) as collection:
        assert collection.spaces == OTHER.spaces
        assert len(await collection.lacking("text")) == 20
        await collection.upsert([Record(key="new", vectors={"text": packed([1, 0, 0, 0, 0])})])
        hits = await collection.nearest(VectorQuery({"text": packed([1, 0, 0, 0, 0])}), EVERYTHING, 9)
        assert [hit.key for hit in hits.hits] == ["new"]


@pytest.mark.parametrize("opened", [False, True])
async def test_a_check_up_tells_that_a_file_of_vectors_was_deleted(
    tmp_path: Path, filled: Path, caplog: pytest.LogCaptureFixture, opened: bool
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    store = await Store.open(str(tmp_path), "test")
    if opened:
        await store.collection(OTHER)
    _vectors(tmp_path, "image").unlink()
    await store.collection(OTHER)
    with pytest.raises(StoreCorrupt, match=r"\.vec was deleted"):
        await store.check()
    assert opened or "lost their vectors in the space image" in caplog.text
    await store.close()


async def test_vectors_whose_records_are_elsewhere_stay_until_these_are_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with embedded(tmp_path, OTHER) as collection:
        await collection.upsert(crowd(20))
    before = set(tmp_path.glob("*.vec"))
    (tmp_path / "test.db").rename(tmp_path / "newer")
    async with embedded(tmp_path, OTHER) as collection:
        assert await collection.upsert(crowd(1)) == [True]
        assert await collection.engine.agrees()
    assert all(f"{path} is kept" in caplog.text for path in before)
    (tmp_path / "newer").rename(tmp_path / "test.db")
    async with embedded(tmp_path, OTHER) as collection:
        keys = [record.key for record in crowd(20)]
        assert await collection.vectors(keys, "text") == [record.vectors["text"] for record in crowd(20)]


async def test_files_of_spaces_that_were_never_committed_and_of_other_generations_are_deleted(
    tmp_path: Path,
) -> None:
    async with embedded(tmp_path, OTHER) as collection:
        await collection.upsert(crowd(20))
    there = set(tmp_path.glob("*.vec"))
    text = _vectors(tmp_path, "text")
    shutil.copy(text, text.with_name(text.name.replace("-1.vec", "-2.vec")))
    (tmp_path / "test.0123456789abcdef-1.vec").write_bytes(text.read_bytes()[:EMPTY])
    async with embedded(tmp_path, OTHER):
        assert set(tmp_path.glob("*.vec")) == there


@pytest.mark.heavy("kills real processes, many times")
async def test_files_in_which_most_are_dead_become_dense(tmp_path: Path) -> None:
    records = crowd(12_000)
    async with embedded(tmp_path, OTHER) as collection:
        await collection.upsert(records)
        await collection.upsert(
            [Record(key=each.key, vectors=records[7].vectors) for each in records[:11_500]]
        )
        await collection.delete([each.key for each in records[:11_000]])
        assert collection.engine.table.vectors is not None
        query = VectorQuery({"text": records[7].vectors["text"]})
        before = await collection.nearest(query, EVERYTHING, 1000)
        await collection.engine.compact()
    async with embedded(tmp_path, OTHER) as collection:
        # It may have begun at any moment, also in the midst of the deletion: 10,000 dead ones may be left.
        assert _vectors(tmp_path, "text").stat().st_size <= 11_000 * 5 * 4 + 11_000 * 8 + 8192
        after = await collection.nearest(query, EVERYTHING, 1000)
        assert [hit.key for hit in after.hits] == [hit.key for hit in before.hits]
        assert await collection.engine.agrees()


class _RefusesSecondFile(CommitCompanion):
    """Fails each commit while there are two files of vectors."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.refused = 0

    def ahead(self) -> None:
        if len(list(self._home.glob("*.vec"))) > 1:
            self.refused += 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def lost(self) -> None:
        pass


@pytest.mark.heavy("more than 10,000 records")
async def test_a_rewritten_file_that_is_not_committed_is_deleted(tmp_path: Path) -> None:
    store = await Store.open(str(tmp_path), "test")
    collection = await store.collection(Shape("notes", spaces=(EmbeddingSpace("text", 2),)))
    companion = _RefusesSecondFile(tmp_path)
    store.database.accompany(companion)
    records = [Record(key=f"k{n}", vectors={"text": packed([1, n])}) for n in range(10_200)]
    await collection.upsert(records)
    await collection.delete([record.key for record in records[:10_100]])
    await until(lambda: companion.refused and len(list(tmp_path.glob("*.vec"))) == 1)
    keys = [record.key for record in records[10_100:]]
    assert await collection.vectors(keys, "text") == [record.vectors["text"] for record in records[10_100:]]
    await store.close()
