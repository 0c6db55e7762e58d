"""Selections and counts of records, each as one statement in a transaction of the caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from tabane.engine import record_cursors
from tabane.engine.record_cursors import RecordsCursor
from tabane.engine.team.postgres import spelling
from tabane.engine.team.postgres.filter_conditions import SqlCondition, joined
from tabane.engine.team.postgres.record_table import (
    STORED,
    RecordColumns,
    column_value,
    record_of,
    scalar,
    stored_record,
)
from tabane.engine.team.postgres.vector_queries import ComparedRows
from tabane.engine.team.postgres.vector_table import VectorTable
from tabane.engine.unit_vectors import Array
from tabane.search.engine import Order, SelectedPage
from tabane.search.records import Kind, Record, Scalar, Shape, StoredRecord


class RecordQueries:
    """The queries of one transaction over the table of records."""

    def __init__(self, connection: psycopg.Connection, table: RecordColumns, shape: Shape) -> None:
        self._connection, self._table, self._shape = connection, table, shape

    def get(self, keys: Sequence[str]) -> list[Record | None]:
        query = sql.SQL("SELECT key, texts, fields, payload FROM {} WHERE key = ANY(%s)")
        wanted = [spelling.stored(key) for key in keys]
        rows = self._connection.execute(query.format(self._table.table), (wanted,))
        found = {row[0]: record_of(*row) for row in rows}
        return [found.get(key) for key in wanted]

    def rows_of(self, keys: Sequence[str]) -> list[int | None]:
        found = self._table.known(self._connection, keys)
        return [found[key][0] if key in found else None for key in keys]

    def select(
        self, where: SqlCondition, order: Sequence[Order], after: RecordsCursor | None, limit: int
    ) -> SelectedPage:
        behind = self._behind(order, after)
        query = sql.SQL("SELECT {} FROM {} r WHERE {} AND {} ORDER BY {} LIMIT %s").format(
            STORED, self._table.table, where.text, behind.text, self._order(order)
        )
        rows = self._connection.execute(query, (*where.values, *behind.values, limit + 1)).fetchall()
        records = [stored_record(*row) for row in rows]
        if len(records) <= limit:
            return SelectedPage(tuple(records))
        page = tuple(records[:limit])
        return SelectedPage(page, record_cursors.after(page[-1].record, order, self._shape))

    def _order(self, order: Sequence[Order]) -> sql.Composable:
        parts = [
            sql.SQL("{} DESC NULLS LAST" if each.descending else "{} ASC NULLS LAST").format(
                self._column(each.field)
            )
            for each in order
        ]
        return sql.SQL(", ").join([*parts, sql.SQL("r.key")])

    def _behind(self, order: Sequence[Order], after: RecordsCursor | None) -> SqlCondition:
        """Return the condition of records behind a cursor."""
        if after is None:
            return SqlCondition(sql.SQL("TRUE"))
        found, level = list[SqlCondition](), list[SqlCondition]()
        for each, value in zip(order, after.values, strict=True):
            field, column = self._table.fields[each.field][0], self._column(each.field)
            there = None if value is None else column_value(value, field)
            if there is not None:
                text = "({} < %s OR {} IS NULL)" if each.descending else "({} > %s OR {} IS NULL)"
                beyond = SqlCondition(sql.SQL(text).format(column, column), (there,))
                found.append(joined(" AND ", [*level, beyond], "TRUE"))
                level.append(SqlCondition(sql.SQL("{} = %s").format(column), (there,)))
            else:
                level.append(SqlCondition(sql.SQL("{} IS NULL").format(column)))
        last = SqlCondition(sql.SQL("r.key > %s"), (spelling.stored(after.key),))
        found.append(joined(" AND ", [*level, last], "TRUE"))
        return joined(" OR ", found, "FALSE")

    def count(self, where: SqlCondition) -> int:
        query = sql.SQL("SELECT count(*) FROM {} r WHERE {}").format(self._table.table, where.text)
        return self._number(query, where.values)

    def facet(self, name: str, where: SqlCondition, limit: int | None) -> list[tuple[Scalar, int]]:
        """Return the values of a field with their counts, most frequent first; None: all of them."""
        field = self._shape.field(name)
        listed = field.kind is Kind.STRINGS
        value = sql.SQL("value") if listed else self._column(name)
        source = sql.SQL("{} r").format(self._table.table)
        if listed:  # a stored list has each value once
            source = sql.SQL("{}, unnest({}) AS u(value)").format(source, self._column(name))
        query = sql.SQL(
            "SELECT {value}, count(*) FROM {source} WHERE {where} AND {value} IS NOT NULL "
            "GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT %s"
        ).format(value=value, source=source, where=where.text)
        rows = self._connection.execute(query, (*where.values, limit)).fetchall()
        return [(scalar(value, field), count) for value, count in rows]

    def histogram(self, name: str, bounds: Sequence[float], where: SqlCondition) -> list[int]:
        query = sql.SQL(
            "SELECT width_bucket({}, %s::float8[]), count(*) FROM {} r WHERE {} AND {} IS NOT NULL GROUP BY 1"
        ).format(self._column(name), self._table.table, where.text, self._column(name))
        found: dict[int, int] = dict(
            self._connection.execute(query, ([float(each) for each in bounds], *where.values)).fetchall()
        )
        return [int(found.get(place, 0)) for place in range(1, len(bounds))]

    def firsts(self, name: str, order: Order, where: SqlCondition) -> dict[Scalar, str]:
        field, column = self._shape.field(name), self._column(name)
        query = sql.SQL(
            "SELECT DISTINCT ON ({}) {}, r.key FROM {} r WHERE {} AND {} IS NOT NULL ORDER BY {}, {}"
        ).format(column, column, self._table.table, where.text, column, column, self._order((order,)))
        rows = self._connection.execute(query, where.values).fetchall()
        return {scalar(value, field): spelling.given(key) for value, key in rows}

    def listing(self, order: Order, where: SqlCondition) -> ComparedRows:
        """Return all matching records in order, equal ones in order of rows; they have no similarity."""
        direction = sql.SQL("DESC" if order.descending else "ASC")
        query = sql.SQL(
            "SELECT string_agg(int8send(row), ''::bytea), "
            "string_agg(int4send(octet_length(key)), ''::bytea), "
            "string_agg(convert_to(key, 'UTF8'), ''::bytea) FROM (SELECT r.row, r.key FROM {} r WHERE {} "
            "ORDER BY {} {} NULLS LAST, r.row) t"
        ).format(self._table.table, where.text, self._column(order.field), direction)
        with self._connection.cursor(binary=True) as cursor:
            row = cursor.execute(query, where.values).fetchone() or (None,) * 3
        rows, lengths, keys = (each or b"" for each in row)
        none: Array = np.empty(0, dtype=">f4")
        return ComparedRows(np.frombuffer(rows, dtype=">i8"), none, np.frombuffer(lengths, dtype=">i4"), keys)

    def live_keys(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the keys of those of the rows that have a record."""
        query = sql.SQL("SELECT row, key FROM {} WHERE row = ANY(%s)").format(self._table.table)
        found = self._connection.execute(query, (list(rows),)).fetchall()
        return {row: spelling.given(key) for row, key in found}

    # Records without a vector

    def embedded(self, vectors: VectorTable, where: SqlCondition) -> int:
        query = sql.SQL("SELECT count(*) FROM {} v JOIN {} r ON r.row = v.row WHERE {}")
        return self._number(query.format(vectors.table, self._table.table, where.text), where.values)

    def lacking(
        self, vectors: VectorTable, after: int, limit: int, where: SqlCondition
    ) -> list[StoredRecord]:
        query = sql.SQL("{} AND r.row > %s ORDER BY r.row LIMIT %s").format(self._lacking(vectors, where))
        rows = self._connection.execute(query, (*where.values, after, limit))
        return [stored_record(*row) for row in rows]

    def waiting(
        self, vectors: VectorTable, where: SqlCondition, newest: str | None, skip: int, limit: int
    ) -> list[StoredRecord]:
        times = sql.SQL("{} DESC NULLS LAST, ").format(self._column(newest)) if newest else sql.SQL("")
        query = sql.SQL("{} ORDER BY {}r.row DESC OFFSET %s LIMIT %s").format(
            self._lacking(vectors, where), times
        )
        rows = self._connection.execute(query, (*where.values, skip, limit))
        return [stored_record(*row) for row in rows]

    def _lacking(self, vectors: VectorTable, where: SqlCondition) -> sql.Composable:
        return sql.SQL(
            "SELECT {} FROM {} r WHERE {} AND NOT EXISTS (SELECT FROM {} v WHERE v.row = r.row)"
        ).format(STORED, self._table.table, where.text, vectors.table)

    def _column(self, name: str) -> sql.Composable:
        return sql.SQL("r.{}").format(sql.Identifier(self._table.fields[name][1]))

    def _number(self, query: sql.Composed, values: Sequence[Any]) -> int:
        row = self._connection.execute(query, values).fetchone()
        return int(row[0]) if row else 0
