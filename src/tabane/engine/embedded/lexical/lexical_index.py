"""The lexical index of one collection: new records are found at once, and committed in the background.

There are two threads. One owns the writer of tantivy: it puts committed records into the index, and commits
every 4,000 rows or 2 seconds. The other one searches the index as of its last commit, and the memory
segments of newer records, both at the same moment as the records. An index that is missing, damaged, or of
another version or epoch is rebuilt from the records. Searches use what exists meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from tabane.engine.embedded.lexical.index_builder import (
    MOST_BEHIND,
    AnalysisProcess,
    IndexBuilder,
    TruthReader,
    analysis_process,
)
from tabane.engine.embedded.lexical.lexical_search import (
    Accept,
    IndexSnapshot,
    LexicalRequest,
    LexicalSearch,
    ScoredRows,
    UnreadableIndex,
    matching,
)
from tabane.engine.embedded.lexical.tantivy_index import answerable
from tabane.engine.embedded.masks import Masks, RowSet, SubstringCondition
from tabane.engine.query_plans import (
    NOTHING,
    AllOf,
    AnyOf,
    LexicalPlan,
    LexicalPlanner,
    Match,
    RecordAnalyzer,
    needle,
)
from tabane.errors import StoreError
from tabane.messages import say
from tabane.search.engine import Capability, EngineHit, EngineHits, LexicalQuery
from tabane.search.index_tokens import Japanese, is_whole, japanese
from tabane.search.records import Contains, Filter, matches

if TYPE_CHECKING:
    from tabane.engine.embedded.collection_state import CollectionChange
    from tabane.engine.embedded.collection_table import CollectionTable
    from tabane.search.records import Record

_CAPABILITIES = frozenset({Capability.LEXICAL, Capability.SUBSTRING})
_LONGEST_WAIT = 30.0  # seconds
_MOST_TRIES = 100
_ANALYSED_AT_ONCE = 64  # records


async def open_lexical(folder: str, table: CollectionTable) -> LexicalIndex:
    """The index of a table, in a folder of its own, with the words of the extra ``ja`` if it is there."""
    return await LexicalIndex.open(folder, table, japanese())


class LexicalIndex:
    """See :class:`tabane.engine.embedded.collection.Lexical` for what it promises. Made by :meth:`open`."""

    capabilities = _CAPABILITIES

    def __init__(
        self,
        builder: IndexBuilder,
        source: TruthReader,
        planner: LexicalPlanner,
        process: AnalysisProcess | None = None,
    ) -> None:
        self._builder = builder
        self._process = process
        self._source = source
        self._planner = planner
        self._searching = ThreadPoolExecutor(1, "store-search")

    @classmethod
    async def open(cls, folder: str, table: CollectionTable, dictionary: Japanese | None) -> LexicalIndex:
        """Open what there is, and begin to catch up or to rebuild it; that is not waited for."""
        analyst = RecordAnalyzer(table.shape, dictionary)
        source = TruthReader(table)
        process = analysis_process(analyst)
        builder = await asyncio.to_thread(IndexBuilder.open, folder, source, analyst, process)
        return cls(builder, source, LexicalPlanner(table.shape, dictionary), process)

    @property
    def applied(self) -> int:
        return self._builder.applied

    @property
    def progress(self) -> tuple[int, int] | None:
        """Records put in of those to be, while the index is caught up or rebuilt; else None."""
        return self._builder.progress

    def committed(self, change: CollectionChange) -> None:
        self._builder.take(change)

    def containing(self, connection: sqlite3.Connection, wanted: SubstringCondition) -> RowSet | None:
        """See :class:`tabane.engine.embedded.masks.Index`. None too while the index catches up."""
        if any(not is_whole(each.text) for each in wanted.excludes):
            return None
        must = AllOf(tuple(map(self._needle, wanted.includes)))
        without = AnyOf(tuple(map(self._needle, wanted.excludes)))
        try:
            with self._builder.view() as view:
                if not self._builder.complete:
                    return None
                doubtful = [each for each in wanted.includes if not is_whole(each.text)]
                found, changes = matching(view, must, without, turned=not doubtful), view.changes
        except UnreadableIndex:
            self._builder.mistrust()
            return None
        for each in doubtful:
            rows = self._source.holding(connection, found.rows.tolist(), each)
            found = RowSet(np.array(rows, dtype=np.int64))
        return found._replace(changes=changes)

    def _needle(self, condition: Contains) -> Match:
        return needle(condition.text, self._source.shape.text_names(condition.fields))

    async def search(self, query: LexicalQuery, where: Filter, limit: int, offset: int) -> EngineHits:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._searching, self._search, query, where, limit, offset)

    async def room(self) -> None:
        """Wait, half a minute at most, if the index is far behind the records."""
        if self._builder.behind >= MOST_BEHIND:
            await asyncio.to_thread(self._builder.wait_for_room, _LONGEST_WAIT)

    @contextlib.asynccontextmanager
    async def ahead(self, records: Sequence[Record]) -> AsyncIterator[None]:
        """Yield texts that are written within are analyzed before: else the next search has to do it."""
        with self._builder.expecting() as found:
            for first in range(0, len(records), _ANALYSED_AT_ONCE):
                part = records[first : first + _ANALYSED_AT_ONCE]
                await asyncio.to_thread(self._builder.analyse, part, found)
            yield

    async def settled(self) -> None:
        """Wait until everything that was acknowledged is committed in the index."""
        await asyncio.to_thread(self._builder.settle)

    async def agrees(self) -> bool:
        """Whether the index holds as many records as the truth, once it has caught up. For a check-up."""
        await self.settled()
        live = await asyncio.to_thread(self._source.count)
        return self._builder.complete and (self._builder.behind > 0 or self._builder.records == live)

    @property
    def indexed(self) -> int:
        """Return how many records are in the index; the rest is in the memory segment or to be caught up."""
        return self._builder.records

    async def remake(self) -> None:
        """Rebuild the index, in the background; the memory segment answers meanwhile."""
        await asyncio.to_thread(self._builder.remake)

    async def close(self) -> None:
        await asyncio.to_thread(self._close)
        if self._process is not None:
            await self._process.close()

    def _close(self) -> None:
        self._searching.shutdown(wait=True)
        self._builder.close()
        self._source.close()

    def _search(self, query: LexicalQuery, where: Filter, limit: int, offset: int) -> EngineHits:
        plan = self._planner.plan(query)
        if plan == NOTHING:
            return EngineHits()
        with self._source.reading() as connection:
            try:
                with self._moment(connection) as (masks, view):
                    found, keys = self._found(plan, where, masks, view, offset + limit)
                    complete = self._builder.complete
            except UnreadableIndex as error:
                self._mistrust(error)
            else:
                page = self._page(connection, found, limit, offset, keys)
                return EngineHits(tuple(page), len(found.scores), found.whole and complete, found.ceiling)
        return self._search(query, where, limit, offset)

    @contextlib.contextmanager
    def _moment(self, connection: sqlite3.Connection) -> Iterator[tuple[Masks, IndexSnapshot]]:
        """Records, columns and index of one moment, which is that of the connection's transaction then.

        Raises StoreBusy if writes come in between all the time.
        """
        for _ in range(_MOST_TRIES):
            masks = self._source.masks(connection)
            with self._builder.view(masks.snapshot.changes) as view:
                if view.changes == masks.snapshot.changes:
                    yield masks, view
                    return
            # A write came in between: look again.
            connection.execute("ROLLBACK")
            connection.execute("BEGIN")
        raise self._source.busy()

    def _found(
        self, plan: LexicalPlan, where: Filter, masks: Masks, view: IndexSnapshot, wanted: int
    ) -> tuple[ScoredRows, dict[int, str]]:
        """Return the best, and the keys of those that are not in the index yet."""
        index = answerable(where)
        accept = None if index == where else _accepting(masks, where)
        question = LexicalRequest(plan, index, lambda record: matches(where, record), accept)
        found = LexicalSearch(view, question).best(wanted)
        held = (segment.entries.get(row) for row, _ in found.scores for segment in view.segments)
        return found, {entry.row: entry.record.key for entry in held if entry is not None}

    def _mistrust(self, error: UnreadableIndex) -> None:
        """Have the index rebuilt. Raises StoreError if it was rebuilt too often already."""
        if not self._builder.mistrust():
            detail = say(
                "the index of {collection} cannot be read ({detail})",
                collection=self._source.shape.name,
                detail=str(error),
            )
            raise StoreError(detail) from error

    def _page(
        self, connection: sqlite3.Connection, found: ScoredRows, limit: int, offset: int, keys: dict[int, str]
    ) -> list[EngineHit]:
        """Return the hits of a page, equal scores in order of keys: of those alone the keys are read."""
        page = found.scores[offset : offset + limit]
        if not page:
            return []
        high, low = page[0][1], page[-1][1]
        above = sum(score > high for _, score in found.scores[:offset])
        tied = [(row, score) for row, score in found.scores if low <= score <= high]
        known = self._source.keys(connection, [row for row, _ in tied if row not in keys]) | keys
        hits = [EngineHit(known[row], row, score) for row, score in tied if row in known]
        hits.sort(key=lambda hit: (-hit.score, hit.key))
        return hits[offset - above : offset - above + limit]


def _accepting(masks: Masks, where: Filter) -> Accept:
    """Return what picks out the rows that a filter means."""
    return set(masks.snapshot.rows(masks.mask(where).nonzero()[0])).intersection
