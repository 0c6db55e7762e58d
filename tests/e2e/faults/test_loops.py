"""Hubs whose servers files lead back to themselves, and hubs in a row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.http_hub import HttpHub, http_hub
from tests.harness.patience import until
from tests.harness.running_hub import child, configured, text


def at(other: HttpHub, host: str = "127.0.0.1") -> dict[str, Any]:
    """The entry of a hub in another hub's servers file."""
    url = other.mcp_url.replace("127.0.0.1", host)
    return {"type": "http", "url": url, "headers": {"Authorization": other.bearer or ""}}


def folder_of(hub: Path) -> Path:
    """A home for one of several hubs."""
    hub.mkdir()
    return hub


def error_of(here: HttpHub, server: str) -> str:
    instances = here.hub.gateway.instances(server)
    return next((str(each.vitals.error) for each in instances if each.vitals.error), "")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_hub_that_is_its_own_server_by_url_is_refused(tmp_path: Path, host: str) -> None:
    async with http_hub(tmp_path, {"up": child()}) as here:
        configured(tmp_path, {"up": child(), "me": at(here, host)})
        await until(lambda: "me" in here.hub.gateway.servers, "the file is in force")
        line = await here.running.connect(mode="full")
        await until(lambda: "leads back" in error_of(here, "me"))
        names = [tool["name"] for tool in (await line.result("tools/list"))["tools"]]
        assert "up__echo" in names
        assert not any(name.startswith("me__") for name in names)


async def test_tools_that_were_listed_before_the_circle_was_closed_are_offered_no_more(
    tmp_path: Path,
) -> None:
    async with http_hub(tmp_path, {"up": child()}) as here:
        gateway = here.hub.gateway
        await gateway.start("up")
        configured(tmp_path, {"up": child(), "me": child()})
        await until(lambda: gateway.catalog.of_server("me"), "the other server has listed its tools")
        configured(tmp_path, {"up": child(), "me": at(here)})
        await until(lambda: "leads back" in error_of(here, "me"))
        assert not gateway.catalog.of_server("me")
        assert gateway.catalog.of_server("up")


async def test_two_hubs_in_a_row_work_and_a_circle_of_two_is_refused(tmp_path: Path) -> None:
    async with (
        http_hub(folder_of(tmp_path / "b"), {"up": child()}) as second,
        http_hub(folder_of(tmp_path / "a"), {"b": at(second)}) as first,
    ):
        line = await first.running.connect(mode="full")
        await first.hub.gateway.start("b")
        called = await line.call("b__call_tool", name="up__echo", arguments={"n": 1})
        assert json.loads(text(called)) == {"n": 1}
        configured(tmp_path / "b", {"up": child(), "a": at(first)})
        await until(lambda: "leads back" in error_of(second, "a"))
        assert not second.hub.gateway.catalog.of_server("a")
        again = await line.call("b__call_tool", name="up__echo", arguments={"n": 2})
        assert json.loads(text(again)) == {"n": 2}


async def test_a_circle_of_three_hubs_is_refused(tmp_path: Path) -> None:
    async with (
        http_hub(folder_of(tmp_path / "c")) as third,
        http_hub(folder_of(tmp_path / "b"), {"c": at(third)}) as second,
        http_hub(folder_of(tmp_path / "a"), {"b": at(second)}) as first,
    ):
        for here, server in ((second, "c"), (first, "b")):
            await here.running.connect(mode="full")
            await here.hub.gateway.start(server)
        configured(tmp_path / "c", {"a": at(first)})
        await until(lambda: "leads back" in error_of(third, "a"))
