"""No way of calling, listing, searching or guessing reaches or shows what a policy does not allow."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings

from tabane.code.table import RUN
from tabane.settings import Mode
from tests.e2e.access.faces import LineTalk, Talk, line_session, program
from tests.e2e.access.policies import Policy, PolicyAccess, policies
from tests.e2e.access.ways import UNNAMED, Way, program_ways, server_ways, ways
from tests.e2e.access.world import Thing, World, in_its_loop, readable
from tests.harness.http_hub import MODERN

pytestmark = pytest.mark.heavy("hubs and servers as processes")

EXAMPLES = settings(
    max_examples=12, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NARROW = Policy(allow=("forge1__get_ticket",))
READING = Policy(allow=("*",), deny=("forge2__*",), read_only=True)
PROFILED = Policy(allow=("*",), profile=Policy(allow=("*__get_ticket", "@documents"), deny=("forge2__*",)))
NOTHING = Policy(allow=())
SAME_NAMES = Policy(allow=("f*",), deny=("*ticket*",))
"""A tool of one server is allowed, and another one's is not, whose public name is the first one's own."""


def shown(answer: bytes, secrets: re.Pattern[str], names: Iterable[str]) -> list[str]:
    """Return the secrets in an answer, apart from what the request named itself."""
    text = readable(answer)
    for name in names:
        text = text.replace(name, "…")
    return secrets.findall(text)


async def go_through(
    world: World, talk: Talk, policy: Policy, requests: Iterable[tuple[Way, str | None]]
) -> None:
    """Send all requests; nothing secret may come back, and what is allowed must be reached.

    Each request comes with the word of the thing that it must reach, None if it need not.
    """
    secrets, before = world.secrets(policy), world.asked()
    for way, wanted in requests:
        answer = await talk.ask(way.method, way.params)
        found = shown(answer, secrets, way.names)
        assert not found, (policy, way, found, answer)
        if wanted is not None:
            assert wanted in readable(answer), (policy, way, answer)
    assert not forbidden(world, policy, before), policy


def forbidden(world: World, policy: Policy, before: dict[str, list[str]]) -> Counter[str]:
    """Return what servers were asked since then, and should not have been."""
    changes = {(thing.server, thing.own): thing.changes for thing in world.of_kind("tool")}
    names = {(t.server, t.own): t.target for t in world.things}
    found: Counter[str] = Counter()
    for server, asked in world.asked().items():
        for line in asked[len(before.get(server, ())) :]:
            _, _, own = line.partition(" ")
            name = names.get((server, own), f"{server}__{own}")
            changing = changes.get((server, own), False)
            if not policy.allows(name, "", changes=changing, server=server):
                found[f"{server}: {line}"] += 1
    return found


def about_things(world: World, policy: Policy, *, modern: bool) -> Iterator[tuple[Way, str | None]]:
    for thing in world.things:
        allowed = thing.allowed(policy)
        for way in ways(thing, modern=modern):
            yield named(world, policy, thing, way), thing.word if allowed and way.reaches else None


def named(world: World, policy: Policy, thing: Thing, way: Way) -> Way:
    """Return a request of a script with the functions of its module, which an error may name.

    Their names are those that servers give: without its prefix, a tool of another server can have the same.
    """
    if way.params.get("name") != RUN:
        return way
    functions = [
        each.own for each in world.of_kind("tool") if each.server == thing.server and each.allowed(policy)
    ]
    return replace(way, names=(*way.names, *functions))


@pytest.mark.parametrize(
    ("mode", "version"),
    [("search", "2025-06-18"), ("light", MODERN), ("full", "2025-03-26"), ("search", MODERN)],
)
@EXAMPLES
@example(policy=NARROW)
@example(policy=READING)
@example(policy=PROFILED)
@example(policy=NOTHING)
@example(policy=SAME_NAMES)
@given(policy=policies)
@in_its_loop
async def test_no_request_of_an_assistant_shows_or_reaches_what_is_denied(
    world: World, mode: Mode, version: str, policy: Policy
) -> None:
    async with aclosing(await line_session(world, PolicyAccess(policy), mode, version)) as talk:
        requests = [
            *((way, None) for way in UNNAMED),
            *about_things(world, policy, modern=version == MODERN),
        ]
        await go_through(world, talk, policy, requests)
        assert not shown(bytes(talk.heard[: talk.heard.index(b"\n")]), world.secrets(policy), ())


@EXAMPLES
@example(policy=NARROW)
@example(policy=READING)
@example(policy=PROFILED)
@example(policy=NOTHING)
@given(policy=policies)
@in_its_loop
async def test_no_request_of_a_program_shows_or_reaches_what_is_denied(world: World, policy: Policy) -> None:
    async with aclosing(await program(world, PolicyAccess(policy))) as talk:
        requests: list[tuple[Way, str | None]] = [(way, None) for way in server_ways()]
        for thing in world.of_kind("tool"):
            wanted = thing.word if thing.allowed(policy) else None
            requests += [(way, wanted if way.reaches else None) for way in program_ways(thing)]
        await go_through(world, talk, policy, requests)


@EXAMPLES
@example(policy=NARROW)
@example(policy=PROFILED)
@example(policy=NOTHING)
@given(policy=policies)
@in_its_loop
async def test_nothing_is_told_unasked_of_what_is_denied(world: World, policy: Policy) -> None:
    """Log messages of servers, changed resources and documents, which other callers cause."""
    async with (
        aclosing(await line_session(world, PolicyAccess(policy), "full")) as old,
        aclosing(await line_session(world, PolicyAccess(policy), "full", MODERN)) as new,
    ):
        await old.ask("logging/setLevel", {"level": "debug"})
        wanted = [thing.shown for thing in world.of_kind("resource")]
        wanted.append("tabane://documents/notes%2Fzqnotesecret.txt")
        for uri in wanted:
            await old.ask("resources/subscribe", {"uri": uri})
        listen(new, wanted)
        await world.announce()
        await world.announce()
        for talk in (old, new):
            await talk.ask("tools/list")
            told = unasked(talk)
            assert not shown(told, world.secrets(policy), ()), (policy, told)
            assert not [uri for uri in wanted if hidden(world, policy, uri) and uri.encode() in told], told


def listen(talk: LineTalk, uris: list[str]) -> None:
    wishes = {f"{kind}ListChanged": True for kind in ("tools", "prompts", "resources")}
    talk.send("subscriptions/listen", {"notifications": {**wishes, "resourceSubscriptions": uris}}, 10**6)


def unasked(talk: LineTalk) -> bytes:
    """Return the messages that answer no request."""
    lines = bytes(talk.heard).splitlines(keepends=True)
    return b"".join(line for line in lines if "method" in json.loads(line))


def hidden(world: World, policy: Policy, uri: str) -> bool:
    """Return whether a caller must not hear of a resource."""
    thing = next((thing for thing in world.of_kind("resource") if thing.shown == uri), None)
    if thing is None:
        return not policy.allows("get_document", "documents", changes=False)
    return not thing.allowed(policy)


@in_its_loop
async def test_a_revoked_key_is_refused_in_a_session_that_is_open(world: World) -> None:
    access = PolicyAccess(Policy())
    everything = Policy(allow=())
    async with (
        aclosing(await line_session(world, access, "full")) as line,
        aclosing(await program(world, access)) as rpc,
    ):
        assert b"done" in await line.ask("tools/call", {"name": "forge1__get_ticket", "arguments": {}})
        before = world.asked()
        access.become(None)
        for thing in world.things:
            for way in ways(thing):
                answer = await line.ask(way.method, way.params)
                assert not shown(answer, world.secrets(everything), way.names), (way, answer)
        for thing in world.of_kind("tool"):
            for way in program_ways(thing):
                answer = await rpc.ask(way.method, way.params)
                assert not shown(answer, world.secrets(everything), way.names), (way, answer)
        assert world.asked() == before
