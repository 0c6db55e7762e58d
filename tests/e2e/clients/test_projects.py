"""Servers of a project: used only after a person has trusted its file, and only by clients in its folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tabane.errors import ConfigurationError
from tabane.hub.clients import client_questions
from tabane.servers.projects.project_servers import ProjectTrust, project_files
from tests.harness.patience import LONG, until
from tests.harness.running_hub import Json, RunningHub, SocketClient, child, configured, running_hub, text

UNKNOWN = -32602


class Project:
    """A folder whose `.mcp.json` defines one server, which writes a file when it is started."""

    def __init__(self, folder: Path, name: str = "db", **keys: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.started = folder, folder / "started.txt"
        self.name, self.keys = name, keys
        self.write(".mcp.json")

    def write(self, file: str, *arguments: str, table: str = "mcpServers", **keys: Any) -> Path:
        definition = child("--pids", str(self.started), *arguments, **(self.keys | keys))
        path = self.folder / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({table: {self.name: definition}}))
        return path

    @property
    def pids(self) -> list[int]:
        """The processes of the server that were ever started."""
        lines = self.started.read_text().splitlines() if self.started.exists() else []
        return [int(line.split()[1]) for line in lines]

    def trust(self, here: RunningHub) -> None:
        trust(here.hub.settings.home, self.folder)
        here.hub.follower.now()


def patient_hub(
    home: Path, servers: Mapping[str, Json], **settings: Any
) -> AbstractAsyncContextManager[RunningHub]:
    """A hub whose lists wait for servers that start, also on a slow machine."""
    return running_hub(home, servers, list_wait=60, **settings)


def trust(home: Path, folder: Path) -> None:
    """Trust all files of a project as they are."""
    files = []
    for file in project_files(os.path.realpath(folder)):
        assert not isinstance(file, ConfigurationError), file
        files.append(file)
    ProjectTrust(home).add(files)


async def tools(line: SocketClient) -> set[str]:
    """The names in the client's list of tools, which are those of servers in mode full."""
    return {tool["name"] for tool in (await line.result("tools/list"))["tools"]}


async def refused(line: SocketClient, name: str) -> Json:
    """The error of a call that is not known, without the name."""
    error: Json = (await line.request("tools/call", {"name": name, "arguments": {}}))["error"]
    assert error["code"] == UNKNOWN
    return json.loads(json.dumps(error).replace(name, "NAME"))  # type: ignore[no-any-return]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


async def test_nothing_of_an_untrusted_project_is_started_or_found(home: Path, tmp_path: Path) -> None:
    project = Project(tmp_path / "shop", env={"SECRET": "${HOME}"})
    async with patient_hub(home, {"own": child()}, start_servers="at_start") as here:
        line = await here.connect(mode="full", cwd=str(project.folder))
        assert await tools(line) >= {"own__echo"}
        assert not {name for name in await tools(line) if name.startswith("db")}
        await refused(line, "db__echo")
        await line.call("search_tools", query="echo what is sent")
        await here.hub.gateway.health.check()
        here.hub.follower.now()
        assert list(here.hub.gateway.servers) == ["own"]
        offers = await here.hub.sessions.offers.now()
        assert [(offer.folder, offer.servers) for offer in offers] == [(str(project.folder), 1)]
    assert not project.started.exists()


async def test_an_assistant_learns_that_its_project_is_not_trusted_and_others_do_not(
    home: Path, tmp_path: Path
) -> None:
    project = Project(tmp_path / "shop")
    async with patient_hub(home, {"own": child()}) as here:
        inside = await here.connect(cwd=str(project.folder / "src"))
        outside = await here.connect(cwd=str(tmp_path))

        async def told() -> bool:
            return "tabane projects trust" in text(await inside.call("search_tools", query="echo"))

        await until(told, "the search says that the project is not trusted")
        assert "tabane projects" not in text(await outside.call("search_tools", query="echo"))
        project.trust(here)
        await here.hub.sessions.offers.now()
        assert not await told()


async def test_servers_of_a_trusted_project_exist_only_for_clients_in_its_folder(
    home: Path, tmp_path: Path
) -> None:
    project = Project(tmp_path / "shop", description="the shop's own")
    async with patient_hub(home, {"own": child()}) as here:
        project.trust(here)
        inside = await here.connect(mode="full", cwd=str(project.folder))
        below = await here.connect(mode="full", cwd=str(project.folder / "a" / "b"))
        beside = await here.connect(mode="full", cwd=str(tmp_path / "shop-2"))
        nowhere = await here.connect(mode="full")
        for line in (inside, below):
            assert {"own__echo", "db__echo"} <= await tools(line)
            assert (await line.call("db__echo", n=1))["structuredContent"] == {"n": 1}
            assert "db__echo" in text(await line.call("search_tools", query="echo", server="db"))
        for line in (beside, nowhere):
            assert not {name for name in await tools(line) if name.startswith("db__")}
            assert await refused(line, "db__echo") == await refused(line, "xy__echo")
            assert "db__" not in text(await line.call("search_tools", query="echo"))
            assert (await line.through("db__echo"))["isError"] is True
            described = await line.call("describe_tools", names=["db__echo"])
            assert "inputSchema" not in text(described)
        assert len(project.pids) == 1


