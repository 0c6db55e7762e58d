"""Analysis of entries before they are put into the index: of few of them here, of many in a process.

The process starts with the first bulk, and ends after half a minute without one. Two parts are under way at
a time, so that it does not wait for the index, nor the index for it. If it fails, texts are analyzed here.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice

import msgspec

from tabane.engine.embedded.lexical.analysis_requests import AnalysisRequest, packed_request, read_answer
from tabane.engine.embedded.lexical.memory_segment import SegmentEntry
from tabane.engine.text_spaces import JoinedAnalysis, RecordAnalyzer
from tabane.errors import WorkerError
from tabane.workers.pool import Budget, Pool
from tabane.workers.turns import Capacity
from tabane.workers.worker import Program, environment, module

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
        for part in _parts(entries):
            lacking = [entry for entry in part if entry.joined is None]
            answer = process.begin(lacking) if lacking and process.usable else None
            under_way.append((part, lacking, answer))
            if len(under_way) >= _UNDER_WAY:
                yield from self._finished(process, *under_way.popleft())
        while under_way:
            yield from self._finished(process, *under_way.popleft())

    def analyse_ahead(self, entries: Sequence[SegmentEntry]) -> None:
        """Analyze entries before they are wanted: in the process if they fill a part."""
        process, lacking = self._process, [entry for entry in entries if entry.joined is None]
        if process is not None and process.usable and len(lacking) >= PART:
            for part in _parts(lacking):
                process.finish(part, process.begin(part))
        else:
            for entry in lacking:
                entry.analysed(self._analyst)

    def _finished(
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


def _parts(entries: Iterable[SegmentEntry]) -> Iterator[list[SegmentEntry]]:
    """Yield the entries in order, in parts of limited length and size."""
    left = iter(entries)
    while part := list(islice(left, 1)):
        size = _size(part[0])
        while size < _MOST_CHARACTERS and len(part) < PART and (more := next(left, None)) is not None:
            part.append(more)
            size += _size(more)
        yield part


def _size(entry: SegmentEntry) -> int:
    return sum(map(len, entry.record.texts.values()))
