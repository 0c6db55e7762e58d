"""A hub that opens no collection does not load the engine."""

from __future__ import annotations

import subprocess
import sys


def test_an_open_store_without_collections_has_neither_arrays_nor_index_in_memory(tmp_path: object) -> None:
    program = f"""
import asyncio, sys
from tabane.engine.embedded.store import Store

async def run():
    store = await Store.open({str(tmp_path)!r}, "test")
    await store.kept()
    await store.close()

asyncio.run(run())
print(sorted({{"numpy", "tantivy"}} & set(sys.modules)))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
