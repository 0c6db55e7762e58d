"""Keeps the tantivy index up to date: what is committed is found at once, and indexed in the background.

Records newer than the last commit of the index are in generations: one that grows, and one that is being
committed. Each has a memory segment for searches. When the commit is done, its generation is dropped and
the searcher replaced in one step, so that each record is found exactly once.

Analysis of entries before they are put into the index: of few of them here, of many in a process. The
process starts with the first bulk, and ends after half a minute without one. Two parts are under way at a
time, so that it does not wait for the index, nor the index for it. If it fails, texts are analyzed here.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from urllib.parse import quote

import msgspec

from tabane.engine.embedded import failures
from tabane.engine.embedded.collection_state import CollectionChange, CollectionState
from tabane.engine.embedded.collection_table import CollectionTable
from tabane.engine.embedded.database import give_way
from tabane.engine.embedded.lexical.analysis_worker import AnalysisRequest, packed_request, read_answer
from tabane.engine.embedded.lexical.memory_segment import (
    MemorySegment,
    PendingGeneration,
    PreparedTokens,
    SegmentEntry,
    bury,
    prepare_tokens,
)
from tabane.engine.embedded.lexical.tantivy_index import (
    FORMAT,
    IndexSearcher,
    IndexWatermark,
    TantivyCompiler,
    TantivyIndex,
    exists,
    read_watermark,
    wipe,
)
from tabane.engine.embedded.masks import Masks
from tabane.engine.query_plans import JoinedAnalysis, RecordAnalyzer
from tabane.errors import StoreError, WorkerError
from tabane.search.analysis import substring_spelling
from tabane.search.records import Contains, Record, Shape, contains
from tabane.workers.pool import Budget, Capacity, Pool
from tabane.workers.worker import Program, environment, module

_LOOKED_AT = 32  # records between two pauses for others


class TruthReader:
    """Reads one table from threads other than the event loop. Raises StoreError."""

    def __init__(self, table: CollectionTable) -> None:
        self._table = table
        self._truth = table.truth
        self._path = table.database.path
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []

    @property
    def shape(self) -> Shape:
        """Return the current shape of the collection."""
        return self._table.shape

    def state(self) -> tuple[CollectionState, int]:
        """Return the state of the collection, and its last tombstone."""
        with self.reading() as connection:
            return self._truth.state(connection), self._truth.last_tombstone(connection)

    def rows(self, after: int, most: int) -> list[tuple[int, Record]]:
        """Return up to ``most`` records behind row ``after``, in order of rows."""
        with self.reading() as connection:
            return list(self._truth.rows(connection, after, most))

    def tombstones(self, after: int) -> list[int]:
        """Return the rows that were deleted or replaced since tombstone ``after``."""
        with self.reading() as connection:
            return self._truth.tombstones(connection, after)

    def count(self) -> int:
        """Return the number of records."""
        with self.reading() as connection:
            return int(self._table.masks(connection).snapshot.alive.sum())

    def keys(self, connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, str]:
        """Return the keys of those rows that are live."""
        return self._truth.keys_at(connection, rows)

    def masks(self, connection: sqlite3.Connection) -> Masks:
        """Return the masks that evaluate filters, for the snapshot of the connection's transaction."""
        return self._table.masks(connection)

    def busy(self) -> StoreError:
        """Return the error for writes that come in between all the time."""
        return failures.busy(self._path)

    def holding(self, connection: sqlite3.Connection, rows: Sequence[int], condition: Contains) -> list[int]:
        """Return the rows whose texts contain the condition's text, by reading the texts."""
        needle = substring_spelling(condition.text)
        found: list[int] = []
        for number, row in enumerate(rows):
            if not number % _LOOKED_AT:
                give_way(connection)
            record = self._truth.at(connection, row)
            if record is not None:
                names = record.texts if condition.fields is None else condition.fields
                if contains((record.texts.get(name, "") for name in names), needle):
                    found.append(row)
        return found

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._connections:
            connection.close()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the thread's own connection, in a transaction. Raises StoreError."""
        try:
            connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
            if connection is None:
                address = f"file:{quote(self._path)}?mode=ro"
                connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
                connection.execute("PRAGMA query_only = ON")
                self._local.connection = connection
                self._connections.append(connection)
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise failures.from_sqlite(error, self._path) from error


log = logging.getLogger(__name__)

