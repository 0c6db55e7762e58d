"""A connection to one server: its names, its introduction, and every message that the hub does not know."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tabane.access.permissions import rules_of
from tabane.catalog.lookup import method_target
from tabane.errors import Forbidden
from tests.harness.http_hub import http_hub, modern, request
from tests.harness.identities import GivenAccess, GivenKeys, identities
from tests.harness.patience import LONG, until
from tests.harness.running_hub import Client, Json, SocketClient, child, configured, running_hub, text
from tests.harness.servers.raw_http import Raw, Request, Wire, raw
from tests.harness.servers.raw_http import modern as answer_modern

EACH = list(itertools.product(("2025-06-18", "2025-11-25", "2026-07-28"), ("legacy", "modern")))
each = pytest.mark.parametrize(("version", "era"), EACH)
KEY = "io.modelcontextprotocol/"
ODD = "com.example/odd"
HELLO = "notifications/example/hello"


def odd(era: str, *arguments: str, **keys: Any) -> Json:
    """A server with an extension that nobody knows."""
    given = ("--era", era, "--offers", "--extension", ODD, "--instructions", "Mind the gap.")
    return child(*given, "--name", "Odd One", *arguments, **keys)


async def repeated(holds: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again, until the answer is what it should be."""
    async with asyncio.timeout(LONG):
        while not await holds():  # noqa: ASYNC110  (it asks a server)
            await asyncio.sleep(0)


async def two(heard: Callable[[], Awaitable[list[Json]]]) -> bool:
    return len(await heard()) >= 2


