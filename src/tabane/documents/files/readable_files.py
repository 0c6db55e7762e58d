"""Files that may be read, and their texts.

A path cannot lead outside an allowed folder. Each folder on the way is opened from the folder above it, and
no symbolic link is followed. So changes made meanwhile by another program do no harm. Reading blocks.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from tabane.documents import metadata
from tabane.documents.document import Document, FileText
from tabane.documents.document_writer import PutOutcome
from tabane.documents.metadata import checked_filepath, kind_of
from tabane.documents.operations import too_large
from tabane.errors import BadArguments, ModelError, StoreError, TabaneError
from tabane.messages import Lang, Message, say
from tabane.text.encodings import decode_strictly, is_binary

MOST_PROBLEMS = 200
"""Files that could not be used and are named; the others are counted."""


class FileProblem(NamedTuple):
    """A file that could not be used, and why."""

    path: str
    reason: Message


@dataclass(slots=True)
class FilesReport:
    """Counts of files by outcome. ``older`` files were skipped."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    older: int = 0
    bad: int = 0
    problems: list[FileProblem] = field(default_factory=list)
    warning: Message | None = None
    began: float = field(default_factory=time.monotonic)

    def refuse(self, path: str, reason: Message) -> None:
        """Count a file that could not be used."""
        self.bad += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(FileProblem(path, reason))

    def count_results(self, paths: Sequence[str], results: Sequence[PutOutcome | TabaneError]) -> None:
        """Count the outcomes for documents, by the paths of their files.

        Raises the first error if the store or the model failed on all: later documents would fail too.
        """
        failed = [result for result in results if isinstance(result, StoreError | ModelError)]
        if failed and len(failed) == len(results):
            raise failed[0]
        for path, result in zip(paths, results, strict=True):
            if isinstance(result, TabaneError):
                self.refuse(path, result.message)
                continue
            self.new += not result.existed
            self.unchanged += result.unchanged
            self.changed += result.existed and not result.unchanged
            self.warning = self.warning or result.warning

    def plain(self, lang: Lang) -> dict[str, Any]:
        """Return the report as JSON. ``problems`` has the first of the ``bad`` files, with the reasons."""
        return {
            "new": self.new,
            "changed": self.changed,
            "unchanged": self.unchanged,
            "removed": self.removed,
            "older": self.older,
            "bad": self.bad,
            "problems": [
                {"path": printable(path), "reason": reason.render(lang)} for path, reason in self.problems
            ],
            "warning": self.warning.render(lang) if self.warning else None,
            "seconds": round(time.monotonic() - self.began, 3),
        }


def printable(path: str) -> str:
    """Return a path that can be written as UTF-8, whatever bytes it is made of."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class DocumentFolder:
    """A folder or file whose documents are kept up to date. ``path`` is absolute.

    The name of a document is ``prefix`` and the path of its file, below the folder with ``relative``.
    ``encoding`` is that of texts that are not Unicode.
    """

    path: str
    prefix: str = ""
    relative: bool = False
    file_type: str | None = None
    ignore: tuple[str, ...] = ()
    encoding: str | None = None

    def key(self, name: str) -> str:
        """Return the name of the document of the file ``name`` below the folder ("" for the folder itself).

        Raises :class:`~tabane.errors.BadArguments` if that can be no name.
        """
        path = os.path.join(self.path, name) if name else self.path
        named = (name or os.path.basename(self.path)) if self.relative else path
        try:
            named.encode()
        except UnicodeEncodeError:
            raise BadArguments(say("its name is not UTF-8. Rename the file.")) from None
        return checked_filepath(joined(self.prefix, named))

    @property
    def common(self) -> str:
        """Return the common prefix of the names of its documents."""
        named = "" if self.relative else self.path
        return unicodedata.normalize("NFC", joined(self.prefix, named))


def joined(prefix: str, name: str) -> str:
    """Join a prefix and a name with a slash, unless the prefix ends with a separator.

    After a colon the name stays unchanged, as semche named documents: ``abc:/home/user/notes.md``.
    """
    if not prefix:
        return name
    if prefix[-1] == ":":
        return prefix + name
    return prefix + ("" if prefix[-1] == "/" else "/") + name.lstrip("/")


def with_colon(prefix: str) -> str:
    """Return a prefix as semche wrote it before a path: with a colon."""
    return prefix if not prefix or prefix[-1] in "/:" else prefix + ":"


@dataclass(frozen=True, slots=True)
class PassOptions:
    """Options of a pass. ``since``: files older than that (seconds since 1970) are skipped.

    ``prune``: documents of deleted files are removed. ``again``: unchanged files are put, too. ``sure``:
    files are read even if size and time are the same.
    """

    since: float | None = None
    prune: bool = False
    again: bool = False
    sure: bool = False


class FileSource(msgspec.Struct, frozen=True, array_like=True):
    """The file from which a document was made, as it was then.

    ``path`` is absolute; ``folder`` is the one that was added, or the file itself if that was named.
    ``size`` is in bytes, ``modified`` in nanoseconds since 1970 (0 if it may not be trusted), ``digest``
    is the hexadecimal BLAKE2b of the bytes, 128 bits.
    """

    path: str
    folder: str
    size: int
    modified: int
    digest: str


_SOURCE = msgspec.json.Decoder(FileSource)


def source_of(document: Document) -> FileSource | None:
    """Return the file from which a document was made; None if it was made from none."""
    try:
        return _SOURCE.decode(document.source) if document.source else None
    except msgspec.DecodeError:
        return None  # written by another program


class ConvertedFile(Protocol):
    """A file of another format as Markdown."""

    @property
    def markdown(self) -> str: ...
    @property
    def title(self) -> str | None: ...


Converter = Callable[[bytes, str], Awaitable[ConvertedFile]]
"""Makes Markdown of the bytes of a file of that name. Raises TabaneError if it cannot."""


MOST_BYTES = 50 << 20
"""Bytes of a file at most. A larger one is rejected."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class FileBytes(NamedTuple):
    """A file that was read: path, bytes, and modification time in nanoseconds since 1970."""

    path: str
    data: bytes
    modified: int


