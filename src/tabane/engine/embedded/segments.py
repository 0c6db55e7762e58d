"""Opening of a collection, and the segments of its columns.

A segment is written once, in a transaction. When a collection is opened, only the rows after the last
segment are read from the records. Segments do not say which slots are live: the tombstones do.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable

import numpy as np

from tabane.engine.embedded.collection_state import CollectionState
from tabane.engine.embedded.columns import Array, Columns, ColumnSnapshot, ColumnValues, Mask
from tabane.engine.embedded.database import Database
from tabane.engine.embedded.truth import RENUMBERED, Truth, shape_blob, shape_of
from tabane.engine.embedded.vectors.older_vectors import OlderVectors
from tabane.engine.embedded.vectors.vector_files import VectorFiles
from tabane.engine.embedded.vectors.vector_truth import VectorTruth, any_spaces
from tabane.engine.input_checks import ALONE
from tabane.search.records import Shape

OpenVectorFiles = Callable[[], Awaitable[VectorFiles]]
"""Opens the files of vectors beside the database, if they are not open yet."""


async def open_collection(
    database: Database, shape: Shape, vectors: OpenVectorFiles
) -> tuple[Truth, Columns, CollectionState]:
    """Return the collection, made if it is new; where its shape changed, the columns are rebuilt.

    The spaces of the shape are not made here; those that are there are found.
    """
    spaced = await database.read(lambda connection: _spaced(connection, shape.name))
    files = await vectors() if spaced else None
    if files is not None:
        await OlderVectors(database, files, shape.name).convert()
    truth = await database.run(lambda connection: _prepared(connection, shape, files), rows=ALONE)
    columns, state = await database.run(lambda connection: _loaded(truth, connection), rows=ALONE)
    while columns.next < state.next:
        await database.run(lambda connection: read_on(truth, connection, columns, state.next), rows=ALONE)
        await seal_all(database, truth, columns)
    await database.read(lambda connection: settled(truth, connection, columns, state))
    return truth, columns, state


async def seal_all(database: Database, truth: Truth, columns: Columns) -> None:
    """Write all blocks of columns that are full."""
    while await database.run(lambda connection: seal(truth, connection, columns), rows=ALONE):
        pass


def _spaced(connection: sqlite3.Connection, name: str) -> bool:
    """Return whether there are vectors: an older version kept its spaces with the shape."""
    found = connection.execute("SELECT shape FROM collection WHERE name = ?", (name,)).fetchone()
    return found is not None and (bool(shape_of(found[0]).spaces) or any_spaces(connection, name))


def _prepared(connection: sqlite3.Connection, shape: Shape, files: VectorFiles | None) -> Truth:
    """Return the collection's truth, with its vectors if there are some."""
    truth = _made(connection, shape)
    if files is not None:
        truth.vectors = VectorTruth.prepared(connection, files, truth.number, shape)
    if truth.state(connection).next > RENUMBERED:
        truth.renumber(connection)
    return truth


def _made(connection: sqlite3.Connection, shape: Shape) -> Truth:
    """Return the collection's tables, made if it is new; its columns forgotten where its shape changed."""
    found = connection.execute("SELECT id, shape FROM collection WHERE name = ?", (shape.name,)).fetchone()
    blob = shape_blob(shape)
    if found is None:
        cursor = connection.execute("INSERT INTO collection (name, shape) VALUES (?, ?)", (shape.name, blob))
        truth = Truth(int(cursor.lastrowid or 0), shape)
        truth.create(connection)
        return truth
    truth = Truth(found[0], shape)
    if shape_of(found[1]).fields != shape.fields:
        truth.unseal(connection)
    if found[1] != blob:
        connection.execute("UPDATE collection SET shape = ? WHERE id = ?", (blob, truth.number))
    return truth


def _loaded(truth: Truth, connection: sqlite3.Connection) -> tuple[Columns, CollectionState]:
    """Return the columns up to the last segment, and the state. If a segment is damaged, there are none."""
    state = truth.state(connection)
    try:
        return loaded(truth, connection, state), state
    except (KeyError, ValueError):
        truth.unseal(connection)
        state = truth.state(connection)
        return loaded(truth, connection, state), state


SEGMENT = 4096  # rows
MOST_READ = 2000  # rows of a step


