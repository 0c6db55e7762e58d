"""No schema of an upstream blocks the hub: other calls are served, and its own call is forwarded."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tabane.catalog.tools.tool import Tool
from tabane.catalog.tools.validation import ArgumentValidator, ValidationPool, schema_size
from tabane.errors import BadArguments
from tabane.hub.process.logs import cause_of
from tabane.workers.pool import Budget
from tests.catalog.tools.hostile import ENDLESS, HOSTILE, doubled
from tests.catalog.tools.test_validation import EDIT, SCHEMA
from tests.catalog.tools.tools import tool
from tests.e2e.protocol.ways_to_call import CALLS, user
from tests.harness.running_hub import Json, SocketClient, child, running_hub, text

LONG = 200.0
ENOUGH = Budget(seconds=1.0, deadline=60, patience=60)


def servers(folder: Path, *names: str) -> dict[str, Json]:
    """Return a server with those hostile tools, and a well-behaved one."""
    path = folder / "schemas.json"
    path.write_text(json.dumps({name: HOSTILE[name][0] for name in names}))
    return {"bad": child("--schemas", str(path)), "good": child()}


async def called(line: SocketClient, name: str, arguments: Json) -> Json:
    """Return the result of a call through call_tool, however long it takes."""
    params = {"name": "call_tool", "arguments": {"name": name, "arguments": arguments}}
    response = await line.begin("tools/call", params)
    result: Json = response["result"]
    return result


def forwarded(result: Json, arguments: Json) -> bool:
    return not result.get("isError") and json.loads(text(result)) == arguments


@pytest.mark.heavy("input that is expensive on purpose")
async def test_every_hostile_schema_lets_others_be_served_and_its_call_pass(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_hub(tmp_path, servers(tmp_path, *HOSTILE), max_line=1 << 24) as here:
        hostile, other = await here.connect(), await here.connect()
        await called(other, "good__echo", {"text": "up"})
        await called(hostile, "bad__echo", {"text": "up"})
        pending = {
            name: asyncio.ensure_future(called(hostile, f"bad__{name}", arguments))
            for name, (_, arguments) in HOSTILE.items()
        }
        served = 0
        while not all(task.done() for task in pending.values()):
            assert forwarded(await called(other, "good__echo", {"text": str(served)}), {"text": str(served)})
            assert not forwarded(await called(other, "good__echo", {"text": 5}), {"text": 5})
            served += 1
        assert served > 0
        for name in ENDLESS:
            assert forwarded(pending[name].result(), HOSTILE[name][1]), name
    for name in ENDLESS:
        assert sum(f"bad__{name}:" in record.message for record in caplog.records) == 1


@pytest.mark.heavy("input that is expensive on purpose")
@pytest.mark.parametrize("name", ENDLESS)
async def test_others_complete_while_a_judgment_is_pending(tmp_path: Path, name: str) -> None:
    async with running_hub(tmp_path, servers(tmp_path, name, "endless_enum")) as here:
        await here.hub.gateway.validator.close()
        judging = ValidationPool(dict(os.environ), budget=Budget(seconds=600, deadline=600, patience=600))
        here.hub.gateway.validator = ArgumentValidator(judging)
        hostile, other = await here.connect(), await here.connect()
        await called(hostile, "bad__echo", {"text": "up"})
        pending = asyncio.ensure_future(called(hostile, f"bad__{name}", HOSTILE[name][1]))
        while not judging.pool.busy:  # noqa: ASYNC110  (the state of a process; the test has a limit)
            await asyncio.sleep(0.005)
        for line in (hostile, other):
            for server in ("bad", "good"):
                assert forwarded(await called(line, f"{server}__echo", {"text": "x"}), {"text": "x"})
                result = await called(line, f"{server}__echo", {"text": 5})
                assert text(result).startswith("text: 5 is not of type string.")
        # Another tool of that server that needs a process too is judged beside it.
        result = await called(other, "bad__endless_enum", {"a": [{"k": [5]}, {"k": ["no"]}]})
        assert "is not one of" in text(result)
        assert not pending.done()


@pytest.mark.heavy("input that is expensive on purpose")
@pytest.mark.parametrize("way", ["call_tool", "call_readonly_tool", "execute_parallel"])
async def test_programs_are_served_too(tmp_path: Path, way: str) -> None:
    """Check that operations of programs use the same judgment."""

    async with running_hub(tmp_path, servers(tmp_path, "any_of_doubled")) as here:
        someone = await user(here)
        outcome = await CALLS[f"rpc {way}"](someone, "bad__any_of_doubled", a=1)
        assert outcome.ok


@asynccontextmanager
async def pool_validator(budget: Budget = ENOUGH) -> AsyncIterator[ArgumentValidator]:
    validator = ArgumentValidator(ValidationPool(dict(os.environ), budget=budget))
    try:
        yield validator
    finally:
        await validator.close()


async def check(validator: ArgumentValidator, tool: Tool, arguments: Json) -> None:
    judgment = validator.check(tool, json.dumps(arguments).encode())
    if judgment is not None:
        await judgment


class Refusing(ValidationPool):
    """Judges nothing, and notes what it was asked."""

    def __init__(self) -> None:
        super().__init__({})
        self.asked: list[str] = []

    async def judge(self, tool: Tool, arguments: bytes) -> None:
        self.asked.append(tool.name)


async def test_what_no_machine_finishes_is_not_begun_in_the_hub() -> None:
    judging = Refusing()
    validator = ArgumentValidator(judging)
    for name, (schema, arguments) in HOSTILE.items():
        with suppress(BadArguments):
            await check(validator, tool(name, inputSchema=schema), arguments)
    assert len(judging.asked) > 20
    assert {*ENDLESS, "long_fractions"} <= set(judging.asked)


@pytest.mark.heavy("input that is expensive on purpose")
async def test_a_schema_that_was_given_up_is_not_judged_again_until_it_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with pool_validator() as validator:
        schema, arguments = HOSTILE["any_of_doubled"]
        bad = tool("t", inputSchema=schema)
        await check(validator, bad, arguments)
        for _ in range(50):
            assert validator.check(bad, b'{"a": 1}') is None
        assert sum("files__t:" in record.message for record in caplog.records) == 1
        # Counted as the server's, not as one more cause for each of its tools.
        assert {cause_of(record).server for record in caplog.records} == {"files"}
        better = tool("t", inputSchema=doubled(lambda r: {"anyOf": [r, r]}, {"type": "integer"}, 11))
        with pytest.raises(BadArguments):
            await check(validator, better, {"a": 1})


async def test_what_is_wrong_is_said_in_the_same_words_by_the_other_process() -> None:
    cases: list[Json] = [
        {"path": "x", "limit": 5000, "mode": "no", "zzz": 1},
        {"path": "x", "edits": [{"old": "a"}, {"old": 2}], "when": 5},
        {"lmit": 5, "code": "jp", "ratio": 1},
    ]
    hard: Json = SCHEMA | {
        "$defs": {"Edit": EDIT, "Self": {"$ref": "#/$defs/Self"}},
        "unevaluatedItems": True,
    }

    async with pool_validator() as validator:
        for arguments in cases:
            raw = json.dumps(arguments).encode()
            with pytest.raises(BadArguments) as here:
                validator.check(tool("t", inputSchema=SCHEMA), raw)
            later = validator.check(tool("u", inputSchema=hard), raw)
            assert later is not None
            with pytest.raises(BadArguments) as there:
                await later
            assert str(there.value) == str(here.value)
            assert there.value.message == here.value.message
            assert there.value.text("ja") == here.value.text("ja")
            assert there.value.parameter == here.value.parameter


async def test_recursive_schemas_and_long_arguments_are_still_checked() -> None:
    tree = {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#"}}}

    async with pool_validator() as validator:
        await check(validator, tool("t", inputSchema=tree), {"v": 1, "next": {"v": 2, "next": {}}})
        with pytest.raises(BadArguments, match=r'next\.next\.v: "x" is not of type integer'):
            await check(validator, tool("t", inputSchema=tree), {"next": {"next": {"v": "x"}}})
        with pytest.raises(BadArguments, match="is not of type integer"):
            await check(validator, tool("t", inputSchema=tree), {"v": "x" * 3_000_000})


async def test_a_process_that_cannot_run_lets_calls_pass_with_one_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with pool_validator() as validator:
        await validator.close()
        for _ in range(10):
            await check(validator, tool("t", inputSchema=HOSTILE["recursive"][0]), {"x": {}})
        assert sum("files__t:" in record.message for record in caplog.records) == 1


def test_the_bound_on_a_schema_is_found_in_few_steps() -> None:
    huge = {"properties": {f"p{n}": {"type": "string"} for n in range(100_000)}}
    assert schema_size(huge) is None
    for schema, _ in HOSTILE.values():
        schema_size(schema)
