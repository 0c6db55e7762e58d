"""A restart that could only fail leaves the running hub alone; and a port that was taken is tried again."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.user import User


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path)
    yield user
    user.run("stop")
    user.close()


@pytest.fixture
def taken() -> Iterator[socket.socket]:
    """Something that listens at a port."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server


WRONG = {
    "settings that are no TOML": ("tabane.toml", "list_wait = no\n", "tabane.toml:1"),
    "a setting out of its range": ("tabane.toml", 'log_level = "loud"\n', "log_level"),
    "a profile": ("tabane.toml", "[profiles.work]\nallow = 3\n", "tabane.toml:2"),
    "a servers file": ("mcp-servers.json", '{"mcpServers": {', "mcp-servers.json"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_restart_with_wrong_files_leaves_the_hub_running(user: User, case: str) -> None:
    name, text, named = WRONG[case]
    user.run("start").succeeded  # noqa: B018
    pid = user.holder.pid
    (user.servers.parent / name).write_text(text)
    (user.servers.parent / name).chmod(0o600)
    refused = user.run("restart")
    assert refused.status != 0
    assert named in refused.err
    assert user.json("status")["pid"] == pid


def test_a_restart_with_another_servers_file_names_both(user: User, tmp_path: Path) -> None:
    user.run("start").succeeded  # noqa: B018
    pid, other = user.holder.pid, user.write_servers({}, tmp_path / "other.json")
    refused = user.run("restart", environment={"TABANE_SERVERS": str(other)})
    assert refused.status != 0
    assert str(other) in refused.err
    assert str(user.servers) in refused.err
    assert user.json("status")["pid"] == pid
    user.run("stop").succeeded  # noqa: B018
    user.run("start", environment={"TABANE_SERVERS": str(other)}).succeeded  # noqa: B018
    refused = user.run("restart")
    assert refused.status != 0
    assert str(other) in refused.err
    assert user.runs


def test_a_restart_with_a_port_that_is_taken_names_who_has_it(user: User, taken: socket.socket) -> None:
    user.environment.pop("TABANE_HTTP")
    user.environment["TABANE_PORT"] = "0"
    user.run("start").succeeded  # noqa: B018
    pid = user.holder.pid
    refused = user.run("restart", environment={"TABANE_PORT": str(taken.getsockname()[1])})
    assert refused.status != 0
    assert str(taken.getsockname()[1]) in refused.err
    assert user.json("status")["pid"] == pid
    user.run("restart").succeeded  # noqa: B018


@pytest.mark.parametrize("command", [("status",), ("start",), ("open", "--print")])
def test_a_port_that_was_taken_is_had_when_it_is_free(
    user: User, taken: socket.socket, command: tuple[str, ...]
) -> None:
    user.environment.pop("TABANE_HTTP")
    user.environment["TABANE_PORT"] = port = str(taken.getsockname()[1])
    user.assistant()
    assert port in user.json("status")["http_problem"]
    taken.close()
    done = user.run(*command).succeeded
    assert "HTTP is not available" not in done.out + done.err
    status = user.json("status")
    assert status["http"] == f"http://127.0.0.1:{port}/mcp"
    assert "http_problem" not in status


def test_a_port_is_never_said_to_be_used_by_a_process_that_has_ended(user: User, tmp_path: Path) -> None:
    user.environment.pop("TABANE_HTTP")
    user.environment["TABANE_PORT"] = "0"
    other = User(tmp_path / "other")
    other.folder.mkdir(exist_ok=True)
    other.environment |= {"TABANE_PORT": "0"}
    other.environment.pop("TABANE_HTTP")
    other.run("start").succeeded  # noqa: B018
    user.environment["TABANE_PORT"] = other.json("status")["http"].rpartition(":")[2].partition("/")[0]
    user.assistant()
    first = other.holder.pid
    assert f"process {first}" in user.json("status")["http_problem"]
    other.run("stop").succeeded  # noqa: B018
    with closing(socket.create_server(("127.0.0.1", int(user.environment["TABANE_PORT"])))):
        problem = user.json("status").get("http_problem", "")
        assert f"process {first}" not in problem
    other.close()
