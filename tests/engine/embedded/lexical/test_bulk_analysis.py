"""Texts of bulks are analyzed in a process of their own, with the same tokens as here."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tabane.engine.embedded.lexical.analysis_worker import (
    AnalysisRequest,
    AnalysisWorker,
    packed_request,
    read_answer,
)
from tabane.engine.embedded.lexical.index_builder import MANY, PART, AnalysisProcess, EntryAnalysis
from tabane.engine.embedded.lexical.memory_segment import MemorySegment, SegmentEntry, SegmentSpace
from tabane.engine.query_plans import Japanese, JoinedAnalysis, RecordAnalyzer
from tabane.search.records import Record, Shape, TextField
from tests.engine.embedded.lexical.homes import BODY, bodies, found, lexical
from tests.engine.embedded.opening import indexed

SHAPE = Shape("notes", (TextField("title"), TextField("body")))
TEXTS = ("Rain over 東京タワー", "", "サーバー、がある e-mail\u3000read_file", "…")


def _entries(count: int) -> list[SegmentEntry]:
    titled = ({"title": f"{TEXTS[row % 4]} {row}"} if row % 3 else {} for row in range(count))
    texts = [{**title, "body": TEXTS[row % 4] * (row % 2 + 1)} for row, title in enumerate(titled)]
    return [SegmentEntry(row, Record(key=str(row), texts=each)) for row, each in enumerate(texts, 1)]


def _tokens(
    work: Callable[[EntryAnalysis], list[JoinedAnalysis]], analyst: RecordAnalyzer
) -> tuple[list[JoinedAnalysis], int]:
    """Return what ``work`` returns, and how many processes were there for it."""

    async def run() -> tuple[list[JoinedAnalysis], int]:
        process = AnalysisProcess(analyst)
        try:
            return await asyncio.to_thread(work, EntryAnalysis(analyst, process)), len(process.pool.pids)
        finally:
            await process.close()

    return asyncio.run(run())


@pytest.mark.parametrize("count", [1, PART, 3 * PART + 7])
def test_the_process_returns_the_tokens_that_are_made_here_in_the_same_order(count: int) -> None:
    analyst, entries = RecordAnalyzer(SHAPE, None), _entries(count)

    def work(analysis: EntryAnalysis) -> list[JoinedAnalysis]:
        return [tokens for _, tokens in analysis.tokens_of_bulk(entries)]

    tokens, processes = _tokens(work, analyst)
    assert processes == 1
    assert tokens == [analyst.joined(entry.record.texts) for entry in entries]
    assert all(entry.joined is not None for entry in entries)


def test_a_memory_segment_has_the_same_tokens_whether_a_process_or_nobody_made_them_before() -> None:
    analyst = RecordAnalyzer(SHAPE, None)
    before, after = MemorySegment(analyst), MemorySegment(analyst)
    before.add(_entries(9))
    made = _entries(9)
    for entry in made:
        entry.joined = analyst.joined(entry.record.texts)
    after.add(made)
    for name in analyst.spaces():
        one, other = before.space(name), after.space(name)
        assert (one.total, one.lengths) == (other.total, other.lengths)
        if isinstance(one, SegmentSpace) and isinstance(other, SegmentSpace):
            assert (one.counts, one.places) == (other.counts, other.places)


async def test_texts_are_analyzed_here_after_the_process_cannot_be_asked() -> None:
    analyst, entries = RecordAnalyzer(SHAPE, None), _entries(2 * PART)
    process = AnalysisProcess(analyst)
    await process.close()
    analysis = EntryAnalysis(analyst, process)
    found = await asyncio.to_thread(lambda: [tokens for _, tokens in analysis.tokens_of_bulk(iter(entries))])
    assert found == [analyst.joined(entry.record.texts) for entry in entries]


async def test_texts_are_analyzed_all_the_same_if_the_process_dies() -> None:
    analyst, entries = RecordAnalyzer(SHAPE, None), _entries(6 * PART)
    process = AnalysisProcess(analyst)

    def work() -> list[JoinedAnalysis]:
        tokens = []
        for number, (_, each) in enumerate(EntryAnalysis(analyst, process).tokens_of_bulk(entries)):
            if number % (2 * PART) == 1:
                for pid in process.pool.pids:
                    os.kill(pid, signal.SIGKILL)
            tokens.append(each)
        return tokens

    try:
        found = await asyncio.to_thread(work)
    finally:
        await process.close()
    assert found == [analyst.joined(entry.record.texts) for entry in entries]


def test_a_process_with_another_dictionary_analyzes_nothing() -> None:
    class Other(Japanese):
        def words(self, text: str) -> list[str]:
            return ["other", *text.split()]

    analyst, entries = RecordAnalyzer(SHAPE, Other("other")), _entries(PART)

    def work(analysis: EntryAnalysis) -> list[JoinedAnalysis]:
        return [tokens for _, tokens in analysis.tokens_of_bulk(entries)]

    tokens, _ = _tokens(work, analyst)
    assert tokens == [analyst.joined(entry.record.texts) for entry in entries]
    assert tokens[0]["j_body"].startswith("other ")
    request = packed_request(AnalysisRequest(("body",), analyst.fingerprint, [{"body": "rain"}]))
    assert read_answer(AnalysisWorker().respond(request)) is None


async def test_all_records_of_a_bulk_are_found_while_it_is_indexed_and_afterwards() -> None:
    texts = [f"rain{number % 7} 東京{number % 5}" for number in range(4 * MANY)]
    async with indexed(shape=BODY) as collection:
        await collection.upsert(bodies(texts))
        wanted = sum(text.startswith("rain3 ") for text in texts)
        assert len(await found(collection, "rain3", limit=1000)) == wanted
        await collection.engine.settle()
        assert lexical(collection).indexed == len(texts)
        assert len(await found(collection, "rain3", limit=1000)) == wanted
        assert await collection.engine.agrees()


async def test_an_index_that_is_closed_within_a_bulk_is_complete_after_the_next_opening(
    tmp_path: Path,
) -> None:
    async with indexed(tmp_path, BODY) as collection:
        await collection.upsert(bodies([f"rain{number}" for number in range(4 * MANY)]))
    async with indexed(tmp_path, BODY) as collection:
        assert await found(collection, f"rain{MANY + 1}") == [f"k{MANY + 1:03}"]
        assert await lexical(collection).agrees()
        assert lexical(collection).indexed == 4 * MANY
