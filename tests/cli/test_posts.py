"""`tabane posts` as a user runs it: an archive imported, searched, shown and exported."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabane.cli.post_options import PRESETS, weights_name, weights_of
from tabane.cli.terminal_text import cells, wrapped
from tabane.errors import CallerError
from tests.harness.archive import POSTS, archive_hub, with_model, write_archive
from tests.harness.home import LIMIT, Home, hub
from tests.posts.importing.archives import row, write_csv


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Five posts, with vectors of a model that is there."""
    with archive_hub(tmp_path_factory.mktemp("home")) as home:
        yield home


def ids(home: Home, *arguments: str) -> list[int]:
    done = home.run("posts", *arguments, "--json")
    assert done.status == 0, done.err
    return [found.get("post", found)["post_id"] for found in done.json]


# -- import --------------------------------------------------------------------------------------


def test_what_was_taken_in_is_told_source_by_source_and_a_second_time_changes_nothing(tmp_path: Path) -> None:
    home = with_model(tmp_path, model="none")
    files = write_archive(tmp_path / "archive")
    with hub(home):
        first = home.run("posts", "import", files["csv"], "-e", files["-e"])
        assert first.rows[0] == ["twilog.csv", "posts (CSV)", "5", "0", "0", "0"]
        assert first.rows[1][:3] == ["embeddings", "vectors of contents", "5"]
        assert first.out.splitlines()[-1].startswith("5 new, 0 changed, 0 unchanged, 0 removed; 5 vectors")
        again = home.run("posts", "import", files["csv"], "-e", files["-e"], "--json").json
        assert (again["new"], again["changed"], again["unchanged"]) == (0, 0, 5)
        write_csv(Path(files["csv"]), POSTS[1:])
        pruned = home.run("posts", "import", files["csv"], "--prune", "--json").json
        assert pruned["removed"] == 1


def test_rows_that_cannot_be_used_are_shown_with_their_lines_and_hold_up_nothing(tmp_path: Path) -> None:
    home = with_model(tmp_path, model="none")
    bad = [["x" * n, "", "", "", "1"] for n in range(1, 13)]
    write_csv(tmp_path / "twilog.csv", [*POSTS[:2], *bad, *POSTS[2:]])
    with hub(home):
        done = home.run("posts", "import", "twilog.csv", "--report", "bad.jsonl")
        assert done.status == 0
        assert "5 new" in done.out
        lines = done.err.splitlines()
        assert "12 rows could not be used:" in lines
        assert any(f"{tmp_path / 'twilog.csv'}:3: " in line for line in lines)
        assert any("and 2 more" in line and "bad.jsonl" in line for line in lines)
        report = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
        assert [entry["line"] for entry in report[:-1]] == list(range(3, 15))
        assert "finds them by keywords only" in done.err


def test_what_is_no_archive_is_the_callers_mistake(home: Home) -> None:
    for arguments, word in (((), "Give at least one file"), (("nothing.csv",), "nothing.csv does not exist")):
        done = home.run("posts", "import", *arguments)
        assert done.status == 2
        assert word in done.err


def test_folders_without_a_model_are_refused_at_once(tmp_path: Path) -> None:
    home = with_model(tmp_path)
    files = write_archive(tmp_path / "archive")
    meta = Path(files["-e"]) / "meta.json"
    meta.write_text(json.dumps({k: v for k, v in json.loads(meta.read_text()).items() if k != "model"}))
    done = home.run("posts", "import", files["csv"], "-e", files["-e"])
    assert done.status == 2
    assert "model" in done.err
    assert home.run("stop").status == 0


# -- questions -----------------------------------------------------------------------------------


def test_posts_are_found_by_meaning_and_text(home: Home) -> None:
    done = home.run("posts", "search", "the red house|猫")
    assert done.status == 0, done.err
    first, _, head, body = done.out.splitlines()[:4]
    assert first == '🔍 Search results: 1 (query: "the red house|猫")'
    assert head.startswith("1. [")
    assert head.endswith("@alice (2023-03-01 10:00:00) https://x.com/alice/status/1")
    assert body == "   赤い猫が家にいる"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--user", "Alice"], {1, 2}),
        (["--user", "alice", "--user", "@hanako"], {1, 2, 5}),
        (["--not-user", "alice"], {3, 4, 5}),
        (["--max-posts", "1"], {5}),
        (["--from", "2024-05-01", "--to", "20240601"], {3, 4}),
        (["--tag", "t3", "--tag", "t4"], {3, 4}),
        (["--type", "like", "--type", "bookmark"], {3, 4}),
        (["--top-k", "2"], {1, 2, 3, 4, 5}),
        (["--mode", "average", "--weights", "0/1/0"], {1, 2, 3, 4, 5}),
        (["--weights", "equal"], {1, 2, 3, 4, 5}),
    ],
)
def test_options_narrow_what_is_found(home: Home, options: list[str], found: set[int]) -> None:
    got = ids(home, "search", "the red house", *options)
    assert set(got) <= found
    assert len(got) == (2 if "--top-k" in options else len(found))


