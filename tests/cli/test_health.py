"""`tabane health` on a real hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.home import Home, hub


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


def test_on_a_terminal_it_is_a_table(home: Home) -> None:
    shown = home.run_on_terminal("health")
    assert "answers" in shown.out.splitlines()[0]


def test_it_helps_with_examples(home: Home) -> None:
    helped = home.run("health", "--help")
    assert helped.status == 0
    assert "tabane health" in helped.out.split("Examples:")[1]
