"""Documents as a tree: the folders and documents of one level, in pages.

Names of documents are not paths of a file system. Everything up to a slash counts as a folder. Folders that
contain nothing but one folder are joined with it, as ``https://example.com/``.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from os.path import commonprefix
from typing import Literal, NamedTuple

from tabane.documents.document import DOCUMENT, Document
from tabane.documents.document_reader import DocumentReader
from tabane.errors import BadArguments
from tabane.messages import say
from tabane.search.engine import Collection
from tabane.search.filters import Filter
from tabane.search.records import Scalar
from tabane.wire.cursors import CursorCodec, ForeignCursor

_SLASH = "/"
_REMEMBERED = 4  # levels


class FolderEntry(NamedTuple):
    """A folder: the prefix of the names in it, and how many documents it has, with those in its folders."""

    prefix: str
    documents: int


class _FolderCursor(NamedTuple):
    """The last entry of a page: a folder or a document, and its name."""

    part: Literal["folders", "documents"]
    name: str


_CURSORS = CursorCodec("folder", _FolderCursor)


class _FolderLevel(NamedTuple):
    """All entries of a level, each kind in order of names."""

    folders: list[FolderEntry]
    documents: list[str]


class FolderPage(NamedTuple):
    """Entries of a level, folders first. ``total_folders`` and ``total`` count those of the whole level."""

    folders: list[FolderEntry]
    documents: list[Document]
    total_folders: int
    total: int
    after: str | None


class FolderListing:
    """Lists one level at a time. The levels listed last are remembered until a document changes.

    A level of 100,000 documents takes 0.15 s to list, and one of a thousand 10 ms.
    """

    def __init__(self, collection: Callable[[], Awaitable[Collection]], reading: DocumentReader) -> None:
        self._collection, self._reading = collection, reading
        self._levels: OrderedDict[tuple[str, Filter], _FolderLevel] = OrderedDict()
        self._changes = -1

    async def page(self, prefix: str, where: Filter, limit: int, cursor: str | None = None) -> FolderPage:
        """Return entries whose names begin with ``prefix`` and match; ``limit`` is 1 to 1,000.

        Raises BadArguments for a cursor that was not issued here.
        """
        after = _read(cursor) if cursor is not None else _FolderCursor("folders", "")
        level = await self._level(prefix, where)
        folders = level.folders[_place(after, level, "folders") :][:limit]
        left = limit - len(folders)
        names = level.documents[_place(after, level, "documents") :][:left]
        found = [document for document in await self._reading.documents(names) if document is not None]
        total = len(level.documents) + sum(folder.documents for folder in level.folders)
        return FolderPage(folders, found, len(level.folders), total, _next(level, folders, names, after))

    async def _level(self, prefix: str, where: Filter) -> _FolderLevel:
        collection = await self._collection()
        changes, key = collection.changes, (prefix, where)
        if changes != self._changes:
            self._levels.clear()
            self._changes = changes
        level = self._levels.get(key)
        if level is None:
            names = await collection.tally(DOCUMENT, where)
            level = await asyncio.to_thread(_level_of, prefix, names)
            if changes == collection.changes == self._changes:
                self._levels[key] = level
                if len(self._levels) > _REMEMBERED:
                    self._levels.popitem(last=False)
        else:
            self._levels.move_to_end(key)
        return level


def _level_of(prefix: str, names: Mapping[Scalar, int]) -> _FolderLevel:
    """Return the level below a prefix that all names have."""
    below: dict[str, list[str]] = {}
    documents: list[str] = []
    for name in map(str, names):
        end = name.find(_SLASH, len(prefix))
        if end < 0:
            documents.append(name)
        else:
            below.setdefault(name[: end + 1], []).append(name)
    folders = [FolderEntry(_joined(group), len(group)) for group in below.values()]
    return _FolderLevel(sorted(folders), sorted(documents))


def _joined(names: Iterable[str]) -> str:
    """Return the longest folder that contains all of these names."""
    common = commonprefix([min(names), max(names)])  # noqa: RUF071 - names are no paths, and the slash is found below
    return common[: common.rindex(_SLASH) + 1]


def _place(after: _FolderCursor, level: _FolderLevel, part: Literal["folders", "documents"]) -> int:
    """Return where the page begins in one kind of entries."""
    if after.part != part:
        return len(level.folders) if part == "folders" else 0
    if part == "folders":
        return bisect_right(level.folders, after.name, key=lambda folder: folder.prefix)
    return bisect_right(level.documents, after.name)


def _next(
    level: _FolderLevel, folders: list[FolderEntry], names: list[str], after: _FolderCursor
) -> str | None:
    last = (
        _FolderCursor("documents", names[-1])
        if names
        else _FolderCursor("folders", folders[-1].prefix)
        if folders
        else after
    )
    entries = len(level.folders) if last.part == "folders" else len(level.documents)
    complete = _place(last, level, last.part) == entries
    if complete and (last.part == "documents" or not level.documents):
        return None
    return _CURSORS.encode(last)


def _read(cursor: str) -> _FolderCursor:
    try:
        return _CURSORS.decode(cursor)
    except ForeignCursor:
        raise BadArguments(say("cursor: it was not issued by list_document_folders"), "cursor") from None
