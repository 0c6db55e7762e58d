"""Validation of arguments against the upstream's schema before a call.

A schema is data of the upstream, and can take hours to check. If a bound on the work is proven
(``schema_cost``), the arguments are checked here, at once. Otherwise a worker process checks them, which is
killed if it takes too long, and calls of other tools continue meanwhile. Arguments that cannot be checked
pass (``argument_errors``).
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec

from tabane.catalog.tools.argument_errors import (
    UNREADABLE,
    ValidationRequest,
    compiled_from,
    decode_result,
    fault,
    fits,
    packed,
    read,
)
from tabane.catalog.tools.schema_cost import ArgumentSize, SchemaCost, cost_of, size_of
from tabane.catalog.tools.tool import OWN
from tabane.errors import BadArguments, WorkerEnded, WorkerError, WorkerSpent
from tabane.workers.pool import Budget, Pool
from tabane.workers.turns import Capacity
from tabane.workers.worker import Program, environment, module

if TYPE_CHECKING:
    from jsonschema_rs import Validator as Compiled

    from tabane.catalog.tools.tool import Tool

log = logging.getLogger(__name__)

MOST_COMPILED = 256
MOST_STEPS = 100_000
"""Steps of a judgment that is made at once: a few milliseconds at most."""

LONGEST = 256 * 1024
"""Bytes of a definition, or of arguments, that are read at once."""

_LENGTHS = (8_192, 2_048, 512, 128)
"""Longest arguments in bytes for which a cheap schema is used without looking at their size."""

_TRIVIAL: tuple[dict[str, Any], ...] = ({}, {"type": "object"})


class _KnownSchema:
    """A definition, the bound on its judgments, and its schema, compiled when it is first needed."""

    __slots__ = ("_compiled", "_free", "_made", "cost", "definition", "schema")

    def __init__(self, tool: Tool) -> None:
        self.definition, self.schema = tool.definition, tool.schema
        self.cost: SchemaCost | None = cost_of(tool.schema) if len(tool.definition) <= LONGEST else None
        self._free = next((length for length in _LENGTHS if self._steps(length) <= MOST_STEPS), 0)
        self._made = False
        self._compiled: Compiled | None = None

    def is_cheap(self, arguments: bytes | msgspec.Raw, *, of_faults: bool = False) -> bool:
        """Return whether the judgment, and the report of its faults, is proven to take few steps."""
        if not of_faults and len(arguments) <= self._free:
            return True
        if self.cost is None or len(arguments) > LONGEST:
            return False
        size = size_of(bytes(arguments))
        steps = self.cost.steps_of_faults(size) if of_faults else self.cost.steps(size)
        return steps <= MOST_STEPS

    def _steps(self, length: int) -> int:
        """Bound the steps for arguments of that length."""
        return self.cost.steps(ArgumentSize(length, length)) if self.cost else MOST_STEPS + 1

    @property
    def compiled(self) -> Compiled | None:
        if not self._made:
            self._compiled, self._made = compiled_from(self.schema), True
        return self._compiled


class ArgumentValidator:
    """Checks arguments; remembers the 256 definitions that were used last.

    ``judging`` judges what is not proven to be cheap; without it, that passes. The hub's own tools are
    always judged at once, because their schemas are trusted.
    """

    def __init__(self, judging: ValidationPool | None = None) -> None:
        self._judging = judging
        self._known: OrderedDict[str, _KnownSchema] = OrderedDict()

    def check(self, tool: Tool, arguments: bytes | msgspec.Raw) -> Awaitable[None] | None:
        """Raise BadArguments if the arguments do not fit the tool's schema, now or when awaited.

        Returns None if that is decided, otherwise an awaitable that decides it.
        """
        if tool.schema in _TRIVIAL:
            return None
        known, own = self._get(tool), tool.server == OWN
        if not own and not known.is_cheap(arguments):
            return self._later(tool, arguments)
        compiled = known.compiled
        value = UNREADABLE if compiled is None else read(arguments)
        if compiled is None or value is UNREADABLE or fits(compiled, value):
            return None
        if not own and not known.is_cheap(arguments, of_faults=True):
            return self._later(tool, arguments)
        if error := fault(known.schema, compiled, value):
            raise error
        return None

    async def close(self) -> None:
        """End the judging processes."""
        if self._judging is not None:
            await self._judging.close()

    def _later(self, tool: Tool, arguments: bytes | msgspec.Raw) -> Awaitable[None] | None:
        if self._judging is None or self._judging.gave_up(tool):
            return None
        return self._judging.judge(tool, bytes(arguments))

    def _get(self, tool: Tool) -> _KnownSchema:
        known = self._known.get(tool.alias)
        if known is None or known.definition != tool.definition:
            known = self._known[tool.alias] = _KnownSchema(tool)
            if len(self._known) > MOST_COMPILED:
                self._known.popitem(last=False)
        self._known.move_to_end(tool.alias)
        return known


MOST_REMEMBERED = 4_096
"""Tools that are remembered because their arguments cannot be judged."""

LONGEST_REQUEST = 32_000_000
"""Bytes of a definition and arguments together; longer ones are not judged."""

BUDGET = Budget(seconds=1.0, deadline=10.0, patience=5.0, tries=2)
CAPACITY = Capacity(turns=3, each=2, waiting=64, size=128_000_000)
IDLE = 60.0
_MEMORY = 1_000_000_000  # bytes of address space


class ValidationPool:
    """Validates in processes: one call at a time for each tool, never all processes for one server.

    ``environ`` is the hub's, ``errors`` the descriptor that a process writes its stderr to. The first
    judgment starts a process.
    """

    def __init__(
        self, environ: Mapping[str, str], errors: int | None = None, *, budget: Budget = BUDGET
    ) -> None:
        program = Program(
            module("tabane.catalog.tools.validation_worker"), environment(environ), _MEMORY, errors
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
        if len(tool.definition) + len(arguments) > LONGEST_REQUEST:
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
