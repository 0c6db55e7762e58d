"""The key "sandbox" of a server: what is allowed, what it means, and what other programs write there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.servers.configuration import read_configuration
from tabane.servers.server import Server
from tabane.servers.server_keys import InvalidKeyValue, SandboxProfile, sandbox
from tabane.servers.variables import load_variables
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)


def servers(folder: Path, document: dict[str, Any], **variables: str) -> list[Server]:
    path = folder / "mcp-servers.json"
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    return list(read_configuration(path, load_variables(folder, variables)).servers)


def test_presets_are_short_for_profiles() -> None:
    assert sandbox("files") == sandbox(True) == sandbox({}) == SandboxProfile("files", network="off")
    assert sandbox("network") == SandboxProfile("network", network="on")
    assert sandbox("none") is sandbox(False) is None


def test_a_profile_has_all_its_members() -> None:
    given = {
        "preset": "network",
        "write": ["/a", "/b", "/a"],
        "read": ["/c"],
        "hide": ["/d"],
        "network": ["API.example.com.", "*.example.org:443", "[::1]:80"],
        "memory": "1.5G",
        "cpu": 60,
        "processes": 30,
        "unixSockets": True,
    }
    assert sandbox(given) == SandboxProfile(
        preset="network",
        writes=("/a", "/b"),
        reads=("/c",),
        hides=("/d",),
        network="hosts",
        hosts=("api.example.com", "*.example.org:443", "[::1]:80"),
        memory=3 << 29,
        cpu=60,
        processes=30,
        sockets=True,
    )


@pytest.mark.parametrize(("value", "inside"), CASES["a_wrong_profile_is_refused_with_its_place"])
def test_a_wrong_profile_is_refused_with_its_place(value: object, inside: str) -> None:
    with pytest.raises(InvalidKeyValue) as refused:
        sandbox(value)
    assert refused.value.inside == inside


PATHS = st.lists(st.sampled_from(["/a", "/b/c", "~/d", "${workspaceFolder}"]), max_size=3, unique=True)


NAMES = st.text(max_size=5) | st.sampled_from(["write", "network", "memory", "filesystem", "preset"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
)


@given(JSON)
def test_no_value_breaks_the_file(value: object) -> None:
    try:
        found = sandbox(value)
    except InvalidKeyValue:
        return
    assert found is None or isinstance(found, SandboxProfile)


def test_paths_of_a_sandbox_are_expanded_and_absolute(tmp_path: Path) -> None:
    definition = {"command": "x", "sandbox": {"write": ["data", "${PLACE}/x", "~/y"]}}
    (server,) = servers(tmp_path, {"mcpServers": {"a": definition}}, PLACE="/srv", HOME="/home/u")
    assert server.sandbox is not None
    assert server.sandbox.writes[:2] == (str(tmp_path / "data"), "/srv/x")
    assert server.sandbox.writes[2].endswith("/y")
    assert server.sandbox.writes[2].startswith("/")


def test_the_folder_of_the_client_can_be_written_to(tmp_path: Path) -> None:
    definition = {"command": "x", "sandbox": {"write": ["${workspaceFolder}/out"]}}
    (server,) = servers(tmp_path, {"mcpServers": {"a": definition}})
    placed = server.in_folder("/project/here")
    assert placed.sandbox is not None
    assert placed.sandbox.writes == ("/project/here/out",)


def test_a_changed_sandbox_restarts_the_server(tmp_path: Path) -> None:
    (one,) = servers(tmp_path, {"mcpServers": {"a": {"command": "x", "sandbox": "files"}}})
    (other,) = servers(tmp_path, {"mcpServers": {"a": {"command": "x", "sandbox": "network"}}})
    assert not one.runs_like(other)


def test_the_sandbox_of_an_editor_is_understood(tmp_path: Path) -> None:
    """VS Code writes ``sandboxEnabled`` in a server, and the rules once for the file."""
    rules = {
        "filesystem": {"allowWrite": ["/srv/data"], "denyRead": ["/srv/secret"]},
        "network": {"allowedDomains": ["api.example.com"]},
    }
    document = {
        "servers": {
            "caged": {"type": "stdio", "command": "x", "sandboxEnabled": True},
            "free": {"type": "stdio", "command": "x"},
            "own": {"type": "stdio", "command": "x", "sandboxEnabled": True, "sandbox": "network"},
        },
        "sandbox": rules,
    }
    caged, free, own = servers(tmp_path, document)
    assert caged.sandbox == SandboxProfile(
        writes=("/srv/data",), hides=("/srv/secret",), network="hosts", hosts=("api.example.com",)
    )
    assert free.sandbox is None
    assert own.sandbox == SandboxProfile("network", network="on")


def test_a_container_needs_no_command(tmp_path: Path) -> None:
    (server,) = servers(tmp_path, {"mcpServers": {"a": {"image": "ghcr.io/x/y:1"}}})
    assert server.disabled is None
    assert server.image == "ghcr.io/x/y:1"
