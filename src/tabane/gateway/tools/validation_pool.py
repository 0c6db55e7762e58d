"""Judgment of arguments in a process that may be killed, for schemas that may take any time."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import msgspec

from tabane.errors import BadArguments, WorkerEnded, WorkerError, WorkerSpent
from tabane.gateway.tools.validation_messages import ValidationRequest, decode_result, packed
from tabane.workers.pool import Budget, Pool
from tabane.workers.turns import Capacity
from tabane.workers.worker import Program, environment, module

if TYPE_CHECKING:
    from tabane.gateway.tools.tool import Tool

log = logging.getLogger(__name__)

MOST_REMEMBERED = 4_096
"""Tools that are remembered because their arguments cannot be judged."""

LONGEST = 32_000_000
"""Bytes of a definition and arguments together; longer ones are not judged."""

BUDGET = Budget(seconds=1.0, deadline=10.0, patience=5.0, tries=2)
CAPACITY = Capacity(turns=3, each=2, waiting=64, size=128_000_000)
IDLE = 60.0
_MEMORY = 1_000_000_000  # bytes of address space


class ValidationPool:
    """Asks the judge: one judgment at a time for each tool, and never all processes for one server.

    ``environ`` is the hub's, ``errors`` the descriptor that a process writes its stderr to. The first
    judgment starts a process.
    """

    def __init__(
        self, environ: Mapping[str, str], errors: int | None = None, *, budget: Budget = BUDGET
    ) -> None:
        program = Program(
            module("tabane.gateway.tools.validation_worker"), environment(environ), _MEMORY, errors
        )
        self.pool = Pool(program, CAPACITY, idle=IDLE)
        self._budget = budget
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._given_up: OrderedDict[str, bytes] = OrderedDict()
        self._noted: OrderedDict[str, bytes] = OrderedDict()

    def gave_up(self, tool: Tool) -> bool:
        """Return whether a judgment of this exact definition took too long before."""
        digest = self._given_up.get(tool.alias)
        return digest is not None and digest == _digest(tool)

    async def judge(self, tool: Tool, arguments: bytes) -> None:
        """Raise BadArguments if the arguments do not fit. If the judgment takes too long, they pass."""
        if len(tool.definition) + len(arguments) > LONGEST:
            self._note(tool, "they are too long")
            return
        turn = self._turns.setdefault(tool.alias, asyncio.Lock())
        try:
            async with asyncio.timeout(self._budget.patience):
                await turn.acquire()
        except TimeoutError:
            self._note(tool, "judgments of it wait too long")
            return
        try:
            error = None if self.gave_up(tool) else await self._error(tool, arguments)
        finally:
            turn.release()
        if error is not None:
            raise error

    async def close(self) -> None:
        """End the processes. No arguments are judged after that."""
        await self.pool.close()

    async def _error(self, tool: Tool, arguments: bytes) -> BadArguments | None:
        body = packed(ValidationRequest(tool.definition, arguments))
        try:
            return decode_result(await self.pool.ask(body, self._budget, key=tool.server)).error
        except (WorkerSpent, WorkerEnded) as error:
            self._give_up(tool)
            self._note(tool, str(error))
        except (WorkerError, msgspec.DecodeError) as error:
            self._note(tool, str(error))
        return None

    def _give_up(self, tool: Tool) -> None:
        self._given_up[tool.alias] = _digest(tool)
        self._given_up.move_to_end(tool.alias)
        if len(self._given_up) > MOST_REMEMBERED:
            self._given_up.popitem(last=False)

    def _note(self, tool: Tool, reason: str) -> None:
        """Log that a tool's arguments are not checked, once for each of its definitions."""
        digest = _digest(tool)
        if self._noted.get(tool.alias) == digest:
            return
        self._noted[tool.alias] = digest
        if len(self._noted) > MOST_REMEMBERED:
            self._noted.popitem(last=False)
        log.warning(
            "%s: arguments are forwarded without a check: %s", tool.alias, reason,
            extra={"server": tool.server},
        )  # fmt: skip


def _digest(tool: Tool) -> bytes:
    return blake2b(tool.definition, digest_size=16).digest()
