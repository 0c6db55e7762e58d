"""Validation of arguments against the upstream's schema before a call.

A schema is data of the upstream, and can take hours to check. If its size times that of the arguments is
small, they are checked here, at once. Otherwise a worker process checks them, which is killed if it takes too
long, and calls of other tools continue meanwhile. Arguments that cannot be checked pass
(``argument_errors``).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

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
from tabane.catalog.tools.schemas import target_of
from tabane.catalog.tools.tool import OWN
from tabane.errors import BadArguments, WorkerEnded, WorkerError, WorkerSpent
from tabane.workers.eager_start import own_task
from tabane.workers.pool import Budget, Capacity, Pool
from tabane.workers.worker import Program, environment, module

if TYPE_CHECKING:
    from jsonschema_rs import Validator as Compiled

    from tabane.catalog.tools.tool import Tool


log = logging.getLogger(__name__)

_MOST_PARTS = 2_000  # keywords and values that are read of a schema
_DEEPEST = 96  # levels of JSON
_LONGEST_PATTERN = 256
_MOST_REPEATS = 128
_OF_PATTERN = 8  # bytes of arguments that one character of a pattern is compared with in a step
_OF_COMPILING = 20  # steps for compiling a pattern, besides its characters
_OF_CLASS = 8  # characters that an escape counts as, since it may denote a large class
_OF_TEXT = 64  # bytes of a text that count as a step
_OF_DIVISION = 2_000  # steps of "multipleOf", which computes with fractions of any length
_UNBOUNDED = frozenset(("unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef"))
_NAMING = ("$id", "id")
_COMBINING = frozenset(
    ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
)
_FOR_EACH = frozenset(
    ("items", "additionalItems", "contains", "additionalProperties", "patternProperties", "propertyNames")
)

_find_repeats = re.compile(r"\{(\d+)(?:,(\d*))?\}").findall
_FANCY = re.compile(r"\(\?(?!:)|\\[1-9kKzZGg]|[*+?}][+]|\)\{|\\[pP]|\[[^\]]*(?:\[|&&|--|~~)")


class _UnboundedSchema(Exception):
    """The size of the schema does not bound the work."""


class SchemaSize(Struct):
    """The parts of a schema, with references followed: those read ``once``, and those for ``each`` value.

    A part counts once more for each combinator around it, because alternatives are read again to report
    errors. ``patterns`` counts the characters of all regular expressions. ``unique``: items are compared
    with each other.
    """

    once: int = 0
    each: int = 4  # for reading it
    patterns: int = 0
    unique: bool = False

    def steps(self, values: int, text: int) -> int:
        """Bound the steps of a check of so many values in so many bytes of JSON."""
        steps = self.once + self.each * values + self.patterns * text // _OF_PATTERN
        return steps + (values * values // 4 + text // _OF_TEXT if self.unique else 0)

    def steps_of_faults(self, values: int, text: int) -> int:
        """Bound the steps of reporting faults: each fault contains the value that it is about."""
        return self.steps(values, text) * (20 + values + text // _OF_TEXT)


def schema_size(schema: dict[str, Any]) -> SchemaSize | None:
    """Return the size of a schema; None if it is too large, or if its size does not bound the work.

    Reads at most 2,000 of its parts, so a schema that refers to itself is too large.
    """
    size, left = SchemaSize(), _MOST_PARTS
    root = {keyword: part for keyword, part in schema.items() if keyword not in ("$defs", "definitions")}
    waiting: list[tuple[str, Any, int, int, bool]] = [("", root, 0, 1, False)]
    try:
        while waiting:
            keyword, part, depth, weight, repeated = waiting.pop()
            inner = _inner_parts(keyword, part, schema, depth)
            patterns = [_pattern_cost(pattern) for pattern in _patterns(keyword, part)]
            parts = 1 + len(inner) + sum(patterns) + (len(part) // _OF_TEXT if isinstance(part, str) else 0)
            left -= parts
            if left < 0:
                return None
            size.patterns += sum(patterns) * weight
            parts += _OF_DIVISION if keyword == "multipleOf" else 0
            size.once += 0 if repeated else parts * weight
            size.each += parts * weight if repeated else 0
            size.unique = size.unique or (keyword == "uniqueItems" and part is True)
            weight += keyword in _COMBINING
            repeated = repeated or keyword in _FOR_EACH
            waiting += [(name, each, depth + 1, weight, repeated) for name, each in inner]
    except _UnboundedSchema:
        return None
    return size


def _inner_parts(keyword: str, part: Any, root: dict[str, Any], depth: int) -> list[tuple[str, Any]]:
    """Return the parts of a part, by keyword; of a reference, its target. Raises _UnboundedSchema."""
    if keyword == "$ref" and isinstance(part, str):
        target = target_of(root, part)
        if target is None:
            raise _UnboundedSchema
        return [("", target)]
    if isinstance(part, list):
        return [("", each) for each in part]
    if not isinstance(part, dict):
        return []
    if depth > _DEEPEST or _UNBOUNDED & part.keys():
        raise _UnboundedSchema
    if depth and any(isinstance(part.get(name), str) for name in _NAMING):
        raise _UnboundedSchema  # references within it are relative to it
    return list(part.items())


def _patterns(keyword: str, part: Any) -> list[str]:
    if keyword == "pattern" and isinstance(part, str):
        return [part]
    return list(part) if keyword == "patternProperties" and isinstance(part, dict) else []


def _pattern_cost(pattern: str) -> int:
    """Return the parts that a regular expression counts as. Raises _UnboundedSchema if it may backtrack."""
    repeats = sum(int((most or least)[:6]) for least, most in _find_repeats(pattern))
    if len(pattern) > _LONGEST_PATTERN or _FANCY.search(pattern) or repeats > _MOST_REPEATS:
        raise _UnboundedSchema
    return _OF_COMPILING + len(pattern) + repeats + _OF_CLASS * pattern.count("\\")


MOST_COMPILED = 256
MOST_STEPS = 100_000
"""Steps of a judgment that is made at once: a few milliseconds at most."""

LONGEST = 256 * 1024
"""Bytes of a definition, or of arguments, that are read at once."""

_LENGTHS = (8_192, 2_048, 512, 128)
"""Longest arguments in bytes for which a cheap schema is used without looking at their size."""

_TRIVIAL: tuple[dict[str, Any], ...] = ({}, {"type": "object"})


class _KnownSchema:
    """A definition, the size of its schema, and the schema, compiled when it is first needed."""

    __slots__ = ("_compiled", "_free", "_made", "definition", "schema", "size")

    def __init__(self, tool: Tool) -> None:
        self.definition, self.schema = tool.definition, tool.schema
        self.size = schema_size(tool.schema) if len(tool.definition) <= LONGEST else None
        self._free = next((length for length in _LENGTHS if self._is_small(length, length)), 0)
        self._made = False
        self._compiled: Compiled | None = None

    def is_cheap(self, arguments: bytes | msgspec.Raw, *, of_faults: bool = False) -> bool:
        """Return whether the check, or the report of its faults, is sure to take few steps."""
        if not of_faults and len(arguments) <= self._free:
            return True
        if len(arguments) > LONGEST:
            return False
        text = bytes(arguments)
        values = 1 + sum(text.count(sign) for sign in (b",", b":", b"[", b"{"))
        return self._is_small(values, len(text), of_faults=of_faults)

    def _is_small(self, values: int, text: int, *, of_faults: bool = False) -> bool:
        """Return whether arguments with so many values in so many bytes take few steps."""
        if self.size is None:
            return False
        bound = self.size.steps_of_faults if of_faults else self.size.steps
        return bound(values, text) <= MOST_STEPS

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
        await own_task()
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
