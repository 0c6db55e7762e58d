"""The table of records of one collection: its columns, records as rows of it, and filters as conditions.

Texts, fields and payload are stored as they are returned. Each field has a column of its type, which
filters, orders and counts use; each text has one in the spelling in which substrings are compared.
``marks`` has a number for each pair of characters and each string of a field, so that one index finds all
of them.

Filters as conditions of SQL on a row ``r`` of the table of records. Each is true for the records that the
filter matches, and false or unknown for the others. A mark beside a condition lets the server use the
index; the condition itself is exact.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import psycopg
from psycopg import sql

from tabane.engine.query_plans import PAIRS
from tabane.engine.team.postgres import formats
from tabane.engine.team.postgres.formats import Cell, copy_rows
from tabane.search.records import (
    EXACT,
    And,
    Contains,
    Equal,
    Everything,
    Field,
    Filter,
    In,
    Kind,
    Not,
    Or,
    Prefix,
    Range,
    Record,
    Scalar,
    Shape,
    StoredRecord,
    Value,
)

_TYPES = {
    Kind.STRING: 'text COLLATE "C"',
    Kind.NUMBER: "double precision",
    Kind.DATE: "double precision",
    Kind.BOOLEAN: "boolean",
    Kind.STRINGS: 'text[] COLLATE "C"',
}
_LONGEST_NAME = 40  # characters of a name inside a column's, which has at most 63
_NAMED = msgspec.json.Encoder(order="deterministic")
_TEXTS = msgspec.json.Decoder(dict[str, str])
_FIELDS = msgspec.json.Decoder(dict[str, Value])
_BACKFILLED = 500  # records that get a new column together

STORED = sql.SQL("r.row, r.key, r.texts, r.fields, r.payload")
"""Columns of a row ``r`` that :func:`stored_record` needs."""


class RecordColumns:
    """The names and columns of the table of records of one collection."""

    def __init__(self, number: int, shape: Shape) -> None:
        self.number = number
        self.fields = {field.name: (field, field_column(field)) for field in shape.fields}
        self.texts = {text.name: f"s_{_short_name(text.name)}" for text in shape.texts}
        self.table = sql.Identifier(f"record_{number}")
        self.columns = (
            *("row", "key", "digest", "texts", "fields", "payload", "marks"),
            *(column for _, column in self.fields.values()),
            *self.texts.values(),
        )

    def create(self, connection: psycopg.Connection, *, indexed: bool = True) -> None:
        """Create the table with the columns of the shape, and those that an existing one lacks.

        ``indexed``: also the indexes that filters and orders use.
        """
        connection.execute(
            sql.SQL(
                "CREATE TABLE IF NOT EXISTS {} (row bigint PRIMARY KEY, "
                'key text COLLATE "C" NOT NULL UNIQUE, digest bytea NOT NULL, texts bytea NOT NULL, '
                "fields bytea NOT NULL, payload bytea NOT NULL, marks integer[] NOT NULL)"
            ).format(self.table)
        )
        query = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
        there = {name for (name,) in connection.execute(query, (f"record_{self.number}",))}
        added = {column: kind for column, kind in self._types().items() if column not in there}
        for column, kind in added.items():
            add = sql.SQL("ALTER TABLE {} ADD COLUMN {} {}")
            connection.execute(add.format(self.table, sql.Identifier(column), sql.SQL(kind)))
        if added:
            after = 0
            while found := self.after(connection, after, _BACKFILLED):
                for stored in found:
                    self._update_derived(connection, stored)
                after = found[-1].row
        if indexed:
            self.create_indexes(connection)

    def create_indexes(self, connection: psycopg.Connection) -> None:
        """Create the indexes that do not exist."""
        for name, definition in self._indexes():
            create = sql.SQL("CREATE INDEX IF NOT EXISTS {} ON {} {}")
            connection.execute(create.format(name, self.table, definition))

    def drop_indexes(self, connection: psycopg.Connection) -> None:
        """Drop the indexes, so that many records can be inserted fast."""
        for name, _ in self._indexes():
            connection.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(name))

    def _indexes(self) -> Iterator[tuple[sql.Identifier, sql.Composable]]:
        yield self._index("marks"), sql.SQL("USING gin (marks)")
        for field, column in self.fields.values():
            for suffix, order in (("", ""), ("_down", " DESC NULLS LAST")) if field.kind.numeric else ():
                definition = sql.SQL("({}{})").format(sql.Identifier(column), sql.SQL(order))
                yield self._index(column + suffix), definition

    def _types(self) -> dict[str, str]:
        fields = {column: _TYPES[field.kind] for field, column in self.fields.values()}
        return fields | dict.fromkeys(self.texts.values(), 'text COLLATE "C"')

    def _index(self, suffix: str) -> sql.Identifier:
        return sql.Identifier(f"i{self.number}_{suffix}")

    def _update_derived(self, connection: psycopg.Connection, stored: StoredRecord) -> None:
        columns = ("marks", *self._types())
        cells = self._derived_values(stored.record)
        assign = sql.SQL(", ").join(sql.SQL("{} = %s").format(sql.Identifier(column)) for column in columns)
        update = sql.SQL("UPDATE {} SET {} WHERE row = %s").format(self.table, assign)
        connection.execute(update, [*cells.values(), stored.row])

    def respell(self, connection: psycopg.Connection, stored: Sequence[StoredRecord]) -> None:
        """Fill the columns of records whose texts are spelled another way than when they were written."""
        columns = sql.SQL(", ").join(map(sql.Identifier, ("row", *self.texts.values())))
        query = sql.SQL("SELECT {} FROM {} WHERE row = ANY(%s)").format(columns, self.table)
        found = {
            row: spelled for row, *spelled in connection.execute(query, ([each.row for each in stored],))
        }
        for each in stored:
            derived = self._derived_values(each.record)
            if [derived[column] for column in self.texts.values()] != found[each.row]:
                self._update_derived(connection, each)

    def after(self, connection: psycopg.Connection, row: int, most: int) -> list[StoredRecord]:
        """Return up to ``most`` records behind a row."""
        query = sql.SQL("SELECT {} FROM {} r WHERE r.row > %s ORDER BY r.row LIMIT %s")
        return [
            stored_record(*each) for each in connection.execute(query.format(STORED, self.table), (row, most))
        ]

    def of_rows(self, connection: psycopg.Connection, rows: Sequence[int]) -> list[StoredRecord]:
        """Return the records of those rows that have one."""
        query = sql.SQL("SELECT {} FROM {} r WHERE r.row = ANY(%s) ORDER BY r.row").format(STORED, self.table)
        return [stored_record(*each) for each in connection.execute(query, (list(rows),))] if rows else []

    # Writing

    def insert(self, connection: psycopg.Connection, records: Iterable[tuple[int, Record]]) -> None:
        """Insert records with these rows. None has a key that is there."""
        columns = sql.SQL(", ").join(map(sql.Identifier, self.columns))
        rows = (self._encode_cells(row, record) for row, record in records)
        copy_rows(connection, self.table, columns, rows)

    def delete(self, connection: psycopg.Connection, rows: Sequence[int]) -> None:
        """Delete the records of rows."""
        connection.execute(sql.SQL("DELETE FROM {} WHERE row = ANY(%s)").format(self.table), (list(rows),))

    def known(self, connection: psycopg.Connection, keys: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        """Return the rows and digests of the records with these keys, by key."""
        query = sql.SQL("SELECT key, row, digest FROM {} WHERE key = ANY(%s)").format(self.table)
        wanted = [formats.stored(key) for key in keys]
        return {
            formats.given(key): (row, digest) for key, row, digest in connection.execute(query, (wanted,))
        }

    def pair_lengths(self, connection: psycopg.Connection) -> dict[str, int]:
        """Return the length of all texts in the spaces of pairs: each character begins one."""
        sums = sql.SQL(", ").join(
            sql.SQL("coalesce(sum(char_length({})), 0)").format(sql.Identifier(column))
            for column in self.texts.values()
        )
        found = connection.execute(sql.SQL("SELECT {} FROM {}").format(sums, self.table)).fetchone()
        return {f"{PAIRS}_{name}": int(total) for name, total in zip(self.texts, found or (), strict=True)}

    def live(self, connection: psycopg.Connection, rows: Sequence[int]) -> set[int]:
        """Return those of the rows that have a record."""
        query = sql.SQL("SELECT row FROM {} WHERE row = ANY(%s)").format(self.table)
        return {row for (row,) in connection.execute(query, (list(rows),))}

    def _encode_cells(self, row: int, record: Record) -> list[Cell]:
        texts, fields = _NAMED.encode(record.texts), _NAMED.encode(record.fields)
        cells: list[Cell] = [
            formats.int8(row),
            formats.stored(record.key).encode(),
            digest_of(texts, fields, record.payload),
            texts,
            fields,
            record.payload,
        ]
        derived = self._derived_values(record)
        cells.append(formats.int4s(derived.pop("marks")))  # type: ignore[arg-type]
        cells += [_encode_cell(value) for value in derived.values()]
        return cells

    def _derived_values(self, record: Record) -> dict[str, object]:
        """Return the values of the columns that are made of a record: marks, fields, spelled texts."""
        marks: set[int] = set()
        columns: dict[str, object] = {}
        for name, (field, column) in self.fields.items():
            value = record.fields.get(name)
            columns[column] = column_value(value, field)
            if isinstance(value, tuple):
                marks |= formats.value_marks(field.name, map(formats.stored, value))
            elif isinstance(value, str):
                marks.add(formats.value_mark(field.name, formats.stored(value)))
        for name, column in self.texts.items():
            text = record.texts.get(name)
            columns[column] = None if text is None else formats.spelled(text)
            marks |= formats.pair_marks(formats.spelled(text)) if text else set()
        return {"marks": list(marks), **columns}


def field_column(field: Field) -> str:
    """Return the column of a field. A field of another kind has another one."""
    return f"{'n' if field.kind.numeric else field.kind.value}_{_short_name(field.name)}"


def _short_name(name: str) -> str:
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def digest_of(*parts: bytes) -> bytes:
    """Return a digest that tells different records or vectors apart."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(len(part).to_bytes(8, "big"))
        found.update(part)
    return found.digest()


