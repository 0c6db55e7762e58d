"""Fields of records as columns of a collection in Milvus, and filters as its expressions; pure.

Milvus 2.3 has no null, so an absent value is one that no filter finds. Lists are in the dynamic field. What
an expression cannot say is left out: it is true for every record that the filter matches, and for others.
https://milvus.io/docs/boolean.md
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tabane.search.filters import (
    And,
    Condition,
    Contains,
    Equal,
    Everything,
    Filter,
    In,
    Not,
    Or,
    Prefix,
    Range,
)
from tabane.search.records import Field, Kind, Scalar, Shape, Value

ROW, VECTOR = "row", "vec"
MOST_COLUMNS = 58  # of the 64 fields that a collection may have
LONGEST = 1024  # bytes of a string; a longer one is cut
_LONGEST_ASKED = 900  # bytes of a string in a filter
_LONGEST_LIST = 20_000  # bytes of all elements; others are left out
_MOST_VALUES = 1000  # of a set in a filter
_CUT = "cut"  # in the dynamic field: a list is not complete
_ABSENT = -math.ldexp(1.0, 1023)


@dataclass(frozen=True, slots=True)
class MilvusExpression:
    """An expression. ``exact``: it is false for all records that the filter does not match."""

    text: str
    exact: bool = True


def columns(shape: Shape) -> dict[str, Field]:
    """Return the fields that have a column of their own, by its name."""
    plain = [field for field in shape.fields if field.kind is not Kind.STRINGS]
    return {column(field): field for field in plain[:MOST_COLUMNS]}


def column(field: Field) -> str:
    return f"{'n' if field.kind.numeric else field.kind.value}_{field.name}"


def cells(fields: Mapping[str, Value], shape: Shape) -> dict[str, Any]:
    """Return the values of the columns, and those of the dynamic field."""
    found: dict[str, Any] = {
        name: _cell(fields.get(field.name), field) for name, field in columns(shape).items()
    }
    for field in shape.fields:
        value = fields.get(field.name)
        if field.kind is Kind.STRINGS and isinstance(value, tuple):
            kept = list(_kept(value))
            found[column(field)] = kept
            if len(kept) < len(value):
                found[_CUT] = True
    return found


def _cell(value: Value | None, field: Field) -> Any:
    if field.kind is Kind.STRING:
        return "=" + _cut(value) if isinstance(value, str) else ""
    if field.kind is Kind.BOOLEAN:
        return int(value) if isinstance(value, bool) else -1
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else _ABSENT


def _cut(text: str) -> str:
    encoded = text.encode()
    return text if len(encoded) < LONGEST else encoded[: LONGEST - 1].decode(errors="ignore")


def _kept(values: Iterable[str]) -> Iterable[str]:
    room = _LONGEST_LIST
    for value in values:
        size = len(value.encode()) + 8
        if size <= room:
            room -= size
            yield value


def expression(where: Filter, shape: Shape) -> MilvusExpression | None:
    """Return the expression of a checked filter; None if it says nothing."""
    match where:
        case Everything() | Contains():
            return None
        case Not(of):
            inner = expression(of, shape)
            return MilvusExpression(f"not ({inner.text})") if inner and inner.exact else None
        case And(of):
            found = [expression(each, shape) for each in of]
            said = [each for each in found if each is not None]
            exact = all(each.exact for each in said) and len(said) == len(of)
            return MilvusExpression(_joined(" and ", said), exact) if said else None
        case Or(of):
            said = [each for part in of if (each := expression(part, shape)) is not None]
            if not said or len(said) < len(of):
                return None
            return MilvusExpression(_joined(" or ", said), all(each.exact for each in said))
        case _:
            return _condition(where, shape)


def _joined(word: str, parts: Sequence[MilvusExpression]) -> str:
    return word.join(f"({each.text})" for each in parts)


def _condition(where: Condition, shape: Shape) -> MilvusExpression | None:
    field = shape.field(where.field)
    if field.kind is Kind.STRINGS:
        return _of_list(where, column(field))
    if column(field) not in columns(shape):
        return None
    match field.kind:
        case Kind.STRING:
            text = _of_string(where, column(field))
        case Kind.BOOLEAN:
            text = _of_boolean(where, column(field))
        case _:
            text = _of_number(where, column(field))
    return None if text is None else MilvusExpression(text)


def _of_string(where: Condition, name: str) -> str | None:
    match where:
        case Equal(_, value):
            return f"{name} == {_quoted(value)}" if _sayable(value) else None
        case In(_, values):
            if len(values) > _MOST_VALUES or not all(map(_sayable, values)):
                return None
            return f"{name} in [{', '.join(map(_quoted, values))}]"
        case Prefix(_, text):
            if not _sayable(text) or "%" in text or "_" in text:
                return None
            return f'{name} like "={text}%"' if text else f'{name} != ""'
        case Range(_, None, None):
            return f'{name} != ""'
        case _:
            return None


def _of_list(where: Condition, name: str) -> MilvusExpression | None:
    match where:
        case Equal(_, value) if _sayable(value):
            found = f'json_contains($meta["{name}"], {_quoted(value, "")})'
        case In(_, values) if 0 < len(values) <= _MOST_VALUES and all(map(_sayable, values)):
            listed = ", ".join(_quoted(value, "") for value in values)
            found = f'json_contains_any($meta["{name}"], [{listed}])'
        case _:
            return None
    return MilvusExpression(f'{found} or $meta["{_CUT}"] == true', exact=False)


def _of_boolean(where: Condition, name: str) -> str | None:
    match where:
        case Equal(_, value):
            return f"{name} == {int(value is True)}"
        case In(_, values):
            return f"{name} in [{', '.join(str(int(value is True)) for value in values)}]"
        case _:
            return None


def _of_number(where: Condition, name: str) -> str | None:
    match where:
        case Equal(_, value):
            return f"{name} == {_number(value)}"
        case In(_, values):
            if len(values) > _MOST_VALUES:
                return None
            return f"{name} in [{', '.join(map(_number, values))}]"
        case Range(_, low, high, include_low, include_high):
            least = (
                f"{name} > {_ABSENT!r}"
                if low is None
                else f"{name} {'>=' if include_low else '>'} {_number(low)}"
            )
            if high is None:
                return least
            return f"{least} and {name} {'<=' if include_high else '<'} {_number(high)}"
        case _:
            return None


def _number(value: Scalar) -> str:
    return repr(float(value))


def _sayable(value: Scalar) -> bool:
    """Return whether a string can be written in an expression of every version without escapes."""
    text = str(value)
    return text.isprintable() and not {'"', "\\"} & set(text) and len(text.encode()) <= _LONGEST_ASKED


def _quoted(value: Scalar, begin: str = "=") -> str:
    return f'"{begin}{value}"'
