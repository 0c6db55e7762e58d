"""{client era} x {stdio, HTTP} x {server era} x {stdio, HTTP, SSE}: the official SDK on both sides of a hub.

In each cell what a client sees through the hub is what the same client sees without it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import anyio
import pytest
from mcp import Client, MCPError
from mcp_types import (
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    PromptReference,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    Root,
    TextContent,
)
from pydantic import FileUrl

from tests.e2e.protocol.grid.cell import CELLS, Cell, pages, plain
from tests.harness.official_client import KINDS, GridHub, Json, text
from tests.harness.patience import until
from tests.harness.servers.both_eras import BULK

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
each_cell = pytest.mark.parametrize("cell", CELLS, ids=str)


class Ears:
    """Everything that a client is told outside of its answers."""

    def __init__(self) -> None:
        self.methods: list[str] = []
        self.uris: list[str] = []
        self.logs: list[Any] = []

    async def message(self, message: Any) -> None:
        message = getattr(message, "root", message)
        self.methods.append(getattr(message, "method", type(message).__name__))
        if isinstance(message, ResourceUpdatedNotification):
            self.uris.append(str(message.params.uri))

    async def log(self, params: Any) -> None:
        self.logs.append((params.level, params.data))


class User:
    """Answers questions, and counts them."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def elicit(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        return ElicitResult(action="accept", content={"name": "花"})

    async def sample(self, context: Any, params: Any) -> CreateMessageResult:
        self.asked.append(params.messages[0].content.text)
        return CreateMessageResult(role="assistant", content=TextContent(text="words"), model="m")

    async def roots(self, context: Any) -> ListRootsResult:
        self.asked.append("roots")
        return ListRootsResult(roots=[Root(uri=FileUrl("file:///somewhere"))])

    @property
    def callbacks(self) -> Json:
        return {
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "list_roots_callback": self.roots,
        }


@asynccontextmanager
async def both(cell: Cell, here: GridHub, **options: Any) -> AsyncIterator[tuple[Client, Client]]:
    """A client of the hub, and one of the server itself."""
    async with cell.client(here, **options) as client, cell.direct(here, **options) as direct:
        yield client, direct


@asynccontextmanager
async def quiet(kind: type[Exception]) -> AsyncIterator[None]:
    """Pass over exceptions of that kind, in groups too."""
    try:
        yield
    except* kind:
        pass


# -- tools ---------------------------------------------------------------------------------------


@each_cell
async def test_tools_are_listed_as_the_server_lists_them(here: GridHub, cell: Cell) -> None:
    async with both(cell, here) as (client, direct):
        ours = {tool.name: plain(tool) for tool in await pages(client.list_tools, "tools")}
        for tool in await pages(direct.list_tools, "tools"):
            assert ours[cell.name(tool.name)] == {**plain(tool), "name": cell.name(tool.name)}


@each_cell
async def test_results_of_calls_come_as_the_server_gives_them(here: GridHub, cell: Cell) -> None:
    async with both(cell, here) as (client, direct):
        for name, arguments in (("structured", {"n": 1 << 53}), ("contents", {}), ("fails", {})):
            given = plain(await direct.call_tool(name, arguments))
            assert plain(await client.call_tool(cell.name(name), arguments)) == given


@each_cell
async def test_results_are_the_same_through_call_tool(here: GridHub, cell: Cell) -> None:
    async with cell.client(here, mode="search") as client, cell.direct(here) as direct:
        for name, arguments in (("structured", {"n": 7}), ("contents", {}), ("fails", {})):
            inner = {"name": cell.name(name), "arguments": arguments}
            given = plain(await direct.call_tool(name, arguments))
            assert plain(await client.call_tool("call_tool", inner)) == given
        looked = {"name": cell.name("peeks"), "arguments": {}}
        assert not (await client.call_tool("call_readonly_tool", looked)).is_error


@each_cell
async def test_an_error_of_the_server_comes_with_its_code_and_data(here: GridHub, cell: Cell) -> None:
    async with both(cell, here) as (client, direct):
        found = []
        for asked, name in ((client, cell.name("refuses")), (direct, "refuses")):
            with pytest.raises(MCPError) as caught:
                await asked.call_tool(name, {})
            found.append((caught.value.code, caught.value.message, caught.value.data))
        assert found[0] == found[1] == (-31999, "not today", {"why": ["because"]})
        with pytest.raises(MCPError) as caught:
            await client.call_tool(cell.name("refuse"), {})
        assert caught.value.code == -32602
        assert cell.name("refuses") in caught.value.message


