"""Everything an upstream offers besides tools passes the hub: each client era × each upstream era."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.patience import until
from tests.harness.running_hub import Client, Json, SocketClient, child, running_hub

GRID = list(itertools.product(("2025-06-18", "2025-11-25", "2026-07-28"), ("legacy", "modern")))
grid = pytest.mark.parametrize(("version", "era"), GRID)


def offering(era: str, *arguments: str, name: str = "one", **keys: Any) -> Json:
    return child("--era", era, "--offers", "--name", name, *arguments, **keys)


async def watch(line: SocketClient, *uris: str) -> None:
    """Have the client told of changes of those, and of all lists, in the way of its era."""
    if line.modern:
        wanted: Json = {"promptsListChanged": True, "resourcesListChanged": True}
        if uris:
            wanted["resourceSubscriptions"] = list(uris)
        line.begin("subscriptions/listen", {"notifications": wanted}, request_id="watching")
        granted = await line.noticed("notifications/subscriptions/acknowledged")
        assert granted["params"]["notifications"] == wanted
    else:
        for uri in uris:
            assert await line.result("resources/subscribe", {"uri": uri}) == {}


def checked(line: SocketClient, result: Json) -> Json:
    """A result of a list or of a read, less what a modern client must be told with it."""
    if not line.modern:
        return {
            key: value
            for key, value in result.items()
            if key not in ("ttlMs", "cacheScope", "resultType", "_meta")
        }
    assert result.pop("resultType") == "complete"
    assert result.pop("ttlMs") >= 0
    assert result.pop("cacheScope") in ("public", "private")
    result.pop("_meta", None)
    return result


@grid
async def test_prompts_are_listed_under_the_name_of_their_server_and_got_by_it(
    tmp_path: Path, version: Client, era: str
) -> None:
    async with running_hub(tmp_path, {"up": offering(era)}) as here:
        line = await here.connect(version)
        listed = checked(line, await line.result("prompts/list"))
        (prompt,) = listed["prompts"]
        assert prompt["name"] == "up__greet"
        assert prompt["x-own"] == 1
        got = await line.result("prompts/get", {"name": "up__greet", "arguments": {"who": "Hana"}})
        assert got["messages"][0]["content"]["text"] == "one greets Hana."
        assert (got.get("resultType") == "complete") >= line.modern
        unknown = await line.request("prompts/get", {"name": "up__gret"})
        assert unknown["error"]["code"] == -32602
        assert "up__greet" in unknown["error"]["message"]


@grid
async def test_resources_and_templates_pass_unchanged_and_are_read(
    tmp_path: Path, version: Client, era: str
) -> None:
    async with running_hub(tmp_path, {"up": offering(era)}) as here:
        line = await here.connect(version)
        listed = checked(line, await line.result("resources/list"))
        assert listed["resources"] == [{"uri": "memo://one", "name": "one", "mimeType": "text/plain"}]
        templates = checked(line, await line.result("resources/templates/list"))
        assert templates["resourceTemplates"] == [{"uriTemplate": "memo://{n}", "name": "some"}]
        for uri in ("memo://one", "memo://seven", "dynamic:nobody/listed?this"):
            read = checked(line, await line.result("resources/read", {"uri": uri}))
            assert read["contents"] == [{"uri": uri, "mimeType": "text/plain", "text": f"one has {uri}"}]


@grid
async def test_what_two_servers_have_is_shown_and_read_under_two_addresses(
    tmp_path: Path, version: Client, era: str
) -> None:
    servers = {"a": offering(era, name="one"), "b": offering(era, name="two")}
    async with running_hub(tmp_path, servers) as here:
        line = await here.connect(version)
        listed = (await line.result("resources/list"))["resources"]
        uris = [resource["uri"] for resource in listed]
        assert uris == ["tabane://upstream/a/memo%3A%2F%2Fone", "tabane://upstream/b/memo%3A%2F%2Fone"]
        for uri, owner in zip(uris, ("one", "two"), strict=True):
            (content,) = (await line.result("resources/read", {"uri": uri}))["contents"]
            assert content["text"] == f"{owner} has memo://one"
            assert content["uri"] == uri


@grid
async def test_completions_reach_the_prompt_and_the_template_they_are_for(
    tmp_path: Path, version: Client, era: str
) -> None:
    servers = {
        "up": offering(era),
        "other": offering(era, "--templates", "note://{n}{?q}", "--uris", "note://1"),
    }
    async with running_hub(tmp_path, servers) as here:
        line = await here.connect(version)
        for ref, own in (
            ({"type": "ref/prompt", "name": "up__greet"}, "greet"),
            ({"type": "ref/resource", "uri": "memo://{n}"}, "memo://{n}"),
            ({"type": "ref/resource", "uri": "note://{n}{?q}"}, "note://{n}{?q}"),
        ):
            given = {"ref": ref, "argument": {"name": "who", "value": "Ha"}}
            result = await line.result("completion/complete", given)
            assert result["completion"]["values"] == [own, "Ha"]
        wrong = await line.request("completion/complete", {"ref": {"type": "ref/tool", "name": "x"}})
        assert wrong["error"]["code"] == -32602


@grid
async def test_a_client_is_told_of_updates_of_what_it_watches_and_of_nothing_else(
    tmp_path: Path, version: Client, era: str
) -> None:
    async with running_hub(tmp_path, {"up": offering(era, "--uris", "memo://one,memo://two")}) as here:
        line, other = await here.connect(version), await here.connect(version)
        await watch(line, "memo://one")
        await other.call("up__touch", uri="memo://two")
        await other.call("up__touch", uri="memo://one")
        note = await line.noticed("notifications/resources/updated")
        assert note["params"]["uri"] == "memo://one"
        if line.modern:
            meta = note["params"]["_meta"]
            assert meta == {"io.modelcontextprotocol/subscriptionId": "watching"}
        assert not [n for n in other.notifications if n["method"] == "notifications/resources/updated"]
        updates = [n for n in line.notifications if n["method"] == "notifications/resources/updated"]
        assert len(updates) == 1


@grid
async def test_what_is_no_longer_watched_is_no_longer_told(tmp_path: Path, version: Client, era: str) -> None:
    async with running_hub(tmp_path, {"up": offering(era)}) as here:
        line = await here.connect(version)
        await watch(line, "memo://one")
        if line.modern:
            line.notify("notifications/cancelled", {"requestId": "watching"})
        else:
            await line.result("resources/unsubscribe", {"uri": "memo://one"})

        async def let_go() -> bool:
            state = (await line.call("up__subscriptions"))["structuredContent"]
            watched = [listen.get("resourceSubscriptions") for listen in state["listens"]]
            return not state["subscribed"] and not any(watched)

        await until(let_go, "the server is told")


@grid
@pytest.mark.parametrize("kind", ["prompts", "resources"])
async def test_a_changed_list_is_announced_and_is_another(
    tmp_path: Path, version: Client, era: str, kind: str
) -> None:
    async with running_hub(tmp_path, {"up": offering(era)}) as here:
        line = await here.connect(version)
        await line.result(f"{kind}/list")
        await watch(line)
        names, changed = (["welcome"], ["up__welcome"]) if kind == "prompts" else (["memo://new"],) * 2
        line.notifications.clear()
        await line.call("up__offer", kind=kind, names=names)
        heard = 0

        async def is_another() -> bool:
            """List again with each announcement. The first listing is announced as well, maybe late."""
            nonlocal heard
            notes = [n for n in line.notifications if n["method"] == f"notifications/{kind}/list_changed"]
            if len(notes) == heard:
                return False
            heard = len(notes)
            listed = (await line.result(f"{kind}/list"))[kind]
            return [item["name" if kind == "prompts" else "uri"] for item in listed] == changed

        await until(is_another, "the changed list is announced")


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_long_lists_come_in_pages_that_survive_a_change(tmp_path: Path, version: Client) -> None:
    uris = [f"memo://{number}" for number in range(2500)]
    server = offering("legacy", "--uris", ",".join(uris))
    async with running_hub(tmp_path, {"up": server}, list_wait=60) as here:
        line = await here.connect(version)
        seen: list[str] = []
        cursor: Json = {}
        while True:
            page = await line.result("resources/list", cursor)
            seen += [resource["uri"] for resource in page["resources"]]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert seen == uris
        for method, wrong in (
            ("resources/list", "nonsense"),
            ("prompts/list", cursor["cursor"]),
            ("tools/list", ""),
        ):
            refused = await line.request(method, {"cursor": wrong})
            assert refused["error"]["code"] == -32602, method
        number = await line.request("resources/list", {"cursor": 7})
        assert number["error"]["code"] == -32602


@pytest.mark.parametrize(("version", "code"), [("2025-11-25", -32002), ("2026-07-28", -32602)])
async def test_a_resource_that_nobody_can_have_is_an_error_of_the_clients_era(
    tmp_path: Path, version: Client, code: int
) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect(version)
        answer = await line.request("resources/read", {"uri": "memo://one"})
        assert answer["error"]["code"] == code
        assert answer["error"]["data"] == {"uri": "memo://one"}


async def test_methods_of_the_other_era_are_unknown(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}) as here:
        modern, legacy = await here.connect("2026-07-28"), await here.connect("2025-11-25")
        for method in ("logging/setLevel", "resources/subscribe", "resources/unsubscribe", "ping"):
            assert (await modern.request(method, {"uri": "x", "level": "info"}))["error"]["code"] == -32601
        assert (await legacy.request("subscriptions/listen"))["error"]["code"] == -32601


async def test_input_required_passes_a_modern_client_with_its_state_untouched(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child("--era", "modern")}) as here:
        line = await here.connect("2026-07-28")
        meta: Json = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
        arguments = {"method": "elicitation/create", "params": {"message": "Who?"}}
        for name, given in (
            ("up__ask", arguments),
            ("call_tool", {"name": "up__ask", "arguments": arguments}),
        ):
            params: Json = {"name": name, "arguments": given, "_meta": meta}
            asked = await line.result("tools/call", params)
            assert asked["resultType"] == "input_required"
            (key,) = asked["inputRequests"]
            answers = {key: {"action": "accept", "content": {"名": "花"}}}
            more = {"inputResponses": answers, "requestState": asked["requestState"]}
            done = await line.result("tools/call", params | more)
            assert json.loads(done["content"][0]["text"]) == more


async def test_a_list_holds_as_long_as_the_shortest_that_a_server_gives(tmp_path: Path) -> None:
    servers = {"up": offering("modern", "--ttl", "1500"), "other": offering("modern", "--ttl", "9000")}
    async with running_hub(tmp_path, servers) as here:
        line = await here.connect("2026-07-28")
        for method in ("prompts/list", "resources/list", "resources/templates/list"):
            assert (await line.result(method))["ttlMs"] == 1500, method
        assert (await line.result("tools/list"))["ttlMs"] == 60_000


async def test_a_server_that_speaks_by_itself_is_heard_by_clients_that_set_a_level(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child("--offers")}) as here:
        line, other = await here.connect(), await here.connect()
        await line.result("logging/setLevel", {"level": "info"})
        upstream = await here.hub.gateway.start("up")
        connection = upstream.connection
        assert connection is not None
        said = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}'
        connection.conversation.receive(said)
        assert (await line.noticed("notifications/message"))["params"] == {"level": "error", "data": 1}
        await other.result("ping")
        assert "notifications/message" not in [note["method"] for note in other.notifications]


async def test_a_read_is_answered_though_the_next_server_that_may_know_it_cannot_be_asked(
    tmp_path: Path,
) -> None:
    servers = {
        "a": offering("legacy", "--broken", "resources/read"),
        "b": offering("legacy", "--uris", "note://1", cwd="${workspaceFolder}"),
    }
    async with running_hub(tmp_path, servers) as here:
        placed, placeless = await here.connect(cwd=str(tmp_path)), await here.connect()
        uris = [item["uri"] for item in (await placed.result("resources/list"))["resources"]]
        assert uris == ["memo://one", "note://1"]
        answer = await placeless.request("resources/read", {"uri": "odd:thing"})
        assert "runs in a client's folder" in answer["error"]["message"]