PART = 256  # entries of a request, some 10 ms of work
MANY = 2 * PART  # entries from which on the process is used
_MOST_CHARACTERS = 500_000  # of the texts of a request
_MOST_FAILED = 3  # requests in a row, after which the process is used no more
_UNDER_WAY = 2
_IDLE = 30.0  # seconds
_MEMORY = 2_000_000_000  # bytes of address space
_BUDGET = Budget(seconds=60.0, deadline=300.0)
_CAPACITY = Capacity(turns=1, each=1)
_CORES = 2  # from which on a second process is of use


class AnalysisProcess:
    """The process, for threads other than the event loop it is created on."""

    def __init__(self, analyst: RecordAnalyzer) -> None:
        program = Program(
            module("tabane.engine.embedded.lexical.analysis_worker"),
            environment(os.environ),
            _MEMORY,
            errors=2,
        )
        self.pool = Pool(program, _CAPACITY, idle=_IDLE)
        self._loop = asyncio.get_running_loop()
        self._names = tuple(text.name for text in analyst.shape.texts)
        self._fingerprint = analyst.fingerprint
        self._failed = 0

    @property
    def usable(self) -> bool:
        """Return whether it is worth asking."""
        return self._failed < _MOST_FAILED

    def begin(self, entries: Sequence[SegmentEntry]) -> Future[bytes]:
        """Send the texts of entries. The result is for :meth:`finish`."""
        texts = [entry.record.texts for entry in entries]
        body = packed_request(AnalysisRequest(self._names, self._fingerprint, texts))
        return asyncio.run_coroutine_threadsafe(self.pool.ask(body, _BUDGET), self._loop)

    def finish(self, entries: Sequence[SegmentEntry], answer: Future[bytes]) -> None:
        """Wait for the tokens of the entries. If there is no valid answer, they stay without tokens."""
        try:
            found = read_answer(answer.result())
        except (WorkerError, ValueError, msgspec.MsgspecError) as error:
            log.warning("texts are analyzed without a process of their own: %s", error)
            found = None
        if found is None or len(found) != len(entries):
            self._failed += 1
            return
        self._failed = 0
        for entry, tokens in zip(entries, found, strict=True):
            entry.joined = tokens

    async def close(self) -> None:
        """End the process. Requests under way fail."""
        await self.pool.close()


class EntryAnalysis:
    """Tokens of entries as the index takes them. ``process`` is None if there is one core only."""

    def __init__(self, analyst: RecordAnalyzer, process: AnalysisProcess | None = None) -> None:
        self._analyst = analyst
        self._process = process

    def is_bulk(self, entries: int) -> bool:
        """Return whether so many entries are analyzed in the process."""
        return entries >= MANY and self._process is not None and self._process.usable

    def tokens(self, entries: Iterable[SegmentEntry]) -> Iterator[tuple[SegmentEntry, JoinedAnalysis]]:
        """Yield entries in order with their tokens, which are made here."""
        for entry in entries:
            yield entry, entry.joined_tokens(self._analyst)

    def tokens_of_bulk(
        self, entries: Iterable[SegmentEntry]
    ) -> Iterator[tuple[SegmentEntry, JoinedAnalysis]]:
        """Yield entries in order with their tokens, which are made in the process ahead of the caller."""
        process = self._process
        if process is None:
            yield from self.tokens(entries)
            return
        under_way: deque[tuple[list[SegmentEntry], list[SegmentEntry], Future[bytes] | None]] = deque()
        for part in _entry_parts(entries):
            lacking = [entry for entry in part if entry.joined is None]
            answer = process.begin(lacking) if lacking and process.usable else None
            under_way.append((part, lacking, answer))
            if len(under_way) >= _UNDER_WAY:
                yield from self._yield_finished(process, *under_way.popleft())
        while under_way:
            yield from self._yield_finished(process, *under_way.popleft())

    def analyze_ahead(self, entries: Sequence[SegmentEntry]) -> None:
        """Analyze entries before they are wanted: in the process if they fill a part."""
        process, lacking = self._process, [entry for entry in entries if entry.joined is None]
        if process is not None and process.usable and len(lacking) >= PART:
            for part in _entry_parts(lacking):
                process.finish(part, process.begin(part))
        else:
            for entry in lacking:
                entry.analyzed(self._analyst)

    def _yield_finished(
        self,
        process: AnalysisProcess,
        part: list[SegmentEntry],
        lacking: list[SegmentEntry],
        answer: Future[bytes] | None,
    ) -> Iterator[tuple[SegmentEntry, JoinedAnalysis]]:
        if answer is not None:
            process.finish(lacking, answer)
        yield from self.tokens(part)


