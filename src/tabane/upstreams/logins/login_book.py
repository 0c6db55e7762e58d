"""All logins of a hub in memory, each change on disk before it counts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tabane.errors import TabaneError
from tabane.messages import Message
from tabane.upstreams.logins.login_file import LoginFile

if TYPE_CHECKING:
    from tabane.upstreams.logins.kept_login import KeptLogin


log = logging.getLogger(__name__)


class LoginBook:
    """Logins by the names of their servers. Until :meth:`ready` has returned, there are none."""

    def __init__(self, file: LoginFile) -> None:
        self._file = file
        self._logins: dict[str, KeptLogin] = {}
        self._reading: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self.problem: Message | None = None
        """Why the file could not be read or written the last time; None if it could."""

    @property
    def is_ready(self) -> bool:
        """Return whether the file was read."""
        return self._reading is not None and self._reading.done()

    async def ready(self) -> None:
        """Wait until the file was read. A file that cannot be read counts as empty."""
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read())
        if not self._reading.done():
            await asyncio.shield(self._reading)

    async def _read(self) -> None:
        try:
            self._logins = await asyncio.to_thread(self._file.read)
        except TabaneError as error:
            self.problem = error.message
            log.error("logins are not available: %s", error)

    def get(self, name: str) -> KeptLogin | None:
        """Return the login at a server; None if there is none."""
        return self._logins.get(name)

    def names(self) -> Iterable[str]:
        return tuple(self._logins)

    async def put(self, name: str, login: KeptLogin | None) -> None:
        """Replace or remove a login. It is used even if it cannot be written, which is logged."""
        await self.ready()
        async with self._turn:
            if self._logins.get(name) == login:
                return
            if login is None:
                del self._logins[name]
            else:
                self._logins[name] = login
            await self._write(dict(self._logins), name)

    async def _write(self, logins: Mapping[str, KeptLogin], name: str) -> None:
        try:
            # Shielded: who gives up waiting must not stop it half way, with the next one already under way.
            await asyncio.shield(asyncio.to_thread(self._file.write, logins, name))
            self.problem = None
        except TabaneError as error:
            self.problem = error.message
            log.error("the login at %s is lost at the end of this hub: %s", name, error)
