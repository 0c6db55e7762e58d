"""Scripts of a hub that wait for a person, and their audit entries."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec

from tabane.hub.work import paused_scripts
from tabane.operations import Caller, Face
from tests.harness.patience import until
from tests.harness.running_hub import Json, RunningHub, SocketClient, child, connected_hub, running_hub, text
from tests.hub.clients.questions.asking import ACCEPTED, FORM_STEP, able, answers_to, asking
from tests.hub.people.approvals.confirmed import FORMS, person, waiting

UP = "import asyncio\nfrom tools import up\n"
TWICE = UP + "print('begun')\n[(await up.echo(n=0))['n'], await up.count(n=1), await up.count(n=2)]"
PROGRAM = Caller("local", Face.RPC, "program")
YES: Json = {"action": "accept", "content": {}}


def scripted(code: str, **capabilities: Any) -> Json:
    """The parameters of a modern request whose client can be asked."""
    return {"name": "run_script", "arguments": {"code": code}, "_meta": able(**(capabilities or FORMS))}


async def asked(line: SocketClient, call: Json) -> Json:
    """The result of a request, which asks about a call of its script."""
    found = await line.result("tools/call", call)
    assert found.get("resultType") == "input_required", found
    return found


async def entries(here: RunningHub, **wanted: Any) -> list[Json]:
    """Entries of the audit log, the oldest first."""
    found = await here.hub.door.invoke(PROGRAM, "query_audit_logs", msgspec.json.encode(wanted))
    written: Json = json.loads(msgspec.json.encode(found))
    return sorted(written["results"], key=lambda entry: int(entry["seq"]))


def kept(folder: Path) -> list[Path]:
    """The snapshots in the home of the hub."""
    return list((folder / paused_scripts.FOLDER).glob("*.snapshot"))


async def test_a_script_goes_on_after_a_restart_of_the_hub_and_makes_no_call_again(tmp_path: Path) -> None:
    code = (
        UP
        + "first = await up.count(n=1)\nprint('first', first)\nsecond = await up.count(n=2)\n[first, second]"
    )
    servers = {"up": child()}
    async with connected_hub(tmp_path, servers, "2026-07-28", list_wait=60) as (_, line):
        call = scripted(code)
        second = await asked(line, call | answers_to(await asked(line, call), YES))
        (path,) = kept(tmp_path)
        assert path.stat().st_mode & 0o777 == 0o600
    async with connected_hub(tmp_path, servers, "2026-07-28", list_wait=60) as (here, line):
        repeat = call | answers_to(second, YES)
        assert text(await line.result("tools/call", repeat)) == 'first 1\n["1","1"]'  # a new server counts
        assert kept(tmp_path) == []
        calls = [entry for entry in await entries(here, tool="up__count") if entry["outcome"] == "ok"]
        assert [entry["arguments"] for entry in calls] == [{"n": 1}, {"n": 2}]
        (script,) = await entries(here, tool="run_script")
        assert (script["outcome"], script["calls"], script["script"]) == ("ok", 2, calls[0]["script"])
        again = await line.result("tools/call", repeat)
        assert "does not wait any more" in text(again)


async def test_a_snapshot_that_was_changed_and_a_forged_state_are_refused(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": child()}, "2026-07-28", list_wait=60) as (here, line):
        call = scripted(TWICE)
        found = await asked(line, call)
        forged = answers_to({**found, "requestState": found["requestState"][:-2] + "AA"}, YES)
        assert "does not wait any more" in text(await line.result("tools/call", call | forged))
        other = scripted(UP + "await up.count(n=9)")
        assert "does not wait any more" in text(
            await line.result("tools/call", other | answers_to(found, YES))
        )
        (path,) = kept(tmp_path)
        whole = path.read_bytes()
        path.write_bytes(whole.replace(b"begun", b"BEGUN"))
        refused = await line.result("tools/call", call | answers_to(found, YES))
        assert "its snapshot was changed" in text(refused)
        assert refused["isError"]
        assert kept(tmp_path) == []
        assert [entry["outcome"] for entry in await entries(here, tool="up__*")] == ["ok", "refused"]


async def test_calls_that_run_together_are_asked_about_one_after_another(tmp_path: Path) -> None:
    code = UP + (
        "async def tried(n):\n    try:\n        return await up.count(n=n)\n"
        "    except PermissionError as error:\n        return str(error)[:8]\n"
        "await asyncio.gather(up.echo(n=0), tried(1), tried(2), tried(3))"
    )
    async with connected_hub(tmp_path, {"up": child()}, "2026-07-28", list_wait=60) as (here, line):
        call = scripted(code)
        found = await asked(line, call)
        for action in ("accept", "decline"):
            found = await asked(line, call | answers_to(found, {"action": action, "content": {}}))
        end = json.loads(text(await line.result("tools/call", call | answers_to(found, YES))))
        assert sorted(end[1:]) == ["1", "2", "A person"]
        made = await entries(here, tool="up__*", result="ok")
        refused = end.index("A person")
        assert {entry["arguments"]["n"] for entry in made} == {0, 1, 2, 3} - {refused}


async def test_nobody_who_cancels_is_asked_again(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": child()}, "2026-07-28", list_wait=60) as (_, line):
        call = scripted(UP + "await up.count()")
        end = await line.result(
            "tools/call", call | answers_to(await asked(line, call), {"action": "cancel"})
        )
        assert "PermissionError" in text(end)
        assert "tabane approve" in text(end)


async def test_a_person_elsewhere_approves_and_the_script_goes_on(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": child()}, approval_wait=600, list_wait=60) as (here, line):
        answer = line.begin("tools/call", {"name": "run_script", "arguments": {"code": TWICE}})
        approvals = await here.hub.guards.desk().approvals()
        seen: set[str] = set()

        def new() -> list[Any]:
            return [one for one in approvals.listed() if one.id not in seen]

        for number in (1, 2):
            await until(new, f"the script asks about its call {number}")
            (one,) = new()
            seen.add(one.id)
            await person(here, "approve_call", id=one.id)
        assert text((await answer)["result"]) == 'begun\n[0,"1","2"]'


async def test_cancelling_a_script_that_waits_withdraws_its_question(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": child()}, approval_wait=600, list_wait=60) as (here, line):
        line.begin("tools/call", {"name": "run_script", "arguments": {"code": TWICE}})
        await waiting(here)
        line.notify("notifications/cancelled", {"requestId": line.last})
        await until(lambda: not here.hub.tools.scripts.running, "the script is stopped")
        await waiting(here, 0)
        (script,) = await entries(here, tool="run_script")
        assert (script["outcome"], script["calls"]) == ("cancelled", 1)


async def test_scripts_that_wait_are_bounded(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"up": child()}, "2026-07-28", list_wait=60) as (_, line):
        for number in range(paused_scripts.MOST):
            await asked(line, scripted(UP + f"await up.count(n={number})"))
        end = await line.result("tools/call", scripted(UP + "await up.count(n=-1)"))
        assert "too many scripts wait" in text(end)


async def test_a_script_that_keeps_too_much_cannot_wait(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, list_wait=60) as here:
        large = UP + "kept = [str(i) * 20 for i in range(90_000)]\nawait up.count()\nlen(kept)"
        modern, legacy = await here.connect("2026-07-28"), await here.connect()
        for end in (
            await modern.result("tools/call", scripted(large)),
            await legacy.call("run_script", code=large),
        ):
            assert "cannot wait for the approval of up.count" in text(end)
            assert "KiB of values" in text(end)


async def test_a_script_has_one_entry_with_its_code_only_if_arguments_are_logged(tmp_path: Path) -> None:
    code = UP + "await up.echo(n=1)\nawait up.echo(n=2)\n1 / 0 # token"
    for mode, shown in (("on", {"arguments": {"code": code, "inputs": {}}}), ("metadata", {})):
        async with connected_hub(tmp_path / mode, {"up": child()}, audit=mode, list_wait=60) as (here, line):
            await line.call("run_script", code=code)
            (entry,) = await entries(here, tool="run_script")
            assert entry["code"] == hashlib.sha256(code.encode()).hexdigest()
            assert (entry["code_size"], entry["calls"]) == (len(code), 2)
            assert (entry["outcome"], entry["reason"]) == ("failed", "ZeroDivisionError")
            assert entry["key"] == "local"
            assert entry["ms"] > 0
            found = {name: entry[name] for name in ("arguments",) if name in entry}
            assert {**found.get("arguments", {}), "timeout": 0} == {
                **shown.get("arguments", {}),
                "timeout": 0,
            }
            of_it = await entries(here, text=entry["script"])
            assert [each["name"] for each in of_it] == ["up__echo", "up__echo", "run_script"]


async def test_a_question_of_a_server_reaches_the_client_of_the_script(tmp_path: Path) -> None:
    code = f"from tools import up\nawait up.ask(steps=[{FORM_STEP!r}])"
    async with connected_hub(
        tmp_path, {"up": asking()}, "2025-11-25", capabilities={"elicitation": {}}, script_writes="allow"
    ) as (here, line):
        answer = line.begin("tools/call", {"name": "run_script", "arguments": {"code": code, "timeout": 0.4}})
        question = await line.questioned()
        assert question["method"] == "elicitation/create"
        line.reply(question, {"result": ACCEPTED})
        assert "花" in text((await answer)["result"])

        plain = await here.connect()
        assert (await plain.call("run_script", code=code))["isError"] is not None
        assert plain.questions == []
