"""Another build of Tabane in the place of this one: an installer replaced the files of a hub that runs.

``uv tool upgrade``, ``pipx upgrade`` and ``pip install -U`` replace an environment in place. From the first
removed file on, a hub imports none of its modules any more, since modules of two builds do not fit together.
As soon as the other build is complete and starts, the hub gives way to it. Until then, a request that needs
a module waits here; a bridge, or a command, then sends it to the next hub.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from glob import escape, glob
from math import inf
from types import ModuleType
from typing import TYPE_CHECKING

from tabane.build import Build, is_checkout, newer, on_disk, this_build, was_replaced

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

log = logging.getLogger(__name__)

LOOK = 0.25
"""Seconds between two looks at the files of a package that is being replaced."""

LIMIT = 30.0
"""Seconds in which a package has to be complete. Then the hub goes on until the files change again."""

TRIAL = 120.0
"""Seconds that the other build has to import what a hub needs, on a machine that is busy with the update."""

AGAIN = 30.0
"""Seconds until a build is tried again that was not complete or did not start."""


class CodeReplacement:
    """Follows the files of the package, once :meth:`give_way` was called.

    A checkout is not followed: its user changes it, and restarts the hub. Nor is an older build, which would
    not start in a home that this one has used.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._on_ready: Callable[[], None] | None = None
        self._trial: tuple[str, ...] = ()
        self.awaited = 0
        """Requests that wait until another hub can answer them."""
        self._following: asyncio.Task[bool] | None = None
        self._rejected: Build | None = None
        self._not_before = 0.0

    def give_way(self, on_ready: Callable[[], None], *trial: str) -> None:
        """Call ``on_ready`` once, when the build there can take over.

        ``trial`` are the arguments of `tabane` that import all that a hub needs, and end.
        """
        self._on_ready, self._trial = on_ready, trial

    @property
    def replaced(self) -> bool:
        """Whether another build is where the code of this process was, so that it can become that build."""
        return self._follows() and was_replaced()

    def look(self) -> None:
        """Look whether the files were replaced, and follow them then. Takes some microseconds."""
        if self.replaced and not self._is_rejected():
            self._follow()

    async def takes_over(self) -> bool:
        """Wait until the other build can take over; return False if it cannot. Then the hub goes on."""
        if not self._follows() or self._is_rejected():
            return False
        self.awaited += 1
        try:
            return await asyncio.shield(self._follow())
        finally:
            self.awaited -= 1

    def _follows(self) -> bool:
        return self._on_ready is not None and not is_checkout(this_build().code)

    def _is_rejected(self) -> bool:
        return on_disk() == self._rejected and self._loop.time() < self._not_before

    def _reject(self, build: Build, seconds: float) -> bool:
        """Go on without that build, for so long or until the files change."""
        self._rejected, self._not_before = build, self._loop.time() + seconds
        log.warning("this hub does not give way to Tabane %s, which is installed now", build.name)
        return False

    def _follow(self) -> asyncio.Task[bool]:
        if self._following is None or (self._following.done() and not self._following.result()):
            self._following = self._loop.create_task(self._await_build())
        return self._following

    async def _await_build(self) -> bool:
        """Wait until a newer build is complete and starts. Return False if that does not happen."""
        log.info("the files of Tabane are being replaced")
        last, deadline = None, self._loop.time() + LIMIT
        while self._loop.time() < deadline:
            await asyncio.sleep(LOOK)
            found = on_disk()
            if found == last and _is_complete(found):
                if newer(this_build().version, found.version):
                    return self._reject(found, inf)
                if await _starts(self._trial) and on_disk() == found:
                    log.info("Tabane %s takes over", found.name)
                    assert self._on_ready is not None
                    self._on_ready()
                    return True
            last = found
        return self._reject(on_disk(), AGAIN)


def _is_complete(build: Build) -> bool:
    """Return whether everything of a package is there: installers write the list of its files last."""
    recorded = glob(os.path.join(escape(os.path.dirname(build.code)), "tabane-*.dist-info"))
    return bool(build.version) and all(os.path.exists(os.path.join(one, "RECORD")) for one in recorded)


async def _starts(trial: Sequence[str]) -> bool:
    """Return whether a new process can import what a hub needs, with the packages that are there now."""
    try:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-m", "tabane", *trial),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=2,
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(TRIAL):
            return await child.wait() == 0
    except TimeoutError:
        child.kill()
        await child.wait()
        return False


class CodeGuard:
    """Finder of modules that finds none of Tabane's after its files were replaced, until it is ``lifted``."""

    lifted = False

    def install(self) -> None:
        """Ask this finder before all others from now on."""
        if not is_checkout(this_build().code):
            sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return None, so that the next finder is asked. Raises ModuleNotFoundError if code was replaced."""
        if fullname.startswith("tabane.") and not self.lifted and was_replaced():
            raise ModuleNotFoundError(f"{fullname} is of another build of Tabane", name=fullname)
        return None
