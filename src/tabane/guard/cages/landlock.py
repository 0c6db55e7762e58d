"""Landlock, the kernel's own rules for one process and all that it starts (Linux 5.13 and later).

A ruleset names the rights that it takes away, and the folders where they remain. It cannot take a right away
below a folder where another rule grants it, so a protected folder is left out by granting everything around
it. Everything here runs in the keeper's child between fork and exec, with the standard library alone.
Numbers: Linux, include/uapi/linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
_OPEN, _HERE, _NO_LINKS = 437, -100, 0x04
_VERSION, _PATH_BENEATH = 1, 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

READ = EXECUTE | READ_FILE | READ_DIR
WRITE = WRITE_FILE | (0b1111_1111 << 4 | 1 << 12) & ~(MAKE_CHAR | MAKE_BLOCK) | REFER | TRUNCATE
DEVICES = MAKE_CHAR | MAKE_BLOCK
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""Rights that a rule for something other than a folder may grant."""

SCOPES = 0b11
"""Abstract Unix sockets and signals of processes outside (ABI 6)."""

LEAST_ABI = 3
"""The first version that stops files from being shortened. Below it, Landlock alone protects too little."""

MOST_RULES = 20_000


def abi(syscall: Callable[..., int]) -> int:
    """Return the version of Landlock that the kernel enforces; 0 for none."""
    return max(0, syscall(CREATE_RULESET, None, 0, _VERSION))


def handled(version: int) -> int:
    """Return the rights to files that a ruleset of this version can take away, and this room does."""
    rights = READ | WRITE | DEVICES | IOCTL_DEV
    if version < 5:
        rights &= ~IOCTL_DEV
    if version < 3:
        rights &= ~TRUNCATE
    return rights & ~REFER if version < 2 else rights


def around(folder: bytes, hidden: Collection[bytes]) -> Iterator[bytes]:
    """Yield what together is all below ``folder``, without the ``hidden`` paths (real ones).

    Files that are created later directly in a folder above a hidden path are not among it.
    """
    if folder in hidden:
        return
    inside = folder.rstrip(b"/") + b"/"
    if not any(path.startswith(inside) for path in hidden):
        yield folder
        return
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        path = inside + name
        if not os.path.islink(path):
            yield from around(path, hidden)


def system_error() -> OSError:
    """Return the error of the last system call through ctypes."""
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def open_real(syscall: Callable[..., int], path: bytes, flags: int) -> int:
    """Return a descriptor of what is at a path (openat2). Raises OSError, ELOOP if a link is in the path."""
    how = b"".join(field.to_bytes(8, "little") for field in (os.O_PATH | flags, 0, _NO_LINKS))
    opened = syscall(_OPEN, _HERE, path, how, len(how))
    if opened < 0:
        raise system_error()
    return opened


class Ruleset:
    """A ruleset that is being made. Raises OSError where the kernel refuses."""

    def __init__(self, syscall: Callable[..., int], version: int) -> None:
        self._syscall, self._version = syscall, version
        self._count = 0
        self._fd = -1

    def create(self, files: bool) -> None:
        """Create it: for scopes, and for files too if ``files``."""
        rights = handled(self._version) if files else 0
        scopes = SCOPES if self._version >= 6 else 0
        fields = (
            [rights, 0, scopes] if self._version >= 6 else [rights, 0] if self._version >= 4 else [rights]
        )
        data = b"".join(field.to_bytes(8, "little") for field in fields)
        self._fd = self._syscall(CREATE_RULESET, data, len(data), 0)
        if self._fd < 0:
            raise system_error()

    def allow(self, path: bytes, rights: int) -> None:
        """Grant rights at a path and below. One that does not exist or may not be opened is left out.

        The path is a real one: a link that has come into it meanwhile raises OSError.
        """
        self._count += 1
        if self._count > MOST_RULES:
            raise OSError(7, "", "rules")
        try:
            opened = open_real(self._syscall, path, os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise
            return
        try:
            rights &= handled(self._version)
            if not stat.S_ISDIR(os.fstat(opened).st_mode):
                rights &= OF_FILES
            data = rights.to_bytes(8, "little") + opened.to_bytes(4, "little")
            if rights and self._syscall(ADD_RULE, self._fd, _PATH_BENEATH, data, 0) != 0:
                raise system_error()
        finally:
            os.close(opened)

    def restrict(self) -> None:
        """Put it in force for this process and its descendants, for good."""
        if self._syscall(RESTRICT_SELF, self._fd, 0) != 0:
            raise system_error()
        os.close(self._fd)
