"""Shapes of JSON values: which kinds a place may have, without any value; pure.

Merging is a union: it is commutative and associative, so the order of results does not matter. A shape has
names of properties, and for each the results that had it. Which of these names may be shown or stored is
decided in :mod:`tabane.code.result_types.settling`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    """What was seen at one place of JSON values.

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
    names, rest = _united(one.names, other.names), merged(one.rest, other.rest)
    crowded = one.crowded or other.crowded or len(names) > MOST_NAMES
    if crowded:
        names, rest = {}, union_of((*_shapes(names), *_given(rest)))
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
    inner = (*_shapes(shape.names), *_given(shape.rest), *_given(shape.items))
    return 1 + sum(node_count(each) if each.kinds >= ARRAY else 1 for each in inner)


def bounded(shape: ResultShape, most: int = MOST_NODES) -> ResultShape:
    """Return a shape of at most ``most`` places. What is cut off may be anything."""
    depth = MOST_DEPTH
    while node_count(shape) > most and depth > 0:
        depth -= 1
        shape = depth_cut(shape, depth)
    return shape


def _united(one: Mapping[str, Property], other: Mapping[str, Property]) -> Mapping[str, Property]:
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


def _shapes(names: Mapping[str, Property]) -> Iterable[ResultShape]:
    return (each.shape for each in names.values())


def _given(shape: ResultShape | None) -> tuple[ResultShape, ...]:
    return () if shape is None else (shape,)