@each_cell
async def test_arguments_that_go_into_headers_reach_the_server(here: GridHub, cell: Cell) -> None:
    async with cell.client(here) as client:
        await client.list_tools()
        said = text(await client.call_tool(cell.name("region"), {"place": "Tokyo"}))
        mirrored = cell.kind.era == "modern" and cell.kind.transport == "http"
        assert said == f"Tokyo {'Tokyo' if mirrored else None}"


@each_cell
async def test_many_calls_at_once_each_get_their_own_answer(here: GridHub, cell: Cell) -> None:
    found: dict[int, Any] = {}

    async with cell.client(here) as client:

        async def one(number: int) -> None:
            result = await client.call_tool(cell.name("structured"), {"n": number})
            assert result.structured_content is not None
            found[number] = result.structured_content["n"]

        async with anyio.create_task_group() as tasks:
            for number in range(24):
                tasks.start_soon(one, number)
    assert found == {number: number for number in range(24)}


# -- what happens during a call ------------------------------------------------------------------


@each_cell
@pytest.mark.parametrize("through", [False, True], ids=["direct", "call_tool"])
async def test_progress_comes_whole_in_order_and_before_the_answer(
    here: GridHub, cell: Cell, through: bool
) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with cell.client(here, mode="search" if through else "full") as client:
        name, arguments = cell.name("steps"), {"count": 20}
        if through:
            name, arguments = "call_tool", {"name": name, "arguments": arguments}  # type: ignore[dict-item]
        await client.call_tool(name, arguments, progress_callback=progressed)
        assert seen == [(step + 1, 20, f"step {step + 1}") for step in range(20)]


@each_cell
async def test_a_call_that_is_given_up_is_cancelled_on_the_server(here: GridHub, cell: Cell) -> None:
    token = uuid4().hex
    async with cell.client(here) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, cell.name("hangs"), {"token": token})
            await until(lambda: f"begun {token}" in here.marks(cell.kind), "the call begins")
            tasks.cancel_scope.cancel()
        await until(lambda: f"cancelled {token}" in here.marks(cell.kind), "the call is cancelled")
        assert not (await client.call_tool(cell.name("peeks"), {})).is_error


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.kind == KINDS[2]], ids=str)
async def test_a_client_that_goes_away_cancels_its_calls(here: GridHub, cell: Cell) -> None:
    token, leaving = uuid4().hex, anyio.Event()
    # The SDK hands the answer to what was in flight to a stream that it has closed already.
    async with quiet(anyio.ClosedResourceError), anyio.create_task_group() as tasks:

        async def hang(client: Client) -> None:
            with pytest.raises(MCPError):
                await client.call_tool(cell.name("hangs"), {"token": token})

        async def stay() -> None:
            async with cell.client(here) as client:
                tasks.start_soon(hang, client)
                await leaving.wait()

        tasks.start_soon(stay)
        await until(lambda: f"begun {token}" in here.marks(cell.kind), "the call begins")
        leaving.set()
        await until(lambda: f"cancelled {token}" in here.marks(cell.kind), "the call is cancelled")


@each_cell
async def test_log_entries_come_at_the_level_that_was_asked_for(here: GridHub, cell: Cell) -> None:
    ears = Ears()
    level: Json = {"log_level": "warning"} if cell.era == "modern" else {}
    async with cell.client(here, logging_callback=ears.log, **level) as client:
        if cell.era == "legacy":
            await client.set_logging_level("warning")
        await client.call_tool(cell.name("logs"), {})
        await until(lambda: len(ears.logs) >= 2, "log entries come")
        assert ears.logs == [("warning", "about warning"), ("error", "about error")]


# -- prompts, resources, completions -------------------------------------------------------------


