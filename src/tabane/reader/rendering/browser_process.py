"""The browser process of one page, with a new profile that is deleted at its end."""

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
from tabane.reader.fetching.interface import FetchedResource, Policy, Resolver
from tabane.reader.fetching.network import GuardedNetworkBackend, Source
from tabane.reader.fetching.network import source as local_address
from tabane.reader.guard import Guard
from tabane.reader.rendering.chromium import (
    BrowserGone,
    DevToolsConnection,
    DevToolsError,
    RenderLimits,
    flags,
)
from tabane.reader.rendering.egress_proxy import EgressProxy
from tabane.reader.rendering.page_visit import PageVisit


class RenderedPage:
    """A page under one policy. To be shown once; :meth:`end` may come at any time."""

    def __init__(
        self,
        policy: Policy,
        limits: RenderLimits,
        resolve: Resolver,
        source: Source | None,
        errors: int | None,
    ) -> None:
        self._policy, self._limits = policy, limits
        self._guard = Guard(policy.allowed, policy.ports)
        self._network = GuardedNetworkBackend(self._guard, resolve, source or local_address)
        self._browser = BrowserProcess(limits, errors)

    async def shown(self, program: str, url: str, *, sandbox: bool, scrolls: int = 0) -> FetchedResource:
        """Return the page as HTML, after it was scrolled by that many screens. Raises ReadError."""
        if self._policy.proxy:
            raise ReadError(
                say("pages that are fetched through a proxy (the setting reader_proxy) are not rendered."),
                "way",
            )
        at = self._guard.target(url).url
        try:
            async with (
                asyncio.timeout(self._limits.seconds) as limit,
                EgressProxy(self._guard, self._network, self._limits, self._policy.connect_timeout) as gate,
            ):
                talk = await self._browser.start(
                    program,
                    lambda profile: flags(
                        profile, gate.name, gate.port, self._policy.user_agent, sandbox=sandbox
                    ),
                )
                visit = PageVisit(talk, gate, self._guard, self._limits)
                try:
                    await talk.ask("Browser.getVersion")
                except (BrowserGone, DevToolsError):
                    raise _start_error(await self._browser.end()) from None
                try:
                    return await visit.go(at, scrolls)
                except BrowserGone:
                    raise _ended(await self._browser.end(), visit.crashed) from None
        except TimeoutError:
            if not limit.expired():
                raise
            raise ReadError(
                say("rendering took more than {seconds:g} s and was stopped.", seconds=self._limits.seconds),
                "timeout",
            ) from None
        finally:
            await self.end()

    async def end(self) -> None:
        """End the browser, if there is one."""
        await self._browser.end()


def _start_error(report: BrowserExit) -> ReadError:
    """Return why it never answered."""
    if "usable sandbox" in report.said:
        return ReadError(
            say(
                "the browser has no sandbox on this system, so it is not used. Allow user "
                "namespaces, or, if the hub as a whole is isolated, set reader_render to "
                "unsandboxed."
            ),
            "way",
        )
    lines = [line for line in report.said.splitlines() if line.strip()]
    fatal = [line for line in lines if "FATAL" in line]
    reason = (fatal or lines or [report.why])[-1][:300].rstrip(".")
    return ReadError(say("the browser cannot be started: {reason}.", reason=reason), "way")


def _ended(report: BrowserExit, crashed: bool) -> ReadError:
    if report.why == "memory":
        return ReadError(say("the page needs more memory than the browser may use for one page."), "large")
    if crashed:
        return ReadError(say("the page's scripts made the browser crash."), "broken")
    return ReadError(say("the browser ended before it showed the page."), "broken")


_KEEPER = str(Path(__file__).with_name("browser_watchdog.py"))
_ENDING = 15.0  # seconds
_USERS = (61_184, 65_519)  # those that no person has: systemd hands them out for a service's time


_LONGEST = 40  # characters of the folder that profiles are in: sockets in them have names of 104 at most


class BrowserExit(NamedTuple):
    """Why a browser ended: asked, memory, ended, unstarted; and the end of its stderr."""

    why: str
    status: int | None
    said: str


class BrowserProcess:
    """A browser and its watchdog process. ``errors`` is the descriptor for the stderr of the watchdog.

    Root never runs it as root: each browser gets its own user without rights, for which the browser's sandbox
    works as usual.
    """

    def __init__(self, limits: RenderLimits, errors: int | None = None) -> None:
        self._limits, self._errors = limits, errors
        self._keeper: asyncio.subprocess.Process | None = None
        self._profile = ""
        self._talk: DevToolsConnection | None = None
        self._ending: asyncio.Task[BrowserExit] | None = None

    async def start(self, program: str, arguments: Callable[[str], list[str]]) -> DevToolsConnection:
        """Start it. ``arguments`` are made for the folder of its profile. Raises ReadError."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                # The folder of the system for temporary files, or one with a shorter path.
                place = tempfile.gettempdir()
                self._profile = await asyncio.to_thread(
                    tempfile.mkdtemp,
                    prefix="tabane-page-",
                    dir=(place if len(place) <= _LONGEST or not os.access("/tmp", os.W_OK) else "/tmp"),
                )
                await self._start_keeper([program, *arguments(self._profile)], theirs.fileno())
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
        self._talk = DevToolsConnection(*await asyncio.open_connection(sock=ours, limit=longest))
        return self._talk

    async def end(self) -> BrowserExit:
        """End the browser. It may be called repeatedly, and completes even if a caller is canceled."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._ended())
        return await asyncio.shield(self._ending)

    async def _start_keeper(self, run: list[str], talk: int) -> None:
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

    async def _ended(self) -> BrowserExit:
        if self._talk is not None:
            await self._talk.close()
        said = b""
        if self._keeper is not None:
            said = await self._read_report(self._keeper)
        if self._profile:
            await asyncio.to_thread(shutil.rmtree, self._profile, ignore_errors=True)
        with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
            return BrowserExit(**msgspec.json.decode(said, type=dict))
        return BrowserExit("ended", None, "")

    async def _read_report(self, keeper: asyncio.subprocess.Process) -> bytes:
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
