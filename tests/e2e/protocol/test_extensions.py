"""Capabilities and extensions reach the other side as far as the hub can carry them, and no further."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tabane.wire.era import SKILLS, TASKS, UI
from tests.harness.running_hub import Client, Json, SocketClient, child, running_hub, text

ERAS = list(itertools.product(("2025-11-25", "2026-07-28"), ("legacy", "modern")))
eras = pytest.mark.parametrize(("version", "era"), ERAS)
KEY = "io.modelcontextprotocol/"
PAGES: Json = {"mimeTypes": ["text/html;profile=mcp-app"]}
DECLARED: Json = {
    "extensions": {UI: PAGES, SKILLS: {}, "com.example/odd": {"x": 1}},
    "experimental": {"example/kept": {"y": 2}},
    "elicitation": {"form": {}},
}


def server(era: str, *arguments: str, **keys: Any) -> Json:
    return child("--era", era, *arguments, **keys)


async def ask(line: SocketClient, name: str, **arguments: Any) -> Any:
    """What a tool returned that a client calls with its capabilities."""
    meta = {KEY + "clientCapabilities": DECLARED} if line.modern else {}
    return await line.result("tools/call", {"name": name, "arguments": arguments, "_meta": meta})


def declared_to(line: SocketClient, era: str, result: Json) -> Json:
    """The capabilities in the answer of a server that says how it was introduced or asked."""
    body = json.loads(text(result))
    found: Json = body["initialize"]["capabilities"] if era == "legacy" else body[KEY + "clientCapabilities"]
    return found


@eras
async def test_a_server_of_one_client_is_told_what_its_client_announces(
    tmp_path: Path, version: Client, era: str
) -> None:
    async with running_hub(tmp_path, {"up": server(era, share="client")}) as here:
        line = await here.connect(version, capabilities=DECLARED, mode="full")
        told = declared_to(line, era, await ask(line, "up__session" if era == "legacy" else "up__meta"))
        # What the hub cannot carry is left out, whatever the client says of itself beside it stays.
        carried = {each.id for each in here.hub.gateway.extensions}
        assert set(told.get("extensions", {})) == {UI, SKILLS} & carried
        assert told["experimental"] == DECLARED["experimental"]
        assert told["elicitation"] == DECLARED["elicitation"]


async def test_a_legacy_server_of_all_clients_is_told_what_the_hub_carries(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": server("legacy")}) as here:
        line = await here.connect("2025-11-25", capabilities=DECLARED, mode="full")
        told = declared_to(line, "legacy", await ask(line, "up__session"))
        offered = {each.id for each in here.hub.gateway.extensions if each.to_servers is not None}
        assert set(told.get("extensions", {})) == offered
        assert "experimental" not in told


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_the_hub_announces_the_extensions_that_the_setting_allows(
    tmp_path: Path, version: Client
) -> None:
    async def announced(**settings: Any) -> Json:
        async with running_hub(tmp_path, {"up": server("legacy", "--extension", "a/b")}, **settings) as here:
            line = await here.connect(version, mode="full")
            if line.modern:
                result = await line.result("server/discover")
            else:
                hello: Json = {"protocolVersion": version, "capabilities": {}, "clientInfo": {}}
                result = await line.result("initialize", hello)
            capabilities: Json = result["capabilities"]
            assert (await line.request("skills/list")).get("error", {}).get("code") == (
                None if SKILLS in capabilities.get("extensions", {}) else -32601
            )
            return capabilities

    every = await announced()
    assert every["extensions"][SKILLS] == {"directoryRead": True}
    # Fixed by settings: what servers announce does not change it.
    assert "a/b" not in every["extensions"]
    assert "experimental" not in every
    some = await announced(extensions="tasks")
    assert set(some.get("extensions", {})) <= {TASKS}
    assert "extensions" not in await announced(extensions="")


@eras
async def test_a_connection_to_all_servers_passes_nothing_that_the_hub_does_not_know(
    tmp_path: Path, version: Client, era: str
) -> None:
    servers = {"up": server(era, "--extension", "com.example/odd"), "other": server("legacy")}
    async with running_hub(tmp_path, servers) as here:
        line = await here.connect(version, mode="full")
        direct = await here.connect(version, server="up")
        for method in ("example/echo", "events/poll"):
            assert (await line.request(method))["error"]["code"] == -32601
        line.notify("notifications/example/hello", {"a": 1})
        await direct.result("example/say", {"method": "notifications/example/news"})
        await direct.noticed("notifications/example/news")
        await line.call("up__echo", text="after it")
        assert [note["method"] for note in line.notifications if "example" in note["method"]] == []
        assert (await direct.result("example/heard"))["heard"] == []
