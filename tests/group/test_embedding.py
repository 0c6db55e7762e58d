"""Several hubs over one database embed a collection once, and go on when one of them ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer
from tests.hub.sources.letter_models import (
    CALLER,
    EmbeddingHub,
    LetterModel,
    LetterModels,
    embedding_hub,
    note,
)

NOTES = [note(number) for number in range(300)]


async def waits(hub: EmbeddingHub) -> bool:
    rows = (await hub.door.invoke(CALLER, "list_jobs", b"{}"))["results"]
    return any(row["note"] == "waiting for its turn" for row in rows)


async def test_a_collection_is_embedded_by_one_hub_at_a_time(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    models = [LetterModels(LetterModel("a"), LetterModel("b"), wants="a") for _ in range(2)]
    models[0].known["a"].gate = asyncio.Event()
    homes = [tmp_path / "1", tmp_path / "2"]
    for home in homes:
        home.mkdir()
    url = postgres.url("embedding")
    async with embedding_hub(homes[1], models[1], database=url) as second:
        async with embedding_hub(homes[0], models[0], database=url) as first:
            await (await first.collection()).upsert(NOTES)
            first.embedding.wake("notes")
            await until(lambda: models[0].known["a"].steps.qsize(), "the first hub embeds")
            second.embedding.wake("notes")
            await until(lambda: waits(second), "the second hub waits")
            assert models[1].known["a"].embedded == []
        # The first hub has ended: the second one embeds what is left.
        await second.quiet()
        assert await second.lacking() == 0
        done = len(models[0].known["a"].embedded) + len(models[1].known["a"].embedded)
        assert done == len(NOTES)
        # Both get the request to embed all of it again, and one of them does it.
        async with embedding_hub(homes[0], models[0], database=url) as again:
            for each in models:
                each.wants = "b"
            await asyncio.gather(again.job("reembed"), second.job("reembed"))
            await asyncio.gather(again.quiet(), second.quiet())
        assert sum(len(each.known["b"].embedded) for each in models) == len(NOTES)
