"""A process that writes to PostgreSQL until it is killed: ``python -m tests.postgres.child URL``.

It prints the key of each record that was acknowledged.
"""

from __future__ import annotations

import asyncio
import sys

from tabane.postgres.database import PostgresDatabase
from tabane.postgres.engine_url import parsed
from tabane.postgres.store import PostgresStore
from tests.postgres.writing import SHAPE, record


async def main(url: str) -> None:
    database = await PostgresDatabase.open(parsed(url))
    collection = await PostgresStore(database, "test", None).collection(SHAPE)

    async def lane(name: int) -> None:
        number = 0
        while True:
            written = record(f"{name}-{number}")
            await collection.upsert([written])
            print(written.key, flush=True)
            number += 1

    await asyncio.gather(*map(lane, range(4)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