def loaded(truth: Truth, connection: sqlite3.Connection, state: CollectionState) -> Columns:
    """Return the columns up to the last segment; :func:`read_on` gives the rest.

    Raises ValueError or KeyError if the segments are not what was written: they can be rebuilt.
    """
    table = f"segment_{truth.number}"
    lowest = connection.execute(f"SELECT min(first) FROM {table}").fetchone()[0]
    origin = state.sealed if lowest is None else lowest
    columns = Columns(truth.shape.fields, origin, state.changes)
    blocks: dict[str, tuple[bytes, bytes]] = {}
    query = f"SELECT first, field, cells, slots FROM {table} ORDER BY first"
    for first, field, cells, slots in connection.execute(query):
        if first != columns.next:
            raise ValueError(f"{table}: row {columns.next} is missing")
        blocks[field] = (cells, slots)
        if len(blocks) == len(truth.shape.fields):
            columns.load(blocks, SEGMENT)
            blocks = {}
    if blocks or columns.next != state.sealed:
        raise ValueError(f"{table}: it ends before row {state.sealed}")
    return columns


def read_on(truth: Truth, connection: sqlite3.Connection, columns: Columns, following: int) -> None:
    """Take in up to 2,000 records behind the columns' end, of those before ``following``.

    Strings that an older shape did not have get their codes here, so ``connection`` is the writer's.
    """
    if not truth.shape.fields:
        columns.load({}, following - columns.next)
        return
    new: dict[tuple[str, str], int] = {}
    found = truth.fields_after(connection, columns.next - 1, MOST_READ)
    cells = [truth.cells(connection, fields, new) for _, fields in found]
    end = found[-1][0] + 1 if len(found) == MOST_READ else following
    columns.add([row for row, _ in found], cells, end)


def settled(truth: Truth, connection: sqlite3.Connection, columns: Columns, state: CollectionState) -> None:
    """Mark what is not live, once all rows are there, and show the columns to readers."""
    columns.remove(truth.tombstones(connection))
    columns.remove(list(range(columns.origin, state.base)))
    columns.publish(state.changes)


def agree(truth: Truth, connection: sqlite3.Connection, snapshot: ColumnSnapshot) -> bool:
    """Return whether the columns of a moment say what the records of the same moment say, value by value."""
    end = snapshot.origin + len(snapshot.alive)
    afresh = Columns(truth.shape.fields, snapshot.origin, snapshot.changes)
    alive = np.zeros(len(snapshot.alive), dtype=np.bool_)
    while afresh.next < end:
        new: dict[tuple[str, str], int] = {}
        found = truth.fields_after(connection, afresh.next - 1, MOST_READ)
        cells = [truth.cells(connection, fields, new) for _, fields in found]
        rows = [row for row, _ in found]
        afresh.add(rows, cells, rows[-1] + 1 if len(rows) == MOST_READ else end)
        alive[np.array(rows, dtype=np.int64) - snapshot.origin] = True
    afresh.publish(snapshot.changes)
    same = (_live(values, alive) for values in afresh.snapshot().columns.values())
    held = (_live(values, alive) for values in snapshot.columns.values())
    return np.array_equal(alive, snapshot.alive) and all(map(_equal, same, held))


def _live(values: ColumnValues, alive: Mask) -> tuple[Array, Array]:
    """Return the values of live slots, and these slots."""
    slots = np.arange(len(values.values)) if values.slots is None else values.slots
    return values.values[alive[slots]], slots[alive[slots]]


def _equal(one: tuple[Array, Array], other: tuple[Array, Array]) -> bool:
    nan = one[0].dtype.kind == "f"
    return np.array_equal(one[0], other[0], equal_nan=nan) and np.array_equal(one[1], other[1])


def seal(truth: Truth, connection: sqlite3.Connection, columns: Columns) -> bool:
    """Write the next block where its rows are there and committed. True if it was written.

    A collection without fields has no columns to keep.
    """
    first = truth.state(connection).sealed
    if not truth.shape.fields or columns.next < first + SEGMENT:
        return False
    blocks = columns.segment(first, first + SEGMENT)
    connection.executemany(
        f"INSERT INTO segment_{truth.number} (first, field, cells, slots) VALUES (?, ?, ?, ?)",
        [(first, *block) for block in blocks],
    )
    connection.execute("UPDATE collection SET sealed = ? WHERE id = ?", (first + SEGMENT, truth.number))
    return True


def prune(truth: Truth, connection: sqlite3.Connection) -> None:
    """Remove blocks that hold no live row any more."""
    base = truth.state(connection).base
    connection.execute(f"DELETE FROM segment_{truth.number} WHERE first + ? <= ?", (SEGMENT, base))