async def test_instructions_and_lists_of_other_clients_stay_the_same(home: Path, tmp_path: Path) -> None:
    project = Project(tmp_path / "shop", pin=["echo"], description="shop")
    async with patient_hub(home, {"own": child(pin=["pid"])}) as here:
        line = await here.connect(mode="search")
        access = next(iter(here.hub.sessions)).caller.access
        before = json.dumps(await line.result("tools/list"))
        project.trust(here)
        inside = await here.connect(mode="search", cwd=str(project.folder))
        assert "db__echo" in await tools(inside)
        assert json.dumps(await line.result("tools/list")) == before
        assert not access.everything
        for client, seen in ((inside, True), (await here.connect(), False)):
            introduced = await client.request(
                "initialize",
                {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {},
                    "clientInfo": {"name": "t", "version": "1"},
                },
            )
            assert ("db (shop)" in introduced["result"]["instructions"]) is seen


async def test_a_server_of_a_project_is_not_started_for_clients_of_other_folders(
    home: Path, tmp_path: Path
) -> None:
    project = Project(tmp_path / "shop")
    trust(configured(home, {}).parent, project.folder)
    async with patient_hub(home, {"own": child()}, start_servers="at_start") as here:
        outside = await here.connect(mode="full", cwd=str(tmp_path))
        await until(lambda: here.hub.gateway.catalog.has("own"), "the other server has started")
        assert not {name for name in await tools(outside) if name.startswith("db")}
        await refused(outside, "db__echo")
        await outside.call("search_tools", query="echo")
        await here.hub.gateway.health.check()
        assert not project.started.exists()
        inside = await here.connect(mode="full", cwd=str(project.folder))
        assert "db__echo" in await tools(inside)
        assert len(project.pids) == 1


async def test_a_change_of_the_file_takes_the_servers_away_until_it_is_trusted_again(
    home: Path, tmp_path: Path
) -> None:
    project = Project(tmp_path / "shop")
    async with patient_hub(home, {}) as here:
        project.trust(here)
        line = await here.connect(mode="full", cwd=str(project.folder))
        assert "db__echo" in await tools(line)
        [pid] = project.pids
        marker = tmp_path / "evil.txt"
        path = project.write(".mcp.json", "--pids", str(marker))
        await until(lambda: "db" not in here.hub.gateway.servers, "the change is seen")
        assert "db__echo" not in await tools(line)
        await refused(line, "db__echo")
        await until(lambda: not is_running(pid), "the server has ended")
        assert any("changed" in str(what) for what in here.hub.configuration.warnings)
        assert [each.changed for each in await here.hub.sessions.offers.now()] == [True]
        assert not marker.exists()
        project.trust(here)
        assert "db__echo" in await tools(line)
        assert marker.exists()
        path.unlink()
        await until(lambda: "db" not in here.hub.gateway.servers, "the file is gone")


async def test_a_hub_that_starts_again_keeps_the_trust(home: Path, tmp_path: Path) -> None:
    project = Project(tmp_path / "shop")
    async with patient_hub(home, {}) as here:
        project.trust(here)
    async with patient_hub(home, {}) as here:
        line = await here.connect(mode="full", cwd=str(project.folder))
        assert "db__echo" in await tools(line)
        assert (home / "projects.json").stat().st_mode & 0o777 == 0o600


async def test_clients_in_the_folder_are_told_when_it_is_trusted_and_forgotten(
    home: Path, tmp_path: Path
) -> None:
    project = Project(tmp_path / "shop")
    changed = "notifications/tools/list_changed"
    async with patient_hub(home, {}) as here:
        inside = await here.connect(mode="full", cwd=str(project.folder))
        outside = await here.connect(mode="full", cwd=str(tmp_path))
        for line in (inside, outside):
            await tools(line)
        project.trust(here)
        await inside.noticed(changed)
        assert "db__echo" in await tools(inside)
        inside.notifications.clear()
        [pid] = project.pids
        ProjectTrust(home).forget(str(project.folder))
        await inside.noticed(changed)
        assert "db__echo" not in await tools(inside)
        await until(lambda: not is_running(pid), "the server has ended")
        # The answer comes after whatever the others were told at the same moments.
        await tools(outside)
        assert changed not in [note["method"] for note in outside.notifications]
        configured(home, {"new": child()})
        await outside.noticed(changed)


