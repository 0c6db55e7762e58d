"""Assistants that are connected to one server alone: by the command, over the socket and over WebSocket."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.bridge import BridgeClient
from tests.harness.running_hub import CHILD
from tests.harness.user import User


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path)
    user.environment |= {"TABANE_HTTP": "true", "TABANE_PORT": "0"}
    odd = ["--extension", "com.example/odd", "--name", "Odd"]
    servers = {"odd": {"command": sys.executable, "args": [CHILD, *odd]}, **user.small}
    user.write_servers(servers)
    yield user
    user.close()


def passes(client: BridgeClient) -> None:
    """Check that a client is connected to the server odd."""
    assert client.initialize()["result"]["serverInfo"]["name"] == "Odd"
    tools = client.call(1, "tools/list")["result"]["tools"]
    assert "echo" in [tool["name"] for tool in tools]
    assert client.call(2, "example/echo", a=1)["result"]["params"]["a"] == 1


def test_the_bridge_connects_to_one_server_by_flag_and_by_variable(user: User) -> None:
    passes(user.client("--server", "odd"))
    passes(user.client(TABANE_SERVER="odd"))
    # Others are connected to all servers at the same time.
    whole = user.assistant()
    assert whole.call(1, "example/echo")["error"]["code"] == -32601


def test_a_hub_over_the_network_is_told_the_server_in_the_address(user: User) -> None:
    user.assistant()
    url = str(user.json("status")["http"])
    passes(user.client(f"--url={url}/s/odd"))
    passes(user.client(f"--url={url}", "--server=odd"))


def test_a_server_that_does_not_exist_is_named_in_the_refusal(user: User) -> None:
    user.assistant()
    client = user.client("--server", "od")
    answer: Any = client.initialize()
    assert "od" in answer["error"]["message"]
    assert "odd" in answer["error"]["message"]
