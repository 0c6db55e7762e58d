"""The lexical index of one collection: for each token, the records that contain it; and searches by it.

A write adds one part for each of its tokens, in the transaction of its records. So what is acknowledged
is found, and a search never sees half a write. Parts are joined when there are many, in three levels:
each token is rewritten at most twice. A part holds rows with their counts and lengths (:data:`ENTRY`),
and the positions of the token for phrases. Entries of deleted records remain until they are a quarter of
all. Space of joined and removed parts is given back by the hub.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import psycopg
from psycopg import sql

from tabane.engine import query_plans
from tabane.engine.query_plans import (
    MOST_EXPANSIONS,
    PAIRS,
    AllOf,
    AnyOf,
    LexicalPlan,
    Match,
    PhraseMatch,
    PrefixMatch,
    RecordAnalyzer,
    ScoredTerm,
    TermMatch,
)
from tabane.engine.team.postgres import formats
from tabane.engine.team.postgres.collection_state import LexicalState
from tabane.engine.team.postgres.formats import copy_rows
from tabane.engine.team.postgres.record_table import RecordColumns, SqlCondition
from tabane.engine.vector_request import Array
from tabane.search.analysis import GAP, is_cjk
from tabane.search.engine import EngineHit, EngineHits
from tabane.search.records import Record

ENTRY = np.dtype([("row", "<u8"), ("count", "<u4"), ("length", "<u4")])
_LEFT_OUT = -1
_COLUMNS = sql.SQL("token, part, entries, places")


class PostingBatch:
    """The occurrences of tokens in some records, which are added in order of rows."""

    def __init__(self) -> None:
        self._keys: dict[str, int] = {}
        self._spaces: dict[str, _SpaceCodes] = {}
        self._codes = array("i")
        self._rows, self._lengths, self._sizes = array("q"), array("q"), array("q")

    def add(self, space: str, row: int, found: Sequence[str], length: int) -> None:
        """Add the tokens of a text, in order and with gaps. ``length`` is that of the text in this space."""
        codes = self._spaces.get(space)
        if codes is None:
            codes = self._spaces[space] = _SpaceCodes(space, self._keys)
        self._codes.extend(map(codes.__getitem__, found))
        self._rows.append(row)
        self._lengths.append(length)
        self._sizes.append(len(found))

    def parts(self) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield token, entries and places of each part, in order of tokens."""
        texts, places, codes = self._sort_occurrences()
        if not len(codes):
            return
        firsts = _first_places(codes, texts)  # of each token in each text
        entries = np.empty(len(firsts), dtype=ENTRY)
        entries["row"] = np.asarray(self._rows)[texts[firsts]]
        entries["length"] = np.asarray(self._lengths)[texts[firsts]]
        entries["count"] = np.diff(firsts, append=len(codes))
        starts = np.append(_first_places(codes[firsts]), len(firsts))  # of each code among the entries
        bounds = (np.append(firsts, len(codes))[starts] * places.itemsize).tolist()
        ends: list[int] = (starts * ENTRY.itemsize).tolist()
        packed, placed, keys = entries.tobytes(), places.tobytes(), self._keys
        for token in sorted(keys):
            code = keys[token]
            following = code + 1
            yield token, packed[ends[code] : ends[following]], placed[bounds[code] : bounds[following]]

    def _sort_occurrences(self) -> tuple[Array, Array, Array]:
        """Return text, position and code of each occurrence, by code, then in order."""
        sizes, codes = np.asarray(self._sizes), np.asarray(self._codes)
        texts = np.repeat(np.arange(len(sizes)), sizes)
        places = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        order = np.argsort(codes, kind="stable")
        order = order[np.searchsorted(codes[order], 0) :]  # without those that are left out
        return texts[order], places[order].astype("<u4"), codes[order]


class _SpaceCodes(dict[str, int]):
    """Tokens of one space with their codes. Those that are not searched for have a negative one."""

    def __init__(self, space: str, keys: dict[str, int]) -> None:
        super().__init__()
        self._space, self._keys = space, keys
        self._only_cjk = space.startswith(f"{PAIRS}_")  # no other pairs are searched for

    def __missing__(self, token: str) -> int:
        # In a word of CJK, ー is spelled as a dash.
        may_be_cjk = is_cjk(token) or (token[0] == "-" and (token == "--" or is_cjk(token[1:])))
        if token == GAP or (self._only_cjk and not may_be_cjk):
            code = _LEFT_OUT
        else:
            code = self._keys.setdefault(formats.token_key(self._space, token), len(self._keys))
        self[token] = code
        return code


