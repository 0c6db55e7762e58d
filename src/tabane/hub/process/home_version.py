"""Version of a home in the file `version`, and room on its disk: what a hub needs before it writes there.

The file names the last build that used the home, and the format of its contents. A hub of an older version
does not start in a home that a newer one has used: it could misread the contents, and its own changes could
be lost. `format` increases when earlier builds can no longer read a home.

A reserve on the disk lets a hub start, read and delete when the disk is full.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tabane.build import newer, this_build
from tabane.errors import ConfigurationError, HubError
from tabane.messages import Message, say
from tabane.settings.files import read_trusted, write_private

log = logging.getLogger(__name__)

NAME = "version"
FORMAT = 1


class HomeStamp(msgspec.Struct, frozen=True):
    """``version`` is the name of a build (``0.2.0+g84d86c5``). Members of later formats are ignored."""

    format: int
    version: str


class HomeDowngrade(NamedTuple):
    """A home that a newer build has used."""

    home: str
    theirs: str

    @property
    def message(self) -> Message:
        """Sentence for the user, with the command that updates Tabane."""
        from tabane.extras import this_copy

        return say(
            "{home} was last used by Tabane {theirs}. This is Tabane {ours}, which is older, so it "
            "does not start there and changes nothing. Update Tabane ({command}), or set TABANE_HOME to "
            "another folder.",
            command=this_copy().update(),
            theirs=self.theirs,
            home=self.home,
            ours=this_build().name,
        )


def downgrade(home: str | os.PathLike[str]) -> HomeDowngrade | None:
    """Return the build that has used the home, if it was newer than this one; else None.

    Raises ConfigurationError if the stamp exists and cannot be read.
    """
    stamp = _read(home)
    if stamp is None or not (stamp.format > FORMAT or newer(stamp.version, this_build().version)):
        return None
    return HomeDowngrade(os.fspath(home), stamp.version)


def refuse_downgrade(home: str | os.PathLike[str]) -> None:
    """Raise HubError if a newer build has used the home, ConfigurationError if that cannot be known."""
    found = downgrade(home)
    if found is not None:
        raise HubError(found.message)


def write_stamp(home: str | os.PathLike[str]) -> None:
    """Record that this build uses the home. Call it with the lock held. Raises ConfigurationError."""
    mine = HomeStamp(FORMAT, this_build().name)
    if _read(home) == mine:
        return
    path = os.path.join(home, NAME)
    try:
        write_private(path, msgspec.json.encode(mine) + b"\n")
    except OSError as error:
        raise ConfigurationError(
            say("{path} cannot be written: {reason}.", path=path, reason=error.strerror)
        ) from None


def _read(home: str | os.PathLike[str]) -> HomeStamp | None:
    path = os.path.join(home, NAME)
    try:
        return msgspec.json.decode(read_trusted(path), type=HomeStamp)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeError):
        raise ConfigurationError(
            say(
                "{path} cannot be read, so the version of Tabane that used this folder is not known. If none "
                "was newer than {ours}, delete the file and start again.",
                path=path,
                ours=this_build().name,
            )
        ) from None


RESERVE = "reserve"
SIZE = 4 << 20

FULL = 1 << 20
"""Free bytes below which the disk counts as full."""

_LEAST = 256 << 10
"""Free bytes without which a database cannot delete."""

_ENOUGH, _LOW = 4 * SIZE, 1 << 30
"""Free bytes between which a reserve is made."""


def free_bytes(folder: Path) -> int | None:
    """Return how much a user may still write on the disk of a folder; None if that is not known."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


class DiskRoom:
    """The room on the disk of a home, whose reserve :meth:`look` makes or gives up. Blocks for a moment."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._was_full = False

    def look(self) -> None:
        """Make the reserve if there is little room left; give it up if the disk is full."""
        free = free_bytes(self._home)
        if free is None:
            return
        reserve = self._home / RESERVE
        if free >= _ENOUGH:
            self._was_full = False
            if free < _LOW:
                _make(reserve)
            elif free > 2 * _LOW and reserve.exists():
                reserve.unlink(missing_ok=True)
        elif free < FULL and not self._was_full:
            self._was_full = True
            self._give_up(reserve)
            log.error("%s", self.sentence())

    def _give_up(self, reserve: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            reserve.unlink()
            return
        for path in self._expendable():
            with contextlib.suppress(OSError):
                path.unlink()
                log.warning("removed to make room: %s", path)

    def _expendable(self) -> Iterator[Path]:
        """Yield rotated logs, and files that were put aside because they were damaged."""
        yield from self._home.glob("logs/*.log.[0-9]*")
        yield from self._home.glob("logs/servers/*.log.[0-9]*")
        yield from self._home.glob("*.broken")

    def problem(self) -> Message | None:
        """Return the sentence for people if the disk is full, None if it is not."""
        free = free_bytes(self._home)
        full = free is not None and (free < FULL or (self._was_full and free < SIZE + FULL))
        return self.sentence() if full else None

    def sentence(self) -> Message:
        """Return the sentence about a disk that is full, or nearly so."""
        if (free_bytes(self._home) or 0) < _LEAST:
            return say(
                "The disk that holds {home} is full. Reading works; nothing can be stored or deleted. Free "
                "some space there: no restart is needed.",
                home=self._home,
            )
        return say(
            "The disk that holds {home} is full. Reading and deleting work; new documents, posts and log "
            "entries may be lost. Free some space there: no restart is needed.",
            home=self._home,
        )


def _make(reserve: Path) -> None:
    """Make a reserve that takes space on the disk, unless there is one."""
    if reserve.exists():
        return
    try:
        with open(reserve, "xb") as file:
            os.fchmod(file.fileno(), 0o600)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, SIZE)
            else:
                file.write(bytes(SIZE))
    except OSError as error:
        log.debug("no reserve: %s", error)
        with contextlib.suppress(OSError):
            reserve.unlink()
