"""Watched folders: their files are kept as documents, and updated when they change.

Notices of changes come from the operating system, or else the folder is polled. A notice is a hint: it names
paths that may have changed. Comparing the files shows the actual changes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from tabane.documents.files.adding_files import FileAdding
from tabane.documents.files.file_tree import FileStat, FileTree, TreeChanges
from tabane.documents.files.readable_files import DocumentFolder, FilesReport, PassOptions, printable
from tabane.errors import TabaneError
from tabane.messages import Lang, Message, say
from tabane.operations import Progress

log = logging.getLogger(__name__)

_SILENT: Final = frozenset(
    ("9p", "afs", "cifs", "drvfs", "nfs", "nfs4", "prl_fs", "smb3", "vboxsf", "virtiofs")
)

GATHERED, QUIET = 400, 100
"""Milliseconds: the longest time to gather changes, and the quiet time after which gathering ends."""


class ChangeNotices(Protocol):
    """A source of notices, until it is closed."""

    async def next(self, seconds: float) -> set[str]:
        """Wait for notices.

        Return absolute paths that may have changed, none if the time passed without any.
        """
        ...

    def close(self) -> None:
        """End the notices."""
        ...


class PollingNotices:
    """Polling without notices: waits, so that the caller compares the files after each interval."""

    async def next(self, seconds: float) -> set[str]:
        """Wait. Return no paths."""
        await asyncio.sleep(seconds)
        return set()

    def close(self) -> None:
        """Do nothing."""


class SystemNotices:
    """Notices of the operating system, through the library watchfiles.

    On Linux each folder is watched separately, so ignored folders cost nothing. On other systems the first
    folder is watched with everything below it. Raises OSError if the system cannot watch so many folders.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        # The library is loaded on first use: it takes 6 MB and 40 ms.
        from watchfiles._rust_notify import RustNotify

        each = sys.platform == "linux"
        self._notify = RustNotify(list(folders) if each else [folders[0]], False, False, 0, not each, True)
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(1, "watch")  # a separate thread, blocked until something changes

    async def next(self, seconds: float) -> set[str]:
        """Wait for changes. Return their paths, none if the time passed."""
        changes = await asyncio.get_running_loop().run_in_executor(
            self._thread, self._notify.watch, GATHERED, QUIET, max(1, int(seconds * 1000)), self._stop
        )
        return {path for _, path in changes} if isinstance(changes, set) else set()

    def close(self) -> None:
        """Stop watching. The thread ends when the library returns."""
        self._stop.set()
        self._thread.submit(self._notify.close)
        self._thread.shutdown(wait=False)


def is_silent_filesystem(path: str, mounts: Iterable[str]) -> bool:
    """Return whether a path is on a file system without notices of changes by other machines; pure.

    ``mounts`` are the lines of /proc/mounts. A mount that hides another one comes after it.
    """
    filesystem = ""
    mount = ""
    for line in mounts:
        _, at, kind, *_ = line.split(" ")
        at = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), at)
        if (path == at or path.startswith(at.rstrip("/") + "/")) and len(at) >= len(mount):
            mount, filesystem = at, kind
    return filesystem in _SILENT or filesystem.startswith("fuse.")


def change_notices(folders: Sequence[str]) -> ChangeNotices:
    """Return the notices for these folders. The folders below them must be listed too. Blocks.

    Raises FileNotFoundError if one of them no longer exists.
    """
    mounts: list[str] = []
    with suppress(OSError), open("/proc/mounts", encoding="utf-8", errors="surrogateescape") as file:
        mounts = file.read().splitlines()  # on Linux
    if is_silent_filesystem(folders[0], mounts):
        log.info("%s is on a file system without change notices: it is polled", folders[0])
        return PollingNotices()
    try:
        return SystemNotices(folders)
    except FileNotFoundError:
        raise
    except (OSError, ImportError) as error:
        log.warning("%s folders cannot be watched and are polled: %s", len(folders), error)
        return PollingNotices()


