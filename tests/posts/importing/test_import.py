"""Imports synchronize a collection with its sources: once, again, and with more or fewer sources."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.errors import BadArguments
from tabane.posts.importing.importer import import_posts, plan
from tabane.posts.post import Post
from tabane.search.engine import Collection
from tabane.search.records import EmbeddingSpace
from tests.posts.importing.archives import (
    DIMENSION,
    FIRST,
    MODEL,
    Told,
    all_in,
    do_import,
    outcome,
    posts_in,
    row,
    vector,
    with_store,
    write_csv,
    write_results,
    write_vectors,
    write_zip,
)

A, B, C, D = range(FIRST, FIRST + 4)
RESULTS = [
    {"key": post, "reasoning": f"why {post}", "summary": f"what {post}", "tags": ["t"]} for post in (A, B)
]
VECTORS = {post: vector(post % 10 + 1, 1, 2, 3) for post in (A, B, C)}


@pytest.fixture
def setup(tmp_path: Path) -> Path:
    """The folder of an original set-up: three posts, results of two, vectors of three."""
    folder = tmp_path / "setup"
    folder.mkdir()
    write_csv(folder / "twilog.csv", [row(A, "one"), row(B, "two @x"), row(C, "three")])
    write_results(folder / "batch" / "results.jsonl", RESULTS)
    write_vectors(folder / "embeddings", VECTORS, csv_path="twilog.csv")
    write_vectors(folder / "batch" / "reasoning", {post: VECTORS[post] for post in (A, B)})
    write_vectors(folder / "batch" / "summary", {post: VECTORS[post] for post in (A, B)})
    return folder


def test_everything_of_an_original_set_up_is_there_afterwards(setup: Path, tmp_path: Path) -> None:
    report = do_import(tmp_path / "home", [str(setup)], zone=ZoneInfo("Asia/Tokyo"))
    assert outcome(report) == {"new": 3, "vectors": 7}
    found = all_in(tmp_path / "home")
    assert found[A] == (
        Post(
            post_id=A,
            content="one",
            timestamp="2024-03-15 14:30:25",
            url=f"https://x.com/alice/status/{A}",
            user="alice",
            at=1710480625,
            reasoning=f"why {A}",
            summary=f"what {A}",
            tags=("t",),
        ),
        dict.fromkeys(("content", "reasoning", "summary"), VECTORS[A]),
    )
    assert found[C][1] == {"content": VECTORS[C]}

    async def spaces(collection: Collection) -> tuple[EmbeddingSpace, ...]:
        return collection.spaces

    assert with_store(tmp_path / "home", spaces) == tuple(
        EmbeddingSpace(name, DIMENSION, MODEL) for name in ("content", "reasoning", "summary")
    )


def test_a_second_import_changes_nothing_and_a_third_what_is_new_or_changed(
    setup: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    do_import(home, [str(setup)])
    before = all_in(home)
    assert outcome(do_import(home, [str(setup)])) == {"unchanged": 3}
    assert all_in(home) == before
    write_csv(
        setup / "twilog.csv",
        [row(A, "one!"), row(B, "two  @y https://t.co/z"), row(C, "three"), row(D, "four")],
    )
    (setup / "embeddings").rename(setup / "elsewhere")
    assert outcome(do_import(home, [str(setup)])) == {"new": 1, "changed": 2, "unchanged": 1}
    found = all_in(home)
    assert found[A][0].content == "one!"
    assert found[A][1] == {"reasoning": VECTORS[A], "summary": VECTORS[A]}  # of texts that are the same
    assert found[B][0].content == "two  @y https://t.co/z"
    assert found[B][1] == before[B][1]  # what is embedded of it is the same
    assert found[C] == before[C]


def test_sources_may_come_one_after_the_other_and_none_takes_what_another_gave(
    setup: Path, tmp_path: Path
) -> None:
    home, at_once = tmp_path / "home", tmp_path / "at_once"
    csv, results = str(setup / "twilog.csv"), str(setup / "batch" / "results.jsonl")
    folders = [str(setup / place) for place in ("embeddings", "batch/reasoning", "batch/summary")]
    (setup / "elsewhere").mkdir()
    assert outcome(do_import(home, [csv])) == {"new": 3}
    assert outcome(do_import(home, [results])) == {"changed": 2}
    assert outcome(do_import(home, folders[2:])) == {"changed": 2, "vectors": 2}
    assert outcome(do_import(home, folders)) == {"changed": 3, "vectors": 5}
    assert outcome(do_import(home, [csv])) == {"unchanged": 3}
    do_import(at_once, [str(setup)])
    assert all_in(home) == all_in(at_once)


def test_vectors_that_differ_take_the_place_of_those_there_are(setup: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    do_import(home, [str(setup)])
    write_vectors(setup / "embeddings", VECTORS | {A: vector(9, 9, 9, 9)}, csv_path="twilog.csv")
    assert outcome(do_import(home, [str(setup)])) == {"changed": 1, "unchanged": 2, "vectors": 1}
    assert all_in(home)[A][1] == {
        "content": vector(9, 9, 9, 9),
        "reasoning": VECTORS[A],
        "summary": VECTORS[A],
    }


def test_prune_removes_what_no_row_is_about_and_spares_posts_whose_row_is_bad(
    setup: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    do_import(home, [str(setup)])
    write_csv(setup / "twilog.csv", [row(A, "one"), row(B, "two", timestamp="?"), row(D, "four")])
    report = do_import(home, [str(setup)], prune=True)
    assert outcome(report) == {"new": 1, "unchanged": 2, "removed": 1, "bad": 1}
    assert sorted(posts_in(home)) == [A, B, D]
    with pytest.raises(BadArguments, match="prune needs a source of posts"):
        do_import(home, [str(setup / "batch" / "results.jsonl")], prune=True)


def test_prune_removes_nothing_where_a_source_was_not_read_to_its_end(setup: Path, tmp_path: Path) -> None:
    do_import(tmp_path / "home", [str(setup)])
    cut = b'window.YTD.tweets.part0 = [ {"tweet": {"id_str": "7", "full_text": "x"}}, {"tweet"'
    report = do_import(tmp_path / "home", [write_zip(tmp_path / "x.zip", tweets=cut)], prune=True)
    assert outcome(report) == {"new": 1, "bad": 1}
    assert not report.whole


def test_of_the_rows_of_one_post_the_larger_log_type_wins(tmp_path: Path) -> None:
    rows = [
        row(A, "post"),
        row(A, "bookmark", log_type=3),
        row(A, "like", log_type=2),
        row(B, "x"),
        row(A, "post"),
    ]
    path = write_csv(
        tmp_path / "twilog.csv", [*rows, *(row(number, "y") for number in range(1, 1200)), rows[0]]
    )
    assert outcome(do_import(tmp_path / "home", [path])) == {"new": 1201, "duplicates": 4}
    found = posts_in(tmp_path / "home")
    assert (found[A].content, found[A].log_type) == ("bookmark", 3)
    assert outcome(do_import(tmp_path / "home", [path])) == {"unchanged": 1201, "duplicates": 4}


def test_a_larger_log_type_that_comes_much_later_wins_too(tmp_path: Path) -> None:
    rows = [row(A, "post"), *(row(number, "y") for number in range(1, 1200)), row(A, "bookmark", log_type=3)]
    path = write_csv(tmp_path / "twilog.csv", rows)
    assert outcome(do_import(tmp_path / "home", [path])) == {"new": 1200, "duplicates": 1}
    assert posts_in(tmp_path / "home")[A].content == "bookmark"


def test_a_csv_and_an_archive_of_x_complete_each_other(tmp_path: Path) -> None:
    csv = write_csv(tmp_path / "twilog.csv", [row(A, "of twilog", timestamp="")])
    tweets = [
        {"tweet": {"id_str": str(post), "full_text": "of X", "created_at": "Fri Mar 15 06:30:25 +0000 2024"}}
        for post in (A, B)
    ]
    archive = write_zip(tmp_path / "x.zip", tweets=tweets, account=[{"account": {"username": "alice"}}])
    for expected in ({"new": 2, "duplicates": 1}, {"unchanged": 2, "duplicates": 1}):
        assert outcome(do_import(tmp_path / "home", [archive, csv])) == expected
    found = posts_in(tmp_path / "home")
    assert {post: each.content for post, each in found.items()} == {A: "of twilog", B: "of X"}


def test_what_no_post_has_is_counted_where_it_comes_from(setup: Path, tmp_path: Path) -> None:
    write_csv(setup / "twilog.csv", [row(A, "one")])
    report = do_import(tmp_path / "home", [str(setup)])
    assert {each.kind: (each.read, each.unknown) for each in report.sources} == {
        "twilog.csv": (1, 0),
        "results": (2, 1),
        "vectors of content": (3, 2),
        "vectors of reasoning": (2, 1),
        "vectors of summary": (2, 1),
    }
    assert sorted(posts_in(tmp_path / "home")) == [A]


def test_vectors_that_are_none_are_told_and_the_rest_is_taken(setup: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    bad = {B: vector(0, 0, 0, 0), C: vector(float("nan"), 1, 1, 1)}
    write_vectors(setup / "embeddings", VECTORS | bad, csv_path="twilog.csv")
    report = do_import(home, [str(setup)])
    assert outcome(report) == {"new": 3, "vectors": 5, "bad": 2}
    assert sorted(each.post_id for each in report.bad_rows) == [B, C]
    assert all("not all 0" in str(each.reason) for each in report.bad_rows)
    again = do_import(home, [str(setup)])  # now they are given to posts that are there
    assert outcome(again) == {"unchanged": 3, "bad": 2}
    found = all_in(home)
    assert [sorted(found[post][1]) for post in (A, B, C)] == [
        ["content", "reasoning", "summary"], ["reasoning", "summary"], []
    ]  # fmt: skip


def test_vectors_of_another_model_or_dimension_are_refused_before_anything_is_written(
    setup: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    do_import(home, [str(setup)])
    before = all_in(home)
    write_csv(setup / "twilog.csv", [row(D, "four")])
    write_vectors(setup / "other", VECTORS, model="other/model")
    with pytest.raises(BadArguments, match="other/model"):
        do_import(home, [str(setup / "twilog.csv"), str(setup / "other")])
    assert all_in(home) == before
    short = write_vectors(setup / "batch" / "summary", {A: vector(1, 2, 3)}, dimension=3)
    with pytest.raises(BadArguments, match=f"{setup}/embeddings has vectors of 4, but {short} of 3"):
        do_import(home, [str(setup)])


def test_a_space_that_knows_its_model_more_exactly_takes_vectors_of_that_model(
    setup: Path, tmp_path: Path
) -> None:
    async def made(collection: Collection) -> None:
        await collection.add_space(EmbeddingSpace("content", DIMENSION, f"{MODEL}#0123"))

    with_store(tmp_path / "home", made)
    do_import(tmp_path / "home", [str(setup / "twilog.csv")])
    assert outcome(do_import(tmp_path / "home", [str(setup / "embeddings")])) == {
        "changed": 3, "vectors": 3
    }  # fmt: skip


def test_bad_rows_are_in_the_report_and_all_of_them_in_its_file(tmp_path: Path) -> None:
    rows = [row(A, "one"), *(["x"] for _ in range(1200)), row(B, "two", log_type=9)]
    path, written = write_csv(tmp_path / "twilog.csv", rows), tmp_path / "reports" / "import.jsonl"
    report = do_import(tmp_path / "home", [path], report_path=str(written), lang="ja")
    assert outcome(report) == {"new": 1, "bad": 1201}
    assert len(report.bad_rows) == 1000
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    assert [each["line"] for each in lines[:-1]] == list(range(2, 1203))
    assert lines[1200] == {
        "file": path,
        "line": 1202,
        "reason": "log_type は 1、2、3 のいずれかにしてください (「9」は使えません)",
        "post_id": str(B),
    }
    assert lines[-1]["summary"]["bad"] == 1201
    assert written.stat().st_mode & 0o777 == 0o600
    plain = json.loads(json.dumps(report.plain("en")))
    assert plain["bad_rows"][0] == {"file": path, "line": 2, "reason": "1 column instead of 5"}


def test_progress_goes_from_nothing_to_all_of_the_bytes(setup: Path, tmp_path: Path) -> None:
    progress = Told()
    write_csv(setup / "twilog.csv", [row(post, "post") for post in (A, B, *range(1, 2000))])
    do_import(tmp_path / "home", [str(setup)], progress)
    done = [done for done, _ in progress.told]
    assert done == sorted(done)
    assert len({total for _, total in progress.told}) == 1
    assert progress.told[-1][0] == progress.told[-1][1]
    assert len(done) > 4
    assert progress.notes[-1].endswith(": 2,001 new, 0 changed")


def test_an_import_that_is_cancelled_goes_on_where_it_stood(tmp_path: Path) -> None:
    home = tmp_path / "home"
    path = write_csv(tmp_path / "twilog.csv", [row(FIRST + number, f"{number}") for number in range(5000)])

    class Enough(Told):
        task: asyncio.Task[object]

        def tell(self, done: int, total: int | None = None, note: object = None) -> None:
            if done > (total or 0) // 2:
                self.task.cancel()

    async def interrupted(collection: Collection) -> None:
        progress = Enough()
        progress.task = asyncio.create_task(import_posts(collection, plan([path]), progress, UTC))
        with pytest.raises(asyncio.CancelledError):
            await progress.task

    with_store(home, interrupted)
    there = len(posts_in(home))
    assert 0 < there < 5000
    report = do_import(home, [path])
    assert (report.unchanged, report.new) == (there, 5000 - there)


def test_a_file_that_may_not_be_read_is_said_to_be_so(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "twilog.csv", [row(A, "one")])
    with pytest.raises(BadArguments, match=r"twilog\.csv: "):
        do_import(tmp_path / "home", [path], report_path=path + "/x.jsonl")


# Against a plain model: rows, results and vectors of few posts, in several imports

CONTENTS = st.sampled_from(["", "one", "two", "@a one"])
ROWS = st.lists(st.tuples(st.integers(1, 5), CONTENTS, st.integers(1, 3)), min_size=1, max_size=8)
NOTES = st.dictionaries(st.integers(1, 6), st.sampled_from(["s1", "s2"]), max_size=4)
IMPORTS = st.lists(st.tuples(ROWS, NOTES, st.booleans()), min_size=1, max_size=3)


def modelled(
    known: dict[int, tuple[str, int, str]], imported: tuple[list[tuple[int, str, int]], dict[int, str], bool]
) -> None:
    """Post → content, log_type and summary, as the documents say it."""
    rows, notes, prune = imported
    for post in {post for post, _, _ in rows}:
        of_post = [(content, log_type) for number, content, log_type in rows if number == post]
        largest = max(log_type for _, log_type in of_post)
        candidates = [content for content, log_type in of_post if log_type == largest]
        content = candidates[0]
        old, old_type, summary = known.get(post, ("", 0, ""))
        if largest < old_type:
            content, largest = old, old_type
        known[post] = (content or old, largest, summary)
    for post, summary in notes.items():
        if post in known:
            known[post] = (*known[post][:2], summary)
    if prune:
        for post in known.keys() - {post for post, _, _ in rows}:
            del known[post]


@settings(max_examples=25, deadline=None)
@given(IMPORTS)
def test_several_imports_end_where_a_plain_model_does(
    tmp_path_factory: pytest.TempPathFactory,
    imports: list[tuple[list[tuple[int, str, int]], dict[int, str], bool]],
) -> None:
    folder = tmp_path_factory.mktemp("model")
    known: dict[int, tuple[str, int, str]] = {}
    for imported in imports:
        rows, notes, prune = imported
        # A gap is filled by another row of the same post: the model leaves such rows out.
        rows = [each for each in rows if each[1]] or [(1, "one", 1)]
        sources = [
            write_csv(folder / "twilog.csv", [row(post, text, log_type=kind) for post, text, kind in rows])
        ]
        if notes:
            lines = [{"key": post, "summary": summary} for post, summary in notes.items()]
            sources.append(write_results(folder / "r.jsonl", lines))
        report = do_import(folder / "home", sources, prune=prune)
        modelled(known, (rows, notes, prune))
        assert report.duplicates == len(rows) - len({post for post, _, _ in rows})
    found = posts_in(folder / "home")
    assert {post: (each.content, each.log_type, each.summary) for post, each in found.items()} == known