class ReadableRoots:
    """The folders from which assistants may read files.

    ``setting`` is the name of the setting that lists them.
    """

    def __init__(
        self,
        allowed: Callable[[], Sequence[Path]],
        setting: str = "documents_roots",
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._allowed, self._setting, self._most = allowed, setting, most_bytes

    def read(self, path: str) -> FileBytes:
        """Read the file at an absolute path. Raises BadArguments with the reason and what to do."""
        roots = [os.path.abspath(os.path.expanduser(root)) for root in self._allowed()]
        real, root = self._resolve(path, roots)
        try:
            return read_beneath(root, os.path.relpath(real, root).split(os.sep), self._most)
        except OSError as error:
            raise _path_error(unreadable(path, error)) from None

    def _resolve(self, path: str, roots: Sequence[str]) -> tuple[str, str]:
        """Return the real path and the allowed folder that contains it.

        Opens nothing outside those folders.
        """
        self._check_path(path, roots)
        path = os.path.normpath(os.path.expanduser(path))
        real_roots = [os.path.realpath(root) for root in roots]
        if not any(map(_is_below, [path] * len(roots) * 2, [*roots, *real_roots])):
            raise _path_error(
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
            raise _path_error(
                say(
                    "{path} is behind a symbolic link that leads out of the allowed folders. Put the "
                    "file itself there, or allow its folder in the setting {setting}.",
                    path=path,
                    setting=self._setting,
                )
            )
        return real, max(within, key=len)

    def _check_path(self, path: str, roots: Sequence[str]) -> None:
        if not roots:
            raise _path_error(
                say(
                    "Assistants may not save files yet. Add the folders that they may read to the "
                    "setting {setting}.",
                    setting=self._setting,
                )
            )
        if "\0" in path:
            raise _path_error(say("A path cannot contain NUL."))
        if ".." in path.split("/"):
            raise _path_error(say('{path}: ".." is not allowed in a path. Write the direct path.', path=path))
        if not os.path.isabs(os.path.expanduser(path)):
            raise _path_error(
                say("{path}: give the full path, in one of: {roots}", path=path, roots=", ".join(roots))
            )


def read_beneath(top: str, parts: Sequence[str], most_bytes: int = MOST_BYTES) -> FileBytes:
    """Read the file at ``parts`` below the folder ``top``, without following links.

    Raises :class:`~tabane.errors.BadArguments` if it is not a file or is too large. Raises OSError.
    """
    path = os.path.join(top, *parts)
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            _check_file(os.stat(part, dir_fd=fd, follow_symlinks=False), path, folder=True)
            inner = os.open(part, _FOLDER, dir_fd=fd)
            os.close(fd)
            fd = inner
        _check_file(os.stat(parts[-1], dir_fd=fd, follow_symlinks=False), path)
        file = os.open(parts[-1], _FILE, dir_fd=fd)
    finally:
        os.close(fd)
    with open(file, "rb", buffering=0) as opened:
        state = os.fstat(file)
        _check_file(state, path)
        if state.st_size > most_bytes:
            raise _path_error(too_large(path, state.st_size, most_bytes))
        data = _read_whole(opened.readinto, state.st_size, most_bytes)
        if len(data) > most_bytes:
            raise _path_error(too_large(path, len(data), most_bytes))
    return FileBytes(path, data, state.st_mtime_ns)


def unreadable(path: str, error: OSError) -> Message:
    """Return the message for a file that the system cannot read."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return say("{path} does not exist.", path=path)
    if isinstance(error, PermissionError):
        return say("You have no permission to read {path}. Check its permissions.", path=path)
    return say("{path} cannot be read: {detail}", path=path, detail=error.strerror or str(error))


def _read_whole(read_into: Callable[[memoryview], int | None], expected: int, most: int) -> bytes:
    """Read a file to its end, at most ``most`` + 1 bytes. It may have grown since its size was read."""
    data = bytearray(min(expected, most) + 1)
    done = 0
    while got := read_into(memoryview(data)[done:]):
        done += got
        if done == len(data):
            if done > most:
                break
            data.extend(bytes(min(len(data), most + 1 - len(data))))
    return bytes(memoryview(data)[:done])


def _check_file(state: os.stat_result, path: str, *, folder: bool = False) -> None:
    """Raise BadArguments if this is not a file, or not a folder on the way to it."""
    mode = state.st_mode
    if stat.S_ISLNK(mode):
        raise _path_error(
            say(
                "{path} is or contains a symbolic link, which is not followed. Give the file that "
                "it points to.",
                path=path)
        )  # fmt: skip
    if stat.S_ISDIR(mode) if folder else stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise _path_error(say("{path} is a folder. To add all of it: tabane docs add {path}", path=path))
    if folder:
        raise _path_error(say("{path} does not exist.", path=path))
    names = (
        (stat.S_ISFIFO, say("{path} is a pipe (FIFO), not a file. Write its content to a file.", path=path)),
        (stat.S_ISSOCK, say("{path} is a socket, not a file.", path=path)),
    )
    for is_one, message in names:
        if is_one(mode):
            raise _path_error(message)
    raise _path_error(say("{path} is a device, not a file.", path=path))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def _path_error(message: Message) -> BadArguments:
    return BadArguments(message, "path")


class FileTextReader:
    """Reads files as texts: decodes text files, and converts files of other formats."""

    def __init__(self, converter: Converter | None = None) -> None:
        self._converter = converter

    async def read(
        self, name: str, data: bytes, encoding: str | None = None, file_type: str | None = None
    ) -> tuple[FileText, str]:
        """Return the text of a file, and its file type. ``encoding`` is used if the text is not Unicode.

        Raises TabaneError with the reason if there is no text, without the file's name.
        """
        if self._converter is not None and metadata.is_converted(name, data):
            page = await self._converter(data, name)
            text = _require_text(FileText(page.markdown, "markdown", page.title))
        else:
            text = await asyncio.to_thread(_decode_text, name, data, encoding)
        return text, file_type or metadata.file_type_of(name, data, text.kind)


class ReadableFiles:
    """Reads the files that assistants may name, as texts."""

    def __init__(self, roots: ReadableRoots, texts: FileTextReader) -> None:
        self._roots, self._texts = roots, texts

    async def read(self, path: str) -> FileText:
        """Return the text of the file at an absolute path.

        Raises TabaneError with the reason if it cannot.
        """
        read = await asyncio.to_thread(self._roots.read, path)
        try:
            text, _ = await self._texts.read(read.path, read.data)
        except BadArguments as error:
            raise BadArguments(
                say("{path} cannot be saved: {why}", path=path, why=error.message), "path"
            ) from None
        return text


BINARY = say("neither text nor a format that can be converted")
"""The reason why a file without text cannot be used."""


def _require_text(text: FileText) -> FileText:
    """Return the text. Raise BadArguments if it is empty: a scan without words is a problem of the file."""
    if not text.text.strip():
        raise BadArguments(say("empty"))
    return text


def _decode_text(name: str, data: bytes, encoding: str | None) -> FileText:
    decoded = decode_strictly(data, encoding)
    if decoded is not None:
        return _require_text(FileText(decoded.text, kind_of(name, decoded.text)))
    if is_binary(data):
        raise BadArguments(BINARY)
    if encoding is not None:
        raise BadArguments(say("not in the encoding {encoding}", encoding=encoding))
    raise BadArguments(
        say(
            "its encoding cannot be detected. Save it as UTF-8, or set the encoding, for "
            "example: --encoding shift_jis"
        )
    )
