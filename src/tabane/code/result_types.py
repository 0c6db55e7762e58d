"""Types of results, learned from results that were seen: shapes, their bounds, and their JSON Schema. Pure.

A shape says which kinds of values a place may have, without any value. Merging is a union: it is commutative
and associative, so the order of results does not matter. A shape has names of properties, and for each the
results that had it. Names that may be data are never shown or stored: those of one result only, and keys of
maps (:func:`settled`). A kept shape is a line of a file, within a limit of bytes.

Types are learned separately for each caller. Results come as values, and the clock is the number of calls.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

NULL, BOOLEAN, INTEGER, NUMBER, STRING, ARRAY, OBJECT, ANY = (1 << place for place in range(8))

MOST_NAMES = 64
"""Names of one object. If there are more, they are data: the object is a map."""

MOST_DEPTH = 7
MOST_NODES = 600
"""Places of one shape."""

SEVERAL = 2
"""Results that must have had a name of a property before it is shown or stored."""


class ResultShape(Struct, frozen=True):
    """The kinds of values that were seen at one place of JSON values.

    ``kinds`` are bits. ``objects`` counts the objects among the values, ``names`` are their properties.
    ``rest`` is the shape of the properties whose names are data; ``crowded``: all are. ``items`` is the shape
    of the items of arrays.
    """

    kinds: int = 0
    objects: int = 0
    names: Mapping[str, Property] = {}
    rest: ResultShape | None = None
    items: ResultShape | None = None
    crowded: bool = False


class Property(Struct, frozen=True):
    """A property: its shape, the number of objects that had it, and two of the results that had it."""

    shape: ResultShape
    count: int
    results: frozenset[int]

    @property
    def several(self) -> bool:
        return len(self.results) >= SEVERAL


ANYTHING = ResultShape(ANY)
PLAIN = {kind: ResultShape(kind) for kind in (NULL, BOOLEAN, INTEGER, NUMBER, STRING)}


def merged(one: ResultShape | None, other: ResultShape | None) -> ResultShape | None:
    """Return the union of two shapes; None is nothing seen."""
    if one is None or other is None:
        return other if one is None else one
    return union(one, other)


def union(one: ResultShape, other: ResultShape) -> ResultShape:
    """Return the shape of all values that either shape was seen of."""
    kinds = one.kinds | other.kinds
    if kinds & ANY:
        return ANYTHING
    if kinds < ARRAY:
        return one if one.kinds == kinds else other if other.kinds == kinds else ResultShape(kinds)
    names, rest = _unite_names(one.names, other.names), merged(one.rest, other.rest)
    crowded = one.crowded or other.crowded or len(names) > MOST_NAMES
    if crowded:
        names, rest = {}, union_of((*_shapes_of(names), *_tuple_of(rest)))
    objects = one.objects + other.objects
    return ResultShape(kinds, objects, names, rest, merged(one.items, other.items), crowded)


def union_of(shapes: Iterable[ResultShape]) -> ResultShape | None:
    """Return the union of shapes; None if there are none."""
    found: ResultShape | None = None
    for shape in shapes:
        found = merged(found, shape)
    return found


def depth_cut(shape: ResultShape, depth: int) -> ResultShape:
    """Return a shape in which what is deeper may be anything."""
    if depth == 0:
        return ANYTHING if shape.kinds >= ARRAY else shape
    names = {
        name: Property(depth_cut(each.shape, depth - 1), each.count, each.results)
        for name, each in shape.names.items()
    }
    rest = depth_cut(shape.rest, depth - 1) if shape.rest is not None else None
    items = depth_cut(shape.items, depth - 1) if shape.items is not None else None
    return ResultShape(shape.kinds, shape.objects, names, rest, items, shape.crowded)


def node_count(shape: ResultShape) -> int:
    """Return the number of places of a shape."""
    if shape.kinds < ARRAY:
        return 1
    inner = (*_shapes_of(shape.names), *_tuple_of(shape.rest), *_tuple_of(shape.items))
    return 1 + sum(node_count(each) if each.kinds >= ARRAY else 1 for each in inner)


def bounded(shape: ResultShape, most: int = MOST_NODES) -> ResultShape:
    """Return a shape of at most ``most`` places. What is cut off may be anything."""
    depth = MOST_DEPTH
    while node_count(shape) > most and depth > 0:
        depth -= 1
        shape = depth_cut(shape, depth)
    return shape


def _unite_names(one: Mapping[str, Property], other: Mapping[str, Property]) -> Mapping[str, Property]:
    if not one or not other:
        return one or other
    found = dict(one)
    for name, each in other.items():
        known = found.get(name)
        found[name] = each if known is None else _union_of_properties(known, each)
    return found


def _union_of_properties(one: Property, other: Property) -> Property:
    results = one.results
    if results is not other.results:
        results |= other.results
        if len(results) > SEVERAL:
            results = frozenset(sorted(results)[:SEVERAL])
    return Property(union(one.shape, other.shape), one.count + other.count, results)


def _shapes_of(names: Mapping[str, Property]) -> Iterable[ResultShape]:
    return (each.shape for each in names.values())


def _tuple_of(shape: ResultShape | None) -> tuple[ResultShape, ...]:
    return () if shape is None else (shape,)


BUDGET = 2_000
"""Values of a result that are looked at."""

MOST_ITEMS = 24
"""Items of an array that are looked at; of an array inside of another, a quarter, but no fewer than four."""

_LEAST_ITEMS = 4

MOST_MEMBERS = 128
LONGEST_NAME = 48

_NAME = re.compile(r"[@$]{0,2}[^\W\d][\w-]*")
_DATA = re.compile(
    r".*\d.*\d.*\d.*\d"  # dates, numbers of accounts, most ids
    r"|[A-Za-z]+-\d+"  # ABC-12
    r"|(?=.*\d.*\d)[0-9A-Fa-f]{8,}"
)

_PLAIN = {
    str: PLAIN[STRING],
    bool: PLAIN[BOOLEAN],
    int: PLAIN[INTEGER],
    float: PLAIN[NUMBER],
    type(None): PLAIN[NULL],
}


def may_be_data(name: str) -> bool:
    """Return whether a name of a property looks like an id, a date, an address, a path or a text."""
    if len(name) > LONGEST_NAME or not name.isprintable() or _NAME.fullmatch(name) is None:
        return True
    return any(map(str.isdigit, name)) and _DATA.match(name) is not None


def shape_of(value: Any, result: int, before: int | None = None) -> ResultShape:
    """Return the shape of a result with this number.

    ``before`` is the number of an earlier result with the same content. A result that is only repeated is
    no evidence that a name is no data. But an object whose values are of several kinds is hardly a map.
    """
    return _Observer(result, before).shape(value, MOST_DEPTH, MOST_ITEMS)


class _Observer:
    """Looks at values until its budget is spent. Each part of a value has its share of what is left."""

    def __init__(self, result: int, before: int | None) -> None:
        self._left = BUDGET
        self._names: dict[str, bool] = {}
        self._new = frozenset((result,))
        self._known = self._new if before is None else frozenset((before,))

    def shape(self, value: Any, depth: int, items: int, floor: int = 0) -> ResultShape:
        """Return the shape of a value. ``floor`` is what has to be left of the budget."""
        self._left -= 1
        plain = _PLAIN.get(type(value))
        if plain is not None:
            return plain
        if depth == 0:
            return ANYTHING
        if isinstance(value, dict):
            return self._object_shape(value, depth - 1, items, floor)
        return self._array_shape(value, depth - 1, items, floor) if isinstance(value, list) else ANYTHING

    def _array_shape(self, value: Sequence[Any], depth: int, items: int, floor: int) -> ResultShape:
        looked, fewer = list(_spread_items(value, items)), max(_LEAST_ITEMS, items // 4)
        found: ResultShape | None = None
        for place, each in enumerate(looked):
            if self._left <= floor:
                break
            found = merged(
                found, self.shape(each, depth, fewer, self._floor_of_next(len(looked) - place, floor))
            )
        return ResultShape(ARRAY, items=found)

    def _object_shape(self, value: Mapping[str, Any], depth: int, items: int, floor: int) -> ResultShape:
        results = self._new if self._known is self._new or _is_mixed(value.values()) else self._known
        names: dict[str, Property] = {}
        rest: ResultShape | None = None
        count = min(len(value), MOST_MEMBERS)
        for place, (name, each) in enumerate(islice(value.items(), count)):
            if self._left <= floor:
                break
            shape = _PLAIN.get(type(each))
            if shape is None:
                shape = self.shape(each, depth, items, self._floor_of_next(count - place, floor))
            else:
                self._left -= 1
            is_data = self._names.get(name)
            if is_data is None:
                is_data = self._names[name] = may_be_data(name)
            if is_data:
                rest = merged(rest, shape)
            else:
                names[name] = Property(shape, 1, results)
        shape = ResultShape(OBJECT, 1, names, rest)
        return shape if len(names) <= MOST_NAMES else union(shape, ResultShape(OBJECT))

    def _floor_of_next(self, parts: int, floor: int) -> int:
        """Return the floor for the next of so many parts."""
        return self._left - (self._left - floor) // parts


def _spread_items(value: Sequence[Any], most: int) -> Iterable[Any]:
    """Return at most ``most`` items from the whole of an array."""
    count = len(value)
    return value if count <= most else (value[place * count // most] for place in range(most))


def _is_mixed(values: Iterable[Any]) -> bool:
    """Return whether values are of several kinds, or one value that has parts."""
    found = [
        (float if type(each) is int else type(each))
        for each in islice(values, MOST_MEMBERS)
        if each is not None
    ]
    return len(set(found)) > 1 or (len(found) == 1 and found[0] in (dict, list))


_ALIKE = 3
"""Properties that are objects with the same names, from which an object is a map."""

_CHANGING = 3
"""Names that only one result had, from which an object may be a map."""

_SPARSE = 8
"""Names, from which an object that never has most of them is a map."""


def settled(shape: ResultShape) -> ResultShape:
    """Return a shape without the names that one result alone had, and without keys of maps.

    The shapes of their values are merged into that of the rest. So it was seen of the same values.
    """
    if shape.kinds < ARRAY:
        return shape
    kept = {} if _is_map(shape) else {name: each for name, each in shape.names.items() if each.several}
    loose = [each.shape for name, each in shape.names.items() if name not in kept]
    rest = union_of(loose if shape.rest is None else (shape.rest, *loose))
    names = {
        name: each if each.shape.kinds < ARRAY else Property(settled(each.shape), each.count, each.results)
        for name, each in kept.items()
    }
    return ResultShape(
        shape.kinds,
        shape.objects,
        names,
        settled(rest) if rest is not None else None,
        settled(shape.items) if shape.items is not None else None,
        shape.crowded,
    )


def _is_map(shape: ResultShape) -> bool:
    """Return whether the names of an object are rather data than properties."""
    found = list(shape.names.values())
    several = sum(each.several for each in found)
    results = {result for each in found for result in each.results}
    once = len(found) - several
    if len(results) > 1 and once >= _CHANGING and once >= 2 * several:
        return True
    if len(found) >= _SPARSE and all(each.count < shape.objects for each in found):
        return 2 * sum(each.count for each in found) < len(found) * shape.objects
    if len(found) < _ALIKE:
        return False
    first = found[0].shape.names.keys()  # do all of them have the same names?
    return bool(first) and all(
        each.shape.kinds == OBJECT and each.shape.names.keys() == first for each in found
    )


_TYPES = {
    OBJECT: "object", ARRAY: "array", STRING: "string", INTEGER: "integer", NUMBER: "number",
    BOOLEAN: "boolean", NULL: "null",
}  # fmt: skip


def schema_of(shape: ResultShape | None) -> dict[str, Any]:
    """Return the schema of a settled shape. It accepts every value that the shape was seen of."""
    if shape is None or not shape.kinds or shape.kinds & ANY:
        return {}
    kinds = shape.kinds & ~INTEGER if shape.kinds & NUMBER else shape.kinds
    types = [name for kind, name in _TYPES.items() if kinds & kind]
    found: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    if shape.kinds & ARRAY and shape.items is not None:
        found["items"] = schema_of(shape.items)
    if shape.kinds & OBJECT and shape.names:
        found["properties"] = {name: schema_of(each.shape) for name, each in shape.names.items()}
        required = [name for name, each in shape.names.items() if each.count >= shape.objects]
        found |= {"required": required} if required else {}
    if shape.kinds & OBJECT and shape.rest is not None:
        found["additionalProperties"] = schema_of(shape.rest)
    return found


MOST_BYTES = 16 << 10
"""Bytes of a tool in the file."""

_SETTLED = frozenset((-1, -2))
"""Results of a name that was read from a file: several had it."""

_MOST_COUNT = 1 << 40


class KeptType(Struct, frozen=True, omit_defaults=True):
    """The type learned for one tool and caller: the definition of the tool, and the shape of its results."""

    holder: str
    tool: str
    server: str
    digest: str
    results: int = 0
    shape: Any = None


def line_of(kept: KeptType, shape: ResultShape) -> bytes:
    """Return a line for a shape. If it would be too long, what is deep may be anything."""
    shape, depth = settled(shape), MOST_DEPTH
    while True:
        line = msgspec.json.encode(msgspec.structs.replace(kept, shape=_write_shape(shape)))
        if len(line) <= MOST_BYTES or depth == 0:
            return line + b"\n"
        depth -= 1
        shape = depth_cut(shape, depth)


def read_line(line: bytes) -> tuple[KeptType, ResultShape] | None:
    """Return what a line says; None if it is none of ours."""
    if len(line) > 2 * MOST_BYTES:
        return None
    try:
        kept = msgspec.json.decode(line, type=KeptType)
        return kept, bounded(_read_shape(kept.shape, MOST_DEPTH))
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
        return None


def _write_shape(shape: ResultShape | None) -> Any:
    """Return a shape as a list: kinds, objects, names, rest, items, crowded; of scalars the kinds alone."""
    if shape is None:
        return None
    if not shape.objects and shape.items is None:
        return shape.kinds
    names = {name: [each.count, _write_shape(each.shape)] for name, each in shape.names.items()}
    rest, items = _write_shape(shape.rest), _write_shape(shape.items)
    return [shape.kinds, shape.objects, names, rest, items, shape.crowded]


def _read_shape(written: Any, depth: int) -> ResultShape:
    """Return the shape. Raises ValueError and TypeError if it is none."""
    if isinstance(written, int):
        return ANYTHING if written & ANY else ResultShape(_check_count(written) & (ANY - 1))
    if depth == 0:
        return ANYTHING
    kinds, objects, names, rest, items, crowded = written
    if len(names) > MOST_NAMES or any(map(may_be_data, names)):
        raise ValueError("names that are none")
    properties = {
        name: Property(_read_shape(shape, depth - 1), _check_count(count), _SETTLED)
        for name, (count, shape) in names.items()
    }
    return ResultShape(
        _check_count(kinds) & (ANY - 1),
        _check_count(objects),
        properties,
        None if rest is None else _read_shape(rest, depth - 1),
        None if items is None else _read_shape(items, depth - 1),
        crowded is True,
    )


def _check_count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MOST_COUNT:
        raise ValueError("no count")
    return value


MOST_TOOLS = 1_000
"""Pairs of caller and tool. Beyond it, the one that was called longest ago is forgotten."""

ALL = 6
"""Results of a tool that are all observed. Of later ones fewer are, until one shows something new."""

RAREST = 256
"""Calls between two that are observed, if nothing new was seen for long."""

_REMEMBERED = 8
"""Results of a tool whose content is remembered, to know a repetition."""


class ToolKey(NamedTuple):
    """A caller, and a tool with its server and the digest of its definition."""

    holder: str
    tool: str
    server: str
    digest: str


class LearnedType:
    """The learned type of one tool for one caller."""

    def __init__(self, key: ToolKey, results: int = 0, shape: ResultShape | None = None) -> None:
        self.key, self.results = key, results
        self._shape = shape
        self._schema: dict[str, Any] | None = None
        self._step = self._skipped = 0
        self._contents: OrderedDict[int, int] = OrderedDict()

    def is_due(self) -> bool:
        """Count a call, and return whether its result should be looked at."""
        self._skipped += 1
        if self.results >= ALL and self._skipped < self._step:
            return False
        self._skipped = 0
        return True

    def observed(self, value: Any, content: int) -> ResultShape:
        """Return the shape of a result. ``content`` is a digest of its content. It may run in a thread."""
        return shape_of(value, self.results + 1, self._contents.get(content))

    def learn(self, shape: ResultShape, content: int) -> None:
        """Add the shape of a result."""
        self.results += 1
        self._contents.setdefault(content, self.results)
        if len(self._contents) > _REMEMBERED:
            self._contents.popitem(last=False)
        self._shape = bounded(merged(self._shape, shape) or shape)
        known, self._schema = self._schema, None
        if self.results > ALL:
            is_new = self.schema != known and known is not None
            self._step = 1 if is_new else min(RAREST, max(1, self._step) * 2)

    @property
    def schema(self) -> dict[str, Any] | None:
        """The schema of the results; None if too few were seen, or nothing can be said."""
        if self._shape is None or self.results < SEVERAL:
            return None
        if self._schema is None:
            self._schema = schema_of(settled(self._shape))
        return self._schema or None

    def line(self) -> bytes | None:
        """Return the line that is stored; None before anything was learned."""
        kept = KeptType(*self.key, results=self.results)
        return None if self._shape is None else line_of(kept, self._shape)


def read_types(lines: Iterable[bytes]) -> tuple[list[LearnedType], int]:
    """Return what lines of a file say, and how many are unreadable. The last line of a tool counts."""
    found: dict[tuple[str, str], LearnedType] = {}
    faults = 0
    for line in lines:
        read = read_line(line)
        if read is None:
            faults += 1
            continue
        kept, shape = read
        key = ToolKey(kept.holder, kept.tool, kept.server, kept.digest)
        found.pop(key[:2], None)
        found[key[:2]] = LearnedType(key, kept.results, shape)
    return list(found.values()), faults


class LearnedTypes:
    """The types of all tools. ``fresh`` are those that have changed since they were written."""

    def __init__(self) -> None:
        self._types: OrderedDict[tuple[str, str], LearnedType] = OrderedDict()
        self.fresh: dict[tuple[str, str], LearnedType] = {}

    def __len__(self) -> int:
        return len(self._types)

    def restore(self, found: Iterable[LearnedType]) -> None:
        """Add types that were learned earlier, the longest unused first."""
        for each in found:
            self._put_type(each)

    def of_call(self, key: ToolKey) -> LearnedType:
        """Return the type to which a call belongs. A tool whose definition has changed starts afresh."""
        known = self._types.get(key[:2])
        if known is None or known.key != key:
            known = LearnedType(key)
            self._put_type(known)
        else:
            self._types.move_to_end(key[:2])
        return known

    def find(self, key: ToolKey) -> LearnedType | None:
        """Return what was learned of this definition of a tool."""
        known = self._types.get(key[:2])
        return known if known is not None and known.key == key else None

    def learn(self, learned: LearnedType, shape: ResultShape, content: int) -> None:
        """Add the shape of a result, unless the tool was forgotten meanwhile."""
        if self._types.get(learned.key[:2]) is learned:
            learned.learn(shape, content)
            self.fresh[learned.key[:2]] = learned

    def forget(self, name: str = "") -> int:
        """Forget a tool, the tools of a server, or all; for every caller. Return how many were forgotten."""
        gone = [
            key for key, each in self._types.items()
            if not name or name in (each.key.tool, each.key.server)
        ]  # fmt: skip
        found = sum(self._types.pop(key).results > 0 for key in gone)
        for key in gone:
            self.fresh.pop(key, None)
        return found

    def take_fresh(self) -> list[LearnedType]:
        """Return what has changed since the last call."""
        fresh, self.fresh = list(self.fresh.values()), {}
        return fresh

    def all(self) -> list[LearnedType]:
        """Return everything, the longest unused first."""
        return list(self._types.values())

    def _put_type(self, learned: LearnedType) -> None:
        place = learned.key[:2]
        self._types.pop(place, None)
        self._types[place] = learned
        if len(self._types) > MOST_TOOLS:
            gone, _ = self._types.popitem(last=False)
            self.fresh.pop(gone, None)
