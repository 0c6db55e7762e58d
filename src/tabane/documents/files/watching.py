"""Watched folders: their files are kept as documents, and updated when they change."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from tabane.documents.files.adding_files import FileAdding
from tabane.documents.files.change_notices import ChangeNotices, PollingNotices, notices
from tabane.documents.files.file_sources import DocumentFolder, FilesReport, PassOptions, printable
from tabane.documents.files.file_tree import FileStat, FileTree, TreeChanges
from tabane.errors import TabaneError
from tabane.messages import Lang, Message, say
from tabane.operations import Progress

log = logging.getLogger(__name__)

FolderWatchState = Literal["starting", "watching", "away", "failed"]


@dataclass(frozen=True, slots=True)
class WatchIntervals:
    """Seconds. ``sweep``: between two looks at all where the system gives word, for what it lost.

    ``look``: the same where it gives none; longer where a look itself takes a 20th of it. ``away``: between
    two looks for a folder that is not there. ``again``: after a failure. ``pause``: at most after a change,
    which rests as long as it took, so that a file that is written without end does not take all.
    """

    sweep: float = 60.0
    look: float = 1.0
    away: float = 1.0
    again: float = 10.0
    pause: float = 1.5


_SHARE: Final = 20
_OPENINGS: Final = 5  # times that folders may come and go while they are about to be watched


class _SilentProgress:
    """A progress that is not reported."""

    def tell(self, done: int, total: int | None = None, note: Message | None = None) -> None:
        pass


class FolderWatch:
    """One folder that is kept in step, for as long as :meth:`run` runs.

    A folder that goes away (a disk that is taken out, a name that is changed) keeps its documents; when it
    comes back, it is brought in step. A file that goes away takes its document with it.
    """

    def __init__(
        self,
        folder: DocumentFolder,
        adding: FileAdding,
        progress: Progress | None = None,
        times: WatchIntervals = WatchIntervals(),
        noticed: Callable[[Sequence[str]], ChangeNotices] = notices,
    ) -> None:
        self.folder = folder
        self.state: FolderWatchState = "starting"
        self.first: asyncio.Future[FilesReport | TabaneError] = asyncio.get_running_loop().create_future()
        """What the first pass did, or why it could not; a folder that is away is waited for."""
        self._adding, self._times, self._noticed = adding, times, noticed
        self._progress: Progress = progress or _SilentProgress()
        self._notices: ChangeNotices | None = None
        self._tree = FileTree(folder.path, folder.ignore)
        self._problem: Message | None = None
        self._spared: list[str] = []
        self._files = 0
        self._changed: float | None = None
        self._took = self._worked = 0.0  # seconds of the last look, and of the last work

    async def run(self) -> None:
        """Keep the folder in step until cancelled."""
        try:
            while True:
                wait = await self._followed()
                await asyncio.sleep(wait)
        finally:
            self._close()
            self.first.cancel()

    def plain(self, lang: Lang) -> dict[str, Any]:
        """Return how it is. ``changed`` is when a document changed last, in seconds since 1970."""
        folder = self.folder
        return {
            "path": printable(folder.path),
            "state": self.state,
            "files": self._files,
            "changed": self._changed,
            "problem": self._problem.render(lang) if self._problem else None,
            "by": "looking" if isinstance(self._notices, PollingNotices) else "system",
            "id_prefix": folder.prefix,
            "relative": folder.relative,
            "file_type": folder.file_type,
            "ignore": list(folder.ignore),
            "encoding": folder.encoding,
        }

    async def _followed(self) -> float:
        """Follow the folder until that fails; the seconds after which it is worth another try."""
        try:
            await self._follow()
        except (FileNotFoundError, NotADirectoryError):
            self._stand("away", say("{path} does not exist. Its documents are kept.", path=self.folder.path))
            return self._times.away
        except OSError as error:
            self._stand("failed", say("cannot be read: {detail}", detail=error.strerror or str(error)))
        except TabaneError as error:
            self._stand("failed", error.message)
            if not self.first.done():
                self.first.set_result(error)
        except Exception:
            log.exception("watching %s failed", self.folder.path)
            self._stand("failed", say("Internal error. The hub's log has details: tabane logs"))
        finally:
            self._close()
        return self._times.again

    def _stand(self, state: FolderWatchState, problem: Message | None = None) -> None:
        if state != self.state:
            log.info("watched folder %s: %s%s", self.folder.path, state, f" ({problem})" if problem else "")
        self.state, self._problem = state, problem

    async def _follow(self) -> None:
        self._spared = []
        self._tree = FileTree(
            self.folder.path, self.folder.ignore, lambda path, why: self._spared.append(path)
        )
        await asyncio.to_thread(self._tree.look)
        await self._open()
        await self._first_pass()
        self._stand("watching")
        while True:
            if await self._step():
                await asyncio.sleep(min(self._worked, self._times.pause))

    async def _open(self) -> TreeChanges:
        """Have word of what changes from now on; and what has until then, since the last look."""
        changes = TreeChanges()
        for _ in range(_OPENINGS):
            self._close()
            with suppress(FileNotFoundError):  # one is gone that was there: the look will know
                self._notices = await asyncio.to_thread(self._noticed, self._tree.folders())
            later = await asyncio.to_thread(self._tree.look)
            changes.changed |= later.changed
            changes.gone += later.gone
            if self._notices is not None and not later.folders:
                return changes
        if self._notices is None:
            self._notices = PollingNotices()
        return changes

    async def _first_pass(self) -> None:
        files = list(self._tree.files())
        report = await self._adding.take(self.folder, files, PassOptions(), self._progress)
        self._progress = _SilentProgress()
        names = [name for name, _ in files]
        report.removed = await self._adding.prune(self.folder, names, self._spared)
        self._note(report)
        if not self.first.done():
            self.first.set_result(report)

    async def _step(self) -> bool:
        """Wait for word of changes, and bring in step what they are about. Whether there was anything."""
        paths = await self._word()
        began = time.monotonic()
        changes = await asyncio.to_thread(self._tree.look, self._folders_of(paths) if paths else None)
        self._took = time.monotonic() - began
        files = self._named(paths) | changes.changed
        # Another folder may have taken the place of one, and even its inode: word of a folder is about that.
        if changes.folders or any(map(self._tree.is_folder, filter(None, map(self._below, paths)))):
            later = await self._open()
            files |= later.changed
            changes.gone += later.gone
        there = {name: stat for name in files if (stat := self._tree.stat(name)) is not None}
        gone = [name for name in {*changes.gone, *files} if self._tree.stat(name) is None]
        if there or gone:
            await self._bring(list(there.items()), gone)
        return bool(there or gone)

    async def _word(self) -> set[str]:
        """Return what may have changed, once something may have; nothing if it is time to look at all."""
        assert self._notices is not None
        if isinstance(self._notices, PollingNotices):
            return await self._notices.next(max(self._times.look, self._took * _SHARE))
        return await self._notices.next(self._times.sweep)

    async def _bring(self, files: Sequence[tuple[str, FileStat]], gone: Sequence[str]) -> None:
        began = time.monotonic()
        report = await self._adding.take(self.folder, files, PassOptions(sure=True), self._progress)
        report.removed = await self._adding.remove(self.folder, gone) if gone else 0
        self._note(report)
        self._worked = time.monotonic() - began

    def _note(self, report: FilesReport) -> None:
        self._files = sum(1 for _ in self._tree.files())
        if report.new or report.changed or report.removed:
            self._changed = round(time.time(), 3)

    def _folders_of(self, paths: Iterable[str]) -> set[str]:
        """Return the folders that contain changed paths, and those that they may be, below the top."""
        found = set()
        for path in paths:
            name = self._below(path)
            if name is not None:
                found |= {name, name.rpartition("/")[0]}
        return found

    def _named(self, paths: Iterable[str]) -> dict[str, FileStat]:
        """Return the files among changed paths: they are read, even where they look the same."""
        names = filter(None, map(self._below, paths))
        return {name: stat for name in names if (stat := self._tree.stat(name)) is not None}

    def _below(self, path: str) -> str | None:
        top = self.folder.path
        if path == top:
            return ""
        return path[len(top.rstrip(os.sep)) + 1 :] if path.startswith(top.rstrip(os.sep) + os.sep) else None

    def _close(self) -> None:
        if self._notices is not None:
            self._notices.close()
            self._notices = None
