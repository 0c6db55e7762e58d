"""MCP Apps through the hub: addresses of pages, tools with pages in each mode, and calls of apps."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tabane.wire.era import META_CAPABILITIES
from tests.harness.patience import until
from tests.harness.running_hub import Json, RunningHub, SocketClient, running_hub, text

APPS = str(Path(__file__).parents[2] / "harness" / "servers" / "apps.py")
SHARED = "ui://shared/page.html"
UI = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
VERSIONS = pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])


def app(name: str, *options: str, **keys: Any) -> Json:
    return {"command": sys.executable, "args": [APPS, name, *options], **keys}


def shown(server: str) -> str:
    return f"ui://tabane/{server}/shared/page.html"


@asynccontextmanager
async def hub_of(folder: Path, servers: dict[str, Json], **settings: Any) -> AsyncIterator[RunningHub]:
    async with running_hub(folder, servers, **settings) as here:
        for kind in ("tools", "resources"):
            client = await here.connect(mode="full")
            await client.result(f"{kind}/list")
        await until(lambda: all(here.hub.gateway.catalog.has(name) for name in servers), "tools of all")
        yield here


async def tools(client: SocketClient, capabilities: Json | None = None) -> dict[str, Json]:
    """The list of tools. A modern client says with each request what it can do."""
    meta = {"_meta": {META_CAPABILITIES: capabilities}} if client.modern and capabilities else {}
    return {tool["name"]: tool for tool in (await client.result("tools/list", meta))["tools"]}


async def page(client: SocketClient, uri: str) -> Json:
    found: Json = (await client.result("resources/read", {"uri": uri}))["contents"][0]
    return found


@VERSIONS
@pytest.mark.parametrize("listed", [(), ("--listed",)], ids=["unlisted", "listed"])
async def test_two_servers_with_one_address_of_a_page_each_give_their_own(
    tmp_path: Path, version: Any, listed: tuple[str, ...]
) -> None:
    servers = {name: app(name, *listed) for name in ("one", "two")}
    async with hub_of(tmp_path / "home", servers) as here:
        client = await here.connect(version, mode="full")
        found = await tools(client)
        for name in servers:
            meta = found[f"{name}__show"]["_meta"]
            assert meta == {"ui": {"resourceUri": shown(name)}, "x-own": 1}
            read = await page(client, meta["ui"]["resourceUri"])
            assert read["uri"] == shown(name)
            assert f"<h1>{name}</h1>" in read["text"]
            whole = await client.result("tools/get", {"name": f"{name}__show"})
            assert whole["tool"]["_meta"]["ui"]["resourceUri"] == shown(name)
        resources = [one["uri"] for one in (await client.result("resources/list"))["resources"]]
        assert resources == ([shown("one"), shown("two")] if listed else [])


async def test_the_address_of_a_page_is_the_same_whether_or_not_another_server_has_it(tmp_path: Path) -> None:
    async with hub_of(tmp_path / "home", {"one": app("one")}) as here:
        client = await here.connect(mode="full")
        alone = (await tools(client))["one__show"]
    async with hub_of(tmp_path / "home", {"one": app("one"), "other": app("other")}) as here:
        client = await here.connect(mode="full")
        assert (await tools(client))["one__show"] == alone
        assert "<h1>one</h1>" in (await page(client, alone["_meta"]["ui"]["resourceUri"]))["text"]


async def test_an_address_without_its_server_is_served_only_if_one_server_has_it(tmp_path: Path) -> None:
    async with hub_of(
        tmp_path / "alone", {"one": app("one"), "clock": app("clock", "--uri", "ui://clock")}
    ) as here:
        client = await here.connect()
        read = await page(client, SHARED)
        assert (read["uri"], "<h1>one</h1>" in read["text"]) == (SHARED, True)
    async with hub_of(tmp_path / "both", {"one": app("one"), "two": app("two", "--listed")}) as here:
        client = await here.connect()
        for uri in (SHARED, "ui://data/hidden"):
            refused = (await client.request("resources/read", {"uri": uri}))["error"]
            assert "Several servers have" in refused["message"]
            assert uri.replace("ui://", "ui://tabane/two/") in refused["message"]
        assert (await page(client, "ui://tabane/two/data/hidden"))["text"] == "two"


async def test_an_address_of_a_server_that_is_gone_leads_to_no_other(tmp_path: Path) -> None:
    async with hub_of(tmp_path / "home", {"two": app("two", "--listed")}) as here:
        client = await here.connect()
        assert "error" in await client.request("resources/read", {"uri": shown("one")})
        # What looks like an address is one, although this server could mean it literally.
        assert "error" in await client.request("resources/read", {"uri": "ui://tabane/shared/page.html"})


async def test_a_page_may_have_an_address_that_looks_like_one_of_the_hub(tmp_path: Path) -> None:
    uri = "ui://tabane/two/shared/page.html"
    servers = {"one": app("one", "--uri", uri), "two": app("two")}
    async with hub_of(tmp_path / "home", servers) as here:
        client = await here.connect(mode="full")
        found = (await tools(client))["one__show"]["_meta"]["ui"]["resourceUri"]
        assert "<h1>one</h1>" in (await page(client, found))["text"]
        assert "<h1>two</h1>" in (await page(client, uri))["text"]


@pytest.mark.parametrize("through", [False, True], ids=["directly", "through call_tool"])
async def test_addresses_in_results_are_those_of_the_server(tmp_path: Path, through: bool) -> None:
    async with hub_of(tmp_path / "home", {"one": app("one"), "two": app("two")}) as here:
        client = await here.connect()
        result = await (client.through if through else client.call)("two__show")
        words, link, embedded = result["content"]
        assert words["text"] == "show of two"
        assert link["uri"] == embedded["resource"]["uri"] == shown("two")
        assert embedded["resource"]["text"] == "ui://in/text"
        assert result["_meta"]["ui"]["resourceUri"] == shown("two")
        prompt = await client.result("prompts/get", {"name": "two__look"})
        assert prompt["messages"][0]["content"]["uri"] == shown("two")


@VERSIONS
async def test_a_connection_to_one_server_has_the_addresses_of_that_server(
    tmp_path: Path, version: Any
) -> None:
    servers = {name: app(name, "--listed") for name in ("one", "two")}
    async with hub_of(tmp_path / "home", servers) as here:
        client = await here.connect(version, server="two")
        listed = await tools(client, UI)
        assert listed["show"]["_meta"]["ui"]["resourceUri"] == SHARED
        found = await page(client, SHARED)
        assert found["uri"] == SHARED
        assert "<h1>two</h1>" in found["text"]
        result = await client.call("show")
        _, link, embedded = result["content"]
        assert link["uri"] == embedded["resource"]["uri"] == SHARED
        assert result["_meta"]["ui"]["resourceUri"] == SHARED
        prompt = await client.result("prompts/get", {"name": "look"})
        assert prompt["messages"][0]["content"]["uri"] == SHARED


async def test_the_deprecated_member_names_the_page_too(tmp_path: Path) -> None:
    async with hub_of(tmp_path / "home", {"one": app("one", "--flat", pin="ui")}) as here:
        client = await here.connect()
        meta = (await tools(client))["one__show"]["_meta"]
        assert meta == {"ui/resourceUri": shown("one")}
        assert "<h1>one</h1>" in (await page(client, meta["ui/resourceUri"]))["text"]


# Modes


@VERSIONS
@pytest.mark.parametrize("mode", ["full", "light", "search"])
async def test_only_hosts_of_apps_list_the_tools_for_apps_alone(
    tmp_path: Path, version: Any, mode: str
) -> None:
    async with hub_of(tmp_path / "home", {"one": app("one", pin="ui")}) as here:
        host = await here.connect(version, mode=mode, capabilities=UI)
        other = await here.connect(version, mode=mode)
        of_host, of_other = await tools(host, UI), await tools(other)
        assert of_host["one__show"] == of_other["one__show"]
        assert of_host["one__show"]["_meta"]["ui"]["resourceUri"] == shown("one")
        assert of_host["one__refresh"]["_meta"]["ui"]["visibility"] == ["app"]
        assert set(of_host) - set(of_other) == {"one__refresh"}
        assert ("one__plain" in of_host) == (mode != "search")


@pytest.mark.parametrize("pin", ["ui", ["ui"], ["pl*", "ui"]], ids=str)
async def test_the_word_ui_pins_the_tools_with_a_page(tmp_path: Path, pin: Any) -> None:
    async with hub_of(tmp_path / "home", {"one": app("one", pin=pin), "two": app("two")}) as here:
        client = await here.connect()
        before = await client.result("tools/list")
        names = {tool["name"] for tool in before["tools"]}
        plain = {"one__plain"} if "pl*" in pin else set()
        assert {name for name in names if "__" in name} == {"one__show", *plain}
        await client.call("one__show")
        await page(client, shown("two"))
        assert await client.result("tools/list") == before


async def test_search_says_which_pages_are_not_shown_and_finds_no_tool_for_apps_alone(tmp_path: Path) -> None:
    async with hub_of(tmp_path / "home", {"one": app("one", pin="ui"), "two": app("two")}) as here:
        client = await here.connect()
        found = text(await client.call("search_tools", query="show", limit=20))
        assert "Page shown only if pinned: two__show" in found
        assert (
            "refresh"
            not in text(await client.call("search_tools", query="refresh", limit=20)).partition(":")[2]
        )
        described = text(await client.call("describe_tools", names=["two__show"]))
        assert "pinned" in described
        assert "pinned" not in text(await client.call("describe_tools", names=["one__show"]))
        refused = await client.through("one__refresh")
        assert refused["isError"]
        assert "app of its server" in text(refused)


# Calls of apps


@VERSIONS
async def test_an_app_calls_the_tools_of_its_server_by_their_own_names(tmp_path: Path, version: Any) -> None:
    """A host passes the call on as the app makes it."""
    servers = {"one": app("one", pin="ui"), "other": app("other", "--uri", "ui://o")}
    async with hub_of(tmp_path / "home", servers) as here:
        client = await here.connect(version, mode="full")
        for name in ("refresh", "show"):
            refused = (await client.request("tools/call", {"name": name}))["error"]
            assert f"one__{name}, other__{name}" in refused["message"]
        # In mode search, a host can have shown only the page of the pinned tool.
        client = await here.connect(version, mode="search")
        assert text(await client.call("refresh")).strip() == "refresh of one"
    async with hub_of(tmp_path / "alone", {"one": app("one")}) as here:
        client = await here.connect(version, mode="full")
        assert text(await client.call("refresh")).strip() == "refresh of one"
        assert text(await client.call("one__refresh")).strip() == "refresh of one"
        assert "error" in await client.request("tools/call", {"name": "report"})  # for the model alone
        assert "isError" in await client.through("refresh")


async def test_servers_are_told_that_pages_are_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with hub_of(tmp_path / "home", {"one": app("one", "--log", str(log))}):
        pass
    told = json.loads(log.read_text().splitlines()[0].removeprefix("capabilities "))
    assert told["extensions"].items() >= UI["extensions"].items()
