"""What other programs write about a server arrives as what we mean by it, and never as more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tabane.servers.assistants.importing import ImportedServer, plan, source_of
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)


def imported(folder: Path, name: str, text: str) -> dict[str, ImportedServer]:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    source = source_of(path)
    assert source.problem is None, source.problem
    return {server.name: server for server in plan(source.servers, {}).taken}


@pytest.mark.parametrize(("file", "text", "expected"), CASES["an_entry_arrives_with_its_meaning"])
def test_an_entry_arrives_with_its_meaning(tmp_path: Path, file: str, text: str, expected: str) -> None:
    found = imported(tmp_path, file, text)
    assert {name: server.definition for name, server in found.items()} == json.loads(expected)
    assert not any(server.narrowing for server in found.values())


@pytest.mark.parametrize("entry", CASES["a_limit_that_is_not_known_switches_the_server_off"])
def test_a_limit_that_is_not_known_switches_the_server_off(tmp_path: Path, entry: str) -> None:
    given: dict[str, Any] = {"command": "tea", **json.loads(entry)}
    server = imported(tmp_path, "mcp.json", json.dumps({"mcpServers": {"tea": given}}))["tea"]
    assert server.narrowing == tuple(json.loads(entry))
    assert server.definition["enabled"] is False


@pytest.mark.parametrize("entry", CASES["what_limits_nothing_is_left_out"])
def test_what_limits_nothing_is_left_out(tmp_path: Path, entry: str) -> None:
    given: dict[str, Any] = {"command": "tea", **json.loads(entry)}
    server = imported(tmp_path, "mcp.json", json.dumps({"mcpServers": {"tea": given}}))["tea"]
    assert server.left == tuple(json.loads(entry))
    assert server.definition == {"command": "tea"}


def test_a_server_of_two_programs_may_do_what_both_allow(tmp_path: Path) -> None:
    given = {
        "a": {"command": "tea", "allow": ["read", "list"], "disabledTools": ["drop"]},
        "b": {"command": "tea", "includeTools": ["read", "write"], "deny": ["burn"]},
    }
    [server] = imported(tmp_path, "mcp.json", json.dumps({"mcpServers": given})).values()
    assert server.definition == {"command": "tea", "allow": ["read"], "deny": ["drop", "burn"]}


def test_the_content_of_a_file_is_asked_for_and_not_read(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sk-0123456789abcdef")
    text = (
        '{"mcp": {"tea": {"type": "local", "command": ["tea"], "environment": {"TOKEN": "{file:./token}"}}}}'
    )
    server = imported(tmp_path, "opencode.json", text)["tea"]
    [asked] = server.inputs.values()
    assert (asked.title, asked.password) == ("{file:./token}", True)
    assert server.definition["env"] == {"TOKEN": f"${{input:{asked.id}}}"}
