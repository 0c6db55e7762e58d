"""Filters: conditions on the fields and texts of records, as values; pure.

A condition is true or false for a record, never unknown. If a field is absent, every condition on it is
false, and its negation is true. :func:`matches` is the reference. Engines may be faster, but must agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, structs

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.search.analysis import substring_spelling
from tabane.search.records import Field, Kind, Record, Scalar, Shape, checked_scalar, encodable

DEEPEST = 32
MOST_VALUES = 100_000  # values and conditions of one filter together
LONGEST_NEEDLE = 1000  # characters


class Everything(Struct, frozen=True):
    """True for every record."""


class Equal(Struct, frozen=True):
    """The field has this value. A list has it as an element."""

    field: str
    value: Scalar


class In(Struct, frozen=True):
    """The field has one of these values. Without values, it is true for no record."""

    field: str
    values: tuple[Scalar, ...]


class Range(Struct, frozen=True):
    """The value is between the bounds, which are included by default. None is no bound.

    Strings are in order of code points. Without bounds, the field must exist. Not for booleans.
    """

    field: str
    low: str | int | float | None = None
    high: str | int | float | None = None
    include_low: bool = True
    include_high: bool = True


class Prefix(Struct, frozen=True):
    """The string begins with this text, exactly as given."""

    field: str
    text: str


class Contains(Struct, frozen=True):
    """One of the texts contains these characters. Case and width are ignored.

    Hiragana and katakana are different. ``fields`` names texts; None: all of them.
    """

    text: str
    fields: tuple[str, ...] | None = None


class Not(Struct, frozen=True):
    """True if the other filter is false."""

    of: Filter


class And(Struct, frozen=True):
    """True if all filters are. Without filters, it is true for every record."""

    of: tuple[Filter, ...]


class Or(Struct, frozen=True):
    """True if any filter is. Without filters, it is true for no record."""

    of: tuple[Filter, ...]


Filter = Everything | Equal | In | Range | Prefix | Contains | Not | And | Or
Condition = Equal | In | Range | Prefix

EVERYTHING = Everything()
NOTHING = Not(EVERYTHING)


def matches(where: Filter, record: Record) -> bool:
    """Return whether the record matches. ``where`` is a result of :func:`checked`."""
    match where:
        case Everything():
            return True
        case Not(of):
            return not matches(of, record)
        case And(of):
            return all(matches(each, record) for each in of)
        case Or(of):
            return any(matches(each, record) for each in of)
        case Contains(text, fields):
            names = record.texts if fields is None else fields
            return contains((record.texts.get(name, "") for name in names), substring_spelling(text))
        case _:
            return any(_holds(where, value) for value in values_of(record, where.field))


def contains(texts: Iterable[str], needle: str) -> bool:
    """Return whether one of the texts contains the needle, which is already normalized."""
    return any(needle in substring_spelling(text) for text in texts)


def values_of(record: Record, field: str) -> tuple[Scalar, ...]:
    """Return the values of a field: none if it is absent, all elements of a list."""
    value = record.fields.get(field)
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


def _holds(condition: Condition, value: Scalar) -> bool:
    match condition:
        case Equal(_, wanted):
            return value == wanted
        case In(_, wanted_values):
            return value in wanted_values
        case Prefix(_, text):
            return isinstance(value, str) and value.startswith(text)
        case Range(_, low, high, include_low, include_high):
            return _above(value, low, include_low) and _below(value, high, include_high)


def _above(value: Scalar, low: Scalar | None, inclusive: bool) -> bool:
    return low is None or value > low or (inclusive and value == low)  # type: ignore[operator]


def _below(value: Scalar, high: Scalar | None, inclusive: bool) -> bool:
    return high is None or value < high or (inclusive and value == high)  # type: ignore[operator]


def checked(where: Filter, shape: Shape) -> Filter:
    """Return the filter in normal form. Raises :class:`BadArguments` that names the field and its type.

    Values are in the normal form of records. The depth is at most 32, with at most 100,000 values.
    """
    _check_size(where)
    return normal(_fitted(where, shape))


def _check_size(where: Filter) -> None:
    depth, level, size = 0, [where], 0
    while level:
        depth += 1
        size += sum(len(each.values) if isinstance(each, In) else 1 for each in level)
        if depth > DEEPEST:
            raise BadArguments(
                say("a filter is at most {most} {most:level|levels} deep", most=DEEPEST), "filter"
            )
        if size > MOST_VALUES:
            raise BadArguments(
                say("a filter has at most {most} {most:value|values}", most=MOST_VALUES), "filter"
            )
        level = [part for each in level for part in parts(each)]


def parts(where: Filter) -> tuple[Filter, ...]:
    """Return the filters inside this one, none if it is a condition."""
    if isinstance(where, Not):
        return (where.of,)
    return where.of if isinstance(where, And | Or) else ()


def unconditional(where: Filter) -> bool:
    """Return whether the filter is seen to be true for every record."""
    return isinstance(where, Everything) or (isinstance(where, And) and all(map(unconditional, where.of)))


def leaves(where: Filter) -> Iterator[Filter]:
    """Yield the conditions in a filter, from the left."""
    inside = parts(where)
    if not inside and not isinstance(where, And | Or):
        yield where
    for part in inside:
        yield from leaves(part)


def _fitted(where: Filter, shape: Shape) -> Filter:
    match where:
        case Everything():
            return where
        case Not(of):
            return Not(_fitted(of, shape))
        case And(of):
            return And(tuple(_fitted(each, shape) for each in of))
        case Or(of):
            return Or(tuple(_fitted(each, shape) for each in of))
        case Contains():
            return _fitted_contains(where, shape)
        case _:
            return _fitted_condition(where, shape.field(where.field))


def _fitted_contains(where: Contains, shape: Shape) -> Contains:
    if not substring_spelling(encodable(where.text, "contains")) or len(where.text) > LONGEST_NEEDLE:
        message = say(
            "the text to contain must have 1 to {most} {most:character|characters}", most=LONGEST_NEEDLE
        )
        raise BadArguments(message, "contains")
    return Contains(where.text, where.fields and shape.text_names(where.fields))


def _fitted_condition(where: Condition, field: Field) -> Condition:
    match where:
        case Equal():
            return structs.replace(where, value=checked_scalar(where.value, field))
        case In():
            return structs.replace(
                where, values=tuple(checked_scalar(value, field) for value in where.values)
            )
        case Prefix():
            if not field.kind.textual:
                raise _unfit(field, "prefix")
            return structs.replace(where, text=str(checked_scalar(where.text, field)))
        case Range():
            if field.kind is Kind.BOOLEAN:
                raise _unfit(field, "range")
            return structs.replace(where, low=_bound(where.low, field), high=_bound(where.high, field))


def _bound(value: str | int | float | None, field: Field) -> str | int | float | None:
    return None if value is None else checked_scalar(value, field)


def _unfit(field: Field, condition: str) -> BadArguments:
    return BadArguments(
        say(
            "{field} is of type {kind}, so the condition {condition} cannot be used",
            field=field.name,
            kind=field.kind.value,
            condition=condition,
        ),
        field.name,
    )


def normal(where: Filter) -> Filter:
    """Return the same filter in its simplest form, which caches and engines compare.

    And in And and Or in Or become one level. Double negation and parts that are always or never true are
    removed. A set of one value becomes an equality. Sets have each value once, in the given order.
    """
    match where:
        case Not(of):
            inner = normal(of)
            return inner.of if isinstance(inner, Not) else Not(inner)
        case And(of):
            return _joined(of, And, EVERYTHING, NOTHING)
        case Or(of):
            return _joined(of, Or, NOTHING, EVERYTHING)
        case In(field, values):
            return _set(field, tuple(dict.fromkeys(values)))
        case _:
            return where


def _set(field: str, values: tuple[Scalar, ...]) -> Filter:
    if len(values) == 1:
        return Equal(field, values[0])
    return In(field, values) if values else NOTHING


def _joined(of: tuple[Filter, ...], join: type[And] | type[Or], neutral: Filter, absorbing: Filter) -> Filter:
    found: dict[Filter, None] = {}
    for each in map(normal, of):
        if isinstance(each, join):
            found |= dict.fromkeys(each.of)
        elif each != neutral:
            found[each] = None
    if absorbing in found:
        return absorbing
    if len(found) == 1:
        return next(iter(found))
    return join(tuple(found)) if found else neutral
