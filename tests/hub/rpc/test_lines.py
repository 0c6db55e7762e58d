"""JSON-RPC lines on the hub's socket: operations, errors and limits."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from tabane.errors import UnknownName, UpstreamDied
from tabane.hub.rpc import dispatcher
from tabane.hub.rpc.dispatcher import RpcSession
from tabane.messages import say
from tabane.operations import Caller, Door, Face, Operation, OperationTable, Privilege, StreamPart
from tabane.wire.channel import LineBatch
from tests.harness.patience import LONG


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    number: Annotated[int, Meta(ge=0)] = 0


class Doubtful(list[str]):
    """A list that is not all there is."""

    warning = say("Results match keywords only: {reason}", reason="–")


class Works:
    """Operations to call, and how many of them run."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.running = self.most = self.made = 0
        self.cancelled = 0
        self.callers: list[Caller] = []

    async def double(self, caller: Caller, params: Params) -> dict[str, int]:
        self.callers.append(caller)
        return {"double": params.number * 2}

    async def wait(self, caller: Caller, params: Params) -> str:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        return "opened"

    async def doubt(self, caller: Caller, params: Params) -> Doubtful:
        return Doubtful(["a"])

    async def lose(self, caller: Caller, params: Params) -> None:
        raise UpstreamDied(say("{name} died.", name="time"))

    async def miss(self, caller: Caller, params: Params) -> None:
        raise UnknownName(say("There is no tool {name}.", name="x"), ("y",))

    async def break_(self, caller: Caller, params: Params) -> None:
        raise ZeroDivisionError("a secret of ours")

    async def count(self, caller: Caller, params: Params) -> AsyncIterator[StreamPart]:
        for number in range(params.number):
            self.made += 1
            yield StreamPart("x" * (1 << 20), number < params.number - 1)

    def door(self) -> Door:
        faces = frozenset({Face.RPC})
        names = {
            "double": self.double,
            "wait": self.wait,
            "lose": self.lose,
            "doubt": self.doubt,
            "miss": self.miss,
            "break": self.break_,
        }
        operations = [
            Operation(name, "", Params, handler, faces, Privilege.READ) for name, handler in names.items()
        ]
        hidden = Operation("hidden", "", Params, self.double, frozenset({Face.MCP}), Privilege.READ)
        stream = Operation("count", "", Params, self.count, faces, Privilege.READ, kind="stream")
        return Door(OperationTable([*operations, hidden, stream]))