def record_digest(record: Record) -> bytes:
    """Return the digest of a record's texts, fields and payload: 16 bytes."""
    return digest_of(_NAMED.encode(record.texts), _NAMED.encode(record.fields), record.payload)


def column_value(value: Value | None, field: Field) -> object:
    """Return the value for the column of a field; None if it is absent, or of another kind."""
    if isinstance(value, tuple):
        return (
            sorted({formats.stored(each) for each in value}) or None if field.kind is Kind.STRINGS else None
        )
    if isinstance(value, str):
        return formats.stored(value) if field.kind is Kind.STRING else None
    if isinstance(value, bool):
        return value if field.kind is Kind.BOOLEAN else None
    return None if value is None or not field.kind.numeric else float(value)


def scalar(value: object, field: Field) -> Scalar:
    """Return the value of a record for that of a column or of an element of a list."""
    if isinstance(value, str):
        return formats.given(value)
    if isinstance(value, bool):
        return value
    assert isinstance(value, float)
    return int(value) if value == int(value) and abs(value) <= EXACT else value


def _encode_cell(value: object) -> Cell:
    if value is None:
        return None
    if isinstance(value, bool):
        return formats.boolean(value)
    if isinstance(value, float):
        return formats.float8(value)
    return value.encode() if isinstance(value, str) else formats.texts(value)  # type: ignore[arg-type]


