"""What each mode lists to an assistant, and the errors for wrong requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.harness.patience import until
from tests.harness.running_hub import Client, child, running_hub, text

DISCLOSING = ["search_tools", "describe_tools", "call_tool", "call_readonly_tool", "read_more"]
SEARCH = [*DISCLOSING, "search_everything", "read_url_content", "put_document"]


async def test_the_list_of_search_mode_is_the_same_bytes_whatever_runs(tmp_path: Path) -> None:
    lists: list[Any] = []
    for servers in ({}, {"up": child()}):
        async with running_hub(tmp_path, servers) as here:
            line = await here.connect()
            lists.append(await line.result("tools/list"))
            await line.call("search_tools", query="echo")
            lists.append(await line.result("tools/list"))
    assert all(one == lists[0] for one in lists)
    assert [tool["name"] for tool in lists[0]["tools"]] == SEARCH


async def test_one_hub_serves_all_three_modes_at_once(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        search, light, full = [await here.connect(mode=mode) for mode in ("search", "light", "full")]
        whole = {tool["name"]: tool for tool in (await full.result("tools/list"))["tools"]}
        assert set(DISCLOSING).isdisjoint(whole)
        assert whole["up__echo"]["inputSchema"]["properties"]
        lights = (await light.result("tools/list"))["tools"]
        assert {tool["name"] for tool in lights} == {*whole, "describe_tools"}
        echo = next(tool for tool in lights if tool["name"] == "up__echo")
        assert echo["inputSchema"] == {"type": "object"}
        assert [tool["name"] for tool in (await search.result("tools/list"))["tools"]] == SEARCH
        for line in (search, light, full):
            assert (await line.call("up__echo", n=1))["structuredContent"] == {"n": 1}


async def test_pinned_tools_are_listed_whole_after_the_others(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child(pin=["ec*"])}) as here:
        line = await here.connect()
        tools = (await line.result("tools/list"))["tools"]
        assert [tool["name"] for tool in tools] == [*SEARCH, "up__echo"]
        assert tools[-1]["inputSchema"]["properties"]


@pytest.mark.parametrize("client", get_args(Client))
async def test_tools_get_gives_a_definition_whole(tmp_path: Path, client: Client) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect(client, mode="full")
        whole = {tool["name"]: tool for tool in (await line.result("tools/list"))["tools"]}
        for name in ("up__echo", "up.echo"):
            assert (await line.result("tools/get", {"name": name}))["tool"] == whole["up__echo"]
        assert (await line.result("tools/get", {"name": "call_tool"}))["tool"]["name"] == "call_tool"
        wrong = await line.request("tools/get", {"name": "up__ecko"})
        assert wrong["error"]["code"] == -32602
        assert "up__echo" in wrong["error"]["message"]


async def test_a_wrong_name_is_answered_with_the_nearest_by_every_way(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()
        direct = await line.request("tools/call", {"name": "up__ecko", "arguments": {}})
        assert direct["error"]["code"] == -32602
        assert "up__echo" in direct["error"]["message"]
        assert "up__echo" in direct["error"]["data"]["near"]
        inside = await line.through("up__ecko")
        assert inside["isError"] is True
        assert "up__echo" in text(inside)
        described = await line.call("describe_tools", names=["up__ecko"])
        assert described["isError"] is True
        assert "up__echo" in text(described)


async def test_arguments_that_do_not_fit_never_reach_the_upstream(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()
        wrong = await line.through("up__wait", seconds="soon")
        assert wrong["isError"] is True
        assert "seconds" in text(wrong)
        assert '"number"' in text(wrong)
        assert text(await line.through("up__count")) == "1"
        # By its own name nothing is checked: the server's word counts.
        direct = await line.request("tools/call", {"name": "up__echo", "arguments": {"text": 5}})
        assert direct["result"]["structuredContent"] == {"text": 5}


async def test_call_readonly_tool_takes_read_only_tools_alone(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()
        tools = {tool["name"]: tool for tool in (await line.result("tools/list"))["tools"]}
        assert tools["call_readonly_tool"]["annotations"]["readOnlyHint"] is True
        assert tools["call_tool"]["annotations"] == {"destructiveHint": True}
        read = await line.call("call_readonly_tool", name="up__echo", arguments={"n": 1})
        assert read["structuredContent"] == {"n": 1}
        write = await line.call("call_readonly_tool", name="up__count", arguments={})
        assert write["isError"] is True
        assert text(await line.through("up__count")) == "1"


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({}, "query"),
        ({"query": "x", "limit": 0}, "limit"),
        ({"query": "x", "limit": "5"}, "limit"),
        ({"query": "x", "match": "best"}, "match"),
        ({"query": "x", "colour": "red"}, "colour"),
        ({"query": ""}, "query"),
    ],
)
async def test_wrong_parameters_of_built_in_tools_are_named(
    tmp_path: Path, given: dict[str, object], parameter: str
) -> None:
    async with running_hub(tmp_path, {}) as here:
        line = await here.connect()
        result = await line.result("tools/call", {"name": "search_tools", "arguments": given})
        assert result["isError"] is True
        assert parameter in text(result)


async def test_prefixes_replace_the_name_of_the_server(tmp_path: Path) -> None:
    servers = {"日本語": child(), "plain": child(prefix=""), "other": child(prefix="p")}
    async with running_hub(tmp_path, servers) as here:
        line = await here.connect(mode="full")
        names = [tool["name"] for tool in (await line.result("tools/list"))["tools"]]
        assert len(names) == len(set(names))
        assert {"echo", "p__echo"} <= set(names)
        assert all(name.isascii() and len(name) <= 48 for name in names)
        for name in ("echo", "p__echo", "plain.echo", "other__echo", "日本語.echo"):
            assert (await line.call(name, n=1))["structuredContent"] == {"n": 1}


async def test_names_stay_the_same_between_starts_whichever_server_is_first(tmp_path: Path) -> None:
    orders = []
    for names in (("a b", "a_b"), ("a_b", "a b"), ("a b",)):
        async with running_hub(tmp_path, {name: child() for name in names}) as here:
            line = await here.connect(mode="full")
            tools = (await line.result("tools/list"))["tools"]
            orders.append({tool["name"] for tool in tools if "echo" in tool["name"]})
    assert orders[0] == orders[1]
    assert orders[2] < orders[0]


async def test_a_missing_variable_names_itself_and_the_other_servers_work(tmp_path: Path) -> None:
    servers = {"needs": child(env={"KEY": "${NO_SUCH_KEY}"}), "up": child()}
    async with running_hub(tmp_path, servers) as here:
        line = await here.connect()
        assert (await line.call("up__echo", n=1))["structuredContent"] == {"n": 1}
        (needs, _) = here.hub.configuration.servers
        assert "NO_SUCH_KEY" in str(needs.disabled)
        assert "NO_SUCH_KEY" in text(await line.through("needs__echo"))
        assert "needs__" not in text(await line.call("search_tools", query="echo", limit=50))


async def test_answers_are_in_the_language_of_the_client(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        japanese = await here.connect(lang="ja_JP.UTF-8")
        english = await here.connect(lang="en_US.UTF-8")
        said = [text(await line.call("search_tools", query="xyzzy plugh")) for line in (japanese, english)]
        assert any("ぁ" <= character <= "ヿ" for character in said[0])
        assert said[1].isascii() or "“" in said[1]


async def test_a_search_waits_for_servers_that_never_listed_and_names_those_missing(tmp_path: Path) -> None:
    servers = {"slow": child("--slow-start", "30"), "up": child()}
    async with running_hub(tmp_path, servers, list_wait=0.6, probe_timeout=0.2) as here:
        line = await here.connect()

        async def found() -> bool:
            lines = text(await line.call("search_tools", query="echo")).splitlines()
            assert "slow" in lines[-1]
            return any("up__echo" in each for each in lines)

        await until(found, "up has listed its tools, and slow has not")


async def test_structured_extras_of_a_request_reach_the_upstream_through_call_tool(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child("--era", "modern")}) as here:
        line = await here.connect("2026-07-28")
        asked = {"name": "up__ask", "arguments": {"method": "elicitation/create", "params": {"message": "?"}}}
        meta: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
        first = await line.result("tools/call", {"name": "call_tool", "arguments": asked, "_meta": meta})
        assert first["resultType"] == "input_required"
        again = {
            "name": "call_tool",
            "arguments": asked,
            "_meta": meta,
            "requestState": first.get("requestState"),
            "inputResponses": {key: {"action": "accept"} for key in first["inputRequests"]},
        }
        done = await line.result("tools/call", again)
        assert done["resultType"] == "complete"
        assert "accept" in json.dumps(done)
