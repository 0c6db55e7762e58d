"""A hub without the settings engine and advertise loads nothing of PostgreSQL and of groups of hubs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_hub_on_files_does_not_load_the_driver_of_a_database(tmp_path: Path) -> None:
    program = f"""
import asyncio, sys
from pathlib import Path
import tabane.hub.hub, tabane.hub.http.server
from tabane.hub.stores.domain_stores import Stores
from tabane.search.records import Shape

async def run():
    stores = Stores(Path({str(tmp_path)!r}), lambda: {{"test": (Shape("notes"),)}})
    await stores.collection("test", Shape("notes"))
    await stores.check(mend=False)
    await stores.close()

asyncio.run(run())
heavy = ("psycopg", "pymilvus", "tabane.engine.team", "tabane.group", "tabane.hub.group")
print(sorted(name for name in sys.modules if name.startswith(heavy)))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