async def test_two_projects_may_have_servers_of_the_same_name(home: Path, tmp_path: Path) -> None:
    one, two = Project(tmp_path / "one"), Project(tmp_path / "two")
    async with patient_hub(home, {"db": child()}) as here:
        one.trust(here)
        two.trust(here)
        in_one = await here.connect(mode="full", cwd=str(one.folder))
        in_two = await here.connect(mode="full", cwd=str(two.folder))
        assert {"db__pid", "db-one__pid"} <= await tools(in_one)
        assert {"db__pid", "db-two__pid"} <= await tools(in_two)
        assert "db-two__pid" not in await tools(in_one)
        assert "db-one__pid" not in await tools(in_two)
        assert [int(text(await in_one.call("db-one__pid")))] == one.pids
        assert [int(text(await in_two.call("db-two__pid")))] == two.pids
        await refused(in_one, "db-two__pid")


async def test_of_nested_projects_the_nearest_one_counts(home: Path, tmp_path: Path) -> None:
    outer = Project(tmp_path / "outer", "outer")
    inner = Project(tmp_path / "outer" / "packages" / "inner", "inner")
    async with patient_hub(home, {}) as here:
        outer.trust(here)
        inner.trust(here)
        line = await here.connect(mode="full", cwd=str(inner.folder))
        assert {"inner__echo"} == {name for name in await tools(line) if name.endswith("__echo")}
        line = await here.connect(mode="full", cwd=str(outer.folder / "packages"))
        assert {"outer__echo"} == {name for name in await tools(line) if name.endswith("__echo")}


@pytest.mark.parametrize(
    ("file", "table"), [(".cursor/mcp.json", "mcpServers"), (".vscode/mcp.json", "servers")]
)
async def test_files_of_editors_are_read_too_and_run_in_the_folder_of_the_project(
    file: str, table: str, home: Path, tmp_path: Path
) -> None:
    project = Project(tmp_path / "shop")
    (project.folder / ".mcp.json").unlink()
    env = {"PLACE": "${workspaceFolder}/data", "NAME": "${workspaceFolderBasename}"}
    project.write(file, table=table, env=env)
    async with patient_hub(home, {}) as here:
        project.trust(here)
        line = await here.connect(mode="full", cwd=str(project.folder / "src"))
        seen = json.loads(text(await line.call("db__environment")))
        assert seen["PLACE"] == str(project.folder / "data")
        assert seen["NAME"] == "shop"
        [pid] = project.pids
        assert os.readlink(f"/proc/{pid}/cwd") == str(project.folder)


async def test_an_entry_that_asks_an_editor_for_a_value_says_how_to_set_it(
    home: Path, tmp_path: Path
) -> None:
    project = Project(tmp_path / "shop", env={"TOKEN": "${input:api-token}"})
    async with patient_hub(home, {}) as here:
        project.trust(here)
        assert "tabane secrets set API_TOKEN" in str(here.hub.gateway.servers["db"].disabled)
        line = await here.connect(mode="full", cwd=str(project.folder))
        answer = await line.request("tools/call", {"name": "db__echo"})
        assert "tabane secrets set API_TOKEN" in answer["error"]["message"]


async def test_a_server_of_a_project_that_is_tabane_itself_is_left_out(home: Path, tmp_path: Path) -> None:
    project = Project(tmp_path / "shop")
    written = json.loads((project.folder / ".mcp.json").read_text())
    written["mcpServers"]["tabane"] = {"command": "uvx", "args": ["tabane", "mcp"]}
    (project.folder / ".mcp.json").write_text(json.dumps(written))
    async with patient_hub(home, {}) as here:
        project.trust(here)
        assert list(here.hub.gateway.servers) == ["db"]


def roots(*folders: Path) -> Mapping[str, Any]:
    return {"result": {"roots": [{"uri": folder.as_uri(), "name": folder.name} for folder in folders]}}


async def test_folders_that_a_client_names_count_instead_of_its_working_directory(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_questions, "ROOTS_WAIT", LONG)
    one, two = Project(tmp_path / "one", "one"), Project(tmp_path / "two", "two")
    async with patient_hub(home, {}) as here:
        one.trust(here)
        two.trust(here)
        line = await here.connect(
            mode="full", cwd=str(one.folder), capabilities={"roots": {"listChanged": True}}
        )
        line.answer = lambda question: dict(roots(two.folder))
        first, second = line.begin("tools/list"), line.begin("tools/call", {"name": "one__echo"})
        names = {tool["name"] for tool in (await first)["result"]["tools"]}
        assert "two__echo" in names
        assert "one__echo" not in names
        assert (await second)["error"]["code"] == UNKNOWN
        assert not one.started.exists()
        assert len(line.questions) == 1
        line.answer = lambda question: dict(roots(one.folder))
        line.notify("notifications/roots/list_changed")
        await line.noticed("notifications/tools/list_changed")
        names = await tools(line)
        assert "one__echo" in names
        assert "two__echo" not in names


async def test_a_client_that_does_not_answer_is_served_without_its_folders(
    home: Path, tmp_path: Path
) -> None:
    project = Project(tmp_path / "shop")
    async with patient_hub(home, {"own": child()}) as here:
        project.trust(here)
        line = await here.connect(mode="full", capabilities={"roots": {}})
        names = await tools(line)
        assert "own__echo" in names
        assert "db__echo" not in names
