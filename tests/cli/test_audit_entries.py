"""`tabane audit` and `tabane usage` against a hub with a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabane.cli.terminal_text import cells
from tests.harness.home import Home, hub
from tests.harness.terminal import on_terminal

PAINT = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home whose hub has served calls: two that work, and one that fails."""
    home = Home(tmp_path_factory.mktemp("audit"))
    home.write_servers({"child": home.child()})
    with hub(home):
        home.run("tools", "call", "child__echo", "text=東京").succeeded  # noqa: B018
        home.run("tools", "call", "child__echo", "text=Kyoto").succeeded  # noqa: B018
        assert home.run("tools", "call", "child__fail").status == 1
        yield home


def names(home: Home, *options: str) -> list[str]:
    return [entry["name"] for entry in home.json("audit", *options)["results"]]


def shown_lines(out: str) -> list[str]:
    """What a terminal shows at the end: the line of progress, which slow commands have, is written over."""
    return [line.rpartition("\r")[2] for line in PAINT.sub("", out).split("\n")]


def test_entries_are_listed_newest_first(used: Home) -> None:
    assert names(used, "--server", "child") == ["child__fail", "child__echo", "child__echo"]


def test_options_choose_entries(used: Home) -> None:
    assert names(used, "--tool", "child__*", "--outcome", "failed") == ["child__fail"]
    assert names(used, "--tool", "child__*", "--text", "東京") == ["child__echo"]
    assert names(used, "--tool", "child__*", "--since", "1h", "-n", "1") == ["child__fail"]
    assert names(used, "--tool", "child__*", "--until", "yesterday") == []
    assert names(used, "--key", "local", "--client", "tabane tools call", "--tool", "child__fail")
    assert "hub_start" in names(used, "--type", "admin")


def test_pages_follow_each_other(used: Home) -> None:
    first = used.json("audit", "--tool", "child__*", "-n", "2")
    second = used.json("audit", "--tool", "child__*", "-n", "2", "--cursor", first["next_cursor"])
    assert [len(first["results"]), first["total"], len(second["results"])] == [2, 3, 1]
    assert second["next_cursor"] is None


def test_a_time_that_is_none_is_wrong_usage(used: Home) -> None:
    outcome = used.run("audit", "--since", "banana")
    assert outcome.status == 2
    assert "'banana' is not a time" in outcome.err
    assert "Traceback" not in outcome.err


def test_rows_have_time_caller_tool_and_outcome(used: Home) -> None:
    row = used.run("audit", "--tool", "child__fail").succeeded.rows[0]
    assert row[1:5] == ["local", "tabane tools call", "child__fail", "failed"]


def test_new_entries_are_followed(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write_servers({"child": home.child()})
    with hub(home):
        assert home.run("tools", "call", "child__fail").status == 1
        with on_terminal(home, "audit", "--follow", "--tool", "child__*", "-n", "1") as terminal:
            terminal.read_until("child__fail")
            home.run("tools", "call", "child__pid").succeeded  # noqa: B018
            terminal.read_until("child__pid")
            terminal.process.send_signal(2)
            terminal.end()
    assert terminal.process.returncode == 130


def test_ctrl_c_at_the_first_row_ends_following_in_order(used: Home) -> None:
    script = str(Path(__file__).with_name("interrupted_rows.py"))
    with on_terminal(used, "child__fail", "audit", "--follow", "-n", "1", "--tool", "child__fail",
                     script=script) as terminal:  # fmt: skip
        terminal.end()
    assert "child__fail" in terminal.out
    assert "Traceback" not in terminal.out
    assert terminal.process.returncode == 130


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("language", ["en", "ja"])
def test_entries_and_usage_fit_a_terminal_with_whole_names(used: Home, columns: int, language: str) -> None:
    for command in (("audit", "--server", "child"), ("usage", "--server", "child")):
        shown = used.converse(*command, columns=columns, TABANE_LANG=language)
        assert shown.status == 0
        assert max(map(cells, shown_lines(shown.out))) <= columns
        assert "child__echo" in shown.out
        assert re.search(r"[0-9] m?s\b", shown.out)


def test_a_failure_has_its_reason_beside_the_outcome(used: Home) -> None:
    shown = used.converse("rpc", "query_audit_logs", '{"limit": "many"}')
    assert shown.status == 2
    out = PAINT.sub("", used.converse("audit", "--outcome", "failed", columns=200).out)
    assert re.search(r"query_audit_logs +[0-9.]+ m?s +failed: ", out)


def test_nothing_but_a_note_is_shown_if_nothing_matches(used: Home) -> None:
    shown = used.converse("audit", "--tool", "nothing")
    assert (shown.status, shown_lines(shown.out)) == (0, ["No entries match.", ""])


def test_a_followed_row_fits_a_narrow_terminal(used: Home) -> None:
    with on_terminal(used, "audit", "--follow", "--tool", "child__echo", "-n", "1") as terminal:
        terminal.read_until("child__echo")
        terminal.process.send_signal(2)
        terminal.end()
    (row,) = [line for line in re.split(r"[\r\n]+", PAINT.sub("", terminal.out)) if "child__echo" in line]
    assert cells(row) <= 80


def test_usage_counts_calls_by_tool(used: Home) -> None:
    found = used.json("usage", "--server", "child")
    calls = {row["tool"]: (row["calls"], row["errors"]) for row in found["results"]}
    assert calls["child__echo"] == (2, 0)
    assert calls["child__fail"] == (1, 1)


@pytest.mark.parametrize("by", ["tool", "server", "key", "client", "day"])
def test_usage_is_grouped(used: Home, by: str) -> None:
    rows = used.run("usage", "--by", by, "--since", "7d").succeeded.rows
    assert rows
    assert all(len(row) == 8 for row in rows)


def test_unused_tools_are_shown_with_what_they_cost(used: Home) -> None:
    found = used.json("usage", "--unused", "-n", "1000")
    unused = {tool["name"]: tool["tokens"] for tool in found["unused_tools"]}
    assert unused["child__crash"] > 0
    assert "child__echo" not in unused
    assert "child__crash" in used.run("usage", "--unused").succeeded.out


def test_unused_takes_no_other_filter(used: Home) -> None:
    outcome = used.run("usage", "--unused", "--by", "day")
    assert outcome.status == 2
    assert "--unused" in outcome.err


def test_entries_are_counted(used: Home) -> None:
    found = used.json("rpc", "get_audit_stats")
    assert {row["name"] for row in found["by_type"]} >= {"call", "admin"}
    assert found["total"] > 4
    assert found["earliest"] <= found["latest"]
