"""`tabane tools` as a user runs it, on a real hub in front of real servers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cases import cases_beside
from tests.harness.home import LIMIT, Home, hub

CASES = cases_beside(__file__)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A hub in front of two servers, of either era, both with their tools listed."""
    home = Home(tmp_path_factory.mktemp("home"))
    old = home.child() | {"tags": ["aged"], "category": "play"}
    home.write_servers({"old": old, "new": home.child("--era", "modern")})
    with hub(home):
        for name in ("old", "new"):
            assert home.run("servers", "test", name).status == 0
        yield home


# -- finding -------------------------------------------------------------------------------------


def test_all_tools_are_listed_or_those_of_one_server(home: Home) -> None:
    every = home.run("tools", "list", "--json").json["results"]
    assert {row["server"] for row in every} == {"old", "new"}
    one = home.run("tools", "list", "--server", "new")
    assert one.status == 0
    assert [row[0] for row in one.rows] == [row["name"] for row in every if row["server"] == "new"]
    assert ["new__echo", "(text?: string) [read-only]: Gives back its arguments."] in one.rows


def test_a_search_ranks_and_counts(home: Home) -> None:
    found = home.run("tools", "search", "long", "number", "--limit", "1")
    assert found.status == 0
    head, tool, same = found.out.splitlines()
    assert head.startswith("1 of ")
    assert "__big_integer()" in tool
    assert same.startswith("Same on other servers: ")


@pytest.mark.parametrize("where", [["--server", "old"], ["--tag", "aged"], ["--category", "play"]])
def test_a_search_is_narrowed(home: Home, where: list[str]) -> None:
    found = home.run("tools", "search", "waits", *where, "--json").json
    assert [row["name"] for row in found["results"]] == ["old__wait"]


def test_names_are_searched_as_they_are_written(home: Home) -> None:
    found = home.run("tools", "search", "old__crash", "--match", "prefix", "--json").json
    assert sorted(row["name"] for row in found["results"]) == ["old__crash", "old__crash_in_answer"]


def test_a_search_that_no_tool_fits_says_so_and_is_no_failure(home: Home) -> None:
    found = home.run("tools", "search", "xyzzyplugh")
    assert found.status == 0
    assert found.out.startswith("Perhaps none of these fits.")


def test_parameters_are_shown_short_or_whole(home: Home) -> None:
    compact = home.run("tools", "show", "old__wait")
    assert compact.status == 0
    assert "seconds" in compact.out
    whole = json.loads(home.run("tools", "show", "old__wait", "--full").out)
    assert whole["name"] == "old__wait"
    assert whole["inputSchema"]["properties"]["seconds"] == {"type": "number"}
    several = home.run("tools", "show", "old__wait", "new__echo", "--json").json
    assert [result["tool"]["name"] for result in several["results"]] == ["old__wait", "new__echo"]


@pytest.mark.parametrize("arguments", CASES["a_wrong_name_is_wrong_usage_and_names_the_nearest"])
def test_a_wrong_name_is_wrong_usage_and_names_the_nearest(home: Home, arguments: list[str]) -> None:
    failed = home.run("tools", *arguments)
    assert (failed.status, failed.out) == (2, "")
    assert "old" in failed.err


# -- calling -------------------------------------------------------------------------------------


@pytest.mark.parametrize("server", ["old", "new"])
@pytest.mark.parametrize(("arguments", "stdin", "received"), CASES["arguments_reach_the_tool"])
def test_arguments_reach_the_tool(
    home: Home, server: str, arguments: list[str], stdin: str, received: dict[str, object]
) -> None:
    called = home.run("tools", "call", f"{server}__echo", *arguments, "--json", stdin=stdin)
    assert called.status == 0
    assert called.json["structuredContent"] == received


def test_values_are_read_by_the_tools_own_schema(home: Home) -> None:
    listed = home.run("tools", "call", "old__progress", "steps=2")
    assert listed.status == 0
    failed = home.run("tools", "call", "old__progress", "steps=two")
    assert (failed.status, failed.out) == (2, "")
    assert "steps: integer is required, not two" in failed.err


def test_the_text_of_a_result_is_printed(home: Home) -> None:
    called = home.run("tools", "call", "old.echo", "text=時刻")
    assert (called.status, json.loads(called.out)) == (0, {"text": "時刻"})
    assert home.run("tools", "call", "new__image").out == "[image image/png 5 B]\n[resource one memo://one]\n"
    assert home.run("tools", "call", "new__surrogate").out == "\N{REPLACEMENT CHARACTER}!\n"


def test_json_is_the_whole_result_as_the_server_gave_it(home: Home) -> None:
    called = home.run("tools", "call", "old__nan", "--json")
    assert called.status == 1
    assert "NaN or Infinity" in called.out
    assert json.loads(home.run("tools", "call", "old__big_integer", "--json").out)["structuredContent"] == {
        "n": 10**400 + 7
    }
    assert "\\ufffd" in home.run("tools", "call", "new__surrogate", "--json").out


def test_a_tool_that_fails_is_told_on_stderr_with_status_1(home: Home) -> None:
    failed = home.run("tools", "call", "old__fail", "text=no such city")
    assert (failed.status, failed.out, failed.err) == (1, "", "no such city\n")
    as_json = home.run("tools", "call", "old__fail", "--json")
    assert as_json.status == 1
    assert as_json.json["isError"] is True


@pytest.mark.parametrize(("arguments", "status", "words"), CASES["a_call_that_cannot_be_made_says_why"])
def test_a_call_that_cannot_be_made_says_why(
    home: Home, arguments: list[str], status: int, words: str
) -> None:
    failed = home.run("tools", "call", *arguments)
    assert (failed.status, failed.out) == (status, "")
    assert words in failed.err
    assert "Traceback" not in failed.err


def test_a_tool_cannot_steer_the_terminal(home: Home) -> None:
    nasty = json.dumps({"content": [{"type": "text", "text": "\x1b]0;owned\x07 日本語"}]})
    call = ("tools", "call", "old__raw", f"json={nasty}")
    assert home.run(*call).out == home.run_on_terminal(*call).out == " 日本語\n"
    assert json.loads(home.run(*call, "--json").out)["content"][0]["text"] == "\x1b]0;owned\x07 日本語"


def test_ctrl_c_ends_the_call_and_cancels_it_upstream(home: Home) -> None:
    def in_flight() -> int:
        count = home.run("servers", "show", "old", "--json").json["in_flight"]
        assert isinstance(count, int)
        return count

    process = subprocess.Popen(
        [sys.executable, "-m", "tabane", "tools", "call", "old__hang"],
        env=home.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        cwd=home.folder,
    )
    deadline = time.monotonic() + LIMIT
    try:
        while in_flight() == 0:
            assert time.monotonic() < deadline
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    while in_flight():
        assert time.monotonic() < deadline


@pytest.mark.parametrize("command", ["search", "list", "show", "call"])
def test_each_command_helps_with_examples(home: Home, command: str) -> None:
    helped = home.run("tools", command, "--help")
    assert helped.status == 0
    assert f"tabane tools {command}" in helped.out.split("Examples:")[1]


def test_tools_of_a_server_that_does_not_start_are_named_as_missing(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write_servers({"broken": {"command": "/nonexistent/server"}})
    with hub(home, "--list-wait=0.2"):
        listed = home.run("tools", "list")
        assert (listed.status, listed.out) == (0, "")
        assert "broken" in listed.err
        assert "broken" in home.run("tools", "search", "anything").out
