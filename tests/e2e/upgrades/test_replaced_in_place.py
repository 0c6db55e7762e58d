"""The package is replaced under a running hub: it answers or asks for a restart, and nothing is lost."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabane import __version__
from tests.e2e.upgrades.earlier import earlier
from tests.e2e.upgrades.in_place import PackageInPlace
from tests.harness.bridge import INITIALIZE, BridgeClient, request
from tests.harness.patience import wait_until
from tests.harness.user import SMALL, User, echo, said

LIMIT = 120.0
LETTER = "The keeper of the lighthouse writes a letter."
UPGRADED = "Tabane was upgraded while this hub ran. To go on, run: tabane restart"
RESTART = "tabane restart"
INTERNAL = "internal error; see the hub's log: tabane logs"

COMMANDS = (
    ("status",),
    ("tools", "search", "echo"),
    ("tools", "call", "small__echo", "n=1"),
    ("docs", "search", "lighthouse"),
    ("docs", "get", "letter"),
    ("search", "lighthouse"),
    ("servers", "list"),
    ("servers", "test", "small"),
    ("usage",),
)
LATE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search_tools", {"query": "echo"}),
    ("search_documents", {"query": "lighthouse"}),
    ("get_document", {"filepath": "letter"}),
    ("read_url_content", {"url": "http://127.0.0.1:9/"}),
)
"""Tools of the hub, which it imports with their first use."""
LOADED = frozenset({"search_documents", "get_document"})
"""Tools that were imported with the first document, and need no more."""


@pytest.fixture(scope="session")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("replaced")


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    (tmp_path / "user").mkdir()
    user = User(tmp_path / "user")
    yield user
    user.close()


@pytest.fixture
def tabane(user: User, tmp_path: Path) -> PackageInPlace:
    return PackageInPlace(user, tmp_path)


def begin(user: User, tabane: PackageInPlace) -> BridgeClient:
    """Start a hub with a document, and connect an assistant to it."""
    tabane.json("start")
    letter = user.folder / "letter.txt"
    letter.write_text(LETTER)
    tabane.json("docs", "put", str(letter), "--id", "letter")
    assistant = tabane.assistant()
    assert said(echo(assistant, 1, n=1)) == {"n": 1}
    return assistant


def check_commands(user: User, tabane: PackageInPlace) -> list[str]:
    """Check that each command of the new package works or names the restart. Return what was refused."""
    refused = []
    added = ("servers", "add", "more", "--", sys.executable, SMALL, str(user.folder))
    for command in (*COMMANDS, added):
        done = tabane.run(*command)
        assert "Traceback" not in done.out + done.err, command
        assert done.status == 0 or RESTART in done.err, (command, done)
        if done.status:
            refused.append(command[-1])
    return refused


def check_replaced(user: User, tabane: PackageInPlace, assistant: BridgeClient) -> None:
    """Connect a new bridge, which replaces the hub, and check that all is there for both."""
    pid, wanted = user.holder.pid, tabane.run("--version").out.split()[-1]
    assistant.send(request(50, name="small__wait", arguments={"n": 50}))
    wait_until((user.folder / "waiting").exists, "a call is in flight", LIMIT)
    newcomer = tabane.client()
    newcomer.send(request(0, "initialize", **INITIALIZE))
    wait_until(
        lambda: not (user.tabane / "hub.sock").exists() or user.holder.pid != pid, "the hub drains", LIMIT
    )
    (user.folder / "go").touch()
    assert said(assistant.answer(50, LIMIT)) == {"n": 50}
    assert newcomer.answer(0, LIMIT)["result"]["serverInfo"]["version"] == wanted
    assert (user.holder.pid != pid, user.holder.version) == (True, wanted)
    check_whole(tabane, assistant, newcomer)


def check_whole(tabane: PackageInPlace, *assistants: BridgeClient) -> None:
    for number, each in enumerate(assistants, 60):
        assert said(echo(each, number, n=number)) == {"n": number}
    assert tabane.json("docs", "get", "letter")["document"] == LETTER
    assert [row["filepath"] for row in tabane.json("docs", "search", "lighthouse")["results"]] == ["letter"]
    assert "small" in [row["name"] for row in tabane.json("servers", "list")["results"]]
    assert tabane.run("tools", "search", "echo").succeeded.out.count("small__echo") == 1


@pytest.mark.parametrize("version", ["0.13.0", "0.15.0"])
def test_a_hub_of_an_earlier_version_whose_package_was_replaced(
    user: User, tabane: PackageInPlace, code: Path, version: str
) -> None:
    """Its own code cannot say more than that it failed; a command, and the next bridge, know why."""
    (old,) = (each for each in earlier() if each.version == version)
    tabane.install_earlier(old, code)
    assistant = begin(user, tabane)
    tabane.install_this("b" * 40)
    assert said(echo(assistant, 2, n=2)) == {"n": 2}
    for number, (name, given) in enumerate(LATE, 10):
        answer = assistant.call(number, name=name, arguments=given)
        assert "result" in answer or answer["error"]["message"] == INTERNAL, answer
    check_commands(user, tabane)
    doctor = tabane.run("doctor", "--quick")
    assert "Traceback" not in doctor.out + doctor.err
    assert RESTART in doctor.out
    assert user.holder.version == f"{version}+g{old.commit[:7]}"
    check_replaced(user, tabane, assistant)


def test_this_hub_becomes_the_package_that_replaced_its_own(user: User, tabane: PackageInPlace) -> None:
    """All modules have moved, so that each tool which is used for the first time needs the next hub."""
    tabane.install_this("a" * 40)
    assistant = begin(user, tabane)
    pid = user.holder.pid
    tabane.install_this("b" * 40, moved=True)
    for number, (name, given) in enumerate(LATE, 10):
        answer = assistant.call(number, name=name, arguments=given)
        assert "result" in answer, answer
        assert UPGRADED not in answer["result"]["content"][0]["text"]
    assert (user.holder.pid, user.holder.version) == (pid, f"{__version__}+gbbbbbbb")
    assert not check_commands(user, tabane)
    check_whole(tabane, assistant)


def test_a_command_waits_for_the_hub_that_replaces_another(user: User, tabane: PackageInPlace) -> None:
    tabane.install_this("a" * 40)
    assistant = begin(user, tabane)
    tabane.install_this("b" * 40, moved=True)
    assert "error" not in json.loads(tabane.run("rpc", "list_tools").succeeded.out)
    assert user.holder.version == f"{__version__}+gbbbbbbb"
    check_whole(tabane, assistant)


def test_a_hub_keeps_its_flags_and_waits_for_a_long_call(user: User, tabane: PackageInPlace) -> None:
    tabane.install_this("a" * 40)
    tabane.json("start", "--idle-end", "77")
    assistant = tabane.assistant()
    assistant.send(request(5, name="small__wait", arguments={"n": 5}))
    wait_until((user.folder / "waiting").exists, "a call is in flight", LIMIT)
    log = user.tabane / "logs" / "hub.log"
    tabane.install_this("b" * 40)
    wait_until(lambda: "takes over" in log.read_text(), "the next build was seen", LIMIT)
    assert user.holder.version == f"{__version__}+gaaaaaaa"
    (user.folder / "go").touch()
    assert said(assistant.answer(5, LIMIT)) == {"n": 5}
    wait_until(lambda: user.holder.version == f"{__version__}+gbbbbbbb", "the hub was replaced", LIMIT)
    assert "--idle-end=77.0" in user.holder.flags


def test_an_older_package_does_not_take_over(user: User, tabane: PackageInPlace) -> None:
    tabane.install_this("a" * 40)
    assistant = begin(user, tabane)
    log = user.tabane / "logs" / "hub.log"
    tabane.install_this("b" * 40)
    init = tabane.package / "__init__.py"
    init.write_text(init.read_text().replace(__version__, "0.1.0"))
    wait_until(lambda: "does not give way" in log.read_text(), "the older build was seen", LIMIT)
    assert said(echo(assistant, 2, n=2)) == {"n": 2}
    assert user.holder.version == f"{__version__}+gaaaaaaa"


def test_a_hub_whose_package_was_removed_says_so_and_goes_on_with_what_it_has(
    user: User, tabane: PackageInPlace
) -> None:
    tabane.install_this("a" * 40)
    assistant = begin(user, tabane)
    tabane.package.rename(tabane.package.with_name("gone"))
    assert said(echo(assistant, 2, n=2)) == {"n": 2}
    result = assistant.call(3, name="search_tools", arguments={"query": "echo"})["result"]
    assert (result["isError"], result["content"][0]["text"]) == (True, UPGRADED)
