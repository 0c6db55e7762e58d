"""`tabane servers` as a user runs it: real processes, a home of their own, and a real hub."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cases import cases_beside
from tests.harness.home import Home, hub
from tests.harness.servers.raw_http import modern, serving

CASES = cases_beside(__file__)

ANSI = re.compile(r"\x1b\[[0-9;]*m")


# -- listing -------------------------------------------------------------------------------------


def test_without_a_file_the_list_is_empty_and_says_how_to_begin(home: Home) -> None:
    listed = home.run("servers", "list")
    assert (listed.status, listed.out) == (0, "")
    assert "tabane servers add" in listed.err
    assert str(home.servers) in listed.err


def test_the_list_has_a_line_a_server_in_the_order_of_the_file(home: Home) -> None:
    home.write_servers(
        {"b": {"command": "run", "args": ["me", "5"]}, "a": {"command": "x", "enabled": False}}
    )
    listed = home.run("servers", "list")
    assert listed.status == 0
    assert [row[:4] for row in listed.rows] == [["b", "enabled", "", "run me 5"], ["a", "disabled", "", "x"]]
    assert "tabane servers enable a" in listed.rows[1][4]


def test_json_has_the_same_for_machines(home: Home) -> None:
    home.write_servers({"b": {"command": "run"}})
    listed = home.run("servers", "list", "--json").json
    row = {
        "name": "b",
        "state": "enabled",
        "tools": None,
        "transport": "stdio",
        "command": "run",
        "error": None,
        "sandboxed": False,
    }
    assert listed == {"path": str(home.servers), "hub": False, "results": [row]}


def test_warnings_of_the_file_go_to_stderr(home: Home) -> None:
    home.write_servers({"b": {"command": "run", "timout": 5}})
    listed = home.run("servers", "list")
    assert "timout" in listed.err
    assert "timeout" in listed.err
    assert "timout" not in listed.out


def test_a_broken_file_is_an_error_with_line_and_column(home: Home) -> None:
    home.write_servers('{"mcpServers": {\n  "a": {"command": }\n}}')
    for command in (["list"], ["show", "a"], ["enable", "a"], ["add", "b", "x"]):
        failed = home.run("servers", *command)
        assert (failed.status, failed.out) == (1, "")
        assert f"{home.servers}:2:20: expected a value" in failed.err


def test_an_error_is_json_where_json_was_asked_for(home: Home) -> None:
    home.write_servers({"time": {"command": "x"}})
    failed = home.run("servers", "show", "tiem", "--json")
    assert failed.status == 2
    assert failed.json["error"]["message"] == "There is no server tiem. Did you mean time?"


def test_on_a_terminal_the_list_is_a_table_whose_wide_characters_line_up(home: Home) -> None:
    home.write_servers({"時計サーバー": {"command": "aa"}, "x": {"command": "bb"}, "ｶﾅ": {"command": "cc"}})
    shown = home.run_on_terminal("servers", "list")
    lines = [ANSI.sub("", line) for line in shown.out.splitlines()]
    assert len(lines) == 4
    assert lines[0].split() == ["name", "state", "tools", "command"]
    columns = {
        _width(line[: line.index(word)]) for line, word in zip(lines[1:], ("aa", "bb", "cc"), strict=True)
    }
    assert columns == {_width(lines[0][: lines[0].index("command")])}


def test_the_list_has_a_column_for_the_sandbox_only_if_a_server_has_one(home: Home) -> None:
    plain = {"command": "uvx", "args": ["a-server-with-a-long-name", "--folder", "/home/someone/notes"]}
    home.write_servers({"plain": plain})
    assert len(home.run("servers", "list").rows[0]) == 5
    home.write_servers(
        {
            "plain": plain,
            "files": {**plain, "sandbox": "files"},
            "web": {**plain, "sandbox": {"preset": "network"}},
            "open": {**plain, "sandbox": "none"},
            "boxed": {"image": "mcp/fetch"},
        }
    )
    listed = home.run("servers", "list")
    assert [row[5] for row in listed.rows] == ["", "files", "network", "", "container"]
    assert listed.rows[4][3] == "mcp/fetch"
    assert [row["sandboxed"] for row in home.run("servers", "list", "--json").json["results"]] == [
        False, True, True, False, True,
    ]  # fmt: skip
    on_terminal = home.run_on_terminal("servers", "list", columns=80)
    lines = [ANSI.sub("", line) for line in on_terminal.out.splitlines()]
    assert lines[0].split() == ["name", "state", "tools", "command", "sandbox"]
    assert max(map(_width, lines)) <= 80


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def test_the_named_file_is_used(home: Home, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"mcpServers": {"elsewhere": {"command": "x"}}}')
    by_flag = home.run("servers", "list", "--servers", str(other), "--json").json
    by_variable = home.run("servers", "list", "--json", environment={"TABANE_SERVERS": str(other)}).json
    assert by_flag == by_variable
    assert [row["name"] for row in by_flag["results"]] == ["elsewhere"]


# -- showing -------------------------------------------------------------------------------------

SECRET = "sk-0123456789abcdef"


def test_a_server_is_shown_as_it_is_written_without_its_secrets(home: Home) -> None:
    home.write_servers(
        {
            "api": {
                "command": "run",
                "args": ["--token", SECRET, "--verbose"],
                "env": {"API_KEY": "${KEY}", "OTHER": SECRET, "MODE": "fast"},
                "tags": ["x"],
            }
        }
    )
    environment = {"KEY": "the-value-of-the-key"}
    shown = home.run("servers", "show", "api", "--json", environment=environment)
    assert shown.json["definition"] == {
        "command": "run",
        "args": ["--token", "***", "--verbose"],
        "env": {"API_KEY": "${KEY}", "OTHER": "***", "MODE": "***"},
        "tags": ["x"],
    }
    for command in (["show", "api"], ["show", "api", "--json"], ["list"], ["list", "--json"]):
        said = home.run("servers", *command, environment=environment)
        assert said.status == 0
        assert SECRET not in said.out + said.err
        assert "the-value-of-the-key" not in said.out + said.err


def test_reveal_shows_what_stands_in_the_file_and_never_what_a_variable_holds(home: Home) -> None:
    home.write_servers({"api": {"command": "run", "env": {"API_KEY": "${KEY}", "OTHER": SECRET}}})
    shown = home.run("servers", "show", "api", "--reveal", environment={"KEY": "the-value-of-the-key"})
    assert SECRET in shown.out
    assert "${KEY}" in shown.out
    assert "the-value-of-the-key" not in shown.out + shown.err


def test_a_missing_variable_is_named(home: Home) -> None:
    home.write_servers({"api": {"command": "run", "env": {"API_KEY": "${KEY}"}}})
    row = home.run("servers", "show", "api", "--json").json
    assert row["state"] == "disabled"
    assert "not set: KEY" in row["error"]


def test_a_variable_is_looked_up_in_the_secrets_file(home: Home) -> None:
    home.write_servers({"api": {"command": "run", "env": {"API_KEY": "${KEY}"}}})
    secrets = home.tabane / "secrets.env"
    secrets.write_text(f"KEY={SECRET}\n")
    secrets.chmod(0o600)
    shown = home.run("servers", "show", "api", "--json")
    assert shown.json["state"] == "enabled"
    assert SECRET not in shown.out


# -- changing the file ---------------------------------------------------------------------------


def test_a_command_is_added_and_the_file_made_private(home: Home) -> None:
    added = home.run(
        "servers", "add", "--no-try", "time", "--", "uvx", "mcp-server-time", "--local-timezone=UTC"
    )
    assert added.status == 0
    assert "tabane servers test time" in added.out
    assert home.read_servers() == {
        "time": {"command": "uvx", "args": ["mcp-server-time", "--local-timezone=UTC"]}
    }
    assert home.servers.stat().st_mode & 0o777 == 0o600


def test_options_behind_the_command_belong_to_the_command(home: Home) -> None:
    home.run(
        *("servers", "add", "--no-try", "--tag", "t", "a", "--env", "K=v"),
        *("--", "npx", "-y", "pkg", "--env", "X=y", "--json"),
    )
    assert home.read_servers()["a"] == {
        "command": "npx",
        "args": ["-y", "pkg", "--env", "X=y", "--json"],
        "env": {"K": "v"},
        "tags": ["t"],
    }


def test_everything_that_add_takes_is_written(home: Home, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    options = [
        "--env",
        "A=1=2",
        "--env",
        "B",
        "--env",
        "C=",
        "--cwd",
        "sub",
        "--description",
        "時刻",
        "--disabled",
    ]
    added = home.run("servers", "add", "a", *options, "--json", "--", "run", cwd=work)
    assert added.json == {"name": "a", "path": str(home.servers), "status": "added", "secrets": []}
    assert home.read_servers()["a"] == {
        "command": "run",
        "env": {"A": "1=2", "B": "${B}", "C": ""},
        "cwd": str(work / "sub"),
        "description": "時刻",
        "enabled": False,
    }


def test_a_url_is_added_with_its_headers(home: Home) -> None:
    home.run(
        "servers", "add", "a", "--url", "https://example.com/mcp", "--no-try",
        "--header", "Authorization=Bearer ${T}",
    )  # fmt: skip
    home.run("servers", "add", "b", "--url", "https://example.com/sse", "--sse", "--no-try")
    assert home.read_servers() == {
        "a": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${T}"}},
        "b": {"type": "sse", "url": "https://example.com/sse"},
    }


@pytest.mark.parametrize(("arguments", "words"), CASES["wrong_usage_says_what_is_right_and_changes_nothing"])
def test_wrong_usage_says_what_is_right_and_changes_nothing(
    home: Home, arguments: list[str], words: str
) -> None:
    before = home.write_servers({"there": {"command": "x"}}).read_text()
    failed = home.run("servers", *arguments)
    assert (failed.status, failed.out) == (2, "")
    assert words in failed.err
    assert "Traceback" not in failed.err
    assert home.servers.read_text() == before


def test_a_server_that_is_added_with_something_missing_says_so(home: Home) -> None:
    added = home.run("servers", "add", "--no-try", "a", "--env", "NOWHERE", "--", "run")
    assert added.status == 0
    assert "not set: NOWHERE" in added.err


def test_a_server_is_removed_and_the_others_stay_as_they_were(home: Home) -> None:
    home.write_servers({"a": {"command": "x", "unknown": [1]}, "b": {"command": "y"}})
    assert home.run("servers", "remove", "b").status == 0
    assert home.read_servers() == {"a": {"command": "x", "unknown": [1]}}


def test_a_server_is_switched_off_and_on_again(home: Home) -> None:
    home.write_servers({"a": {"command": "x"}})
    assert home.run("servers", "disable", "a").status == 0
    assert home.run("servers", "list").rows[0][1] == "disabled"
    assert home.run("servers", "enable", "a").status == 0
    assert home.run("servers", "list").rows[0][1] == "enabled"
    assert home.read_servers() == {"a": {"command": "x"}}


def test_a_file_with_comments_keeps_them(home: Home) -> None:
    home.write_servers('{"mcpServers": {\n  // mine\n  "a": {"command": "x"}\n}}')
    done = home.run("servers", "disable", "a")
    assert done.status == 0, done.err
    assert home.servers.read_text() == (
        '{"mcpServers": {\n  // mine\n  "a": {"command": "x", "enabled": false}\n}}'
    )


def test_a_file_that_would_lose_something_is_left_alone_and_the_change_shown(home: Home) -> None:
    text = '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}'
    home.write_servers(text)
    failed = home.run("servers", "disable", "a")
    assert failed.status == 1
    assert '"enabled": false' in failed.err
    assert home.servers.read_text() == text


@pytest.mark.parametrize(
    "command",
    [
        *("list", "show", "add", "import", "remove", "enable", "disable"),
        *("start", "stop", "restart", "test", "logs"),
    ],
)
def test_each_command_helps_with_examples(home: Home, command: str) -> None:
    helped = home.run("servers", command, "--help")
    assert helped.status == 0
    assert f"tabane servers {command}" in helped.out.split("Examples:")[1]
    assert "Warning" not in helped.err


def test_names_are_completed_for_the_shell(home: Home) -> None:
    home.write_servers({"time": {"command": "x"}, "test": {"command": "x"}, "git": {"command": "x"}})
    environment = {
        "_TABANE_COMPLETE": "bash_complete",
        "COMP_WORDS": "tabane servers show t",
        "COMP_CWORD": "3",
    }
    completed = home.run(environment=environment)
    assert completed.out.split() == ["plain,time", "plain,test"]


def test_without_a_hub_nothing_is_stopped_and_none_is_started(home: Home) -> None:
    home.write_servers({"a": {"command": "x"}})
    failed = home.run("servers", "stop", "a")
    assert failed.status == 1
    assert "No hub is running" in failed.err
    assert not (home.tabane / "hub.sock").exists()


# -- with a hub ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A hub with a server that works, one that cannot be started, and one that is switched off."""
    home = Home(tmp_path_factory.mktemp("home"))
    home.environment["KEY"] = "the-value-of-the-key"
    working = home.child("--name", "Clock", "--stderr", "up")
    home.write_servers(
        {
            "works": working | {"env": {"API_KEY": "${KEY}", "OTHER": SECRET}},
            "broken": {"command": "/nonexistent/server"},
            "off": home.child() | {"enabled": False},
        }
    )
    with hub(home):
        yield home


