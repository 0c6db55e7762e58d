"""Validation of arguments against the upstream's schema before a call.

A schema is data of the upstream, and can take hours to check. If a bound on the work is proven (``cost``),
the judgment is made here, at once. Otherwise a process that may be killed makes it (``judging``), and calls
of other tools continue meanwhile. Arguments that cannot be judged pass (``faults``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import msgspec

from tabane.gateway.tools.argument_errors import UNREADABLE, compiled_from, fault, fits, read
from tabane.gateway.tools.schema_cost import ArgumentSize, SchemaCost, cost_of, size_of
from tabane.gateway.tools.tool import OWN

if TYPE_CHECKING:
    from jsonschema_rs import Validator as Compiled

    from tabane.gateway.tools.tool import Tool
    from tabane.gateway.tools.validation_pool import ValidationPool

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
