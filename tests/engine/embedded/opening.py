"""Collections of the embedded engine, opened for one test."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tabane.engine.checked_collection import CheckedCollection
from tabane.engine.embedded.collection import StoredCollection
from tabane.engine.embedded.lexical.lexical_index import open_lexical
from tabane.engine.embedded.store import Store
from tabane.search.records import Shape
from tests.engine.embedded.shapes import SHAPE

EmbeddedCollection = CheckedCollection[StoredCollection]


@asynccontextmanager
async def embedded(
    home: Path | str | None = None, shape: Shape = SHAPE, **options: Any
) -> AsyncIterator[EmbeddedCollection]:
    """Open a collection in a folder, or in a new one."""
    with nullcontext(str(home)) if home else tempfile.TemporaryDirectory() as folder:
        store = await Store.open(folder, "test", **options)
        try:
            yield await store.collection(shape)
        finally:
            await store.close()


indexed = partial(embedded, lexical=open_lexical)
"""The same with the index of words."""


class CollectionMachine(RuleBasedStateMachine):
    """A collection in a folder of its own, which is compacted and opened again. A subclass writes to it."""

    shape = SHAPE

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._home = tempfile.TemporaryDirectory()

    @initialize()
    def open(self) -> None:
        self._store = self._runner.run(Store.open(self._home.name, "test"))
        self._collection = self._runner.run(self._store.collection(self.shape))

    @rule()
    def compact(self) -> None:
        self._runner.run(self._collection.engine.compact())

    @rule()
    def reopen(self) -> None:
        self._runner.run(self._store.close())
        self.open()

    @rule()
    def lose_what_is_derived(self) -> None:
        self._runner.run(self._store.close())
        shutil.rmtree(os.path.join(self._home.name, "test.notes.vectors"), ignore_errors=True)
        self.open()

    def teardown(self) -> None:
        self._runner.run(self._store.close())
        self._runner.close()
        self._home.cleanup()