def _first_places(*columns: Array) -> Array:
    """Return the places at which one of the columns has another value than before."""
    changed = np.zeros(len(columns[0]), dtype=np.bool_)
    changed[0] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)


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
        """Return the rows (uint64), in ascending order."""
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
        """Create the tables that do not exist."""
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
        return self._add_records(connection, state, records, level=0)

    def add_many(
        self, connection: psycopg.Connection, state: LexicalState, records: Sequence[tuple[int, Record]]
    ) -> LexicalState:
        """Add the texts of thousands of records as one part that need not be joined."""
        return self._add_records(connection, state, records, level=LEVELS - 1)

    def _add_records(
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
        part = formats.int8(records[0][0])
        rows = [(token.encode(), part, entries, places) for token, entries, places in batch.parts()]
        if rows:
            copy_rows(connection, self.tables[level], _COLUMNS, rows)
            parts[level] += 1
        return replace(state, records=state.records + len(records), lengths=lengths, parts=tuple(parts))

    def join(
        self, connection: psycopg.Connection, state: LexicalState
    ) -> tuple[LexicalState, list[sql.Identifier]]:
        """Join the parts of the first level that has too many. Return the state after it, and its table."""
        for level in range(LEVELS - 1):
            if state.parts[level] >= _MOST_PARTS:
                command = sql.SQL(
                    "WITH old AS (DELETE FROM {} RETURNING *) INSERT INTO {} (token, part, entries, places) "
                    "SELECT token, min(part), string_agg(entries, ''::bytea ORDER BY part), "
                    "string_agg(places, ''::bytea ORDER BY part) FROM old GROUP BY token"
                )
                connection.execute(command.format(self.tables[level], self.tables[level + 1]))
                parts = list(state.parts)
                parts[level], parts[level + 1] = 0, parts[level + 1] + 1
                return replace(state, parts=tuple(parts)), [self.tables[level]]
        return state, []

    @staticmethod
    def has_many_parts(state: LexicalState) -> bool:
        """Return whether a level has so many parts that they should be joined."""
        return any(parts >= _MOST_PARTS for parts in state.parts[:-1])

    # Deleted records

    @staticmethod
    def has_many_dead(state: LexicalState) -> bool:
        """Return whether so many deleted records have entries that they should be removed."""
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
            while part := self._next_parts(connection, table, after):
                changed = [each for each in (_clean_part(*row, live, before, gone) for row in part) if each]
                self._replace_parts(connection, table, changed)
                after = part[-1][0]
        lengths = {space: total - sum(gone[space].values()) for space, total in state.lengths.items()}
        return replace(state, records=max(0, state.records - state.dead), dead=0, lengths=lengths)

    def _next_parts(
        self, connection: psycopg.Connection, table: sql.Identifier, after: str
    ) -> list[tuple[str, int, bytes, bytes]]:
        """Return all parts of the next tokens."""
        query = sql.SQL(
            "SELECT token, part, entries, places FROM {} WHERE token > %s AND token <= "
            "(SELECT max(token) FROM (SELECT token FROM {} WHERE token > %s ORDER BY token LIMIT %s) t) "
            "ORDER BY token, part"
        ).format(table, table)
        return connection.execute(query, (after, after, _SWEPT)).fetchall()

    def _replace_parts(
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
        rows = ((token.encode(), formats.int8(part), *rest) for token, part, *rest in kept)
        copy_rows(connection, table, _COLUMNS, rows)

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

    def beginning(self, connection: psycopg.Connection, start: str) -> list[tuple[str, int]]:
        """Return the tokens that begin so, in order, with the number of records that contain each."""
        query = sql.SQL(
            "SELECT token, sum(octet_length(entries)) / {} FROM ({}) p WHERE token >= %s AND token < %s "
            "GROUP BY token ORDER BY token"
        ).format(sql.Literal(ENTRY.itemsize), self._all)
        found = connection.execute(query, (start, start + "\U0010ffff"))
        return [(token, int(count)) for token, count in found]


def _clean_part(
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


_COUNTED = 500  # tokens of a prefix whose frequencies are compared
_CHECKED = 256  # candidates that are checked first; then four times as many, until there are enough hits
_KEPT = np.array(query_plans.LENGTHS)  # to which bm25.kept_length rounds down
_DIGITS = 6  # of a score, which do not depend on the order of additions


@dataclass(frozen=True, slots=True)
class LexicalPage:
    """The part of the hits that is requested."""

    limit: int
    offset: int

    @property
    def wanted(self) -> int:
        """Return the number of hits up to the end of the page."""
        return self.limit + self.offset


class PostingSearch:
    """One search, in the transaction of the connection."""

    def __init__(
        self,
        connection: psycopg.Connection,
        postings: PostingTable,
        records: RecordColumns,
        state: LexicalState,
        plan: LexicalPlan,
    ) -> None:
        self._connection, self._records, self._state, self._plan = connection, records, state, plan
        self._tokens = {
            start: postings.beginning(connection, formats.token_key(start.space, start.beginning))
            for start in dict.fromkeys(_prefixes(plan))
        }
        self._leaves = (*plan.leaves, *self._expanded())
        self._found = postings.read(connection, self._token_names(), _placed(plan))

    def hits(self, where: SqlCondition, page: LexicalPage) -> EngineHits:
        """Return the best hits that match the filter, equal scores in order of keys."""
        rows, scores = self._candidates()
        order = np.lexsort((rows, -scores))
        rows, scores = rows[order], scores[order]
        hits, checked, step = list[EngineHit](), 0, max(_CHECKED, page.wanted)
        while checked < len(rows) and len(hits) < page.wanted:
            end = _end_of_tie(scores, min(len(rows), checked + step))
            hits += self._live_hits(rows[checked:end], scores[checked:end], where)
            checked, step = end, step * 4
        hits.sort(key=lambda hit: (-hit.score, hit.key))
        exact = checked >= len(rows)
        return EngineHits(
            tuple(hits[page.offset : page.wanted]),
            len(hits),
            exact,
            query_plans.ceiling(self._plan, self._rarity),
        )

    def _live_hits(self, rows: Array, scores: Array, where: SqlCondition) -> Iterator[EngineHit]:
        """Yield the rows that are live and match, with their keys."""
        query = sql.SQL("SELECT r.row, r.key FROM {} r WHERE r.row = ANY(%s) AND {}").format(
            self._records.table, where.text
        )
        wanted = rows.astype(np.int64).tolist()
        found: dict[int, str] = dict(self._connection.execute(query, (wanted, *where.values)).fetchall())
        for row, score in zip(wanted, scores.tolist(), strict=True):
            if row in found:
                yield EngineHit(formats.given(found[row]), row, score)

    def _candidates(self) -> tuple[Array, Array]:
        """Return the rows that match the plan, and their scores."""
        rows = self._match_rows(self._plan.must)
        if self._plan.plain:
            rows = _union(self._posting(leaf.term).rows for leaf in self._leaves)
        for without in self._plan.without:
            rows = np.setdiff1d(rows, self._match_rows(without), assume_unique=True)
        return rows, self._scores(rows)

    def _scores(self, rows: Array) -> Array:
        scores = np.zeros(len(rows))
        for leaf in self._leaves:
            entries = self._posting(leaf.term).entries
            places = np.searchsorted(rows, entries["row"])
            inside = places < len(rows)
            inside[inside] = rows[places[inside]] == entries["row"][inside]
            average = self._state.average(leaf.term.space)
            lengths = _KEPT[np.searchsorted(_KEPT, entries["length"][inside], side="right") - 1]
            # The formula of bm25.saturation works for arrays, too.
            worth = query_plans.saturation(entries["count"][inside], lengths, average)  # type: ignore[arg-type]
            scores[places[inside]] += leaf.weight * self._rarity(leaf.term) * worth
        return rounded_scores(scores)

    def _match_rows(self, match: Match) -> Array:
        """Return the rows that match, in order."""
        match match:
            case TermMatch():
                return self._posting(match).rows
            case PrefixMatch():
                return _union(self._named_posting(token).rows for token, _ in self._tokens[match])
            case PhraseMatch():
                return self._phrase(match)
            case AnyOf(of):
                return _union(map(self._match_rows, of))
            case AllOf(()):
                query = sql.SQL("SELECT row FROM {} ORDER BY row").format(self._records.table)
                return np.array([row for (row,) in self._connection.execute(query)], dtype=np.uint64)
            case AllOf(of):
                found = [self._match_rows(each) for each in of]
                rows = min(found, key=len)
                for each in found:
                    rows = np.intersect1d(rows, each, assume_unique=True)
                return rows

    def _phrase(self, phrase: PhraseMatch) -> Array:
        """Return the rows in which the tokens have these distances."""
        begins: Array | None = None
        for at, token in phrase.tokens:
            positions = self._posting(TermMatch(phrase.space, token)).positions()
            here = positions[(positions & np.uint64(0xFFFFFFFF)) >= at] - np.uint64(at)
            begins = here if begins is None else np.intersect1d(begins, here, assume_unique=True)
        return np.unique((np.empty(0, np.uint64) if begins is None else begins) >> np.uint64(32))

    def _posting(self, term: TermMatch) -> TokenPostings:
        return self._named_posting(formats.token_key(term.space, term.token))

    def _named_posting(self, name: str) -> TokenPostings:
        return self._found.get(name, NO_POSTINGS)

    def _token_names(self) -> Iterator[str]:
        """Yield the names of all tokens that are read."""
        for leaf in self._leaves:
            yield formats.token_key(leaf.term.space, leaf.term.token)
        for match in (self._plan.must, *self._plan.without):
            for term in _terms(match):
                yield formats.token_key(term.space, term.token)
        for tokens in self._tokens.values():
            yield from (name for name, _ in tokens)

    # Statistics

    def _rarity(self, term: TermMatch) -> float:
        return query_plans.idf(self._state.records, len(self._posting(term).entries))

    def _expanded(self) -> Iterator[ScoredTerm]:
        """Yield the tokens that prefixes stand for, the most frequent of them."""
        known = {leaf.term for leaf in self._plan.leaves}
        for start, weight in self._plan.prefixes:
            first = self._tokens[start][:_COUNTED]
            frequent = sorted(first, key=lambda pair: (-pair[1], pair[0]))[:MOST_EXPANSIONS]
            terms = (TermMatch(start.space, name.split(" ", 1)[1]) for name, _ in frequent)
            yield from (ScoredTerm(term, weight) for term in terms if term not in known)


def _union(of: Iterable[Array]) -> Array:
    found = [each for each in of if len(each)]
    return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.uint64)


def _end_of_tie(scores: Array, end: int) -> int:
    """Return the end of the equal scores at that end: the keys of all of them decide which come first."""
    if end == len(scores):
        return end
    return int(np.searchsorted(-scores, -scores[end - 1], side="right"))


def rounded_scores(scores: Array) -> Array:
    """Return scores with six significant digits, as :func:`tabane.engine.query_plans.rounded`."""
    size = np.where(scores > 0, scores, 1.0)
    factor = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(size)))
    return np.asarray(np.round(scores * factor) / factor)


def _leaves_of(match: Match) -> Iterator[Match]:
    if isinstance(match, AnyOf | AllOf):
        for each in match.of:
            yield from _leaves_of(each)
    else:
        yield match


def _terms(match: Match) -> Iterator[TermMatch]:
    for each in _leaves_of(match):
        if isinstance(each, TermMatch):
            yield each
        elif isinstance(each, PhraseMatch):
            yield from (TermMatch(each.space, token) for _, token in each.tokens)


def _prefixes(plan: LexicalPlan) -> Iterator[PrefixMatch]:
    yield from (start for start, _ in plan.prefixes)
    for match in (plan.must, *plan.without):
        yield from (each for each in _leaves_of(match) if isinstance(each, PrefixMatch))


def _placed(plan: LexicalPlan) -> Iterator[str]:
    """Yield the names of the tokens of phrases, whose positions are needed."""
    for match in (plan.must, *plan.without):
        for each in _leaves_of(match):
            if isinstance(each, PhraseMatch):
                yield from (formats.token_key(each.space, token) for _, token in each.tokens)
