"""A browser that runs, for one page: started with a fresh profile, and gone with everything that it made."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.rendering.devtools import Talk
from tabane.reader.rendering.limits import Limits

_KEEPER = str(Path(__file__).with_name("browser_watchdog.py"))
_ENDING = 15.0  # seconds
_USERS = (61_184, 65_519)  # those that no person has: systemd hands them out for a service's time


_LONGEST = 40  # characters of the folder that profiles are in: sockets in them have names of 104 at most


class Report(NamedTuple):
    """How a browser ended: asked, memory, ended, unstarted; and the last of its errors."""

    why: str
    status: int | None
    said: str


class Browser:
    """A browser and the process that keeps it. ``errors`` is the descriptor that the keeper's own go to.

    A root never runs it as root: each one gets a user of its own that has nothing, in which the browser's
    sandbox works as it does for a person.
    """

    def __init__(self, limits: Limits, errors: int | None = None) -> None:
        self._limits, self._errors = limits, errors
        self._keeper: asyncio.subprocess.Process | None = None
        self._profile = ""
        self._talk: Talk | None = None
        self._ending: asyncio.Task[Report] | None = None

    async def start(self, program: str, arguments: Callable[[str], list[str]]) -> Talk:
        """Starts it. ``arguments`` are made for the folder of its profile. Raises ReadError."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._profile = await asyncio.to_thread(
                    tempfile.mkdtemp, prefix="tabane-page-", dir=_folder()
                )
                await self._kept([program, *arguments(self._profile)], theirs.fileno())
            except OSError as error:
                ours.close()
                raise ReadError(
                    say("the browser cannot be started: {reason}.", reason=error), "way"
                ) from None
            except BaseException:
                ours.close()
                raise
        # JSON may write a character as six bytes.
        longest = 6 * self._limits.html + 1_000_000
        self._talk = Talk(*await asyncio.open_connection(sock=ours, limit=longest))
        return self._talk

    async def end(self) -> Report:
        """Ends it, however often it is asked to, and whoever is cancelled meanwhile."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._ended())
        return await asyncio.shield(self._ending)

    async def _kept(self, run: list[str], talk: int) -> None:
        user = _USERS[0] + secrets.randbelow(_USERS[1] - _USERS[0]) if os.geteuid() == 0 else None
        order = {
            "run": run, "talk": talk, "profile": self._profile, "user": user, "memory": self._limits.memory,
        }  # fmt: skip
        keeper = self._keeper = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", _KEEPER,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL if self._errors is None else self._errors,
            env={"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1"},
            pass_fds=(talk,), start_new_session=True,
        )  # fmt: skip
        assert keeper.stdin is not None
        keeper.stdin.write(msgspec.json.encode(order) + b"\n")
        await keeper.stdin.drain()

    async def _ended(self) -> Report:
        if self._talk is not None:
            await self._talk.close()
        said = b""
        if self._keeper is not None:
            said = await self._left(self._keeper)
        if self._profile:
            await asyncio.to_thread(shutil.rmtree, self._profile, ignore_errors=True)
        with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
            return Report(**msgspec.json.decode(said, type=dict))
        return Report("ended", None, "")

    async def _left(self, keeper: asyncio.subprocess.Process) -> bytes:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        keeper.stdin.close()
        try:
            async with asyncio.timeout(_ENDING):
                said = await keeper.stdout.read()
                await keeper.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                keeper.kill()
            await keeper.wait()
            return b""
        return said


def _folder() -> str:
    """Where profiles are made: the system's place for such, or one by a shorter name."""
    place = tempfile.gettempdir()
    return place if len(place) <= _LONGEST or not os.access("/tmp", os.W_OK) else "/tmp"
