"""The cache of computed vectors: bounded, least recently used entries first out."""

from __future__ import annotations

import asyncio
import hashlib
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tabane.engine.embedded.store import PersistentVectorCache, Store
from tabane.errors import BadArguments
from tabane.search.embedding import embedder
from tests.engine.embedded.child import kept_pair
from tests.engine.embedded.dying import Nursery
from tests.engine.embedded.test_faults import ROUNDS

pytestmark = pytest.mark.heavy("thousands of records")


def key(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


@asynccontextmanager
async def open_cache(home: Path, most: int = 1_000_000) -> AsyncIterator[PersistentVectorCache]:
    store = await Store.open(str(home), "cache")
    try:
        yield await PersistentVectorCache.open(store.database, most)
    finally:
        await store.close()


async def test_what_was_put_is_got_and_outlives_closing(tmp_path: Path) -> None:
    for again in range(2):
        store = await Store.open(str(tmp_path), "cache")
        storage: embedder.VectorCache = await store.kept()
        assert storage is await store.kept()
        if not again:
            await storage.put([(key(1), b"one"), (key(2), b""), (key(1), b"uno")])
            await storage.put([])
        assert await storage.get([key(2), key(3), key(1), key(2)]) == [b"", None, b"uno", b""]
        assert await storage.get([]) == []
        await store.close()


async def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    async with open_cache(tmp_path) as storage:
        for asked in (
            storage.put([(b"short", b"")]),
            storage.put([(key(1), bytes(1_000_001))]),
            storage.get([key(1)] * 10_001),
            storage.get([b"short"]),
        ):
            with pytest.raises(BadArguments):
                await asked
        assert storage.size == 0


async def test_what_is_used_stays_and_the_rest_goes_when_it_is_full(tmp_path: Path) -> None:
    favourites = [key(number) for number in range(20)]
    async with open_cache(tmp_path, 400_000) as storage:
        await storage.put([(each, each * 30) for each in favourites])
        for first in range(100, 5000, 50):
            await storage.put([(key(number), key(number) * 30) for number in range(first, first + 50)])
            assert await storage.get(favourites) == [each * 30 for each in favourites]
            assert storage.size <= 400_000
        found = await storage.get([key(number) for number in range(100, 5000)])
        assert found[0] is None
        assert all(each is not None for each in found[-200:])
    assert (tmp_path / "cache.db").stat().st_size < 600_000
    async with open_cache(tmp_path, 200_000) as storage:
        assert storage.size <= 200_000
        assert await storage.get(favourites) == [each * 30 for each in favourites]


async def test_what_was_put_before_the_last_opening_goes_before_what_came_since(tmp_path: Path) -> None:
    async with open_cache(tmp_path, 8_000) as storage:
        await storage.put([(key(number), b"") for number in range(40)])
    async with open_cache(tmp_path, 8_000) as storage:
        await storage.put([(key(0), b"again")])  # it has the place of the oldest, and was used last
        await storage.put([(key(100), bytes(800)), (key(101), bytes(800))])
        found = await storage.get([key(number) for number in (0, 1, 39, 100, 101)])
        assert [each is not None for each in found] == [True, False, True, True, True]


@pytest.mark.parametrize("length", [8, 1536, 3072, 4096, 20_000])
async def test_its_size_is_about_what_the_file_takes(tmp_path: Path, length: int) -> None:
    size = 0
    async with open_cache(tmp_path, 10**9) as storage:
        await storage.put([(key(number), random.Random(number).randbytes(length)) for number in range(2000)])
        size = storage.size
    assert 0.7 < (tmp_path / "cache.db").stat().st_size / size < 1.1


async def test_those_who_ask_and_put_at_once_get_what_they_should(tmp_path: Path) -> None:
    async with open_cache(tmp_path, 300_000) as storage:

        async def one(lane: int) -> None:
            chance = random.Random(lane)
            for _ in range(30):
                numbers = chance.sample(range(2000), 40)
                await storage.put([(key(number), key(number) * 20) for number in numbers])
                found = await storage.get([key(number) for number in chance.sample(range(2000), 300)])
                assert all(each is None or each == each[:32] * 20 for each in found)

        await asyncio.gather(*(one(lane) for lane in range(6)))
        assert storage.size <= 300_000  # between a commit and the room that is made for it, it may be more


async def test_a_process_killed_while_it_puts_leaves_what_it_acknowledged(tmp_path: Path) -> None:
    chance, first = random.Random(3), 0
    with Nursery() as nursery:
        for _ in range(ROUNDS // 8):
            with nursery.child("kept", tmp_path, first=first, most=10**9) as child:
                child.listen(chance.randrange(1, 12))
                child.kill(0.004 * chance.random())
            assert child.ended == -9
            acknowledged = max([first - 1, *(int(line.split()[1]) for line in child.said[1:])])

            async with open_cache(tmp_path, 10**9) as storage:
                pairs = [kept_pair(number) for number in range((acknowledged + 2) * 100)]
                found: list[bytes | None] = []
                for start in range(0, len(pairs), 10_000):
                    found += await storage.get([name for name, _ in pairs[start : start + 10_000]])
                whole = (acknowledged + 1) * 100
                assert found[:whole] == [vector for _, vector in pairs[:whole]]
                assert found[whole:] in ([None] * 100, [vector for _, vector in pairs[whole:]])
            first = acknowledged + 1


_MOST = 30_000
_NUMBERS = st.integers(0, 60)


class KeptMachine(RuleBasedStateMachine):
    """A storage with little room, beside a dict of what was put and in which turn each was used last."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._home = tempfile.TemporaryDirectory()
        self._model: dict[int, bytes] = {}
        self._used: dict[int, int] = {}

    @initialize()
    def open(self) -> None:
        self._store = self._runner.run(Store.open(self._home.name, "cache"))
        self._kept = self._runner.run(PersistentVectorCache.open(self._store.database, _MOST))

    @rule(numbers=st.lists(_NUMBERS, min_size=1, max_size=6), length=st.sampled_from([0, 10, 800, 1500]))
    def put(self, numbers: list[int], length: int) -> None:
        self._used.update(dict.fromkeys(numbers, self._kept.turn))
        vectors = {number: bytes([number]) * length for number in numbers}
        self._model.update(vectors)
        self._runner.run(self._kept.put([(key(number), vectors[number]) for number in numbers]))

    @rule(numbers=st.lists(_NUMBERS, max_size=8))
    def get(self, numbers: list[int]) -> None:
        there = self._there()
        found = self._runner.run(self._kept.get([key(number) for number in numbers]))
        assert found == [self._model[number] if number in there else None for number in numbers]
        self._used.update(dict.fromkeys(there & set(numbers), self._kept.turn))

    @rule()
    def reopen(self) -> None:
        self._runner.run(self._store.close())
        self._used = dict.fromkeys(self._used, 0)  # which of them was used last may be forgotten
        self.open()

    @invariant()
    def keeps_no_more_than_fits_and_what_was_used_last(self) -> None:
        assert self._kept.size <= _MOST
        there = self._there()
        gone = [self._used[number] for number in self._model.keys() - there]
        assert max(gone, default=0) <= min((self._used[number] for number in there), default=0)
        for number in self._model.keys() - there:
            del self._model[number], self._used[number]

    def _there(self) -> set[int]:
        """What is in the file, looked up without using it."""
        names = {key(number): number for number in self._model}
        query = "SELECT key FROM kept JOIN kept_vector USING (number)"
        rows = self._runner.run(self._store.database.read(lambda each: each.execute(query).fetchall()))
        return {names[name] for (name,) in rows}

    def teardown(self) -> None:
        self._runner.run(self._store.close())
        self._runner.close()
        self._home.cleanup()


KeptMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestKept = KeptMachine.TestCase
