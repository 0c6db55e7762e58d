"""Root in the home of another user: told so, and nothing is written there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness.home import Home

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

OTHER = 12_345
COMMANDS = (
    ("status",),
    ("start",),
    ("stop",),
    ("doctor", "--quick"),
    ("servers", "list"),
    ("servers", "add", "time", "--no-try", "--", "time-server"),
    ("secrets", "set", "TOKEN", "--stdin"),
    ("posts", "stats"),
    ("install", "cursor"),
)


def of_another_user(home: Home, *, made: bool) -> Home:
    """Give the folders of this home to another user."""
    if not made:
        home.tabane.rmdir()
        home.tabane = home.folder / ".local" / "share" / "tabane"
        home.environment["TABANE_HOME"] = str(home.tabane)
    for path in (home.folder, *home.folder.rglob("*")):
        os.chown(path, OTHER, OTHER)
    return home


@pytest.mark.parametrize("made", [True, False], ids=["a home that exists", "a home that would be made"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_root_is_told_whose_home_it_is(tmp_path: Path, command: tuple[str, ...], made: bool) -> None:
    home = of_another_user(Home(tmp_path), made=made)
    refused = home.run(*command)
    assert refused.status == 1
    assert "You are root" in refused.err
    assert f"sudo -u '#{OTHER}' tabane" in refused.err
    assert "chown" not in refused.out + refused.err
    assert {path.stat().st_uid for path in (tmp_path, *tmp_path.rglob("*"))} == {OTHER}


def test_an_assistant_of_root_starts_no_hub_there(tmp_path: Path) -> None:
    home = of_another_user(Home(tmp_path), made=True)
    hello = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    asked = home.run("mcp", stdin=hello)
    assert "You are root" in asked.out + asked.err
    assert "chown" not in asked.out + asked.err
    assert not (home.tabane / "hub.lock").exists()


def test_a_home_of_root_in_any_folder_is_used(tmp_path: Path) -> None:
    home = Home(tmp_path)
    os.chown(tmp_path, OTHER, OTHER)
    assert "No hub" in home.run("stop").succeeded.out
    assert home.run("--help").status == 0