class Program:
    """The other end of a session."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session: RpcSession
    ) -> None:
        self.reader, self.writer, self.session = reader, writer, session
        self.closed = False

    def send(self, value: Any) -> None:
        self.writer.write((value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n")

    async def next(self) -> Any:
        return json.loads(await self.reader.readline())

    async def ask(self, method: str, params: Any = None, number: object = 1) -> Any:
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})
        return await self.next()


@asynccontextmanager
async def program_at(
    max_line: int = 64 << 20, max_outbox: int = 64 << 20
) -> AsyncIterator[tuple[Program, Works]]:
    """A program with a session, and what it can call."""
    loop = asyncio.get_running_loop()
    works = Works()
    mine, theirs = socket.socketpair()
    mine.setblocking(False)
    caller = Caller("local", Face.RPC, "rpc-1", lang="en", client="test")
    closed = loop.create_future()
    session = RpcSession(
        loop,
        LineBatch(),
        mine.detach(),
        works.door(),
        caller,
        closed.set_result,
        max_line=max_line,
        max_outbox=max_outbox,
    )
    session.start()
    reader, writer = await asyncio.open_unix_connection(sock=theirs, limit=1 << 26)
    try:
        yield Program(reader, writer, session), works
    finally:
        writer.close()
    await asyncio.wait_for(closed, LONG)


async def happens(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110  (a count in the same loop; the scene has a limit)
        await asyncio.sleep(0)


async def test_an_operation_is_called_and_its_result_returned() -> None:
    async with program_at() as (program, works):
        assert await program.ask("double", {"number": 4}, "a") == {
            "jsonrpc": "2.0",
            "id": "a",
            "result": {"double": 8},
        }
        assert works.callers[0].client == "test"


@pytest.mark.parametrize(
    ("method", "params", "code", "data"),
    [
        ("nothing", {}, -32601, None),
        ("hidden", {}, -32601, None),
        ("double", {"number": -1}, -32602, {"parameter": "number"}),
        ("double", {"nmber": 1}, -32602, {"parameter": "nmber"}),
        ("double", [1], -32602, None),
        ("lose", {}, -32603, {"reason": "upstream"}),
        ("miss", {}, -32602, {"near": ["y"]}),
    ],
)
async def test_an_error_says_whose_fault_it_is(method: str, params: Any, code: int, data: Any) -> None:
    async with program_at() as (program, _):
        error = (await program.ask(method, params))["error"]
        assert (error["code"], error.get("data")) == (code, data)


async def test_why_a_list_is_not_all_that_could_be_had_stands_beside_it() -> None:
    async with program_at() as (program, _):
        answer = await program.ask("doubt")
        assert (answer["result"], answer["warning"]) == (["a"], "Results match keywords only: –")
        assert "warning" not in await program.ask("double")


async def test_a_fault_of_ours_is_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        async with program_at() as (program, _):
            error = (await program.ask("break"))["error"]
            assert error["code"] == -32603
            assert "secret" not in json.dumps(error)
            assert await program.ask("double")
    assert "a secret of ours" in caplog.text


async def test_a_batch_is_answered_as_one_and_notifications_not_at_all() -> None:
    async with program_at() as (program, _):
        note = {"jsonrpc": "2.0", "method": "double"}
        program.send([note, {**note, "id": 1}, 7, {**note, "id": 2, "params": {"number": 1}}])
        answers = await program.next()
        assert [(answer["id"], "result" in answer) for answer in answers] == [
            (1, True),
            (None, False),
            (2, True),
        ]
        program.send([note])
        program.send(note)
        assert (await program.ask("double", number="next"))["id"] == "next"


async def test_what_is_not_json_is_answered_and_the_next_line_served() -> None:
    async with program_at() as (program, _):
        program.send(b"{")
        assert (await program.next())["error"]["code"] == -32700
        assert "result" in await program.ask("double")


async def test_a_line_past_the_limit_is_answered_with_its_id() -> None:
    async with program_at(max_line=1000) as (program, _):
        program.send(b'{"jsonrpc":"2.0","id":9,"method":"double","params":{"x":"' + b"x" * 2000 + b'"}}')
        answer = await program.next()
        assert (answer["id"], answer["error"]["code"]) == (9, -32600)
        assert "result" in await program.ask("double")


async def test_requests_overtake_each_other_but_only_so_many_run_at_once() -> None:
    async with program_at() as (program, works):
        for number in range(dispatcher.AT_ONCE + 10):
            program.send({"jsonrpc": "2.0", "id": number, "method": "wait"})
        await happens(lambda: works.running == dispatcher.AT_ONCE)
        works.gate.set()
        answers = [await program.next() for _ in range(dispatcher.AT_ONCE + 10)]
        assert {answer["id"] for answer in answers} == set(range(dispatcher.AT_ONCE + 10))
        assert works.most == dispatcher.AT_ONCE


async def test_more_open_requests_than_the_limit_are_refused() -> None:
    async with program_at() as (program, works):
        for number in range(dispatcher.MOST_WAITING + 1):
            program.send({"jsonrpc": "2.0", "id": number, "method": "wait"})
        refused = await program.next()
        assert (refused["id"], refused["error"]["data"]) == (dispatcher.MOST_WAITING, {"reason": "hub"})
        works.gate.set()
        assert "result" in await program.next()


async def test_who_hangs_up_has_what_they_asked_for_cancelled() -> None:
    async with program_at() as (program, works):
        program.send({"jsonrpc": "2.0", "id": 1, "method": "wait"})
        await happens(lambda: works.running)
        program.writer.close()
        await happens(lambda: works.cancelled)


async def test_a_draining_session_finishes_what_it_has_and_begins_nothing() -> None:
    async with program_at() as (program, works):
        program.send({"jsonrpc": "2.0", "id": 1, "method": "wait"})
        await happens(lambda: works.running)
        program.session.drain()
        late = await program.ask("double", number=2)
        assert late["error"]["data"] == {"reason": "draining"}
        idle = asyncio.ensure_future(program.session.idle())
        await asyncio.sleep(0)
        assert not idle.done()
        works.gate.set()
        assert (await program.next())["id"] == 1
        await idle
        program.session.close("done")
        assert await program.reader.read() == b""


async def test_a_stream_over_the_socket_waits_for_who_reads_it() -> None:
    async with program_at() as (program, works):
        program.send({"jsonrpc": "2.0", "id": 1, "method": "count", "params": {"number": 40}})
        await happens(lambda: works.made > 3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert works.made < 20
        answers = [await program.next() for _ in range(40)]
        assert [answer["more"] for answer in answers] == [True] * 39 + [False]
        assert {answer["id"] for answer in answers} == {1}


async def test_descriptors_are_closed_with_the_session() -> None:
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None

    async with program_at() as (program, _):
        await program.ask("double")
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) <= len(before)
