"""Writes to one collection, each inside a transaction of the writing thread; and its tables together.

A record that is replaced gets a new row number, so a row is never another record's.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import psycopg
from psycopg import sql

from tabane.engine.input_checks import check_room_for_space, unlike_space, without_other_models
from tabane.engine.query_plans import VERSION, LexicalPlanner
from tabane.engine.team.postgres.collection_state import (
    EPOCH,
    ChangeLog,
    CollectionRow,
    LexicalState,
    StateTable,
    StoredSpace,
)
from tabane.engine.team.postgres.lexical_index import PostingTable
from tabane.engine.team.postgres.record_table import RecordColumns, digest_of, record_digest
from tabane.engine.team.postgres.vector_table import VectorTable
from tabane.search.records import EmbeddingSpace, Record, Shape

log = logging.getLogger(__name__)

_ANALYZED = 5_000  # records that are analyzed together


@dataclass(slots=True)
class StoredVersion:
    """Digests of a stored record and of its vectors. A new record has no row."""

    row: int | None
    digest: bytes
    vectors: dict[str, bytes]


@dataclass(slots=True)
class CollectionWrite:
    """The result of one write: the state after it, and the answers to the caller."""

    state: CollectionRow
    results: list[bool] = field(default_factory=list)
    deleted: int = 0


class RecordWriter:
    """Writes to the tables of one collection."""

    def __init__(
        self, states: StateTable, records: RecordColumns, postings: PostingTable, shape: Shape
    ) -> None:
        self._states, self._records, self._postings, self._shape = states, records, postings, shape
        self._log = ChangeLog(states.number)

    def vectors(self, space: StoredSpace) -> VectorTable:
        """Return the table of the vectors of a space."""
        return VectorTable(self._records.number, space.number, space.space.dimension)

    # Records

    def upsert(
        self, connection: psycopg.Connection, records: Sequence[Record], models: Mapping[str, str]
    ) -> CollectionWrite:
        """Write records; each replaces the one with its key."""
        state = self._states.lock(connection)
        return self._write_records(connection, state, records, models, keep=False)

    def exchange(
        self,
        connection: psycopg.Connection,
        records: Sequence[Record],
        gone: Sequence[str],
        models: Mapping[str, str],
    ) -> CollectionWrite:
        """Delete keys and write records, as one change."""
        state, deleted = self._delete_keys(connection, self._states.lock(connection), gone)
        written = self._write_records(connection, state, records, models, keep=True)
        written.deleted = deleted
        return written

    def delete(self, connection: psycopg.Connection, keys: Sequence[str]) -> CollectionWrite:
        """Delete records by key."""
        state, deleted = self._delete_keys(connection, self._states.lock(connection), keys)
        self._states.save(connection, state)
        return CollectionWrite(state, deleted=deleted)

    def _write_records(
        self,
        connection: psycopg.Connection,
        state: CollectionRow,
        records: Sequence[Record],
        models: Mapping[str, str],
        *,
        keep: bool,
    ) -> CollectionWrite:
        """Write records. ``keep``: one without vectors equals a stored one that has some."""
        if models:
            current = {each.space.name: each.space.model for each in state.spaces}
            records = [without_other_models(record, models, current) for record in records]
        known = self._stored_versions(connection, state, [record.key for record in records])
        fresh: dict[str, Record] = {}
        results, replaced = [], dict[int, str]()
        for record in records:
            before = known.get(record.key)
            for name, vector in record.vectors.items():
                state.fitting(name, vector, self._shape)
            vectors = {name: digest_of(vector) for name, vector in record.vectors.items()}
            now = StoredVersion(None, record_digest(record), vectors)
            same = before is not None and before.digest == now.digest
            if before is not None and before.vectors != now.vectors:
                same = same and keep and not now.vectors
            results.append(not same)
            if same:
                continue
            if before is not None and before.row is not None:
                replaced[before.row] = record.key
            known[record.key] = now
            fresh.pop(record.key, None)
            fresh[record.key] = record
        state = self._delete_rows(connection, state, replaced)
        loaded = self.load(connection, state, list(fresh.values()))
        numbered = list(enumerate(fresh.values(), state.next))
        state = replace(loaded, lexical=self._postings.add(connection, state.lexical, numbered))
        self._states.save(connection, state)
        return CollectionWrite(state, results)

    def _stored_versions(
        self, connection: psycopg.Connection, state: CollectionRow, keys: Sequence[str]
    ) -> dict[str, StoredVersion]:
        found = self._records.known(connection, keys)
        rows = [row for row, _ in found.values()]
        digests = {
            each.space.name: self.vectors(each).digests(connection, rows)
            for each in state.spaces
            if rows and each.vectors
        }
        return {
            key: StoredVersion(row, digest, {name: of[row] for name, of in digests.items() if row in of})
            for key, (row, digest) in found.items()
        }

    def load(
        self, connection: psycopg.Connection, state: CollectionRow, records: Sequence[Record]
    ) -> CollectionRow:
        """Insert records with their vectors, but not into the lexical index. Return the state after it."""
        numbered = list(enumerate(records, state.next))
        if numbered:
            self._records.insert(connection, numbered)
        more: dict[int, int] = {}
        for each in state.spaces:
            name = each.space.name
            vectors = [(row, record.vectors[name]) for row, record in numbered if name in record.vectors]
            if vectors:
                self.vectors(each).insert(connection, vectors)
            more[each.number] = len(vectors)
        return replace(state.counted(more), next=state.next + len(records))

    def _delete_keys(
        self, connection: psycopg.Connection, state: CollectionRow, keys: Sequence[str]
    ) -> tuple[CollectionRow, int]:
        found = self._records.known(connection, keys) if keys else {}
        gone = {row: key for key, (row, _) in found.items()}
        return self._delete_rows(connection, state, gone), len(gone)

    def _delete_rows(
        self, connection: psycopg.Connection, state: CollectionRow, gone: Mapping[int, str]
    ) -> CollectionRow:
        """Remove records: row → key."""
        if not gone:
            return state
        rows = list(gone)
        self._records.delete(connection, rows)
        self._log.removed(connection, state, gone)
        more = {
            each.number: -self.vectors(each).delete(connection, rows) for each in state.spaces if each.vectors
        }
        lexical = replace(state.lexical, dead=state.lexical.dead + len(rows))
        return replace(state.counted(more), lexical=lexical)

    # Vectors

    def attach(
        self,
        connection: psycopg.Connection,
        vectors: Mapping[int, Mapping[str, bytes]],
        model: str,
        epoch: int | None,
    ) -> CollectionWrite:
        """Attach vectors to live rows; the number of these is ``deleted`` of the result."""
        state = self._states.lock(connection)
        if epoch not in (None, EPOCH):
            return CollectionWrite(state)
        live = self._records.live(connection, list(vectors))
        more: dict[int, int] = {}
        for name in dict.fromkeys(name for of_row in vectors.values() for name in of_row):
            found = state.get(name)
            if model and (found is None or found.space.model != model):
                continue
            given = {row: of[name] for row, of in vectors.items() if row in live and name in of}
            for vector in given.values():
                found = state.fitting(name, vector, self._shape)
            if found is not None and given:
                table = self.vectors(found)
                more[found.number] = len(given) - table.delete(connection, list(given))
                table.insert(connection, given.items())
                self._log.attached(connection, state, found.number, given)
        state = state.counted(more)
        self._states.save(connection, state)
        return CollectionWrite(state, deleted=len(live))

    # Spaces

    def add_space(self, connection: psycopg.Connection, space: EmbeddingSpace) -> CollectionWrite:
        """Create a space, unless it exists. Raises BadArguments if another one has that name."""
        state = self._states.lock(connection)
        there = state.get(space.name)
        if there is not None:
            if not there.space.takes(space):
                raise unlike_space(self._shape.name, there.space, space)
            return CollectionWrite(state)
        check_room_for_space(self._shape.name, len(state.spaces), space)
        state = state.with_space(space)
        self.vectors(state.spaces[-1]).create(connection)
        self._states.save(connection, state)
        return CollectionWrite(state)

    def drop_space(self, connection: psycopg.Connection, name: str) -> CollectionWrite:
        """Drop a space. Its table is deleted by :meth:`clear_spaces`."""
        state = self._states.lock(connection).without(name)
        self._states.save(connection, state)
        return CollectionWrite(state)

    def succeed(self, connection: psycopg.Connection, name: str, by: str) -> CollectionWrite:
        """Rename the space ``by`` to ``name``, whose own space is dropped."""
        state = self._states.lock(connection)
        state.named(by, self._shape)
        state = state.renamed(by, name)
        self._states.save(connection, state)
        return CollectionWrite(state)

    def clear_spaces(self, connection: psycopg.Connection) -> None:
        """Drop the tables of spaces that were dropped. Raises psycopg's error if one is in use."""
        state = self._states.read(connection)
        prefix = f"vector_{self._records.number}_"
        used = {self.vectors(each).name for each in state.spaces}
        query = (
            "SELECT relname FROM pg_class WHERE relnamespace = (SELECT relnamespace FROM pg_class "
            "WHERE oid = 'collection'::regclass) AND relkind = 'r' AND starts_with(relname, %s)"
        )
        found = [name for (name,) in connection.execute(query, (prefix,)).fetchall()]
        for name in set(found) - used:
            connection.execute("SET LOCAL lock_timeout = '2s'")
            connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))

    # Maintenance of the lexical index

    def renew_analysis(self, connection: psycopg.Connection) -> None:
        """Analyze all texts again if an earlier version of Tabane did, which takes a minute for 100,000."""
        if self._states.analysis(connection) >= VERSION:
            return
        state = self._states.lock(connection)
        log.info("the keyword index of %s is renewed", self._shape.name)
        self._postings.clear(connection)
        lexical, after = LexicalState(), 0
        while stored := self._records.after(connection, after, _ANALYZED):
            self._records.respell(connection, stored)
            numbered = [(each.row, each.record) for each in stored]
            lexical, after = self._postings.add_many(connection, lexical, numbered), stored[-1].row
        self._states.save(connection, replace(state, lexical=lexical))
        self._states.set_analysis(connection, VERSION)

    def tidy(self, connection: psycopg.Connection) -> list[sql.Identifier]:
        """Join parts of the lexical index, and remove entries of deleted records, if there are many.

        Return the tables with deleted rows.
        """
        state = self._states.lock(connection)
        lexical, emptied = self._postings.join(connection, state.lexical)
        if self._postings.has_many_dead(lexical):
            query = sql.SQL("SELECT row FROM {} ORDER BY row").format(self._records.table)
            live = np.array([row for (row,) in connection.execute(query)], dtype=np.uint64)
            lexical, emptied = (
                self._postings.sweep(connection, lexical, live, state.next),
                self._postings.tables,
            )
            # Texts without a pair that is searched for have no entry from which their length is known.
            lengths = {**lexical.lengths, **self._records.pair_lengths(connection)}
            lexical = replace(lexical, lengths=lengths)
        self._states.save(connection, replace(state, lexical=lexical))
        return emptied

    def is_untidy(self, state: CollectionRow) -> bool:
        """Return whether :meth:`tidy` has something to do."""
        return self._postings.has_many_parts(state.lexical) or self._postings.has_many_dead(state.lexical)


@dataclass(frozen=True, slots=True)
class CollectionTables:
    """The tables of one collection, and the rules for its texts."""

    states: StateTable
    records: RecordColumns
    postings: PostingTable
    writer: RecordWriter
    planner: LexicalPlanner

    @property
    def log(self) -> ChangeLog:
        """Return the log of changes for followers."""
        return ChangeLog(self.states.number)
