"""Scripts of a hub that wait for a person: their snapshots in the home, bounded, each used once.

A snapshot has values that tools returned, so its file has the mode 0600. It outlives the hub.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tabane.code.sandbox import LARGEST, LIFE, ScriptSnapshot, SnapshotRefused, packed, signed_by, unpacked
from tabane.errors import CallerError, ConfigurationError
from tabane.messages import say
from tabane.settings.files import read_trusted, write_private

FOLDER = "paused-scripts"

MOST = 64
"""Scripts that wait at the same time."""

MOST_BYTES = 64 << 20
"""Bytes of all that wait."""

_SLACK = 1 << 10  # of a file, above the snapshot itself


class PausedScripts:
    """Keeps snapshots. ``key`` returns the key that signs them, and makes it if there is none."""

    def __init__(self, home: Path, key: Callable[[], bytes]) -> None:
        self._folder, self._key = home / FOLDER, key
        self._sizes: dict[str, int] | None = None
        self._ends: dict[str, tuple[asyncio.TimerHandle, Callable[[], None]]] = {}

    @contextmanager
    def waiting(self, snapshot: ScriptSnapshot) -> Iterator[None]:
        """Have a script wait in memory during the block. Raises SnapshotRefused if too much waits."""
        sizes = self._known()
        size = len(snapshot.run.state) + len(snapshot.run.printed) + len(snapshot.code)
        self._take_room(snapshot.script, size)
        try:
            yield
        finally:
            sizes.pop(snapshot.script, None)

    async def keep(self, snapshot: ScriptSnapshot, versions: str, expired: Callable[[], None]) -> None:
        """Write a snapshot. ``expired`` is called if nobody takes it in time. Raises SnapshotRefused."""
        script, sign = snapshot.script, signed_by(self._key())
        text = await asyncio.to_thread(packed, snapshot, versions, sign)
        self._known()
        self._take_room(script, len(text))
        try:
            await asyncio.to_thread(self._write, script, text)
        except OSError as error:
            self._forget(script)
            raise SnapshotRefused(f"its snapshot cannot be written ({error.strerror})") from None
        loop = asyncio.get_running_loop()
        self._ends[script] = loop.call_later(LIFE, self._expire, script), expired

    async def read(self, script: str, versions: str, holder: str) -> ScriptSnapshot:
        """Return the snapshot of a script, which keeps waiting. Raises CallerError."""
        try:
            text = await asyncio.to_thread(read_trusted, self._path(script), LARGEST + _SLACK)
            sign = signed_by(self._key())
            return await asyncio.to_thread(unpacked, text, versions, sign, holder, time.time())
        except FileNotFoundError:
            raise CallerError(
                say("The script that asked this does not wait any more. Run it again as a new request.")
            ) from None
        except (SnapshotRefused, ConfigurationError, OSError) as error:
            self.drop(script)
            raise CallerError(
                say(
                    "The script cannot go on: {why}. Calls that it made may have taken effect. Run it again "
                    "as a new request.",
                    why=str(error),
                )
            ) from None

    def take(self, script: str) -> bool:
        """Take a script out, so that nobody else goes on with it. Return whether it was still there."""
        try:
            self._path(script).unlink()
        except OSError:
            return False
        self._forget(script)
        return True

    def drop(self, script: str) -> None:
        """Forget a script."""
        with contextlib.suppress(OSError):
            self._path(script).unlink()
        self._forget(script)

    def close(self) -> None:
        """Leave the files to the next hub."""
        for timer, _ in self._ends.values():
            timer.cancel()
        self._ends.clear()

    # -- bounds --------------------------------------------------------------------------------------

    def _known(self) -> dict[str, int]:
        """Return the sizes of all that waits. Files that are too old are deleted first."""
        if self._sizes is None:
            self._sizes = {}
            with contextlib.suppress(OSError):
                for path in self._folder.iterdir():
                    found = path.stat()
                    if found.st_mtime < time.time() - LIFE:
                        path.unlink()
                    else:
                        self._sizes[path.stem] = found.st_size
        return self._sizes

    def _take_room(self, script: str, size: int) -> None:
        sizes = self._known()
        if size > LARGEST:
            raise SnapshotRefused(f"it keeps {size >> 10} KiB of values, and {LARGEST >> 10} KiB can wait")
        if len(sizes) >= MOST or sum(sizes.values()) + size > MOST_BYTES:
            raise SnapshotRefused("too many scripts wait for a person. Approve or refuse some of them first")
        sizes[script] = size

    def _forget(self, script: str) -> None:
        self._known().pop(script, None)
        if (end := self._ends.pop(script, None)) is not None:
            end[0].cancel()

    def _expire(self, script: str) -> None:
        _, expired = self._ends[script]
        if self.take(script):
            expired()

    # -- files ---------------------------------------------------------------------------------------

    def _path(self, script: str) -> Path:
        return self._folder / f"{script}.snapshot"

    def _write(self, script: str, text: bytes) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        write_private(self._path(script), text, synced=False)
