"""Calls through a script and directly: allowed, refused and recorded alike."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.errors import TabaneError
from tabane.operations import Caller, Face
from tests.harness.running_hub import Json, RunningHub, child, connected_hub, text

NUMBERS = st.integers(-3, 3)
CALLS = st.one_of(
    st.tuples(st.just("echo"), st.fixed_dictionaries({"n": NUMBERS, "text": st.text(max_size=5)})),
    st.tuples(st.just("count"), st.fixed_dictionaries({"n": NUMBERS})),  # has to be confirmed
    st.tuples(st.just("fail"), st.fixed_dictionaries({"text": st.sampled_from(["no", "否"])})),
    st.tuples(st.just("refuse"), st.fixed_dictionaries({"code": st.sampled_from([-31000, -32602])})),
    st.tuples(st.just("wait"), st.just({"seconds": "soon"})),  # does not fit the schema
    st.tuples(st.just("hang"), st.just({})),  # denied
    st.tuples(st.just("nothing"), st.just({})),  # no such tool
)
PROGRAM = Caller("local", Face.RPC, "program")
OWN = {"seq", "time", "ms", "script", "request", "session", "face", "client"}
"""Members of an entry that differ between any two calls."""


async def recorded(here: RunningHub, after: int) -> list[Json]:
    """What the audit log has of calls of the server after an entry. A tool that is denied does not exist in a
    script, so there is no call of it to be recorded.
    """
    found = await here.hub.door.invoke(PROGRAM, "query_audit_logs", b'{"server": "up", "limit": 200}')
    entries: list[Json] = json.loads(msgspec.json.encode(found))["results"]
    mine = [entry for entry in entries if entry["seq"] > after and entry["name"] != "up__hang"]
    return sorted(mine, key=lambda entry: int(entry["seq"]))


async def succeeds(here: RunningHub, name: str, arguments: Json) -> bool:
    """Call a tool as a program, and return whether it has a result that is no failure."""
    call = msgspec.json.encode({"name": f"up__{name}", "arguments": arguments})
    try:
        result = await here.hub.door.invoke(PROGRAM, "call_tool", call)
    except TabaneError:
        return False
    return not json.loads(bytes(result)).get("isError", False)


def script_of(calls: list[tuple[str, Json]]) -> str:
    """A script that makes these calls, and returns for each whether it succeeded."""
    lines = ["from tools import up", "ended = []"]
    for name, arguments in calls:
        lines += [
            "try:",
            f"    await up.{name}(**{arguments!r})",
            "    ended.append(True)",
            "except Exception:",
            "    ended.append(False)",
        ]
    return "\n".join([*lines, "ended"])


@pytest.mark.heavy("a hub with real servers")
@settings(max_examples=5, deadline=None)
@given(calls=st.lists(CALLS, min_size=1, max_size=8))
async def test_the_same_calls_end_and_are_recorded_alike(calls: list[tuple[str, Json]]) -> None:
    servers = {"up": child(confirm=["count"], deny=["hang"])}
    with TemporaryDirectory() as folder:
        async with connected_hub(Path(folder), servers, script_writes="allow", approval_wait=0) as (
            here,
            line,
        ):
            await line.call("search_tools", query="echo")
            directly = [await succeeds(here, name, arguments) for name, arguments in calls]
            one = await recorded(here, 0)
            scripted = await line.call("run_script", code=script_of(calls))
            assert json.loads(text(scripted)) == directly
            other = await recorded(here, one[-1]["seq"] if one else 0)
            assert [without(entry) for entry in other] == [without(entry) for entry in one]
            assert all(entry.get("script") for entry in other)


def without(entry: Json) -> Json:
    """An entry without what differs between any two calls."""
    return {name: value for name, value in entry.items() if name not in OWN}