def test_what_the_hub_refuses_is_wrong_usage_with_its_words(home: Home) -> None:
    for options, word in (
        (["--from", "soon"], "date_filter.from"),
        (["--weights", "1/2"], "1/2 are not weights"),
        (["--mode", "content", "--weights", "equal"], "weights can be used with mode average or weighted"),
        (["--user", "a", "--not-user", "b"], "cannot be used together"),
    ):
        done = home.run("posts", "search", "x", *options)
        assert (done.status, done.out) == (2, ""), options
        assert word in done.err


def test_users_who_are_not_there_are_answered_with_those_who_may_be_meant(home: Home) -> None:
    done = home.run("posts", "search", "x", "--user", "alcie")
    assert "There is no user alcie. Did you mean alice" in done.err
    assert home.run("posts", "suggest", "alcie", "bob", "--json").json["alcie"][0] == "alice"
    assert home.run("posts", "suggest", "alcie").rows[0][1].startswith("alice, ")
    assert "All of these users" in home.run("posts", "suggest", "BOB").err


def test_words_alone_are_found_newest_first(home: Home) -> None:
    assert ids(home, "text", "the -blue") == [5, 2]
    assert ids(home, "text", "summary", "--source", "summary") == [4, 3, 2, 1]
    assert '📝 テキスト検索結果: 1件 (検索語: "犬")' in home.run(
        "posts", "text", "犬", environment={"TABANE_LANG": "ja"}
    ).out  # fmt: skip


def test_hybrid_without_a_model_says_what_it_lacks(tmp_path: Path) -> None:
    home = with_model(tmp_path, model="none")
    write_archive(tmp_path / "archive")
    with hub(home):
        home.run("posts", "import", "archive/twilog.csv")
        found = home.run("posts", "search", "house", "--mode", "hybrid", "--json")
        assert [row["post"]["post_id"] for row in found.json] == [2]
        assert found.err.count("keywords only") == 1
        usual = home.run("posts", "search", "house", "--json")
        assert [row["post"]["post_id"] for row in usual.json] == [2]
        assert usual.err.count("keywords only") == 1
        assert home.run("posts", "search", "house", "--mode", "content").status == 2


def test_a_post_and_those_near_to_it(home: Home) -> None:
    shown = home.run("posts", "show", "4").out
    assert "a cat sat & 犬" in shown
    for word in ("bookmark", "summary 4", "reason 4", "#動物 #t4"):
        assert word in shown
    assert len(ids(home, "related", "1", "--limit", "3")) == 3
    assert home.run("posts", "show", "99").status == 2


def test_the_archive_is_counted(home: Home) -> None:
    stats = home.run("posts", "stats", "--json").json
    assert (stats["total_posts"], stats["total_users"]) == (5, 3)
    assert [(row["value"], row["post_count"]) for row in stats["results"]][:2] == [("alice", 2), ("bob", 2)]
    tags = home.run("posts", "stats", "--by", "tag", "--user", "bob").rows
    assert ["動物", "2"] in tags
    assert home.run("posts", "stats", "--by", "type", "--json").json["results"][0] == {
        "value": "post", "post_count": 3,
    }  # fmt: skip
    assert home.run("posts", "users").out.splitlines() == ["alice", "bob", "hanako"]
    assert home.run("posts", "timeline", "--unit", "year").rows == [
        ["2023", "2"],
        ["2024", "2"],
        ["2025", "1"],
    ]
    assert home.run("posts", "timeline", "--user", "bob").rows == [["2024-05", "1"], ["2024-06", "1"]]


def test_posts_are_among_everything(home: Home) -> None:
    done = home.run("search", "house", "--in", "posts", "--json")
    assert done.json["results"][0]["open"] == "tabane posts get 2"
    assert home.run(*done.json["results"][0]["open"].split()[1:]).status == 0


# -- how it looks --------------------------------------------------------------------------------


def test_a_terminal_is_told_in_colours_and_nobody_else_moves_its_cursor(home: Home) -> None:
    shown = home.run_on_terminal("posts", "search", "red|last").out
    assert "\x1b[31m" not in shown
    assert "\n   red\n" in shown.replace("\r", "")
    assert "\x1b[36m" in shown
    home.environment["NO_COLOR"] = "1"
    try:
        assert "\x1b" not in home.run_on_terminal("posts", "search", "red|last").out
    finally:
        del home.environment["NO_COLOR"]


