"""`tabane servers override` as a user runs it."""

from __future__ import annotations

import json
from typing import Any

from tests.harness.home import Home, hub
from tests.harness.running_hub import child


def written(home: Home) -> Any:
    return json.loads(home.servers.read_text())["mcpServers"]["up"]


def test_options_become_the_override_in_the_file(home: Home) -> None:
    home.write_servers({"up": child(deny=["x"])})
    done = home.run(
        *(
            "servers",
            "override",
            "up",
            "echo",
            "--name",
            "say",
            "--title",
            "Say",
            "--description",
            "Says it.",
        ),
        *("--fix", "owner=${OWNER:-me}", "--fix", "size=7", "--hide", "page", "--default", "limit=5"),
        *("--describe", "q=What is said.", "--describe", "n=7"),
    )
    assert done.status == 0, done.err
    assert written(home)["overrides"] == {
        "echo": {
            "name": "say",
            "title": "Say",
            "description": "Says it.",
            "parameters": {
                "page": {"hidden": True},
                "owner": {"fixed": "${OWNER:-me}"},
                "size": {"fixed": 7},
                "limit": {"default": 5},
                "q": {"description": "What is said."},
                "n": {"description": "7"},
            },
        }
    }
    assert written(home)["deny"] == ["x"]
    again = home.run("servers", "override", "up", "up__echo", "--title", "", "--restore", "size", "--json")
    assert again.json["override"]["name"] == "say"
    assert "title" not in again.json["override"]
    assert "size" not in again.json["override"]["parameters"]
    shown = home.run("servers", "override", "up", "echo")
    assert '"say"' in shown.out
    assert home.run("servers", "override", "up", "echo", "--reset").status == 0
    assert "overrides" not in written(home)


def test_a_hidden_tool_is_shown_again(home: Home) -> None:
    home.write_servers({"up": child()})
    home.run("servers", "override", "up", "echo", "--hide-tool")
    assert written(home)["overrides"] == {"echo": {"hidden": True}}
    home.run("servers", "override", "up", "echo", "--show-tool")
    assert "overrides" not in written(home)


def test_comments_of_the_file_stay(home: Home) -> None:
    home.write_servers('{\n  // mine\n  "mcpServers": {"up": {"command": "x" /* run */}}\n}\n')
    assert home.run("servers", "override", "up", "echo", "--name", "say").status == 0
    text = home.servers.read_text()
    assert "// mine" in text
    assert "/* run */" in text
    assert '"say"' in text


def test_a_wrong_server_pair_or_name_changes_nothing(home: Home) -> None:
    home.write_servers({"up": {"command": "x"}})
    before = home.servers.read_bytes()
    for words in (
        ("down", "echo", "--name", "say"),
        ("up", "echo", "--fix", "owner"),
        ("up", "echo", "--name", "x" * 129),
    ):
        assert home.run("servers", "override", *words).status != 0, words
    assert home.servers.read_bytes() == before


def test_lists_and_the_doctor_warn_of_what_has_no_effect(home: Home) -> None:
    home.write_servers(
        {"up": child(overrides={"ehco": {"title": "x"}, "echo": {"parameters": {"a": {"fixed": 1}}}})}
    )
    with hub(home):
        assert home.run("servers", "test", "up").status == 0
        for command in (("servers", "list"), ("servers", "show", "up")):
            warned = home.run(*command).err
            assert "ehco" in warned
            assert "Did you mean echo?" in warned
            assert "no parameter a" in warned
        found = home.run("doctor").out
        assert "no parameter a" in found
        assert "tabane servers override up" in found
        called = home.run("tools", "call", "up__echo")
        assert called.status != 0
        assert "overrides" in called.err


def test_values_have_the_types_of_the_schema_if_a_hub_runs(home: Home) -> None:
    home.write_servers({"up": child()})
    with hub(home):
        assert home.run("servers", "test", "up").status == 0
        home.run("servers", "override", "up", "wait", "--default", "seconds=0")
    assert written(home)["overrides"] == {"wait": {"parameters": {"seconds": {"default": 0}}}}
