"""`tabane health` on a real hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.home import Home, hub


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("home"))
    home.write_servers({"well": home.child(), "off": home.child() | {"enabled": False}})
    with hub(home):
        yield home


def test_servers_that_answer_are_well(home: Home) -> None:
    assert home.run("servers", "test", "well").status == 0
    asked = home.run("health")
    assert asked.status == 0
    assert [row[:3] for row in asked.rows] == [["well", "yes", "ready"], ["off", "", "disabled"]]


def test_json_says_it_by_name_with_details(home: Home) -> None:
    found = home.run("health", "--json").json
    assert found["well"] is True
    assert "off" not in found
    assert list(found["details"]) == ["well", "off"]
    assert found["details"]["off"]["error"]


def test_one_that_does_not_answer_is_named_with_status_1(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write_servers({"well": home.child(), "broken": {"command": "/nonexistent/server"}})
    with hub(home):
        for name in ("well", "broken"):
            home.run("servers", "test", name)
        asked = home.run("health")
        assert asked.status == 1
        assert [row[:2] for row in asked.rows] == [["well", "yes"], ["broken", "no"]]
        assert "/nonexistent/server" in asked.rows[1][4]
        as_json = home.run("health", "--json")
        assert as_json.status == 1
        assert as_json.json["broken"] is False


def test_a_server_that_was_never_started_is_checked_without_starting_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "plain").write_text("no program")
    write_script(programs / "orphan", "#!/nonexistent/interpreter")
    write_script(programs / "node-tool", "#!/usr/bin/env interpreter-that-is-nowhere")
    write_script(programs / "mine", "#!/bin/sh")
    home.write_servers(
        {
            "well": home.child(),
            "by-path": {"command": "mine", "env": {"PATH": str(programs)}},
            "relative": {"command": "programs/mine", "cwd": str(tmp_path)},
            "remote": {"url": "https://192.0.2.1/mcp"},
            "missing": {"command": "/nonexistent/server"},
            "not-on-path": {"command": "mine"},
            "not-executable": {"command": str(programs / "plain")},
            "folder": {"command": str(programs)},
            "no-cwd": home.child() | {"cwd": "/nonexistent/folder"},
            "no-interpreter": {"command": str(programs / "orphan")},
            "no-node": {"command": str(programs / "node-tool")},
        }
    )
    with hub(home):
        asked = home.run("health", "--json")
        assert asked.status == 1
        found = asked.json
        details = found["details"]
        starts = {name for name in details if found[name]}
        assert starts == {"well", "by-path", "relative", "remote"}
        for name in starts:
            assert (details[name]["remark"], details[name]["error"]) == ("starts on demand", None)
            assert details[name]["state"] == "idle", "nothing was started"
        for name, words in {
            "missing": "/nonexistent/server",
            "not-on-path": "not found on PATH",
            "not-executable": "chmod +x",
            "folder": "cannot be executed",
            "no-cwd": "/nonexistent/folder",
            "no-interpreter": "/nonexistent/interpreter",
            "no-node": "interpreter-that-is-nowhere",
        }.items():
            assert "cannot start" in details[name]["error"]
            assert words in details[name]["error"]
            assert details[name]["healthy"] is False
        listed = {row["name"]: row["error"] for row in home.run("servers", "list", "--json").json["results"]}
        assert {name for name, error in listed.items() if not error} == starts
        assert "cannot start" in home.run("servers", "show", "missing").out


def test_a_server_that_starts_at_this_moment_is_waited_for(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write_servers({"well": home.child()})
    with hub(home):
        for _ in range(3):
            home.run("rpc", "search_tools", "--params", '{"query": "anything"}')
            assert home.run("health", "--json").json["well"] is True
            home.run("servers", "restart", "well")


def write_script(path: Path, first: str) -> None:
    path.write_text(f"{first}\n")
    path.chmod(0o755)


def test_on_a_terminal_it_is_a_table(home: Home) -> None:
    shown = home.run_on_terminal("health")
    assert "answers" in shown.out.splitlines()[0]


def test_it_helps_with_examples(home: Home) -> None:
    helped = home.run("health", "--help")
    assert helped.status == 0
    assert "tabane health" in helped.out.split("Examples:")[1]


def test_idle_servers_are_really_started_if_asked(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write_servers(
        {
            "well": home.child(),
            "liar": {"command": "true"},
            "off": home.child() | {"enabled": False},
            "halted": home.child(),
        }
    )
    with hub(home):
        home.run("servers", "stop", "halted")
        assert home.run("health").status == 0  # nothing was tried
        tried = home.run("health", "--start", "--json")
        assert tried.status == 1
        rows = {row["name"]: row for row in tried.json["results"]}
        assert [(name, row["done"], row["healthy"]) for name, row in rows.items()] == [
            ("well", "started", True),
            ("liar", "started", False),
            ("off", "disabled", None),
            ("halted", "stopped", None),
        ]
        assert rows["well"]["ms"] > 0
        assert rows["liar"]["error"]
        again = home.run("health", "--start")
        assert ["well", "yes", "asked"] in [row[:3] for row in again.rows]
