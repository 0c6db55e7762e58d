"""Stateful servers that several assistants use at once: no state leaks from one to another."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.harness.patience import until
from tests.harness.running_hub import Json, RunningHub, SocketClient, child, running_hub, text

BROWSER = str(Path(__file__).parents[2] / "harness" / "servers" / "browser.py")


def browser(**keys: Any) -> Json:
    """A server that keeps one page open, as browsers do."""
    return child() | {"args": [BROWSER]} | keys


async def browse(line: SocketClient, name: str) -> list[str]:
    """Open pages one after the other, each read back: what was seen."""
    seen = []
    for number in range(20):
        await line.through("browser__open", url=f"{name}/{number}")
        seen.append(text(await line.through("browser__read")))
    return seen


def expected(name: str) -> list[str]:
    return [f"{name}/{number}" for number in range(20)]


@pytest.mark.parametrize("share", ["client", "roots"])
async def test_three_assistants_at_once_see_their_own_pages(tmp_path: Path, share: str) -> None:
    async with running_hub(tmp_path, {"browser": browser(share=share)}) as here:
        lines = [await here.connect(roots=(f"file:///{name}",)) for name in "abc"]
        seen = await asyncio.gather(*(browse(line, name) for line, name in zip(lines, "abc", strict=True)))
        assert seen == [expected(name) for name in "abc"]
        pages = [text(await line.through("browser__history")).splitlines() for line in lines]
        assert pages == [expected(name) for name in "abc"]


async def test_assistants_of_the_same_folders_share_what_runs_once_for_them(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"browser": browser(share="roots")}) as here:
        one = await here.connect(roots=("file:///a", "file:///b"))
        same = await here.connect(roots=("file:///b", "file:///a"))
        other = await here.connect(roots=("file:///a",))
        await one.through("browser__open", url="mine")
        assert text(await same.through("browser__read")) == "mine"
        assert text(await other.through("browser__read")) == "about:blank"


async def test_what_is_shared_by_all_is_one_page_for_all(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"browser": browser()}) as here:
        lines = [await here.connect(roots=(f"file:///{name}",)) for name in "abc"]
        await lines[0].through("browser__open", url="everyone's")
        assert [text(await line.through("browser__read")) for line in lines] == ["everyone's"] * 3


async def test_a_client_that_comes_back_finds_nothing_of_the_one_before(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"browser": browser(share="client")}) as here:
        one, other = await here.connect(), await here.connect()
        for line in (one, other):
            await line.through("browser__open", url="secret")
        await one.close()
        await until(lambda: len(here.hub.gateway.instances("browser")) == 1, "its browser is closed")
        again = await here.connect()
        assert text(await again.through("browser__read")) == "about:blank"
        assert text(await other.through("browser__read")) == "secret"


def use_limits(here: RunningHub, **limits: Any) -> None:
    here.hub.gateway.use_limits(structs.replace(here.hub.gateway.limits, **limits))


@pytest.mark.parametrize("share", ["client", "roots"])
async def test_what_nobody_uses_for_a_while_is_ended_and_begins_anew(tmp_path: Path, share: str) -> None:
    servers = {"browser": browser(share=share), "up": child(share=share), "all": child()}
    async with running_hub(tmp_path, servers, health_interval=0.1) as here:
        line = await here.connect(roots=("file:///a",))
        await line.through("browser__open", url="old")
        for name in ("up", "all"):
            await line.call(f"{name}__echo")
        busy = line.begin("tools/call", {"name": "up__hang", "arguments": {}})
        use_limits(here, instance_idle=0.3)
        await until(lambda: not here.hub.gateway.instances("browser"), "it was idle")
        # One with a call in flight is not idle, and what is shared by all is left alone.
        assert len(here.hub.gateway.instances("up")) == 1
        assert len(here.hub.gateway.instances("all")) == 1
        assert not busy.done()
        assert text(await line.through("browser__read")) == "about:blank"


async def test_there_are_so_many_of_one_server_and_no_more(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"browser": browser(share="client")}) as here:
        use_limits(here, instances=2)
        lines = [await here.connect() for _ in range(3)]
        for line in lines[:2]:
            assert not (await line.through("browser__read")).get("isError")
        refused = await lines[2].through("browser__read")
        assert refused["isError"] is True
        assert "already runs 2 times" in text(refused)
        await lines[0].close()

        async def served() -> bool:
            return not (await lines[2].through("browser__read")).get("isError")

        await until(served, "a place is free")


# -- servers that ask --------------------------------------------------------------------------------


async def ask(line: SocketClient, method: str) -> Json:
    """What a question of the server was answered with."""
    answer: Json = json.loads(text(await line.call("up__ask", method=method)))
    return answer


async def test_a_server_that_asks_for_roots_runs_once_for_each_set_of_them_and_is_told_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        one = await here.connect(roots=("file:///a", "file:///b"))
        same = await here.connect(roots=("file:///b", "file:///a"))
        other = await here.connect(cwd="/srv/束")
        shared = text(await one.call("up__pid"))
        # The first question comes from an instance that serves all, so nobody can answer it.
        assert (await ask(one, "roots/list"))["error"]["code"] == -32601
        assert "roots/list" in caplog.text
        answered = await ask(one, "roots/list")
        assert answered["result"] == {"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]}
        assert (await ask(other, "roots/list"))["result"]["roots"] == [{"uri": "file:///srv/%E6%9D%9F"}]
        pids = [text(await line.call("up__pid")) for line in (one, same, other)]
        assert pids[0] == pids[1] != pids[2]
        assert shared not in pids
        await until(lambda: len(here.hub.gateway.instances("up")) == 2, "the shared one is ended")
    # Known from the start the next time.
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect(roots=("file:///c",))
        assert (await ask(line, "roots/list"))["result"] == {"roots": [{"uri": "file:///c"}]}
    # Not of another command.
    async with running_hub(tmp_path, {"up": child("--name", "other")}) as here:
        line = await here.connect(roots=("file:///c",))
        assert "error" in await ask(line, "roots/list")


@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create"])
async def test_a_server_that_asks_for_a_person_runs_once_for_each_client(tmp_path: Path, method: str) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        lines = [await here.connect() for _ in range(2)]
        assert "error" in await ask(lines[0], method)
        counts = [[text(await line.call("up__count")) for line in lines] for _ in range(2)]
        assert counts == [["1", "1"], ["2", "2"]]


async def test_what_the_file_says_wins_over_what_a_server_asks(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child(share="hub")}) as here:
        lines = [await here.connect(roots=(f"file:///{name}",)) for name in "ab"]
        for line in lines:
            assert "error" in await ask(line, "roots/list")
        assert len({text(await line.call("up__pid")) for line in lines}) == 1


async def test_a_server_that_asks_at_its_start_still_lists_its_tools(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child("--ask-at-start", "roots/list")}) as here:
        line = await here.connect(mode="full", roots=("file:///a",))
        names = [tool["name"] for tool in (await line.result("tools/list"))["tools"]]
        assert "up__echo" in names
        assert (await line.call("up__echo", n=1))["structuredContent"] == {"n": 1}
        assert (await ask(line, "roots/list"))["result"] == {"roots": [{"uri": "file:///a"}]}


async def test_other_questions_change_nothing(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        lines = [await here.connect() for _ in range(2)]
        for method in ("ping", "no/such_method"):
            await ask(lines[0], method)
        assert len({text(await line.call("up__pid")) for line in lines}) == 1


async def test_an_instance_that_is_only_starting_is_not_idle(tmp_path: Path) -> None:
    servers = {"up": child("--slow-start", "0.5", share="client")}
    async with running_hub(tmp_path, servers, health_interval=0.1) as here:
        line = await here.connect()
        assert "up__echo" in text(await line.call("search_tools", query="echo"))
        assert here.hub.gateway.instances("up")[0].vitals.starts == 1
