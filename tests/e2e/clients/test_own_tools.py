"""The hub's own tools next to those of its servers: found, read, called and listed in the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tabane.operations import Caller, Face
from tabane.wire import json
from tests.e2e.protocol.ways_to_call import found_names
from tests.harness.patience import until
from tests.harness.running_hub import RunningHub, child, running_hub, text

URL = "https://twitter.com/ann/status/1659299165202547235"
POST = f'"1659299165202547235","{URL}","2023-05-19 05:45:23",{{}},"1"\n'


def archive(folder: Path, *contents: str) -> Path:
    """A twilog.csv with a post for each text."""
    rows = [
        POST.replace("1659299165202547235", str(1659299165202547235 + number)).format(f'"{content}"')
        for number, content in enumerate(contents)
    ]
    path = folder / "twilog.csv"
    path.write_text("".join(rows), "utf-8")
    return path


async def taken_in(here: RunningHub, path: Path) -> None:
    caller = Caller("local", Face.RPC, "import")

    async def asked(name: str, **params: Any) -> Any:
        return await here.hub.door.invoke(caller, name, json.encode(params))

    job = await asked("import_posts", files=[str(path)])
    while job["status"] == "running":
        job = await asked("follow_job", job=job["job"], version=job["version"], wait=20)
    assert job["status"] == "done", job


@pytest.mark.parametrize("by", ["call_tool", "call_readonly_tool"])
async def test_they_are_found_read_and_called_through_the_tools_that_disclose(
    tmp_path: Path, by: str
) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        await taken_in(here, archive(tmp_path, "Coffee at dawn", "Tea at noon"))
        line = await here.connect()
        found = await line.call("search_tools", query="find posts holding a text")
        assert "search_posts_by_text(" in text(found)
        read = await line.call("describe_tools", names=["search_posts_by_text"])
        assert "search_term" in text(read)
        asked = {"name": "search_posts_by_text", "arguments": {"search_term": "coffee"}}
        result = await line.call(by, **asked)
        assert "Coffee at dawn" in text(result)
        assert [post["content"] for post in result["structuredContent"]["results"]] == ["Coffee at dawn"]
        assert (await line.call("search_posts_by_text", search_term="coffee")) == result


async def test_tools_with_nothing_to_work_on_are_left_out_of_searches_until_there_is_something(
    tmp_path: Path,
) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()

        async def named(query: str) -> list[str]:
            found = text(await line.call("search_tools", query=query, limit=50))
            return sorted(found_names(found))

        assert not {"search_similar", "search_posts_by_text"} & set(await named("search posts"))
        assert "search_documents" not in await named("search documents")
        assert "put_document" in await named("keep a text in a document")
        assert "search_term" in text(await line.call("describe_tools", names=["search_posts_by_text"]))
        await taken_in(here, archive(tmp_path, "Coffee at dawn"))
        assert {"search_similar", "search_posts_by_text"} <= set(await named("search posts"))
        assert "search_documents" not in await named("search documents")
        await line.call("put_document", filepath="a.md", text="A note.")
        assert "search_documents" in await named("search documents")


@pytest.mark.heavy("hubs and servers as processes")
async def test_one_question_is_answered_from_posts_and_tools(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()
        before = await line.call("search_everything", query="echo")
        assert {hit["kind"] for hit in before["structuredContent"]["results"]} >= {"tools"}
        await taken_in(here, archive(tmp_path, "An echo in the valley"))
        found = (await line.call("search_everything", query="echo"))["structuredContent"]["results"]
        assert {"posts", "tools"} <= {hit["kind"] for hit in found}
        (post,) = [hit for hit in found if hit["kind"] == "posts"]
        assert post["text"] == "An echo in the valley"
        only = await line.call("search_everything", query="echo", **{"in": ["posts"]})
        assert [hit["kind"] for hit in only["structuredContent"]["results"]] == ["posts"]


async def test_what_is_wrong_with_an_argument_is_said_as_for_any_tool(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}) as here:
        line = await here.connect()
        asked = {"name": "get_user_stats", "arguments": {"limit": 0}}
        result = await line.call("call_tool", **asked)
        assert result["isError"] is True
        assert "limit" in text(result)


async def test_a_server_of_the_hubs_name_has_its_own_tools(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"tabane": child()}) as here:
        line = await here.connect()
        asked = {"name": "tabane__echo", "arguments": {"n": 1}}
        for _ in range(2):  # before its tools are known, and after
            assert (await line.call("call_tool", **asked)).get("structuredContent") == {"n": 1}
        assert (await line.call("tabane__echo", n=2))["structuredContent"] == {"n": 2}


@pytest.mark.heavy("hubs and servers as processes")
async def test_what_several_kinds_lack_is_said_once_and_in_words_of_the_user(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        await taken_in(here, archive(tmp_path, "An echo in the valley", "Tea at noon"))
        line = await here.connect()
        found: Any = {}

        async def told() -> bool:
            nonlocal found
            found = (await line.call("search_everything", query="echo valley"))["structuredContent"]
            return "The setting model is none" in found["warning"]

        await until(told, "it is known that there is no model")
        # Posts and documentation lack the same, which is said once.
        assert found["warning"].count("The setting model is none") == 1
        for name in ("manual", "pages is", "documents is"):
            assert name not in found["warning"]
