"""A command that changes files of the hub is done when the running hub uses the change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.edits import edited_hub
from tests.harness.home import Home, hub


@pytest.mark.heavy("runs each command that changes the servers file, secrets or trusted projects")
def test_the_call_after_each_edit_meets_the_new_state(tmp_path: Path) -> None:
    with edited_hub(Home(tmp_path)) as edited:
        edited.round()
        assert (edited.stale, edited.calls) == ([], edited.calls)


def test_an_edit_without_a_hub_says_so(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write_servers({"kid": home.child()})
    done = home.run("servers", "disable", "kid").succeeded
    assert "No hub is running. The change takes effect when one starts." in done.err


def test_an_edit_that_the_hub_cannot_use_is_no_success(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write_servers({"kid": home.child()})
    with hub(home):
        (home.servers.parent / "tabane.toml").write_text("[profiles.work]\nallow = 3\n")
        failed = home.run("servers", "disable", "kid")
        assert failed.status == 1
        assert "The change was written, but the running hub does not use it" in failed.err
        assert "tabane.toml" in failed.err


def test_a_test_of_a_server_reads_the_file_first(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write_servers({"kid": home.child()})
    with hub(home):
        for count in (1, 2, 3):
            home.write_servers({"kid": home.child("--tools", str(count))})
            tools = home.json("servers", "test", "kid")["tools"]
            assert sum(tool.startswith("kid__extra") for tool in tools) == count, json.dumps(tools)
