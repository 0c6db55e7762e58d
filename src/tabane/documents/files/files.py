"""Files as documents: added by a job, and watched; and the documents of another store taken over."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from tabane.documents.chroma.importing import ChromaImport
from tabane.documents.files.adding import Adding
from tabane.documents.files.folder import Folder, Terms, with_colon
from tabane.documents.files.kept import Keeping
from tabane.documents.files.parameters import (
    AddDocuments,
    ListWatched,
    UnwatchDocuments,
    WatchDocuments,
)
from tabane.documents.files.remembering import Remembered
from tabane.documents.files.texts import Texts
from tabane.documents.files.watching import Watch
from tabane.errors import BadArguments, HubError, TabaneError
from tabane.messages import say
from tabane.operations import Caller, Progress, Turn
from tabane.text.encodings import is_encoding

log = logging.getLogger(__name__)

MOST_WATCHED = 32
"""Folders that are watched at the same time."""


class Files:
    """The files of one hub. ``remembered`` is the file that the watched folders stand in."""

    def __init__(
        self,
        keeping: Keeping,
        texts: Texts,
        remembered: Path,
    ) -> None:
        self._keeping = keeping
        self._adding = Adding(keeping, texts)
        self.import_chroma = ChromaImport(keeping).import_chroma
        self._remembered = Remembered(remembered)
        self._watches: dict[str, tuple[Watch, asyncio.Task[None]]] = {}
        self._changing = Turn()

    # Watched folders

    async def start(self) -> None:
        """Watch again what was watched when the hub ended. Costs nothing where that is nothing."""
        async with self._changing.taken():
            for folder in await asyncio.to_thread(self._remembered.read):
                if folder.path not in self._watches:
                    self._begin(folder)

    @property
    def watched(self) -> int:
        """How many folders are watched: a hub that does so has something to do when nobody asks."""
        return len(self._watches)

    async def close(self) -> None:
        """Stop watching. What is watched stays remembered."""
        async with self._changing.taken():
            for path in list(self._watches):
                await self._end(path)

    def _begin(self, folder: Folder, progress: Progress | None = None) -> Watch:
        watch = Watch(folder, self._adding, progress)
        task = asyncio.get_running_loop().create_task(watch.run(), name=f"watch {folder.path}")
        self._watches[folder.path] = watch, task
        return watch

    async def _end(self, path: str) -> None:
        _, task = self._watches.pop(path)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    # Operations

    async def add_documents(self, caller: Caller, params: AddDocuments, progress: Progress) -> dict[str, Any]:
        encoding = _checked_encoding(params.encoding)
        terms = Terms(since=_moment(params.since), prune=params.prune, again=params.again)
        paths = await asyncio.to_thread(lambda: [_checked_path(path, "paths") for path in params.paths])
        prefix = await self._prefix(params.id_prefix)
        folders = [
            Folder(path, prefix, params.relative, params.file_type, tuple(params.ignore), encoding)
            for path in dict.fromkeys(paths)
        ]
        report = await self._adding.add(folders, terms, progress)
        return report.plain(caller.lang)

    async def watch_documents(
        self, caller: Caller, params: WatchDocuments, progress: Progress
    ) -> dict[str, Any]:
        path = await asyncio.to_thread(_checked_path, params.path, "path")
        encoding = _checked_encoding(params.encoding)
        if not await asyncio.to_thread(os.path.isdir, path):
            raise BadArguments(say("{path} is no folder. Only folders can be watched.", path=path), "path")
        prefix = await self._prefix(params.id_prefix)
        folder = Folder(path, prefix, params.relative, params.file_type, tuple(params.ignore), encoding)
        async with self._changing.taken(progress):
            self._check_place(path)
            if path in self._watches:
                await self._end(path)
            watch = self._begin(folder, progress)
            await self._remember()
        try:
            report = await asyncio.shield(watch.first)
        except asyncio.CancelledError:
            if not watch.first.cancelled():
                await self._forget(path)
                raise
            raise HubError(say("{path} is not watched any more.", path=path)) from None
        if isinstance(report, TabaneError):
            await self._forget(path)
            raise report
        return {**report.plain(caller.lang), "watch": watch.plain(caller.lang)}

    async def _prefix(self, prefix: str) -> str:
        """Return the prefix of ids: with a colon if only ids with a colon exist, as after import-chroma."""
        colon = with_colon(prefix)
        if colon == prefix or await anext(self._keeping.all(prefix + "/"), None) is not None:
            return prefix
        return prefix if await anext(self._keeping.all(colon), None) is None else colon

    async def unwatch_documents(self, caller: Caller, params: UnwatchDocuments) -> dict[str, Any]:
        path = await asyncio.to_thread(_checked_path, params.path, "path")
        there = self._watches.get(path)
        if there is None:
            raise BadArguments(
                say("{path} is not watched. See which folders are: tabane docs watch --list", path=path),
                "path",
            )
        await self._forget(path)
        removed = await self._adding.prune(there[0].folder, ()) if params.remove else 0
        return {"path": path, "removed": removed}

    async def list_watched(self, caller: Caller, params: ListWatched) -> dict[str, Any]:
        return {"results": [watch.plain(caller.lang) for watch, _ in self._watches.values()]}

    async def _forget(self, path: str) -> None:
        async with self._changing.taken():
            if path in self._watches:
                await self._end(path)
            await self._remember()

    async def _remember(self) -> None:
        folders = [watch.folder for watch, _ in self._watches.values()]
        await asyncio.to_thread(self._remembered.write, folders)

    def _check_place(self, path: str) -> None:
        """Raises BadArguments where the folder cannot be watched beside those that are."""
        for other in self._watches:
            if other != path and os.path.commonpath((other, path)) in (other, path):
                raise BadArguments(
                    say(
                        "{other} is watched already, and one is within the other. First: tabane docs watch "
                        "--remove {other}",
                        other=other,
                    ),
                    "path",
                )
        if path not in self._watches and len(self._watches) >= MOST_WATCHED:
            raise BadArguments(say("{limit} folders are watched already.", limit=MOST_WATCHED), "path")


def _checked_path(path: str, parameter: str) -> str:
    if not os.path.isabs(path) or "\0" in path:
        raise BadArguments(say("{path}: give the whole path, from / on.", path=path), parameter)
    return os.path.realpath(path)


def _checked_encoding(encoding: str | None) -> str | None:
    if encoding is not None and not is_encoding(encoding):
        raise BadArguments(
            say(
                "There is no encoding {encoding}. For example: shift_jis, euc_jp, latin-1", encoding=encoding
            ),
            "encoding",
        )
    return encoding


def _moment(since: str | None) -> float | None:
    """Seconds since 1970 of a date, or of a date with a time; without a zone in that of this machine."""
    if since is None:
        return None
    try:
        return datetime.fromisoformat(since).timestamp()
    except (ValueError, OverflowError, OSError):
        raise BadArguments(
            say("{since}: a date is wanted, such as 2026-01-31 or 2026-01-31T12:00", since=since), "since"
        ) from None
