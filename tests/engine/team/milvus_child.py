"""A hub's collection that is written to until it is killed.

``python -m tests.engine.team.milvus_child URL INDEX`` prints the key of each record that was acknowledged.
"""

from __future__ import annotations

import asyncio
import sys

from tabane.engine.team.milvus_index import MilvusIndex, parse_milvus_url
from tabane.engine.team.postgres.database import IndexTurn, PostgresDatabase
from tabane.engine.team.postgres.engine_url import parsed
from tabane.engine.team.postgres.index_follower import IndexFilling
from tabane.engine.team.postgres.outside_index import IndexLink
from tabane.engine.team.postgres.store import PostgresStore
from tests.engine.team.postgres.writing import SHAPE, write_until_killed


async def main(url: str, index: str) -> None:
    database = await PostgresDatabase.open(parsed(url))
    link = IndexLink(MilvusIndex(parse_milvus_url(index)), 1)
    filling = IndexFilling(link, IndexTurn(database, link.follower))
    collection = await PostgresStore(database, "test", None, filling=filling).collection(SHAPE)
    await write_until_killed(collection)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
