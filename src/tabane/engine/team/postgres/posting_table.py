"""The lexical index of one collection: for each token, the records that contain it.

A write adds one part for each of its tokens, in the transaction of its records. So what is acknowledged is
found, and a search never sees half a write. Parts are joined when there are many, in three levels: each token
is rewritten at most twice. A part holds rows with their counts and lengths (:data:`ENTRY`), and the positions
of the token for phrases. Entries of deleted records remain until they are a quarter of all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import psycopg
from psycopg import sql

from tabane.engine.team.postgres import copy_format
from tabane.engine.team.postgres.collection_state import LexicalState
from tabane.engine.team.postgres.posting_batch import ENTRY, PostingBatch
from tabane.engine.text_spaces import RecordAnalyzer
from tabane.engine.unit_vectors import Array
from tabane.search.records import Record

LEVELS = 3
_MOST_PARTS = 32  # of a level, before they are joined
_LISTED = 500  # tokens of a prefix that are counted
_SWEPT = 400  # tokens that are cleaned in one statement
_LEAST_DEAD = 1000


@dataclass(frozen=True, slots=True)
class TokenPostings:
    """The records that contain a token, in order of rows. ``places`` are empty unless they were requested."""

    entries: Array
    places: Array

    @property
    def rows(self) -> Array:
        return self.entries["row"]

    def positions(self) -> Array:
        """Return row and position of each occurrence as one number, in order."""
        rows = np.repeat(self.entries["row"], self.entries["count"])
        return (rows << np.uint64(32)) | self.places.astype(np.uint64)


NO_POSTINGS = TokenPostings(np.empty(0, dtype=ENTRY), np.empty(0, dtype="<u4"))


class PostingTable:
    """The tables of the postings of one collection, one for each level."""

    def __init__(self, number: int, analyzer: RecordAnalyzer) -> None:
        self._analyzer = analyzer
        self.tables = [sql.Identifier(f"posting_{number}_{level}") for level in range(LEVELS)]
        self._all = sql.SQL(" UNION ALL ").join(
            sql.SQL("SELECT token, part, entries, places FROM {}").format(table) for table in self.tables
        )

    def create(self, connection: psycopg.Connection) -> None:
        for table in self.tables:
            create = sql.SQL(
                'CREATE TABLE IF NOT EXISTS {} (token text COLLATE "C", part bigint, entries bytea NOT NULL, '
                "places bytea NOT NULL, PRIMARY KEY (token, part))"
            )
            connection.execute(create.format(table))

    # Writing

    def clear(self, connection: psycopg.Connection) -> None:
        """Remove everything. Searches that have begun still find it."""
        for table in self.tables:
            connection.execute(sql.SQL("DELETE FROM {}").format(table))

    def add(
        self, connection: psycopg.Connection, state: LexicalState, records: Sequence[tuple[int, Record]]
    ) -> LexicalState:
        """Add the texts of new records, in order of rows. Return the state after it."""
        return self._added(connection, state, records, level=0)

    def add_many(
        self, connection: psycopg.Connection, state: LexicalState, records: Sequence[tuple[int, Record]]
    ) -> LexicalState:
        """Add the texts of thousands of records as one part that need not be joined."""
        return self._added(connection, state, records, level=LEVELS - 1)

    def _added(
        self,
        connection: psycopg.Connection,
        state: LexicalState,
        records: Sequence[tuple[int, Record]],
        *,
        level: int,
    ) -> LexicalState:
        if not records:
            return state
        batch, lengths = PostingBatch(), dict(state.lengths)
        for row, record in records:
            for space, found, length in self._analyzer.whole(record.texts):
                batch.add(space, row, found, length)
                lengths[space] = lengths.get(space, 0) + length
        parts = list(state.parts)
        parts[level] += self._insert(connection, self.tables[level], records[0][0], batch)
        return replace(state, records=state.records + len(records), lengths=lengths, parts=tuple(parts))

    def _insert(
        self, connection: psycopg.Connection, table: sql.Identifier, part: int, batch: PostingBatch
    ) -> bool:
        """Insert the parts of tokens. Return whether there is any."""
        number = copy_format.int8(part)
        rows = [(token.encode(), number, entries, places) for token, entries, places in batch.parts()]
        if rows:
            command = sql.SQL("COPY {} (token, part, entries, places) FROM STDIN (FORMAT BINARY)")
            with connection.cursor().copy(command.format(table)) as copy:
                for block in copy_format.encoded(rows):
                    copy.write(block)
        return bool(rows)

    def join(self, connection: psycopg.Connection, state: LexicalState) -> LexicalState:
        """Join the parts of the first level that has too many. Return the state after it."""
        for level in range(LEVELS - 1):
            if state.parts[level] >= _MOST_PARTS:
                self._join(connection, level)
                parts = list(state.parts)
                parts[level], parts[level + 1] = 0, parts[level + 1] + 1
                return replace(state, parts=tuple(parts))
        return state

    @staticmethod
    def has_many_parts(state: LexicalState) -> bool:
        return any(parts >= _MOST_PARTS for parts in state.parts[:-1])

    def _join(self, connection: psycopg.Connection, level: int) -> None:
        command = sql.SQL(
            "WITH old AS (DELETE FROM {} RETURNING *) INSERT INTO {} (token, part, entries, places) "
            "SELECT token, min(part), string_agg(entries, ''::bytea ORDER BY part), "
            "string_agg(places, ''::bytea ORDER BY part) FROM old GROUP BY token"
        )
        connection.execute(command.format(self.tables[level], self.tables[level + 1]))

    # Deleted records

    @staticmethod
    def has_many_dead(state: LexicalState) -> bool:
        return state.dead > max(_LEAST_DEAD, state.records // 4)

    def sweep(
        self, connection: psycopg.Connection, state: LexicalState, live: Array, before: int
    ) -> LexicalState:
        """Remove the entries of rows that are not live. Return the state after it. ``live`` is in order.

        All rows from ``before`` on count as live: they are newer.
        """
        gone: dict[str, dict[int, int]] = defaultdict(dict)
        for table in self.tables:
            after = ""
            while part := self._parts(connection, table, after):
                changed = [each for each in (_cleaned(*row, live, before, gone) for row in part) if each]
                self._replace(connection, table, changed)
                after = part[-1][0]
        lengths = {space: total - sum(gone[space].values()) for space, total in state.lengths.items()}
        return replace(state, records=max(0, state.records - state.dead), dead=0, lengths=lengths)

    def _parts(
        self, connection: psycopg.Connection, table: sql.Identifier, after: str
    ) -> list[tuple[str, int, bytes, bytes]]:
        """Return all parts of the next tokens."""
        query = sql.SQL(
            "SELECT token, part, entries, places FROM {} WHERE token > %s AND token <= "
            "(SELECT max(token) FROM (SELECT token FROM {} WHERE token > %s ORDER BY token LIMIT %s) t) "
            "ORDER BY token, part"
        ).format(table, table)
        return connection.execute(query, (after, after, _SWEPT)).fetchall()

    def _replace(
        self,
        connection: psycopg.Connection,
        table: sql.Identifier,
        changed: Sequence[tuple[str, int, bytes, bytes]],
    ) -> None:
        if not changed:
            return
        tokens, parts = [each[0] for each in changed], [each[1] for each in changed]
        delete = sql.SQL(
            "DELETE FROM {} t USING unnest(%s::text[], %s::bigint[]) AS c(token, part) "
            "WHERE t.token = c.token AND t.part = c.part"
        )
        connection.execute(delete.format(table), (tokens, parts))
        kept = [each for each in changed if each[2]]
        command = sql.SQL("COPY {} (token, part, entries, places) FROM STDIN (FORMAT BINARY)").format(table)
        with connection.cursor().copy(command) as copy:
            rows = ((token.encode(), copy_format.int8(part), *rest) for token, part, *rest in kept)
            for block in copy_format.encoded(rows):
                copy.write(block)

    # Reading

    def read(
        self, connection: psycopg.Connection, tokens: Iterable[str], placed: Iterable[str] = ()
    ) -> dict[str, TokenPostings]:
        """Return the postings of tokens; those of ``placed`` with positions."""
        wanted = list(dict.fromkeys(tokens))
        query = sql.SQL(
            "SELECT token, entries, CASE WHEN token = ANY(%s::text[]) THEN places ELSE ''::bytea END "
            "FROM ({}) p WHERE token = ANY(%s::text[]) ORDER BY token, part"
        ).format(self._all)
        gathered: dict[str, tuple[list[bytes], list[bytes]]] = {}
        with connection.cursor(binary=True) as cursor:
            for token, entries, places in cursor.execute(query, (list(placed), wanted)):
                found = gathered.setdefault(token, ([], []))
                found[0].append(entries)
                found[1].append(places)
        return {
            token: TokenPostings(
                np.frombuffer(b"".join(entries), dtype=ENTRY), np.frombuffer(b"".join(places), dtype="<u4")
            )
            for token, (entries, places) in gathered.items()
        }

    def frequencies(self, connection: psycopg.Connection, tokens: Iterable[str]) -> dict[str, int]:
        """Return the number of records that contain each token. Their postings are not read."""
        query = sql.SQL(
            "SELECT token, sum(octet_length(entries)) / {} FROM ({}) p WHERE token = ANY(%s::text[]) "
            "GROUP BY token"
        ).format(sql.Literal(ENTRY.itemsize), self._all)
        found = connection.execute(query, (list(dict.fromkeys(tokens)),))
        return {token: int(count) for token, count in found}

    def beginning(self, connection: psycopg.Connection, start: str) -> list[tuple[str, int]]:
        """Return the tokens that begin so, in order, with the number of records that contain each."""
        query = sql.SQL(
            "SELECT token, sum(octet_length(entries)) / {} FROM ({}) p WHERE token >= %s AND token < %s "
            "GROUP BY token ORDER BY token"
        ).format(sql.Literal(ENTRY.itemsize), self._all)
        found = connection.execute(query, (start, start + "\U0010ffff"))
        return [(token, int(count)) for token, count in found]


def _cleaned(
    token: str,
    part: int,
    entries: bytes,
    places: bytes,
    live: Array,
    before: int,
    gone: dict[str, dict[int, int]],
) -> tuple[str, int, bytes, bytes] | None:
    """Return a part without the entries of dead rows; None if it has none. Their lengths go to ``gone``."""
    found = np.frombuffer(entries, dtype=ENTRY)
    keep = np.isin(found["row"], live) | (found["row"] >= before)
    if keep.all():
        return None
    space = token.split(" ", 1)[0]
    for row, _, length in found[~keep].tolist():
        gone[space][row] = length
    kept_places = np.frombuffer(places, dtype="<u4")[np.repeat(keep, found["count"])]
    return token, part, found[keep].tobytes(), kept_places.tobytes()
