"""Files of parked calls that can go on after a restart of the hub, one for each, in the home.

A file has the id of the server's session, which is a secret: its mode is 0600.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path

import msgspec

from tabane.errors import StoreNewer
from tabane.messages import say
from tabane.settings.files import read_trusted
from tabane.upstreams.call import SessionPosition

log = logging.getLogger(__name__)

FOLDER = "parked-calls"
FORMAT = 1
"""Format of a file. Files of builds before 0.16 do not name theirs, which is this one."""

LONGEST = 1 << 20
"""Bytes of one file. A call with longer questions does not outlive the hub."""


class StoredQuestion(msgspec.Struct, frozen=True):
    """A question: its key for the client, the id of the server's request as JSON, and what it asks."""

    key: str
    request: str
    method: str
    params: msgspec.Raw


class StoredCall(msgspec.Struct, frozen=True):
    """A parked call. ``progress`` says whether its progress was asked for.

    ``format`` increases when earlier builds would misread a file.
    """

    id: str
    round: int
    count: int
    expires: float
    server: str
    fingerprint: str
    position: SessionPosition
    method: str
    progress: bool
    features: tuple[str, ...]
    questions: tuple[StoredQuestion, ...]
    format: int = FORMAT


class _FileHead(msgspec.Struct, frozen=True):
    """What files of every format have."""

    format: int = FORMAT


class ParkedFiles:
    """The files of a hub."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER
        self._tidied = False

    def has(self, name: str) -> bool:
        return self._path(name).exists()

    def write(self, call: StoredCall) -> None:
        """Keep a call. If that fails, it ends with the hub."""
        text = msgspec.json.encode(call)
        if len(text) > LONGEST:
            return
        part = self._path(f".{call.id}")
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._tidy()
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            with open(os.open(part, flags, 0o600), "wb") as file:
                file.write(text)
            os.replace(part, self._path(call.id))
        except OSError as error:
            log.warning("a parked call ends with the hub: %s cannot be written (%s)", part, error.strerror)

    def read(self, name: str) -> StoredCall | None:
        """Return a call, None if there is none. Blocks.

        Raises ConfigurationError if others can write it, and StoreNewer if a newer build wrote it.
        """
        path = self._path(name)
        try:
            text = read_trusted(path, LONGEST)
            head = msgspec.json.decode(text, type=_FileHead)
            if head.format > FORMAT:
                raise StoreNewer(
                    say(
                        "{path} was written by a newer Tabane (version {theirs}; this one supports "
                        "{ours}). Update Tabane",
                        path=path,
                        theirs=head.format,
                        ours=FORMAT,
                    )
                )
            return msgspec.json.decode(text, type=StoredCall)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def drop(self, name: str) -> None:
        with contextlib.suppress(OSError):
            self._path(name).unlink()

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _tidy(self) -> None:
        """Delete what earlier hubs have left, once. Nothing is parked for an hour."""
        if self._tidied:
            return
        self._tidied = True
        for path in self._folder.iterdir():
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < time.time() - 3600:
                    path.unlink()
