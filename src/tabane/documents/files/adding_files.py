"""Updates of documents from files: new and changed files are stored, unchanged ones are skipped.

The document of a file contains the file's size, time and digest. So a pass after a crash continues the first
one, and a pass over unchanged files reads none of them.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tabane.documents import metadata
from tabane.documents.document import Document, Draft
from tabane.documents.files.file_tree import FileStat, FileTree
from tabane.documents.files.readable_files import (
    MOST_BYTES,
    DocumentFolder,
    FileSource,
    FilesReport,
    FileTextReader,
    PassOptions,
    binary,
    draft_of,
    read_beneath,
    source_of,
    unreadable,
    written,
)
from tabane.documents.operations import DocumentLibrary, too_large
from tabane.errors import BadArguments, TabaneError
from tabane.messages import Message, say
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
            found = await self._documents.known(keys[first : first + LOOKED])
            gone = [
                document.filepath
                for document in found
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
            documents = await self._documents.known([look.key for look in looks])
            known = {document.filepath: document for document in documents if document is not None}
            changed = [look for look in looks if not _looks_same(folder, look, known.get(look.key), running)]
            running.report.unchanged += len(looks) - len(changed)
            running.done += min(LOOKED, len(files) - first) - len(changed)
            running.tell()
            for batch in _batches(changed):
                await self._put_changed(folder, batch, known, running)
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
                running.report.refuse(path, binary())
            elif stat.size > self._most:
                running.report.refuse(path, too_large(path, stat.size, self._most))
            else:
                yield _FileLook(name, key, stat)

    # Putting

    async def _put_changed(
        self,
        folder: DocumentFolder,
        looks: Sequence[_FileLook],
        known: Mapping[str, Document],
        running: _AddingPass,
    ) -> None:
        """Read files, and store those that have changed since their documents were made."""
        drafts: list[Draft] = []
        paths: list[str] = []
        for look in looks:
            path = _path_of(folder, look.name)
            try:
                draft = await self._draft_changed(folder, look, path, known.get(look.key), running.terms)
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
        return draft_of(look.key, text, file_type, written(source))

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
        async for document in self._documents.all(folder.common):
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
    known = source_of(document)
    if known is None or (known.folder, known.path) != (folder.path, _path_of(folder, look.name)):
        return False
    same_type = folder.file_type is None or document.file_type == folder.file_type
    return same_type and (known.size, known.modified) == (look.stat.size, look.stat.modified)


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
