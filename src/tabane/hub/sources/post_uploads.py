"""Files of posts that a person sends to the hub, kept in a private folder until their import is over.

Each upload has a folder of its own below ``uploads`` in the home. It is removed after the import, after a
failure, and at the next start if the hub died. Lists of an archive of X (``tweets.js``) are kept as in the
unpacked archive, because an import reads them together.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from tabane.cancellation import run_to_end
from tabane.errors import BadArguments, Conflict, HubError, UnknownName
from tabane.messages import Message, say
from tabane.settings.files import private_folder
from tabane.text.units import bytes_text

MOST = 20_000_000_000
"""Bytes of the files of one upload."""

MOST_FILES = 500

RESERVE = 1_000_000_000
"""Bytes of the disk that an upload leaves free."""

MOST_HEAD = 512 << 10
"""Bytes of the line that names the files."""

BLOCK = 1 << 20
"""Bytes that are written at once."""

_LISTS = "archive"  # the folder of the lists of an archive of X, in that of an upload
_FULL = (errno.ENOSPC, errno.EDQUOT)


class SentFile(Struct, frozen=True, array_like=True):
    """A file of an upload: its name without folders, and its bytes."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    size: Annotated[int, Meta(ge=0)]


class PostUploads:
    """The uploads of a hub. One is received at a time; others may wait for their import."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._receiving = False

    def sweep(self) -> None:
        """Remove what a hub has left that died."""
        if self._folder.exists():
            shutil.rmtree(self._folder, ignore_errors=True)

    def problem(self, size: int) -> Message | None:
        """Return why files of so many bytes are not accepted now; None if they are."""
        if size > MOST:
            return say(
                "The files have {size} together; at most {most} are accepted. Of an archive of X, the folder "
                "“data” is enough: unpack the zip, and choose or drop the files tweets.js and like.js.",
                size=bytes_text(size),
                most=bytes_text(MOST),
            )
        if self._receiving:
            return say("Another upload is under way. Try again when it has ended.")
        free = shutil.disk_usage(self._folder.parent).free
        if free < size + RESERVE:
            return say(
                "The disk of the hub has too little space: {free} are free, and {needed} are needed. Free "
                "some space, and try again.",
                free=bytes_text(free),
                needed=bytes_text(size + RESERVE),
            )
        return None

    async def receive(self, body: AsyncIterator[bytes]) -> tuple[str, list[str]]:
        """Store the files of a body. Return the id of the upload, and the names of the files.

        The body is one line of JSON, ``[[name, bytes], …]``, and then the files one after the other. Raises
        TabaneError if they are not accepted, and whatever ``body`` raises. Then nothing is left of them.
        """
        reading = _BodyReader(body)
        files = _checked_files(await reading.line())
        if problem := self.problem(sum(file.size for file in files)):
            raise Conflict(problem) if self._receiving else HubError(problem)
        self._receiving, upload = True, os.urandom(16).hex()
        try:
            await asyncio.to_thread(self._make_folder, upload, files)
            for file in files:
                opened = os.open(
                    _path_of(self._folder / upload, file.name),
                    os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
                    0o600,
                )
                with io.FileIO(opened, "wb") as target:
                    async for block in reading.blocks(file.size):
                        # To its end, also if the upload is canceled: the file must not be closed before.
                        await run_to_end(asyncio.to_thread(_write_whole, target, block))
            await reading.end()
        except BaseException as error:
            await self.remove(upload)
            if isinstance(error, OSError):
                raise _failure(error) from error
            raise
        finally:
            self._receiving = False
        return upload, [file.name for file in files]

    def paths(self, upload: str, names: Sequence[str]) -> list[str]:
        """Return what an import reads: the files, and the folder of lists. Raises UnknownName."""
        folder = self.folder(upload)
        plain = [name for name in names if name == os.path.basename(name)]
        found = {str(path) for name in plain if (path := _path_of(folder, name)).is_file()}
        if not found or len(found) < len(names):
            raise UnknownName(say("The uploaded files are no longer there. Choose them again."))
        lists = str(folder / _LISTS) + os.sep
        others = sorted(path for path in found if not path.startswith(lists))
        return [*others, *([lists.rstrip(os.sep)] if len(others) < len(found) else ())]

    @contextlib.contextmanager
    def short_errors(self, upload: str) -> Iterator[None]:
        """Name files in errors as the person knows them, without the folder of the upload."""
        try:
            yield
        except (BadArguments, UnknownName) as error:
            fields = {
                name: self.short_name(upload, text) if isinstance(text, str) else text
                for name, text in error.message.fields.items()
            }
            error.message = Message(error.message.template, **fields)
            raise

    def short_name(self, upload: str, text: str) -> str:
        """Return a path without the folder of the upload."""
        folder = self.folder(upload)
        for prefix in (folder / _LISTS / "data", folder / _LISTS, folder):
            text = text.replace(f"{prefix}{os.sep}", "")
        return text

    def folder(self, upload: str) -> Path:
        """Return the folder of an upload."""
        return self._folder / upload

    async def remove(self, upload: str) -> None:
        """Remove an upload, also if whoever asks for it is canceled meanwhile."""
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, self.folder(upload), True))

    def _make_folder(self, upload: str, files: Sequence[SentFile]) -> None:
        private_folder(self._folder, parents=False)
        private_folder(self.folder(upload), parents=False)
        lists = _path_of(self.folder(upload), ".js").parent
        if any(_path_of(self.folder(upload), file.name).parent == lists for file in files):
            private_folder(lists.parent, parents=False)
            private_folder(lists, parents=False)


def _write_whole(file: io.FileIO, block: bytes) -> None:
    """Write a block. One write may take only a part of it, such as when the disk becomes full."""
    left = memoryview(block)
    while left:
        left = left[file.write(left) :]


class _BodyReader:
    """Reads a body in lines and blocks of a known size, whatever its parts are."""

    def __init__(self, body: AsyncIterator[bytes]) -> None:
        self._body, self._buffer = body, bytearray()

    async def line(self) -> bytes:
        """Return the first line. Raises BadArguments if it is too long."""
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > MOST_HEAD:
                raise BadArguments(say("The list of the files is too long."))
            await self._read_part()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    async def blocks(self, size: int) -> AsyncIterator[bytes]:
        """Yield the next ``size`` bytes in blocks. Raises BadArguments if there are fewer."""
        while size:
            while len(self._buffer) < min(size, BLOCK):
                await self._read_part()
            block = bytes(self._buffer[: min(size, BLOCK)])
            del self._buffer[: len(block)]
            size -= len(block)
            yield block

    async def end(self) -> None:
        """Raise BadArguments if there is anything more."""
        rest = bool(self._buffer)
        async for part in self._body:
            rest = rest or bool(part)
            if rest:
                break
        if rest:
            raise BadArguments(say("A file has changed while it was sent. Choose it again."))

    async def _read_part(self) -> None:
        part = await anext(self._body, None)
        if part is None:
            raise BadArguments(say("The upload ended too early. Choose the files again."))
        self._buffer += part


def _checked_files(line: bytes) -> list[SentFile]:
    """Return the files that a body names. Raises BadArguments."""
    try:
        files = msgspec.json.decode(line, type=list[SentFile])
    except msgspec.MsgspecError as error:
        raise BadArguments(say("The form cannot be read: {reason}", reason=error)) from None
    names = [file.name for file in files]
    if not 0 < len(names) <= MOST_FILES or len(set(names)) < len(names):
        raise BadArguments(
            say("Choose 1 to {most} {most:file|files}, each with a name of its own.", most=MOST_FILES),
            "files",
        )
    for name in names:
        if "/" in name or "\\" in name or "\0" in name or name.startswith("."):
            raise BadArguments(say("{name} is not the name of a file.", name=name), "files")
    return files


def _path_of(folder: Path, name: str) -> Path:
    """Return where a file is kept: lists of an archive of X together, as in the archive."""
    return folder / _LISTS / "data" / name if name.lower().endswith(".js") else folder / name


def _failure(error: OSError) -> HubError:
    if error.errno in _FULL:
        return HubError(say("The disk of the hub is full. Nothing was kept. Free some space, and try again."))
    return HubError(say("The hub cannot store the files: {reason}", reason=error.strerror or error))