async def introduced(line: SocketClient) -> Json:
    """How the server is introduced to a client."""
    if line.modern:
        found = await line.result("server/discover")
        return {**found, "serverInfo": found["_meta"][KEY + "serverInfo"]}
    hello = {"protocolVersion": line.version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return await line.result("initialize", hello)


@each
async def test_the_server_is_introduced_as_it_introduces_itself(
    tmp_path: Path, version: Client, era: str
) -> None:
    async with running_hub(tmp_path, {"odd": odd(era), "other": child()}) as here:
        found = await introduced(await here.connect(version, server="odd"))
        assert found["instructions"] == "Mind the gap."
        assert found["serverInfo"] == {"name": "Odd One", "version": "1.0.0"}
        capabilities = found["capabilities"]
        deep = {"level": 3, "deep": {"kept": [9007199254740993, None]}}
        assert capabilities["extensions"] == {ODD: deep}
        assert capabilities["experimental"] == {"example/channel": {}}
        assert capabilities["resources"]["subscribe"] is True


@each
async def test_everything_has_the_names_of_the_server(tmp_path: Path, version: Client, era: str) -> None:
    servers = {"odd": odd(era, "--tools", "150"), "other": child("--offers", "--name", "Other")}
    async with running_hub(tmp_path, servers) as here:
        line = await here.connect(version, server="odd")
        tools = (await line.result("tools/list"))["tools"]
        names = [tool["name"] for tool in tools]
        assert {"echo", "extra_149"} <= set(names)
        assert not [name for name in names if "__" in name or name == "search_tools"]
        assert all("inputSchema" in tool for tool in tools)
        assert json.loads(text(await line.call("echo", text="hi"))) == {"text": "hi"}
        assert [each["name"] for each in (await line.result("prompts/list"))["prompts"]] == ["greet"]
        got = await line.result("prompts/get", {"name": "greet", "arguments": {"who": "you"}})
        assert got["messages"][0]["content"]["text"] == "Odd One greets you."
        listed = (await line.result("resources/list"))["resources"]
        assert [each["uri"] for each in listed] == ["memo://one"]
        read = await line.result("resources/read", {"uri": "memo://one"})
        assert read["contents"][0] == {
            "uri": "memo://one",
            "mimeType": "text/plain",
            "text": "Odd One has memo://one",
        }
        for name in ("odd__echo", "other__echo", "search_tools", "call_tool", "eccho"):
            assert (await line.request("tools/call", {"name": name}))["error"]["code"] == -32602


@each
async def test_unknown_requests_and_notifications_pass_unchanged(
    tmp_path: Path, version: Client, era: str
) -> None:
    async with running_hub(tmp_path, {"odd": odd(era)}) as here:
        line = await here.connect(version, server="odd")
        given = {"list": [1, None, "語"], "_meta": {"com.example/x": 7}}
        result = await line.result("example/echo", given)
        assert result["params"]["list"] == [1, None, "語"]
        assert result["params"]["_meta"]["com.example/x"] == 7
        assert result["big"] == 9007199254740993
        line.notify("notifications/example/hello", {"deep": [{}]})
        line.notify("example/bare", {"n": 1})

        async def heard() -> list[Json]:
            found: list[Json] = (await line.result("example/heard"))["heard"]
            return found

        await repeated(lambda: two(heard))
        assert sorted(await heard(), key=lambda note: str(note["method"])) == [
            {"method": "example/bare", "params": {"n": 1}},
            {"method": "notifications/example/hello", "params": {"deep": [{}]}},
        ]
        said = {"method": "notifications/example/news", "params": {"big": 9007199254740993}}
        await line.result("example/say", said)
        assert (await line.noticed("notifications/example/news"))["params"] == said["params"]
        unknown = await line.request("example/nothing")
        assert unknown["error"]["code"] == -32601


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_notification_that_names_its_request_gets_the_clients_own_id(
    tmp_path: Path, era: str
) -> None:
    async with running_hub(tmp_path, {"odd": odd(era)}) as here:
        line = await here.connect("2026-07-28", server="odd")
        line.begin("example/flow", {"count": 2}, request_id="my own id")
        note = await line.noticed("notifications/example/item")
        assert note["params"]["_meta"] == {KEY + "subscriptionId": "my own id"}


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("share", ["hub", "client"])
async def test_the_server_asks_its_only_client_what_the_hub_does_not_know(
    tmp_path: Path, version: Client, share: str
) -> None:
    async with running_hub(tmp_path, {"odd": odd("legacy", share=share)}) as here:
        line = await here.connect(version, server="odd")
        line.answer = lambda question: {"result": {"you": question["params"]["who"], "n": 1}}
        asked = {"method": "example/question", "params": {"who": "me"}}
        assert (await line.result("example/ask", asked))["reply"] == {"result": {"you": "me", "n": 1}}
        assert line.questions[0]["method"] == "example/question"
        # Also outside of a request, as long as it is clear who is asked.
        await line.result("example/ask-later", asked)
        await line.questioned(2)


async def test_a_request_of_the_server_is_refused_if_it_is_not_clear_who_is_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_hub(tmp_path, {"odd": odd("legacy")}) as here:
        one = await here.connect("2025-11-25", server="odd")
        two = await here.connect("2025-11-25", server="odd")
        await one.result("example/ask-later", {"method": "example/question"})
        # A request in flight would show who is asked.
        await until(lambda: "asked its client for example/question; refused" in caplog.text, "a refusal")

        async def refused() -> bool:
            replies = (await one.result("example/heard"))["replies"]
            return bool(replies) and "error" in replies[0]

        await repeated(refused)
        assert (one.questions, two.questions) == ([], [])


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_clients_capabilities_reach_the_server_whole(tmp_path: Path, era: str) -> None:
    declared = {"extensions": {ODD: {"mine": 1}}, "experimental": {"a": {}}, "later": {"b": 2}}
    async with running_hub(tmp_path, {"odd": odd(era, share="client")}) as here:
        line = await here.connect("2025-11-25", server="odd", capabilities=declared)
        told = (await line.result("example/echo"))["capabilities"]
        told.pop("roots", None)  # the hub answers for the folders
        assert told == declared
        line = await here.connect("2026-07-28", server="odd")
        meta = {KEY + "clientCapabilities": declared}
        told = (await line.result("example/echo", {"_meta": meta}))["capabilities"]
        told.pop("roots", None)
        assert told == declared


@each
async def test_methods_of_the_other_era_are_not_passed_on(tmp_path: Path, version: Client, era: str) -> None:
    async with running_hub(tmp_path, {"odd": odd(era)}) as here:
        line = await here.connect(version, server="odd")
        others = ("ping", "resources/subscribe") if line.modern else ("subscriptions/listen",)
        for method in (*others, 'bad"method', "x" * 500):
            assert (await line.request(method, {"uri": "memo://one"}))["error"]["code"] == -32601


async def test_a_key_without_the_whole_server_gets_only_what_the_hub_knows(tmp_path: Path) -> None:
    target = method_target("odd", "example/echo")
    for allow, deny in ((["odd__e*"], []), (["*"], ["odd__delete_*"]), (["odd__echo"], [])):
        assert not rules_of(allow, deny).allows(target), (allow, deny)
    assert not rules_of(["odd__*"], read_only=True).allows(target)
    assert rules_of(["odd__*"], ["other__*"]).allows(target)

    keys = identities(GivenKeys(part=GivenAccess("key:part", "odd__echo")))
    async with http_hub(tmp_path, {"odd": odd("legacy"), "other": child()}, identities=keys) as hub:
        peer = await hub.peer()

        async def ask(method: str, path: str = "/mcp/s/odd", **params: Any) -> Any:
            message, headers = modern(request(method, params))
            return await peer.post(message, path, authorization="Bearer tbn_part", **headers)

        capabilities = (await ask("server/discover")).json["result"]["capabilities"]
        assert "extensions" not in capabilities
        assert "experimental" not in capabilities
        tools = (await ask("tools/list")).json["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["echo"]
        assert (await ask("tools/call", name="echo", arguments={})).status == 200
        assert (await ask("example/echo")).json["error"]["code"] == Forbidden.code
        assert (await ask("tools/list", "/mcp/s/nothing")).status == 404


async def test_a_notification_is_dropped_if_the_clients_have_different_identities(tmp_path: Path) -> None:
    keys = identities(GivenKeys(other=GivenAccess("key:other", "*")))
    async with http_hub(tmp_path, {"odd": odd("legacy")}, identities=keys) as hub:
        line = await hub.running.connect("2025-11-25", server="odd")
        said = {"method": HELLO, "params": {}}
        await line.result("example/say", said)
        await line.noticed(HELLO)
        peer = await hub.peer()
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t"}}
        answer = await peer.post(
            request("initialize", params, 0), "/mcp/s/odd", authorization="Bearer tbn_other"
        )
        assert answer.status == 200
        await line.result("example/say", said)
        await line.call("echo", text="after it")
        assert len([note for note in line.notifications if note["method"] == HELLO]) == 1


@pytest.mark.heavy("hubs and servers as processes")
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_changes_of_other_servers_are_not_told(tmp_path: Path, version: Client) -> None:
    async with running_hub(tmp_path, {"odd": odd("legacy"), "other": child("--offers")}) as here:
        whole = await here.connect("2025-11-25", mode="full")
        await whole.result("tools/list")
        line = await here.connect(version, server="odd")
        await line.result("tools/list")
        if line.modern:
            wanted = {"toolsListChanged": True, "promptsListChanged": True}
            line.begin("subscriptions/listen", {"notifications": wanted}, request_id="w")
            await line.noticed("notifications/subscriptions/acknowledged")

        async def changes(kind: str, count: int) -> None:
            method = f"notifications/{kind}/list_changed"
            async with asyncio.timeout(LONG):
                while len([n for n in whole.notifications if n["method"] == method]) < count:
                    await whole.result("ping")

        def told() -> list[str]:
            return [n["method"] for n in line.notifications if n["method"].endswith("list_changed")]

        await line.result("prompts/list")
        await whole.call("other__offer", kind="prompts", names=["first"])
        await changes("prompts", 1)
        await line.call("echo", text="after it")
        before = told()
        await whole.call("other__offer", kind="prompts", names=["second"])
        await changes("prompts", 2)
        await line.call("echo", text="after it")
        assert told() == before
        await line.call("offer", kind="prompts", names=["mine"])
        async with asyncio.timeout(LONG):
            while told() == before:
                await line.call("echo", text="not yet")


async def test_over_http_in_both_eras(tmp_path: Path) -> None:
    async with http_hub(tmp_path, {"odd": odd("legacy")}) as hub:
        peer = await hub.peer()
        message, headers = modern(request("example/echo", {"a": 1}))
        answer = await peer.post(message, "/mcp/s/odd", **headers)
        assert answer.json["result"]["params"]["a"] == 1
        note = {"jsonrpc": "2.0", "method": HELLO, "params": {"b": 2}}
        told = await peer.post(note, "/mcp/s/odd", mcp_protocol_version="2026-07-28", mcp_method=HELLO)
        assert told.status == 202
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t"}}
        answer = await peer.post(request("initialize", params, 0), "/mcp/s/odd")
        assert answer.json["result"]["serverInfo"]["name"] == "Odd One"
        session = {"mcp_session_id": answer.headers["mcp-session-id"]}
        assert (await peer.post(note, "/mcp/s/odd", **session)).status == 202

        async def heard() -> list[Json]:
            answer = await peer.post(request("example/heard"), "/mcp/s/odd", **session)
            found: list[Json] = answer.json["result"]["heard"]
            return found

        await repeated(lambda: two(heard))
        # The session is no session of the whole hub.
        assert (await peer.post(request("tools/list"), "/mcp/full", **session)).status == 404


async def test_a_notification_reaches_a_modern_server_over_http(tmp_path: Path) -> None:
    async def answer(server: Raw, asked: Request, wire: Wire) -> None:
        if "id" not in asked.message:
            wire.send(202)
        else:
            await answer_modern(server, asked, wire)

    async with raw(answer) as server, running_hub(tmp_path, {"far": {"url": server.url}}) as here:
        line = await here.connect("2025-11-25", server="far")
        line.notify("notifications/example/hello", {"n": 1})
        await until(lambda: bool(server.asked("notifications/example/hello")))
        (posted,) = server.asked("notifications/example/hello")
        assert posted.headers["mcp-method"] == "notifications/example/hello"
        assert posted.headers["mcp-protocol-version"] == "2026-07-28"
        assert posted.message["params"] == {"n": 1}


async def test_a_server_that_does_not_start_is_an_error_and_its_last_listing_counts(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    marker = tmp_path / "gone"
    script = tmp_path / "server.sh"
    args = " ".join(f"'{part}'" for part in [sys.executable, *odd("legacy")["args"]])
    script.write_text(f'#!/bin/sh\n[ -e "{marker}" ] && exit 1\nexec {args}\n')
    script.chmod(0o755)
    servers = {"odd": {"command": str(script)}, "broken": child("--exit", "1")}
    async with running_hub(tmp_path / "home", servers) as here:
        line = await here.connect("2026-07-28", server="broken")
        assert "error" in await line.request("server/discover")
        line = await here.connect("2026-07-28", server="odd")
        await line.result("tools/list")
    marker.touch()
    async with running_hub(tmp_path / "home", servers) as here:
        line = await here.connect("2026-07-28", server="odd")
        found = await line.result("server/discover")
        assert found["capabilities"]["extensions"]
        assert "echo" in [tool["name"] for tool in (await line.result("tools/list"))["tools"]]


def test_the_command_connects_to_one_server(tmp_path: Path) -> None:
    servers = configured(tmp_path / "home", {"odd": odd("legacy"), "other": child()})
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TABANE_HOME": str(tmp_path / "home")}
    environ |= {"TABANE_MODEL": "none", "TABANE_HTTP": "false"}
    lines = [
        request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}, 0),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("example/echo", {"a": 1}, 1),
    ]
    given = "".join(json.dumps(line) + "\n" for line in lines)
    command = [sys.executable, "-m", "tabane", "mcp", "--standalone", "--servers", str(servers)]
    ran = subprocess.run(
        [*command, "--server", "odd"], input=given, env=environ, capture_output=True, text=True, timeout=LONG
    )
    answers = {line["id"]: line for line in map(json.loads, ran.stdout.splitlines()) if "id" in line}
    assert answers[0]["result"]["serverInfo"]["name"] == "Odd One", ran.stderr
    assert answers[1]["result"]["params"] == {"a": 1}
