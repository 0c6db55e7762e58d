"""Scripts that call tools as functions, in a real sandbox."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tabane.code.host_messages import ScriptLimits
from tabane.code.monty_sandbox import MontySandbox
from tabane.code.sandbox import Settled
from tabane.code.signatures import ScriptTool
from tests.code.sandboxed import ScriptTrial, ran, returned, script_trial
from tests.harness.patience import LONG, until


def test_tools_are_functions_and_the_last_expression_is_the_result() -> None:
    end, calls = ran(
        "from tools import github, read_page\n"
        "found = await github.search(q=topic)\n"
        "print('found', found['tool'])\n"
        "[found['q'], await read_page('x')]",
        inputs={"topic": "bugs"},
    )
    assert end.failure == ""
    assert end.value == ["bugs", {"tool": "read_page", "q": "x"}]
    assert end.printed == "found github__search\n"
    assert (end.calls, calls) == (2, [("github__search", {"q": "bugs"}), ("read_page", {"q": "x"})])


async def test_gathered_calls_run_at_the_same_time() -> None:
    async with script_trial() as trial:
        together = asyncio.Barrier(3)

        async def answer(tool: ScriptTool, arguments: dict[str, Any]) -> Settled:
            await together.wait()  # passes only if all three are running
            return returned(arguments["q"])

        end = await trial.run(
            "import asyncio\nfrom tools import github\n"
            "await asyncio.gather(*[github.search(q=i) for i in range(3)])",
            answer=answer,
        )
        assert (end.value, end.failure) == ([0, 1, 2], "")


def test_a_failure_of_a_tool_is_an_exception_with_its_text() -> None:
    end, _ = ran(
        "from tools import github\n"
        "try:\n    await github.fail()\nexcept RuntimeError as error:\n    said = str(error)\nsaid"
    )
    assert (end.value, end.failure) == ("github__fail says no", "")
    end, _ = ran("from tools import github\nawait github.fail()")
    assert "line 2" in end.failure
    assert "RuntimeError: github__fail says no" in end.failure


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("github.search(q=1)", 2),
        ("github.search(q=1)\nawait github.search(q=2)", 2),
        ("print(1)\nfound = github.search(q=1)\n'done'", 3),
        ("found = github.search(q=1)\nfound", 2),
        ("found = github.search(q=1)['q']", 2),
        ("for each in github.search(q=1):\n    print(each)", 2),
        ("f'{github.search(q=1)}'", 2),
        ("if github.search(q=1) == 5: pass", 2),
        ("async def main():\n    return await github.search(q=1)\nmain()", 4),
        ("async def main():\n    await github.search(q=1)\nmain()\nprint('done')", 4),
    ],
)
def test_a_missing_await_is_an_error_and_the_call_is_not_made(code: str, line: int) -> None:
    end, calls = ran(f"from tools import github\n{code}")
    assert "Write: await" in end.failure
    assert f"line {line}" in end.failure
    assert calls == []


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print(foo(1))", "line 1: name 'foo' is not defined."),
        ("1\nawait github__search(q=1)", "imported from tools: github.search"),
        (
            "try:\n    foo(1)\nexcept NameError as error:\n    raise ValueError(str(error))",
            "line 2: name 'foo'",
        ),
    ],
)
def test_a_function_that_is_not_defined_is_named(code: str, said: str) -> None:
    end, calls = ran(code)
    assert said in end.failure
    assert calls == []


def test_a_printed_coroutine_is_an_error() -> None:
    end, _ = ran(
        "from tools import github\nfound = github.search(q=1)\nprint(found)\nawait github.search(q=2)"
    )
    assert "without await" in end.failure


def test_calls_that_are_awaited_later_run_in_parallel() -> None:
    end, calls = ran(
        "from tools import github\na = github.search(q=1)\nb = github.search(q=2)\n"
        "[(await b)['q'], (await a)['q']]"
    )
    assert (end.value, end.failure) == ([2, 1], "")
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("def f():\n    yield 1", "Append to a list"),
        ("x = {}\ndel x['a']", "mapping.pop"),
        ("class A(dict):\n    pass", "without a base class"),
        ("import statistics", "sum(values) / len(values)"),
        ("import requests", "read_url_content"),
        ("import urllib.request", "read_url_content"),
        ("import yaml", "There are only these modules"),
        ("class A:\n    @property\n    def x(self):\n        return 1", "plain method"),
        ("import asyncio\nasyncio.create_task(1)", "asyncio.gather"),
        ("from tools import github\ngithub.serch(q=1)", "github has: search"),
        ("from tools import gitlab", "search_tools"),
        ("open('notes.txt')", "has no files"),
        ("from tools import github\nawait github.search(query=1)", "has no parameter query"),
    ],
)
def test_an_error_says_what_to_write_instead(code: str, hint: str) -> None:
    end, calls = ran(code)
    assert hint in end.failure
    assert calls == []


def test_the_limit_of_calls_ends_the_script_whatever_it_catches() -> None:
    end, calls = ran(
        "from tools import github\n"
        "while True:\n    try:\n        await github.search(q=1)\n    except BaseException:\n        pass",
        limits=ScriptLimits(calls=5),
    )
    assert "made 5 calls, which is the limit" in end.failure
    assert len(calls) == 5


def test_a_script_has_only_the_tools_of_its_caller() -> None:
    end, _ = ran("from tools import github\ngetattr(github, 'delete')")
    assert "AttributeError" in end.failure
    end, _ = ran("from tools import github\nawait getattr(github, 'se' + 'arch')(q=1)")
    assert end.value == {"tool": "github__search", "q": 1}


async def test_a_timeout_stops_the_script_and_its_calls() -> None:
    async with script_trial() as trial:
        cancelled = asyncio.Event()

        async def answer(tool: ScriptTool, arguments: dict[str, Any]) -> Settled:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            raise AssertionError

        code = "from tools import github\nprint('begun')\nawait github.search(q=1)"
        for seconds in (0.05, 2, LONG):  # on a loaded machine the call may begin too late for a short one
            end = await trial.run(code, answer=answer, seconds=seconds)
            assert f"did not end within {seconds:g} s" in end.failure
            if trial.calls:
                break
        assert end.printed == "begun\n"
        assert cancelled.is_set()


async def test_cancelling_stops_the_script_and_its_calls() -> None:
    async with script_trial() as trial:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def answer(tool: ScriptTool, arguments: dict[str, Any]) -> Settled:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            raise AssertionError

        running = asyncio.ensure_future(
            trial.run("from tools import github\nawait github.search(q=1)", answer=answer)
        )
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert cancelled.is_set()
        assert (await trial.run("1 + 1")).value == 2


async def test_a_killed_worker_fails_its_script_alone() -> None:
    async with script_trial() as trial:

        async def answer(tool: ScriptTool, arguments: dict[str, Any]) -> Settled:
            assert trial.seen is not None
            assert trial.seen.worker is not None
            os.kill(trial.seen.worker, signal.SIGKILL)
            return returned(1)

        end = await trial.run("from tools import github\nawait github.search(q=1)", answer=answer)
        assert "ended unexpectedly" in end.failure
        assert end.calls == 1
        assert (await trial.run("6 * 7")).value == 42


@pytest.mark.parametrize(
    ("argument", "text"),
    [("print", "not JSON"), ("'a' * 3_000_000", "the limit is 2048 KiB"), ("{1, 2}", ""), ("b'bytes'", "")],
)
def test_arguments_are_json_of_limited_size(argument: str, text: str) -> None:
    end, calls = ran(f"from tools import github\nawait github.search(q={argument})\n1")
    assert text in end.failure
    assert bool(end.failure) is bool(text)
    assert len(calls) == (not text)


async def test_scripts_share_nothing() -> None:
    async with script_trial() as trial:
        assert (await trial.run("secret = 1\nsecret")).value == 1
        assert "NameError" in (await trial.run("secret")).failure


async def test_workers_end_after_a_while_without_scripts_and_start_again() -> None:
    sandbox = MontySandbox(ScriptLimits(workers=1), idle=0)
    trial = ScriptTrial(sandbox)
    assert (await trial.run("1")).value == 1
    assert trial.seen is not None
    first = trial.seen.worker
    await until(lambda: not _exists(first), "the worker is gone")
    assert (await trial.run("2")).value == 2
    await sandbox.close()


async def test_workers_end_with_the_hub_however_it_ends(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    hub = await asyncio.create_subprocess_exec(sys.executable, program, stdout=asyncio.subprocess.PIPE)
    assert hub.stdout is not None
    workers = [int(await hub.stdout.readline()) for _ in range(2)]
    hub.kill()
    await hub.wait()
    await until(lambda: not any(map(_exists, workers)), "the workers are gone")


PROGRAM = """
import asyncio
from tabane.code.host_messages import ScriptLimits
from tabane.code.monty_sandbox import MontySandbox

