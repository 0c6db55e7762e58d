"""The meter of a hub tells the same of calls whether they are alone or in a batch of lines."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tabane.audit.entry import AuditOptions
from tabane.hub.telemetry.metering import HubMeter
from tabane.operations import Caller, CallTarget, Face
from tabane.wire.channel import LineBatch
from tests.audit.written_log import entries, opened
from tests.harness.identities import GivenAccess

READ, SEND = CallTarget("files__read", "files"), CallTarget("mail__send", "mail")
ALICE = Caller("key", Face.MCP, "1", access=GivenAccess("key:alice"))
BOB = Caller("key", Face.MCP, "2", access=GivenAccess("key:bob"))

CALLS = (
    (ALICE, READ, "ok"), (ALICE, READ, "ok"), (BOB, READ, "ok"), (ALICE, SEND, "failed"),
    (ALICE, READ, "ok"), (BOB, SEND, "ok"), (BOB, SEND, "cancelled"),
)  # fmt: skip


class Told:
    """What a meter tells, in the order of its kind."""

    def __init__(self, later: Callable[[Callable[[], object]], object] | None = None) -> None:
        self.counted: list[tuple[str, str, str, int, str]] = []
        self.used: dict[tuple[str, str], int] = {}
        self.returned: list[tuple[str, str, bytes]] = []
        self.answered: list[tuple[str, str]] = []
        self.meter = HubMeter(count=self._count)
        self.meter.later = later or self.meter.later
        self.meter.used, self.meter.returned = self._used, self._returned
        self.meter.answered = self._answered

    def _answered(
        self, caller: Caller, target: CallTarget, arguments: bytes = b"", result: object = b""
    ) -> None:
        self.answered.append((caller.session, target.name))

    def _count(self, target: CallTarget, holder: str, outcome: Any, *figures: Any) -> None:
        _, size, saved, reason = figures
        self.counted.append((target.name, holder, outcome, size, f"{saved} {reason}"))

    def _used(self, target: CallTarget, holder: str, times: int) -> None:
        self.used[target.name, holder] = self.used.get((target.name, holder), 0) + times

    def _returned(self, target: CallTarget, holder: str, result: Any) -> None:
        self.returned.append((target.name, holder, bytes(result)))

    def make_calls(self) -> None:
        for number, (caller, target, outcome) in enumerate(CALLS):
            call = self.meter.begin(caller, target, b'{"n":%d}' % number, str(number))
            result = b"{}" if outcome == "ok" else None
            call.end(outcome, number, saved=number, reason="" if result else "why", result=result)  # type: ignore[arg-type]


def test_calls_of_a_batch_are_told_as_calls_alone_are() -> None:
    alone, batch = Told(), LineBatch()
    together = Told(batch.later)
    alone.make_calls()
    with batch:
        together.make_calls()
        assert together.answered == alone.answered  # before the answers go out
        assert together.counted == []
    assert together.counted == alone.counted
    assert len(alone.counted) == len(CALLS)
    assert together.returned == alone.returned
    assert together.used == alone.used
    assert alone.used == {
        ("files__read", "key:alice"): 3, ("files__read", "key:bob"): 1, ("mail__send", "key:bob"): 1,
    }  # fmt: skip


@pytest.mark.parametrize("in_batch", [False, True])
def test_arguments_are_recorded_without_their_secrets_before_the_answer_goes_out(
    tmp_path: Path, in_batch: bool
) -> None:
    batch = LineBatch()
    told = Told(batch.later)
    given = (b'{"password":"hunter2"}', b'{"path":"/notes"}', b"{}", b'{"n":%b}' % (b"1" * 600))
    with opened(tmp_path, AuditOptions()) as log:
        told.meter.recorder = log
        for number, arguments in enumerate(given, 1):
            with batch if in_batch else nullcontext():
                told.meter.begin(ALICE, READ, arguments, str(number)).end("ok")
                assert len(_recorded(tmp_path)) == number
    recorded = _recorded(tmp_path)
    assert b"hunter2" not in b"".join(recorded)
    assert b"password" in recorded[0]
    assert recorded[1:] == list(given[1:])


@pytest.mark.parametrize(("length", "soon"), [(10, 1), (100_000, 0)])
def test_only_short_arguments_are_redacted_on_the_loop(tmp_path: Path, length: int, soon: int) -> None:
    works: list[Callable[[], object]] = []
    told = Told(works.append)
    with opened(tmp_path, AuditOptions()) as log:
        told.meter.recorder = log
        told.meter.begin(ALICE, READ, b'{"password":"%b"}' % (b"x" * length), "1")
    assert len(works) == soon


def _recorded(folder: Path) -> list[bytes]:
    return [bytes(entry.arguments) for entry in entries(folder) if entry.type == "call" and entry.arguments]
