"""Learned shapes as lines of a file: settled, within a limit of bytes; pure."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from tabane.code.result_types.observing import may_be_data
from tabane.code.result_types.settling import settled
from tabane.code.result_types.shapes import (
    ANY,
    ANYTHING,
    MOST_DEPTH,
    MOST_NAMES,
    Property,
    ResultShape,
    bounded,
    depth_cut,
)

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
        line = msgspec.json.encode(msgspec.structs.replace(kept, shape=_written(shape)))
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
        return kept, bounded(_read(kept.shape, MOST_DEPTH))
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
        return None


def _written(shape: ResultShape | None) -> Any:
    """Return a shape as a list: kinds, objects, names, rest, items, crowded; of scalars the kinds alone."""
    if shape is None:
        return None
    if not shape.objects and shape.items is None:
        return shape.kinds
    names = {name: [each.count, _written(each.shape)] for name, each in shape.names.items()}
    rest, items = _written(shape.rest), _written(shape.items)
    return [shape.kinds, shape.objects, names, rest, items, shape.crowded]


def _read(written: Any, depth: int) -> ResultShape:
    """Return the shape. Raises ValueError and TypeError if it is none."""
    if isinstance(written, int):
        return ANYTHING if written & ANY else ResultShape(_count(written) & (ANY - 1))
    if depth == 0:
        return ANYTHING
    kinds, objects, names, rest, items, crowded = written
    if len(names) > MOST_NAMES or any(map(may_be_data, names)):
        raise ValueError("names that are none")
    properties = {
        name: Property(_read(shape, depth - 1), _count(count), _SETTLED)
        for name, (count, shape) in names.items()
    }
    return ResultShape(
        _count(kinds) & (ANY - 1),
        _count(objects),
        properties,
        None if rest is None else _read(rest, depth - 1),
        None if items is None else _read(items, depth - 1),
        crowded is True,
    )


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MOST_COUNT:
        raise ValueError("no count")
    return value
