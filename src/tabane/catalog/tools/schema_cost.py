"""A bound on the work of checking arguments against a JSON Schema, derived from the schema; pure.

The bound is linear in the arguments: a fixed number of steps, and some steps for each value. References are
followed, so a short schema that expands to a huge one gets the cost of the huge one. Reading stops at a
budget. There is no bound if none is easily proven: recursion, ``unevaluated…``, dynamic references, regular
expressions that may backtrack.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

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
            if keyword in ("$ref", "pattern"):
                yield self._named(keyword, value, depth)
            elif keyword in _IN_PLACE or keyword in _IN_PLACE_LIST or keyword in _IN_PLACE_NAMED:
                yield _combined(self.cost(part, depth) for part in _parts_of(keyword, value))
            elif keyword in ("properties", "items", "prefixItems", "patternProperties") or (
                keyword in _FOR_EACH
            ):
                yield self._children(keyword, value, depth)
            elif keyword == "uniqueItems":
                yield SchemaCost(unique=value is not False)
            elif keyword not in _UNREAD:
                yield SchemaCost(self._data(value))

    def _named(self, keyword: str, value: Any, depth: int) -> SchemaCost:
        if keyword == "pattern":
            return SchemaCost(patterns=self._weight(value))
        return self.cost(_target(value, self._root), depth)

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


def _combined(costs: Iterable[SchemaCost]) -> SchemaCost:
    every = _together(costs)
    return SchemaCost(every.fixed + 1, every.each, every.nested + 1, every.patterns, every.unique)


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
