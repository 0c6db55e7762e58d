"""Whatever becomes of the index, it says what the truth says: after deaths, damage, and other versions."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from pathlib import Path

import pytest

from tabane.engine.embedded.collection_table import CollectionTable
from tabane.engine.embedded.lexical.lexical_index import LexicalIndex
from tabane.engine.embedded.store import Store
from tabane.engine.query_plans import Japanese
from tabane.search.engine import Collection, LexicalQuery, Mode
from tabane.search.records import EVERYTHING, Contains, Record, Shape, TextField
from tests.engine.embedded.dying import Nursery
from tests.engine.embedded.lexical.homes import BODY, bodies, found, lexical
from tests.engine.embedded.model import all_of
from tests.engine.embedded.opening import indexed
from tests.engine.embedded.shapes import SHAPE
from tests.harness.patience import LONG

ROUNDS = int(os.environ.get("TABANE_TEST_KILLS", "60")) // 2
_PER_HOME = 20


def folder(home: Path) -> Path:
    return home / "test.notes"


async def says_the_truth(collection: Collection) -> None:
    """The index answers for every record of the truth and for no other: from the tail, and settled."""
    records = await all_of(collection, limit=1000)
    for _ in range(2):
        everyone = await found(collection, "東京", limit=1000)
        assert sorted(everyone) == [record.key for record in records if record.texts]
        for number in (7, 70, 700):
            held = [each.key for each in records if f" {number} " in f"{each.texts.get('body', '')} "]
            assert sorted(await found(collection, str(number), limit=1000)) == held
            assert await collection.count(Contains(f" {number} ")) == len(held)
        await lexical(collection).settled()
    assert await lexical(collection).agrees()


@pytest.mark.heavy("kills real processes, many times")
async def test_a_process_killed_while_indexing_leaves_index_and_truth_in_agreement(
    nursery: Nursery, tmp_path: Path
) -> None:
    chance = random.Random(11)
    for first in range(0, ROUNDS, _PER_HOME):
        home = tmp_path / str(first)
        for seed in range(first, min(ROUNDS, first + _PER_HOME)):
            with nursery.child("index", home, seed=seed) as child:
                child.listen(chance.choice([0, 1, chance.randrange(1, 40)]))
                child.kill(chance.choice([0, 0.0005, 0.005, 0.03]) * chance.random())
            assert child.ended == -9
            if chance.random() < 0.3:
                damage(folder(home), chance)
            async with indexed(home) as collection:
                await says_the_truth(collection)
        shutil.rmtree(home)


def damage(index: Path, chance: random.Random) -> None:
    """Take away a file of the index, or part of one, or all of it."""
    files = sorted(index.iterdir()) if index.exists() else []
    if not files:
        return
    victim = chance.choice(files)
    match chance.randrange(4):
        case 0:
            shutil.rmtree(index)
        case 1:
            victim.unlink()
        case 2:
            os.truncate(victim, victim.stat().st_size // 2)
        case _:
            victim.write_bytes(b"")


@pytest.mark.parametrize(
    "ending", ["idx", "term", "pos", "fast", "fieldnorm", "store", "meta.json", "standing.json"]
)
@pytest.mark.parametrize("how", ["gone", "cut", "empty"])
async def test_an_index_whose_files_are_damaged_is_made_anew(tmp_path: Path, ending: str, how: str) -> None:
    records = bodies(f"東京 note {number} " for number in range(50))
    async with indexed(tmp_path, SHAPE) as collection:
        await collection.upsert(records)
        await lexical(collection).settled()
    for victim in [path for path in folder(tmp_path).iterdir() if path.name.endswith(ending)]:
        if how == "gone":
            victim.unlink()
        else:
            os.truncate(victim, victim.stat().st_size // 2 if how == "cut" else 0)
    async with indexed(tmp_path) as collection:
        await says_the_truth(collection)


async def test_an_index_can_be_made_anew_while_it_is_searched(tmp_path: Path) -> None:
    async with indexed(tmp_path) as collection:
        await collection.upsert(bodies(f"東京 note {number} " for number in range(50)))
        await lexical(collection).settled()
        await lexical(collection).remake()
        hits = await collection.search(LexicalQuery("東京"), EVERYTHING, 10)
        assert hits.exact is (len(hits.hits) == 10)
        await lexical(collection).settled()
        await says_the_truth(collection)


@pytest.mark.heavy("kills real processes, many times")
async def test_an_index_that_is_taken_away_while_it_is_open_is_made_anew(tmp_path: Path) -> None:
    async with indexed(tmp_path) as collection:
        await collection.upsert(bodies(f"東京 note {number} " for number in range(50)))
        await lexical(collection).settled()
        shutil.rmtree(folder(tmp_path))
        await collection.upsert([Record(key="new", texts={"body": "東京 note 7 "})])
        async with asyncio.timeout(LONG):
            while lexical(collection).indexed < 51 or not await lexical(collection).agrees():
                assert "new" in await found(collection, "7")
        await says_the_truth(collection)


async def test_compaction_takes_what_is_gone_out_of_the_index(tmp_path: Path) -> None:
    def size() -> int:
        return sum(path.stat().st_size for path in folder(tmp_path).iterdir())

    async with indexed(tmp_path) as collection:
        for first in range(0, 4000, 1000):
            numbers = range(first, first + 1000)
            await collection.upsert(
                [Record(key=f"k{number}", texts={"body": f"東京 note {number} "}) for number in numbers]
            )
            await lexical(collection).settled()
    before = size()
    async with indexed(tmp_path) as collection:
        await collection.delete([f"k{number}" for number in range(4000) if number % 40])
        await lexical(collection).settled()
        await collection.engine.compact()
        await says_the_truth(collection)
    assert size() < before / 4


async def test_an_index_that_was_put_back_from_earlier_is_caught_up(tmp_path: Path) -> None:
    async with indexed(tmp_path) as collection:
        await collection.upsert(bodies(f"東京 note {number} " for number in range(50)))
        await lexical(collection).settled()
    shutil.copytree(folder(tmp_path), tmp_path / "earlier")
    async with indexed(tmp_path) as collection:
        await collection.delete([f"k{number:03}" for number in range(0, 50, 3)])
        await collection.upsert(bodies(f"東京 note {number + 7} " for number in range(10)))
        await collection.engine.compact()
    shutil.rmtree(folder(tmp_path))
    shutil.copytree(tmp_path / "earlier", folder(tmp_path))
    async with indexed(tmp_path) as collection:
        await says_the_truth(collection)


async def test_a_truth_that_was_put_back_from_earlier_has_an_index_of_its_own(tmp_path: Path) -> None:
    async with indexed(tmp_path) as collection:
        await collection.upsert(bodies(f"東京 note {number} " for number in range(50)))
    shutil.copy(tmp_path / "test.db", tmp_path / "earlier.db")
    async with indexed(tmp_path) as collection:
        await collection.delete(["k001"])
        await collection.upsert(bodies(f"東京 note {number + 100} " for number in range(20)))
    shutil.copy(tmp_path / "earlier.db", tmp_path / "test.db")
    async with indexed(tmp_path) as collection:
        await says_the_truth(collection)


async def test_a_shape_that_changed_has_an_index_of_its_own(tmp_path: Path) -> None:
    async with indexed(tmp_path, BODY) as collection:
        await collection.upsert(bodies(["old text"]))
    async with indexed(tmp_path, Shape("notes", (TextField("body"), TextField("more")))) as collection:
        await collection.upsert([Record(key="new", texts={"body": "text", "more": "text"})])
        assert sorted(await found(collection, "text")) == ["k000", "new"]
        assert await found(collection, LexicalQuery("text", fields=("more",))) == ["new"]


async def test_another_dictionary_means_another_index(tmp_path: Path) -> None:
    class Dictionary(Japanese):
        def words(self, text: str) -> list[str]:
            return ["all" for each in text.split() if "a" in each]

    async def opened(folder: str, table: CollectionTable) -> LexicalIndex:
        return await LexicalIndex.open(folder, table, Dictionary("words of one letter"))

    async with indexed(tmp_path, BODY) as collection:
        await collection.upsert(bodies(["a cat", "bird"]))
    store = await Store.open(str(tmp_path), "test", lexical=opened)
    collection = await store.collection(BODY)
    assert await found(collection, "rat") == ["k000"]
    await lexical(collection).settled()
    assert await found(collection, "rat") == ["k000"]
    await store.close()


@pytest.mark.heavy("kills real processes, many times")
async def test_a_large_collection_without_index_is_found_by_and_by_and_tells_how_far_it_is(
    tmp_path: Path,
) -> None:
    records = [Record(key=f"k{number:05}", texts={"body": f"東京 {number}"}) for number in range(9000)]

    async with indexed(tmp_path, BODY) as collection:
        await collection.upsert(records)
    shutil.rmtree(folder(tmp_path))
    async with indexed(tmp_path, BODY) as collection:
        progress = lexical(collection).progress  # its thread may have put some in by now
        assert progress is not None
        assert progress[0] < progress[1] == 9000
        await collection.upsert([Record(key="new", texts={"body": "東京 new"})])
        await collection.delete(["k00001"])
        hits = await collection.search(LexicalQuery("new"), EVERYTHING, 10)
        assert [hit.key for hit in hits.hits] == ["new"]
        assert await collection.count(Contains("東京 ")) == 9000
        await lexical(collection).settled()
        assert lexical(collection).progress is None
        assert await found(collection, "8999") == ["k08999"]
        assert await found(collection, LexicalQuery("東京 1", Mode.ALL)) == []
        assert await found(collection, "new") == ["new"]
