"""Types of results that a hub learns from calls, and shows as hints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from tabane.hub.servers.result_types import TYPE_FILE as FILE
from tabane.operations import Caller, Face
from tabane.operations.caller import LocalAccess
from tests.harness.patience import until
from tests.harness.running_hub import RunningHub, SocketClient, child, running_hub, text

PROGRAM = Caller("local", Face.RPC, "program")
LEARNED = "learned from"


async def described(line: SocketClient, name: str = "up__echo") -> str:
    return text(await line.call("describe_tools", names=[name]))


async def invoked(here: RunningHub, caller: Caller, operation: str, **params: Any) -> Any:
    found = await here.hub.door.invoke(caller, operation, json.dumps(params).encode())
    return json.loads(msgspec.json.encode(found))


async def teach(line: SocketClient, *rows: Any) -> None:
    """Let a tool return these, and wait until its type is known."""
    for row in rows:
        await line.through("up__echo", **row)

    async def is_known() -> bool:
        return LEARNED in await described(line)

    await until(is_known)


ROWS = ({"id": 1, "owner": {"login": "ann"}}, {"id": 2, "owner": {"login": "bob"}, "at": None})


async def test_results_of_calls_and_of_scripts_teach_a_type_that_search_and_description_show(
    tmp_path: Path,
) -> None:
    async with running_hub(tmp_path, {"up": child()}, script_writes="allow") as here:
        line = await here.connect()
        await line.call("up__echo", **ROWS[0])
        script = "from tools import up\nawait up.echo(id=2, owner={'login': 'bob'})"
        await line.call("run_script", code=script)
        await teach(line)
        page = await described(line)
        assert "→ {id: integer, owner: {login: string}} (learned from 2 results; others may differ)" in page

        coder = await here.connect(mode="code")
        found = text(await coder.call("search_tools", query="echo"))
        assert '-> {"id": int, "owner": {"login": str}}' in found
        assert "learned from 2 results" in found

        listed = (await (await here.connect(mode="full")).result("tools/list"))["tools"]
        assert not any("outputSchema" in tool for tool in listed if tool["name"] == "up__echo")


class Keyholder(LocalAccess):
    """Somebody else, who may do everything too."""

    holder = "key:0123"


async def test_what_one_caller_saw_is_not_shown_to_another(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        await teach(await here.connect(), *ROWS)
        other = structs.replace(PROGRAM, access=Keyholder())
        (mine,) = (await invoked(here, PROGRAM, "describe_tools", names=["up__echo"]))["results"]
        (theirs,) = (await invoked(here, other, "describe_tools", names=["up__echo"]))["results"]
        assert mine["learned_result"]["results"] == 2
        assert "outputSchema" not in mine["tool"]
        assert "learned_result" not in theirs


async def test_a_type_outlives_the_hub_until_it_is_forgotten(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        await teach(await here.connect(), *ROWS)
    kept = (tmp_path / FILE).read_text()
    assert '"login"' in kept
    assert "ann" not in kept
    assert '"at"' not in kept
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()
        await teach(line)
        assert await invoked(here, PROGRAM, "forget_result_types", name="another") == {"forgotten": 0}
        assert await invoked(here, PROGRAM, "forget_result_types", name="up.echo") == {"forgotten": 1}
        assert LEARNED not in await described(line)
        assert not (tmp_path / FILE).exists()


async def test_nothing_is_learned_if_the_settings_say_so(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        await teach(await here.connect(), *ROWS)
    async with running_hub(tmp_path, {"up": child()}, learn_result_types=False) as here:
        assert not (tmp_path / FILE).exists()
        line = await here.connect()
        for row in ROWS:
            await line.through("up__echo", **row)
        assert LEARNED not in await described(line)
    assert not (tmp_path / FILE).exists()


async def test_without_an_audit_log_nothing_outlives_the_hub(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, audit="off") as here:
        await teach(await here.connect(), *ROWS)
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("damage", [b"\x00\xff\n", b'{"holder": 5}\n', b"[" * 50_000 + b"\n"])
async def test_a_damaged_file_is_set_aside_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: bytes
) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        await teach(await here.connect(), *ROWS)
    path = tmp_path / FILE
    path.write_bytes(damage + path.read_bytes())
    async with running_hub(tmp_path, {"up": child()}) as here:
        await teach(await here.connect())  # what is readable of it is still known
    assert "set aside" in caplog.text
    assert (tmp_path / f"{FILE}.broken").read_bytes().startswith(damage)


async def test_a_line_that_a_crash_has_cut_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        await teach(await here.connect(), *ROWS)
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes() + b'{"holder":"lo')
    async with running_hub(tmp_path, {"up": child()}) as here:
        await teach(await here.connect())
    assert "set aside" not in caplog.text


async def test_tools_of_the_hub_itself_are_learned_of(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}) as here:
        line = await here.connect()
        for name in ("a", "b"):
            await line.through("put_document", filepath=f"notes/{name}", text=f"The text of {name}.")

        async def is_known() -> bool:
            return "details: {count: integer" in await described(line, "put_document")

        await until(is_known)
        assert LEARNED not in await described(line, "search_documents")


async def test_failures_and_large_results_do_not_disturb(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()
        rows = [{"name": f"row {number}", "size": number} for number in range(3_000)]
        await teach(line, {"rows": rows}, {"rows": rows[:1_000]})
        assert "rows: {…}[]" in await described(line) or "name: string" in await described(line)
