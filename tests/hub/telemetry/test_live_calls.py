"""Calls as they happen, over a real hub with real servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tabane.errors import BadArguments, UnknownName
from tabane.hub.hub import Hub
from tabane.hub.telemetry import live_recording, metering
from tabane.hub.telemetry.event_feed import NEEDED, TARGETS, LiveEvent
from tabane.hub.telemetry.live_recording import HEAD
from tabane.operations import LOCAL, Caller, Face
from tests.harness.patience import LONG, until
from tests.harness.running_hub import Json, child, connected_hub, running_hub

PROGRAM = Caller("local", Face.CLI, "program")
PAGE = Caller("local", Face.WEB, "page")


async def ask(hub: Hub, operation: str, caller: Caller = PROGRAM, /, **params: Any) -> Any:
    given = json.dumps(params).encode()
    body = await hub.door.respond(caller, operation, given, msgspec.json.encode, face=Face.RPC)
    return json.loads(body)


async def calls(hub: Hub, **params: Any) -> list[Json]:
    return list((await ask(hub, "list_live_calls", **params))["results"])


class Events:
    """The events of a hub from now on, as they come."""

    def __init__(self, hub: Hub) -> None:
        self.seen: list[tuple[str, Json]] = []
        self._task = asyncio.ensure_future(self._read(hub.audit.live.follow(None, LOCAL)))

    async def _read(self, follower: AsyncIterator[list[LiveEvent]]) -> None:
        async for batch in follower:
            self.seen += [(event.topic, json.loads(event.data)) for event in batch]

    def of(self, topic: str) -> list[Json]:
        return [data for name, data in self.seen if name == topic]

    async def __aenter__(self) -> Events:
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()


async def test_calls_before_somebody_looks_are_listed_without_what_they_said(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"c": child()}) as (here, client):
        await client.call("c__echo", text="unseen")
        assert here.hub.audit.live.recording is None
        assert here.hub.audit.meter.watch is None
        assert b"unseen" not in repr(here.hub.audit.meter.earlier).encode()
        (row,) = await calls(here.hub)
        assert (row["tool"], row["server"], row["face"], row["outcome"]) == ("c__echo", "c", "mcp", "ok")
        assert row["ms"] > 0
        shown = await ask(here.hub, "show_live_call", number=row["number"])
        assert (shown["steps"], shown["arguments"], shown["result"]) == ([], None, None)
        report = await ask(here.hub, "get_activity", seconds=900)
        assert report["since"] <= row["time"]
        await client.call("c__echo", text="seen")
        assert [row["tool"] for row in await calls(here.hub)] == ["c__echo"] * 2


async def test_the_last_200_calls_are_kept_for_who_begins_to_look(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"c": child()}) as (here, client):
        for number in range(metering.MOST_EARLIER + 5):
            await client.call("c__echo", text=str(number))
        assert len(await calls(here.hub, limit=500)) == metering.MOST_EARLIER


async def test_a_call_is_shown_with_who_made_it_what_went_in_and_out_and_its_steps(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"c": child()}) as here:
        here.hub.audit.live.attach()
        client = await here.connect()
        await client.call("c__echo", text="hello", password="hunter2 and more", n=5)
        (row,) = await calls(here.hub, tool="echo")
        assert (row["holder"], row["face"], row["server"], row["outcome"]) == ("local", "mcp", "c", "ok")
        shown = await ask(here.hub, "show_live_call", number=row["number"])
        assert shown["client"].startswith("test")
        assert shown["arguments"] == {"text": "hello", "password": "***", "n": 5}
        assert "hunter2" not in json.dumps(shown)
        assert shown["result"]["content"]
        assert shown["bytes"] == shown["result_size"] > 0
        assert [step["step"] for step in shown["steps"]] == ["hub", "queue", "server", "answer"]
        assert abs(sum(step["ms"] for step in shown["steps"]) - row["ms"]) < 0.1


async def test_secrets_of_servers_and_forms_are_hidden_in_results_too_without_an_audit_log(
    tmp_path: Path,
) -> None:
    async with running_hub(tmp_path, {"c": child()}, audit="off") as here:
        here.hub.audit.hide(["a-very-own-value"], lambda text: text.replace("a-very-own-value", "***"))
        here.hub.audit.live.attach()
        client = await here.connect()
        await client.call("c__echo", text="ghp_abcdefghijklmnop1234 and a-very-own-value")
        created = await ask(here.hub, "keys_create", name="k", allow=["*"])
        for row in await calls(here.hub):
            shown = json.dumps(await ask(here.hub, "show_live_call", number=row["number"]))
            assert "ghp_abc" not in shown
            assert "a-very-own" not in shown
            assert created["secret"] not in shown


async def test_long_arguments_and_results_are_cut_and_bounded(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"c": child()}) as here:
        here.hub.audit.live.attach()
        client = await here.connect()
        text = "ab " * 100_000
        await client.call("c__echo", text=text)
        (row,) = await calls(here.hub)
        shown = await ask(here.hub, "show_live_call", number=row["number"])
        assert shown["arguments_size"] > len(text)
        assert isinstance(shown["arguments"], str)
        assert HEAD - 10 <= len(shown["arguments"]) <= HEAD
        assert len(shown["result"]) <= HEAD


async def test_the_last_500_calls_are_kept_and_some_megabytes_of_what_they_said(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}) as here:
        here.hub.audit.live.attach()
        for number in range(live_recording.MOST_ENDED + 20):
            with contextlib.suppress(BadArguments):
                await ask(here.hub, "hello", PROGRAM, name="x" * (10_000 + number))
        rows = await calls(here.hub, limit=500)
        assert [row["number"] for row in rows] == list(range(520, 20, -1))
        newest = await ask(here.hub, "show_live_call", number=520)
        assert newest["arguments"]["name"].startswith("xxx")
        assert (await ask(here.hub, "show_live_call", number=21))["arguments"] is None
        with pytest.raises(UnknownName):
            await ask(here.hub, "show_live_call", number=20)


async def test_the_list_is_filtered(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": child(), "b": child()}) as here:
        here.hub.audit.live.attach()
        client = await here.connect()
        await client.call("a__echo", text="1")
        await client.call("b__echo", text="2")
        await client.request("tools/call", {"name": "b__fail", "arguments": {}})
        assert [row["tool"] for row in await calls(here.hub, server="a")] == ["a__echo"]
        assert [row["tool"] for row in await calls(here.hub, tool="ECHO")] == ["b__echo", "a__echo"]
        assert {row["server"] for row in await calls(here.hub, client="test")} == {"a", "b"}
        assert await calls(here.hub, client="nobody") == []
        assert {row["outcome"] for row in await calls(here.hub, outcome="ok")} <= {"ok"}
        last = (await ask(here.hub, "list_live_calls"))["last"]
        assert await calls(here.hub, after=last) == []
        assert len(await calls(here.hub, limit=1)) == 1


async def test_each_call_is_an_event_and_one_that_takes_long_is_two(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"c": child()}) as here, Events(here.hub) as events:
        client = await here.connect()
        await client.call("c__echo", text="1")
        slow = client.begin("tools/call", {"name": "c__wait", "arguments": {"seconds": 600}})

        def outcomes(tool: str) -> list[str]:
            return [row["outcome"] for row in events.of("calls") if row["tool"] == tool]

        await until(lambda: outcomes("c__wait") == ["running"])
        assert outcomes("c__echo")[-1] == "ok"
        assert (await ask(here.hub, "list_live_calls"))["running"] == 1
        client.notify("notifications/cancelled", {"requestId": 3})
        await until(lambda: outcomes("c__wait") == ["running", "cancelled"])
        slow.cancel()
        await until(lambda: sum(second["calls"] for second in events.of("activity")) == 2)
        assert sum((await ask(here.hub, "get_activity", seconds=60))["calls"]) == 2


async def test_reading_by_an_open_page_is_not_listed_but_its_changes_are(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}) as here:
        here.hub.audit.live.attach()
        await ask(here.hub, "list_servers", PAGE)
        await ask(here.hub, "get_activity")
        await ask(here.hub, "put_document", PAGE, filepath="a.txt", text="x")
        assert [row["tool"] for row in await calls(here.hub)] == ["put_document"]


async def test_servers_jobs_and_what_calls_change_are_events(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"c": child()}) as here, Events(here.hub) as events:
        await ask(here.hub, "start_upstream", name="c")
        await until(lambda: {"servers": {"c": "ready"}} in events.of("servers"))
        await until(lambda: any("tools" in event["lists"] for event in events.of("catalog")))
        await ask(here.hub, "put_document", filepath="a.txt", text="x")
        await until(lambda: events.of("documents"))
        await ask(here.hub, "keys_create", name="k", allow=["*"])
        await until(lambda: events.of("keys"))
        job = await ask(here.hub, "verify_audit_log")
        await until(lambda: any(event["status"] == "done" for event in events.of("jobs")))
        assert {event["job"] for event in events.of("jobs")} == {job["job"]}
        here.hub.audit.event("admin", "settings_reload")
        await until(lambda: events.of("settings"))
        await ask(here.hub, "keys_list")
        await until(lambda: any(row.get("tool") == "keys_list" for row in events.of("calls")))
        assert len(events.of("keys")) == 1


async def test_a_server_is_told_of_again_when_it_has_listed_its_tools(tmp_path: Path) -> None:
    """A page that shows how many tools it has asks again then."""
    listed = tmp_path / "listed"
    server = child("--list-after", str(listed))
    async with running_hub(tmp_path, {"c": server}) as here, Events(here.hub) as events:
        start = asyncio.ensure_future(ask(here.hub, "start_upstream", name="c"))
        await until(lambda: {"servers": {"c": "ready"}} in events.of("servers"))
        assert not events.of("catalog")
        told = len(events.of("servers"))
        listed.touch()
        await until(lambda: len(events.of("servers")) > told and events.of("catalog"))
        (row,) = (await ask(here.hub, "list_servers"))["results"]
        assert row["tools"] > 0
        await start


async def test_the_permission_of_each_topic_is_that_of_a_real_operation(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}) as here:
        for topic, (name, _) in NEEDED.items():
            operation = here.hub.table.get(name)
            if operation is None:  # of the process: the table there has it
                assert name == "hub_status"
                continue
            assert TARGETS[topic] == operation.target, topic


async def test_a_call_that_waits_for_its_turn_shows_that(tmp_path: Path) -> None:
    path = tmp_path / "tabane.toml"
    tmp_path.chmod(0o700)
    path.write_text("[tiers.local]\nconcurrency = 1\n")
    path.chmod(0o600)
    async with running_hub(tmp_path, {"c": child()}, config=str(path)) as here:
        here.hub.audit.live.attach()
        client = await here.connect()
        first = client.begin("tools/call", {"name": "c__wait", "arguments": {"seconds": 600}})
        second = client.begin("tools/call", {"name": "c__echo", "arguments": {"text": "x"}})
        live = here.hub.audit.live.attach().calls
        await until(lambda: live.running == 2)
        client.notify("notifications/cancelled", {"requestId": 2})
        await asyncio.wait_for(second, LONG)
        first.cancel()
        (row,) = await calls(here.hub, tool="echo")
        shown = await ask(here.hub, "show_live_call", number=row["number"])
        assert shown["steps"][0]["step"] == "limits"
        assert shown["steps"][0]["ms"] > 0


async def test_a_call_of_the_page_tells_its_progress_while_it_runs(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        await ask(here.hub, "list_live_calls")
        async with Events(here.hub) as events:
            named = msgspec.structs.replace(PAGE, request="mine")
            given = {"name": "up__progress", "arguments": {"steps": 4, "pause": 0.15}}
            await ask(here.hub, "call_tool", named, **given)
            rows = [row for row in events.of("calls") if row["request"] == "mine"]
            told = [row["progress"] for row in rows if "progress" in row]
            assert {"done": 2.0, "total": 4.0, "message": ""} in told
            await until(lambda: [row for row in events.of("calls") if row["outcome"] == "ok"])
        (ended,) = await calls(here.hub)
        assert "progress" not in ended


async def test_look_ups_of_the_hub_are_marked_and_can_be_left_out(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        await ask(here.hub, "list_live_calls")
        await ask(here.hub, "list_servers")
        await ask(here.hub, "call_tool", name="up__echo", arguments={})
        assert {row["tool"]: row["lookup"] for row in await calls(here.hub)} == {
            "list_servers": True,
            "up__echo": False,
        }
        assert [row["tool"] for row in await calls(here.hub, lookups=False)] == ["up__echo"]
