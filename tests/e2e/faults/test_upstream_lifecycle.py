"""The lifecycle of an upstream: start on demand, limits, restarts, and giving up."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tabane.catalog.operations.server_operations import server_row
from tabane.operations import Caller, Face
from tabane.wire import json as wire
from tests.harness.patience import LONG, pass_time, until
from tests.harness.running_hub import Json, RunningHub, child, running_hub, text


def state(here: RunningHub, server: str) -> str:
    return here.hub.gateway.instances(server)[0].state.value


async def test_nothing_is_started_before_it_is_needed_and_then_once(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"one": child(), "two": child()}) as here:
        lines = [await here.connect() for _ in range(3)]
        await lines[0].result("tools/list")
        assert here.hub.status()["servers_running"] == 0
        pids = {text(await line.call("one__pid")) for line in lines}
        assert len(pids) == 1
        assert here.hub.status()["servers_running"] == 1


async def test_servers_are_started_with_the_hub_where_the_setting_says_so(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"one": child(), "two": child()}, start_servers="at_start") as here:
        await until(lambda: here.hub.status()["servers_running"] == 2, "both run")


async def test_the_list_is_answered_from_disk_before_any_server_is_up(tmp_path: Path) -> None:
    lists: list[Any] = []
    for _ in range(2):
        async with running_hub(tmp_path, {"one": child(), "two": child("--tools", "3")}) as here:
            line = await here.connect(mode="full")
            if lists:
                assert here.hub.status()["tools"] > 0
            lists.append(await line.result("tools/list"))
            running = here.hub.status()["servers_running"]
            found = await line.call("search_tools", query="gives back its arguments")
            assert "one__echo" in text(found)
    assert running == 0
    assert lists[0] == lists[1]


async def test_a_changed_command_is_listed_anew(tmp_path: Path) -> None:
    for arguments, count in (((), 0), (("--tools", "2"), 2)):
        async with running_hub(tmp_path, {"up": child(*arguments)}) as here:
            line = await here.connect(mode="full")
            names = [tool["name"] for tool in (await line.result("tools/list"))["tools"]]
            assert sum(name.startswith("up__extra_") for name in names) == count


async def test_calls_beyond_the_concurrency_of_a_server_wait_and_all_are_answered(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child(maxConcurrency=2)}) as here:
        line = await here.connect()
        await line.call("up__echo")
        leaving = await here.connect()
        for _ in range(6):
            leaving.begin("tools/call", {"name": "up__hang", "arguments": {}})
        (instance,) = here.hub.gateway.instances("up")
        await until(lambda: instance.in_flight == 6, "all are in")
        assert instance.connection is not None
        assert instance.connection.conversation.in_flight == 2
        waits = [
            line.begin("tools/call", {"name": "up__wait", "arguments": {"seconds": 0.1}}) for _ in range(6)
        ]
        await until(lambda: instance.in_flight == 12, "they wait")
        await leaving.close()
        for response in await asyncio.gather(*waits):
            assert text(response["result"]) == "waited"


async def test_a_full_queue_refuses_more_with_a_word(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child(maxConcurrency=1)}, queue_length=3) as here:
        line = await here.connect()
        await line.call("up__echo")
        for _ in range(4):
            line.begin("tools/call", {"name": "up__hang", "arguments": {}})
        (instance,) = here.hub.gateway.instances("up")
        await until(lambda: instance.in_flight == 4, "the queue is full")
        refused = await line.through("up__echo")
        assert refused["isError"] is True
        assert "overloaded" in text(refused)


async def test_a_call_that_takes_too_long_is_answered_and_cancelled_upstream(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child(timeout=30, maxConcurrency=1)}) as here:
        line = await here.connect()
        hanging = asyncio.ensure_future(line.through("up__hang"))
        await until(lambda: [each.in_flight for each in here.hub.gateway.instances("up")] == [1], "it hangs")
        pass_time(31)
        late = await hanging
        assert late["isError"] is True
        assert "30 s" in text(late)

        async def answers() -> bool:
            return (await line.through("up__echo", n=1)).get("structuredContent") == {"n": 1}

        await until(answers, "the server is free again")


async def test_progress_extends_the_time_of_a_call(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child(timeout=30)}) as here:
        line = await here.connect()
        arguments = {"steps": 10, "pause": 0.05}
        params = {"name": "up__progress", "arguments": arguments, "_meta": {"progressToken": 1}}
        answer, seen = line.begin("tools/call", params), 0
        while not answer.done():
            await until(lambda: answer.done() or len(line.notifications) > seen)  # noqa: B023  (awaited here)
            seen = len(line.notifications)
            pass_time(20)
        assert (await answer)["result"]["content"]


async def test_after_failures_in_a_row_calls_are_refused_at_once_until_a_trial_succeeds(
    tmp_path: Path,
) -> None:
    flag = tmp_path / "broken"
    script = tmp_path / "server.sh"
    flag.touch()
    good = child()
    script.write_text(
        f'#!/bin/sh\n[ -e "{flag}" ] && {{ echo "database is down" >&2; exit 1; }}\n'
        f'exec "{good["command"]}" "{good["args"][0]}"\n'
    )
    script.chmod(0o700)
    limits = {"restart_first": 0.02, "circuit_failures": 3, "circuit_wait": 0.5}
    async with running_hub(tmp_path, {"up": {"command": str(script)}}, **limits) as here:
        line = await here.connect()
        assert (await line.through("up__echo"))["isError"] is True
        await until(lambda: state(here, "up") == "circuit open", "the circuit opened")
        assert here.hub.gateway.instances("up")[0].vitals.starts == 3
        assert "database is down" in str(here.hub.gateway.instances("up")[0].vitals.error)
        flag.unlink()

        async def answers() -> bool:
            return (await line.through("up__echo", n=1)).get("structuredContent") == {"n": 1}

        await until(answers, "the trial succeeded")
        assert state(here, "up") == "ready"


async def test_a_server_killed_from_outside_is_started_again_by_itself(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, restart_first=0.05) as here:
        line = await here.connect()
        await line.call("up__echo")
        (instance,) = here.hub.gateway.instances("up")
        died = await line.through("up__crash", signal=9)
        assert died["isError"] is True
        await until(lambda: instance.vitals.starts >= 2 and state(here, "up") == "ready", "it is back")


async def test_a_hung_server_is_found_by_the_health_check_and_restarted(tmp_path: Path) -> None:
    import os
    import signal

    settings = {"health_interval": 0.2, "restart_first": 0.05}
    async with running_hub(tmp_path, {"up": child()}, **settings) as here:
        line = await here.connect()
        pid = int(text(await line.call("up__pid")))
        here.hub.gateway.health.timeout = 0.2
        os.kill(pid, signal.SIGSTOP)
        (instance,) = here.hub.gateway.instances("up")
        await until(lambda: instance.vitals.starts >= 2, "it was replaced")
        # On a loaded machine, the next one may not answer in so little time either.
        here.hub.gateway.health.timeout = LONG
        await until(lambda: state(here, "up") == "ready", "it is back")

        async def replaced() -> bool:
            found = await line.through("up__pid")
            return not found.get("isError") and int(text(found)) != pid

        await until(replaced, "another process answers")


@pytest.mark.parametrize(("share", "distinct"), [("hub", 1), ("client", 3), ("roots", 2)])
async def test_state_is_shared_as_configured(tmp_path: Path, share: str, distinct: int) -> None:
    async with running_hub(tmp_path, {"up": child(share=share)}) as here:
        folders = (["file:///one"], ["file:///one"], ["file:///two"])
        lines = [await here.connect(roots=tuple(roots)) for roots in folders]
        pids = {text(await line.call("up__pid")) for line in lines}
        assert len(pids) == distinct
        await lines[0].close()
        if share == "client":
            await until(lambda: len(here.hub.gateway.instances("up")) == 2, "it ends with its client")


async def test_a_gone_client_leaves_no_call_behind(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line, other = await here.connect(), await here.connect()
        await line.call("up__echo")
        for _ in range(10):
            line.begin("tools/call", {"name": "up__hang", "arguments": {}})
        (instance,) = here.hub.gateway.instances("up")
        await until(lambda: instance.in_flight == 10, "they hang")
        await line.close()
        await until(lambda: instance.in_flight == 0, "they are cancelled")
        assert (await other.call("up__echo", n=1))["structuredContent"] == {"n": 1}


async def test_many_callers_get_their_own_answers(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"one": child(), "two": child("--era", "modern")}) as here:
        lines = [await here.connect(version) for version in ("2025-06-18", "2026-07-28")]

        async def work(line: int, number: int) -> None:
            server = "one" if number % 2 else "two"
            result = await lines[line].through(f"{server}__echo", who=line, n=number)
            assert json.loads(text(result)) == {"who": line, "n": number}

        await asyncio.gather(*(work(line, number) for line in range(2) for number in range(400)))


@pytest.mark.parametrize(
    "requests", [[b"{", b"[1]", b'"x"', b'{"id":7}', b"\xff\xfe", b'{"jsonrpc":"2.0","id":1,"method":5}']]
)
async def test_what_is_no_request_is_answered_and_the_connection_lives_on(
    tmp_path: Path, requests: list[bytes]
) -> None:
    async with running_hub(tmp_path, {}) as here:
        line = await here.connect()
        for request in requests:
            line.send_raw(request + b"\n")
        await line.result("ping")
        answers: list[Json] = [json.loads(answer) for answer in line.unexpected]
        assert [answer["error"]["code"] for answer in answers] == [
            -32700,
            -32600,
            -32600,
            -32600,
            -32700,
            -32600,
        ]


async def test_a_server_of_a_folder_runs_once_for_each_and_not_without_one(tmp_path: Path) -> None:
    servers = {"up": child(env={"FOLDER": "${workspaceFolder}"})}
    async with running_hub(tmp_path, servers) as here:
        one = await here.connect(roots=("file:///home/%E6%9D%9F",))
        other = await here.connect(cwd="/srv/other")
        nowhere = await here.connect()
        folders = [json.loads(text(await line.call("up__environment")))["FOLDER"] for line in (one, other)]
        assert folders == ["/home/束", "/srv/other"]
        refused = await nowhere.through("up__environment")
        assert refused["isError"] is True
        assert "folder" in text(refused)


async def test_the_cause_that_a_server_wrote_is_in_its_row_and_in_the_answer_to_a_search(
    tmp_path: Path,
) -> None:
    broken = tmp_path / "server.sh"
    broken.write_text('#!/bin/sh\necho "Error: NOTES_API_KEY is not set" >&2\necho bye >&2\nexit 1\n')
    broken.chmod(0o700)
    async with running_hub(tmp_path, {"notes": {"command": str(broken)}}, restart_first=20) as here:
        line = await here.connect()
        assert (await line.through("notes__search"))["isError"] is True
        await until(lambda: state(here, "notes") == "waiting", "the start failed")
        refused = text(await line.call("search_tools", query="notes"))
        assert "Error: NOTES_API_KEY is not set (it ended with exit status 1)" in refused
        assert "tabane secrets set NOTES_API_KEY" in refused
        gateway = here.hub.gateway
        row = server_row(gateway, gateway.servers["notes"], "en")
        assert row["cause"]["kind"] == "variable"
        assert row["cause"]["line"] == "Error: NOTES_API_KEY is not set"
        assert "tabane secrets set NOTES_API_KEY" in row["cause"]["fix"]


async def test_a_search_names_why_a_server_failed_and_not_that_it_comes_in_a_moment(tmp_path: Path) -> None:
    broken = tmp_path / "server.sh"
    broken.write_text('#!/bin/sh\necho "it requires a login" >&2\nexit 1\n')
    broken.chmod(0o700)
    servers = {"linear": {"command": str(broken)}, "up": child()}
    limits = {"restart_first": 0.02, "circuit_failures": 2, "circuit_wait": 600}
    async with running_hub(tmp_path, servers, **limits) as here:
        line = await here.connect()
        assert (await line.through("linear__issues"))["isError"] is True
        await until(lambda: state(here, "linear") == "circuit open", "the circuit opened")
        for query in ("linear", "issues in linear"):
            other = await here.connect()  # it is told once a session
            said = text(await other.call("search_tools", query=query))
            assert "linear failed to start" in said
            assert "it requires a login" in said
            assert "tabane servers test linear" in said
            assert "in a moment" not in said
        assert "linear" not in text(await line.call("search_tools", query="echo", server="up"))
        caller = Caller("local", Face.RPC, "1")
        for method, params in (("search_tools", b'{"query": "echo"}'), ("list_tools", b"{}")):
            found = wire.decode(wire.encode(await here.hub.door.invoke(caller, method, params)))
            assert found["waiting"] == []
            assert "it requires a login" in found["failed"]["linear"]
        await here.hub.gateway.stop("linear")
        stopped = text(await line.call("search_tools", query="linear issues"))
        assert "linear is stopped" in stopped
        assert "tabane servers start linear" in stopped


async def test_a_search_says_in_a_moment_only_while_a_server_starts(tmp_path: Path) -> None:
    flag = tmp_path / "wait"
    flag.touch()
    slow = tmp_path / "server.sh"
    good = child()
    command = f'"{good["command"]}" "{good["args"][0]}"'
    slow.write_text(f'#!/bin/sh\nwhile [ -e "{flag}" ]; do sleep 0.1; done\nexec {command}\n')
    slow.chmod(0o700)
    async with running_hub(tmp_path, {"up": {"command": str(slow)}}, list_wait=0.1) as here:
        line = await here.connect()
        assert text(await line.call("search_tools", query="echo")).endswith(
            "Still starting: up. Search again in a moment."
        )
        flag.unlink()

        async def listed() -> bool:
            return "up__echo" in text(await line.call("search_tools", query="echo"))

        await until(listed, "the server is up")
        assert "in a moment" not in text(await line.call("search_tools", query="echo"))