def record_of(key: str, texts: bytes, fields: bytes, payload: bytes) -> Record:
    """Decode a stored record."""
    decoded: Mapping[str, Value] = _FIELDS.decode(fields)
    return Record(key=formats.given(key), texts=_TEXTS.decode(texts), fields=dict(decoded), payload=payload)


def stored_record(row: int, key: str, texts: bytes, fields: bytes, payload: bytes) -> StoredRecord:
    """Decode the columns of :data:`STORED`."""
    return StoredRecord(record=record_of(key, texts, fields, payload), row=row)


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
    needle = formats.spelled(text)
    marks = sorted(formats.pair_marks(needle[: formats.MOST_MARKS + 1]))
    columns = [table.texts[name] for name in (table.texts if names is None else names)]
    held = joined(
        " OR ", [_column_condition("strpos({}, %s) > 0", column, needle) for column in columns], "FALSE"
    )
    return _with_marks(marks, held)


def _of_field(where: Equal | In | Range | Prefix, table: RecordColumns) -> SqlCondition:
    field, column = table.fields[where.field]
    listed = field.kind is Kind.STRINGS
    match where:
        case Equal(_, value):
            return _equal(value, field, column)
        case In(_, values):
            return _among(values, field, column)
        case Prefix(_, text):
            return _element_condition(column, [("starts_with({}, %s)", formats.stored(text))], listed)
        case Range(_, None, None):
            return _column_condition("{} IS NOT NULL", column)
        case Range():
            return _element_condition(column, list(_bounds(where, field)), listed)


