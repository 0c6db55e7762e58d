"""A process that writes to PostgreSQL until it is killed: ``python -m tests.engine.team.postgres.child URL``.

It prints the key of each record that was acknowledged.
"""

from __future__ import annotations

import asyncio
import sys

from tabane.engine.team.postgres.database import PostgresDatabase
from tabane.engine.team.postgres.engine_url import parsed
from tabane.engine.team.postgres.store import PostgresStore
from tests.engine.team.postgres.writing import SHAPE, write_until_killed


async def main(url: str) -> None:
    database = await PostgresDatabase.open(parsed(url))
    collection = await PostgresStore(database, "test", None).collection(SHAPE)
    await write_until_killed(collection)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
