"""The hub's end of the index of the audit log, which is in a process of its own.

The process starts with the first query, or when the log has grown much, and ends when it is idle. The hub
itself keeps nothing of the index in memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tabane.audit.entry import audit_files
from tabane.audit.index_requests import (
    USAGE,
    CatchUp,
    IndexRequest,
    IndexTask,
    decode_index_answer,
    encode_index,
)
from tabane.errors import AuditError, StoreError, StoreFull, TabaneError
from tabane.messages import say
from tabane.workers.pool import Budget, Capacity, Pool
from tabane.workers.worker import Program, environment, module

log = logging.getLogger(__name__)

LARGEST_LAG = 50_000
"""Entries that are written before the index reads them without being asked."""

BUDGET = Budget(seconds=30.0, deadline=60.0, patience=60.0, tries=2)
CAPACITY = Capacity(turns=1, each=1, waiting=64, size=16_000_000)
IDLE = 60.0
_DEADLINE = 300.0  # seconds of catching up before a query gives up; what is read by then is kept
_LOOK = 15.0  # seconds between two looks at how far the index is behind
_DAY = 86_400.0
_MEMORY = 1_000_000_000  # bytes of address space


class AuditIndexProcess:
    """Asks the process with the index. Use it on one event loop only.

    ``folder`` is that of the log, ``zone`` returns the name of the time zone. ``environ`` is the hub's, and
    ``errors`` the descriptor that the process writes its stderr to.
    """

    def __init__(
        self, folder: str, zone: Callable[[], str], environ: Mapping[str, str], errors: int | None = None
    ) -> None:
        program = Program(module("tabane.audit.index_worker"), environment(environ), _MEMORY, errors)
        self.pool = Pool(program, CAPACITY, idle=IDLE)
        self._folder, self._zone = folder, zone
        self._catching_up: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None

    async def ask(self, task: IndexTask) -> Any:
        """Return the answer to a task. It includes all entries that were written before.

        Raises AuditError if there is no log, StoreError, and WorkerError if the process cannot answer.
        """
        self._check_folder()
        body = encode_index(IndexRequest(self._folder, self._zone(), task))
        try:
            async with asyncio.timeout(_DEADLINE):
                return await self._answer(body)
        except TimeoutError:
            raise StoreError(
                say("The index of the audit log is still being built. Try again in a moment.")
            ) from None

    def _check_folder(self) -> None:
        if not os.path.isdir(self._folder):
            raise AuditError(say("There is no audit log in {folder}.", folder=self._folder))

    def follow(self, newest: Callable[[], int]) -> None:
        """Let the index catch up from now on when it is far behind, or was not read for a day.

        Without that, usage of days that nobody asks about would be lost with the files of the log. ``newest``
        returns the seq of the newest entry.
        """
        self._following = asyncio.get_running_loop().create_task(self._follow(newest))

    def catch_up_soon(self) -> None:
        """Let the index catch up with the log. Returns at once."""
        if self._catching_up is None or self._catching_up.done():
            self._catching_up = asyncio.get_running_loop().create_task(self._catch_up())

    async def close(self) -> None:
        """End the process. What it was reading is read by the next one."""
        tasks = [task for task in (self._following, self._catching_up) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.pool.close()

    async def _follow(self, newest: Callable[[], int]) -> None:
        read = newest()
        while True:
            await asyncio.sleep(_LOOK)
            seq = newest()
            if seq - read >= LARGEST_LAG or (seq and _is_old(self._folder)):
                read = seq
                self.catch_up_soon()

    async def _answer(self, body: bytes) -> Any:
        while True:
            answer = decode_index_answer(await self.pool.ask(body, BUDGET))
            if answer.ready:
                return msgspec.json.decode(answer.result)
            if answer.error:
                raise _failure(answer.error, full=answer.full)

    async def _catch_up(self) -> None:
        try:
            await self.ask(CatchUp())
        except TabaneError as error:
            log.warning("the index of the audit log cannot be updated: %s", error)


def _is_old(folder: str) -> bool:
    """Return whether the index was not written for a day, nor the log begun within it."""
    names = (USAGE, f"{USAGE}-wal")
    times = [when for name in names if (when := _written(os.path.join(folder, name)))]
    if not times:
        times = [_written(file.path) for file in audit_files(folder)[:1]]
    return bool(times) and time.time() - max(times) > _DAY


def _written(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _failure(reason: str, *, full: bool) -> StoreError:
    message = say("The index of the audit log cannot be used: {reason}", reason=reason)
    return StoreFull(message) if full else StoreError(message)
