"""Removes property names from a shape that may be data: those of one result only, and keys of maps; pure."""

from __future__ import annotations

from tabane.code.result_types.shapes import ARRAY, OBJECT, Property, ResultShape, union_of

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
    return len(found) >= _ALIKE and _are_alike([each.shape for each in found])


def _are_alike(shapes: list[ResultShape]) -> bool:
    """Return whether all are objects with the same names."""
    first = shapes[0].names.keys()
    return bool(first) and all(each.kinds == OBJECT and each.names.keys() == first for each in shapes)
