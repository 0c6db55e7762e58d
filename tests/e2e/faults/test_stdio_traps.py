"""Every trap of stdio, with a real child process: the hub continues and reports what happened."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import get_args

import pytest

from tests.harness.patience import LONG, until
from tests.harness.running_hub import Client, child, running_hub, text

ALIVE = {"other": child()}
"""A well-behaved server beside the one that misbehaves: nothing must delay it."""


@pytest.mark.parametrize(
    "noise", [("--banner",), ("--noise",), ("--babble", "300000"), ("--unasked",), ("--twice",)]
)
async def test_what_is_no_answer_on_stdout_is_skipped_and_counted(
    tmp_path: Path, noise: tuple[str, ...]
) -> None:
    async with running_hub(tmp_path, {"up": child(*noise)}) as here:
        line = await here.connect()
        for number in range(3):
            assert json.loads(text(await line.call("up__echo", n=number))) == {"n": number}
        (instance,) = here.hub.gateway.instances("up")
        assert instance.connection is not None
        assert instance.connection.conversation.garbage > 0
        assert line.unexpected == []


async def test_a_line_longer_than_the_limit_fails_its_call_alone(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, max_line=1 << 20) as here:
        line = await here.connect()
        big = line.begin("tools/call", {"name": "up__huge", "arguments": {"bytes": 3 << 20}})
        fits = line.begin("tools/call", {"name": "up__huge", "arguments": {"bytes": 900_000}})
        refused = await asyncio.wait_for(big, LONG)
        assert refused["error"]["code"] == -32603
        assert "1 MiB" in refused["error"]["message"]
        assert len(text((await asyncio.wait_for(fits, LONG))["result"])) == 900_000
        assert here.hub.gateway.instances("up")[0].vitals.deaths == 0


@pytest.mark.heavy("kills real processes, many times")
async def test_a_message_of_many_megabytes_passes_whole(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()
        payload = "束" * 3_000_000
        assert json.loads(text(await line.call("up__echo", text=payload))) == {"text": payload}


async def test_a_client_that_sends_too_long_a_line_is_told_and_goes_on(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, max_line=1 << 20) as here:
        line = await here.connect()
        answer = await line.request(
            "tools/call", {"name": "up__echo", "arguments": {"text": "x" * (2 << 20)}}
        )
        assert answer["error"]["code"] == -32600
        assert (await line.call("up__echo", n=1))["structuredContent"] == {"n": 1}


async def test_wrong_ids_are_answers_to_nothing_and_the_call_times_out(tmp_path: Path) -> None:
    servers = {"up": child("--wrong-ids", timeout=0.3), **ALIVE}
    async with running_hub(tmp_path, servers, start_timeout=3.0, probe_timeout=0.2) as here:
        line = await here.connect()

        async def alive() -> bool:
            return "result" in await line.request("tools/call", {"name": "other__echo"})

        await until(alive, "the other one is up")
        failed = await line.through("up__echo")
        assert failed["isError"] is True
        assert (await line.call("other__echo", n=1))["structuredContent"] == {"n": 1}


@pytest.mark.parametrize("how", ["crash", "crash_in_answer"])
async def test_a_death_in_a_call_is_told_at_once_and_the_server_comes_back(tmp_path: Path, how: str) -> None:
    async with running_hub(tmp_path, {"up": child(timeout=60)}, restart_first=0.05) as here:
        line = await here.connect()
        first = json.loads(text(await line.call("up__pid")))
        others = [line.begin("tools/call", {"name": "up__hang", "arguments": {}}) for _ in range(5)]
        died = await line.through(f"up__{how}")
        assert died["isError"] is True
        assert "up" in text(died)
        for other in others:
            assert (await asyncio.wait_for(other, LONG))["error"]["code"] == -32603
        again = json.loads(text(await line.call("up__pid")))
        assert again != first


async def test_stdout_closed_by_a_server_that_lives_on_counts_as_its_death(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child("--close-stdout", "1")}, restart_first=0.05) as here:
        line = await here.connect()
        pid = int(text(await line.call("up__pid")))
        await until(lambda: not _alive(pid), "the old process is ended")
        assert int(text(await line.call("up__pid"))) != pid


async def test_a_server_that_ends_at_once_is_named_with_its_last_words(tmp_path: Path) -> None:
    servers = {"up": child("--stderr", "no token in the environment", "--exit", "3"), **ALIVE}
    async with running_hub(tmp_path, servers) as here:
        line = await here.connect()
        failed = await line.call("search_tools", query="echo up")
        assert "up" in text(failed).splitlines()[-1]
        detail = here.hub.gateway.instances("up")[0].vitals.error
        assert "no token in the environment" in str(detail)
        assert "other__echo" in text(failed)


async def test_a_command_that_does_not_exist_is_named(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": {"command": "no-such-command-anywhere"}}) as here:
        line = await here.connect()
        failed = await line.through("up__echo")
        assert failed["isError"] is True
        error = here.hub.gateway.instances("up")[0].vitals.error
        assert "no-such-command-anywhere" in str(error)


@pytest.mark.parametrize("silence", [("--silent",), ("--discover", "silent"), ("--discover", "exit")])
async def test_a_silent_server_delays_only_itself(tmp_path: Path, silence: tuple[str, ...]) -> None:
    servers = {"up": child(*silence), **ALIVE}
    limits = {"start_timeout": LONG, "probe_timeout": 0.2, "list_wait": 0.5, "restart_first": 0.05}
    async with running_hub(tmp_path, servers, **limits) as here:
        line = await here.connect()

        async def is_found() -> bool:
            return "other__echo" in text(await line.call("search_tools", query="echo", limit=20))

        await until(is_found, "the other server is listed")
        assert (await line.call("other__echo", n=1))["structuredContent"] == {"n": 1}
        if "--silent" not in silence:
            await until(lambda: here.hub.gateway.catalog.has("up"), "it was spoken to in its own era")
            assert (await line.call("up__echo", n=2))["structuredContent"] == {"n": 2}


async def test_the_era_is_remembered_so_that_a_silent_probe_is_paid_once(tmp_path: Path) -> None:
    for probe in (0.5, 60.0):  # the second one is not waited for
        async with running_hub(tmp_path, {"up": child("--discover", "silent")}, probe_timeout=probe) as here:
            line = await here.connect()
            begun = asyncio.get_running_loop().time()
            await line.call("up__echo")
            took = asyncio.get_running_loop().time() - begun
            assert took >= probe if probe < 1 else took < probe
            listing = here.hub.gateway.catalogs.listing("up")
            assert listing is not None
            assert listing.era.value == "legacy"


async def test_a_slow_start_is_waited_for(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child("--slow-start", "0.6")}, probe_timeout=0.2) as here:
        line = await here.connect()
        assert (await line.call("up__echo", n=1))["structuredContent"] == {"n": 1}


async def test_a_flood_on_stderr_neither_blocks_nor_grows_without_bound(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child("--flood-stderr", "0")}) as here:
        line = await here.connect()
        for number in range(20):
            assert (await line.call("up__echo", n=number))["structuredContent"] == {"n": number}
        size = sum(file.stat().st_size for file in (tmp_path / "logs" / "servers").iterdir())
        assert 0 < size < 8 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="missing: Linux (/proc)")
async def test_a_server_that_ignores_every_hint_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    flags = (
        "--ignore-eof",
        "--ignore-term",
        "--stubborn",
        "--grandchildren",
        "group,session",
        "--pids",
        str(pids),
    )
    async with running_hub(tmp_path, {"up": child(*flags)}) as here:
        line = await here.connect()
        await line.call("up__echo")
        started = [int(entry.split()[1]) for entry in pids.read_text().splitlines()]
        assert len(started) == 3
        assert all(_alive(pid) for pid in started)
    assert not any(_alive(pid) for pid in started)


async def test_an_upstream_sees_a_few_variables_of_the_hub_and_its_own(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child(env={"TOKEN": "t-1"})}) as here:
        line = await here.connect()
        seen = json.loads(text(await line.call("up__environment")))
        assert seen["TOKEN"] == "t-1"
        allowed = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "TOKEN", "LC_CTYPE"}
        assert {key for key in seen if not key.startswith("TABANE_")} <= allowed
        assert text(await line.call("up__cwd")) == str(tmp_path)


@pytest.mark.parametrize("client", get_args(Client))
async def test_long_numbers_pass_and_half_characters_are_replaced(tmp_path: Path, client: Client) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect(client)
        numbers = "[1e400,123456789012345678901234567890,-0.0]"
        raw = '{"content":[],"n":' + numbers + ',"s":"\\ud83d","_meta":{}}'
        result = await line.call("up__raw", json=raw)
        expected = json.loads(raw)
        assert json.dumps(result["n"]) == json.dumps(expected["n"])
        assert result["s"] == "\ufffd"


async def test_bytes_that_are_no_utf8_never_reach_a_client(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()
        assert "\ufffd" in text(await line.through("up__surrogate_bytes"))
        assert (await line.call("up__echo", n=1))["structuredContent"] == {"n": 1}


async def test_a_list_that_does_not_end_is_cut(tmp_path: Path) -> None:
    servers = {"up": child("--endless-cursor", "--page-size", "5"), "paged": child("--page-size", "3")}
    async with running_hub(tmp_path, servers) as here:
        line = await here.connect(mode="full")
        await line.result("tools/list")
        await until(lambda: here.hub.gateway.catalog.has("up"), "the endless list was cut")
        names = {tool["name"] for tool in (await line.result("tools/list"))["tools"]}
        assert {"up__echo", "paged__echo", "paged__nan"} <= names


async def test_of_two_tools_of_one_name_the_first_counts(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child("--duplicate")}) as here:
        line = await here.connect(mode="full")
        names = [tool["name"] for tool in (await line.result("tools/list"))["tools"]]
        assert names.count("up__echo") == 1


@pytest.mark.parametrize("upstream", ["legacy", "modern"])
@pytest.mark.parametrize("client", get_args(Client))
async def test_changed_tools_are_listed_anew_and_clients_are_told(
    tmp_path: Path, client: Client, upstream: str
) -> None:
    async with running_hub(tmp_path, {"up": child("--era", upstream)}) as here:
        line = await here.connect(client, mode="full")
        await line.result("tools/list")
        if line.modern:
            line.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            acknowledged = await line.noticed("notifications/subscriptions/acknowledged")
            assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
        await line.call("up__change_tools", names=["echo"])
        await line.noticed("notifications/tools/list_changed")
        names = {tool["name"] for tool in (await line.result("tools/list"))["tools"]}
        assert {name for name in names if name.startswith("up__")} == {"up__echo", "up__change_tools"}
        assert "up__image" not in text(await line.call("search_tools", query="content of other kinds"))
        line.notifications.clear()
        await line.call("up__change_tools", names=["image"])
        await line.noticed("notifications/tools/list_changed")
        assert "up__image" in text(await line.call("search_tools", query="content of other kinds"))


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
    finally:
        os.sched_yield()
