"""Keyword searches by an index outside of the database, in one transaction.

The index proposes records by their sparse vectors. Their scores are those of the search in the database: they
are computed from the texts, by the same counts. Records that the index does not have are scored as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import psycopg
from psycopg import sql

from tabane.engine import bm25
from tabane.engine.candidate_index import SparseVector
from tabane.engine.query_plans import LexicalPlan, TermMatch
from tabane.engine.team.postgres import index_sets, keyword_vectors, spelling
from tabane.engine.team.postgres.collection_state import CollectionRow
from tabane.engine.team.postgres.collection_tables import CollectionTables
from tabane.engine.team.postgres.filter_conditions import SqlCondition
from tabane.engine.team.postgres.index_link import IndexPosition, IndexQuestion
from tabane.engine.team.postgres.keyword_vectors import Rarities
from tabane.engine.team.postgres.lexical_search import LexicalPage, rounded_scores
from tabane.engine.team.postgres.outside_search import OutsideIndex
from tabane.search.engine import EngineHit, EngineHits
from tabane.search.filters import Filter
from tabane.search.records import Shape

_DEEPEST = 200  # hits; each candidate is analyzed
_LEAST_CANDIDATES = 100
_LONGEST_TAIL = 200  # rows that the index does not have
_POSITION = "SELECT change, row, note FROM follower WHERE collection = %s AND name = %s"
_TEXTS = msgspec.json.Decoder(dict[str, str])


class OutsideKeywords:
    """Searches of one transaction, which sees this ``state`` of the collection."""

    def __init__(
        self,
        connection: psycopg.Connection,
        index: OutsideIndex,
        tables: CollectionTables,
        state: CollectionRow,
        shape: Shape,
    ) -> None:
        self._connection, self._index, self._tables = connection, index, tables
        self._state, self._shape = state, shape

    def hits(
        self, plan: LexicalPlan, where: Filter, condition: SqlCondition, page: LexicalPage
    ) -> EngineHits | None:
        """Return the best hits that match the filter; None if the database has to search alone."""
        if not plan.plain or plan.without or page.wanted > _DEEPEST:
            return None
        at = self._position() if self._index.link.serves_keywords(self._state.lexical.records) else None
        if at is None or self._state.next - 1 - at[0][1] > _LONGEST_TAIL:
            return None
        rarities = self._rarities(plan)
        most = max(_LEAST_CANDIDATES, 2 * page.wanted)
        rows = self._proposed(keyword_vectors.of_query(plan.leaves, rarities), where, at, most)
        if rows is None:
            return None
        hits = self._scored(plan, rarities, condition, rows, at[0][1])
        complete = len(rows) < most
        if not complete and len(hits) < page.wanted:
            return None
        ceiling = bm25.ceiling(plan.leaves, rarities.__getitem__)
        return EngineHits(tuple(hits[page.offset : page.wanted]), len(hits), complete, ceiling)

    def _position(self) -> tuple[IndexPosition, str] | None:
        """Return how far the index is, with the note of the texts; None if it does not have them yet."""
        values = (self._tables.states.number, self._index.link.follower)
        row = self._connection.execute(_POSITION, values).fetchone()
        note = index_sets.read(row[2]).get(index_sets.KEYWORDS) if row else None
        return None if row is None or note is None else ((row[0], row[1]), note)

    def _rarities(self, plan: LexicalPlan) -> dict[TermMatch, float]:
        names = {leaf.term: keyword_vectors.name_of(leaf.term) for leaf in plan.leaves}
        having = self._tables.postings.frequencies(self._connection, names.values())
        records = self._state.lexical.records
        return {term: bm25.idf(records, having.get(name, 0)) for term, name in names.items()}

    def _proposed(
        self, vector: SparseVector, where: Filter, at: tuple[IndexPosition, str], most: int
    ) -> Sequence[int] | None:
        name = index_sets.set_name(self._index.prefix, index_sets.KEYWORDS)
        question = IndexQuestion(name, vector, where, self._shape, most, at[1], at[0])
        return self._index.link.nearest(question)

    def _scored(
        self, plan: LexicalPlan, rarities: Rarities, where: SqlCondition, rows: Sequence[int], last: int
    ) -> list[EngineHit]:
        """Return the candidates that match, and the rows behind the ``last`` of the index, best first."""
        query = sql.SQL(
            "SELECT r.row, r.key, r.texts FROM {} r WHERE (r.row = ANY(%s::bigint[]) OR r.row > %s) AND {}"
        ).format(self._tables.records.table, where.text)
        asked = self._connection.execute(query, (list(rows), last, *where.values)).fetchall()
        keywords, lexical = self._tables.keywords, self._state.lexical
        scores = [keywords.score(_TEXTS.decode(texts), plan.leaves, rarities, lexical) for *_, texts in asked]
        found = [(row, key, score) for (row, key, _), score in zip(asked, scores, strict=True) if score]
        rounded = rounded_scores(np.array([score for *_, score in found]))
        hits = [
            EngineHit(spelling.given(key), row, score)
            for (row, key, _), score in zip(found, rounded.tolist(), strict=True)
        ]
        return sorted(hits, key=lambda hit: (-hit.score, hit.key))