def analysis_process(analyst: RecordAnalyzer) -> AnalysisProcess | None:
    """Return a process for bulks, which is not started yet; None if it would share its core with the hub."""
    return AnalysisProcess(analyst) if (os.cpu_count() or 1) >= _CORES else None


def _entry_parts(entries: Iterable[SegmentEntry]) -> Iterator[list[SegmentEntry]]:
    """Yield the entries in order, in parts of limited length and size."""
    left = iter(entries)
    while part := list(islice(left, 1)):
        size = _text_length(part[0])
        while size < _MOST_CHARACTERS and len(part) < PART and (more := next(left, None)) is not None:
            part.append(more)
            size += _text_length(more)
        yield part


def _text_length(entry: SegmentEntry) -> int:
    return sum(map(len, entry.record.texts.values()))


COMMITTED_ROWS = 4000  # of a bulk: each commit has a price, and leaves segments that are to be merged
MOST_BEHIND = 10_000  # rows that wait for the index before writers do
_LOADED = 2_000  # rows that an opening reads into memory; more are indexed in the background
_BATCH = 200
_YIELDED = 8  # rows, some half a millisecond
_CAUGHT_UP = 5_000  # rows of a commit while catching up
_LONGEST_WAIT = 5.0  # seconds from a commit to its being taken
_LONGEST_PAUSE = 60.0  # seconds between attempts after a failure
_MOST_REMADE = 3  # for searches that failed, in the life of a process
_PATIENCE = 2  # failures in a row until the index is rebuilt


@dataclass(frozen=True, slots=True)
class IndexSnapshot:
    """The data searched: the index at one moment (None: there is none), newer rows, and removed rows.

    The moment is that after write number ``changes``.
    """

    searcher: IndexSearcher | None
    compiler: TantivyCompiler | None
    segments: tuple[MemorySegment, ...]
    dead: frozenset[int] | set[int]
    changes: int = 0


