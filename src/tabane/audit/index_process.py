"""The hub's end of the index of the audit log, which is in a process of its own.

The process starts with the first query, or when the log has grown much, and ends when it is idle. The hub
itself keeps nothing of the index in memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tabane.audit.index_requests import CatchUp, IndexRequest, IndexTask, decode_index_answer, encode_index
from tabane.errors import AuditError, StoreError, StoreFull, TabaneError
from tabane.messages import say
from tabane.workers.pool import Budget, Capacity, Pool
from tabane.workers.worker import Program, environment, module

log = logging.getLogger(__name__)

BUDGET = Budget(seconds=30.0, deadline=60.0, patience=60.0, tries=2)
CAPACITY = Capacity(turns=1, each=1, waiting=64, size=16_000_000)
IDLE = 60.0
_DEADLINE = 300.0  # seconds of catching up before a query gives up; what is read by then is kept
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

    async def ask(self, task: IndexTask) -> Any:
        """Return the answer to a task. It includes all entries that were written before.

        Raises AuditError if there is no log, StoreError, and WorkerError if the process cannot answer.
        """
        if not await asyncio.to_thread(os.path.isdir, self._folder):
            raise AuditError(say("There is no audit log in {folder}.", folder=self._folder))
        body = encode_index(IndexRequest(self._folder, self._zone(), task))
        try:
            async with asyncio.timeout(_DEADLINE):
                while True:
                    answer = decode_index_answer(await self.pool.ask(body, BUDGET))
                    if answer.ready:
                        return msgspec.json.decode(answer.result)
                    if answer.error:
                        message = say(
                            "The index of the audit log cannot be used: {reason}", reason=answer.error
                        )
                        raise StoreFull(message) if answer.full else StoreError(message)
        except TimeoutError:
            raise StoreError(
                say("The index of the audit log is still being built. Try again in a moment.")
            ) from None

    def catch_up_soon(self) -> None:
        """Let the index catch up with the log. Returns at once."""
        if self._catching_up is None or self._catching_up.done():
            self._catching_up = asyncio.get_running_loop().create_task(self._catch_up())

    async def close(self) -> None:
        """End the process. What it was reading is read by the next one."""
        if self._catching_up is not None:
            self._catching_up.cancel()
            await asyncio.wait([self._catching_up])
        await self.pool.close()

    async def _catch_up(self) -> None:
        try:
            await self.ask(CatchUp())
        except TabaneError as error:
            log.warning("the index of the audit log cannot be updated: %s", error)
