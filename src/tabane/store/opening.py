"""How a collection is opened: its tables made where they are new, its columns read or made anew."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable

from tabane.search.records import Shape
from tabane.store import segments
from tabane.store.collection_state import CollectionState
from tabane.store.columns import Columns
from tabane.store.database import Database
from tabane.store.truth import RENUMBERED, Truth, shape_blob, shape_of
from tabane.store.vectors.space_table import any_spaces
from tabane.store.vectors.vector_database import VectorDatabase
from tabane.store.vectors.vector_truth import VectorTruth
from tabane.store.write_thread import ALONE

OpenVectorDatabase = Callable[[], Awaitable[VectorDatabase]]
"""Opens the file of vectors beside the database, where it is not open yet."""


async def open_collection(
    database: Database, shape: Shape, vectors: OpenVectorDatabase
) -> tuple[Truth, Columns, CollectionState]:
    """The collection, made where it is new; where its shape changed, the columns are made anew.

    The spaces of the shape are not made here; those that are there are found.
    """
    spaced = await database.read(lambda connection: _spaced(connection, shape.name))
    file = await vectors() if spaced else None
    truth = await database.run(lambda connection: _prepared(connection, shape, file), rows=ALONE)
    columns, state = await database.run(lambda connection: _loaded(truth, connection), rows=ALONE)
    while columns.next < state.next:
        await database.run(
            lambda connection: segments.read_on(truth, connection, columns, state.next), rows=ALONE
        )
        await seal(database, truth, columns)
    await database.read(lambda connection: segments.settled(truth, connection, columns, state))
    return truth, columns, state


async def seal(database: Database, truth: Truth, columns: Columns) -> None:
    """Write all blocks of columns that are full."""
    while await database.run(lambda connection: segments.seal(truth, connection, columns), rows=ALONE):
        pass


def _spaced(connection: sqlite3.Connection, name: str) -> bool:
    """Whether there are vectors: an older version kept its spaces with the shape."""
    found = connection.execute("SELECT shape FROM collection WHERE name = ?", (name,)).fetchone()
    return found is not None and (bool(shape_of(found[0]).spaces) or any_spaces(connection, name))


def _prepared(connection: sqlite3.Connection, shape: Shape, file: VectorDatabase | None) -> Truth:
    """The collection's truth, with its vectors where there are some."""
    truth, before = _made(connection, shape)
    if file is not None:
        truth.vectors = VectorTruth.prepared(connection, file, truth.number, shape, before.spaces)
    if truth.state(connection).next > RENUMBERED:
        truth.renumber(connection)
    return truth


def _made(connection: sqlite3.Connection, shape: Shape) -> tuple[Truth, Shape]:
    """The collection's tables, made where it is new; its columns forgotten where its shape changed.

    The shape that it had comes with it.
    """
    found = connection.execute("SELECT id, shape FROM collection WHERE name = ?", (shape.name,)).fetchone()
    blob = shape_blob(shape)
    if found is None:
        cursor = connection.execute("INSERT INTO collection (name, shape) VALUES (?, ?)", (shape.name, blob))
        truth = Truth(int(cursor.lastrowid or 0), shape)
        truth.create(connection)
        return truth, truth.shape
    truth, before = Truth(found[0], shape), shape_of(found[1])
    if before.fields != shape.fields:
        truth.unseal(connection)
    if found[1] != blob:
        connection.execute("UPDATE collection SET shape = ? WHERE id = ?", (blob, truth.number))
    return truth, before


def _loaded(truth: Truth, connection: sqlite3.Connection) -> tuple[Columns, CollectionState]:
    """The columns as far as segments give them: not at all where one is damaged, for they are derived."""
    state = truth.state(connection)
    try:
        return segments.loaded(truth, connection, state), state
    except (KeyError, ValueError):
        truth.unseal(connection)
        state = truth.state(connection)
        return segments.loaded(truth, connection, state), state