def test_a_server_is_started_stopped_and_restarted_by_hand(running: Home) -> None:
    def seen() -> dict[str, object]:
        rows = running.run("servers", "list", "--json").json
        assert rows["hub"] is True
        return next(dict(row) for row in rows["results"] if row["name"] == "works")

    started = running.run("servers", "start", "works")
    assert (started.status, started.out) == (0, f"works: running, {seen()['tools']} tools\n")
    first = seen()
    assert first["state"] == "ready"
    assert first["pids"]

    stopped = running.run("servers", "stop", "works", "--json")
    assert stopped.status == 0
    assert stopped.json["state"] == seen()["state"] == "stopped"
    assert seen()["pids"] == []

    restarted = running.run("servers", "restart", "works", "--json").json
    assert restarted["state"] == "ready"
    assert restarted["pids"] != first["pids"]


def test_a_test_lists_the_tools(running: Home) -> None:
    tested = running.run("servers", "test", "works")
    assert tested.status == 0
    lines = tested.out.splitlines()
    assert lines[0] == f"works: running, {len(lines) - 1} tools"
    assert "  works__echo(text?: string) [read-only]: Gives back its arguments." in lines


@pytest.mark.parametrize("command", ["test", "start", "restart"])
def test_a_server_that_cannot_be_started_is_an_error_that_says_why(running: Home, command: str) -> None:
    failed = running.run("servers", command, "broken")
    assert (failed.status, failed.out) == (1, "")
    assert "/nonexistent/server" in failed.err


