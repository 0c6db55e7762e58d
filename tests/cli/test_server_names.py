"""Servers that are named like commands, options or common words."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.harness.home import CHILD, Home, hub
from tests.harness.patience import wait_until

NAMES = ("time", "help", "list", "add", "show", "all", "none", "my server", "-x", "--help")
COMMANDS = ("show", "test", "logs", "stop", "start", "restart", "disable", "enable")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A hub with such servers: all of them are in a file that somebody wrote."""
    home = Home(tmp_path_factory.mktemp("home"))
    home.write_servers({name: home.child() for name in NAMES})
    with hub(home):
        yield home


def words(name: str) -> list[str]:
    """Return the name as the last words of a command."""
    return ["--", name] if name.startswith("-") else [name]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_takes_the_name(home: Home, name: str) -> None:
    for command in COMMANDS:
        found = home.run("servers", command, "--json", *words(name)).succeeded.json
        assert found["name"] == name, command
    wait_until(lambda: home.json("tools", "list", "--server", name)["results"], "its tools are listed")
    home.run("servers", "remove", *words(name)).succeeded  # noqa: B018
    assert name not in home.read_servers()


@pytest.mark.parametrize("name", NAMES[:8])
def test_such_a_server_is_added(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    added = home.run("servers", "add", name, "--", sys.executable, str(CHILD))
    assert f'Added "{name}" to' in added.succeeded.out
    assert name in home.read_servers()


@pytest.mark.parametrize("name", NAMES[8:])
def test_a_name_that_reads_as_an_option_is_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    refused = home.run("servers", "add", "--", name, sys.executable, str(CHILD))
    assert refused.status == 2
    assert "may not begin with -" in refused.err
    assert not home.servers.exists()


def test_a_sentence_quotes_the_name(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    home.write_servers({"time": home.child()})
    with hub(home):
        assert home.run("servers", "test", "time").succeeded.out.startswith('"time": running')
        assert home.run("servers", "stop", "time").succeeded.out.startswith('"time": stopped')
        refused = home.run("tools", "call", "time__echo", "text=a")
        assert '"time" is stopped. Start it with: tabane servers start time' in refused.err
