"""The same over HTTP and WebSockets, for holders of keys: by their permissions, and by profiles."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import aclosing
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tabane.hub.http.authentication import HttpIdentities
from tabane.operations.caller import Access
from tests.e2e.access.faces import FrameTalk, PostTalk, Talk
from tests.e2e.access.policies import Policy, PolicyAccess, policies
from tests.e2e.access.test_no_way_around import NARROW, NOTHING, READING, about_things, go_through
from tests.e2e.access.ways import UNNAMED, Way, program_ways, server_ways
from tests.e2e.access.world import SharedWorld, World, in_its_loop, shared_world
from tests.harness.http_hub import HttpClient, modern, request
from tests.harness.rpc_hub import WebSocketClient

pytestmark = pytest.mark.heavy("hubs and servers as processes")

SECRET = "tbn_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"
BEARER = f"Bearer {SECRET}"
_addresses = count()
EXAMPLES = settings(
    max_examples=4, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class OneKey:
    """A key whose access a test replaces, and a profile that narrows it."""

    def __init__(self) -> None:
        self.access = PolicyAccess(Policy())
        self.profile = Policy()

    def find(self, secret: str) -> Access | None:
        return self.access if secret == SECRET and self.access.policy is not None else None

    def names(self) -> Collection[str]:
        return ("work",)

    def narrowed(self, access: Access, name: str) -> Access:
        assert name == "work"
        policy = self.access.policy
        narrow = None if policy is None else replace(policy, profile=self.profile)
        return PolicyAccess(narrow, holder=access.holder)

    def identities(self) -> HttpIdentities:
        return HttpIdentities(self, None, self)


KEY = OneKey()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedWorld]:
    with shared_world(tmp_path_factory.mktemp("world"), identities=KEY.identities()) as shared:
        yield shared


async def _legacy(world: World, path: str = "/mcp/full") -> Talk:
    talk = PostTalk(await world.served.peer(), path, BEARER, modern=False)
    await talk.begin("2025-11-25")
    return talk


async def _modern(world: World, path: str = "/mcp/light") -> Talk:
    return PostTalk(await world.served.peer(), path, BEARER, modern=True)


async def _rpc(world: World) -> Talk:
    return PostTalk(await world.served.peer(), "/rpc", BEARER, modern=False)


async def frames(world: World, **headers: str | None) -> FrameTalk:
    peer = await world.served.peer()
    given: dict[str, str | None] = {
        "authorization": BEARER, "upgrade": "websocket", "connection": "Upgrade",
        "sec-websocket-version": "13",
        "sec-websocket-key": base64.b64encode(os.urandom(16)).decode(),
    }  # fmt: skip
    peer.send("GET", "/rpc", given | headers)
    answer = await peer.head()
    assert answer.status == 101, answer
    return FrameTalk(WebSocketClient(peer.reader, peer.writer))


async def _websocket_mcp(world: World) -> Talk:
    talk = await frames(world, **{"sec-websocket-protocol": "mcp", "tabane-mode": "full"})
    client = {"name": "test", "version": "1"}
    await talk.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
    return talk


Open = Callable[[World], Awaitable[Talk]]
ASSISTANTS: dict[str, Open] = {"legacy": _legacy, "modern": _modern, "websocket": _websocket_mcp}
PROGRAMS: dict[str, Open] = {"post": _rpc, "websocket": frames}


def sendable(requests: list[tuple[Way, str | None]]) -> list[tuple[Way, str | None]]:
    """Return the requests whose names fit into a header, which repeats them."""
    return [each for each in requests if str(each[0].params.get("name", "")).isascii()]


@pytest.mark.parametrize("face", ASSISTANTS)
@EXAMPLES
@example(policy=NARROW)
@example(policy=READING)
@example(policy=NOTHING)
@given(policy=policies)
@in_its_loop
async def test_no_assistant_over_the_network_is_shown_or_reaches_what_is_denied(
    world: World, face: str, policy: Policy
) -> None:
    KEY.access.become(policy)
    async with aclosing(await ASSISTANTS[face](world)) as talk:
        plain = [*((way, None) for way in UNNAMED), *about_things(world, policy, modern=face == "modern")]
        await go_through(world, talk, policy, sendable(plain))


@pytest.mark.parametrize("face", PROGRAMS)
@EXAMPLES
@example(policy=Policy(allow=("*",), profile=Policy(allow=("forge1__*",))))
@example(policy=NARROW)
@example(policy=READING)
@example(policy=NOTHING)
@given(policy=policies)
@in_its_loop
async def test_no_program_over_the_network_is_shown_or_reaches_what_is_denied(
    world: World, face: str, policy: Policy
) -> None:
    KEY.access.become(policy)
    async with aclosing(await PROGRAMS[face](world)) as talk:
        requests: list[tuple[Way, str | None]] = [(way, None) for way in server_ways()]
        for thing in world.of_kind("tool"):
            wanted = thing.word if thing.allowed(policy) else None
            requests += [(way, wanted if way.reaches else None) for way in program_ways(thing)]
        await go_through(world, talk, policy, requests)


@pytest.mark.parametrize("face", ["legacy", "modern"])
@EXAMPLES
@example(profile=NARROW, policy=Policy())
@example(profile=Policy(), policy=NARROW)
@given(profile=policies, policy=policies)
@in_its_loop
async def test_a_profile_in_the_path_narrows_a_key_and_never_widens_it(
    world: World, face: str, profile: Policy, policy: Policy
) -> None:
    KEY.access.become(replace(policy, profile=None))
    KEY.profile = replace(profile, profile=None)
    both = replace(policy, profile=KEY.profile)
    open_ = {"legacy": _legacy, "modern": _modern}[face]
    async with aclosing(await open_(world, "/mcp/p/work")) as talk:
        plain = [*((way, None) for way in UNNAMED), *about_things(world, both, modern=face == "modern")]
        await go_through(world, talk, both, sendable(plain))


_odd = st.text(st.characters(min_codepoint=0x21, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=80)
_mutated = st.builds(
    lambda at, letter, length: (SECRET[:at] + letter + SECRET[at + 1 :])[:length],
    st.integers(0, len(SECRET) - 1), st.sampled_from("0aZ_-.~é\xa0="), st.integers(0, len(SECRET) + 1),
)  # fmt: skip
_values = st.one_of(
    _odd,
    _odd.map("Bearer {}".format),
    _mutated.map("Bearer {}".format),
    st.sampled_from([f"Basic {SECRET}", SECRET, f"Bearer {SECRET} {SECRET}", f"Bearer, {SECRET}", "Bearer ",
                     "Bearer " + "a" * 7000, f"Bearer {SECRET}\x00", f"Bearer\t{SECRET}=",
                     f"Bearer {SECRET},{SECRET}"]),
)  # fmt: skip


async def from_anywhere(world: World) -> HttpClient:
    """Return a client with another address of this machine: one that fails often is slowed down."""
    high, low = divmod(next(_addresses), 250)
    address = f"127.{high + 1}.0.{low + 1}"
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", world.served.door.port, local_addr=(address, 0)
    )
    return HttpClient(world.served, reader, writer)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a network of addresses for this machine")
@settings(
    max_examples=60, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(value=_values, path=st.sampled_from(["/mcp", "/mcp/full", "/mcp/p/work", "/rpc", "/mcp/p/%77ork"]))
@in_its_loop
async def test_nothing_but_the_key_itself_opens_anything(world: World, value: str, path: str) -> None:
    KEY.access.become(Policy())
    if value.split(None, 1) == ["Bearer", SECRET]:
        return
    peer = await from_anywhere(world)
    message: Any = request("list_tools")
    headers: dict[str, str] = {}
    if path != "/rpc":
        message, headers = modern(request("tools/list"))
    try:
        answer = await peer.post(message, path, **headers, authorization=value)
    finally:
        peer.close()
    told = answer.body + json.dumps(answer.headers).encode()
    assert b"forge" not in told
    assert SECRET.encode() not in told
    if answer.status == 200:
        assert path == "/rpc"
        assert "error" in answer.json, "a program without an identity reads the archive alone"


@in_its_loop
async def test_a_revoked_key_is_refused_in_open_sessions_and_by_the_door(world: World) -> None:
    KEY.access.become(Policy())
    talks = {name: await open_(world) for name, open_ in {**ASSISTANTS, "rpc": frames}.items()}
    before = world.asked()
    KEY.access.become(None)
    peer = await world.served.peer()
    message, headers = modern(request("tools/list"))
    answer = await peer.post(message, "/mcp/full", **headers, authorization=BEARER)
    assert answer.status in (401, 429)
    for name in ("websocket", "rpc"):
        method = "call_tool" if name == "rpc" else "tools/call"
        try:
            told = await talks[name].ask(method, {"name": "forge1__get_ticket", "arguments": {}})
        except (AssertionError, ConnectionError):
            continue  # it was hung up
        assert b"done" not in told
    assert world.asked() == before
    for talk in talks.values():
        await talk.aclose()
