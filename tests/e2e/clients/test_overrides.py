"""Overrides of single tools in the servers file, on every way to a tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from tabane.access.permissions import PermissionPatterns, PermissionRules
from tabane.operations import Caller, Face
from tests.harness.patience import until
from tests.harness.running_hub import RunningHub, child, configured, running_hub, text

SECRET = "correct-horse-battery"
SCHEMA = {
    "type": "object",
    "properties": {
        "owner": {"type": "string"},
        "query": {"type": "string", "description": "old words"},
        "page": {"type": "integer"},
        "limit": {"type": "integer"},
    },
    "required": ["owner", "query", "limit"],
    "additionalProperties": False,
}
OVERRIDE = {
    "name": "find_bonsai",
    "title": "Bonsai finder",
    "description": "Finds little trees in the nursery.",
    "annotations": {"readOnlyHint": True},
    "parameters": {
        "owner": {"fixed": "${OWNER}"},
        "page": {"hidden": True},
        "query": {"description": "Latin name of the tree."},
        "limit": {"default": 5},
    },
}


def server(folder: Path, overrides: Any, *arguments: str, **keys: Any) -> dict[str, Any]:
    """A server with a tool ``listed`` of that schema, which echoes, and the child's other tools."""
    folder.mkdir(exist_ok=True, mode=0o700)
    (folder / "schemas.json").write_text(json.dumps({"listed": SCHEMA}))
    (folder / "secrets.env").write_text(f"OWNER={SECRET}\n")
    (folder / "secrets.env").chmod(0o600)
    given = ("--schemas", str(folder / "schemas.json"), *arguments)
    return child(*given, overrides=overrides, **keys)


async def ask(here: RunningHub, operation: str, /, **params: Any) -> dict[str, Any]:
    """The result of an operation, as a program of this user gets it."""
    caller = Caller("local", Face.RPC, "program")
    answer = await here.hub.door.respond(caller, operation, json.dumps(params).encode(), msgspec.json.encode)
    found: dict[str, Any] = json.loads(answer)
    return found


async def tools(here: RunningHub, **hello: Any) -> dict[str, dict[str, Any]]:
    line = await here.connect(mode="full", **hello)
    return {tool["name"]: tool for tool in (await line.result("tools/list"))["tools"]}


async def shown(here: RunningHub, name: str = "up") -> dict[str, Any]:
    result: dict[str, Any] = await ask(here, "show_server", name=name)
    return result


