"""Mode code: scripts over the tools of servers, through a hub."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tabane.errors import TabaneError
from tabane.operations import Caller, Face
from tests.harness.labeled_servers import replayed
from tests.harness.patience import until
from tests.harness.running_hub import Json, RunningHub, SocketClient, child, running_hub, text
from tests.hub.clients.questions.asking import able, answers_to
from tests.hub.people.approvals.confirmed import FORMS

ECHO = "from tools import up\n"
COUNT = ECHO + "await up.count()"
PROGRAM = Caller("local", Face.RPC, "program")


async def scripted(line: SocketClient, code: str, **more: Any) -> Json:
    """The result of run_script."""
    return await line.call("run_script", code=code, **more)


async def audited(here: RunningHub) -> list[Json]:
    """What the audit log has of calls of the server, the oldest first."""
    found = await here.hub.door.invoke(PROGRAM, "query_audit_logs", b'{"tool": "up__*"}')
    written: Json = json.loads(msgspec.json.encode(found))
    return sorted(written["results"], key=lambda entry: entry["time"])


async def test_the_list_of_mode_code_has_three_tools(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child(pin=["echo"])}) as here:
        for version in ("2025-06-18", "2026-07-28"):
            line = await here.connect(version, mode="code")
            tools = (await line.result("tools/list"))["tools"]
            assert [tool["name"] for tool in tools] == ["search_tools", "run_script", "read_more"]


async def test_a_search_answers_with_typed_functions_that_a_script_calls(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, script_writes="allow") as here:
        line = await here.connect(mode="code")
        found = text(await line.call("search_tools", query="echo"))
        assert "from tools import up" in found
        assert "async def echo(" in found
        result = await scripted(
            line,
            ECHO + "import asyncio\nfound = await asyncio.gather(*[up.echo(n=i) for i in range(3)])\n"
            "print(len(found), prefix)\n[each['n'] for each in found]",
            inputs={"prefix": "echoes"},
        )
        assert not result.get("isError"), result
        assert text(result) == "3 echoes\n[0,1,2]"


async def test_a_search_for_everything_shows_functions_and_what_else_servers_offer(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child("--offers")}) as here:
        line = await here.connect(mode="code")
        found = text(await line.call("search_tools", query="echo greeting memo", kind="all"))
        assert "async def echo(" in found
        assert re.search(r"^(prompt|resource|template) up", found, re.MULTILINE), found


async def test_inner_calls_are_recorded_with_the_script(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, script_writes="allow") as here:
        line = await here.connect()
        await scripted(line, ECHO + "await up.echo(n=1)\nawait up.echo(n=2)")
        await line.through("up__echo", n=3)
        first, second, direct = await audited(here)
        assert first["script"] == second["script"] != ""
        assert "script" not in direct
        assert {first["outcome"], second["outcome"]} == {"ok"}


async def test_a_call_that_changes_something_is_asked_about_or_refused(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, approval_wait=0) as here:
        line = await here.connect()
        result = await scripted(line, COUNT)
        assert result["isError"]
        assert "PermissionError" in text(result)
        assert "a person has to approve" in text(result)

        asking = await here.connect("2025-06-18", capabilities={"elicitation": {}})
        asking.answer = lambda question: {"result": {"action": "accept", "content": {}}}
        assert text(await scripted(asking, COUNT)) == "1"
        assert len(asking.questions) == 1
        asking.answer = lambda question: {"result": {"action": "decline"}}
        assert "PermissionError" in text(await scripted(asking, COUNT.replace("()", "(n=2)")))


async def test_a_modern_client_is_asked_and_the_script_goes_on(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, approval_wait=0) as here:
        line = await here.connect("2026-07-28")
        code = ECHO + "first = await up.count()\nsecond = await up.count()\n[first, second]"
        call: Json = {"name": "run_script", "arguments": {"code": code}, "_meta": able(**FORMS)}
        asked = await line.result("tools/call", call)
        repeats = []
        for _ in range(2):
            assert "up__count" in asked["inputRequests"]["approval"]["params"]["message"]
            repeats.append(call | answers_to(asked, {"action": "accept", "content": {}}))
            asked = await line.result("tools/call", repeats[-1])
        assert text(asked) == '["1","2"]'
        again = await line.result("tools/call", repeats[-1])
        assert "does not wait any more" in text(again)
        assert not here.hub.tools.scripts.running


async def test_script_writes_can_refuse(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, script_writes="refuse") as here:
        line = await here.connect(capabilities={"elicitation": {}})
        result = await scripted(line, COUNT)
        assert "up__count was not called (script)" in text(result)
        assert line.questions == []


async def test_tools_that_are_marked_read_only_are_called_without_asking(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, script_writes="refuse") as here:
        line = await here.connect()
        own = await scripted(line, "from tools import list_documents\nawait list_documents()")
        assert not own["isError"], own
        assert text(await scripted(line, ECHO + "(await up.echo(n=1))['n']")) == "1"


async def test_a_script_that_may_only_read_changes_nothing(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, script_writes="allow") as here:
        line = await here.connect()

        async def reading(code: str) -> Json:
            return await line.call("call_readonly_tool", name="run_script", arguments={"code": code})

        assert text(await reading(ECHO + "(await up.echo(n=1))['n']")) == "1"
        assert "not marked read-only" in text(await reading(COUNT))
        put = "from tools import put_document\nawait put_document('note', 'text')"
        assert (await reading(put))["isError"]
        assert text(await scripted(line, COUNT)) == "1"


async def test_progress_is_told_for_each_call(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, script_writes="allow") as here:
        line = await here.connect()
        await line.result(
            "tools/call",
            {
                "name": "run_script",
                "arguments": {"code": ECHO + "for i in range(3):\n    await up.echo(n=i)"},
                "_meta": {"progressToken": "p"},
            },
        )
        told = [each["params"] for each in line.notifications if each["method"] == "notifications/progress"]
        assert [(each["progress"], each["message"]) for each in told] == [
            (1, "up__echo"),
            (2, "up__echo"),
            (3, "up__echo"),
        ]


async def test_cancelling_stops_the_script_and_its_call(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, script_writes="allow") as here:
        line = await here.connect()
        line.begin("tools/call", {"name": "run_script", "arguments": {"code": ECHO + "await up.hang()"}})
        await until(lambda: here.hub.tools.scripts.running, "the script runs")
        line.notify("notifications/cancelled", {"requestId": line.last})
        await until(lambda: not here.hub.tools.scripts.running, "the script is stopped")
        assert text(await scripted(line, "6 * 7")) == "42"


async def test_a_client_that_disconnects_stops_its_script(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, script_writes="allow") as here:
        line = await here.connect()
        line.begin("tools/call", {"name": "run_script", "arguments": {"code": ECHO + "await up.hang()"}})
        await until(lambda: here.hub.tools.scripts.running, "the script runs")
        await line.close()
        await until(lambda: not here.hub.tools.scripts.running, "the script is stopped")


async def test_a_large_result_is_read_in_parts(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}, result_tokens=1_000) as here:
        line = await here.connect(mode="code")
        result = await scripted(line, "'\\n'.join(str(i) for i in range(3000))")
        assert "read_more" in text(result)
        handle = text(result).rsplit('"handle": "', 1)[1].split('"')[0]
        more = await line.call("read_more", handle=handle)
        assert not more.get("isError")


async def test_a_script_finds_only_what_its_caller_may_call(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child(deny=["echo"])}, script_writes="allow") as here:
        line = await here.connect()
        result = await scripted(line, ECHO + "await up.echo(n=1)")
        assert "AttributeError" in text(result)
        assert "up has: " in text(result)
        assert result["isError"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("echo", {"n": 1}),
        ("fail", {"text": "told"}),
        ("refuse", {"code": -31000}),
        ("wait", {"seconds": "soon"}),
    ],
)
async def test_a_call_ends_alike_in_a_script_and_directly(tmp_path: Path, name: str, arguments: Json) -> None:
    async with running_hub(tmp_path, {"up": child()}, script_writes="allow") as here:
        line = await here.connect()
        body = json.dumps({"name": f"up__{name}", "arguments": arguments}).encode()
        with contextlib.suppress(TabaneError):
            await here.hub.door.invoke(PROGRAM, "call_tool", body)
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        await scripted(line, f"{ECHO}await up.{name}({given})")
        direct, inner = await audited(here)
        own = {"seq", "time", "mac", "ms", "script", "session", "client", "face", "request", "id"}
        assert {key: direct[key] for key in direct.keys() - own} == {
            key: inner[key] for key in inner.keys() - own
        }
        assert "script" in inner


async def test_a_key_without_permission_is_refused_alike(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child(allow=["echo"])}, script_writes="allow") as here:
        line = await here.connect()
        found = text(await line.call("search_tools", query="count"))
        assert "count" not in found.partition(":")[2]
        assert "up has: echo" in text(await scripted(line, COUNT))


async def test_what_a_script_has_read_holds_for_its_later_calls(tmp_path: Path) -> None:
    tmp_path.joinpath("servers").mkdir()
    servers = {name: replayed(tmp_path / "servers", name) for name in ("mail", "files")}
    async with running_hub(tmp_path, servers, script_writes="allow", approval_wait=0) as here:
        line = await here.connect()
        delete = "await files.delete_file(path='x')"  # which a mail names
        other = "from tools import files\nawait files.delete_file(path='a')"
        assert not (await scripted(line, other))["isError"]
        refused = await scripted(line, f"from tools import mail, files\nawait mail.read_inbox()\n{delete}")
        assert "PermissionError" in text(refused)
        assert "a person has to approve" in text(refused)