LIMITS = ScriptLimits(seconds=1, workers=2)

async def run(sandbox, code):
    async with sandbox.session({"": ["hello"]}, LIMITS) as session:
        await session.start("1", {}, lambda call: None)
        print(session.worker, flush=True)
        await session.start(code, {}, lambda call: None)
        await asyncio.Event().wait()

async def main():
    sandbox, calling = MontySandbox(LIMITS), "from tools import hello\\nawait hello()"
    await asyncio.gather(run(sandbox, "while True: pass"), run(sandbox, calling))

asyncio.run(main())
"""


def _exists(process: int | None) -> bool:
    """Return whether a process runs: one that has ended and was not waited for does not."""
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@pytest.mark.heavy("real sandboxes")
def test_a_process_that_ends_right_after_its_scripts_ends_well(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(ENDING)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[0]\n")


ENDING = """
import asyncio
import os

from tabane.code.host_messages import ScriptLimits
from tabane.code.monty_sandbox import MontySandbox

LIMITS = ScriptLimits(workers=4)

async def run(sandbox):
    async with sandbox.session({}, LIMITS) as session:
        await session.start("[i for i in range(20_000)]", {}, lambda call: None)

async def main(steps):
    sandbox = MontySandbox(LIMITS)
    scripts = [asyncio.ensure_future(run(sandbox)) for _ in range(4)]
    for _ in range(steps):  # so that each process closes at another place
        await asyncio.wait(scripts, timeout=0.001)
    await sandbox.close()

for steps in range(15):
    if not (child := os.fork()):
        asyncio.run(main(steps))
        break  # and end as any process does
    ends = globals().setdefault("ends", set())
    ends.add(os.waitpid(child, 0)[1])
else:
    print(sorted(ends))
"""
