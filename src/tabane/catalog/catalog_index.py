"""The index of the catalog's tools, which one thread owns: the event loop never waits for it.

It is opened with the first search, and brought up to date by every search. A large catalog does not wait for
one: it is indexed in the background when its servers have listed. The thread then rests now and then, so that
the event loop gets its turn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tabane.catalog.tools.catalog import ToolCatalog

if TYPE_CHECKING:
    from tabane.catalog.tools.index import ToolIndex
    from tabane.catalog.tools.vector_table import ToolGist

log = logging.getLogger(__name__)

T = TypeVar("T")

LARGE = 300
"""Tools of a catalog that is indexed before anybody searches it. Fewer take some 50 ms."""

QUIET = 1.0
"""Seconds after the first listing until the background begins, so that the listings of others come first."""

_SLICE, _REST = 0.004, 0.001  # seconds of work in the background, and of rest

_OWN = ""  # the hub's own tools in the index: no server has this name


class CatalogIndex:
    """The index in a file. ``worker`` is the thread that uses it; all methods are for the event loop."""

    def __init__(
        self,
        path: Path,
        tools: ToolCatalog,
        worker: Executor,
        loop: asyncio.AbstractEventLoop,
        quiet: float = QUIET,
    ) -> None:
        self._path, self._tools, self._worker, self._loop, self._quiet = path, tools, worker, loop, quiet
        self.idle: Callable[[], frozenset[str]] = frozenset
        """Names the hub's own tools that a search leaves out at the moment."""
        self._index: ToolIndex | None = None
        self._without: frozenset[str] = frozenset()  # the hub's own tools that are not in the index
        self._changed: set[str] = set()  # servers whose tools may differ from what is in the index
        self._timer: asyncio.TimerHandle | None = None
        self._closed = self._in_memory = False
        self.vectors = IndexVectors(self)

    def note(self, server: str) -> None:
        """Note that the tools of a server came, changed or went."""
        self._changed.add(server)
        self._begin_later(self._quiet)

    async def run(self, work: Callable[[ToolIndex], T], idle: frozenset[str] | None = None) -> T:
        """Run work on the index in its thread, and return the result. ``idle``: as :attr:`idle` names now."""
        return await self._loop.run_in_executor(self._worker, lambda: work(self._ready(idle)))

    def prepare(self, idle: frozenset[str]) -> None:
        """Bring the index up to date for a search that follows. Failures are logged."""
        if self._index is None or self._changed:
            self._worker.submit(self._ready, idle).add_done_callback(_log_failure)

    def end(self) -> None:
        """Begin nothing more in the background."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        """Close the file. For the thread."""
        if self._index is not None:
            self._index.close()

    # -- in the background -------------------------------------------------------------------------

    def _begin_later(self, seconds: float) -> None:
        large = self._index is not None or self._tools.count >= LARGE
        if large and self._changed and self._timer is None and not self._closed:
            self._timer = self._loop.call_later(seconds, self._begin)

    def _begin(self) -> None:
        """Index one server, then the next: a search waits for one of them at most."""
        done = self._worker.submit(self._index_one, self.idle())
        done.add_done_callback(lambda done: self._loop.call_soon_threadsafe(self._ended, done))

    def _ended(self, done: Future[None]) -> None:
        self._timer = None
        _log_failure(done)
        if not done.exception():  # a search tries it again
            self._begin_later(0)

    def _index_one(self, idle: frozenset[str]) -> None:
        index = self._opened(idle)
        if self._changed:
            self._update(index, self._changed.pop(), _Rest())

    # -- in the thread -----------------------------------------------------------------------------

    def _ready(self, idle: frozenset[str] | None) -> ToolIndex:
        """Return the index with all tools of the catalog: in memory if its file cannot be written."""
        try:
            return self._complete(idle)
        except Exception as error:
            if self._in_memory:
                raise
            log.warning("the index of tools is kept in memory: %s", error)
            self._in_memory, self._index = True, None
            self._changed |= {tool.server for tool in self._tools.tools}
            return self._complete(idle)

    def _complete(self, idle: frozenset[str] | None) -> ToolIndex:
        index = self._opened(idle)
        while self._changed:
            self._update(index, self._changed.pop())
        return index

    def _opened(self, idle: frozenset[str] | None) -> ToolIndex:
        idle = self._without if idle is None else idle
        index = self._index
        if index is None:
            from tabane.catalog.tools.index import ToolIndex

            index = ToolIndex(":memory:" if self._in_memory else str(self._path))
            self._changed |= index.servers() - {_OWN}
            self._index = index
        elif idle == self._without:
            return index
        # Without the idle ones in the index, these do not count as documents either.
        index.replace(_OWN, [tool for tool in self._tools.own if tool.name not in idle])
        self._without = idle
        return index

    def _update(self, index: ToolIndex, server: str, rest: Callable[[], None] = lambda: None) -> None:
        """Bring the tools of a server up to date. If that fails, the next search tries it again."""
        try:
            if self._tools.has(server):
                index.replace(server, self._tools.for_models(server), rest)
            else:
                index.remove(server)
        except BaseException:
            self._changed.add(server)
            raise


class _Rest:
    """Lets the thread rest after each slice of work."""

    def __init__(self) -> None:
        self._until = time.perf_counter() + _SLICE

    def __call__(self) -> None:
        if time.perf_counter() > self._until:
            time.sleep(_REST)
            self._until = time.perf_counter() + _SLICE


class IndexVectors:
    """Vectors in the index's file; a :class:`tabane.catalog.tool_meaning.ToolVectorStore`."""

    def __init__(self, index: CatalogIndex) -> None:
        self._index = index

    async def missing(self, model: str, most: int) -> list[ToolGist]:
        return await self._index.run(lambda index: index.vectors.missing(model, most))

    async def put(self, model: str, vectors: Sequence[tuple[bytes, bytes]]) -> None:
        await self._index.run(lambda index: index.vectors.put(model, vectors))

    async def clear(self, models: Sequence[str]) -> None:
        await self._index.run(lambda index: index.vectors.clear(models))


def _log_failure(done: Future[object] | Future[ToolIndex] | Future[None]) -> None:
    if done.exception():
        log.error("the index of tools: %s", done.exception())
