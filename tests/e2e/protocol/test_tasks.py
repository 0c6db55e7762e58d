"""Tasks of servers pass through the hub in either era, and slow calls become tasks of the hub."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.patience import pass_time, until
from tests.harness.running_hub import Json, RunningHub, SocketClient, child, running_hub, text
from tests.harness.sdk_forks import sdk_command

ROOT = Path(__file__).parents[3]
LEGACY = str(ROOT / "tests" / "harness" / "servers" / "legacy_tasks.py")
TASKS = "io.modelcontextprotocol/tasks"
WITH_TASKS: Json = {
    "_meta": {
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}, "extensions": {TASKS: {}}}
    }
}
OVER = ("completed", "failed", "cancelled")


def modern(folder: Path) -> Json:
    """A server on the official SDK with the extension."""
    command, *arguments = sdk_command("tests.harness.servers.tasks", "stdio", str(folder / "marks"))
    return {"command": command, "args": arguments, "cwd": str(ROOT)}


def legacy(folder: Path) -> Json:
    return {"command": sys.executable, "args": [LEGACY, str(folder)]}


async def ask(line: SocketClient, method: str, **params: Any) -> Json:
    """The result of a request of a client that announces tasks, if it is modern."""
    return await line.result(method, {**params, **(WITH_TASKS if line.modern else {})})


async def refused(line: SocketClient, method: str, **params: Any) -> int:
    response = await line.request(method, {**params, **(WITH_TASKS if line.modern else {})})
    code: int = response["error"]["code"]
    return code


async def begin(line: SocketClient, name: str, /, **arguments: Any) -> str:
    """The id of the task that a call becomes."""
    asked = {} if line.modern else {"task": {"ttl": 60_000}}
    result = await ask(line, "tools/call", name=name, arguments=arguments, **asked)
    if line.modern:
        assert result["resultType"] == "task", result
        return str(result["taskId"])
    return str(result["task"]["taskId"])


async def reach(line: SocketClient, task: str, *statuses: str) -> Json:
    """The task once it has one of those statuses."""
    found: Json = {}

    async def there() -> bool:
        found.clear()
        found.update(await ask(line, "tasks/get", taskId=task))
        return found["status"] in (statuses or OVER)

    await until(there, f"a status of {statuses or OVER}")
    return found


async def known(line: SocketClient, *names: str) -> None:
    """Wait until the hub lists those tools."""

    async def there() -> bool:
        listed = await line.result("tools/list")
        return set(names) <= {tool["name"] for tool in listed["tools"]}

    await until(there, "the tools are listed")


async def connected(here: RunningHub, era: str, *names: str, **more: Any) -> SocketClient:
    version: Any = "2026-07-28" if era == "modern" else "2025-11-25"
    line = await here.connect(version, mode="full", **more)
    if names:
        await known(line, *names)
    return line


# -- tasks of servers -------------------------------------------------------------------------------


@pytest.mark.parametrize("client", ["modern", "legacy"])
@pytest.mark.parametrize("server", ["modern", "legacy"])
async def test_a_task_of_a_server_is_polled_to_its_result(tmp_path: Path, client: str, server: str) -> None:
    servers = {"up": modern(tmp_path) if server == "modern" else legacy(tmp_path)}
    tool = "up__slow_compute" if server == "modern" else "up__job"
    async with running_hub(tmp_path / "home", servers) as here:
        line = await connected(here, client, tool)
        task = await begin(line, tool, label="it")
        found = await reach(line, task)
        assert found["status"] == "completed"
        if client == "modern":
            result = found["result"]
            assert found["resultType"] == result["resultType"] == "complete"
            assert "io.modelcontextprotocol/related-task" not in result.get("_meta", {})
        else:
            result = await line.result("tasks/result", {"taskId": task})
            assert result["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task}
        assert "it" in text(result)


@pytest.mark.parametrize("client", ["modern", "legacy"])
@pytest.mark.parametrize("server", ["modern", "legacy"])
async def test_a_cancelled_task_is_cancelled_at_its_server(tmp_path: Path, client: str, server: str) -> None:
    servers = {"up": modern(tmp_path) if server == "modern" else legacy(tmp_path)}
    tool = "up__told" if server == "modern" else "up__job"
    marks = tmp_path / ("marks" if server == "modern" else "asked")
    async with running_hub(tmp_path / "home", servers) as here:
        line = await connected(here, client, tool)
        task = await begin(line, tool, until=str(tmp_path / "never"))
        told = await ask(line, "tasks/cancel", taskId=task)
        if client == "legacy":
            assert told["status"] == "cancelled"
            assert await refused(line, "tasks/cancel", taskId=task) == -32602
        else:
            assert told == {"resultType": "complete"}
        assert (await reach(line, task))["status"] == "cancelled"
        await until(lambda: "cancel" in marks.read_text(), "the server was told")


async def test_a_client_without_tasks_gets_the_result_of_a_task_and_its_progress(tmp_path: Path) -> None:
    servers = {"new": modern(tmp_path), "old": legacy(tmp_path)}
    async with running_hub(tmp_path / "home", servers) as here:
        for era in ("modern", "legacy"):
            line = await connected(here, era, "new__told", "old__must")
            go = tmp_path / f"go-{era}"
            call = {"name": "new__told", "arguments": {"until": str(go), "text": era}}
            answer = line.begin("tools/call", {**call, "_meta": {"progressToken": "p"}})
            note = await line.noticed("notifications/progress")
            assert note["params"]["progressToken"] == "p"
            go.touch()
            assert text((await answer)["result"]) == f"done, {era}"
            assert '"x": 1' in text(await line.call("old__must", x=1))
            assert '"x": 2' in text(await line.call("old__surprise", x=2))
            assert '"x": 3' in text(await line.through("old__must", x=3))


async def test_a_client_that_gives_up_cancels_the_task_that_it_waits_for(tmp_path: Path) -> None:
    async with running_hub(tmp_path / "home", {"up": modern(tmp_path)}) as here:
        line = await connected(here, "legacy", "up__told")
        waiting = line.begin("tools/call", {"name": "up__told", "arguments": {"until": "/never"}})
        marks = tmp_path / "marks"
        await until(lambda: marks.exists() and "get" in marks.read_text(), "the hub polls")
        line.notify("notifications/cancelled", {"requestId": line.last})
        await until(lambda: "cancel" in marks.read_text(), "the task was cancelled")
        assert not waiting.done()


async def test_without_waiting_the_servers_refusal_passes(tmp_path: Path) -> None:
    async with running_hub(tmp_path / "home", {"up": modern(tmp_path)}, task_waiting=False) as here:
        line = await connected(here, "modern", "up__told")
        response = await line.request("tools/call", {"name": "up__told", "arguments": {}})
        assert response["error"]["code"] == -32021
        assert TASKS in response["error"]["data"]["requiredCapabilities"]["extensions"]


# -- whose task it is -------------------------------------------------------------------------------


async def test_a_task_outlives_its_connection_and_is_found_from_another(tmp_path: Path) -> None:
    async with running_hub(tmp_path / "home", {"up": modern(tmp_path)}) as here:
        line = await connected(here, "modern", "up__told")
        go = tmp_path / "go"
        task = await begin(line, "up__told", until=str(go))
        await line.close()
        other = await connected(here, "modern")
        assert (await ask(other, "tasks/get", taskId=task))["status"] == "working"
        go.touch()
        assert (await reach(other, task))["status"] == "completed"


async def test_ids_are_the_hubs_own_and_those_of_servers_are_unknown(tmp_path: Path) -> None:
    async with running_hub(tmp_path / "home", {"up": legacy(tmp_path)}) as here:
        line = await connected(here, "modern", "up__job")
        task = await begin(line, "up__job")
        other = await begin(line, "up__job")
        assert task != other
        assert "remote" not in task
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            assert await refused(line, method, taskId="remote-1", inputResponses={}) == -32602
            assert await refused(line, method, taskId=task[:-1], inputResponses={}) == -32602


async def test_a_client_that_does_not_announce_tasks_cannot_ask_for_them(tmp_path: Path) -> None:
    async with running_hub(tmp_path / "home", {"up": legacy(tmp_path)}) as here:
        line = await connected(here, "modern", "up__job")
        task = await begin(line, "up__job")
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            response = await line.request(method, {"taskId": task, "inputResponses": {}})
            assert response["error"]["code"] == -32021
        listening = {"notifications": {"taskIds": [task]}}
        assert (await line.request("subscriptions/listen", listening))["error"]["code"] == -32021
        for method in ("tasks/list", "tasks/result"):
            assert await refused(line, method, taskId=task) == -32601
        older = await here.connect("2025-06-18")
        assert await refused(older, "tasks/get", taskId=task) == -32601


async def test_tasks_that_the_settings_do_not_allow_are_neither_announced_nor_served(tmp_path: Path) -> None:
    async with running_hub(tmp_path / "home", {"up": legacy(tmp_path)}, extensions=("ui",)) as here:
        line = await connected(here, "modern", "up__job")
        found = await ask(line, "server/discover")
        assert TASKS not in found["capabilities"].get("extensions", {})
        assert "at once" in text(await ask(line, "tools/call", name="up__job", arguments={}))
        assert await refused(line, "tasks/get", taskId="x") == -32601


# -- questions --------------------------------------------------------------------------------------


async def test_a_question_of_a_task_is_answered_with_an_update(tmp_path: Path) -> None:
    servers = {"new": modern(tmp_path), "old": legacy(tmp_path)}
    async with running_hub(tmp_path / "home", servers) as here:
        line = await connected(here, "modern", "new__confirm_delete", "old__asks")
        for tool, field in (("new__confirm_delete", "confirm"), ("old__asks", "name")):
            task = await begin(line, tool, filename="a")
            found = await reach(line, task, "input_required")
            ((key, request),) = found["inputRequests"].items()
            assert request["method"] == "elicitation/create"
            assert field in request["params"]["requestedSchema"]["properties"]
            answer = {key: {"action": "accept", "content": {field: "yes"}}, "unknown": {"action": "accept"}}
            told = await ask(line, "tasks/update", taskId=task, inputResponses=answer)
            assert told == {"resultType": "complete"}
            found = await reach(line, task)
            assert "yes" in text(found["result"])


async def test_a_client_of_the_handshake_era_is_asked_while_it_waits_for_the_result(tmp_path: Path) -> None:
    servers = {"new": modern(tmp_path), "old": legacy(tmp_path)}
    async with running_hub(tmp_path / "home", servers) as here:
        able: Json = {"elicitation": {"form": {}}}
        line = await connected(here, "legacy", "new__confirm_delete", "old__asks", capabilities=able)
        line.answer = lambda question: {"result": {"action": "accept", "content": {"name": "Ada"}}}
        for number, tool in enumerate(("new__confirm_delete", "old__asks"), 1):
            task = await begin(line, tool, filename="a")
            result = await line.result("tasks/result", {"taskId": task})
            assert "Ada" in text(result)
            question = line.questions[number - 1]
            meta = question["params"]["_meta"]
            assert meta["io.modelcontextprotocol/related-task"] == {"taskId": task}


async def test_a_question_reaches_a_client_without_tasks_in_the_way_of_its_era(tmp_path: Path) -> None:
    async with running_hub(tmp_path / "home", {"up": modern(tmp_path)}) as here:
        able: Json = {"elicitation": {"form": {}}}
        line = await connected(here, "legacy", "up__confirm_delete", capabilities=able)
        line.answer = lambda question: {"result": {"action": "accept", "content": {"confirm": True}}}
        assert "true" in text(await line.call("up__confirm_delete", filename="a"))
        other = await connected(here, "modern")
        asking = {"_meta": {"io.modelcontextprotocol/clientCapabilities": able}}
        call = {"name": "up__confirm_delete", "arguments": {"filename": "b"}, **asking}
        result = await other.result("tools/call", call)
        assert result["resultType"] == "input_required"
        (key,) = result["inputRequests"]
        answers = {key: {"action": "decline"}}
        again = {**call, "inputResponses": answers, "requestState": result["requestState"]}
        assert "decline" in text(await other.result("tools/call", again))


# -- status -----------------------------------------------------------------------------------------


async def test_clients_are_told_of_the_status_of_tasks(tmp_path: Path) -> None:
    async with running_hub(tmp_path / "home", {"up": modern(tmp_path)}) as here:
        line = await connected(here, "modern", "up__told")
        go = tmp_path / "go"
        task = await begin(line, "up__told", until=str(go))
        wanted = {"notifications": {"taskIds": [task, "unknown"]}}
        line.begin("subscriptions/listen", {**wanted, **WITH_TASKS}, request_id="l")
        note = await line.noticed("notifications/subscriptions/acknowledged")
        assert note["params"]["notifications"] == {"taskIds": [task]}
        note = await line.noticed("notifications/tasks")
        assert note["params"]["statusMessage"].startswith("step")
        assert note["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "l"
        go.touch()

        def told() -> list[Json]:
            notes = [one["params"] for one in line.notifications if one["method"] == "notifications/tasks"]
            return [params for params in notes if params["status"] == "completed"]

        await until(told, "the end is told")
        assert "done" in text(told()[0]["result"])
        old = await connected(here, "legacy")
        go.unlink()
        other = await begin(old, "up__told", until=str(go))
        go.touch()

        def ended() -> bool:
            notes = [one for one in old.notifications if one["method"] == "notifications/tasks/status"]
            return any(
                one["params"]["taskId"] == other and one["params"]["status"] == "completed" for one in notes
            )

        await until(ended, "the end is told")


async def test_hostile_reports_are_cut_and_a_wrong_task_is_given_up(tmp_path: Path) -> None:
    async with running_hub(tmp_path / "home", {"up": legacy(tmp_path)}) as here:
        line = await connected(here, "modern", "up__hostile")
        task = await begin(line, "up__hostile", until="never")
        found = await ask(line, "tasks/get", taskId=task)
        assert len(found["statusMessage"]) <= 1000
        assert found["pollIntervalMs"] == 1000
        assert found["ttlMs"] is None
        stranger = await begin(line, "up__stranger")
        found = await reach(line, stranger)
        assert found["status"] == "failed"
        assert "readable" in found["error"]["message"]


# -- tasks of the hub -------------------------------------------------------------------------------


@pytest.mark.parametrize("through", [False, True])
async def test_a_slow_call_becomes_a_task_of_the_hub(tmp_path: Path, through: bool) -> None:
    async with running_hub(tmp_path / "home", {"up": modern(tmp_path)}, task_after=0.2) as here:
        line = await connected(here, "modern", "up__nap")
        go = tmp_path / "go"
        arguments = {"seconds": 0, "until": str(go)}
        if through:
            task = await begin(line, "call_tool", name="up__nap", arguments=arguments)
        else:
            task = await begin(line, "up__nap", **arguments)
        found = await ask(line, "tasks/get", taskId=task)
        assert found["status"] == "working"
        assert found["ttlMs"] == 3_600_000
        await line.close()
        other = await connected(here, "modern")
        go.touch()
        found = await reach(other, task)
        assert text(found["result"]) == "slept"
        plain = await connected(here, "modern")
        assert text(await plain.call("up__nap", seconds=0.5)) == "slept"


async def test_a_call_that_is_fast_enough_is_answered_at_once(tmp_path: Path) -> None:
    async with running_hub(tmp_path / "home", {"up": modern(tmp_path)}) as here:
        line = await connected(here, "modern", "up__greet")
        result = await ask(line, "tools/call", name="up__greet", arguments={"name": "you"})
        assert text(result) == "Hello, you!"
        assert result["resultType"] == "complete"


async def test_a_task_of_the_hub_has_more_time_than_the_timeout_and_shows_progress(tmp_path: Path) -> None:
    up = child(timeout=3)
    async with running_hub(tmp_path / "home", {"up": up}, task_after=0.1) as here:
        line = await connected(here, "modern", "up__hang")
        task = await begin(line, "up__hang")
        pass_time(60)
        instance = here.hub.gateway.instance("up")
        assert instance.in_flight == 1
        call = next(iter(here.hub.tools.tasks.tasks)).instance
        assert call is instance
        await asyncio.sleep(0)
        told = await ask(line, "tasks/cancel", taskId=task)
        assert told == {"resultType": "complete"}
        assert (await reach(line, task))["status"] == "cancelled"
        await until(lambda: instance.in_flight == 0, "the call is cancelled at its server")
        assert instance.held == 0


async def test_a_client_of_the_handshake_era_gets_a_task_of_any_tool_if_it_asks(tmp_path: Path) -> None:
    servers = {"up": child(), "old": legacy(tmp_path)}
    async with running_hub(tmp_path / "home", servers) as here:
        line = await connected(here, "legacy", "up__echo", "old__plain")
        for tool, answer in (("up__echo", "it"), ("old__plain", "plain at once")):
            task = await begin(line, tool, text="it")
            result = await line.result("tasks/result", {"taskId": task})
            assert answer in text(result)
            listed = await line.result("tasks/list")
            assert task in [one["taskId"] for one in listed["tasks"]]
        failing = await begin(line, "old__job", fail=True)
        assert (await reach(line, failing))["status"] == "failed"
        assert (await line.result("tasks/result", {"taskId": failing}))["isError"] is True


async def test_a_question_during_a_task_of_the_hub_is_its_input(tmp_path: Path) -> None:
    async with running_hub(tmp_path / "home", {"up": child()}, task_after=0.1) as here:
        line = await connected(here, "modern", "up__hang")
        task = await begin(line, "up__hang")
        found = next(iter(here.hub.tools.tasks.tasks))
        from msgspec import Raw

        from tabane.upstreams.call import ServerRequest, UpstreamReply

        answers: list[UpstreamReply] = []
        found.put(
            ServerRequest(
                "elicitation/create", Raw(b'{"message":"Who?"}'), lambda _, reply: answers.append(reply)
            )
        )
        asked = await reach(line, task, "input_required")
        ((key, request),) = asked["inputRequests"].items()
        assert request["params"] == {"message": "Who?"}
        responses = {key: {"action": "accept"}}
        await ask(line, "tasks/update", taskId=task, inputResponses=responses)
        assert json.loads(bytes(answers[0].result or b"")) == {"action": "accept"}
        assert (await ask(line, "tasks/get", taskId=task))["status"] == "working"


@pytest.mark.heavy("hubs and servers as processes")
async def test_a_task_that_never_ends_fails_at_its_time_to_live(tmp_path: Path) -> None:
    async with running_hub(tmp_path / "home", {"up": child(), "new": modern(tmp_path)}) as here:
        line = await connected(here, "legacy", "up__hang", "new__told")
        hanging = await line.result("tools/call", {"name": "up__hang", "arguments": {}, "task": {"ttl": 1}})
        found = await reach(line, hanging["task"]["taskId"])
        assert found["status"] == "failed"
        assert "time to live" in found["statusMessage"]
        other = await connected(here, "modern")
        task = await begin(other, "new__told", until="/never", ttl=1)
        found = await reach(other, task)
        assert found["status"] == "failed"
        marks = tmp_path / "marks"
        await until(lambda: "cancel" in marks.read_text(), "the server was told")
