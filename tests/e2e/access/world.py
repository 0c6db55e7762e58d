"""A hub over servers whose every thing has a word of its own, and what those words may tell to whom."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from tests.e2e.access.policies import Policy
from tests.harness.http_hub import HttpHub, http_hub
from tests.harness.running_hub import Json, SocketClient
from tests.harness.servers import recorder
from tests.harness.servers.recorder import word

RECORDER = recorder.__file__
TOOLS = ("get_ticket", "get_tickets", "drop_ticket!", "announce!")
LONG = "a_server_whose_name_is_nearly_too_long"
LONG_TOOL = "and_a_tool_whose_name_does_not_fit_behind_it"

SERVERS: Mapping[str, tuple[str, ...]] = {
    "forge1": TOOLS,
    "forge2": TOOLS,
    "bare": ("plain_lookup", "plain_removal!", "announce!"),
    LONG: (LONG_TOOL, "announce!"),
}
"""The servers that run, and their tools. ``bare`` has no prefix; the names of ``LONG`` are cut."""

NOT_RUNNING = ("asleep", "broken")
"""A server that is disabled, and one that cannot be started."""

DOCUMENT = "notes/zqnotesecret.txt"
DOCUMENT_WORD = "zqdocumentword"
READING_DOCUMENTS = ("search_documents", "get_document", "list_documents", "get_documents_by_prefix")


def definitions(folder: Path) -> dict[str, Json]:
    """Return the servers file of the world."""
    found: dict[str, Json] = {
        name: {"command": sys.executable, "args": [RECORDER, name, str(folder), *tools]}
        for name, tools in SERVERS.items()
    }
    found["forge1"]["pin"] = ["get_ticket", "drop_ticket"]
    found["bare"]["prefix"] = ""
    found["asleep"] = {"command": "true", "disabled": True}
    found["broken"] = {"command": sys.executable, "args": ["-c", "raise SystemExit('zqbrokenword')"]}
    return found


@dataclass(frozen=True)
class Thing:
    """Something of a server that can be called or read. ``shown`` is its public name or URI."""

    kind: Literal["tool", "prompt", "resource", "template"]
    server: str
    own: str
    shown: str
    changes: bool = False

    @property
    def word(self) -> str:
        return word(self.server, self.own)

    @property
    def target(self) -> str:
        """Return the name that patterns are about."""
        return self.shown if self.kind in ("tool", "prompt") else f"{self.server}__{self.own}"

    @property
    def address(self) -> str:
        """Return the address of a resource."""
        return f"tabane://upstream/{quote(self.server, safe='')}/{quote(self.own, safe='')}"

    def allowed(self, policy: Policy) -> bool:
        return policy.allows(self.target, "", changes=self.changes, server=self.server)


class World:
    """The running hub, its things, and what its servers were asked."""

    def __init__(self, served: HttpHub, folder: Path, local: SocketClient, things: list[Thing]) -> None:
        self.served, self.hub, self.local, self.things = served, served.hub, local, things
        self._folder = folder

    def asked(self) -> dict[str, list[str]]:
        """Return what each server was asked, in order."""
        return {
            name: (self._folder / f"{name}.asked").read_text().splitlines()
            for name in SERVERS
            if (self._folder / f"{name}.asked").exists()
        }

    def of_kind(self, *kinds: str) -> Iterator[Thing]:
        return (thing for thing in self.things if thing.kind in kinds)

    def secrets(self, policy: Policy) -> re.Pattern[str]:
        """Return a pattern that matches whatever a caller of that policy must not read."""
        found: set[str] = {"zqbrokenword"} if policy.hides("broken") else set()
        for thing in self.things:
            if not thing.allowed(policy):
                found.add(thing.word)
                if thing.kind in ("tool", "prompt"):
                    found.add(thing.shown)
        for server in (*SERVERS, *NOT_RUNNING):
            # Without a prefix, names of its things do not begin with the server's.
            if policy.hides(server) and not any(
                thing.allowed(policy) for thing in self.things if thing.server == server
            ):
                found |= {server, word(server, "log"), word(server, "completion")}
        if not any(policy.allows(name, "documents", changes=False) for name in READING_DOCUMENTS):
            found |= {DOCUMENT, DOCUMENT_WORD}
        # No longer name that begins with a secret one is a secret for that.
        texts = "|".join(map(re.escape, sorted(found)))
        return re.compile(rf"(?<![A-Za-z0-9_])(?:{texts})(?![A-Za-z0-9_])" if texts else r"(?!)")

    async def announce(self) -> None:
        """Let every server tell of everything, and wait until the hub has heard it."""
        for server in SERVERS:
            await self.local.call(f"{server}.announce")
            await self.local.call(f"{server}.{SERVERS[server][0]}")
        await self.local.call("put_document", filepath=DOCUMENT, text=f"About {DOCUMENT_WORD}.")


def readable(data: bytes) -> str:
    """Return the texts of messages as a client reads them: without escapes, of any depth."""
    parts: list[str] = []
    for line in data.splitlines():
        try:
            _collect(json.loads(line), parts)
        except ValueError:
            parts.append(line.decode("utf-8", "replace"))
    return "\n".join(parts)


def _collect(value: Any, parts: list[str]) -> None:
    if isinstance(value, str):
        parts.append(value)
    elif isinstance(value, list):
        for one in value:
            _collect(one, parts)
    elif isinstance(value, dict):
        for key, one in value.items():
            parts.append(key)
            _collect(one, parts)


async def _things(local: SocketClient) -> list[Thing]:
    """Return all things as this machine's user sees them."""
    tools = (await local.result("tools/list"))["tools"]
    words = {
        word(server, tool.rstrip("!")): (server, tool.rstrip("!"), tool.endswith("!"))
        for server, of_server in SERVERS.items()
        for tool in of_server
    }
    found: list[Thing] = []
    for tool in tools:
        for mark in re.findall(r"zq[0-9a-f]{12}", tool["description"]):
            server, own, changes = words[mark]
            found.append(Thing("tool", server, own, tool["name"], changes))
    prompts = {p["description"]: p["name"] for p in (await local.result("prompts/list"))["prompts"]}
    uris = {r["name"]: r["uri"] for r in (await local.result("resources/list"))["resources"]}
    for server in SERVERS:
        form = recorder.template(server)
        named = ((name, prompts[word(server, name)]) for name in recorder.PROMPTS)
        read = ((uri, uris[word(server, uri)]) for uri in recorder.uris(server))
        found += [Thing("prompt", server, name, shown) for name, shown in named]
        found += [Thing("resource", server, uri, shown) for uri, shown in read]
        found.append(Thing("template", server, form, form))
    return found


