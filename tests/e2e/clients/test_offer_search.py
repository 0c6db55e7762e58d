"""Search of prompts, resources and skills, and their use by a client that only calls tools."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tabane.operations import Caller, Face
from tests.harness.running_hub import RunningHub, child, running_hub, text
from tests.harness.servers import library

SERVERS: dict[str, Any] = {
    "lib": {"command": sys.executable, "args": [str(Path(library.__file__))]},
    "other": child(),
}

EXPECTED = [
    ("look at my pull request for bugs", "prompts", "lib__review_code"),
    ("minutes of a meeting", "prompts", "lib__summarize_meeting"),
    ("手紙の翻訳", "prompts", "lib__translate_letter"),
    ("旅行の計画", "prompts", "lib__plan_trip"),
    ("what does this error message mean", "prompts", "lib__explain_error"),
    ("holidays and expenses", "resources", "docs://handbook"),
    ("columns of the customer table", "resources", "docs://schema"),
    ("食堂の価格", "resources", "docs://menu"),
    ("log lines of a service", "resources", "logs://{service}/{day}"),
    ("天気", "resources", "weather://{city}"),
    ("fill in a PDF form", "skills", "skill://tabane/lib/pdf/SKILL.md"),
]


async def ask(here: RunningHub, operation: str, caller: Caller | None = None, /, **params: Any) -> Any:
    caller = caller or Caller("local", Face.RPC, "program")
    answer = await here.hub.door.respond(caller, operation, json.dumps(params).encode(), msgspec.json.encode)
    return json.loads(answer)


def key_of(row: dict[str, Any]) -> str:
    return str(row.get("name") or row.get("uri") or row.get("uriTemplate"))


async def test_each_thing_is_the_first_of_its_kind_for_its_query(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, list_wait=60) as here:
        for query, kind, wanted in EXPECTED:
            found = await ask(here, "search_tools", query=query, kind=kind)
            assert [key_of(row) for row in found["results"]][:1] == [wanted], (query, found)
            assert {row["kind"] for row in found["results"]} == {kind}
            everything = await ask(here, "search_tools", query=query, kind="all", limit=10)
            assert wanted in [key_of(row) for row in everything["results"]]


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_a_model_in_search_mode_reads_and_asks_for_what_it_found(tmp_path: Path, version: Any) -> None:
    async with running_hub(tmp_path, SERVERS, list_wait=60) as here:
        line = await here.connect(version, mode="search")
        found = text(await line.call("search_tools", query="customer database", kind="resources"))
        assert "resource docs://schema [text/plain]: Tables and columns" in found
        assert "read_resource" in found
        result = await line.through("read_resource", uri="docs://schema")
        assert [block["type"] for block in result["content"]] == ["text", "image"]
        assert text(result).startswith("content of docs://schema")
        made = await line.through("read_resource", uri="logs://web/today")
        assert text(made).startswith("content of logs://web/today")
        found = text(await line.call("search_tools", query="review code", kind="prompts"))
        assert "prompt lib__review_code(diff, language?): Review a change" in found
        assert "get_prompt" in found
        prompt = await line.through("get_prompt", name="lib__review_code", arguments={"diff": "+1"})
        assert text(prompt) == 'user: review_code {"diff": "+1"}'


async def test_errors_say_what_to_do(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, list_wait=60) as here:
        line = await here.connect(mode="search")
        missing = await line.through("read_resource", uri="docs://none")
        assert missing["isError"] is True
        assert "not here" in text(missing)
        unknown = await line.through("get_prompt", name="lib__review_cod")
        assert unknown["isError"] is True
        assert "lib__review_code" in text(unknown)
        nothing = text(await line.call("search_tools", query="zqx", kind="skills"))
        assert nothing == "No skills match."


async def test_a_new_list_of_a_server_is_found(tmp_path: Path) -> None:
    servers = {"up": child("--offers", "--uris", "memo://alpha")}
    async with running_hub(tmp_path, servers, list_wait=60) as here:
        found = await ask(here, "search_tools", query="memo alpha", kind="resources")
        assert "memo://alpha" in [key_of(row) for row in found["results"]]
        here.hub.gateway.resources.remove("up")
        found = await ask(here, "search_tools", query="memo alpha", kind="resources")
        assert found["results"] == []
