"""The door and its guard: calls that are judged, refused, and approved by a person."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field

import pytest

from tabane.errors import Forbidden, LoginRequired, TabaneError, UpstreamDied
from tabane.messages import say
from tabane.operations import Caller, CallTarget, Door, Face, NoMeter, OpenCall, OperationTable, ended
from tabane.operations.caller import LocalAccess
from tabane.operations.door import CallVerdict
from tabane.operations.metering import failure_reason
from tests.operations.test_door import HERE, Works

TOOL = CallTarget("files__delete", "files")


class Switched(LocalAccess):
    """Access that can be taken away."""

    on = True

    def allows(self, target: CallTarget) -> bool:
        return self.on


class Paper:
    """An approval that a test decides about."""

    verdicts = (CallVerdict("ask", "confirm", say("each call is confirmed")),)

    def __init__(self) -> None:
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.given_back = 0

    def decided(self) -> Awaitable[str]:
        return self.answer

    def give_back(self) -> None:
        self.given_back += 1


@dataclass
class Guard:
    """Asks about every call of a tool or of the operation ``call``, or refuses all."""

    papers: list[Paper] = field(default_factory=list)
    judged: list[tuple[str, bytes, str]] = field(default_factory=list)
    gave: list[str] = field(default_factory=list)
    refuses: bool = False

    def judge(self, caller: Caller, target: CallTarget, arguments: bytes, request: str) -> Paper | None:
        self.judged.append((target.name, arguments, request))
        if self.refuses:
            raise Forbidden(say("not with me"))
        if target.kind != "tool" and target.name not in ("call", "stream"):
            return None
        self.papers.append(Paper())
        return self.papers[-1]

    def answered(
        self, caller: Caller, target: CallTarget, arguments: bytes = b"", result: object = b""
    ) -> None:
        self.gave.append(target.name)


class Meter(NoMeter):
    """Notes what begins and what is refused."""

    def __init__(self) -> None:
        self.begun: list[Caller] = []
        self.refused: list[str] = []

    def begin(self, caller: Caller, target: CallTarget, arguments: bytes, request: str) -> OpenCall:
        self.begun.append(caller)
        return super().begin(caller, target, arguments, request)

    def refuse(
        self, caller: Caller, target: CallTarget, arguments: bytes, request: str, error: object
    ) -> None:
        self.refused.append(str(error))


def door(guard: Guard, meter: Meter) -> Door:
    return Door(OperationTable([*(one for one in Works().table() if one.kind != "job")]), None, meter, guard)


async def sent(opened: OpenCall) -> str:
    async with ended(opened):
        if opened.waits is not None:
            await opened.waits
    return "sent"


async def test_a_call_that_has_to_be_approved_begins_with_the_approval() -> None:
    guard, meter = Guard(), Meter()
    call = asyncio.ensure_future(sent(door(guard, meter).admit(HERE, TOOL, b'{"a":1}', "7")))
    await asyncio.sleep(0)
    assert (meter.begun, guard.judged) == ([], [("files__delete", b'{"a":1}', "7")])
    guard.papers[0].answer.set_result("ab12 approved by local (page)")
    assert await call == "sent"
    assert [caller.approval for caller in meter.begun] == ["ab12 approved by local (page)"]


def test_a_call_that_the_guard_refuses_is_recorded_and_never_begins() -> None:
    guard, meter = Guard(refuses=True), Meter()
    with pytest.raises(Forbidden, match="not with me"):
        door(guard, meter).admit(HERE, TOOL)
    assert (meter.begun, meter.refused) == ([], ["not with me"])


async def test_a_call_that_a_person_refuses_is_recorded_and_never_begins() -> None:
    guard, meter = Guard(), Meter()
    call = asyncio.ensure_future(sent(door(guard, meter).admit(HERE, TOOL)))
    await asyncio.sleep(0)
    guard.papers[0].answer.set_exception(Forbidden(say("a person said no")))
    with pytest.raises(Forbidden, match="a person said no"):
        await call
    assert (meter.begun, meter.refused) == ([], ["a person said no"])


async def test_the_permission_is_checked_again_after_the_approval() -> None:
    guard, meter, access = Guard(), Meter(), Switched()
    caller = Caller("key", Face.MCP, "3", access=access)
    call = asyncio.ensure_future(sent(door(guard, meter).admit(caller, TOOL)))
    await asyncio.sleep(0)
    access.on = False
    guard.papers[0].answer.set_result("approved")
    with pytest.raises(Forbidden, match="not allowed to use files__delete"):
        await call
    assert (meter.begun, len(meter.refused)) == ([], 1)


@pytest.mark.parametrize("error", [LoginRequired(say("log in"), "files"), UpstreamDied(say("it died"))])
async def test_an_approval_is_given_back_once_if_the_server_wants_a_login_first(error: TabaneError) -> None:
    guard = Guard()
    opened = door(guard, Meter()).admit(HERE, TOOL)
    guard.papers[0].answer.set_result("approved")
    assert opened.waits is not None
    await opened.waits
    for _ in range(2):
        opened.end("failed", reason=failure_reason(error))
    assert guard.papers[0].given_back == int(isinstance(error, LoginRequired))


def test_the_guard_is_not_asked_about_a_call_that_the_caller_may_not_make() -> None:
    guard, meter, access = Guard(), Meter(), Switched()
    access.on = False
    with pytest.raises(Forbidden):
        door(guard, meter).admit(Caller("key", Face.MCP, "3", access=access), TOOL)
    assert guard.judged == []


async def test_a_caller_that_gives_up_leaves_nothing_behind() -> None:
    guard, meter = Guard(), Meter()
    call = asyncio.ensure_future(sent(door(guard, meter).admit(HERE, TOOL)))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait([call])
    assert guard.papers[0].answer.cancelled()
    assert (meter.begun, meter.refused) == ([], [])


async def test_an_operation_waits_for_its_approval_too() -> None:
    guard, meter = Guard(), Meter()
    call = asyncio.ensure_future(door(guard, meter).invoke(HERE, "call", b'{"to": 5}'))
    await asyncio.sleep(0)
    assert (call.done(), meter.begun) == (False, [])
    guard.papers[0].answer.set_result("approved")
    assert await call == 5


async def test_a_stream_waits_and_its_first_part_is_an_answer() -> None:
    guard, meter = Guard(), Meter()
    parts = door(guard, meter).stream(HERE, "stream", b"{}")
    first = asyncio.ensure_future(anext(parts))
    await asyncio.sleep(0)
    assert meter.begun == []
    guard.papers[0].answer.set_result("approved")
    assert (await first).more
    assert guard.gave == ["stream"]
    await parts.aclose()


def test_another_table_behind_the_door_has_the_same_guard() -> None:
    guard = Guard(refuses=True)
    with pytest.raises(Forbidden, match="not with me"):
        door(guard, Meter()).over(OperationTable([])).admit(HERE, TOOL)
