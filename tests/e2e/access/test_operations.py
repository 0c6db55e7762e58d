"""Each operation of the hub, and what decides who may call it. A new one has to be added here."""

from __future__ import annotations

import json
import tomllib
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tabane.operations import Face
from tests.e2e.access.faces import line_session, program
from tests.e2e.access.policies import DISCLOSURE, Policy, PolicyAccess, policies
from tests.e2e.access.world import DOCUMENT, SERVERS, World, in_its_loop
from tests.harness.running_hub import Json

TABLE = tomllib.loads(Path(__file__).with_name("operations.toml").read_text())
HUB = "hub"
SOURCES: dict[str, str] = dict.fromkeys(DISCLOSURE, HUB) | {
    name: source for source, of in TABLE.items() for name in (*of["reading"], *of.get("changing", {}))
}
READING = DISCLOSURE | {name for of in TABLE.values() for name in of["reading"]}
CHANGES: dict[str, Json] = {
    name: row for of in TABLE.values() for name, row in of.get("changing", {}).items()
}
"""Parameters of every operation that changes something."""

CANONICAL = {"search": "search_documents"}
"""Old names of operations: the name of today is what patterns are about."""

REFUSED = (-32601, -31403, -31401)


def allowed(policy: Policy, name: str) -> bool:
    canonical = CANONICAL.get(name, name)
    if SOURCES[name] == HUB:
        return not policy.read_only or name in READING
    return policy.allows(canonical, SOURCES[name], changes=name not in READING)


@in_its_loop
async def test_each_operation_has_a_source_and_says_whether_it_changes_anything(world: World) -> None:
    table = world.served.door.rpc.table
    sources = {operation.name: operation.target.source for operation in table}
    assert sources == {name: SOURCES.get(name, "nobody has decided") for name in sources}
    reading = {operation.name: not operation.target.changes for operation in table}
    assert reading == {name: name in READING for name in reading}
    names = {operation.name: operation.target.name for operation in table}
    assert {name: today for name, today in names.items() if name != today} == CANONICAL


SAMPLES = [
    *(Policy(allow=(f"@{source}",)) for source in ("posts", "documents", "pages", "docs", "admin", "tools")),
    Policy(allow=("*",)),
    Policy(allow=("*", "@admin"), read_only=True),
    Policy(allow=("*", "@admin"), deny=("@documents", "get_post")),
    Policy(allow=("*", "@admin"), deny=("search_documents",)),
    Policy(allow=("*",), profile=Policy(allow=("@pages", "search*"))),
    Policy(allow=("s*", "search_documents", "stop_*")),
    Policy(allow=()),
]


@pytest.mark.parametrize("policy", SAMPLES, ids=lambda policy: f"{policy.allow}-{policy.deny}")
@in_its_loop
async def test_a_program_may_call_what_its_source_or_name_allows_and_nothing_else(
    world: World, policy: Policy
) -> None:
    """With parameters that no operation takes: nothing is done, whoever asks."""
    async with aclosing(await program(world, PolicyAccess(policy))) as talk:
        for name in [operation.name for operation in world.served.door.rpc.table]:
            answer = json.loads(await talk.ask(name, {"params": "none has this"} | _WRONG))
            # The tools of documents answer parameters that do not fit with their JSON.
            refused = answer.get("error", {}).get("code") in REFUSED
            assert refused is not allowed(policy, name), (name, answer)


_WRONG: Json = {
    name: {"no": ["such", 1]} for name in ("name", "query", "handle", "requests", "server", "names")
}


@pytest.mark.parametrize("policy", SAMPLES, ids=lambda policy: f"{policy.allow}-{policy.deny}")
@in_its_loop
async def test_an_assistant_finds_and_may_call_exactly_the_same(world: World, policy: Policy) -> None:
    table = world.served.door.rpc.table
    async with aclosing(await line_session(world, PolicyAccess(policy), "full")) as talk:
        listed = {tool["name"] for tool in json.loads(await talk.ask("tools/list"))["result"]["tools"]}
        for operation in table.with_face(Face.MCP):
            name, may = operation.name, allowed(policy, operation.name)
            if name in DISCLOSURE:
                continue
            assert (name in listed) is (may and not operation.alias_of), name
            got = json.loads(await talk.ask("tools/get", {"name": name}))
            assert ("result" in got) is may, (name, got)
            wrong = {"name": name, "arguments": _WRONG}
            for params in (wrong, {"name": "call_tool", "arguments": wrong}):
                answer = json.loads(await talk.ask("tools/call", params))
                # That Tabane has an operation is no secret: everybody can read it in the documentation.
                refused = any(words in json.dumps(answer) for words in ("Unknown tool", "not allowed to"))
                assert refused is not may, (name, answer)


@asynccontextmanager
async def unchanged(world: World) -> AsyncIterator[None]:
    """Everything that a user keeps, and every process, is as before at the end of the block."""
    before = await _state(world)
    yield
    assert await _state(world) == before


async def _state(world: World) -> Json:
    documents = await world.local.call("list_documents")
    text = await world.local.call("get_document", filepath=DOCUMENT)
    gateway = world.hub.gateway
    return {
        "documents": documents,
        "text": text,
        "ends": list(world.served.process.ends),
        "kept": world.served.process.kept_on,
        "jobs": world.hub.jobs.running,
        "servers": {name: [str(i.state) for i in gateway.instances(name)] for name in SERVERS},
        "files": (world.hub.settings.servers.read_bytes(), world.hub.settings.documents_roots),
        "kept files": sorted(
            path.name
            for pattern in ("keys*", "passphrase*", "*pairs*")
            for path in world.hub.settings.home.glob(pattern)
        ),
    }


@pytest.mark.heavy("hubs and servers as processes")
@settings(
    max_examples=8, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(policy=policies)
@in_its_loop
async def test_who_may_only_read_changes_nothing_in_any_way(world: World, policy: Policy) -> None:
    reading = Policy((*policy.allow, "@admin", "@documents", "*"), policy.deny, read_only=True)
    access = PolicyAccess(reading)
    async with (
        aclosing(await program(world, access)) as rpc,
        aclosing(await line_session(world, access)) as line,
        unchanged(world),
    ):
        for name, params in CHANGES.items():
            called = {"name": name, "arguments": params}
            answers = [
                await rpc.ask(name, params),
                await rpc.ask("call_tool", called),
                await rpc.ask("execute_parallel", {"requests": [called]}),
                await line.ask("tools/call", called),
                await line.ask("tools/call", {"name": "call_tool", "arguments": called}),
                await line.ask("tools/call", {"name": "call_readonly_tool", "arguments": called}),
            ]
            for answer in map(json.loads, answers):
                assert _failed(answer), (name, answer)


def _failed(answer: Any) -> bool:
    result = answer.get("result")
    if result is None:
        return True
    return bool(result.get("isError") or result.get("failed") == 1)


@in_its_loop
async def test_a_key_with_a_source_may_change_what_belongs_to_it(world: World, tmp_path: Path) -> None:
    async with aclosing(await line_session(world, PolicyAccess(Policy(allow=("@documents",))))) as talk:
        put = {"name": "put_document", "arguments": {"filepath": "notes/own.txt", "text": "own"}}
        assert not _failed(json.loads(await talk.ask("tools/call", put)))
        drop = {"name": "delete_document", "arguments": {"filepath": "notes/own.txt"}}
        assert not _failed(json.loads(await talk.ask("tools/call", {"name": "call_tool", "arguments": drop})))
