"""Queries on kept results, in processes that are killed when a query takes too long."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from tabane.catalog.results.result_query import QueryAnswer, ResultQuery, packed_query, read_answer
from tabane.errors import CallerError, WorkerEnded, WorkerSpent
from tabane.messages import say
from tabane.workers.pool import Budget, Pool
from tabane.workers.turns import Capacity
from tabane.workers.worker import Program, environment, module

LARGEST = 64 << 20
"""Bytes of a document that can be queried."""

BUDGET = Budget(seconds=3.0, deadline=60.0, patience=60.0, tries=1)
CAPACITY = Capacity(turns=3, each=1, waiting=16, size=4 * LARGEST)
IDLE = 60.0
_MEMORY = 1_000_000_000  # bytes of address space


class QueryPool:
    """Queries results in processes: one query of a client at a time.

    ``environ`` is the hub's, ``errors`` the descriptor that a process writes its stderr to. The first query
    starts a process, which ends when it has had nothing to do for a minute.
    """

    def __init__(
        self, environ: Mapping[str, str], errors: int | None = None, *, budget: Budget = BUDGET
    ) -> None:
        program = Program(
            module("tabane.catalog.results.query_worker"), environment(environ), _MEMORY, errors
        )
        self.pool = Pool(program, CAPACITY, idle=IDLE)
        self._budget = budget

    async def ask(self, query: ResultQuery, key: str) -> QueryAnswer:
        """Return what a query of a client finds. Raises CallerError and WorkerError."""
        if len(query.document) > LARGEST:
            raise CallerError(say("The result is too large to be queried: {size} MiB. Read it in parts.",
                                  size=len(query.document) >> 20))  # fmt: skip
        body = await asyncio.to_thread(packed_query, query)
        try:
            return read_answer(await self.pool.ask(body, self._budget, key=key))
        except WorkerSpent:
            raise CallerError(
                say(
                    "The query was stopped after {seconds:g} s of CPU time. Write a simpler expression.",
                    seconds=self._budget.seconds,
                )
            ) from None
        except (WorkerEnded, msgspec.DecodeError):
            raise CallerError(
                say(
                    "The query was stopped: it took too long, or too much memory. Write a simpler expression."
                )
            ) from None

    async def close(self) -> None:
        """End the processes. Nothing is queried after that."""
        await self.pool.close()
