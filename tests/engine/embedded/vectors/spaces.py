"""What every engine keeps of spaces that come and go: see :mod:`tests.engine.embedded.contract`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from tabane.errors import BadArguments
from tabane.search.engine import Collection, VectorQuery
from tabane.search.records import EVERYTHING, MOST_FIELDS, EmbeddingSpace, Equal, Field, Kind, Record, Shape
from tests.engine.embedded.contract import EngineContract
from tests.engine.embedded.vectors.oracle import packed

BARE = Shape("notes")
_MOST_TURNS = 12


def generation(number: int, dimension: int = 5) -> bytes:
    """The one vector that all records have in a generation: its cosine with another's tells it."""
    return packed([1.0, float(number), *[0.0] * (dimension - 2)])


async def fill(collection: Collection, space: str, vector: bytes, model: str = "") -> None:
    """Give all that lack one in a space this vector, page by page."""
    after = 0
    while page := await collection.lacking(space, after, 100):
        await collection.attach({each.row: {space: vector} for each in page}, model)
        after = page[-1].row


async def vectors_of(collection: Collection, space: str, keys: Iterable[str]) -> set[bytes | None]:
    return set(await collection.vectors(list(keys), space))


class SpacesContract(EngineContract):
    """What the protocol Vectors says of spaces."""

    shape = BARE

    async def test_a_collection_without_spaces_says_so(self) -> None:
        async with self.empty() as collection:
            assert collection.spaces == ()
            query = VectorQuery({"text": packed([1])})
            for asked in (
                collection.nearest(query, EVERYTHING, 1),
                collection.similarities(query, ["k"]),
                collection.vectors(["k"], "text"),
                collection.lacking("text"),
                collection.attach({1: {"text": packed([1])}}),
                collection.upsert([Record(key="k", vectors={"text": packed([1])})]),
                collection.succeed("text", "text"),
            ):
                with pytest.raises(BadArguments, match="text"):
                    await asked
            await collection.drop_space("text")

    async def test_a_space_that_is_added_works_at_once(self) -> None:
        one, other = packed([1, 0]), packed([0, 1])
        async with self.empty() as collection:
            await collection.upsert([Record(key=key) for key in "abc"])
            await collection.add_space(EmbeddingSpace("text", 2, "model#1"))
            assert collection.spaces == collection.shape.spaces == (EmbeddingSpace("text", 2, "model#1"),)
            rows = [each.row for each in await collection.lacking("text")]
            assert len(rows) == 3
            assert (await collection.nearest(VectorQuery({"text": one}), EVERYTHING, 5)).hits == ()
            assert await collection.attach({rows[0]: {"text": one}, rows[1]: {"text": other}}) == 2
            assert await collection.upsert([Record(key="d", vectors={"text": one})]) == [True]
            query = VectorQuery({"text": one})
            hits = await collection.nearest(query, EVERYTHING, 5)
            assert [(hit.key, hit.score) for hit in hits.hits] == [("a", 1.0), ("d", 1.0), ("b", 0.0)]
            blocks = [block async for block in collection.scan(query, EVERYTHING)]
            assert [key for block in blocks for key in block.keys] == ["a", "b", "d"]
            assert await collection.similarities(query, ["d", "c", "b"]) == [1.0, None, 0.0]
            assert await collection.vectors(["a", "b", "c"], "text") == [one, other, None]

    async def test_adding_what_is_there_is_nothing_and_another_of_its_name_is_refused(self) -> None:
        space = EmbeddingSpace("text", 2, "model#1")
        async with self.empty() as collection:
            await collection.add_space(space)
            await collection.upsert([Record(key="k", vectors={"text": packed([1, 2])})])
            await collection.add_space(space)
            await collection.add_space(EmbeddingSpace("text", 2))
            for other in (EmbeddingSpace("text", 3, "model#1"), EmbeddingSpace("text", 2, "model#2")):
                with pytest.raises(BadArguments) as refused:
                    await collection.add_space(other)
                assert str(space) in str(refused.value)
                assert str(other) in str(refused.value)
            assert collection.spaces == (space,)
            assert await collection.vectors(["k"], "text") == [packed([1, 2])]

    @pytest.mark.parametrize(
        "wrong",
        [
            EmbeddingSpace("", 2),
            EmbeddingSpace("a b", 2),
            EmbeddingSpace("文", 2),
            EmbeddingSpace("t", 0),
            EmbeddingSpace("t", 8193),
        ],
    )
    async def test_a_space_that_cannot_be_is_refused(self, wrong: EmbeddingSpace) -> None:
        async with self.empty() as collection:
            with pytest.raises(BadArguments):
                await collection.add_space(wrong)
            assert collection.spaces == ()

    async def test_there_are_so_many_spaces_and_no_more(self) -> None:
        async with self.empty() as collection:
            for number in range(MOST_FIELDS):
                await collection.add_space(EmbeddingSpace(f"s{number}", 1))
            with pytest.raises(BadArguments, match=str(MOST_FIELDS)):
                await collection.add_space(EmbeddingSpace("more", 1))
            assert [space.name for space in collection.spaces] == [f"s{n}" for n in range(MOST_FIELDS)]

    async def test_spaces_outlive_closing_and_shapes_that_do_not_name_them(self, tmp_path: Path) -> None:
        added, vector = EmbeddingSpace("text", 2, "model#1"), packed([3, 4])
        async with self.engine(tmp_path, BARE) as collection:
            await collection.add_space(added)
            await collection.upsert([Record(key="k", vectors={"text": vector})])
        async with self.engine(tmp_path, BARE) as collection:
            assert collection.spaces == (added,)
            assert await collection.vectors(["k"], "text") == [vector]
        more = Shape("notes", spaces=(EmbeddingSpace("image", 3), EmbeddingSpace("text", 2)))
        async with self.engine(tmp_path, more) as collection:
            assert collection.spaces == (added, EmbeddingSpace("image", 3))
            hits = await collection.nearest(VectorQuery({"text": vector}), EVERYTHING, 5)
            assert [hit.key for hit in hits.hits] == ["k"]
        for other in (EmbeddingSpace("text", 3), EmbeddingSpace("text", 2, "model#2")):
            with pytest.raises(BadArguments, match="model#1"):
                async with self.engine(tmp_path, Shape("notes", spaces=(other,))):
                    pass
        async with self.engine(tmp_path, BARE) as collection:
            assert await collection.vectors(["k"], "text") == [vector]

    async def test_a_space_that_is_dropped_is_gone_with_its_vectors_and_nothing_else(
        self, tmp_path: Path
    ) -> None:
        one, other = packed([1, 0]), packed([0, 1])
        records = [Record(key=f"k{n:04}", vectors={"text": one, "image": other}) for n in range(1200)]
        async with self.engine(tmp_path, BARE) as collection:
            await collection.add_space(EmbeddingSpace("text", 2))
            await collection.add_space(EmbeddingSpace("image", 2))
            await collection.upsert(records)
            await collection.drop_space("text")
            assert collection.spaces == (EmbeddingSpace("image", 2),)
            with pytest.raises(BadArguments):
                await collection.nearest(VectorQuery({"text": one}), EVERYTHING, 1)
            with pytest.raises(BadArguments):
                await collection.vectors(["k0000"], "text")
            await collection.drop_space("text")
            await collection.add_space(EmbeddingSpace("text", 3, "model#2"))
            assert len(await collection.lacking("text", 0, 1000)) == 1000
            without = [Record(key=each.key, vectors={"image": other}) for each in records[:5]]
            assert await collection.upsert(without) == [False] * 5
            assert await collection.upsert([Record(key="k0007", vectors={"text": packed([1, 1, 1])})])
            assert await collection.delete(["k0008"]) == 1
        async with self.engine(tmp_path, BARE) as collection:
            assert collection.spaces == (EmbeddingSpace("image", 2), EmbeddingSpace("text", 3, "model#2"))
            hits = await collection.nearest(VectorQuery({"text": packed([1, 1, 1])}), EVERYTHING, 5)
            assert [hit.key for hit in hits.hits] == ["k0007"]
            hits = await collection.nearest(VectorQuery({"image": other}), EVERYTHING, 5)
            assert hits.total == 1198
            assert await collection.vectors(["k0008", "k0007", "k0006"], "image") == [None, None, other]

    async def test_a_space_succeeds_another(self, tmp_path: Path) -> None:
        async with self.engine(tmp_path, BARE) as collection:
            await collection.add_space(EmbeddingSpace("text", 5, "model#1"))
            keys = [f"k{number:03}" for number in range(150)]
            await collection.upsert([Record(key=key, vectors={"text": generation(1)}) for key in keys])
            await collection.add_space(EmbeddingSpace("next", 7, "model#2"))
            await fill(collection, "next", generation(2, 7))
            await collection.succeed("text", "next")
            assert collection.spaces == (EmbeddingSpace("text", 7, "model#2"),)
            assert await vectors_of(collection, "text", keys) == {generation(2, 7)}
            hits = await collection.nearest(VectorQuery({"text": generation(2, 7)}), EVERYTHING, 1000)
            assert {round(hit.score, 6) for hit in hits.hits} == {1.0}
            assert len(hits.hits) == 150
            with pytest.raises(BadArguments):
                await collection.succeed("text", "next")
            with pytest.raises(BadArguments):
                await collection.nearest(VectorQuery({"text": generation(1)}), EVERYTHING, 1)
            await collection.succeed("text", "text")
            await collection.succeed("fresh", "text")
        async with self.engine(tmp_path, BARE) as collection:
            assert collection.spaces == (EmbeddingSpace("fresh", 7, "model#2"),)
            assert await vectors_of(collection, "fresh", keys) == {generation(2, 7)}
            assert len(await collection.lacking("fresh")) == 0

    async def test_whoever_asks_beside_a_succession_sees_before_or_after(self) -> None:
        keys = [f"k{number:03}" for number in range(220)]
        query = VectorQuery({"text": generation(0)})
        async with self.empty() as collection:
            await collection.add_space(EmbeddingSpace("text", 5, "model#0"))
            await collection.upsert([Record(key=key, vectors={"text": generation(0)}) for key in keys])
            done = asyncio.Event()

            async def succeed() -> None:
                for turn in range(1, _MOST_TURNS):
                    await collection.add_space(EmbeddingSpace("next", 5, f"model#{turn}"))
                    await fill(collection, "next", generation(turn), f"model#{turn}")
                    await collection.succeed("text", "next")
                done.set()

            async def one(scores: list[float], whole: bool = True) -> None:
                assert len(set(scores)) == 1
                assert len(scores) == len(keys) or not whole

            async def look() -> None:
                while not done.is_set():
                    hits = await collection.nearest(query, EVERYTHING, 1000)
                    await one([hit.score for hit in hits.hits])
                    found = await collection.similarities(query, keys)
                    await one([score for score in found if score is not None])
                    assert len(await vectors_of(collection, "text", keys)) == 1
                    assert await collection.lacking("text") == []

            async def scan() -> None:
                while not done.is_set():
                    blocks = [block async for block in collection.scan(query, EVERYTHING)]
                    await one([score for block in blocks for score in block.similarities])

            await asyncio.gather(succeed(), look(), scan(), scan())
            assert collection.spaces == (EmbeddingSpace("text", 5, f"model#{_MOST_TURNS - 1}"),)

    async def test_vectors_of_the_model_before_never_come_into_a_space_that_succeeded(self) -> None:
        async with self.empty() as collection:
            await collection.add_space(EmbeddingSpace("text", 5, "model#0"))
            await collection.upsert([Record(key=f"k{number:03}") for number in range(120)])
            rows = [each.row for each in await collection.lacking("text", 0, 1000)]
            done = asyncio.Event()

            async def attach() -> None:
                """As a worker does that learns late of the succession."""
                while not done.is_set():
                    await collection.attach({row: {"text": generation(0)} for row in rows}, "model#0")

            async def succeed() -> None:
                await collection.add_space(EmbeddingSpace("next", 5, "model#1"))
                await fill(collection, "next", generation(1), "model#1")
                await collection.succeed("text", "next")
                for _ in range(5):
                    await collection.upsert([Record(key="other")])
                done.set()

            await asyncio.gather(attach(), attach(), succeed())
            keys = [f"k{number:03}" for number in range(120)]
            assert await vectors_of(collection, "text", keys) == {generation(1)}
            assert await collection.attach({rows[0]: {"text": packed([1])}}, "model#9") == 1
            assert await collection.attach({rows[0]: {"next": packed([1])}}, "model#1") == 1
            assert await vectors_of(collection, "text", keys) == {generation(1)}

    async def test_records_with_vectors_of_the_model_before_are_put_in_without_them(self) -> None:
        """However long these are: whoever read or made them knew the space that was there then."""
        asked = {"text": "model#0"}
        async with self.empty() as collection:
            await collection.add_space(EmbeddingSpace("text", 5, "model#0"))
            late = Record(key="late", vectors={"text": generation(0)})
            assert await collection.upsert([late], asked) == [True]
            assert await vectors_of(collection, "text", ["late"]) == {generation(0)}
            for dimension in (5, 7):
                await collection.add_space(EmbeddingSpace("next", dimension, f"model#{dimension}"))
                await collection.succeed("text", "next")
                keys = [f"{name}{dimension}" for name in ("upserted", "exchanged")]
                upserted, exchanged = (Record(key=key, vectors={"text": generation(0)}) for key in keys)
                assert await collection.upsert([upserted], asked) == [True]
                assert (await collection.exchange([exchanged], (), asked)).results == [True]
                assert await vectors_of(collection, "text", keys) == {None}
                lacking = {each.record.key for each in await collection.lacking("text")}
                assert lacking >= set(keys)
                fresh = Record(key="fresh", vectors={"text": generation(1, dimension)})
                assert await collection.upsert([fresh], {"text": f"model#{dimension}"}) == [True]
                assert await vectors_of(collection, "text", ["fresh"]) == {generation(1, dimension)}
            await collection.drop_space("text")
            assert await collection.upsert([Record(key="k", vectors={"text": generation(0)})], asked) == [
                True
            ]

    async def test_a_succession_between_two_writes_of_one_call_is_noticed(self) -> None:
        """Some of a thousand records are put in before it, the others behind it."""
        async with self.empty() as collection:
            await collection.add_space(EmbeddingSpace("text", 5, "model#0"))
            await collection.add_space(EmbeddingSpace("next", 5, "model#1"))
            records = [Record(key=f"k{n:04}", vectors={"text": generation(0)}) for n in range(1000)]

            asked = {"text": "model#0"}
            await collection.upsert(records[:200], asked)
            await asyncio.gather(collection.upsert(records[200:], asked), collection.succeed("text", "next"))
            keys = [record.key for record in records]
            assert await vectors_of(collection, "text", keys) == {None}
            assert len(await collection.lacking("text", 0, 1000)) == 1000

    async def test_rows_of_another_epoch_are_passed_over(self) -> None:
        """They were numbered again since: each is another record's by now."""
        async with self.empty() as collection:
            await collection.add_space(EmbeddingSpace("text", 5))
            await collection.upsert([Record(key="k")])
            (found,) = await collection.lacking("text")
            given = {found.row: {"text": generation(1)}}
            assert await collection.attach(given, "", found.epoch + 1) == 0
            assert await vectors_of(collection, "text", ["k"]) == {None}
            assert await collection.attach(given, "", found.epoch) == 1
            assert await vectors_of(collection, "text", ["k"]) == {generation(1)}

    async def test_what_lacks_a_vector_may_be_limited_by_a_filter(self) -> None:
        async with self.empty(Shape("notes", (), (Field("likes", Kind.NUMBER),))) as collection:
            await collection.add_space(EmbeddingSpace("text", 5))
            await collection.upsert(
                [Record(key=f"k{number}", fields={"likes": number % 3}) for number in range(30)]
            )
            expected = [number for number in range(30) if number % 3 == 1]
            where = Equal("likes", 1)
            found = await collection.lacking("text", 0, 4, where)
            assert [each.record.key for each in found] == [f"k{number}" for number in expected[:4]]
            await collection.attach({found[0].row: {"text": generation(1)}})
            rest = await collection.lacking("text", found[1].row, 100, where)
            assert [each.record.key for each in rest] == [f"k{number}" for number in expected[2:]]
            again = await collection.lacking("text", 0, 100, where)
            assert [each.record.key for each in again] == [f"k{number}" for number in expected[1:]]
            assert len(await collection.lacking("text")) == 29
            with pytest.raises(BadArguments):
                await collection.lacking("text", 0, 4, Equal("absent", 1))

    async def test_a_scan_goes_on_though_its_space_is_dropped(self) -> None:
        keys = [f"k{number:06}" for number in range(21_000)]
        async with self.empty() as collection:
            await collection.add_space(EmbeddingSpace("text", 2))
            await collection.upsert([Record(key=key, vectors={"text": packed([1, 0])}) for key in keys])
            found: list[float] = []
            async for block in collection.scan(VectorQuery({"text": packed([1, 0])}), EVERYTHING):
                if not found:
                    await collection.drop_space("text")
                found += block.similarities
            assert found == [1.0] * len(keys)

    async def test_writes_at_once_leave_each_what_fits_the_space_it_found(self) -> None:
        """Spaces change in the midst of writes that wait together: a vector goes in whole or is refused."""
        async with self.empty() as collection:

            async def write(number: int) -> None:
                for turn in range(20):
                    vector = packed([1.0] * (2 + turn % 2))
                    try:
                        await collection.upsert([Record(key=f"{number}", vectors={"text": vector})])
                    except BadArguments:
                        continue

            async def change() -> None:
                for turn in range(20):
                    await collection.drop_space("text")
                    await collection.add_space(EmbeddingSpace("text", 2 + turn % 2))

            await collection.add_space(EmbeddingSpace("text", 2))
            await asyncio.gather(change(), *(write(number) for number in range(8)))
            (space,) = collection.spaces
            found = await collection.vectors([str(number) for number in range(8)], "text")
            assert {len(each) for each in found if each} <= {4 * space.dimension}
            query = VectorQuery({"text": packed([1.0] * space.dimension)})
            hits = await collection.nearest(query, EVERYTHING, 10)
            assert len(hits.hits) == sum(each is not None for each in found)
