"""Hybrid ranking of the embedded engine, compared with a reference implementation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tabane.errors import ModelUnavailable
from tabane.messages import say
from tabane.search.chunking import Estimate, Measure
from tabane.search.embedding.embedder import NoModel
from tabane.search.engine import (
    Collection,
    EngineHits,
    JoinedRecords,
    LexicalQuery,
    NearestRequest,
    VectorQuery,
)
from tabane.search.pipeline import (
    RankedRecord,
    diversified,
    hybrid,
    judged,
    reranked,
)
from tabane.search.records import (
    EVERYTHING,
    EmbeddingSpace,
    Equal,
    Field,
    Filter,
    Kind,
    Record,
    Shape,
    TextField,
)
from tabane.search.source import Reranker
from tests.engine.embedded.opening import EmbeddedCollection, indexed
from tests.engine.embedded.vectors.oracle import cosine, packed

T = TypeVar("T")

SHAPE = Shape("notes", (TextField("body"),), (Field("who", Kind.STRING),), (EmbeddingSpace("text", 3),))

WORDS = ["apple", "pear", "plum", "東京", "京都"]
NUMBERS = st.tuples(*[st.integers(-3, 3)] * 3).filter(any)
RECORDS = st.lists(
    st.tuples(st.lists(st.sampled_from(WORDS), max_size=4), st.none() | NUMBERS, st.sampled_from("ab")),
    max_size=15,
).map(
    lambda rows: [
        Record(
            key=f"k{number:02}",
            texts={"body": " ".join(words)},
            fields={"who": who},
            vectors={} if numbers is None else {"text": packed(numbers)},
        )
        for number, (words, numbers, who) in enumerate(rows)
    ]
)
QUESTIONS = st.tuples(st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join), NUMBERS)
WHERES: list[Filter] = [EVERYTHING, Equal("who", "a")]


@asynccontextmanager
async def holding(records: Sequence[Record], shape: Shape = SHAPE) -> AsyncIterator[EmbeddedCollection]:
    async with indexed(shape=shape) as collection:
        await collection.upsert(records)
        yield collection


def note(key: str, body: str, *numbers: float) -> Record:
    return Record(key=key, texts={"body": body}, vectors={"text": packed(numbers)} if numbers else {})


@pytest.mark.heavy("thousands of records")
@settings(max_examples=25, deadline=None)
@given(
    RECORDS,
    QUESTIONS,
    st.integers(1, 6),
    st.integers(0, 4),
    st.sampled_from(WHERES),
    st.none() | st.just(0.2),
)
async def test_it_is_the_fusion_of_both_rankings(
    records: list[Record],
    question: tuple[str, tuple[int, ...]],
    limit: int,
    offset: int,
    where: Filter,
    usual: float | None,
) -> None:
    async with holding(records) as collection:
        words, meaning = LexicalQuery(question[0]), VectorQuery({"text": packed(question[1])})
        lexical = await collection.search(words, where, 1000)
        nearest = await collection.nearest(meaning, where, 1000)
        whole = await hybrid(collection, words, meaning, where, 30, usual=usual)
        found = await hybrid(collection, words, meaning, where, limit, offset, usual=usual)
        assert found.hits == whole.hits[offset : offset + limit]
        keys = {hit.key for hit in (*lexical.hits, *nearest.hits)}
        assert {hit.key for hit in whole.hits} == keys
        assert found.total == len(keys)
        assert found.exact
        bm25 = {hit.key: hit.score for hit in lexical.hits}
        vectors = {record.key: record.vectors.get("text") for record in records}
        for hit in whole.hits:
            assert hit.bm25 == bm25.get(hit.key)
            vector = vectors[hit.key]
            if vector is None:
                assert hit.cosine is None
            else:
                assert hit.cosine == pytest.approx(cosine(vector, packed(question[1])), abs=1e-5)
            assert hit.parts is not None
            assert hit.score == pytest.approx(hit.parts.words + hit.parts.meaning)
            assert (hit.parts.words_rank is None) == (hit.bm25 is None)


async def test_what_both_find_is_before_what_one_finds() -> None:
    records = [note("both", "apple", 1, 0, 0), note("words", "apple", 0, 0, 1), note("far", "plum", 0, 1, 0)]
    async with holding(records) as collection:
        words, meaning = LexicalQuery("apple"), VectorQuery({"text": packed([1, 0.1, 0])})
        found = await hybrid(collection, words, meaning, EVERYTHING, 10)
    assert found.hits[0].key == "both"
    assert [hit.bm25 is not None for hit in sorted(found.hits, key=lambda hit: hit.key)] == [
        True,
        False,
        True,
    ]
    assert all(0 <= hit.score <= 1 for hit in found.hits)


async def test_the_best_score_is_low_if_nothing_fits() -> None:
    async with holding([note("near", "apple pear", 1, 0, 0), note("far", "plum", 0, 1, 0)]) as collection:
        best = {}
        for words, numbers in (("apple pear", (1, 0, 0)), ("pear 東京 京都", (1, 4, 9))):
            meaning = VectorQuery({"text": packed(numbers)})
            ranking = await hybrid(collection, LexicalQuery(words), meaning, EVERYTHING, 2, usual=0.0)
            best[words] = ranking.hits[0].score
            parts = ranking.hits[0].parts
            assert parts is not None
            assert parts.words + parts.meaning == pytest.approx(best[words])
    assert best["apple pear"] > 0.9
    assert best["pear 東京 京都"] < 0.6


async def test_a_threshold_is_for_meaning_and_words_stay() -> None:
    records = [note("words", "apple", 0, 0, 1), note("far", "plum", 0, 1, 0), note("near", "plum", 1, 0, 0)]
    async with holding(records) as collection:
        meaning = VectorQuery({"text": packed([1, 0, 0])}, threshold=0.5)
        found = await hybrid(collection, LexicalQuery("apple"), meaning, EVERYTHING, 10)
    assert sorted(hit.key for hit in found.hits) == ["near", "words"]


async def test_a_text_without_a_vector_yet_is_found_by_its_words() -> None:
    near = [note(f"near{number:02}", "plum", 1, number / 20, 0) for number in range(20)]
    records = [*near, note("bare", "apple pear"), note("other", "apple", 0, 1, 0)]
    async with holding(records) as collection:
        meaning = VectorQuery({"text": packed([1, 0, 0])})
        found = await hybrid(collection, LexicalQuery("apple pear"), meaning, EVERYTHING, 5)
    assert found.hits[0].key == "bare"
    assert {"near00", "near01"} <= {hit.key for hit in found.hits}


async def test_pages_of_one_ranking_alone_go_on_where_the_last_ended() -> None:
    records = [note(f"k{number}", "apple", 1, number, 0) for number in range(6)]
    async with holding(records) as collection:
        meaning = VectorQuery({"text": packed([1, 0, 0])})
        whole = await hybrid(collection, None, meaning, EVERYTHING, 6)
        first = await hybrid(collection, None, meaning, EVERYTHING, 3)
        second = await hybrid(collection, None, meaning, EVERYTHING, 3, 3)
    assert whole.hits == first.hits + second.hits
    assert all(one.score > other.score for one, other in zip(whole.hits, whole.hits[1:], strict=False))


class Asked:
    """A collection that notes what it is asked, in order."""

    def __init__(self, collection: EmbeddedCollection) -> None:
        self._collection = collection
        self.notes: list[str] = []
        self.proven: list[int | None] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    async def search(self, query: LexicalQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        self.notes.append("words")
        found = await self._collection.search(query, where, limit, offset)
        self.notes.append("found")
        return found

    async def nearest(self, query: VectorQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        self.notes.append("meaning")
        self.proven.append(query.proven)
        return await self._collection.nearest(query, where, limit, offset)

    async def together(
        self,
        work: Callable[[JoinedRecords], Coroutine[Any, Any, T]],
        *,
        long: bool = False,
        first: NearestRequest | None = None,
    ) -> T:
        return await work(cast(JoinedRecords, self))


@pytest.mark.parametrize(("limit", "proven"), [(10, 13), (2, 10)])
async def test_words_are_asked_before_meaning_and_what_counts_is_proven(limit: int, proven: int) -> None:
    """Side by side both take longer. What only fills the depth needs no proof."""
    async with holding([note(f"k{number}", "apple", 1, number, 0) for number in range(6)]) as collection:
        asked = Asked(collection)
        meaning = VectorQuery({"text": packed([1, 0, 0])})
        words = LexicalQuery("apple")
        await hybrid(cast(Collection, asked), words, meaning, EVERYTHING, limit, 3)
    assert asked.notes == ["words", "found", "meaning"]
    assert asked.proven == [proven]


class Proving(Asked):
    """A collection that proves all of the nearest."""

    async def nearest(self, query: VectorQuery, where: Filter, limit: int, offset: int = 0) -> EngineHits:
        return await self._collection.nearest(structs.replace(query, proven=None), where, limit, offset)


@pytest.mark.heavy("thousands of records")
async def test_the_first_are_the_same_as_if_all_of_the_nearest_were_proven() -> None:
    dimension, count = 96, 6000
    chance = np.random.default_rng(5)
    centres = chance.standard_normal((50, dimension), dtype=np.float32) + np.float32(0.7)
    vectors = centres[chance.integers(0, 50, count)]
    vectors += chance.standard_normal(vectors.shape, dtype=np.float32)
    records = [
        Record(key=f"k{number:04}", texts={"body": WORDS[number % 7 % 5]}, vectors={"text": vector.tobytes()})
        for number, vector in enumerate(vectors)
    ]
    shape = Shape("many", (TextField("body"),), (), (EmbeddingSpace("text", dimension),))
    async with holding(records, shape) as collection:
        proving = cast(Collection, Proving(collection))
        for number in range(25):
            near = vectors[number * 7] + chance.standard_normal(dimension, dtype=np.float32)
            words, meaning = LexicalQuery(WORDS[number % 5]), VectorQuery({"text": near.tobytes()})
            found = await hybrid(collection, words, meaning, EVERYTHING, 10)
            expected = await hybrid(proving, words, meaning, EVERYTHING, 10)
            assert found.hits == expected.hits


async def test_diversity_puts_what_is_new_before_what_says_the_same() -> None:
    records = [
        note("first", "", 1, 0.01, 0),
        note("echo", "", 1, 0, 0),
        note("other", "", 1, 1, 0),
        note("bare", ""),
    ]
    async with holding(records) as collection:
        ranked = [
            RankedRecord("first", 1, 1.0),
            RankedRecord("echo", 2, 0.99),
            RankedRecord("other", 3, 0.9),
            RankedRecord("bare", 4, 0.1),
        ]
        as_it_is = await diversified(collection, "text", ranked, 4, relevance=1.0)
        assert as_it_is == ranked
        found = await diversified(collection, "text", ranked, 3, relevance=0.5)
    assert [hit.key for hit in found] == ["first", "other", "bare"]


class Judge:
    """A reranker that likes long texts."""

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [float(len(text)) for text in texts]


async def test_reranking_gives_the_first_another_order_and_leaves_the_rest() -> None:
    ranked = [RankedRecord(f"k{number:02}", number, 1 - number / 100) for number in range(40)]

    texts = {hit.key: "x" * int(hit.key[1:]) for hit in ranked if hit.key != "k05"}
    order = await reranked(Judge(), "?", ranked, texts)
    assert [hit.key for hit in order[:3]] == ["k29", "k28", "k27"]
    assert [hit.key for hit in order[28:32]] == ["k00", "k05", "k30", "k31"]
    assert [hit.score for hit in order] == [hit.score for hit in ranked]


class Judges:
    """Models of which only the reranker is asked."""

    def __init__(self, judge: Reranker | None) -> None:
        self._judge = judge

    def measure(self) -> Measure:
        return Estimate(512, "estimate")

    def reranker(self) -> Reranker | None:
        return self._judge

    async def wanted(self) -> NoModel:
        return NoModel(say("Nothing was found."))

    async def for_tools(self) -> NoModel:
        return await self.wanted()

    async def serving(self, model: str) -> NoModel:
        return NoModel(say("Nothing was found."))

    async def query(self, model: str, text: str) -> NoModel:
        return NoModel(say("Nothing was found."))


class Broken:
    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        raise ModelUnavailable(say("Nothing was found."))


@pytest.mark.parametrize(("judge", "first"), [(None, "a"), (Broken(), "a"), (Judge(), "b")])
async def test_who_reads_the_hits_is_asked_where_there_is_one_and_never_costs_the_answer(
    judge: Reranker | None, first: str
) -> None:
    ranked = [RankedRecord("a", 1, 1.0), RankedRecord("b", 2, 0.5)]
    order = await judged(Judges(judge), "?", ranked, {"a": "x", "b": "xx"})
    assert [hit.key for hit in order] == sorted("ab", key=lambda key: key != first)
    assert [hit.score for hit in order] == [1.0, 0.5]
