"""What an engine is to these measurements. Each has a module of its own, run in a process of its own."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from benchmarks.search.generator import Asked, Entry

MODULES = {
    "tabane": "ours",
    "tantivy alone": "bare",
}
MOST = 10  # hits that are asked for


class Engine(Protocol):
    """An engine over one folder. What it cannot do at all raises NotImplementedError."""

    batch: int  # records of one call while filling
    version: str

    async def open(self, folder: Path) -> None:
        """Open what the folder holds, or begin there. What has to be imported is so already."""
        ...

    async def fill(self, entries: Sequence[Entry]) -> None:
        """Put in records that are new, durably."""
        ...

    async def filled(self) -> None:
        """Whatever has to be done after the last of them, for searches to be quick."""
        ...

    async def upsert(self, entry: Entry) -> None:
        """Put in one record, new or in place of one: durable and searchable when this returns."""
        ...

    async def search(self, asked: Asked) -> list[str]:
        """The keys of the best that hold any of the words, within the limits of what is asked."""
        ...

    async def contains(self, asked: Asked) -> list[str]:
        """The keys of records that hold the needle, whatever stands beside it."""
        ...

    async def close(self) -> None: ...


def engine(name: str) -> Engine:
    made: Engine = importlib.import_module(f"benchmarks.search.{MODULES[name]}").Measured()
    return made
