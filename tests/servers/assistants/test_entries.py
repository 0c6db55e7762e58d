"""Entries of clients in the words of the servers file."""

from __future__ import annotations

from typing import Any

import pytest

from tabane.servers.assistants.formats import definition, mode_of, written
from tabane.servers.assistants.table import Shape
from tabane.servers.foreign_keys import our_definition

SHAPES: tuple[Shape, ...] = ("plain", "typed", "copilot", "opencode", "goose", "zed", "kimi")


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_written_is_read_as_the_same_command(shape: Shape) -> None:
    entry = definition(shape, written(shape, "tabane", "/opt/tabane", ["mcp", "--mode", "full"]))
    assert entry is not None
    found = our_definition(entry.items()).values
    assert (found["command"], found["args"]) == ("/opt/tabane", ["mcp", "--mode", "full"])
    assert mode_of(found) == "full"


@pytest.mark.parametrize(
    ("shape", "entry", "found"),
    [
        (
            "opencode",
            {"type": "local", "command": ["npx", "-y", "a"], "environment": {"K": "v"}, "enabled": False},
            {"command": "npx", "args": ["-y", "a"], "env": {"K": "v"}, "enabled": False},
        ),
        ("opencode", {"type": "remote", "url": "https://x/mcp"}, {"url": "https://x/mcp"}),
        ("opencode", {"enabled": True}, None),
        ("goose", {"type": "builtin", "name": "developer", "enabled": True}, None),
        (
            "goose",
            {"type": "stdio", "name": "a", "cmd": "uvx", "args": ["b"], "envs": {"K": "v"}, "enabled": True},
            {"command": "uvx", "args": ["b"], "env": {"K": "v"}, "enabled": True},
        ),
        ("goose", {"type": "streamable_http", "uri": "https://x"}, {"url": "https://x"}),
        ("zed", {"source": "custom", "command": "x", "args": []}, {"command": "x", "args": []}),
        ("zed", {"command": {"path": "x", "args": []}, "env": {}}, {"command": "x", "args": [], "env": {}}),
        ("zed", {"settings": {"key": 1}}, None),
        ("plain", {"url": "x://", "http_headers": {"A": "b"}}, {"url": "x://", "headers": {"A": "b"}}),
        ("plain", "no object", None),
    ],
)  # fmt: skip
def test_other_servers_are_translated(shape: Shape, entry: Any, found: Any) -> None:
    read = definition(shape, entry)
    assert (read and our_definition(read.items()).values) == found


def test_a_mode_is_read_in_both_spellings() -> None:
    assert mode_of({"args": ["mcp", "--mode=light"]}) == "light"
    assert mode_of({"args": ["mcp"]}) is None
    assert mode_of({"args": "mcp"}) is None