def test_a_server_that_is_switched_off_is_not_started(running: Home) -> None:
    failed = running.run("servers", "start", "off")
    assert failed.status == 1
    assert "tabane servers enable off" in failed.err


@pytest.mark.parametrize("command", ["start", "stop", "restart", "test", "logs"])
def test_an_unknown_server_is_wrong_usage_and_names_the_nearest(running: Home, command: str) -> None:
    failed = running.run("servers", command, "work")
    assert (failed.status, failed.out) == (2, "")
    assert "works" in failed.err


def test_what_a_server_wrote_is_shown_the_last_lines_last(running: Home) -> None:
    for word in ("one", "two", "three"):
        assert running.run("tools", "call", "works__log", f"text={word}").status == 0
    whole = running.run("servers", "logs", "works").out.splitlines()
    assert [line.split()[-1] for line in whole[-3:]] == ["one", "two", "three"]
    assert any(line.endswith("up") for line in whole)
    two = running.run("servers", "logs", "works", "--lines", "2", "--json").json
    assert two == {"name": "works", "lines": whole[-2:]}


def test_a_running_server_is_shown_with_how_it_does(running: Home) -> None:
    running.run("servers", "start", "works")
    shown = running.run("servers", "show", "works", "--json")
    found = shown.json
    assert found["about"] == "Clock"
    assert found["version"] == "2025-11-25"
    assert len(found["pids"]) == 1
    assert found["definition"]["env"] == {"API_KEY": "${KEY}", "OTHER": "***"}
    for command in (["show", "works"], ["show", "works", "--json"], ["list"], ["test", "works"]):
        said = running.run("servers", *command)
        assert SECRET not in said.out + said.err
        assert "the-value-of-the-key" not in said.out + said.err


