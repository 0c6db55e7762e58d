"""Filters as conditions of SQL on a row ``r`` of the table of records; pure.

Each is true for the records that the filter matches, and false or unknown for the others. A mark beside a
condition lets the server use the index; the condition itself is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from tabane.engine.team.postgres import spelling
from tabane.engine.team.postgres.record_table import RecordColumns, column_value
from tabane.search.filters import (
    And,
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
from tabane.search.records import Field, Kind, Scalar

_FEW = 100  # strings of a set that are looked up by their marks


@dataclass(frozen=True, slots=True)
class SqlCondition:
    """A part of a statement, and the values of its placeholders."""

    text: sql.Composable
    values: tuple[Any, ...] = ()


def condition(where: Filter, table: RecordColumns) -> SqlCondition:
    """Return the condition of a filter that is checked already."""
    match where:
        case Everything():
            return SqlCondition(sql.SQL("TRUE"))
        case Not(of):
            inner = condition(of, table)
            return SqlCondition(sql.SQL("(({}) IS NOT TRUE)").format(inner.text), inner.values)
        case And(of):
            return joined(" AND ", [condition(each, table) for each in of], "TRUE")
        case Or(of):
            return joined(" OR ", [condition(each, table) for each in of], "FALSE")
        case Contains(text, names):
            return _contains(text, table, names)
        case _:
            return _of_field(where, table)


def joined(word: str, of: Sequence[SqlCondition], none: str) -> SqlCondition:
    """Return conditions joined by a word; ``none`` if there is none."""
    if not of:
        return SqlCondition(sql.SQL(none))
    text = sql.SQL("({})").format(sql.SQL(word).join(each.text for each in of))
    return SqlCondition(text, tuple(value for each in of for value in each.values))


def _contains(text: str, table: RecordColumns, names: tuple[str, ...] | None) -> SqlCondition:
    needle = spelling.spelt(text)
    marks = sorted(spelling.pair_marks(needle[: spelling.MOST_MARKS + 1]))
    columns = [table.texts[name] for name in (table.texts if names is None else names)]
    held = joined(" OR ", [_column("strpos({}, %s) > 0", column, needle) for column in columns], "FALSE")
    return _marked(marks, held)


def _of_field(where: Equal | In | Range | Prefix, table: RecordColumns) -> SqlCondition:
    field, column = table.fields[where.field]
    listed = field.kind is Kind.STRINGS
    match where:
        case Equal(_, value):
            return _equal(value, field, column)
        case In(_, values):
            return _among(values, field, column)
        case Prefix(_, text):
            return _element(column, [("starts_with({}, %s)", spelling.stored(text))], listed)
        case Range(_, None, None):
            return _column("{} IS NOT NULL", column)
        case Range():
            return _element(column, list(_bounds(where, field)), listed)


def _equal(value: Scalar, field: Field, column: str) -> SqlCondition:
    if not field.kind.textual:
        return _column("{} = %s", column, _value(value, field))
    text = spelling.stored(str(value))
    mark = [spelling.value_mark(field.name, text)]
    if field.kind is Kind.STRINGS:
        return _marked(mark, _column("{} @> %s::text[]", column, [text]))
    return _marked(mark, _column("{} = %s", column, text))


def _among(values: Iterable[Scalar], field: Field, column: str) -> SqlCondition:
    if not field.kind.textual:
        kind = "boolean" if field.kind is Kind.BOOLEAN else "double precision"
        return _column(f"{{}} = ANY(%s::{kind}[])", column, [_value(value, field) for value in values])
    texts = [spelling.stored(str(value)) for value in values]
    operator = "{} && %s::text[]" if field.kind is Kind.STRINGS else "{} = ANY(%s::text[])"
    exact = _column(operator, column, texts)
    if len(texts) > _FEW:
        return exact
    marks = sorted(spelling.value_marks(field.name, texts))
    return SqlCondition(
        sql.SQL("(r.marks && %s::integer[] AND {})").format(exact.text), (marks, *exact.values)
    )


def _bounds(where: Range, field: Field) -> Iterable[tuple[str, Any]]:
    if where.low is not None:
        yield f"{{}} {'>=' if where.include_low else '>'} %s", _value(where.low, field)
    if where.high is not None:
        yield f"{{}} {'<=' if where.include_high else '<'} %s", _value(where.high, field)


def _value(value: Scalar, field: Field) -> object:
    if isinstance(value, str):
        return spelling.stored(value)
    return column_value(value, field)


def _element(column: str, conditions: list[tuple[str, Any]], listed: bool) -> SqlCondition:
    """Return conditions on a string or number, or on one element of a list."""
    name = sql.SQL("element") if listed else sql.SQL("r.{}").format(sql.Identifier(column))
    text = sql.SQL(" AND ").join(sql.SQL(each).format(name) for each, _ in conditions)
    values = tuple(value for _, value in conditions)
    if not listed:
        return SqlCondition(sql.SQL("({})").format(text), values)
    exists = sql.SQL("EXISTS (SELECT FROM unnest(r.{}) AS u(element) WHERE {})")
    return SqlCondition(exists.format(sql.Identifier(column), text), values)


def _column(text: str, column: str, *values: Any) -> SqlCondition:
    name = sql.SQL("r.{}").format(sql.Identifier(column))
    return SqlCondition(sql.SQL(text).format(name), values)


def _marked(marks: list[int], exact: SqlCondition) -> SqlCondition:
    if not marks:
        return exact
    return SqlCondition(
        sql.SQL("(r.marks @> %s::integer[] AND {})").format(exact.text), (marks, *exact.values)
    )
