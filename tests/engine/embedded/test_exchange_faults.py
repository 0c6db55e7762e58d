"""Processes that die in the midst of exchanges: each document is whole afterwards, as it was or as it is."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from tabane.search.engine import LexicalQuery, VectorQuery
from tabane.search.records import EVERYTHING
from tests.engine.embedded.documents import SHAPE, SIZES, document, generation_of
from tests.engine.embedded.dying import Nursery
from tests.engine.embedded.opening import indexed
from tests.engine.embedded.vectors.oracle import packed

ROUNDS = int(os.environ.get("TABANE_TEST_KILLS", "60"))
_PER_HOME = 25  # deaths that one store lives through


@pytest.mark.heavy("kills real processes, many times")
async def test_a_process_killed_while_exchanging_leaves_each_document_whole(
    nursery: Nursery, tmp_path: Path
) -> None:
    chance = random.Random(13)
    halves = 0
    for first in range(0, ROUNDS, _PER_HOME):
        home = tmp_path / str(first)
        generations: dict[str, int | None] = dict.fromkeys(SIZES)
        for number in range(first, min(ROUNDS, first + _PER_HOME)):
            with nursery.child("exchange", home) as child:
                child.listen(chance.choice([0, 1, 2, chance.randrange(2, 12)]))
                child.kill(chance.choice([0, 0.0005, 0.002, 0.01, 0.03]) * chance.random())
            assert child.ended == -9
            acknowledged = dict(generations)
            for line in child.said:
                if line.startswith("done"):
                    _, name, generation = line.split()
                    acknowledged[name] = int(generation)
            generations = await _survived(home, thorough=number % 5 == 0)
            for name, found in generations.items():
                before = acknowledged[name]
                assert found in (before, 0 if before is None else before + 1), (number, name, child.said)
                halves += found != before
        shutil.rmtree(home)
    assert halves or ROUNDS < 100, "no process died between a commit and its answer"


async def _survived(home: Path, *, thorough: bool) -> dict[str, int | None]:
    """The generation of each document after a death; each is whole, for words and for vectors too."""
    async with indexed(home, SHAPE) as collection:
        found = {name: await generation_of(collection, name, parts) for name, parts in SIZES.items()}
        expected = {
            part.key
            for name, generation in found.items()
            if generation is not None
            for part in document(name, generation, SIZES[name])[1:]
        }
        words = await collection.search(LexicalQuery("東京"), EVERYTHING, 1000)
        assert {hit.key for hit in words.hits} == expected
        near = await collection.nearest(VectorQuery({"text": packed([1.0] * 8)}), EVERYTHING, 1000)
        assert {hit.key for hit in near.hits} == expected
        assert await collection.count(EVERYTHING) == len(expected) + sum(
            generation is not None for generation in found.values()
        )
        if thorough:
            assert await collection.engine.agrees()
        return found
