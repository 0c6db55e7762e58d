"""Filters of documents in JSON, parsed to conditions on records; pure.

``{"author": "x", "year": {"gte": 2020}, "tags": ["a", "b"]}``: every member must match; a list matches any of
its values. Operators are eq, ne, gt, gte, lt, lte, in, nin and prefix, with or without a ``$``. ``$and`` and
``$or`` take lists of filters, ``$not`` one filter. Besides the user's metadata there are filepath, file_type
and updated_at. A condition on an absent value is false, and its negation is true.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from typing import Any

from tabane.documents import metadata
from tabane.documents.document import DOCUMENT, FILE_TYPE, HEADS, METADATA, UPDATED_AT
from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.search.engine import Collection
from tabane.search.filters import DEEPEST, MOST_VALUES, And, Equal, Filter, In, Not, Or, Prefix, Range, leaves

MOST_NAMES = MOST_VALUES // 2


async def resolved(collection: Collection, where: Filter) -> Filter:
    """Return the filter with conditions on dates replaced by names of documents: only heads have a date.

    Raises BadArguments if both the matching and the other documents are too many to list.
    """
    found: dict[Filter, Filter] = {
        leaf: await _documents_with(collection, leaf)
        for leaf in leaves(where)
        if isinstance(leaf, Range) and leaf.field == UPDATED_AT
    }
    return _put_in(where, found) if found else where


async def _documents_with(collection: Collection, leaf: Filter) -> Filter:
    """Return a filter with the names of matching documents, or with the other ones if they are fewer."""
    meant, others = And((HEADS, leaf)), And((HEADS, Not(leaf)))
    inside, outside = await collection.count(meant), await collection.count(others)
    if min(inside, outside) <= MOST_NAMES:
        names = In(DOCUMENT, tuple(await collection.tally(DOCUMENT, meant if inside <= outside else others)))
        return names if inside <= outside else Not(names)
    message = say(
        "filters: updated_at can be used only if at most {most} {most:document|documents} match it, or at "
        "most {most} do not",
        most=MOST_NAMES,
    )
    raise BadArguments(message, "filters.updated_at")


def _put_in(where: Filter, found: Mapping[Filter, Filter]) -> Filter:
    match where:
        case Not(of):
            return Not(_put_in(of, found))
        case And(of):
            return And(tuple(_put_in(each, found) for each in of))
        case Or(of):
            return Or(tuple(_put_in(each, found) for each in of))
        case _:
            return found.get(where, where)


OPERATORS = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "prefix")

_FIELDS = {"filepath": DOCUMENT, "file_type": FILE_TYPE}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

Operand = str | int | float | bool


def read(filters: Mapping[str, Any], zone: tzinfo, parameter: str = "filters", depth: int = 1) -> Filter:
    """Parse filters, all of which must match. Raises :class:`BadArguments` that names the path.

    Dates without an offset are in ``zone``.
    """
    if depth > DEEPEST // 2:
        raise _unfit(parameter, say("a filter is at most {most} {most:level|levels} deep", most=DEEPEST // 2))
    return And(
        tuple(_member(key, value, zone, f"{parameter}.{key}", depth) for key, value in filters.items())
    )


def _member(key: str, value: Any, zone: tzinfo, path: str, depth: int) -> Filter:
    if key in ("$and", "$or"):
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise _unfit(path, say("it must be a list of filters"))
        of = tuple(read(each, zone, f"{path}[{place}]", depth + 1) for place, each in enumerate(value))
        return And(of) if key == "$and" else Or(of)
    if key == "$not":
        if not isinstance(value, dict):
            raise _unfit(path, say("it must be a filter"))
        return Not(read(value, zone, path, depth + 1))
    return _conditions(_named(key, zone, path), value, path)


def _conditions(name: FilterField, value: Any, path: str) -> Filter:
    if isinstance(value, dict):
        if not value:
            raise _unfit(path, say("it must be an operator: {known}", known=", ".join(OPERATORS)))
        return And(tuple(_operated(name, key, operand, path) for key, operand in value.items()))
    return _any(name, value, path) if isinstance(value, list) else name.equal(_operand(value, path))


def _operated(name: FilterField, key: str, operand: Any, path: str) -> Filter:
    operator, path = key.removeprefix("$"), f"{path}.{key}"
    match operator:
        case "eq":
            return name.equal(_operand(operand, path))
        case "ne":
            return Not(name.equal(_operand(operand, path)))
        case "in":
            return _any(name, operand, path)
        case "nin":
            return Not(_any(name, operand, path))
        case "prefix":
            if not isinstance(operand, str):
                raise _unfit(path, say("it must be a string"))
            return name.prefix(str(_operand(operand, path)))
        case "gt" | "gte" | "lt" | "lte":
            return name.compared(operator, _operand(operand, path))
    raise _unfit(path, say("it must be an operator: {known}", known=", ".join(OPERATORS)))


def _any(name: FilterField, values: Any, path: str) -> Filter:
    if not isinstance(values, list):
        raise _unfit(path, say("it must be a list"))
    return Or(tuple(name.equal(_operand(each, path)) for each in values))


def _operand(value: Any, path: str) -> Operand:
    return metadata.checked_scalar(value, path)


def _unfit(path: str, wanted: Message) -> BadArguments:
    return BadArguments(say("{parameter}: {wanted}", parameter=path, wanted=wanted), path)


@dataclass(frozen=True, slots=True)
class FilterField:
    """The conditions that one value of a document supports."""

    equal: Callable[[Operand], Filter]
    compared: Callable[[str, Operand], Filter]
    prefix: Callable[[str], Filter]


def _named(key: str, zone: tzinfo, path: str) -> FilterField:
    if key == "updated_at":
        return _updated_at(zone, path)
    field = _FIELDS.get(key)
    if field is not None:
        return _field(field, path)
    return _own(metadata.checked_key(key, path), path)


def _field(field: str, path: str) -> FilterField:
    """Return a field of strings."""

    def string(value: Operand) -> str:
        if not isinstance(value, str):
            raise _unfit(path, say("it must be a string"))
        return unicodedata.normalize("NFC", value) if field == DOCUMENT else value

    return FilterField(
        lambda value: Equal(field, string(value)),
        lambda operator, value: _ordered(field, operator, string(value)),
        lambda text: Prefix(field, string(text)),
    )


def _ordered(field: str, operator: str, bound: str) -> Filter:
    if operator.startswith("g"):
        return Range(field, bound, include_low=operator == "gte")
    return Range(field, high=bound, include_high=operator == "lte")


def _own(key: str, path: str) -> FilterField:
    """Return a field of the user's metadata. Strings are compared with strings, numbers with numbers."""

    def compared(operator: str, value: Operand) -> Filter:
        kind = metadata.kind_of(value)
        if kind == metadata.BOOLEAN:
            raise _unfit(path, say("true and false have no order"))
        first, last = metadata.beginning(key, kind), metadata.beginning(key, chr(ord(kind) + 1))
        bound = first + metadata.spelt(value)
        if operator.startswith("g"):
            return Range(METADATA, bound, last, include_low=operator == "gte", include_high=False)
        return Range(METADATA, first, bound, include_high=operator == "lte")

    return FilterField(
        lambda value: Equal(METADATA, metadata.element(key, value)),
        compared,
        lambda text: Prefix(METADATA, metadata.element(key, text)),
    )