def test_another_file_than_the_hubs_is_an_error_that_names_both(running: Home, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"mcpServers": {}}')
    by_flag = running.run("servers", "list", "--servers", str(other))
    by_variable = running.run("servers", "list", environment={"TABANE_SERVERS": str(other)})
    for failed in (by_flag, by_variable):
        assert (failed.status, failed.out) == (1, "")
        assert str(other) in failed.err
        assert str(running.servers) in failed.err


def test_the_file_of_the_running_hub_is_the_one_that_is_changed(home: Home, tmp_path: Path) -> None:
    home.write_servers({"default": {"command": "x"}})
    other = tmp_path / "other.json"
    other.write_text('{"mcpServers": {"elsewhere": {"command": "x"}}}')
    other.chmod(0o600)
    with hub(home, f"--servers={other}"):
        assert home.run("servers", "add", "--no-try", "new", "--", "y").status == 0
        assert home.run("servers", "list", "--json").json["path"] == str(other)
    assert '"new"' in other.read_text()
    assert list(home.read_servers()) == ["default"]


# -- servers at a URL ----------------------------------------------------------------------------


def test_a_server_at_a_url_is_shown_without_its_secrets_and_without_a_process(home: Home) -> None:
    with serving(modern) as server:
        url = f"{server.url}?api_key=querysecret"
        home.write_servers({"web": {"url": url, "headers": {"Authorization": "Bearer abcdefgh"}}})
        with hub(home):
            tested = home.run("servers", "test", "web", "--json")
            shown = home.run("servers", "show", "web")
            listed = home.run("servers", "list")
    assert tested.status == 0, tested.err
    assert [tool.split("(")[0] for tool in tested.json["tools"]] == ["web__echo", "web__peek"]
    assert "processes" not in shown.out
    for out in (shown.out, listed.out):
        assert f"{server.url}?api_key=***" in out
        assert "querysecret" not in out
        assert "abcdefgh" not in out