FolderWatchState = Literal["starting", "watching", "away", "failed"]


@dataclass(frozen=True, slots=True)
class WatchIntervals:
    """Intervals in seconds. ``sweep``: between two full comparisons if the system sends notices.

    It finds changes whose notices were lost. ``look``: the same without notices, but at least 20 times the
    duration of a comparison. ``away``: between two checks for a missing folder. ``again``: after a failure.
    ``pause``: the longest pause after a change. The pause is as long as the update took, so that a file that
    is written all the time does not use all CPU time.
    """

    sweep: float = 60.0
    look: float = 1.0
    away: float = 1.0
    again: float = 10.0
    pause: float = 1.5


_SHARE: Final = 20
_OPENINGS: Final = 5  # attempts to watch folders that are created or deleted meanwhile


class _SilentProgress:
    """Progress that is not reported."""

    def tell(self, done: int, total: int | None = None, note: Message | None = None) -> None:
        pass


class FolderWatch:
    """One watched folder. Its documents are updated as long as :meth:`run` runs.

    If the folder disappears (a disk is removed, or the folder is renamed), its documents stay. When it comes
    back, they are updated. If a file disappears, its document is deleted.
    """

    def __init__(
        self,
        folder: DocumentFolder,
        adding: FileAdding,
        progress: Progress | None = None,
        times: WatchIntervals = WatchIntervals(),
        noticed: Callable[[Sequence[str]], ChangeNotices] = change_notices,
    ) -> None:
        self.folder = folder
        self.state: FolderWatchState = "starting"
        self.first: asyncio.Future[FilesReport | TabaneError] = asyncio.get_running_loop().create_future()
        """The report or error of the first pass. It waits for a missing folder."""
        self._adding, self._times, self._noticed = adding, times, noticed
        self._progress: Progress = progress or _SilentProgress()
        self._notices: ChangeNotices | None = None
        self._tree = FileTree(folder.path, folder.ignore)
        self._problem: Message | None = None
        self._spared: list[str] = []
        self._files = 0
        self._changed: float | None = None
        self._took = self._worked = 0.0  # seconds of the last comparison, and of the last update

    async def run(self) -> None:
        """Keep the documents up to date until canceled."""
        try:
            while True:
                wait = self._times.again
                try:
                    await self._follow()
                except (FileNotFoundError, NotADirectoryError):
                    path = self.folder.path
                    self._set_state("away", say("{path} does not exist. Its documents are kept.", path=path))
                    wait = self._times.away
                except OSError as error:
                    reason = error.strerror or str(error)
                    self._set_state("failed", say("cannot be read: {detail}", detail=reason))
                except TabaneError as error:
                    self._set_state("failed", error.message)
                    if not self.first.done():
                        self.first.set_result(error)
                except Exception:
                    log.exception("watching %s failed", self.folder.path)
                    self._set_state("failed", say("Internal error. The hub's log has details: tabane logs"))
                finally:
                    self._close_notices()
                await asyncio.sleep(wait)
        finally:
            self.first.cancel()

    def plain(self, lang: Lang) -> dict[str, Any]:
        """Return the state as JSON. ``changed``: last change of a document, in seconds since 1970."""
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

    def _set_state(self, state: FolderWatchState, problem: Message | None = None) -> None:
        if state != self.state:
            log.info("watched folder %s: %s%s", self.folder.path, state, f" ({problem})" if problem else "")
        self.state, self._problem = state, problem

    async def _follow(self) -> None:
        self._spared = []
        self._tree = FileTree(
            self.folder.path, self.folder.ignore, lambda path, why: self._spared.append(path)
        )
        await asyncio.to_thread(self._tree.look)
        await self._open_notices()
        files = list(self._tree.files())
        report = await self._adding.take(self.folder, files, PassOptions(), self._progress)
        self._progress = _SilentProgress()
        names = [name for name, _ in files]
        report.removed = await self._adding.prune(self.folder, names, self._spared)
        self._note_report(report)
        if not self.first.done():
            self.first.set_result(report)
        self._set_state("watching")
        while True:
            if await self._update_changed():
                await asyncio.sleep(min(self._worked, self._times.pause))

    async def _open_notices(self) -> TreeChanges:
        """Start notices. Return the changes between the last comparison and now."""
        changes = TreeChanges()
        for _ in range(_OPENINGS):
            self._close_notices()
            with suppress(FileNotFoundError):  # a folder was deleted: the comparison will find it
                self._notices = await asyncio.to_thread(self._noticed, self._tree.folders())
            later = await asyncio.to_thread(self._tree.look)
            changes.changed |= later.changed
            changes.gone += later.gone
            if self._notices is not None and not later.folders:
                return changes
        if self._notices is None:
            self._notices = PollingNotices()
        return changes

    async def _update_changed(self) -> bool:
        """Wait for notices, and update the documents of changed files. Return whether anything changed."""
        assert self._notices is not None
        polls = isinstance(self._notices, PollingNotices)
        paths = await self._notices.next(
            max(self._times.look, self._took * _SHARE) if polls else self._times.sweep
        )
        began = time.monotonic()
        changes = await asyncio.to_thread(self._tree.look, self._folders_of(paths) if paths else None)
        self._took = time.monotonic() - began
        # Files among the changed paths are read even if size and time are the same.
        names = filter(None, map(self._name_below, paths))
        files = {name: stat for name in names if (stat := self._tree.stat(name)) is not None}
        files |= changes.changed
        # A folder may be replaced by another one, even with the same inode. Then a notice has its path.
        if changes.folders or any(map(self._tree.is_folder, filter(None, map(self._name_below, paths)))):
            later = await self._open_notices()
            files |= later.changed
            changes.gone += later.gone
        existing = {name: stat for name in files if (stat := self._tree.stat(name)) is not None}
        gone = [name for name in {*changes.gone, *files} if self._tree.stat(name) is None]
        existing |= await asyncio.to_thread(self._same_names, gone)
        if existing or gone:
            await self._update_documents(list(existing.items()), gone)
        return bool(existing or gone)

    def _same_names(self, gone: Sequence[str]) -> dict[str, FileStat]:
        """Return the files that have the names of those that are gone, in another form of Unicode."""
        forms = {unicodedata.normalize("NFC", name) for name in gone if not name.isascii()}
        if not forms:
            return {}
        return {
            name: stat for name, stat in self._tree.files() if unicodedata.normalize("NFC", name) in forms
        }

    async def _update_documents(self, files: Sequence[tuple[str, FileStat]], gone: Sequence[str]) -> None:
        began = time.monotonic()
        report = await self._adding.take(self.folder, files, PassOptions(sure=True), self._progress)
        report.removed = await self._adding.remove(self.folder, gone) if gone else 0
        self._note_report(report)
        self._worked = time.monotonic() - began

    def _note_report(self, report: FilesReport) -> None:
        self._files = sum(1 for _ in self._tree.files())
        if report.new or report.changed or report.removed:
            self._changed = round(time.time(), 3)

    def _folders_of(self, paths: Iterable[str]) -> set[str]:
        """Return the changed paths, which may be folders, and the folders above them, relative to the top."""
        names = {name for path in paths if (name := self._name_below(path)) is not None}
        return names | {name.rpartition("/")[0] for name in names}

    def _name_below(self, path: str) -> str | None:
        top = self.folder.path
        if path == top:
            return ""
        return path[len(top.rstrip(os.sep)) + 1 :] if path.startswith(top.rstrip(os.sep) + os.sep) else None

    def _close_notices(self) -> None:
        if self._notices is not None:
            self._notices.close()
            self._notices = None