def _equal(value: Scalar, field: Field, column: str) -> SqlCondition:
    if not field.kind.textual:
        return _column_condition("{} = %s", column, _parameter(value, field))
    text = formats.stored(str(value))
    mark = [formats.value_mark(field.name, text)]
    if field.kind is Kind.STRINGS:
        return _with_marks(mark, _column_condition("{} @> %s::text[]", column, [text]))
    return _with_marks(mark, _column_condition("{} = %s", column, text))


def _among(values: Iterable[Scalar], field: Field, column: str) -> SqlCondition:
    if not field.kind.textual:
        kind = "boolean" if field.kind is Kind.BOOLEAN else "double precision"
        return _column_condition(
            f"{{}} = ANY(%s::{kind}[])", column, [_parameter(value, field) for value in values]
        )
    texts = [formats.stored(str(value)) for value in values]
    operator = "{} && %s::text[]" if field.kind is Kind.STRINGS else "{} = ANY(%s::text[])"
    exact = _column_condition(operator, column, texts)
    if len(texts) > _FEW:
        return exact
    marks = sorted(formats.value_marks(field.name, texts))
    return SqlCondition(
        sql.SQL("(r.marks && %s::integer[] AND {})").format(exact.text), (marks, *exact.values)
    )


def _bounds(where: Range, field: Field) -> Iterable[tuple[str, Any]]:
    if where.low is not None:
        yield f"{{}} {'>=' if where.include_low else '>'} %s", _parameter(where.low, field)
    if where.high is not None:
        yield f"{{}} {'<=' if where.include_high else '<'} %s", _parameter(where.high, field)


def _parameter(value: Scalar, field: Field) -> object:
    if isinstance(value, str):
        return formats.stored(value)
    return column_value(value, field)


def _element_condition(column: str, conditions: list[tuple[str, Any]], listed: bool) -> SqlCondition:
    """Return conditions on a string or number, or on one element of a list."""
    name = sql.SQL("element") if listed else sql.SQL("r.{}").format(sql.Identifier(column))
    text = sql.SQL(" AND ").join(sql.SQL(each).format(name) for each, _ in conditions)
    values = tuple(value for _, value in conditions)
    if not listed:
        return SqlCondition(sql.SQL("({})").format(text), values)
    exists = sql.SQL("EXISTS (SELECT FROM unnest(r.{}) AS u(element) WHERE {})")
    return SqlCondition(exists.format(sql.Identifier(column), text), values)


def _column_condition(text: str, column: str, *values: Any) -> SqlCondition:
    name = sql.SQL("r.{}").format(sql.Identifier(column))
    return SqlCondition(sql.SQL(text).format(name), values)


def _with_marks(marks: list[int], exact: SqlCondition) -> SqlCondition:
    if not marks:
        return exact
    return SqlCondition(
        sql.SQL("(r.marks @> %s::integer[] AND {})").format(exact.text), (marks, *exact.values)
    )
