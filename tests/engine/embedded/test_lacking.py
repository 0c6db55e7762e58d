"""Looking for what lacks a vector reads no record that has nothing to embed, however often it is done."""

from __future__ import annotations

from pathlib import Path

from tabane.search.records import EmbeddingSpace, Equal, Field, Kind, Record, Shape
from tests.engine.embedded.opening import embedded
from tests.engine.embedded.vectors.oracle import packed

SHAPE = Shape("posts", (), (Field("has", Kind.STRINGS),), (EmbeddingSpace("reasoning", 4),))
COUNT = 3000


async def test_records_with_nothing_to_embed_are_not_read(tmp_path: Path) -> None:
    asked: list[str] = []
    async with embedded(tmp_path, SHAPE) as collection:
        some = [Record(key=f"k{number}", fields={"has": ("content",)}) for number in range(COUNT)]
        last = Record(key="last", fields={"has": ("content", "reasoning")})
        await collection.upsert([*some, last])
        await collection.engine.table.database.read(
            lambda connection: connection.set_trace_callback(asked.append)
        )
        for _ in range(3):
            (found,) = await collection.lacking("reasoning", 0, 200, Equal("has", "reasoning"))
            assert found.record.key == "last"
        assert len(_of_records(asked)) == 3  # one for each record that was returned
        await collection.attach({found.row: {"reasoning": packed([1, 0, 0, 0])}})
        asked.clear()
        for _ in range(3):
            assert await collection.lacking("reasoning", 0, 200, Equal("has", "reasoning")) == []
        assert _of_records(asked) == []
        assert len(await collection.lacking("reasoning", 0, 1000)) == 1000


def _of_records(statements: list[str]) -> list[str]:
    """Those that look into the table of records."""
    return [statement for statement in statements if "FROM record_" in statement]