async def test_a_tool_is_listed_described_and_found_as_the_override_says(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": server(tmp_path, {"listed": OVERRIDE})}) as here:
        listed = await tools(here)
        assert "up__listed" not in listed
        tool = listed["up__find_bonsai"]
        assert tool["title"] == "Bonsai finder"
        assert tool["description"] == "Finds little trees in the nursery."
        assert tool["annotations"] == {"readOnlyHint": True}
        schema = tool["inputSchema"]
        assert list(schema["properties"]) == ["query", "limit"]
        assert schema["properties"]["query"]["description"] == "Latin name of the tree."
        assert schema["properties"]["limit"]["default"] == 5
        assert schema["required"] == ["query"]
        line = await here.connect(mode="search")
        assert "up__find_bonsai" in text(await line.call("search_tools", query="bonsai nursery"))
        described = text(await line.call("describe_tools", names=["up__find_bonsai"]))
        assert "Latin name" in described
        assert "owner" not in described
        assert SECRET not in described


async def test_decided_arguments_are_sent_on_every_way_and_refused_from_callers(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": server(tmp_path, {"listed": OVERRIDE})}) as here:
        line = await here.connect()
        sent = {"owner": SECRET, "query": "acer", "limit": 5}
        name = "up__find_bonsai"
        assert (await line.call(name, query="acer"))["structuredContent"] == sent
        assert (await line.through(name, query="acer"))["structuredContent"] == sent
        readonly = await line.call("call_readonly_tool", name=name, arguments={"query": "acer"})
        assert readonly["structuredContent"] == sent
        single = await ask(here, "call_tool", name=name, arguments={"query": "acer"})
        assert single["structuredContent"] == sent
        many = await ask(
            here, "execute_parallel", requests=[{"name": name, "arguments": {"query": "acer", "limit": 9}}]
        )
        assert many["results"][0]["result"]["structuredContent"] == {**sent, "limit": 9}
        for wrong in ({"owner": "you"}, {"page": 2}):
            refused = await line.request(
                "tools/call", {"name": name, "arguments": {"query": "acer", **wrong}}
            )
            assert next(iter(wrong)) in refused["error"]["message"]
            assert (await line.through(name, query="acer", **wrong))["isError"] is True
        assert (await line.through(name))["isError"] is True


async def test_fixed_values_are_in_no_file_but_that_of_the_secrets(tmp_path: Path) -> None:
    entry = server(tmp_path, {"listed": OVERRIDE})
    async with running_hub(tmp_path, {"up": entry}, audit="on") as here:
        line = await here.connect()
        await line.call("up__find_bonsai", query="acer")
        await line.through("up__find_bonsai", query="acer", owner="you")
        assert SECRET not in json.dumps(await shown(here))
        assert (await shown(here))["overrides"]["listed"]["parameters"]["owner"] == {"fixed": True}
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "secrets.env":
            assert SECRET.encode() not in path.read_bytes(), path


async def test_a_changed_override_is_in_force_without_a_restart_of_the_server(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": server(tmp_path, {"listed": OVERRIDE})}) as here:
        line = await here.connect(mode="full")
        pid = text(await line.call("up__pid"))
        await line.result("tools/list")
        configured(tmp_path, {"up": server(tmp_path, {"listed": {"name": "seek"}})})
        await until(lambda: here.hub.gateway.catalog.get("up__seek"), "the new name is in force")
        assert text(await line.call("up__pid")) == pid
        await line.noticed("notifications/tools/list_changed")
        assert (await line.call("up__seek", owner="you"))["structuredContent"] == {"owner": "you"}
        assert "error" in await line.request("tools/call", {"name": "up__find_bonsai", "arguments": {}})
        configured(tmp_path, {"up": server(tmp_path, {})})
        await until(lambda: here.hub.gateway.catalog.get("up__listed"), "the old name is back")
        assert text(await line.call("up__pid")) == pid


async def test_a_hidden_tool_is_not_there_and_listed_among_the_hidden_ones(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": server(tmp_path, {"listed": {"hidden": True}})}) as here:
        assert "up__listed" not in await tools(here)
        hidden = await ask(here, "list_hidden_tools")
        assert [row["name"] for row in hidden["results"]] == ["up__listed"]
        await ask(here, "set_tool_visibility", name="up__listed", hidden=False)
        assert "up__listed" in await tools(here)


async def test_mistakes_are_warnings_and_never_stop_the_server(tmp_path: Path) -> None:
    overrides = {
        "lisetd": {"title": "x"},
        "listed": {
            "name": "echo",
            "parameters": {"pgae": {"hidden": True}, "query": {"hidden": True}},
            "titel": "x",
        },
    }
    async with running_hub(tmp_path, {"up": server(tmp_path, overrides)}) as here:
        listed = await tools(here)
        assert {"up__listed", "up__echo"} <= listed.keys()
        assert "query" in listed["up__listed"]["inputSchema"]["properties"]
        (row,) = (await ask(here, "list_servers"))["results"]
        warnings = "\n".join(row["warnings"])
        assert row["state"] == "ready"
        for word in ("lisetd", "Did you mean listed", '"echo"', "pgae", "Did you mean page", "titel"):
            assert word in warnings, (word, warnings)
        assert "requires the parameter query" in warnings
        line = await here.connect()
        called = await line.call("up__listed", owner="a", query="b", limit=1)
        assert called["structuredContent"]["query"] == "b"


async def test_a_tool_whose_fixed_argument_is_not_known_refuses_calls(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [
        {"parameters": {"ower": {"fixed": "me"}}},
        {"parameters": {"owner": {"fixd": "me"}}},
        {"parameters": {"owner": {"fixed": 7}}},
        {"parameters": {"owner": {"fixed": "${NOT_SET_ANYWHERE}"}}},
        {"parameters": {"page": {"hidden": True}, "owner": "me"}},
        {"parameters": ["owner"]},
    ]
    servers = {f"up{n}": server(tmp_path, {"listed": each}) for n, each in enumerate(wrong)}
    async with running_hub(tmp_path, servers) as here:
        line = await here.connect()
        for name in servers:
            arguments = {"owner": "you", "query": "b", "limit": 1}
            direct = await line.request("tools/call", {"name": f"{name}__listed", "arguments": arguments})
            assert "overrides" in direct["error"]["message"], name
            through = await line.through(f"{name}__listed", **arguments)
            assert through["isError"] is True
            assert (await line.call(f"{name}__echo", n=1))["structuredContent"] == {"n": 1}
        rows = (await ask(here, "list_servers"))["results"]
        assert all(row["warnings"] and row["state"] == "ready" for row in rows)


async def test_permissions_hold_for_the_old_name_and_for_the_new_one(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": server(tmp_path, {"listed": OVERRIDE})}) as here:
        await tools(here)
        tool = here.hub.gateway.catalog.get("up__find_bonsai")
        assert tool is not None
        cases: list[tuple[tuple[str, ...], tuple[str, ...], bool]] = [
            (("up__listed",), (), True),
            (("up__find_*",), (), True),
            (("up__echo",), (), False),
            (("*",), ("up__listed",), False),
            (("*",), ("up__find_bonsai",), False),
        ]
        for allow, deny, allowed in cases:
            rules = PermissionRules(PermissionPatterns.checked(allow, deny))
            assert rules.allows(tool.target) is allowed, (allow, deny)


async def test_names_of_two_tools_can_be_exchanged(tmp_path: Path) -> None:
    overrides = {"listed": {"name": "echo"}, "echo": {"name": "listed"}}
    async with running_hub(tmp_path, {"up": server(tmp_path, overrides)}) as here:
        listed = await tools(here)
        assert "owner" in listed["up__echo"]["inputSchema"]["properties"]
        assert (await shown(here))["warnings"] == []
