"""Files opened so that nothing between a folder and them leads elsewhere.

Each folder on the way is opened from the one above it, and no link is followed, so that it does not matter
who changes what meanwhile. Blocks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tabane.errors import BadArguments
from tabane.messages import Message, say

MOST_BYTES = 50 << 20
"""Bytes of a file that is read; a larger one is refused."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class FileBytes(NamedTuple):
    """A file that was read: if it is, its bytes, and its time in nanoseconds since 1970."""

    path: str
    data: bytes
    modified: int


class ReadableRoots:
    """The folders that assistants may have files read from. ``setting`` is where the person names them."""

    def __init__(
        self,
        allowed: Callable[[], Sequence[Path]],
        setting: str = "documents_roots",
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._allowed, self._setting, self._most = allowed, setting, most_bytes

    def read(self, path: str) -> FileBytes:
        """The file at an absolute path. Raises BadArguments that says why it is not read, and what to do."""
        roots = [os.path.abspath(os.path.expanduser(root)) for root in self._allowed()]
        real, root = self._place(path, roots)
        try:
            return read_beneath(root, os.path.relpath(real, root).split(os.sep), self._most)
        except OSError as error:
            raise _refused(unreadable(path, error)) from None

    def _place(self, path: str, roots: Sequence[str]) -> tuple[str, str]:
        """Where the path leads, and the allowed folder that is in; nothing outside of them is opened."""
        self._check_name(path, roots)
        path = os.path.normpath(os.path.expanduser(path))
        real_roots = [os.path.realpath(root) for root in roots]
        if not any(map(_is_below, [path] * len(roots) * 2, [*roots, *real_roots])):
            raise _refused(
                say(
                    "{path} is outside of the allowed folders: {roots}. Allow others with the setting "
                    "{setting}.",
                    path=path,
                    roots=", ".join(roots),
                    setting=self._setting,
                )
            )
        real = os.path.realpath(path)
        within = [root for root in real_roots if _is_below(real, root)]
        if not within:
            raise _refused(
                say(
                    "{path} is behind a symbolic link that leads out of the allowed folders. Put the "
                    "file itself there, or allow its folder in the setting {setting}.",
                    path=path,
                    setting=self._setting,
                )
            )
        return real, max(within, key=len)

    def _check_name(self, path: str, roots: Sequence[str]) -> None:
        if not roots:
            raise _refused(
                say(
                    "Assistants may not save files yet. Add the folders that they may read to the "
                    "setting {setting}.",
                    setting=self._setting,
                )
            )
        if "\0" in path:
            raise _refused(say("A path cannot contain NUL."))
        if ".." in path.split("/"):
            raise _refused(say('{path}: ".." is not allowed in a path. Write the direct path.', path=path))
        if not os.path.isabs(os.path.expanduser(path)):
            raise _refused(
                say("{path}: give the full path, in one of: {roots}", path=path, roots=", ".join(roots))
            )


def read_beneath(top: str, parts: Sequence[str], most_bytes: int = MOST_BYTES) -> FileBytes:
    """Return the file at ``parts`` below the folder ``top``, where no link is on the way.

    Raises :class:`~tabane.errors.BadArguments` that names what is no file, or too large; OSError.
    """
    path = os.path.join(top, *parts)
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            _check(os.stat(part, dir_fd=fd, follow_symlinks=False), path, folder=True)
            inner = os.open(part, _FOLDER, dir_fd=fd)
            os.close(fd)
            fd = inner
        _check(os.stat(parts[-1], dir_fd=fd, follow_symlinks=False), path)
        file = os.open(parts[-1], _FILE, dir_fd=fd)
    finally:
        os.close(fd)
    with open(file, "rb", buffering=0) as opened:
        found = os.fstat(file)
        _check(found, path)
        if found.st_size > most_bytes:
            raise _refused(too_large(path, found.st_size, most_bytes))
        data = _whole(opened.readinto, found.st_size, most_bytes)
        if len(data) > most_bytes:
            raise _refused(too_large(path, len(data), most_bytes))
    return FileBytes(path, data, found.st_mtime_ns)


def too_large(path: str, size: int, most: int) -> Message:
    return say(
        "{path} is too large: {size} bytes; the limit is {most}. Split it, or save its text in parts.",
        path=path,
        size=size,
        most=most,
    )


def unreadable(path: str, error: OSError) -> Message:
    """Return what is said of a file that the system does not give."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return say("{path} does not exist.", path=path)
    if isinstance(error, PermissionError):
        return say("You have no permission to read {path}. Check its permissions.", path=path)
    return say("{path} cannot be read: {detail}", path=path, detail=error.strerror or str(error))


def _whole(read_into: Callable[[memoryview], int | None], expected: int, most: int) -> bytes:
    """All that a file gives, which may have grown since it was looked at; one byte more than most at most."""
    data = bytearray(min(expected, most) + 1)
    done = 0
    while got := read_into(memoryview(data)[done:]):
        done += got
        if done == len(data):
            if done > most:
                break
            data.extend(bytes(min(len(data), most + 1 - len(data))))
    return bytes(memoryview(data)[:done])


def _check(found: os.stat_result, path: str, *, folder: bool = False) -> None:
    """Raises BadArguments that says what there is in place of a file, or of a folder on the way to it."""
    mode = found.st_mode
    if stat.S_ISLNK(mode):
        raise _refused(
            say(
                "{path} is or contains a symbolic link, which is not followed. Give the file that "
                "it points to.",
                path=path)
        )  # fmt: skip
    if stat.S_ISDIR(mode) if folder else stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise _refused(say("{path} is a folder. To add all of it: tabane docs add {path}", path=path))
    if folder:
        raise _refused(say("{path} does not exist.", path=path))
    names = (
        (stat.S_ISFIFO, say("{path} is a pipe (FIFO), not a file. Write its content to a file.", path=path)),
        (stat.S_ISSOCK, say("{path} is a socket, not a file.", path=path)),
    )
    for is_one, message in names:
        if is_one(mode):
            raise _refused(message)
    raise _refused(say("{path} is a device, not a file.", path=path))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def _refused(message: Message) -> BadArguments:
    return BadArguments(message, "path")
