"""Servers of a project over HTTP: for a client that names its folders, and for nobody else."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tabane.errors import ConfigurationError
from tabane.hub.clients import client_questions
from tabane.hub.http.authentication import HttpIdentities
from tabane.operations import Access, CallTarget
from tabane.servers.projects.project_servers import ProjectTrust, project_files
from tests.harness.http_hub import HttpClient, HttpHub, call, http_hub, modern, request
from tests.harness.patience import LONG
from tests.harness.running_hub import Json, child, configured

UNKNOWN = -32602


def trust(home: Path, project: Path) -> None:
    files = list(project_files(os.path.realpath(project)))
    ProjectTrust(home).add(file for file in files if not isinstance(file, ConfigurationError))


class KeyToEverything:
    """The access of a key that may call everything, and what finds it."""

    holder, label, tier, everything, revision = "key:abcdefgh", "k", "local", True, 0

    def allows(self, target: CallTarget) -> bool:
        return True

    def sees_server(self, server: str) -> bool:
        return True

    def find(self, secret: str) -> Access | None:
        return self if secret == SECRET else None


SECRET = "tbn_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"


@asynccontextmanager
async def hub_with_a_project(
    folder: Path, identities: HttpIdentities | None = None
) -> AsyncIterator[tuple[HttpHub, Path]]:
    project = folder / "shop"
    project.mkdir()
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"db": child()}}))
    home = configured(folder / "home", {}).parent
    trust(home, project)
    async with http_hub(home, {"own": child()}, identities=identities, list_wait=60) as here:
        yield here, project


def names(answer: Json) -> set[str]:
    return {tool["name"] for tool in answer["result"]["tools"]}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a client take its time to name its folders, as on a slow machine."""
    monkeypatch.setattr(client_questions, "ROOTS_WAIT", LONG)


async def named(here: HttpHub, peer: HttpClient, session: dict[str, str], folder: Path) -> Json:
    """The list of tools for a client that is asked for its folders on the way."""
    assert (await peer.begin(request("tools/list"), **session)).streams
    question = await peer.message()
    assert question["method"] == "roots/list"
    other = await here.peer()
    roots = {"roots": [{"uri": folder.as_uri()}]}
    told = await other.post({"jsonrpc": "2.0", "id": question["id"], "result": roots}, **session)
    assert told.status == 202
    return await peer.message()


async def test_a_client_that_names_its_folders_sees_the_servers_there(tmp_path: Path) -> None:
    async with hub_with_a_project(tmp_path) as (here, project):
        peer = await here.peer()
        session = await here.session(peer, roots={})
        assert {"own__echo", "db__echo"} <= names(await named(here, peer, session, project / "src"))
        peer = await here.peer()
        answer = await peer.post(call("db__echo", 2, n=1), **session)
        assert answer.json["result"]["structuredContent"] == {"n": 1}


async def test_a_client_in_another_folder_does_not_see_them(tmp_path: Path) -> None:
    async with hub_with_a_project(tmp_path) as (here, _):
        peer = await here.peer()
        session = await here.session(peer, roots={})
        listed = names(await named(here, peer, session, tmp_path))
        assert "own__echo" in listed
        assert "db__echo" not in listed


async def test_a_client_without_folders_does_not_see_them(tmp_path: Path) -> None:
    async with hub_with_a_project(tmp_path) as (here, _):
        peer = await here.peer()
        session = await here.session(peer)
        listed = names((await peer.post(request("tools/list"), **session)).json)
        assert "own__echo" in listed
        assert "db__echo" not in listed
        assert (await peer.post(call("db__echo", 2), **session)).code == UNKNOWN
        message, headers = modern(request("tools/list"))
        listed = names((await peer.post(message, **headers)).json)
        assert "own__echo" in listed
        assert "db__echo" not in listed


async def test_a_program_over_http_does_not_see_them(tmp_path: Path) -> None:
    async with hub_with_a_project(tmp_path) as (here, _):
        peer = await here.peer()
        listed = (await peer.post(request("list_tools", {"limit": 100}), "/rpc")).json
        assert "db" not in listed["result"]["servers"]
        assert "own" in listed["result"]["servers"]


async def test_the_holder_of_a_key_does_not_see_them_and_is_not_asked_for_folders(tmp_path: Path) -> None:
    identities = HttpIdentities(KeyToEverything())
    async with hub_with_a_project(tmp_path, identities) as (here, _):
        peer, bearer = await here.peer(), {"authorization": f"Bearer {SECRET}"}
        begun = {"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}, "clientInfo": {"name": "t"}}
        answer = await peer.post(request("initialize", begun, 0), **bearer)
        session = bearer | {
            "mcp_session_id": answer.headers["mcp-session-id"], "mcp_protocol_version": "2025-11-25"
        }  # fmt: skip
        peer.send_message(request("tools/list"), **session)
        listed = names(await peer.reply())
        assert "own__echo" in listed
        assert "db__echo" not in listed
        assert (await peer.post(call("db__echo", 2), **session)).code == UNKNOWN
