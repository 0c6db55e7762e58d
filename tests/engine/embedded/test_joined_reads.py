"""Requests that are joined: answered at one moment, as they are one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tabane.errors import BadArguments
from tabane.search.engine import JoinedRecords, Order, VectorQuery
from tabane.search.records import (
    EVERYTHING,
    And,
    EmbeddingSpace,
    Equal,
    Field,
    In,
    Kind,
    Not,
    Range,
    Record,
    Shape,
    TextField,
    Value,
)
from tests.engine.embedded.opening import EmbeddedCollection, embedded
from tests.engine.embedded.vectors.oracle import packed

SHAPE = Shape(
    "notes",
    (TextField("body"),),
    (Field("group", Kind.STRING), Field("at", Kind.DATE)),
    (EmbeddingSpace("one", 3),),
)
QUERY = VectorQuery({"one": packed([1.0, 0.5, 0.0])})
KEYS = [f"k{number}" for number in range(60)]


def record(number: int, at: float | None = None) -> Record:
    fields: dict[str, Value] = {"group": f"g{number % 7}"}
    if number % 5:
        fields["at"] = float(at or number % 11)
    vector = packed([number % 13 - 6.0, number % 5 - 2.0, 1.0])
    return Record(key=f"k{number}", texts={"body": str(number)}, fields=fields, vectors={"one": vector})


@asynccontextmanager
async def open_collection() -> AsyncIterator[EmbeddedCollection]:
    async with embedded(shape=SHAPE) as collection:
        await collection.upsert([record(number) for number in range(60)])
        yield collection


async def answers(asked: JoinedRecords) -> list[object]:
    """Return the answers to one request of each kind."""
    newest = (Order("at", descending=True),)
    first = await asked.select(Range("at"), order=newest, limit=7)
    groups = In("group", ("g1", "g4", "none"))
    return [
        await asked.nearest(QUERY, Not(Equal("group", "g2")), 9),
        await asked.get([*KEYS[:5], "missing", KEYS[0]]),
        await asked.firsts("group", Order("at"), groups),
        await asked.firsts("group", Order("at"), And((groups, And((Range("at", 3), EVERYTHING))))),
        await asked.firsts("group", Order("at", descending=True), Range("at", 3, 5)),
        first,
        await asked.select(Range("at"), order=newest, after=first.after, limit=7),
        await asked.similarities(QUERY, ["k3", "missing", "k7"]),
    ]


async def test_joined_requests_are_answered_as_single_ones_are() -> None:
    async with open_collection() as collection:
        await collection.delete(["k8", "k29"])
        await collection.upsert([record(15, 99.0)])
        assert await collection.together(answers) == await answers(collection)
        assert await collection.together(answers, long=True) == await answers(collection)


async def test_the_first_of_each_group_is_the_oldest_live_record() -> None:
    """The oracle looks at every record. The oldest ones are deleted again and again."""
    async with open_collection() as collection:
        wanted = ("g0", "g1", "g3")
        for _ in range(4):
            live = [each for each in await collection.get(KEYS) if each is not None]
            expected = {
                group: min((each for each in live if each.fields["group"] == group), key=age).key
                for group in wanted
            }
            assert await collection.firsts("group", Order("at"), In("group", wanted)) == expected
            await collection.delete(list(expected.values()))


def age(each: Record) -> tuple[float, str]:
    at = each.fields.get("at", float("inf"))
    assert isinstance(at, int | float)
    return at, each.key


async def test_joined_requests_see_one_moment() -> None:
    async with open_collection() as collection:
        loop = asyncio.get_running_loop()

        async def asking(asked: JoinedRecords) -> list[Record | None]:
            await asked.nearest(QUERY, EVERYTHING, 1)
            # This runs in the reading thread, so it can wait for the loop.
            asyncio.run_coroutine_threadsafe(collection.delete(["k3"]), loop).result(60)
            return await asked.get(["k3"])

        assert (await collection.together(asking))[0] is not None
        assert await collection.get(["k3"]) == [None]


async def test_errors_reach_the_caller_and_nothing_else_may_be_awaited() -> None:
    async def wrong(asked: JoinedRecords) -> None:
        await asked.nearest(QUERY, EVERYTHING, 0)

    async def unknown(asked: JoinedRecords) -> None:
        await asked.nearest(VectorQuery({"two": QUERY.vectors["one"]}), EVERYTHING, 1)

    async def waiting(asked: JoinedRecords) -> None:
        await asyncio.sleep(0)

    async with open_collection() as collection:
        for asking in (wrong, unknown):
            with pytest.raises(BadArguments):
                await collection.together(asking)
        with pytest.raises(RuntimeError, match="may not wait"):
            await collection.together(waiting)
        assert await collection.get(["k0"]) != [None]
