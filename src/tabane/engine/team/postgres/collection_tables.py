"""The tables of one collection, and the rules for its texts."""

from __future__ import annotations

from dataclasses import dataclass

from tabane.engine.query_plans import LexicalPlanner
from tabane.engine.team.postgres.change_log import ChangeLog
from tabane.engine.team.postgres.collection_state import StateTable
from tabane.engine.team.postgres.keyword_vectors import KeywordVectors
from tabane.engine.team.postgres.posting_table import PostingTable
from tabane.engine.team.postgres.record_table import RecordColumns
from tabane.engine.team.postgres.record_writer import RecordWriter


@dataclass(frozen=True, slots=True)
class CollectionTables:
    """The tables of one collection, and the rules for its texts."""

    states: StateTable
    records: RecordColumns
    postings: PostingTable
    writer: RecordWriter
    planner: LexicalPlanner
    keywords: KeywordVectors

    @property
    def log(self) -> ChangeLog:
        return ChangeLog(self.states.number)
