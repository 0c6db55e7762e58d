"""What texts contain: the same whether the index says it, what is remembered, or the texts themselves."""

from __future__ import annotations

import itertools
import random
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from tabane.engine.embedded.columns import Columns, ColumnSnapshot
from tabane.engine.embedded.lexical.lexical_index import LexicalIndex
from tabane.engine.embedded.masks import REMEMBERED, RowSet, SubstringCondition, SubstringFilter
from tabane.engine.embedded.truth import Truth
from tabane.search.records import (
    And,
    Contains,
    Equal,
    Field,
    Filter,
    Kind,
    Not,
    Or,
    Record,
    Shape,
    TextField,
    matches,
)
from tests.engine.embedded.opening import EmbeddedCollection, indexed

SHAPE = Shape("posts", (TextField("content"), TextField("summary")), (Field("user", Kind.STRING),))
WORDS = ["映画", "東京", "猫", "tokyo", "rain", "go", "の"]
LONG = "long " * 20  # more than an index says for sure


def record(number: int) -> Record:
    chance = random.Random(number)
    shares = [0.9, 0.5, 0.3, 0.3, 0.6, 0.1, 0.99]
    words = [word for word, share in zip(WORDS, shares, strict=True) if chance.random() < share]
    content = " ".join(words) + (" " + LONG if number % 50 == 0 else "") + f" {number}"
    texts = {"content": content} if number % 40 else {}
    return Record(key=f"k{number}", texts=texts | {"summary": words[0]}, fields={"user": f"u{number % 9}"})


def filters() -> list[Filter]:
    held = [Contains(word, ("content",)) for word in [*WORDS, "画", "o", "ok", LONG, "absent"]]
    found: list[Filter] = [
        *held,
        *(Not(each) for each in held),
        Contains("映画"),
        Contains("猫", ("summary",)),
    ]
    for one, other in itertools.permutations(held, 2):
        found.append(And((one, Not(other))))
        found.append(And((one, other)))
    found += [
        And((held[0], held[2], held[4], Not(held[3]))),
        And((Not(held[2]), Not(held[5]))),
        And((Equal("user", "u3"), held[0], Not(held[1]))),
        Or((And((held[2], held[3])), And((held[5], Not(held[0]))))),
        And((Or((held[2], held[5])), Not(held[4]), held[6])),
    ]
    return found


async def agrees(collection: EmbeddedCollection, model: dict[str, Record]) -> None:
    for where in filters():
        expected = sum(matches(where, each) for each in model.values())
        assert await collection.count(where) == expected, where


@pytest.mark.heavy("thousands of records")
async def test_what_texts_contain_is_found_in_the_index_the_tail_and_by_looking(tmp_path: Path) -> None:
    async with indexed(tmp_path, SHAPE) as collection:
        assert isinstance(collection.engine.lexical, LexicalIndex)
        model: dict[str, Record] = {}

        async def put(first: int, end: int) -> None:
            records = [record(number) for number in range(first, end)]
            model.update({each.key: each for each in records})
            await collection.upsert(records)

        await put(0, 900)
        await collection.engine.lexical.settled()
        await agrees(collection, model)
        await put(900, 950)  # few: looked at themselves
        await agrees(collection, model)
        await put(950, 1400)  # many: the index and what is newer than it
        await agrees(collection, model)
        keys = list(model)[::3]
        await collection.delete(keys)
        for key in keys:
            del model[key]
        other = [Record(key=each.key, texts={"content": "猫 go"}) for each in list(model.values())[:30]]
        await collection.upsert(other)
        model.update({each.key: each for each in other})
        await agrees(collection, model)
        await collection.engine.lexical.settled()
        await agrees(collection, model)
        await collection.engine.compact()
        await agrees(collection, model)


class _Index:
    """Says the same of every question, and which they were."""

    def __init__(self) -> None:
        self.asked: list[SubstringCondition] = []

    def containing(self, connection: sqlite3.Connection, wanted: SubstringCondition) -> RowSet:
        self.asked.append(wanted)
        return RowSet(np.array([1, 2, 3]))


def test_answers_are_remembered_as_long_as_there_is_room() -> None:
    slots = 4_000_000
    most = REMEMBERED // (slots // 8)
    alive = np.ones(slots, dtype=np.bool_)
    snapshot = ColumnSnapshot(1, 1, alive, {})
    containing, index = SubstringFilter(Truth(1, SHAPE), Columns((), 1, 0)), _Index()
    connection = sqlite3.connect(":memory:")
    wanted = [SubstringCondition((Contains(f"w{number}"),)) for number in range(most + 1)]
    for each in [*wanted[:most], *wanted[:most]]:
        mask = containing.mask(connection, snapshot, index, each, alive)
        assert np.flatnonzero(mask).tolist() == [0, 1, 2]
    assert index.asked == wanted[:most]
    for each in (wanted[most], wanted[1], wanted[0]):
        containing.mask(connection, snapshot, index, each, alive)
    assert index.asked == [*wanted, wanted[0]]


def test_an_answer_of_a_later_moment_is_none_of_an_earlier_one() -> None:
    alive = np.ones(100, dtype=np.bool_)
    containing, index = SubstringFilter(Truth(1, SHAPE), Columns((), 1, 0)), _Index()
    connection, wanted = sqlite3.connect(":memory:"), SubstringCondition((Contains("w"),))
    for changes in (5, 4, 4):
        containing.mask(connection, ColumnSnapshot(1, changes, alive, {}), index, wanted, alive)
    assert len(index.asked) == 2