@each_cell
async def test_prompts_are_listed_over_pages_and_fetched(here: GridHub, cell: Cell) -> None:
    async with both(cell, here) as (client, direct):
        listed = await pages(client.list_prompts, "prompts")
        ours = {prompt.name: plain(prompt) for prompt in listed}
        assert len(listed) == len(ours) == len(KINDS) * (BULK + 3)
        assert (await client.list_prompts()).next_cursor
        for prompt in await pages(direct.list_prompts, "prompts"):
            assert ours[cell.name(prompt.name)] == {**plain(prompt), "name": cell.name(prompt.name)}
        for name, arguments in (("plain", None), ("worded", {"word": "言葉"})):
            given = plain(await direct.get_prompt(name, arguments))
            assert plain(await client.get_prompt(cell.name(name), arguments)) == given


@each_cell
async def test_resources_and_templates_are_listed_under_their_own_addresses(
    here: GridHub, cell: Cell
) -> None:
    async with both(cell, here) as (client, direct):
        ours = {item.uri: plain(item) for item in await pages(client.list_resources, "resources")}
        for item in await pages(direct.list_resources, "resources"):
            shown = cell.common if item.uri == "grid://common/text" else item.uri
            assert {**ours[shown], "uri": item.uri, "name": item.name} == plain(item)
        templates = (await client.list_resource_templates()).resource_templates
        given = plain((await direct.list_resource_templates()).resource_templates)
        assert [found for found in plain(templates) if found in given] == given


@each_cell
async def test_resources_are_read_as_the_server_gives_them(here: GridHub, cell: Cell) -> None:
    async with both(cell, here) as (client, direct):
        for uri in (cell.own("text"), cell.own("blob"), cell.own("item/七")):
            assert plain(await client.read_resource(uri)) == plain(await direct.read_resource(uri))
        contents = plain(await client.read_resource(cell.common))["contents"]
        assert contents[0]["uri"] == cell.common
        assert contents[0]["text"].startswith(f"{cell.kind.name}: grid://common/text")
        with pytest.raises(MCPError) as caught:
            await client.read_resource(cell.own("item/missing"))
        assert caught.value.code == -32602


@each_cell
async def test_arguments_of_prompts_and_templates_are_completed(here: GridHub, cell: Cell) -> None:
    async with both(cell, here) as (client, direct):
        typed, context = {"name": "word", "value": "ta"}, {"before": "this"}
        given = plain(await direct.complete(PromptReference(name="worded"), typed, context))
        asked = PromptReference(name=cell.name("worded"))
        assert plain(await client.complete(asked, typed, context)) == given
        template = ResourceTemplateReference(uri=cell.own("item/{id}"))
        given = plain(await direct.complete(template, {"name": "id", "value": "1"}))
        assert plain(await client.complete(template, {"name": "id", "value": "1"})) == given


# -- what changes --------------------------------------------------------------------------------


@each_cell
async def test_a_watched_resource_that_changes_is_announced(here: GridHub, cell: Cell) -> None:
    ears, watched = Ears(), (cell.own("text"), cell.common)
    async with cell.client(here, message_handler=ears.message) as client:

        async def touch() -> None:
            for uri in (cell.own("text"), cell.own("blob"), "grid://common/text"):
                await client.call_tool(cell.name("touches"), {"uri": uri})

        if cell.era == "modern":
            async with client.listen(resource_subscriptions=watched) as events:
                assert set(events.honored.resource_subscriptions or ()) == set(watched)
                await touch()
                with anyio.fail_after(10):
                    found = {(await anext(events)).uri, (await anext(events)).uri}  # type: ignore[union-attr]
            assert found == set(watched)
            return
        for uri in watched:
            await client.subscribe_resource(uri)
        await touch()
        await until(lambda: len(ears.uris) >= 2, "changes are announced")
        for uri in watched:
            await client.unsubscribe_resource(uri)
        await touch()
        await client.read_resource(cell.own("text"))
        assert sorted(ears.uris) == sorted(watched)


