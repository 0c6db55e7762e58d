"""The shape of one result: what of it is looked at, and which of its names are data; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from tabane.code.result_types.shapes import (
    ANYTHING,
    ARRAY,
    BOOLEAN,
    INTEGER,
    MOST_DEPTH,
    MOST_NAMES,
    NULL,
    NUMBER,
    OBJECT,
    PLAIN,
    STRING,
    Property,
    ResultShape,
    merged,
    union,
)

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
            return self._object(value, depth - 1, items, floor)
        return self._array(value, depth - 1, items, floor) if isinstance(value, list) else ANYTHING

    def _array(self, value: Sequence[Any], depth: int, items: int, floor: int) -> ResultShape:
        looked, fewer = list(_spread(value, items)), max(_LEAST_ITEMS, items // 4)
        found: ResultShape | None = None
        for place, each in enumerate(looked):
            if self._left <= floor:
                break
            found = merged(found, self.shape(each, depth, fewer, self._share(len(looked) - place, floor)))
        return ResultShape(ARRAY, items=found)

    def _object(self, value: Mapping[str, Any], depth: int, items: int, floor: int) -> ResultShape:
        results = self._new if self._known is self._new or _is_mixed(value.values()) else self._known
        names: dict[str, Property] = {}
        rest: ResultShape | None = None
        count = min(len(value), MOST_MEMBERS)
        for place, (name, each) in enumerate(islice(value.items(), count)):
            if self._left <= floor:
                break
            shape = _PLAIN.get(type(each))
            if shape is None:
                shape = self.shape(each, depth, items, self._share(count - place, floor))
            else:
                self._left -= 1
            if self._is_data(name):
                rest = merged(rest, shape)
            else:
                names[name] = Property(shape, 1, results)
        shape = ResultShape(OBJECT, 1, names, rest)
        return shape if len(names) <= MOST_NAMES else union(shape, ResultShape(OBJECT))

    def _is_data(self, name: str) -> bool:
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = may_be_data(name)
        return known

    def _share(self, parts: int, floor: int) -> int:
        """Return the floor for the next of so many parts."""
        return self._left - (self._left - floor) // parts


def _spread(value: Sequence[Any], most: int) -> Iterable[Any]:
    """Return at most ``most`` items from the whole of an array."""
    count = len(value)
    return value if count <= most else (value[place * count // most] for place in range(most))


def _is_mixed(values: Iterable[Any]) -> bool:
    """Return whether values are of several kinds, or one value that has parts."""
    found = [_kind(each) for each in islice(values, MOST_MEMBERS) if each is not None]
    return len(set(found)) > 1 or (len(found) == 1 and found[0] in (dict, list))


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)