@pytest.mark.parametrize("view", ["normal", "list", "detail"])
@pytest.mark.parametrize("columns", [40, 100])
def test_views_fit_the_terminal_and_their_columns_stand_below_each_other(
    home: Home, view: str, columns: int
) -> None:
    home.environment["NO_COLOR"] = "1"
    try:
        shown = home.run_on_terminal("posts", "search", "red|", "--view", view, columns=columns).out
    finally:
        del home.environment["NO_COLOR"]
    lines = [line for line in shown.splitlines()[2:] if "https://" not in line]
    assert max(cells(line) for line in lines) <= columns
    if view == "list":
        before = {cells(line[: line.index(" 202")]) for line in lines}
        assert len(before) == 1, "the dates stand below each other, whatever the names are"


def test_a_list_on_a_pipe_has_a_line_for_each_post(home: Home) -> None:
    rows = home.run("posts", "text", "the", "--view", "list").rows
    assert [(row[0], row[2], row[4]) for row in rows] == [
        ("1", "hanako", "5"), ("2", "bob", "3"), ("3", "alice", "2"),
    ]  # fmt: skip


@pytest.mark.parametrize("columns", [7, 20])
@pytest.mark.parametrize(
    "line", ["", "a", "a long line of words that goes on", "猫と犬と家とねずみと木と花", "猫 a犬b" * 9]
)
def test_lines_are_wrapped_to_the_columns_they_take(line: str, columns: int) -> None:
    parts = list(wrapped(line, columns))
    assert all(cells(part) <= columns for part in parts)
    assert "".join(parts).replace(" ", "") == line.replace(" ", "")


# -- export --------------------------------------------------------------------------------------


def test_what_is_exported_is_what_was_imported(home: Home, tmp_path: Path) -> None:
    whole = home.run("posts", "export").out
    assert [json.loads(line)["post_id"] for line in whole.splitlines()] == [1, 2, 3, 4, 5]
    assert json.loads(whole.splitlines()[0])["tags"] == ["動物", "t1"]
    file = tmp_path / "twilog.csv"
    done = home.run("posts", "export", "-o", str(file), "--user", "bob")
    assert f"{file.stat().st_size:,} B" in done.out
    assert file.stat().st_mode & 0o777 == 0o600
    with file.open(newline="") as lines:
        assert list(csv.reader(lines)) == POSTS[2:4]
    assert list(tmp_path.iterdir()) == [file], "nothing else is left"


@pytest.mark.heavy("real commands, a hub and servers")
def test_a_large_archive_is_exported_in_parts(tmp_path: Path) -> None:
    home = with_model(tmp_path, model="none")
    rows = [row(n, "長い投稿。" * 100 + str(n)) for n in range(1, 1501)]
    write_csv(tmp_path / "twilog.csv", rows)
    with hub(home):
        assert home.run("posts", "import", "twilog.csv").status == 0
        out = home.run("posts", "export", "--format", "csv").out
        assert sorted(csv.reader(out.splitlines()), key=lambda each: int(each[0])) == rows
        closed = subprocess.Popen(
            [sys.executable, "-m", "tabane", "posts", "export"], env=home.environment, stdout=subprocess.PIPE
        )
        assert closed.stdout is not None
        os.read(closed.stdout.fileno(), 10)
        closed.stdout.close()
        assert closed.wait(LIMIT) != 0, "a reader that goes away ends it"
        assert home.run("posts", "stats", "--json").json["total_posts"] == 1500


def test_a_file_that_cannot_be_written_is_said_so(home: Home) -> None:
    done = home.run("posts", "export", "-o", "no/such/folder/x.csv")
    assert done.status == 2
    assert "cannot be written" in done.err


# -- weights -------------------------------------------------------------------------------------


def test_weights_are_presets_or_three_numbers() -> None:
    for name, weights in PRESETS.items():
        assert weights_of(name) == weights
        assert weights_name(weights) == name
    assert weights_of("1, 2,3") == weights_of("1/2/3") == weights_of("1 2 3") == (1, 2, 3)
    assert weights_name((1, 2, 0.25)) == "1/2/0.25"
    for wrong in ("", "1/2", "a/b/c", "1/2/3/4"):
        with pytest.raises(CallerError):
            weights_of(wrong)


def test_the_sample_archive_is_taken_in_whole(tmp_path: Path) -> None:
    home = with_model(tmp_path, model="none")
    with hub(home):
        done = home.run("posts", "import", "--sample", "--json")
        assert (done.json["new"], done.json["bad"]) == (298, 0)
        assert home.run("posts", "stats", "--by", "tag", "--json").json["results"]
