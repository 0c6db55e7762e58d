"""Operations on the cages of servers: learning a profile from what a server is seen to use."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from tabane.catalog.gateway import Gateway
from tabane.catalog.operations.parameters import LearnSandbox, NameParams
from tabane.errors import BadArguments, TabaneError
from tabane.guard.cages.learning import MOST_BYTES, LearnedProfile, propose, read_trace
from tabane.messages import say
from tabane.operations import Caller
from tabane.servers.sandbox_keys import written
from tabane.servers.server import Server

_LOOK = 1.0
"""Seconds between two looks at how large the trace is."""


@dataclass
class LearningSession:
    """A server that is being traced: where to, the task that ends it in time, and when that is."""

    file: Path
    limit: asyncio.Task[None]
    until: float


class SandboxOperations:
    """Learns the profiles of cages. A server has one trace at a time."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._sessions: dict[str, LearningSession] = {}
        self._starting: set[str] = set()

    async def start(self, caller: Caller, params: LearnSandbox) -> dict[str, Any]:
        """Restart a server under a tracer, without its cage, and list its tools.

        A trace that runs already goes on, so that a caller can end one whose caller is gone.
        """
        name = params.name
        server = self._gateway.server(name)
        session = self._sessions.get(name)
        if session is not None and not session.limit.done():
            return self._begun(name, params.seconds)
        if name in self._starting:
            raise BadArguments(say("What {name!n} uses is being learned already.", name=name), "name")
        self._starting.add(name)
        try:
            await self._trace(server, params.seconds)
        finally:
            self._starting.discard(name)
        return self._begun(name, params.seconds)

    def _begun(self, name: str, seconds: int) -> dict[str, Any]:
        left = ceil(self._sessions[name].until - self._gateway.loop.time())
        tools = len(self._gateway.catalogue.of_server(name))
        return {"name": name, "seconds": max(1, min(left, seconds)), "tools": tools}

    async def _trace(self, server: Server, seconds: int) -> None:
        name, cages = server.name, self._gateway.cages
        if cages is None or server.transport != "stdio" or server.image:
            raise BadArguments(
                say(
                    "What {name!n} uses cannot be learned: it is not a process that Tabane starts.", name=name
                ),
                "name",
            )
        file = await asyncio.to_thread(cages.trace, server)
        until = self._gateway.loop.time() + seconds
        limit = self._gateway.loop.create_task(self._limited(name, file, until))
        self._sessions[name] = LearningSession(file, limit, until)
        try:
            await self._gateway.stop(name)
            await self._gateway.start(name)
        except BaseException:
            await self._end(name)
            raise

    async def finish(self, caller: Caller, params: NameParams) -> dict[str, Any]:
        """End the trace, start the server as before, and return the profile for what was seen."""
        name = params.name
        if name not in self._sessions:
            raise BadArguments(
                say(
                    "What {name!n} uses is not being learned. Begin with: "
                    "tabane servers sandbox {name!c} --learn",
                    name=name,
                ),
                "name",
            )
        file = await self._end(name, keep=True)
        try:
            server = self._gateway.server(name)
            found = await asyncio.to_thread(_learned, file, server.cwd or os.getcwd(), self._private(name))
        finally:
            await asyncio.to_thread(_remove, file)
        return {
            "name": name,
            "sandbox": written(found.profile),
            "notes": [note.render(caller.lang) for note in found.notes],
        }

    def _private(self, name: str) -> str:
        cages = self._gateway.cages
        return str(cages.private_folder(name)) if cages is not None else ""

    async def _limited(self, name: str, file: Path, until: float) -> None:
        """End the trace when its time is over, or when it has become too large."""
        while (  # noqa: ASYNC110  the size of a file sends no event
            self._gateway.loop.time() < until and await asyncio.to_thread(_size, file) < MOST_BYTES
        ):
            await asyncio.sleep(_LOOK)
        await self._untraced(name)

    async def _end(self, name: str, *, keep: bool = False) -> Path:
        session = self._sessions.pop(name)
        over = session.limit.done()
        session.limit.cancel()
        if not over:
            await self._untraced(name)
        if not keep:
            await asyncio.to_thread(_remove, session.file)
        return session.file

    async def _untraced(self, name: str) -> None:
        """Stop the traced process; the server starts as usual when it is needed."""
        if self._gateway.cages is not None:
            self._gateway.cages.untrace(name)
        with contextlib.suppress(TabaneError):
            await self._gateway.stop(name)
            await self._gateway.start(name)


def _learned(file: Path, cwd: str, private: str) -> LearnedProfile:
    with open(file, encoding="utf-8", errors="surrogateescape") as lines:
        seen = read_trace(lines, os.path.realpath(cwd))
    return propose(seen, os.path.realpath(private), os.path.realpath(os.path.expanduser("~")))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
