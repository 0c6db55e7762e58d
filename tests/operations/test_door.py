"""The door: calls, jobs, streams, and refused requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from tabane.errors import BadArguments, Forbidden, HubError, TabaneError, UnknownName
from tabane.messages import Lang, Message, say
from tabane.operations import (
    Caller,
    CallTarget,
    Door,
    Face,
    Operation,
    OperationTable,
    Privilege,
    Progress,
    StreamPart,
    Work,
)
from tabane.operations.caller import LocalAccess

HERE = Caller("local", Face.RPC, "1", lang="ja")


class NoAccess(LocalAccess):
    """Allows nothing."""

    everything = False

    def allows(self, target: CallTarget) -> bool:
        return False


ELSEWHERE = Caller("stranger", Face.RPC, "2", access=NoAccess())


class Count(Struct, frozen=True, forbid_unknown_fields=True):
    to: Annotated[int, Meta(ge=0)] = 3


class Works:
    """One operation of each kind."""

    def __init__(self) -> None:
        self.left = 0

    async def call(self, caller: Caller, params: Count) -> int:
        return params.to

    async def job(self, caller: Caller, params: Count, progress: Progress) -> list[str]:
        progress.tell(params.to, params.to)
        return [caller.session]

    async def stream(self, caller: Caller, params: Count) -> AsyncIterator[StreamPart]:
        try:
            for number in range(params.to):
                yield StreamPart(number, number < 2)
        finally:
            self.left += 1

    def table(self) -> OperationTable:
        faces = frozenset({Face.RPC})
        return OperationTable(
            [
                Operation("call", "", Count, self.call, faces, Privilege.READ),
                Operation(
                    "job",
                    "",
                    Count,
                    self.job,
                    faces,
                    Privilege.READ,
                    kind="job",
                    title=lambda params: say("Counting to {n}", n=params.to),
                ),
                Operation("bare", "", Count, self.job, faces, Privilege.READ, kind="job"),
                Operation("stream", "", Count, self.stream, faces, Privilege.READ, kind="stream"),
            ]
        )


class Begun(list[tuple[str, str]]):
    """Starts jobs by noting them; they are never worked on unless a test does so."""

    works: list[Work]
    full = False

    def __init__(self) -> None:
        super().__init__()
        self.works = []
        self.told: list[tuple[int, int | None]] = []

    def start(self, name: str, title: Message, work: Work, caller: Caller | None = None) -> Begun:
        if self.full:
            raise HubError(say("no more"))
        self.append((name, title.render()))
        self.works.append(work)
        return self

    def state(self, lang: Lang) -> dict[str, Any]:
        return {"lang": lang}

    def tell(self, done: int, total: int | None = None, note: Message | None = None) -> None:
        self.told.append((done, total))


def doors() -> tuple[Works, Begun, Door]:
    works, begun = Works(), Begun()
    return works, begun, Door(works.table(), begun)


async def parts_of(door: Door, params: bytes = b"{}", caller: Caller = HERE) -> list[StreamPart]:
    return [part async for part in door.stream(caller, "stream", params)]


def test_a_call_gives_its_result() -> None:
    assert asyncio.run(doors()[2].invoke(HERE, "call", b'{"to": 5}')) == 5


def test_a_job_is_begun_and_its_state_given_at_once_in_the_callers_language() -> None:
    _works, begun, door = doors()
    assert asyncio.run(door.invoke(HERE, "job", b'{"to": 5}')) == {"lang": "ja"}
    assert begun == [("job", "Counting to 5")]
    assert asyncio.run(done(begun)) == ["1"]
    assert begun.told == [(5, 5)]


async def done(begun: Begun) -> Any:
    return await begun.works[0](begun)


def test_a_job_without_a_title_is_called_by_its_name() -> None:
    _works, begun, door = doors()
    asyncio.run(door.invoke(HERE, "bare", b"{}"))
    assert begun == [("bare", "bare")]


def test_a_job_that_cannot_be_started_says_why() -> None:
    _works, begun, door = doors()
    begun.full = True
    with pytest.raises(HubError, match="no more"):
        asyncio.run(door.invoke(HERE, "job", b"{}"))


def test_a_table_with_jobs_needs_a_starter() -> None:
    with pytest.raises(ValueError, match="needs a starter"):
        Door(Works().table())


def test_a_stream_gives_its_parts_and_nothing_after_the_last() -> None:
    works, _begun, door = doors()
    assert asyncio.run(parts_of(door, b'{"to": 9}')) == [(0, True), (1, True), (2, False)]
    assert works.left == 1


def test_a_stream_without_a_last_part_is_a_fault() -> None:
    with pytest.raises(RuntimeError, match="stream"):
        asyncio.run(parts_of(doors()[2], b'{"to": 2}'))


async def test_who_leaves_a_stream_ends_what_it_does() -> None:
    works, _begun, door = doors()
    async with contextlib.aclosing(door.stream(HERE, "stream", b"{}")) as parts:
        assert await anext(parts) == (0, True)
        assert works.left == 0
    assert works.left == 1


@pytest.mark.parametrize("name", ["call", "job", "stream"])
def test_nothing_is_begun_for_who_may_not_or_with_parameters_that_do_not_fit(name: str) -> None:
    works, begun, door = doors()
    for caller, params, error in [
        (ELSEWHERE, b"{}", Forbidden),
        (HERE, b'{"to": -1}', BadArguments),
        (HERE, b'{"too": 1}', BadArguments),
        (Caller("local", Face.MCP, "1"), b"{}", UnknownName),
    ]:
        assert_refused(door, caller, name, params, error)
    assert (begun, works.left) == ([], 0)


def assert_refused(door: Door, caller: Caller, name: str, params: bytes, error: type[TabaneError]) -> None:
    if name == "stream":
        with pytest.raises(error):
            door.stream(caller, name, params)
    else:
        with pytest.raises(error):
            asyncio.run(door.invoke(caller, name, params))


def test_a_stream_is_not_called_and_a_call_not_streamed() -> None:
    door = doors()[2]
    with pytest.raises(BadArguments, match="stream of parts"):
        asyncio.run(door.invoke(HERE, "stream", b"{}"))
    for name in ("call", "job"):
        with pytest.raises(BadArguments, match="one result"):
            door.stream(HERE, name, b"{}")
