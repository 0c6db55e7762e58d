"""Documents stored and found by an assistant: the official client over stdio and HTTP, and the Inspector."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.client import ConnectMode
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp_types import (
    CallToolResult,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    TextContent,
    TextResourceContents,
)

from tests.e2e.real.conftest import Workplace
from tests.e2e.real.test_inspector import inspect
from tests.e2e.real.test_official_client import every_mode
from tests.harness.home import Home, hub
from tests.harness.patience import LONG

TEXT = "# 議事録\n\n## 決定\n\n青いほうを選んだ。\n\n## Next\n\nAsk alice about the budget.\n"
SOON = LONG
TOOL_FAILED = 5  # how the Inspector ends where a tool says isError

Open = Callable[..., Any]


@pytest.fixture
def place(workplace: Callable[[dict[str, dict[str, Any]]], Workplace]) -> Workplace:
    """A workplace without servers, whose notes may be put by their paths."""
    found = workplace({})
    (found.notes / "plan.md").write_text("# Plan\n\nPaint the shed.\n", "utf-8")
    (found.folder / "secret.txt").write_text("a secret", "utf-8")
    with (found.folder / "tabane.toml").open("a") as file:
        file.write(f'model = "none"\ndocuments_roots = ["{found.notes}"]\n')
    return found


@pytest.fixture(params=["stdio", "http"])
def opened(request: pytest.FixtureRequest, place: Workplace) -> Open:
    """Connects the official client over stdio or HTTP: (mode of the client, mode of the list)."""

    @asynccontextmanager
    async def over_stdio(mode: ConnectMode, shown: str = "search", **more: Any) -> AsyncIterator[Client]:
        async with place.client("--mode", shown, mode=mode, **more) as client:
            yield client

    @asynccontextmanager
    async def over_http(mode: ConnectMode, shown: str = "search", **more: Any) -> AsyncIterator[Client]:
        home = Home(place.folder)
        home.environment |= {
            "TABANE_HTTP": "true", "TABANE_PORT": "0", "TABANE_CONFIG": str(place.folder / "tabane.toml"),
        }  # fmt: skip
        with hub(home):
            url = home.run("status", "--json").json["http"]
            token = (home.tabane / "token").read_text().strip()
            headers = {"authorization": f"Bearer {token}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=LONG) as http,
                Client(streamable_http_client(f"{url}/{shown}", http_client=http), mode=mode, **more) as it,
            ):
                yield it

    return over_stdio if request.param == "stdio" else over_http


def text(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def said(result: CallToolResult) -> Any:
    """What a tool answered in JSON: the same as text and as structure."""
    assert json.loads(text(result)) == result.structured_content
    return result.structured_content


@every_mode
async def test_a_document_is_put_found_updated_and_deleted(opened: Open, mode: Any) -> None:
    async def kept(client: Client, *, through: bool) -> None:
        async def call(name: str, **arguments: Any) -> CallToolResult:
            given = {"name": name, "arguments": arguments} if through else arguments
            return await client.call_tool("call_tool" if through else name, given)

        put = said(await call("put_document", filepath="会議/一.md", text=TEXT, metadata={"year": 2026}))
        assert put["status"] == "success"
        assert put["details"]["count"] == 1
        assert put["details"]["filepath"] == "会議/一.md"
        found = await call("search_documents", query="青い", filters={"year": {"gte": 2026}})
        (hit,) = (found.structured_content or {})["results"]
        assert hit["filepath"] == "会議/一.md"
        assert hit["passages"][0]["heading"] == ["議事録"]
        assert "青いほうを選んだ。" in text(found)
        newer = TEXT.replace("青い", "赤い")
        assert said(await call("put_document", filepath="会議/一.md", text=newer))["details"]["updated"]
        assert (await call("search_documents", query="青い")).structured_content["count"] == 0
        assert text(await call("get_document", filepath="会議/一.md")) == newer
        listed = (await call("list_documents", prefix="会議/")).structured_content or {}
        assert [one["filepath"] for one in listed["documents"]] == ["会議/一.md"]
        assert said(await call("delete_document", filepath="会議/一.md"))["deleted_count"] == 1
        gone = await call("get_document", filepath="会議/一.md")
        assert gone.is_error
        assert said(gone)["error_type"] == "NotFoundError"
        bad = await call("put_document", filepath="../one.md", text="x")
        assert bad.is_error
        assert said(bad)["error_type"] == "ValidationError"
        many = [{"filepath": "a", "text": "one"}, {"filepath": "\0", "text": "two"}]
        some = said(await call("put_documents", documents=many))
        assert (some["status"], some["failed"]) == ("partial", 1)

    async with opened(mode) as client:
        for through in (False, True):
            await kept(client, through=through)


@every_mode
async def test_a_file_is_put_from_a_folder_that_was_allowed(
    opened: Open, place: Workplace, mode: Any
) -> None:
    async with opened(mode) as client:
        arguments = {"path": str(place.notes / "plan.md"), "filepath": "plan"}
        assert said(await client.call_tool("put_file", arguments))["status"] == "success"
        found = await client.call_tool("search_documents", {"query": "shed"})
        assert found.structured_content["results"][0]["filepath"] == "plan"
        refused = await client.call_tool("put_file", {"path": str(place.folder / "secret.txt")})
        assert refused.is_error
        assert "secret.txt" in said(refused)["message"]


@every_mode
async def test_documents_are_attached_as_resources(opened: Open, mode: Any) -> None:
    names = [f"notes/{number:04} 竹.md" for number in range(1200)]
    async with opened(mode) as client:
        documents = [{"filepath": name, "text": f"# {name}\n"} for name in names]
        for part in (documents[:600], documents[600:]):
            assert not (await client.call_tool("put_documents", {"documents": part})).is_error
        first = await client.list_resources()
        rest = await client.list_resources(cursor=first.next_cursor)
        assert rest.next_cursor is None
        listed = [*first.resources, *rest.resources]
        assert len(listed) == len(names)
        read = await client.read_resource(str(listed[-1].uri))
        (contents,) = read.contents
        assert isinstance(contents, TextResourceContents)
        assert contents.text == f"# {names[-1]}\n"
        assert contents.mime_type == "text/markdown"
        (template,) = (await client.list_resource_templates()).resource_templates
        reference = ResourceTemplateReference(type="ref/resource", uri=template.uri_template)
        completed = await client.complete(reference, {"name": "key", "value": "notes/119"})
        assert completed.completion.values == names[1190:]
        with pytest.raises(MCPError, match="not found"):
            await client.read_resource("tabane://documents/nothing")


@pytest.mark.filterwarnings("ignore:resources.subscribe is removed")
async def test_a_client_of_the_older_protocol_follows_a_document(opened: Open) -> None:
    heard: list[str] = []
    came = asyncio.Event()

    async def handle(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.append(str(message.params.uri))
            came.set()

    async with opened("legacy", message_handler=handle) as client:
        await client.call_tool("put_document", {"filepath": "a b", "text": "one"})
        await client.subscribe_resource("tabane://documents/a%20b")
        await client.call_tool("put_document", {"filepath": "a b", "text": "two"})
        await asyncio.wait_for(came.wait(), SOON)
        assert heard == ["tabane://documents/a%20b"]


async def test_a_client_of_the_newer_protocol_follows_a_document_and_the_list(opened: Open) -> None:
    uri = "tabane://documents/a%20b"
    async with (
        opened("2026-07-28") as client,
        client.listen(resources_list_changed=True, resource_subscriptions=[uri]) as events,
    ):
        await client.call_tool("put_document", {"filepath": "a b", "text": "one"})
        heard = {await asyncio.wait_for(anext(events), SOON) for _ in range(2)}
        assert heard == {ResourceUpdated(uri=uri), ResourcesListChanged()}
        listed = (await client.list_resources()).resources
        assert [str(one.uri) for one in listed] == [uri]


@pytest.mark.node
def test_the_inspector_puts_finds_updates_and_deletes(place: Workplace, node_tools: Path) -> None:
    def call(name: str, *, status: int = 0, **arguments: Any) -> Any:
        given = [part for key, value in arguments.items() for part in ("--tool-arg", f"{key}={value}")]
        options = ("--method", "tools/call", "--tool-name", name, *given)
        return inspect(place, node_tools, place.hub("--mode", "full"), *options, status=status)

    put = call("put_document", filepath="notes/a.md", text="# Tea\n\nGreen, at noon.")
    assert put["structuredContent"]["status"] == "success"
    assert json.loads(put["content"][0]["text"]) == put["structuredContent"]
    found = call("search_documents", query="green")
    assert [hit["filepath"] for hit in found["structuredContent"]["results"]] == ["notes/a.md"]
    newer = call("put_document", filepath="notes/a.md", text="# Tea\n\nBlack, at five.")
    assert newer["structuredContent"]["details"]["updated"] is True
    assert call("get_document", filepath="notes/a.md")["content"][0]["text"] == "# Tea\n\nBlack, at five."
    listed = inspect(place, node_tools, place.hub(), "--method", "resources/list")
    (resource,) = listed["resources"]
    read = inspect(place, node_tools, place.hub(), "--method", "resources/read", "--uri", resource["uri"])
    assert read["contents"][0]["text"] == "# Tea\n\nBlack, at five."
    assert call("delete_document", filepath="notes/a.md")["structuredContent"]["deleted_count"] == 1
    assert call("get_document", status=TOOL_FAILED, filepath="notes/a.md")["isError"] is True
