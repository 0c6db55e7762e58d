"""Scripts that pause until a person has decided: their state as a signed value, and what goes on after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Raw, structs

from tabane.code.host_messages import ScriptLimits
from tabane.code.sandbox import (
    LARGEST,
    PausedRun,
    ScriptSnapshot,
    Settled,
    SnapshotRefused,
    packed,
    signed_by,
    unpacked,
)
from tabane.code.script_run import Asking, ScriptEnd
from tabane.code.signatures import ScriptTool
from tests.code.sandboxed import ran, returned, script_trial

GITHUB = "import asyncio\nfrom tools import github, notes\n"
SIGN = signed_by(b"k" * 32)


class Approver:
    """Answers calls: the first time, those of ``github`` have to be approved; then they are."""

    def __init__(self, *, approves: bool = True) -> None:
        self._approves, self._asked = approves, set[str]()
        self.sent: list[tuple[str, Any]] = []

    async def __call__(self, tool: ScriptTool, arguments: dict[str, Any]) -> Settled | Asking:
        key = f"{tool.name} {arguments}"
        if tool.module == "github" and not (key in self._asked and self._approves):
            self._asked.add(key)
            return Asking(f"approval {arguments.get('q')}", "a person has to approve it")
        self.sent.append((tool.name, arguments.get("q")))
        return returned(arguments.get("q"))


def test_a_paused_script_goes_on_in_another_session_with_all_of_its_state() -> None:
    code = GITHUB + (
        "class Point:\n    def __init__(self, x):\n        self.x = x\n"
        "point = Point(3)\nprint('before')\nlater = notes.search(q='later')\n"
        "async def both(q):\n    return [await notes.search(q=q), await github.search(q=q)]\n"
        "found = await asyncio.gather(both(1), both(2), notes.search(q=3))\n"
        "print('after')\nfrom tools import read_page\n"
        "[found, point.x, await later, await read_page(q='page')]"
    )
    answer = Approver()
    end, _ = ran(code, answer=answer)
    assert (end.failure, end.printed) == ("", "before\nafter\n")
    assert end.value == [[[1, 1], [2, 2], 3], 3, "later", "page"]
    assert len(answer.sent) == len(set(answer.sent)) == end.calls == 7


async def test_what_a_script_made_before_a_pause_is_in_its_state_and_is_not_made_again() -> None:
    async with script_trial() as trial:
        answer = Approver()
        end = await trial.run(
            GITHUB + "first = await notes.search(q=1)\nawait github.search(q=first)", answer=answer
        )
        assert (end.value, end.calls) == (1, 2)
        assert answer.sent == [("notes__search", 1), ("github__search", 1)]
        (paused,) = trial.paused
        assert [(call.path, call.arguments) for call in paused.asked] == [("github.search", b'{"q":1}')]
        assert (paused.made, paused.over) == (2, 1)


def test_a_call_that_nobody_approves_raises_and_the_script_goes_on() -> None:
    code = (
        GITHUB
        + "try:\n    await github.search(q=1)\nexcept PermissionError as error:\n    said = str(error)\nsaid"
    )
    answer = Approver(approves=False)
    end, _ = ran(code, answer=answer)
    assert (end.value, end.failure, answer.sent) == ("a person has to approve it", "", [])


@pytest.mark.parametrize(
    ("rest", "limits", "said"),
    [
        ("await notes.search(q=2)", ScriptLimits(workers=1, calls=1), "made 1 calls, which is the limit"),
        ("print('x' * 60)", ScriptLimits(workers=1, output=100), "printed more than"),
        ("while True: pass", ScriptLimits(workers=1, seconds=0.4), "computed longer than 0.4 s"),
    ],
)
def test_limits_go_on_after_a_pause(rest: str, limits: ScriptLimits, said: str) -> None:
    end, _ = ran(
        f"{GITHUB}print('y' * 60)\nawait github.search(q=1)\n{rest}", answer=Approver(), limits=limits
    )
    assert said in end.failure
    assert end.printed.startswith("y" * 60)


async def test_time_in_which_a_script_is_paused_does_not_count_and_no_worker_is_held() -> None:
    async with script_trial() as trial:
        answer, code = Approver(), GITHUB + "await github.search(q=1)"
        paused = await trial.pause(code, answer=answer, seconds=30)
        assert 0 < paused.left <= 30
        assert (await trial.run("6 * 7")).value == 42
        paused = await trial.pause(code.replace("q=1", "q=2"), answer=answer)
        assert await trial.go_on(paused, answer=answer) == ScriptEnd(Raw(b"2"), "", 1)
        used_up = await trial.go_on(structs.replace(paused, left=0.0), answer=answer)
        assert isinstance(used_up, ScriptEnd)
        assert "did not end within" in used_up.failure


def snapshot(**changed: Any) -> ScriptSnapshot:
    run = PausedRun(b"state", "printed", (), (), 1, 1, 0, 5.0)
    whole = ScriptSnapshot("5c217", "key:a", "1 + 1", run, began=100.0, expires=700.0)
    return structs.replace(whole, **changed)


def test_a_snapshot_is_read_as_it_was_written() -> None:
    text = packed(snapshot(), "tabane 1", SIGN)
    assert unpacked(text, "tabane 1", SIGN, "key:a", 699.0) == snapshot()


@pytest.mark.parametrize(
    ("change", "versions", "holder", "now", "why"),
    [
        (lambda text: text[:-1] + bytes([text[-1] ^ 1]), "tabane 1", "key:a", 0.0, "was changed"),
        (lambda text: text.replace(b"tabane 1", b"tabane 2"), "tabane 2", "key:a", 0.0, "was changed"),
        (lambda text: b"", "tabane 1", "key:a", 0.0, "was changed"),
        (
            lambda text: packed(snapshot(), "tabane 1", signed_by(b"other")),
            "tabane 1",
            "key:a",
            0.0,
            "was changed",
        ),
        (lambda text: text, "tabane 2", "key:a", 0.0, "another version"),
        (lambda text: text, "tabane 1", "key:b", 0.0, "somebody else"),
        (lambda text: text, "tabane 1", "key:a", 700.0, "in time"),
    ],
)
def test_a_snapshot_that_is_not_to_be_trusted_is_refused(
    change: Callable[[bytes], bytes], versions: str, holder: str, now: float, why: str
) -> None:
    text = packed(snapshot(), "tabane 1", SIGN)
    with pytest.raises(SnapshotRefused, match=why):
        unpacked(change(text), versions, SIGN, holder, now)


def test_a_snapshot_that_is_too_large_is_not_made() -> None:
    large = structs.replace(snapshot().run, state=bytes(LARGEST))
    with pytest.raises(SnapshotRefused, match="at most 8192 KiB"):
        packed(snapshot(run=large), "tabane 1", SIGN)
