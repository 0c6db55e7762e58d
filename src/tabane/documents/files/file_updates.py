"""Updates of documents from files: added once, or followed in watched folders.

The document of a file contains the file's size, time and digest. So a pass after a crash continues the first
one, and a pass over unchanged files reads none of them.

Notices of changes come from the operating system, or else the folder is polled. A notice is a hint: it names
paths that may have changed. Comparing the files shows the actual changes.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol

import msgspec

from tabane.documents import metadata
from tabane.documents.document import Document, Draft
from tabane.documents.files.file_tree import FileStat, FileTree, TreeChanges
from tabane.documents.files.readable_files import (
    BINARY,
    MOST_BYTES,
    DocumentFolder,
    FileSource,
    FilesReport,
    FileTextReader,
    PassOptions,
    printable,
    read_beneath,
    source_of,
    unreadable,
)
from tabane.documents.operations import DocumentLibrary, too_large
from tabane.errors import BadArguments, TabaneError
from tabane.messages import Lang, Message, say
from tabane.operations import Progress

LOOKED, PUT = 500, 50
"""The most files that are looked up together, and the most documents that are stored together."""

MOST_TOGETHER = 4_000_000  # approximate bytes of files that are stored together
_SETTLED = 2_000_000_000
"""Nanoseconds. A file written less than that before it was read may change again with the same time."""


class _FileLook(NamedTuple):
    """A file to compare: its path below the folder, the name of its document, and its state."""

    name: str
    key: str
    stat: FileStat


@dataclass(slots=True)
class _AddingPass:
    """A running pass over folders."""

    terms: PassOptions
    report: FilesReport
    progress: Progress
    total: int = 0
    done: int = 0
    taken: dict[str, str] = field(default_factory=dict)
    spared: list[str] = field(default_factory=list)

    def tell(self) -> None:
        note = say(
            "{new} new, {changed} changed, {unchanged} unchanged",
            new=self.report.new,
            changed=self.report.changed,
            unchanged=self.report.unchanged,
        )
        self.progress.tell(self.done, self.total, note)


class FileAdding:
    """Creates and updates documents from files."""

    def __init__(self, keeping: DocumentLibrary, texts: FileTextReader, most_bytes: int = MOST_BYTES) -> None:
        self._documents, self._texts, self._most = keeping, texts, most_bytes

    async def add(
        self, folders: Sequence[DocumentFolder], terms: PassOptions, progress: Progress
    ) -> FilesReport:
        """Update the documents of folders. If it is canceled or killed, stored documents stay.

        Unusable files are in the report. Raises BadArguments if a folder does not exist or has too many
        files. Raises StoreError and ModelError if nothing more can be stored.
        """
        running = _AddingPass(terms, FilesReport(), progress)
        looked: list[tuple[DocumentFolder, list[tuple[str, FileStat]]]] = []
        for folder in folders:
            progress.tell(running.total, None, say("Reading {path}", path=folder.path))
            files = await asyncio.to_thread(self._scan_folder, folder, running)
            running.total += len(files)
            looked.append((folder, files))
        for folder, files in looked:
            await self._update_files(folder, files, running)
        if terms.prune:
            keys = set(running.taken)
            for folder, _ in looked:
                running.report.removed += await self._delete_others(folder, keys, running.spared)
        running.tell()
        return running.report

    async def take(
        self,
        folder: DocumentFolder,
        files: Sequence[tuple[str, FileStat]],
        terms: PassOptions,
        progress: Progress,
    ) -> FilesReport:
        """Update the documents of these files of a folder."""
        running = _AddingPass(terms, FilesReport(), progress, total=len(files))
        await self._update_files(folder, files, running)
        return running.report

    async def remove(self, folder: DocumentFolder, names: Sequence[str]) -> int:
        """Delete the documents of files that no longer exist, if they were made from these files.

        A file whose name is another form of the same letters (NFC, NFD) has the same document, and may be
        there: the file was renamed.
        """
        paths = {
            (key, _path_of(folder, name)) for name in names if (key := _key_or_none(folder, name)) is not None
        }
        keys = list({key for key, _ in paths})
        removed = 0
        for first in range(0, len(keys), LOOKED):
            gone = [
                document.filepath
                for document in await (await self._documents.reading()).documents(
                    keys[first : first + LOOKED]
                )
                if document
                and (source := source_of(document))
                and source.folder == folder.path
                and (document.filepath, source.path) in paths
            ]
            removed += await self._documents.delete(gone) if gone else 0
        return removed

    async def prune(self, folder: DocumentFolder, names: Sequence[str], spared: Sequence[str] = ()) -> int:
        """Delete the documents that were made from other files of the folder than those named."""
        keys = {key for name in names if (key := _key_or_none(folder, name)) is not None}
        return await self._delete_others(folder, keys, spared)

    # Looking

    def _scan_folder(self, folder: DocumentFolder, running: _AddingPass) -> list[tuple[str, FileStat]]:
        """Return all files of a folder. Blocks."""

        def refuse(path: str, why: Message) -> None:
            running.spared.append(path)
            running.report.refuse(path, why)

        if os.path.isfile(folder.path):
            state = os.stat(folder.path)
            return [("", FileStat(state.st_size, state.st_mtime_ns, state.st_ino))]
        try:
            tree = FileTree(folder.path, folder.ignore, refuse)
            tree.look()
            return list(tree.files())
        except OSError as error:
            raise BadArguments(unreadable(folder.path, error), "paths") from None

    async def _update_files(
        self, folder: DocumentFolder, files: Sequence[tuple[str, FileStat]], running: _AddingPass
    ) -> None:
        for first in range(0, len(files), LOOKED):
            looks = list(self._comparable_files(folder, files[first : first + LOOKED], running))
            documents = await (await self._documents.reading()).documents([look.key for look in looks])
            by_name = {document.filepath: document for document in documents if document is not None}
            changed = [
                look for look in looks if not _looks_same(folder, look, by_name.get(look.key), running)
            ]
            running.report.unchanged += len(looks) - len(changed)
            running.done += min(LOOKED, len(files) - first) - len(changed)
            running.tell()
            for batch in _batches(changed):
                await self._put_changed(folder, batch, by_name, running)
                running.done += len(batch)
                running.tell()

    def _comparable_files(
        self, folder: DocumentFolder, files: Sequence[tuple[str, FileStat]], running: _AddingPass
    ) -> Iterator[_FileLook]:
        """Yield the files to compare. Unusable and old files are only counted."""
        for name, stat in files:
            path = _path_of(folder, name)
            try:
                key = folder.key(name)
            except TabaneError as error:
                running.report.refuse(path, error.message)
                continue
            other = running.taken.setdefault(key, path)
            since = running.terms.since
            if other != path:
                running.report.refuse(
                    path,
                    say(
                        "{path} has the same id: {key}. Make the ids different with --id-prefix",
                        path=other,
                        key=key,
                    ),
                )
            elif since is not None and stat.modified < since * 1e9:
                running.report.older += 1
            elif metadata.is_no_text(name or path):
                running.report.refuse(path, BINARY)
            elif stat.size > self._most:
                running.report.refuse(path, too_large(path, stat.size, self._most))
            else:
                yield _FileLook(name, key, stat)

    # Putting

    async def _put_changed(
        self,
        folder: DocumentFolder,
        looks: Sequence[_FileLook],
        by_name: Mapping[str, Document],
        running: _AddingPass,
    ) -> None:
        """Read files, and store those that have changed since their documents were made."""
        drafts: list[Draft] = []
        paths: list[str] = []
        for look in looks:
            path = _path_of(folder, look.name)
            try:
                draft = await self._draft_changed(folder, look, path, by_name.get(look.key), running.terms)
            except TabaneError as error:
                running.report.refuse(path, error.message)
                continue
            if draft is None:
                running.report.unchanged += 1
            else:
                drafts.append(draft)
                paths.append(path)
        if not drafts:
            return
        running.report.count_results(paths, await self._documents.put(drafts))

    async def _draft_changed(
        self,
        folder: DocumentFolder,
        look: _FileLook,
        path: str,
        document: Document | None,
        terms: PassOptions,
    ) -> Draft | None:
        """Return the draft of a file's document, None if the document is up to date. Raises TabaneError."""
        source, data = await asyncio.to_thread(self._read_file, folder, look, path)
        same_type = document is not None and folder.file_type in (None, document.file_type)
        if document is not None and same_type and not terms.again and source_of(document) == source:
            return None
        text, file_type = await self._texts.read(look.name or path, data, folder.encoding, folder.file_type)
        return Draft(
            look.key,
            text.text,
            file_type=file_type,
            kind=text.kind,
            title=text.title,
            source=msgspec.json.encode(source).decode(),
        )

    def _read_file(self, folder: DocumentFolder, look: _FileLook, path: str) -> tuple[FileSource, bytes]:
        """Read a file. Return its source data and its bytes. Blocks. Raises BadArguments."""
        top, name = (folder.path, look.name) if look.name else os.path.split(folder.path)
        now = time.time_ns()
        try:
            read = read_beneath(top, name.split("/"), self._most)
        except OSError as error:
            raise BadArguments(unreadable(path, error)) from None
        digest = hashlib.blake2b(read.data, digest_size=16).hexdigest()
        modified = read.modified if now - read.modified > _SETTLED else 0
        return FileSource(path, folder.path, len(read.data), modified, digest), read.data

    # Pruning

    async def _delete_others(self, folder: DocumentFolder, keys: set[str], spared: Sequence[str]) -> int:
        """Delete documents of the folder's files that are not among ``keys``.

        Files below an unreadable folder are spared, because they may still exist.
        """
        gone: list[str] = []
        async for document in (await self._documents.reading()).all(folder.common):
            source = source_of(document)
            if document.filepath in keys or source is None or source.folder != folder.path:
                continue
            if not any(source.path == path or source.path.startswith(path + os.sep) for path in spared):
                gone.append(document.filepath)
        removed = 0
        for first in range(0, len(gone), LOOKED):
            removed += await self._documents.delete(gone[first : first + LOOKED])
        return removed