@each_cell
async def test_lists_that_change_are_announced_and_are_others(here: GridHub, cell: Cell) -> None:
    ears, kinds = Ears(), ("tools", "prompts", "resources")
    async with cell.client(here, message_handler=ears.message, cache=None) as client:

        async def grown() -> list[bool]:
            tools = [tool.name for tool in await pages(client.list_tools, "tools")]
            prompts = [prompt.name for prompt in await pages(client.list_prompts, "prompts")]
            uris = [item.uri for item in await pages(client.list_resources, "resources")]
            return [cell.name("grown") in tools, cell.name("grown") in prompts, cell.own("grown") in uris]

        async def grow() -> None:
            for kind in kinds:
                await client.call_tool(cell.name("grows"), {"kind": kind})

        before = await grown()
        if cell.era == "modern":
            wanted: Json = {f"{kind}_list_changed": True for kind in kinds}
            async with client.listen(**wanted) as events:
                await grow()
                with anyio.fail_after(10):
                    assert len({type(await anext(events)) for _ in kinds}) == 3
        else:
            await grow()
            methods = {f"notifications/{kind}/list_changed" for kind in kinds}
            await until(lambda: methods <= set(ears.methods), "the changes are announced")
        assert await grown() == [not was for was in before]


# -- questions -----------------------------------------------------------------------------------


@each_cell
@pytest.mark.parametrize(
    ("name", "asked", "said"),
    [("asks", "Who?", "accept {'name': '花'}"), ("samples", "Say something", "m: words")],
)
@pytest.mark.parametrize("through", [False, True], ids=["direct", "call_tool"])
async def test_a_question_reaches_the_user_within_an_era_and_across(
    here: GridHub, cell: Cell, name: str, asked: str, said: str, through: bool
) -> None:
    user = User()
    async with cell.client(here, mode="search" if through else "full", **user.callbacks) as client:
        tool, arguments = cell.name(name), {}
        if through:
            tool, arguments = "call_tool", {"name": tool, "arguments": {}}
        assert text(await client.call_tool(tool, arguments)) == said
        assert user.asked.count(asked) == 1


async def refusal(client: Client, tool: str, arguments: Json) -> str:
    """What a call that must fail says."""
    try:
        result = await client.call_tool(tool, arguments)
    except MCPError as error:
        return error.message
    assert result.is_error, result
    return text(result)


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.era == cell.kind.era == "modern"], ids=str)
async def test_a_modern_server_learns_the_roots_of_its_client(here: GridHub, cell: Cell) -> None:
    user = User()
    async with cell.client(here, **user.callbacks) as client:
        assert text(await client.call_tool(cell.name("roots"), {})) == "file:///somewhere"
        assert user.asked == ["roots"]


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.era == cell.kind.era == "legacy"], ids=str)
async def test_an_old_server_that_runs_for_some_folders_learns_them(rooted: GridHub, cell: Cell) -> None:
    user = User()
    async with cell.client(rooted, **user.callbacks) as client:
        assert text(await client.call_tool(cell.name("roots"), {})) == "file:///somewhere"


OLD_OVER_HTTP = [
    cell for cell in CELLS if cell.within and (cell.kind.era, cell.kind.transport) == ("legacy", "http")
]


@pytest.mark.parametrize("cell", OLD_OVER_HTTP, ids=str)
async def test_an_old_server_over_http_asks_the_client_of_the_call_for_its_folders(
    here: GridHub, cell: Cell
) -> None:
    user = User()
    async with cell.client(here, **user.callbacks) as client:
        assert text(await client.call_tool(cell.name("roots"), {})) == "file:///somewhere"
        assert user.asked == ["roots"]


@each_cell
async def test_a_client_that_cannot_be_asked_gets_an_answer_all_the_same(here: GridHub, cell: Cell) -> None:
    async with cell.client(here) as client:
        for name in ("asks", "samples", "roots"):
            with anyio.fail_after(10):
                assert await refusal(client, cell.name(name), {})


# -- who is there --------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_the_hub_introduces_itself_in_both_eras(here: GridHub, way: Any) -> None:
    async with Cell("legacy", way, KINDS[0]).client(here, "search") as client:
        assert client.protocol_version == "2025-11-25"
        assert client.server_info
        assert client.server_info.name == "tabane"
        await client.send_ping()
        capabilities = plain(client.server_capabilities)
        assert capabilities.pop("tasks")  # an extension in the other era, so not a capability there
        legacy = capabilities, client.server_info, client.instructions
    async with Cell("auto", way, KINDS[0]).client(here, "search") as client:
        assert client.protocol_version == "2026-07-28"
        assert (plain(client.server_capabilities), client.server_info, client.instructions) == legacy
        assert "search_tools" in str(client.instructions)
