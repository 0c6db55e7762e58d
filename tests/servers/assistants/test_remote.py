"""Entries of a hub at a URL: each is one that the host's own form, as imports read it, understands."""

from __future__ import annotations

import re

import pytest

from tabane.servers.assistants.formats import at_path, definition, format_of
from tabane.servers.assistants.remote import REMOTE_HOSTS, remote_block
from tabane.servers.assistants.table import CLIENTS, Client, client_named
from tabane.servers.foreign_keys import our_definition

URL, KEY = "https://hub.local:8765/mcp/full", "tbn_key"


def test_the_hosts_are_clients() -> None:
    assert REMOTE_HOSTS.keys() <= {client.name for client in CLIENTS}


@pytest.mark.parametrize(
    "client",
    [client for client in CLIENTS if client.name in REMOTE_HOSTS and client.name != "claude-code"],
    ids=lambda client: client.name,
)
def test_a_block_is_a_server_at_the_url_with_the_key(client: Client) -> None:
    block = remote_block(client, "tabane", URL, KEY)
    assert block is not None
    assert client.user is not None
    value = format_of(client.user.form).value(block)
    read = definition(client.user.shape, at_path(value, (*client.user.key, "tabane")))
    assert read is not None
    ours = our_definition(read.items()).values
    assert ours["url"] == URL
    assert ours["headers"] == {"Authorization": f"Bearer {KEY}"}
    assert "command" not in ours
    assert not our_definition(read.items()).narrowing


def test_claude_code_gets_one_line() -> None:
    client = client_named("claude-code")
    assert client is not None
    block = remote_block(client, "tabane", URL, KEY)
    assert block is not None
    assert re.fullmatch(
        r"claude mcp add [^\n]+ tabane https://\S+ --header 'Authorization: Bearer tbn_key'\n", block
    )


@pytest.mark.parametrize("name", ["claude-desktop", "jetbrains", "continue"])
def test_a_host_without_such_a_form_gets_none(name: str) -> None:
    client = client_named(name)
    assert client is not None
    assert remote_block(client, "tabane", URL, KEY) is None