def _updated_at(zone: tzinfo, path: str) -> FilterField:
    """Return a field of dates. A day means the time from its beginning to its end."""

    def equal(value: Operand) -> Filter:
        begin, end = span(value, zone, path)
        return Range(UPDATED_AT, begin, end, include_high=begin == end)

    def compared(operator: str, value: Operand) -> Filter:
        begin, end = span(value, zone, path)
        match operator:
            case "gte":
                return Range(UPDATED_AT, begin)
            case "gt":
                return Range(UPDATED_AT, end, include_low=begin < end)
            case "lt":
                return Range(UPDATED_AT, high=begin, include_high=False)
            case _:
                return Range(UPDATED_AT, high=end, include_high=begin == end)

    def prefix(text: str) -> Filter:
        raise _unfit(path, say("times cannot be matched by prefix"))

    return FilterField(equal, compared, prefix)


def span(value: Operand, zone: tzinfo, path: str) -> tuple[float, float]:
    """Return begin and end in seconds since 1970: equal for a time, from midnight to midnight for a day."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), float(value)
    try:
        if isinstance(value, str) and _DAY.fullmatch(value):
            midnight = datetime.combine(datetime.fromisoformat(value), time(), zone)
            next_one = datetime.combine(midnight.date() + timedelta(days=1), time(), zone)
            return midnight.timestamp(), next_one.timestamp()
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=zone)
            return moment.timestamp(), moment.timestamp()
    except (ValueError, OverflowError):
        pass
    raise _unfit(path, say("it must be YYYY-MM-DD, an ISO 8601 time, or seconds since 1970"))
