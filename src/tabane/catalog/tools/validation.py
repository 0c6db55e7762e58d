"""Validation of arguments against the upstream's schema before a call.

A schema is data of the upstream, and can take hours to check. If a bound on the work is proven
(:class:`SchemaCost`), the arguments are checked here, at once. Otherwise a worker process checks them, which
is killed if it takes too long, and calls of other tools continue meanwhile. Arguments that cannot be checked
pass (``argument_errors``).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Awaitable, Iterable, Iterator, Mapping
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
from tabane.catalog.tools.tool import OWN
from tabane.errors import BadArguments, WorkerEnded, WorkerError, WorkerSpent
from tabane.workers.pool import Budget, Capacity, Pool
from tabane.workers.worker import Program, environment, module

if TYPE_CHECKING:
    from jsonschema_rs import Validator as Compiled

    from tabane.catalog.tools.tool import Tool


log = logging.getLogger(__name__)

_MOST_PARTS = 2_000  # keywords and values that are read of a schema
_DEEPEST = 48
_LONGEST_PATTERN = 256
_MOST_REPEATS = 128
_OF_PATTERN = 8  # bytes of arguments that one character of a pattern is compared with in a step
_OF_COMPILING = 20  # steps for compiling a pattern, besides its characters
_OF_CLASS = 4  # characters that an escape counts as, since it may denote a large class
_OF_TEXT = 64  # bytes of a text that count as a step
_UNPROVEN = frozenset(("unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef"))
_NAMING = frozenset(("$id", "id"))
_IN_PLACE = frozenset(("not", "if", "then", "else"))
_IN_PLACE_LIST = frozenset(("allOf", "anyOf", "oneOf"))
_IN_PLACE_NAMED = frozenset(("dependentSchemas", "dependencies"))
_FOR_EACH = frozenset(("additionalProperties", "additionalItems", "contains", "propertyNames"))
_UNREAD = frozenset(("$defs", "definitions"))

_REPEATED = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_FANCY = re.compile(r"\(\?(?!:)|\\[1-9kKzZGg]|[*+?}][+]|\)\{|\\[pP]|\[[^\]]*(?:\[|&&|--|~~)")


class _UnboundedSchema(Exception):
    """No bound is known."""


class ArgumentSize(Struct, frozen=True):
    """The size of arguments: at most ``values`` values, and ``text`` bytes of JSON."""

    values: int
    text: int


class SchemaCost(Struct, frozen=True):
    """A bound on steps: ``fixed`` ones, and ``each`` for every value. A step takes well below a microsecond.

    ``nested`` counts combinators within combinators, each of which reads alternatives once more to report
    errors. ``patterns`` counts the characters of all regular expressions. ``unique``: items are compared
    with each other.
    """

    fixed: int = 1
    each: int = 0
    nested: int = 0
    patterns: int = 0
    unique: bool = False

    def steps(self, size: ArgumentSize) -> int:
        """Bound the steps of a judgment."""
        steps = self.fixed + self.each * size.values + self.patterns * size.text // _OF_PATTERN
        if self.unique:
            steps += size.values * size.values // 4 + size.text // _OF_TEXT
        return steps * (1 + self.nested)

    def steps_of_faults(self, size: ArgumentSize) -> int:
        """Bound the steps of reporting faults: each fault contains the value that it is about."""
        return self.steps(size) * (20 + size.values + size.text // _OF_TEXT)


def size_of(arguments: bytes) -> ArgumentSize:
    """Bound the size of arguments without parsing them."""
    signs = sum(arguments.count(sign) for sign in (b",", b":", b"[", b"{"))
    return ArgumentSize(1 + signs, len(arguments))


def cost_of(schema: Any) -> SchemaCost | None:
    """Return the bound for a schema; None if none is known. Reads at most 2,000 of its parts."""
    try:
        return _SchemaWalk(schema).cost(schema, 0)
    except (_UnboundedSchema, RecursionError):
        return None


class _SchemaWalk:
    """One walk through a schema, references followed, within a budget."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = _MOST_PARTS

    def cost(self, node: Any, depth: int) -> SchemaCost:
        self._spend(1)
        if isinstance(node, bool):
            return SchemaCost()
        if not isinstance(node, dict) or depth > _DEEPEST:
            raise _UnboundedSchema
        self._spend(len(node))
        if node is not self._root and any(isinstance(node.get(name), str) for name in _NAMING):
            raise _UnboundedSchema  # references within it are relative to it
        return _together([SchemaCost(1 + len(node)), *self._parts(node, depth + 1)])

    def _parts(self, node: dict[str, Any], depth: int) -> Iterator[SchemaCost]:
        for keyword, value in node.items():
            if keyword in _UNPROVEN:
                raise _UnboundedSchema
            if keyword == "pattern":
                yield SchemaCost(patterns=self._weight(value))
            elif keyword == "$ref":
                yield self.cost(_target(value, self._root), depth)
            elif keyword in _IN_PLACE or keyword in _IN_PLACE_LIST or keyword in _IN_PLACE_NAMED:
                every = _together(self.cost(part, depth) for part in _parts_of(keyword, value))
                yield SchemaCost(every.fixed + 1, every.each, every.nested + 1, every.patterns, every.unique)
            elif keyword in ("properties", "items", "prefixItems", "patternProperties") or (
                keyword in _FOR_EACH
            ):
                yield self._children(keyword, value, depth)
            elif keyword == "uniqueItems":
                yield SchemaCost(unique=value is not False)
            elif keyword not in _UNREAD:
                yield SchemaCost(self._data(value))

    def _children(self, keyword: str, value: Any, depth: int) -> SchemaCost:
        if keyword == "properties" and isinstance(value, dict):
            return _beside([self.cost(part, depth) for part in value.values()])
        if keyword in ("items", "prefixItems") and isinstance(value, list):
            return _beside([self.cost(part, depth) for part in value])
        if keyword == "patternProperties" and isinstance(value, dict):
            weight = sum(self._weight(name) for name in value)
            found = _together([_for_each(self.cost(part, depth)) for part in value.values()])
            return _together([found, SchemaCost(len(value), len(value), patterns=weight)])
        return _for_each(self.cost(value, depth))

    def _data(self, value: Any) -> int:
        """Count the values in data, such as those of an enum."""
        waiting, count = [value], 0
        while waiting:
            part = waiting.pop()
            size = 1 + (len(part) // _OF_TEXT if isinstance(part, str) else 0)
            self._spend(size)
            count += size
            if isinstance(part, dict | list):
                self._spend(len(part))
                waiting.extend(part.values() if isinstance(part, dict) else part)
        return count

    def _weight(self, pattern: Any) -> int:
        weight = _weight(pattern)
        self._spend(_OF_COMPILING + weight + _OF_CLASS * pattern.count("\\"))
        return weight

    def _spend(self, parts: int) -> None:
        self._left -= parts
        if self._left < 0:
            raise _UnboundedSchema


def _parts_of(keyword: str, value: Any) -> Iterable[Any]:
    if keyword in _IN_PLACE_LIST and isinstance(value, list):
        return value
    if keyword in _IN_PLACE_NAMED and isinstance(value, dict):
        return [part for part in value.values() if not isinstance(part, list)]
    return [value]


def _together(costs: Iterable[SchemaCost]) -> SchemaCost:
    """Return the cost of all parts for the same value."""
    found = list(costs)
    return SchemaCost(
        sum(cost.fixed for cost in found),
        sum(cost.each for cost in found),
        max((cost.nested for cost in found), default=0),
        sum(cost.patterns for cost in found),
        any(cost.unique for cost in found),
    )


def _beside(costs: list[SchemaCost]) -> SchemaCost:
    """Return the cost of all parts, if each is for a separate value."""
    every = _together([SchemaCost(), *costs])
    each = max((cost.each for cost in costs), default=0)
    return SchemaCost(every.fixed, each, every.nested, every.patterns, every.unique)


def _for_each(cost: SchemaCost) -> SchemaCost:
    """Return the cost for every value within a value."""
    return SchemaCost(1, cost.fixed + cost.each, cost.nested, cost.patterns, cost.unique)


def _weight(pattern: Any) -> int:
    """Return how many characters a regular expression has, with repetitions expanded."""
    if not isinstance(pattern, str) or len(pattern) > _LONGEST_PATTERN or _FANCY.search(pattern):
        raise _UnboundedSchema
    repeats = sum(int(most or least) for least, most in _repeats(pattern))
    if repeats > _MOST_REPEATS:
        raise _UnboundedSchema
    return len(pattern) + repeats


def _repeats(pattern: str) -> Iterator[tuple[str, str]]:
    for found in _REPEATED.finditer(pattern):
        yield found[1][:6], (found[2] or "")[:6]


def _target(reference: Any, root: Any) -> Any:
    """Return the target of a plain local reference."""
    if not isinstance(reference, str) or not reference.startswith("#/") or "%" in reference:
        raise _UnboundedSchema
    if len(reference) > 1_000:
        raise _UnboundedSchema
    node = root
    for step in reference[2:].split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, dict) or key not in node:
            raise _UnboundedSchema
        node = node[key]
    return node


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
