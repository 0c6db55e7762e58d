"""The turn to fill an index is one hub's at a time, and is given back."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from pathlib import Path

from tabane.engine.team.postgres.database import IndexTurn, PostgresDatabase
from tabane.engine.team.postgres.engine_url import parsed
from tests.engine.team.postgres.collections import schema_of
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer


async def is_free(database: PostgresDatabase, name: str) -> bool:
    turn = IndexTurn(database, name)
    try:
        return await turn.held()
    finally:
        await turn.close()


async def test_a_turn_that_is_closed_while_it_is_taken_is_given_back(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    database = await PostgresDatabase.open(parsed(postgres.url(schema_of(tmp_path))))
    kept = []
    for number in range(20):
        name = f"index{number}"
        first = IndexTurn(database, name)
        kept.append(first)  # so that its connection is not closed because nobody has it
        taking = asyncio.create_task(first.held())
        await asyncio.sleep(0)
        taking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await taking
        await first.close()
        await until(partial(is_free, database, name), "nobody has the turn")
    await database.close()
