"""What is newer than the index is found as it is now, whatever was asked before."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.engine.embedded.lexical.memory_segment import (
    SPELLED_AT_ONCE,
    MemorySegment,
    PreparedTokens,
    SegmentEntry,
    prepare_tokens,
)
from tabane.engine.query_plans import (
    AllOf,
    AnyOf,
    Match,
    PhraseMatch,
    PrefixMatch,
    RecordAnalyzer,
    TermMatch,
    needle,
)
from tabane.search.analysis import GAP
from tabane.search.engine import LexicalQuery
from tabane.search.records import EVERYTHING, Record, Shape, TextField
from tests.engine.embedded.opening import indexed

SHAPE = Shape("notes", (TextField("body"),))
ASKED = [
    LexicalQuery("rain"),
    LexicalQuery("rai", prefix=True),
    LexicalQuery("", phrases=("rain snow",)),
    LexicalQuery("wind", exclude=("rain",)),
]


async def test_a_word_that_was_asked_for_is_found_in_what_comes_and_not_in_what_goes(tmp_path: Path) -> None:
    async with indexed(tmp_path, SHAPE) as collection:

        async def found() -> list[set[str]]:
            answers = [await collection.search(query, EVERYTHING, 10) for query in ASKED]
            return [{hit.key for hit in hits.hits} for hits in answers]

        async def put(key: str, body: str) -> list[set[str]]:
            await collection.upsert([Record(key=key, texts={"body": body})])
            return await found()

        steps = [await put("a", "rain snow wind"), await put("b", "wind rain"), await put("c", "wind")]
        steps += [await put("a", "wind"), await put("c", "rain snow rain")]
        await collection.delete(["b"])
        answer = [*steps, await found()]
    assert answer == [
        [{"a"}, {"a"}, {"a"}, set()],
        [{"a", "b"}, {"a", "b"}, {"a"}, set()],
        [{"a", "b"}, {"a", "b"}, {"a"}, {"c"}],
        [{"b"}, {"b"}, set(), {"a", "c"}],
        [{"b", "c"}, {"b", "c"}, {"c"}, {"a"}],
        [{"c"}, {"c"}, {"c"}, {"a"}],
    ]


WORDS = st.sampled_from(["rain", "rainy", "snow", "東京", "京都", "…", ""])
TEXTS = st.lists(st.lists(WORDS, max_size=6).map(" ".join), min_size=1, max_size=8)
MATCHES: list[Match] = [
    TermMatch("t_body", "rain"),
    TermMatch("t_body", "absent"),
    PrefixMatch("t_body", "rai"),
    PrefixMatch("t_body", "z"),
    PhraseMatch("t_body", ((0, "rain"), (1, "snow"))),
    AllOf((TermMatch("t_body", "snow"), PrefixMatch("t_body", "r"))),
    AnyOf((TermMatch("t_body", "rain"), TermMatch("u_body", "東"))),
]


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS, st.sets(st.integers(1, 16), max_size=6), st.booleans())
def test_tokens_as_numbers_are_found_as_tokens_are(
    first: list[str], second: list[str], gone: set[int], asked_before: bool
) -> None:
    """Two batches, and some rows that go again: every answer is as if each text was counted for itself."""
    analyst = RecordAnalyzer(SHAPE, None)
    plain, coded = MemorySegment(analyst), MemorySegment(analyst)
    row = 0
    for batch in (first, second):
        records = [Record(key=str(number), texts={"body": text}) for number, text in enumerate(batch)]
        ready = prepare_tokens([analyst.analysis(record.texts) for record in records])
        for record, each in zip(records, ready, strict=True):
            row += 1
            plain.add([SegmentEntry(row, record)])
            coded.add([SegmentEntry(row, record, *(each if row % 4 else PreparedTokens()))])
        if asked_before:
            assert [coded.rows(match) for match in MATCHES] == [plain.rows(match) for match in MATCHES]
    for tail in (plain, coded):
        tail.remove(gone)
    assert [coded.rows(match) for match in MATCHES] == [plain.rows(match) for match in MATCHES]
    for name in analyst.spaces():
        one, other = plain.space(name), coded.space(name)
        assert one.lengths == other.lengths
        assert one.total == other.total
        for token in ("rain", "snow", "東京", "absent", GAP):
            assert one.having(token) == other.having(token)
        for beginning in ("rai", "東", "z", ""):
            assert one.beginning(beginning) == other.beginning(beginning)


LETTERS = "あいう東 _-😀a"
SPELLED = st.lists(st.text(st.sampled_from("あいう東 \n_-ー😀a"), max_size=9), min_size=1, max_size=6)


@settings(max_examples=100, deadline=None)
@given(
    SPELLED,
    SPELLED,
    st.sets(st.integers(1, 12), max_size=4),
    st.text(LETTERS, min_size=1, max_size=5),
)
def test_pairs_are_found_as_tokens_are(
    first: list[str], second: list[str], gone: set[int], wanted: str
) -> None:
    """Every answer is that of the tokens of each text."""
    analyst, name = RecordAnalyzer(SHAPE, None), "s_body"
    segment = MemorySegment(analyst)
    tokens: dict[int, list[str]] = {}
    for batch in (first, second):
        entries = [
            SegmentEntry(len(tokens) + at, Record(key=str(at), texts={"body": text}))
            for at, text in enumerate(batch, 1)
        ]
        segment.add(entries)
        tokens |= {entry.row: analyst.pairs(entry.record.texts["body"]) for entry in entries}
        segment.space(name)
    segment.remove(gone)
    tokens = {row: found for row, found in tokens.items() if row not in gone}
    assert segment.space(name).total == sum(map(len, tokens.values()))
    for token in {token for found in tokens.values() for token in found} | {"ああ", "あ"}:
        having = {row: found.count(token) for row, found in tokens.items() if token in found}
        assert segment.having(TermMatch(name, token)) == having
        starts = PrefixMatch(name, token[0])
        beginning = {each for found in tokens.values() for each in found if each[0] == token[0]}
        assert segment.beginning(starts) == {
            each: sum(each in found for found in tokens.values()) for each in beginning
        }
        assert segment.rows(starts) == {
            row for row, found in tokens.items() if any(each[0] == token[0] for each in found)
        }
    spelled = analyst.pairs(wanted)
    whole = " ".join(spelled[:-1] if len(spelled) > 1 else spelled)
    if len(spelled) > 1:
        rows = {row for row, found in tokens.items() if f" {whole} " in f" {' '.join(found)} "}
        assert segment.rows(needle(wanted, ["body"])) == rows


def test_a_search_spells_a_part_of_very_many_texts_and_says_that_it_is_not_all() -> None:
    long = "ひらがな" * (SPELLED_AT_ONCE // 6)
    segment = MemorySegment(RecordAnalyzer(SHAPE, None))
    segment.add([SegmentEntry(row, Record(key=str(row), texts={"body": long})) for row in (1, 2, 3)])
    found: list[tuple[int, bool]] = []
    for _ in range(2):
        segment.begin_search()
        found.append((len(segment.rows(needle("らがな", ["body"]))), segment.whole))
    assert found == [(2, False), (3, True)]
