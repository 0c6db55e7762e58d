"""Questions of servers to clients, in each cell of the grid: also between a server and a client of two eras.

Through the hub, the user is asked the same and the call ends the same as without it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import anyio
import pytest
from mcp import Client, MCPError

from tests.e2e.protocol.grid.cell import CELLS, Cell, plain
from tests.e2e.protocol.grid.person import Action, Person, comparable
from tests.harness.official_client import GridHub, text
from tests.harness.servers.questions import LINK, ROUNDS

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
each_cell = pytest.mark.parametrize("cell", CELLS, ids=str)
each_action = pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
each_way = pytest.mark.parametrize("through", [False, True], ids=["direct", "call_tool"])

KINDS_WITH_FOLDERS = {("modern", "stdio"), ("modern", "http"), ("legacy", "http")}
FOLDERS = [cell for cell in CELLS if (cell.kind.era, cell.kind.transport) in KINDS_WITH_FOLDERS]
"""Cells whose server may ask any client for its folders: an old one over stdio is told that it cannot."""


async def called(client: Client, name: str, through: bool, **arguments: Any) -> Any:
    """Call a tool, itself or through call_tool."""
    if through:
        return await client.call_tool("call_tool", {"name": name, "arguments": arguments})
    return await client.call_tool(name, arguments)


async def same(cell: Cell, here: GridHub, person: Callable[[], Person], tool: str, through: bool) -> Person:
    """Assert that a call of the tool asks and ends the same with and without the hub."""
    ours, theirs = person(), person()
    async with (
        cell.client(here, mode="search" if through else "full", **ours.callbacks) as client,
        cell.direct(here, **theirs.callbacks) as direct,
    ):
        given = plain(await called(direct, tool, False))
        assert plain(await called(client, cell.name(tool), through)) == given
        assert comparable(ours.asked) == comparable(theirs.asked)
        assert theirs.asked
    return ours


@each_cell
@each_action
@each_way
async def test_a_form_with_everything_that_forms_have_is_asked_and_answered(
    here: GridHub, cell: Cell, action: Action, through: bool
) -> None:
    await same(cell, here, lambda: Person(action), "fills", through)


@each_cell
@each_action
async def test_a_link_is_asked_to_be_opened(here: GridHub, cell: Cell, action: Action) -> None:
    person = await same(cell, here, lambda: Person(action), "opens", False)
    assert [question["url"] for question in person.asked] == [LINK]


@each_cell
@each_way
async def test_a_model_is_asked_with_everything_that_such_a_question_has(
    here: GridHub, cell: Cell, through: bool
) -> None:
    await same(cell, here, Person, "writes", through)


@each_cell
@each_way
async def test_a_call_may_ask_several_times(here: GridHub, cell: Cell, through: bool) -> None:
    person = await same(cell, here, Person, "rounds", through)
    assert len(person.asked) == ROUNDS


@pytest.mark.parametrize("cell", FOLDERS, ids=str)
@each_way
async def test_a_call_may_ask_several_questions_at_the_same_time(
    here: GridHub, cell: Cell, through: bool
) -> None:
    await same(cell, here, Person, "several", through)


@each_cell
@each_action
async def test_a_prompt_may_ask(here: GridHub, cell: Cell, action: Action) -> None:
    ours, theirs = Person(action), Person(action)
    async with cell.client(here, **ours.callbacks) as client, cell.direct(here, **theirs.callbacks) as direct:
        given = plain(await direct.get_prompt("asked"))
        assert plain(await client.get_prompt(cell.name("asked"))) == given
        assert ours.asked == theirs.asked != []


@each_cell
@each_action
async def test_a_resource_may_ask(here: GridHub, cell: Cell, action: Action) -> None:
    async def read(client: Client) -> Any:
        try:
            return plain(await client.read_resource(cell.own("asked")))
        except MCPError as refused:
            return refused.code, refused.message

    ours, theirs = Person(action), Person(action)
    async with cell.client(here, **ours.callbacks) as client, cell.direct(here, **theirs.callbacks) as direct:
        assert await read(client) == await read(direct)
        assert ours.asked == theirs.asked != []


@each_cell
async def test_a_call_that_needs_an_opened_link_first_succeeds_after_it(here: GridHub, cell: Cell) -> None:
    """In the handshake era, that is the error -32042 and another call. 2026-07-28 has only the question."""
    person, token, links = Person(), uuid4().hex, list[str]()
    async with cell.client(here, **person.callbacks) as client:
        if cell.era == cell.kind.era == "legacy":
            with pytest.raises(MCPError) as refused:
                await client.call_tool(cell.name("wants"), {"token": token})
            assert refused.value.code == -32042
            links = [asked["url"] for asked in refused.value.data["elicitations"]]
        done = await client.call_tool(cell.name("wants"), {"token": token})
        assert (links or [question["url"] for question in person.asked]) == [LINK]
        assert text(done) == "accept"


@each_cell
@each_way
async def test_a_client_without_the_capability_is_not_asked_and_gets_an_answer(
    here: GridHub, cell: Cell, through: bool
) -> None:
    tools = ("fills", "opens", "writes", "several", "rounds")
    async with cell.client(here, mode="search" if through else "full") as client:
        for tool in tools:
            assert await failure(lambda tool=tool: called(client, cell.name(tool), through))  # type: ignore[misc]
        assert await failure(lambda: client.get_prompt(cell.name("asked")))
        assert await failure(lambda: client.read_resource(cell.own("asked")))
        assert not (await called(client, cell.name("peeks"), through)).is_error


@each_cell
async def test_a_client_that_can_answer_one_kind_is_asked_only_that(here: GridHub, cell: Cell) -> None:
    person = Person()
    async with cell.client(here, elicitation_callback=person.elicit) as client:
        assert await failure(lambda: client.call_tool(cell.name("writes"), {}))
        assert person.asked == []
        assert not (await client.call_tool(cell.name("fills"), {})).is_error
        assert len(person.asked) == 1


@each_cell
async def test_a_client_that_fails_to_answer_ends_only_its_call(here: GridHub, cell: Cell) -> None:
    async with cell.client(here, **Person(fails=True).callbacks) as client:
        if cell.era == "legacy" and cell.kind.era == "modern":
            # 2026-07-28 has no way to answer a question with an error: the server is told "cancel".
            told = await client.call_tool(cell.name("fills"), {})
            assert text(told) == '{"action": "cancel", "content": null}'
        else:
            assert "nobody is here" in await failure(lambda: client.call_tool(cell.name("fills"), {}))
        assert not (await client.call_tool(cell.name("peeks"), {})).is_error


@each_cell
async def test_calls_that_ask_at_the_same_time_each_get_their_own_answers(here: GridHub, cell: Cell) -> None:
    person = Person()
    async with cell.client(here, **person.callbacks) as client:
        found: list[Any] = []

        async def one() -> None:
            found.append(plain(await client.call_tool(cell.name("fills"), {})))

        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(one)
        assert len(person.asked) == 12
        assert all(result == found[0] for result in found)


async def failure(work: Callable[[], Awaitable[Any]]) -> str:
    """Return what a request that must fail says. It must not take as long as a question may be open."""
    with anyio.fail_after(60):
        try:
            result = await work()
        except MCPError as error:
            return error.message
    assert result.is_error, result
    return text(result)