@asynccontextmanager
async def world(folder: Path, **settings: Any) -> AsyncIterator[World]:
    """Run the hub, with all that its servers have listed, and one document.

    The flow policy is off: tools with names such as announce are called in every order.
    """
    home = folder / "home"
    home.mkdir(mode=0o700)
    async with http_hub(
        home, definitions(folder), list_wait=60.0, **{"flow_policy": "off", **settings}
    ) as served:
        local = await served.running.connect(mode="full")
        tools = await _things(local)
        built = World(served, folder, local, tools)
        await built.announce()
        expected = sum(map(len, SERVERS.values()))
        assert sum(1 for _ in built.of_kind("tool")) == expected, tools
        await asyncio.sleep(0)
        yield built


@dataclass(frozen=True)
class SharedWorld:
    """A world and the loop that it lives in. The examples of a test share it."""

    world: World
    runner: asyncio.Runner


@contextmanager
def shared_world(folder: Path, **settings: Any) -> Iterator[SharedWorld]:
    opened = world(folder, **settings)

    async def leave() -> None:
        await opened.__aexit__(None, None, None)

    with asyncio.Runner() as runner:
        yield SharedWorld(runner.run(opened.__aenter__()), runner)
        runner.run(leave())


def in_its_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in the loop of the fixture ``world``, and give it the world itself."""

    @functools.wraps(test)
    def called(world: SharedWorld, **given: Any) -> None:
        world.runner.run(test(world.world, **given))

    return called
