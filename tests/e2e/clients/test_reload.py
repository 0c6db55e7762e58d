"""Changed files take effect without a restart; a file with an error does not."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tabane.errors import UpstreamError
from tests.harness.patience import LONG, until
from tests.harness.running_hub import child, configured, running_hub, text


async def test_a_server_that_is_added_can_be_called_and_one_that_is_removed_cannot(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"old": child(), "kept": child()}) as here:
        line = await here.connect(mode="full")
        pid = text(await line.call("kept__pid"))
        await line.call("old__echo")
        await line.result("tools/list")
        line.notifications.clear()
        configured(tmp_path, {"kept": child(), "new": child()})
        await line.noticed("notifications/tools/list_changed")
        await until(lambda: here.hub.gateway.catalog.has("new"), "the new server has listed")
        assert (await line.call("new__echo", n=1))["structuredContent"] == {"n": 1}
        assert (await line.request("tools/call", {"name": "old__echo"}))["error"]["code"] == -32602
        assert text(await line.call("kept__pid")) == pid
        names = {tool["name"] for tool in (await line.result("tools/list"))["tools"]}
        assert {"new__echo", "kept__echo"} <= names
        assert "old__echo" not in names


async def test_a_change_of_policy_leaves_the_process_alone(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()
        pid = text(await line.call("up__pid"))
        configured(tmp_path, {"up": child(deny=["fail"], pin=["echo"], tags=["盆栽"], timeout=3)})

        async def pinned() -> bool:
            names = [tool["name"] for tool in (await line.result("tools/list"))["tools"]]
            return bool(names[-1] == "up__echo")

        await until(pinned, "the pinned tool is listed")
        assert text(await line.call("up__pid")) == pid
        assert (await line.through("up__fail"))["isError"] is True
        assert "up__echo" in text(await line.call("search_tools", query="盆栽 arguments"))
        assert "3 s" in text(await line.through("up__hang"))


async def test_a_change_of_process_lets_calls_in_flight_finish(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()
        pid = text(await line.call("up__pid"))
        slow = line.begin("tools/call", {"name": "up__wait", "arguments": {"seconds": 2.5}})
        configured(tmp_path, {"up": child(env={"NEW": "yes"})})

        async def replaced() -> bool:
            return text(await line.call("up__pid")) != pid

        await until(replaced, "calls go to the new process")
        assert '"NEW": "yes"' in text(await line.call("up__environment"))
        assert not slow.done()
        assert text((await asyncio.wait_for(slow, LONG))["result"]) == "waited"


async def test_a_broken_file_keeps_what_was_good_and_says_so(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()
        pid = text(await line.call("up__pid"))
        (tmp_path / "mcp-servers.json").write_text('{"mcpServers": {"up": {"command": }}}')
        await until(lambda: here.hub.status()["problem"] is not None, "the fault is reported")
        assert "line" in here.hub.status()["problem"] or ":1:" in here.hub.status()["problem"]
        assert text(await line.call("up__pid")) == pid
        configured(tmp_path, {"up": child()})
        await until(lambda: here.hub.status()["problem"] is None, "the mended file is in force")
        assert text(await line.call("up__pid")) == pid


async def test_a_server_that_is_disabled_and_enabled_again_comes_back(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()
        await line.call("up__echo")
        configured(tmp_path, {"up": child(enabled=False)})
        await until(lambda: here.hub.status()["servers_disabled"] == 1, "it is disabled")
        assert (await line.through("up__echo"))["isError"] is True
        configured(tmp_path, {"up": child()})
        await until(lambda: here.hub.status()["servers_disabled"] == 0, "it is enabled")
        assert (await line.call("up__echo", n=1))["structuredContent"] == {"n": 1}


async def test_settings_that_change_are_in_force_for_running_servers(tmp_path: Path) -> None:
    settings = tmp_path / "tabane.toml"
    settings.write_text("")
    settings.chmod(0o600)
    async with running_hub(tmp_path, {"up": child(maxConcurrency=1)}, config=str(settings)) as here:
        line = await here.connect()
        await line.call("up__echo")
        settings.write_text('queue_length = 1\nmode = "full"\n')
        await until(lambda: here.hub.settings.mode == "full", "the settings were read")
        for _ in range(2):
            line.begin("tools/call", {"name": "up__hang", "arguments": {}})
        assert "overloaded" in text(await line.through("up__echo"))
        names = {tool["name"] for tool in (await (await here.connect()).result("tools/list"))["tools"]}
        assert "up__echo" in names


async def test_who_waits_for_a_start_that_a_change_cuts_off_is_answered(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child("--slow-start", "30")}, probe_timeout=0.2) as here:
        start = asyncio.ensure_future(here.hub.gateway.start("up"))
        listed = asyncio.ensure_future(here.hub.gateway.instance("up").listed())
        await until(lambda: here.hub.gateway.instance("up").vitals.starts == 1, "it is starting")
        configured(tmp_path, {"up": child()})
        done, _ = await asyncio.wait([start, listed], timeout=LONG)
        assert done == {start, listed}
        assert isinstance(start.exception(), UpstreamError)
        line = await here.connect()
        assert (await line.call("up__echo", n=1))["structuredContent"] == {"n": 1}
