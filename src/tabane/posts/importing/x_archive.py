"""X's own archive: posts and likes out of the zip, or out of the folder that it was unpacked to.

Files are scripts that assign a list: ``window.YTD.tweets.part0 = [{"tweet": {…}}, …]``. They are read as
they are unpacked, an entry at a time; nothing is written to the disk. A list that unpacks to far more than
posts do is refused on the way.
"""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from datetime import tzinfo
from typing import IO, Any

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.posts.importing import x_posts
from tabane.posts.importing.import_report import RejectedRow, UnusableRow
from tabane.posts.importing.json_elements import elements
from tabane.posts.importing.x_posts import LongPosts
from tabane.posts.post import BOOKMARK, LIKE, POST, Post

MOST_UNPACKED = 8_000_000_000  # bytes of one list
LARGEST_RATIO = 200  # of unpacked to packed: posts as JSON come to some 20
_ANY_RATIO = 10_000_000  # bytes that are never too much
LARGEST_DIRECTORY = 400_000_000  # bytes of a zip's table of contents: some four million files
_ACCOUNT = 1_048_576

_LISTS = re.compile(
    r"(?:^|/)(?:data/)?(account|note-tweet|tweets?|community-tweet|likes?|liked-tweets|bookmarks?)(?:-part\d+)?\.js$"
)
_LOG_TYPES = {"like": LIKE, "likes": LIKE, "liked-tweets": LIKE, "bookmark": BOOKMARK, "bookmarks": BOOKMARK}
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


class _CountedFile:
    """A list as it is unpacked: how far it is, and that it does not come to too much."""

    def __init__(self, file: IO[bytes], packed: int) -> None:
        self._file, self._packed = file, packed
        self.read_so_far = 0

    def read(self, size: int) -> bytes:
        found = self._file.read(size)
        self.read_so_far += len(found)
        allowed = min(MOST_UNPACKED, max(_ANY_RATIO, LARGEST_RATIO * self._packed))
        if self.read_so_far > allowed:
            raise UnusableRow(
                say("it unpacks to more than {most} bytes, too many for a list of posts", most=allowed)
            )
        return found


class XArchive:
    """An open archive. ``done`` of ``size`` bytes are read, as they are packed. Iterated once.

    ``whole`` is False once a list could not be read to its end. Raises
    :class:`~tabane.errors.BadArguments` where it is no such archive, OSError where it cannot be read.
    """

    def __init__(self, path: str, zone: tzinfo) -> None:
        self.path = path
        self.done = 0
        self.whole = True
        self.user = ""
        self._zone = zone
        self._notes = LongPosts()
        self._zip = None if os.path.isdir(path) else _opened(path)
        try:
            self._lists = self._found()
            self.size = sum(packed for _, _, packed in self._lists)
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[Post | RejectedRow]:
        yield from self._account()
        for kind, name, packed in self._lists:
            before = self.done
            if kind != "account":
                yield from self._list(kind, name, packed)
            self.done = before + packed

    def close(self) -> None:
        if self._zip is not None:
            self._zip.close()

    # What is in it

    def _found(self) -> list[tuple[str, str, int]]:
        """Kind, name and packed size of the lists, those that others need first."""
        found = [(match[1], name, packed) for name, packed in self._names() if (match := _LISTS.search(name))]
        if not any(kind not in ("account", "note-tweet") for kind, _, _ in found):
            raise BadArguments(
                say(
                    "{path} is not an archive of X: it has no data/tweets.js and no data/like.js.",
                    path=self.path,
                ),
                "files",
            )
        order = ("account", "note-tweet")
        return sorted(found, key=lambda each: (each[0] not in order, each[0] in _LOG_TYPES, each[1]))

    def _names(self) -> list[tuple[str, int]]:
        if self._zip is not None:
            return [(each.filename, max(each.compress_size, 1)) for each in self._zip.infolist()]
        folders = [part for part in ("", "data/") if os.path.isdir(os.path.join(self.path, part))]
        return [
            (part + entry.name, max(entry.stat().st_size, 1))
            for part in folders
            for entry in os.scandir(os.path.join(self.path, part))
            if entry.is_file()
        ]

    def _open(self, name: str) -> IO[bytes]:
        if self._zip is not None:
            return self._zip.open(name)
        return open(os.path.join(self.path, name), "rb")

    def _entries(self, name: str, packed: int) -> Iterator[tuple[int, Any]]:
        """Yield line and value of each entry. Raises UnusableRow if one is no entry or the list is cut."""
        before = self.done
        try:
            with self._open(name) as file:
                size = max(1, self._zip.getinfo(name).file_size if self._zip else packed)
                counted = _CountedFile(file, packed)
                for line, value in elements(counted):  # type: ignore[arg-type]
                    self.done = before + min(packed, packed * counted.read_so_far // size)
                    yield line, value
        except UnusableRow as unfit:
            self.whole = False
            yield 0, unfit
        except _DAMAGED as error:
            self.whole = False
            yield (
                0,
                UnusableRow(say("damaged from here on: {error}", error=str(error) or type(error).__name__)),
            )

    # The lists

    def _account(self) -> Iterator[RejectedRow]:
        for kind, name, packed in self._lists:
            if kind == "account":
                for line, value in self._entries(name, packed):
                    self.user = self.user or x_posts.user_of_account(value)
                    if isinstance(value, UnusableRow):
                        yield self._bad(name, line, value)

    def _list(self, kind: str, name: str, packed: int) -> Iterator[Post | RejectedRow]:
        for line, value in self._entries(name, packed):
            try:
                if isinstance(value, UnusableRow):
                    raise value
                if kind == "note-tweet":
                    self._notes.add(value)
                elif kind in _LOG_TYPES:
                    yield x_posts.liked(value, _LOG_TYPES[kind], self._zone)
                else:
                    yield x_posts.posted(value, POST, self.user, self._notes, self._zone)
            except UnusableRow as unfit:
                yield self._bad(name, line, unfit)

    def _bad(self, name: str, line: int, unfit: UnusableRow) -> RejectedRow:
        return RejectedRow(f"{self.path}:{name}", line, unfit.reason, unfit.post_id)


def _opened(path: str) -> zipfile.ZipFile:
    """The zip, once its table of contents is known to be of a bearable size."""
    try:
        with open(path, "rb") as file:
            _check_directory(file, path)
        found = zipfile.ZipFile(path)
    except _DAMAGED as error:
        raise BadArguments(
            say("{path} is damaged or not a zip file: {error}", path=path, error=str(error)), "files"
        ) from None
    if any(each.flag_bits & 1 and _LISTS.search(each.filename) for each in found.infolist()):
        found.close()
        raise BadArguments(say("{path} is encrypted. Unpack it, and give the folder.", path=path), "files")
    return found


def _check_directory(file: IO[bytes], path: str) -> None:
    """The table is read whole by zipfile: 32 bits of size, or 64 in a record before the end."""
    size = file.seek(0, 2)
    file.seek(max(0, size - 66_000))
    tail = file.read()
    end, end64 = tail.rfind(b"PK\5\6"), tail.rfind(b"PK\6\6")
    length = int.from_bytes(tail[end + 12 : end + 16], "little") if end >= 0 else 0
    if length == 0xFFFFFFFF and end64 >= 0:
        length = int.from_bytes(tail[end64 + 40 : end64 + 48], "little")
    if length > LARGEST_DIRECTORY:
        raise BadArguments(say("{path} has too many files to be an archive of X.", path=path), "files")
