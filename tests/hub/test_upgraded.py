"""A hub that misses modules since Tabane was upgraded while it ran says that it needs a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tabane.build import COMMIT_FILE, commit_of, was_replaced
from tabane.errors import upgraded
from tabane.hub.rpc.dispatcher import Dispatcher
from tabane.operations import Caller, Door, Face, Operation, OperationTable, Privilege
from tabane.wire import rpc
from tests.harness.running_hub import connected_hub

UPGRADED = "Tabane was upgraded while this hub ran. To go on, run: tabane restart"
INTERNAL = "internal error; see the hub's log: tabane logs"


class Nothing(Struct, frozen=True):
    pass


def vanished(name: str = "tabane.later") -> ImportError:
    return ModuleNotFoundError(f"No module named {name!r}", name=name)


async def answer_after(error: Exception) -> Any:
    """The answer to a request whose operation raises that."""

    async def fail(caller: Caller, params: Nothing) -> None:
        raise error

    table = OperationTable(
        [Operation("late", "", Nothing, fail, frozenset({Face.RPC}), Privilege.READ, public=True)]
    )
    lines: list[bytes] = []

    async def send(line: bytes) -> None:
        lines.append(line)

    dispatcher = Dispatcher(Door(table), Caller("local", Face.RPC, "1"))
    await dispatcher.answer(rpc.read(b'{"jsonrpc":"2.0","id":1,"method":"late"}'), send)
    (line,) = lines
    return json.loads(line)["error"]


@pytest.mark.parametrize(
    "error", [vanished(), vanished("tabane"), ImportError("cannot import name 'x'", name="tabane.wire.json")]
)
async def test_a_module_of_ours_that_is_gone_asks_for_a_restart(error: Exception) -> None:
    answer = await answer_after(error)
    assert (answer["message"], answer["data"]) == (UPGRADED, {"reason": "hub"})
    found = upgraded(error)
    assert found is not None
    assert "tabane restart" in found.message.render("ja")


@pytest.mark.parametrize(
    "error", [vanished("numpy"), vanished("tabaneous"), ImportError("?"), ZeroDivisionError("tabane.later")]
)
async def test_any_other_failure_is_an_internal_error(error: Exception) -> None:
    assert (await answer_after(error))["message"] == INTERNAL
    assert upgraded(error) is None
    assert not was_replaced()


def test_a_package_is_known_by_the_commit_in_it(tmp_path: Path) -> None:
    (tmp_path / COMMIT_FILE).write_text("a" * 40)
    assert commit_of(str(tmp_path)) == "a" * 40
    (tmp_path / COMMIT_FILE).unlink()
    assert commit_of(str(tmp_path)) == "", "a package that is gone is another one"


async def test_a_request_whose_handler_cannot_be_imported_is_answered(tmp_path: Path) -> None:
    """Most handlers of clients run in the callback that read the line, before there is a task."""

    async def late(*_: object) -> None:
        raise vanished()

    async with connected_hub(tmp_path, {}) as (here, line):
        (session,) = here.hub.sessions
        session._handlers = {**session._handlers, "ping": late}
        error = (await line.request("ping"))["error"]
        assert (error["message"], error["data"]) == (UPGRADED, {"reason": "hub"})