class IndexBuilder:
    """Owns the index for writing, in a thread of its own. Made by :meth:`open`, which blocks."""

    def __init__(
        self,
        folder: str,
        source: TruthReader,
        analyst: RecordAnalyzer,
        process: AnalysisProcess | None = None,
    ) -> None:
        self._folder = folder
        self._source = source
        self._analyst = analyst
        self._entries = EntryAnalysis(analyst, process)
        self._gate = threading.Condition()
        self._viewing = threading.RLock()
        self._viewed: IndexSnapshot | None = None  # while somebody looks
        self._changes = 0  # the number of the last write that was taken
        self._fresh = PendingGeneration(MemorySegment(analyst))
        self._sealed: PendingGeneration | None = None
        self._ahead: dict[int, PreparedTokens] = {}  # of what is about to be written
        self._index: TantivyIndex | None = None
        self._searcher: IndexSearcher | None = None
        self._watermark = IndexWatermark("", 0, 0, 0)
        self._until = 0  # the row up to which the index is caught up from the truth
        self._reached = 0  # the last row that is in the index; rows up to :attr:`_until` may be missing
        self._remade = 0
        self._urgent = False
        self._closing = False
        self._torn = False
        self._failures = 0
        self._committing = ThreadPoolExecutor(1, "store-commit")
        self._thread = threading.Thread(target=self._work, name=f"store-index {folder}", daemon=True)

    @classmethod
    def open(
        cls, folder: str, source: TruthReader, analyst: RecordAnalyzer, process: AnalysisProcess | None = None
    ) -> IndexBuilder:
        """Open the index, and start its thread. ``process`` analyzes bulks; the caller closes it later."""
        builder = cls(folder, source, analyst, process)
        builder._open_index()
        builder._thread.start()
        return builder

    # For the table's writing thread

    def take(self, change: CollectionChange) -> None:
        """Make a committed write searchable. Called in the writing thread, in order."""
        with self._gate:
            self._fresh.take(change, self._ahead)
            self._changes = change.state.changes
            self._gate.notify_all()

    @property
    def applied(self) -> int:
        """Return the number of the last tombstone that is in the index."""
        return self._watermark.tombstone

    @property
    def behind(self) -> int:
        """Return how many rows wait for the index."""
        sealed = self._sealed
        return self._fresh.size + (sealed.size if sealed else 0)

    def wait_for_room(self, timeout: float) -> None:
        """Wait until few enough rows wait for the index, at most ``timeout`` seconds."""
        with self._gate:
            self._gate.wait_for(lambda: self.behind < MOST_BEHIND or self._closing, timeout)

    @property
    def progress(self) -> tuple[int, int] | None:
        """Return rows done of those that are caught up, while they are."""
        done, until = self._watermark.row, self._until
        return (done, until) if done < until else None

    @property
    def complete(self) -> bool:
        """Return whether a view holds everything that was taken."""
        return self._searcher is not None and not self._torn and self.progress is None

    # Before a write

    @contextlib.contextmanager
    def expecting(self) -> Iterator[dict[int, PreparedTokens]]:
        """Yield a dict for tokens of texts not written yet, by ``id`` of the texts, for one writer.

        Keep the texts alive until the block ends.
        """
        self._ahead = {}
        try:
            yield self._ahead
        finally:
            self._ahead = {}

    def analyze(self, records: Sequence[Record], ahead: dict[int, PreparedTokens]) -> None:
        """Analyze the texts of records before they are written."""
        analyses = []
        for number, record in enumerate(records):
            analyses.append(self._analyst.analysis(record.texts))
            if not number % _YIELDED:
                time.sleep(0)
        for record, each in zip(records, prepare_tokens(analyses), strict=True):
            ahead[id(record.texts)] = each

    # For the searching threads

    @contextlib.contextmanager
    def view(self, changes: int = 0) -> Iterator[IndexSnapshot]:
        """Yield a snapshot of everything taken so far; it does not change in the block.

        A nested call gets the same snapshot. Waits until write ``changes`` is taken.
        """
        with self._viewing:
            if self._viewed is not None:
                yield self._viewed
                return
            with self._gate:
                self._gate.wait_for(lambda: self._changes >= changes or self._closing, _LONGEST_WAIT)
                generations = [each for each in (self._sealed, self._fresh) if each is not None]
                for each in generations:
                    each.settle()
                taken = self._changes
            dead = bury(generations)
            compiler = self._index.compiler if self._index else None
            self._viewed = IndexSnapshot(
                self._searcher, compiler, tuple(each.segment for each in generations), dead, taken
            )
            try:
                yield self._viewed
            finally:
                self._viewed = None

    def mistrust(self) -> bool:
        """Rebuild the index, which could not be read. Return False if that has happened too often."""
        self._remade += 1
        self.remake()
        return self._remade <= _MOST_REMADE

    def remake(self) -> None:
        """Rebuild the index, whatever is the matter with it."""
        with self._viewing, self._gate:
            self._searcher = None
            self._torn = True
            self._gate.notify_all()

    @property
    def records(self) -> int:
        """Return how many records the index holds, as of its last commit."""
        searcher = self._searcher
        return int(searcher.searcher.num_docs) if searcher else 0

    def settle(self) -> None:
        """Wait until all that was taken is in the index. Waits no longer if that fails, or is closed."""
        with self._gate:
            self._urgent = True
            self._gate.notify_all()
            while not (self._closing or self._failures or self._is_settled):
                self._gate.wait()
            self._urgent = False

    @property
    def _is_settled(self) -> bool:
        return self._fresh.empty and self._sealed is None and self.progress is None and not self._torn

    def close(self) -> None:
        """Commit what waits, and release the index. The next opening catches up with the rest."""
        with self._gate:
            self._closing = True
            self._gate.notify_all()
        self._thread.join()

    # Opening

    def _open_index(self) -> None:
        """Open the index if it can catch up with the records; else begin an empty one."""
        state, tombstone = self._source.state()
        self._changes = state.changes
        watermark = read_watermark(self._folder)
        fingerprint = self._fingerprint()
        usable = (
            watermark is not None
            and (watermark.fingerprint, watermark.epoch) == (fingerprint, state.epoch)
            and state.pruned <= watermark.tombstone <= tombstone
            and watermark.row < state.next
        )
        if watermark is None or not usable or not self._resume_index(watermark):
            watermark = IndexWatermark(fingerprint, state.epoch, state.base - 1, tombstone)
            self._create_index(watermark)
        last = state.next - 1
        newer = self._source.rows(self._watermark.row, _LOADED + 1)
        if len(newer) <= _LOADED:
            fresh = self._fresh
            fresh.waiting = [SegmentEntry(row, record) for row, record in newer]
            fresh.rows, fresh.last, fresh.tombstone = len(newer), last, tombstone
            fresh.began = time.monotonic()
        else:
            self._until = last

    def _resume_index(self, watermark: IndexWatermark) -> bool:
        """Return whether the index could be opened; it is then exactly where its watermark says."""
        if not exists(self._folder):
            return False
        try:
            self._index = TantivyIndex.open(self._folder, self._source.shape, self._analyst)
            _, tombstone = self._source.state()
            self._index.delete_after(watermark.row)
            self._index.delete(self._source.tombstones(watermark.tombstone))
            self._watermark = IndexWatermark(watermark.fingerprint, watermark.epoch, watermark.row, tombstone)
            self._reached = watermark.row
            self._index.commit(self._watermark)
            self._searcher = self._index.searcher()
        except BaseException as error:  # tantivy panics where its files are not what they were
            _reraise(error)
            self._close_index()
            return False
        return True

    def _create_index(self, watermark: IndexWatermark) -> None:
        self._close_index()
        wipe(self._folder)
        self._index = TantivyIndex.open(self._folder, self._source.shape, self._analyst)
        self._watermark = watermark
        self._searcher = self._index.searcher()

    def _close_index(self) -> None:
        index, self._index, self._searcher = self._index, None, None
        if index is not None:
            with contextlib.suppress(Exception):
                index.close()

    def _fingerprint(self) -> str:
        shape = self._source.shape
        names = [text.name for text in shape.texts] + [
            f"{each.name}:{each.kind.value}" for each in shape.fields
        ]
        return " ".join([str(FORMAT), self._analyst.fingerprint, version("tantivy"), *names])

    # The thread

    def _work(self) -> None:
        while self._wait_for_work():
            self._work_once()
        if not self._torn and self.progress is None and not self._fresh.empty:
            self._work_once()
        self._committing.shutdown()
        self._close_index()
        with self._gate:
            self._gate.notify_all()

    def _wait_for_work(self) -> bool:
        """Wait until there is something to do; False at the end."""
        with self._gate:
            pause = min(_LONGEST_PAUSE, 2.0**self._failures) if self._failures else 0.0
            if pause:
                self._gate.wait_for(lambda: self._closing, pause)
            while not (self._closing or self._is_due or self._is_part_ready):
                self._gate.wait(None if self._fresh.empty else self._fresh.remaining)
            return not self._closing

    @property
    def _is_due(self) -> bool:
        if self._torn or self.progress is not None:
            return True
        fresh = self._fresh
        if fresh.empty:
            return False
        return self._urgent or fresh.size >= COMMITTED_ROWS or fresh.remaining <= 0

    @property
    def _is_part_ready(self) -> bool:
        """Return whether a part of a bulk may be analyzed, before it is searched or committed."""
        fresh = self._fresh
        return len(fresh.waiting) >= fresh.prepared + PART and self._entries.is_bulk(fresh.size)

    def _work_once(self) -> None:
        try:
            if self._torn or self._index is None:
                self._remake()
            elif not (self._is_due or self._closing):
                self._analyze_next(PART)
            elif self.progress is not None and self._fresh.size < COMMITTED_ROWS:
                self._catch_up()
            else:
                self._commit_generation()
            self._failures = 0
        except BaseException as error:
            _reraise(error)
            self._failed()

    def _failed(self) -> None:
        """Keep what was not committed for another attempt; give the index up after some."""
        with self._viewing, self._gate:
            self._failures += 1
            self._unseal()
            self._gate.notify_all()
            self._torn = self._torn or self._failures >= _PATIENCE
        if not self._torn and self.progress is not None:
            self._torn = True  # half caught up, with newer rows behind: simpler to begin again
        elif not self._torn:
            # What the writer took is in no commit: a new one begins where the last commit was.
            self._close_index()
            with contextlib.suppress(Exception):
                if not self._resume_index(self._watermark):
                    self._torn = True

    def _unseal(self) -> None:
        sealed, self._sealed = self._sealed, None
        if sealed is not None:
            self._fresh.follow(sealed)

    def _remake(self) -> None:
        """Begin the index again; what the memory segments hold is found meanwhile."""
        with self._viewing, self._gate:
            self._unseal()
            self._fresh.settle()
            state, tombstone = self._source.state()
            held = min(self._fresh.segment.entries, default=state.next)
            self._create_index(IndexWatermark(self._fingerprint(), state.epoch, state.base - 1, tombstone))
            self._until = min(held, state.next) - 1
            self._torn = False

    def _catch_up(self) -> None:
        """Put in the next rows from the truth; commit now and then."""
        assert self._index is not None
        watermark, reading = self._watermark, _Reading(self._watermark.row)
        self._add_entries(self._entries.tokens_of_bulk(self._next_rows(reading)))
        if (row := reading.row) > watermark.row:
            row = max(row, self._reached) if row >= self._until else row
            self._commit_index(
                IndexWatermark(watermark.fingerprint, watermark.epoch, row, watermark.tombstone)
            )

    def _next_rows(self, reading: _Reading) -> Iterator[SegmentEntry]:
        """Yield the next records of the truth. ``reading`` tells how far they went."""
        read = 0
        while read < _CAUGHT_UP and reading.row < self._until and not self._closing:
            batch = [pair for pair in self._source.rows(reading.row, _BATCH) if pair[0] <= self._until]
            yield from itertools.starmap(SegmentEntry, batch)
            reading.row = batch[-1][0] if len(batch) == _BATCH else self._until
            read += len(batch)

    def _commit_generation(self) -> None:
        """Commit the generation that grew until now; another grows meanwhile."""
        with self._viewing, self._gate:
            sealed = self._sealed = self._fresh
            sealed.settle()
            self._fresh = PendingGeneration(MemorySegment(self._analyst))
            entries = list(sealed.segment.entries.values())
        assert self._index is not None
        bulk = self._entries.is_bulk(len(entries))
        self._add_entries(self._entries.tokens_of_bulk(entries) if bulk else self._entries.tokens(entries))
        self._index.delete(sealed.removed)
        self._reached = max(self._reached, sealed.last)
        watermark = self._watermark
        # While rows before these are missing, the index stands there: these are put in twice after a death.
        row = watermark.row if self.progress is not None else max(watermark.row, sealed.last)
        tombstone = max(watermark.tombstone, sealed.tombstone)
        self._commit_index(IndexWatermark(watermark.fingerprint, watermark.epoch, row, tombstone), bulk=bulk)

    def _add_entries(self, entries: Iterable[tuple[SegmentEntry, JoinedAnalysis]]) -> None:
        assert self._index is not None
        for entry, tokens in entries:
            self._index.add(entry.row, entry.record, tokens)
            if not entry.row % _YIELDED:
                time.sleep(0)  # a thread that waits for the interpreter gets it now, not 5 ms later

    def _commit_index(self, watermark: IndexWatermark, *, bulk: bool = False) -> None:
        """Commit, and show the index as of now instead of the generation that is in it."""
        assert self._index is not None
        committing = self._committing.submit(self._index.commit, watermark)
        self._analyze_until_done(committing, PART if bulk else 1)
        committing.result()
        searcher = self._index.searcher()
        with self._viewing, self._gate:
            self._searcher = searcher
            self._watermark = watermark
            self._sealed = None
            self._gate.notify_all()

    def _analyze_until_done(self, committing: Future[None], least: int) -> None:
        """Analyze what comes in until the commit is done: tantivy leaves the interpreter to others.

        ``least`` entries are waited for: in a bulk, a part for the process.
        """
        committing.add_done_callback(self._notify)
        while True:
            with self._gate:
                while not committing.done() and len(self._fresh.waiting) < self._fresh.prepared + least:
                    self._gate.wait()
            if committing.done():
                return
            self._analyze_next(max(least, _YIELDED))
            time.sleep(0)

    def _analyze_next(self, most: int) -> None:
        """Analyze what comes next, so that a search does not have to."""
        with self._gate:
            fresh = self._fresh
            entries = fresh.waiting[fresh.prepared : fresh.prepared + most]
            fresh.prepared += len(entries)
        self._entries.analyze_ahead(entries)

    def _notify(self, _: object) -> None:
        with self._gate:
            self._gate.notify_all()


@dataclass(slots=True)
class _Reading:
    """How far records were read: up to ``row``."""

    row: int


def _reraise(error: BaseException) -> None:
    """Let through what ends the process; a panic of tantivy's is no Exception either, but is ours."""
    if isinstance(error, KeyboardInterrupt | SystemExit):
        raise error