def _looks_same(
    folder: DocumentFolder, look: _FileLook, document: Document | None, running: _AddingPass
) -> bool:
    """Return whether the file has the size and time that it had when its document was made from it."""
    if document is None or running.terms.again or running.terms.sure:
        return False
    source = source_of(document)
    if source is None or (source.folder, source.path) != (folder.path, _path_of(folder, look.name)):
        return False
    same_type = folder.file_type is None or document.file_type == folder.file_type
    return same_type and (source.size, source.modified) == (look.stat.size, look.stat.modified)


def _batches(looks: Sequence[_FileLook]) -> Iterator[list[_FileLook]]:
    """Yield the files in batches that are read and stored together."""
    batch: list[_FileLook] = []
    size = 0
    for look in looks:
        if batch and (len(batch) >= PUT or size + look.stat.size > MOST_TOGETHER):
            yield batch
            batch, size = [], 0
        batch.append(look)
        size += look.stat.size
    if batch:
        yield batch


def _path_of(folder: DocumentFolder, name: str) -> str:
    return os.path.join(folder.path, name) if name else folder.path


def _key_or_none(folder: DocumentFolder, name: str) -> str | None:
    try:
        return folder.key(name)
    except TabaneError:
        return None


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
            began = time.monotonic()
            files_now, options = list(existing.items()), PassOptions(sure=True)
            report = await self._adding.take(self.folder, files_now, options, self._progress)
            report.removed = await self._adding.remove(self.folder, gone) if gone else 0
            self._note_report(report)
            self._worked = time.monotonic() - began
        return bool(existing or gone)

    def _same_names(self, gone: Sequence[str]) -> dict[str, FileStat]:
        """Return the files that have the names of those that are gone, in another form of Unicode."""
        forms = {unicodedata.normalize("NFC", name) for name in gone if not name.isascii()}
        if not forms:
            return {}
        return {
            name: stat for name, stat in self._tree.files() if unicodedata.normalize("NFC", name) in forms
        }

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
