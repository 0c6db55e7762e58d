"""Where a record stands, in the tail or in the index, is nobody's business: it ranks the same."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabane.search.engine import EngineHits, LexicalQuery, Mode
from tabane.search.records import EVERYTHING, Filter, Record, checked_filter, matches
from tests.engine.embedded.lexical.homes import lexical, scores
from tests.engine.embedded.opening import indexed
from tests.engine.embedded.shapes import FILTERS, RECORDS, SHAPE

_JAPANESE = [
    "東京",
    "京都",
    "東京都",
    "株価",
    "金利",
    "検索",
    "ブログ",
    "ログ",
    "サーバー",
    "の",
    "です",
    "ありがとう",
]
WORDS = [*_JAPANESE, "search", "index", "searching", "read_file", "Straße", "_", "É"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join) | st.lists(st.sampled_from(WORDS)).map(
    "".join
)
QUERIES = st.builds(
    LexicalQuery,
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
    st.sampled_from(Mode),
    st.lists(st.sampled_from(WORDS), max_size=1).map(tuple),
    st.booleans(),
    st.sampled_from([None, None, ("body",)]),
    st.lists(st.sampled_from(WORDS), max_size=1).map(tuple),
)
RECORDS_OF_WORDS = st.lists(
    st.builds(
        Record,
        key=st.integers(0, 99).map("k{}".format),
        texts=st.fixed_dictionaries({}, optional={"title": TEXTS, "body": TEXTS}),
    ),
    max_size=30,
    unique_by=lambda record: record.key,
)
SLOW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


async def placed(parts: list[list[Record]], queries: list[LexicalQuery], limit: int) -> list[EngineHits]:
    """Search records of which all parts but the last are in the index, each in a segment of its own."""
    async with indexed() as collection:
        for part in parts[:-1]:
            await collection.upsert(part)
            await lexical(collection).settled()
        await collection.upsert(parts[-1])
        return [await collection.search(query, EVERYTHING, limit) for query in queries]


def same(one: EngineHits, other: EngineHits, whole: bool) -> None:
    if whole:
        assert scores(one).keys() == scores(other).keys()
    assert [hit.score for hit in one.hits] == pytest.approx([hit.score for hit in other.hits], rel=1e-5)


@pytest.mark.heavy("thousands of records")
@SLOW
@given(
    RECORDS_OF_WORDS, st.lists(QUERIES, min_size=1, max_size=6), st.integers(0, 30), st.sampled_from([3, 100])
)
async def test_tail_and_index_rank_alike(
    records: list[Record], queries: list[LexicalQuery], cut: int, limit: int
) -> None:
    tail = await placed([records], queries, limit)
    index = await placed([records, []], queries, limit)
    mixed = await placed([records[:cut], records[cut:]], queries, limit)
    segments = await placed([records[:cut], records[cut:], []], queries, limit)
    for query, expected, *others in zip(queries, tail, index, mixed, segments, strict=True):
        for other in others:
            same(expected, other, limit == 100)
        assert expected.total == mixed[queries.index(query)].total or limit == 3


@SLOW
@given(st.lists(RECORDS, max_size=20), st.lists(FILTERS, min_size=1, max_size=5), st.integers(0, 20))
async def test_filters_mean_the_same_in_tail_and_index(
    records: list[Record], filters: list[Filter], cut: int
) -> None:
    records = [
        Record(
            key=each.key,
            texts={**each.texts, "title": each.texts.get("title", "") + " word"},
            fields=each.fields,
        )
        for each in records
    ]

    async with indexed() as collection:
        await collection.upsert(records[:cut])
        await lexical(collection).settled()
        await collection.upsert(records[cut:])
        for _ in range(2):
            page = await collection.select(EVERYTHING)
            for where in filters:
                meant = [
                    each.record.key
                    for each in page.records
                    if matches(checked_filter(where, SHAPE), each.record)
                ]
                hits = await collection.search(LexicalQuery("word"), where, 100)
                assert sorted(hit.key for hit in hits.hits) == sorted(meant), where
                selected = await collection.select(where)
                assert sorted(each.record.key for each in selected.records) == sorted(meant), where
            await lexical(collection).settled()
