"""Paths of the hub of a TABANE_HOME: socket, lock, logs, and dumps of hubs that stopped responding.

The bridge loads this before anything else, so it uses only the standard library. The home is the same as
in :mod:`tabane.settings`; a test compares the two.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections.abc import Mapping
from typing import NamedTuple

from tabane.hub.local.lock import read_holder

MAX_SOCKET_PATH = 103
"""Bytes of a Unix socket's path: 104 with the final NUL on macOS, 108 on Linux."""


class UnsafeEndpoint(OSError):
    """A folder that a socket should lie in may be another user's."""


class Endpoint:
    """The files by which the hub of one home is reached. ``home`` is absolute."""

    def __init__(self, home: str, environ: Mapping[str, str]) -> None:
        self.home = home
        self.lock = os.path.join(home, "hub.lock")
        self.logs = os.path.join(home, "logs")
        self.log = os.path.join(self.logs, "hub.log")
        self.last_words = os.path.join(self.logs, "hub.stderr")
        self._environ = environ

    @property
    def socket(self) -> str:
        """Return the path of the hub's socket: in the home, or if that is too long, in a private folder."""
        path = os.path.join(self.home, "hub.sock")
        if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
            return path
        return os.path.join(self.elsewhere, "hub.sock")

    @property
    def elsewhere(self) -> str:
        """Return the folder for a socket that does not fit in the home; its name has user and home."""
        name = f"tabane-{os.getuid()}-{_short(os.path.realpath(self.home))}"
        for base in (self._environ.get("XDG_RUNTIME_DIR"), self._environ.get("TMPDIR"), "/tmp"):
            if base and os.path.isabs(base):
                folder = os.path.join(base, name)
                if len(os.fsencode(folder)) + len("/hub.sock") <= MAX_SOCKET_PATH:
                    return folder
        return os.path.join("/tmp", name)

    def prepare(self) -> str:
        """Make the folders, private to the user, and return the socket's path.

        Raises :class:`UnsafeEndpoint` if a folder outside the home is not private, and OSError.
        """
        os.makedirs(self.home, mode=0o700, exist_ok=True)
        os.makedirs(self.logs, mode=0o700, exist_ok=True)
        path = self.socket
        if os.path.dirname(path) != self.home:
            folder = os.path.dirname(path)
            try:
                os.mkdir(folder, 0o700)
            except FileExistsError:
                check_private(folder)
        return path

    def reachable(self) -> str:
        """Return the socket's path for a client. Raises :class:`UnsafeEndpoint` if its folder is not safe."""
        path = self.socket
        if os.path.dirname(path) == self.home:
            return path
        # The hub may have been started in another environment, with another folder for such things.
        holder = read_holder(self.lock)
        path = holder.socket if holder and holder.socket else path
        if os.path.lexists(os.path.dirname(path)):
            check_private(os.path.dirname(path))
        return path


def home_of(environ: Mapping[str, str], flag: str | None = None) -> str:
    """Return TABANE_HOME: the flag, the variable, or the platform's data folder; absolute."""
    home = flag or environ.get("TABANE_HOME")
    if not home:
        return _data_folder(environ)
    return absolute(home, environ)


def at_url(url: str, environ: Mapping[str, str]) -> Endpoint:
    """Return the endpoint of ``unix:/path``: the TABANE_HOME of another hub on this machine, or its socket.

    Raises ValueError for any other kind of address.
    """
    scheme, _, path = url.partition(":")
    if scheme != "unix" or not path:
        raise ValueError(url)
    home = absolute("/" + path.lstrip("/") if path.startswith("//") else path, environ)
    return Endpoint(os.path.dirname(home) if home.endswith("/hub.sock") else home, environ)


def absolute(path: str, environ: Mapping[str, str]) -> str:
    """Return a path as settings read it: ``~`` is HOME, others are relative to the working directory."""
    if path == "~" or path.startswith("~/"):
        path = (environ.get("HOME") or os.path.expanduser("~")) + path[1:]
    return os.path.normpath(path if os.path.isabs(path) else os.path.join(here(), path))


def here() -> str:
    """Return the working directory; the root if it was deleted while this process runs."""
    try:
        return os.getcwd()
    except OSError:
        return "/"


def check_private(folder: str) -> None:
    """Raise :class:`UnsafeEndpoint` unless ``folder`` is a folder of this user and closed to others."""
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise UnsafeEndpoint(f"{folder} is not a folder of this user alone")


def _data_folder(environ: Mapping[str, str]) -> str:
    # What platformdirs answers, without the five milliseconds of importing it.
    given = environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(given):
        return os.path.join(given, "tabane")
    folder = "Library/Application Support" if sys.platform == "darwin" else ".local/share"
    return os.path.join(os.path.expanduser("~"), folder, "tabane")


def _short(text: str) -> str:
    # FNV-1a, 64 bits: names a folder, guards nothing. hashlib would cost the bridge 4 MB.
    value = 0xCBF29CE484222325
    for byte in os.fsencode(text):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


KEPT = 3
"""Number of dumps that are kept; older ones are deleted at startup."""

LIMIT = 64 << 10
"""Bytes of a dump that are read. 100 threads of 100 frames are more than any hub has."""

_NAME = re.compile(r"stuck-([0-9]{1,10})\.txt")


class HangDump(NamedTuple):
    """The stacks of a hub that stopped responding: its process, the file, and when it was written."""

    pid: int
    path: str
    written: float

    def text(self) -> str:
        """Return the stacks as text. Raises OSError."""
        with open(self.path, "rb") as file:
            return file.read(LIMIT).decode("utf-8", "replace").strip()


def file_of(logs: str, pid: int) -> str:
    """Return the path of the dump of one process."""
    return os.path.join(logs, f"stuck-{pid}.txt")


def was_stuck(logs: str, pid: int) -> bool:
    """Return whether that hub stopped responding and was ended by its watchdog."""
    try:
        return os.stat(file_of(logs, pid)).st_size > 0
    except OSError:
        return False


def dumps(logs: str) -> list[HangDump]:
    """Return the dumps in a folder, the newest first."""
    found = []
    with contextlib.suppress(OSError), os.scandir(logs) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            with contextlib.suppress(OSError):
                if match and entry.stat(follow_symlinks=False).st_size:
                    written = entry.stat(follow_symlinks=False).st_mtime
                    found.append(HangDump(int(match[1]), entry.path, written))
    return sorted(found, key=lambda dump: dump.written, reverse=True)


def tidy(logs: str) -> None:
    """Delete the files of hubs that ended otherwise, and all dumps but the newest.

    Only the holder of the home's lock may call it: the file of a running hub is empty.
    """
    kept = {dump.path for dump in dumps(logs)[:KEPT]}
    with contextlib.suppress(OSError), os.scandir(logs) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name) and entry.path not in kept:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
