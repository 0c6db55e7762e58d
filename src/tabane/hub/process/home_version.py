"""Version of a home, in the file `version`: the last build that used it, and the format of its contents.

A hub of an older version does not start in a home that a newer one has used: it could misread the contents,
and its own changes could be lost. `format` increases when earlier builds can no longer read a home.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import msgspec

from tabane.build import this_build
from tabane.errors import ConfigurationError, HubError
from tabane.hub.local.handshake import newer
from tabane.messages import Message, say
from tabane.settings.files import read_trusted, write_private

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
