"""Operations on files as documents: added by a job, watched, or imported from a Chroma store."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from tabane.documents.document import Draft
from tabane.documents.files.file_updates import FileAdding, FolderWatch
from tabane.documents.files.readable_files import (
    DocumentFolder,
    FilesReport,
    FileTextReader,
    PassOptions,
    joined,
    with_colon,
)
from tabane.documents.operations import DocumentLibrary, checked_encoding
from tabane.documents.table import (
    AddDocuments,
    ImportChroma,
    UnwatchDocuments,
    WatchDocuments,
)
from tabane.errors import BadArguments, HubError, TabaneError
from tabane.extras import extra_command
from tabane.messages import say
from tabane.operations import Caller, NoParameters, Progress
from tabane.operations.job_turns import Turn
from tabane.settings.files import write_private

_PUT, _MOST_TOGETHER = 50, 4_000_000  # documents, and their characters, that are stored together
_LONGEST_LINE = 64 << 20  # bytes
_OURS = ("filepath", "file_type", "updated_at", "document")


def draft_of(row: Mapping[str, Any], prefix: str = "") -> Draft:
    """Return the draft of a row of Chroma. Its ``filepath`` is preferred to its id."""
    metadata = row["metadata"]
    filepath, file_type = metadata.get("filepath"), metadata.get("file_type")
    return Draft(
        joined(prefix, filepath if isinstance(filepath, str) and filepath else row["id"]),
        row["text"],
        file_type if isinstance(file_type, str) and file_type else None,
        metadata={
            name: value
            for name, value in metadata.items()
            if name not in _OURS and isinstance(value, str | int | float | bool)
        },
        updated_at=_written_moment(metadata.get("updated_at")),
    )


def _written_moment(written: object) -> float | None:
    """Return seconds since 1970; semche wrote the time of its machine, without a zone."""
    try:
        return datetime.fromisoformat(str(written)).timestamp() if written else None
    except (ValueError, OverflowError, OSError):
        return None


def _read_total(first: Mapping[str, Any], params: ImportChroma) -> int:
    """Return how many documents there are. Raises BadArguments if they cannot be read."""
    match first.get("error"):
        case None if "total" in first:
            return int(first["total"])
        case "missing":
            message = say(
                "Tabane needs the Chroma library to read its files. Install it with: {command}",
                command=extra_command("chroma"),
            )
        case "none":
            message = say("{path} has no chroma.sqlite3. Give the folder that contains it.", path=params.path)
        case "collection":
            names = ", ".join(first["names"]) or "-"
            message = say(
                "There is no collection {name}. Available: {names}. Choose one with --collection",
                name=first["detail"], names=names,
            )  # fmt: skip
        case _:
            detail = first.get("detail", "")
            message = say("Chroma cannot read {path}: {detail}", path=params.path, detail=detail)
    raise BadArguments(message, "path")


async def _read_lines(path: str, collection: str | None) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the lines of the child process. The child is stopped when the caller stops reading."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tabane.documents.files.chroma_worker", path,
        *([collection] if collection else []),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        limit=_LONGEST_LINE,
    )  # fmt: skip
    assert child.stdout is not None
    try:
        while line := await child.stdout.readline():
            yield await asyncio.to_thread(json.loads, line)
        await child.wait()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


async def _row_batches(lines: AsyncIterator[dict[str, Any]]) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield rows in batches that are stored together."""
    batch: list[dict[str, Any]] = []
    size = 0
    async for row in lines:
        batch.append(row)
        size += len(row["text"] or "")
        if len(batch) >= _PUT or size > _MOST_TOGETHER:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


log = logging.getLogger(__name__)


class WatchedFolders(msgspec.Struct, frozen=True):
    """The folders that are watched, as they are kept in a file."""

    folders: list[DocumentFolder] = []

    @classmethod
    def read(cls, path: Path) -> WatchedFolders:
        """Read the file; no folders if there is none. A damaged one is renamed, and no folder is watched."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            return cls()
        except (msgspec.DecodeError, UnicodeError) as error:
            broken = path.with_suffix(".broken")
            os.replace(path, broken)
            log.error("%s is damaged (%s) and was renamed to %s", path, error, broken.name)
            return cls()

    def write(self, path: Path) -> None:
        """Replace the file. Raises OSError and keeps the old file if that fails."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, msgspec.json.format(msgspec.json.encode(self), indent=2))


MOST_WATCHED = 32
"""The most folders that are watched at the same time."""


class DocumentFiles:
    """The files of one hub. ``remembered`` is the file that lists the watched folders."""

    def __init__(
        self,
        keeping: DocumentLibrary,
        texts: FileTextReader,
        remembered: Path,
    ) -> None:
        self._documents = keeping
        self._adding = FileAdding(keeping, texts)
        self._remembered = remembered
        self._watches: dict[str, tuple[FolderWatch, asyncio.Task[None]]] = {}
        self._changing = Turn()

    # Watched folders

    async def start(self) -> None:
        """Watch the folders again that were watched when the hub ended."""
        async with self._changing.taken():
            for folder in (await asyncio.to_thread(WatchedFolders.read, self._remembered)).folders:
                if folder.path not in self._watches:
                    self._begin_watch(folder)

    @property
    def watched(self) -> int:
        """Return the number of watched folders: a hub that watches some must not exit when idle."""
        return len(self._watches)

    async def close(self) -> None:
        """Stop watching. The list of watched folders is kept."""
        async with self._changing.taken():
            for path in list(self._watches):
                await self._end_watch(path)

    def _begin_watch(self, folder: DocumentFolder, progress: Progress | None = None) -> FolderWatch:
        watch = FolderWatch(folder, self._adding, progress)
        task = asyncio.get_running_loop().create_task(watch.run(), name=f"watch {folder.path}")
        self._watches[folder.path] = watch, task
        return watch

    async def _end_watch(self, path: str) -> None:
        _, task = self._watches.pop(path)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    # Operations

    async def add_documents(self, caller: Caller, params: AddDocuments, progress: Progress) -> dict[str, Any]:
        """Add and update the documents of files and folders. Return the counts of files by outcome."""
        encoding = checked_encoding(params.encoding)
        terms = PassOptions(since=_since_moment(params.since), prune=params.prune, again=params.again)

        def check_paths() -> list[str]:
            return [_check_path(path, "paths") for path in params.paths]

        paths = await asyncio.to_thread(check_paths)
        prefix = await self._used_prefix(params.id_prefix)
        folders = [
            DocumentFolder(path, prefix, params.relative, params.file_type, tuple(params.ignore), encoding)
            for path in dict.fromkeys(paths)
        ]
        report = await self._adding.add(folders, terms, progress)
        return report.plain(caller.lang)

    async def watch_documents(
        self, caller: Caller, params: WatchDocuments, progress: Progress
    ) -> dict[str, Any]:
        """Watch a folder. Return the report of its first pass, and its state."""
        path = await asyncio.to_thread(_check_path, params.path, "path")
        encoding = checked_encoding(params.encoding)
        if not await asyncio.to_thread(os.path.isdir, path):
            raise BadArguments(say("{path} is not a folder. Only folders can be watched.", path=path), "path")
        prefix = await self._used_prefix(params.id_prefix)
        folder = DocumentFolder(
            path, prefix, params.relative, params.file_type, tuple(params.ignore), encoding
        )
        async with self._changing.taken(progress):
            self._check_place(path)
            if path in self._watches:
                await self._end_watch(path)
            watch = self._begin_watch(folder, progress)
            await self._remember()
        try:
            report = await asyncio.shield(watch.first)
        except asyncio.CancelledError:
            if not watch.first.cancelled():
                await self._forget(path)
                raise
            raise HubError(say("{path} is no longer watched.", path=path)) from None
        if isinstance(report, TabaneError):
            await self._forget(path)
            raise report
        return {**report.plain(caller.lang), "watch": watch.plain(caller.lang)}

    async def _used_prefix(self, prefix: str) -> str:
        """Return the prefix of ids: with a colon if only ids with a colon exist, as after import-chroma."""
        colon = with_colon(prefix)
        reading = await self._documents.reading()
        if colon == prefix or await anext(reading.all(prefix + "/"), None) is not None:
            return prefix
        return prefix if await anext(reading.all(colon), None) is None else colon

    async def unwatch_documents(self, caller: Caller, params: UnwatchDocuments) -> dict[str, Any]:
        """Stop watching a folder. Return how many of its documents were removed."""
        path = await asyncio.to_thread(_check_path, params.path, "path")
        if path not in self._watches:
            raise BadArguments(
                say(
                    "{path} is not watched. List the watched folders with: tabane docs watch --list",
                    path=path,
                ),
                "path",
            )
        folder = self._watches[path][0].folder
        await self._forget(path)
        removed = await self._adding.prune(folder, ()) if params.remove else 0
        return {"path": path, "removed": removed}

    async def list_watched(self, caller: Caller, params: NoParameters) -> dict[str, Any]:
        """Return the watched folders and their states."""
        return {"results": [watch.plain(caller.lang) for watch, _ in self._watches.values()]}

    async def import_chroma(self, caller: Caller, params: ImportChroma, progress: Progress) -> dict[str, Any]:
        """Import a collection. Return the counts of its documents by outcome.

        Documents that are up to date are skipped.
        """
        if not os.path.isabs(params.path):
            raise BadArguments(say("{path}: give the full path, starting with /.", path=params.path), "path")
        report = FilesReport()
        progress.tell(0, None, say("Opening the collection"))
        lines = _read_lines(params.path, params.collection)
        try:
            total = _read_total(await anext(lines, {}), params)
            done = 0
            async for rows in _row_batches(lines):
                drafts = []
                for row in rows:
                    if row["text"] and row["text"].strip():
                        drafts.append(draft_of(row, params.id_prefix))
                    else:
                        report.refuse(row["id"], say("it has no text"))
                results = await self._documents.put(drafts) if drafts else []
                report.count_results([draft.filepath for draft in drafts], results)
                done += len(rows)
                progress.tell(done, total)
        finally:
            await lines.aclose()
        if done < total:
            raise HubError(
                say(
                    "Chroma ended after {done} of {total} {total:document|documents}. The documents "
                    "imported so far are kept.",
                    done=done,
                    total=total,
                )
            )
        return report.plain(caller.lang)

    async def _forget(self, path: str) -> None:
        async with self._changing.taken():
            if path in self._watches:
                await self._end_watch(path)
            await self._remember()

    async def _remember(self) -> None:
        folders = WatchedFolders([watch.folder for watch, _ in self._watches.values()])
        await asyncio.to_thread(folders.write, self._remembered)

    def _check_place(self, path: str) -> None:
        """Raise BadArguments if the folder cannot be watched in addition to the others."""
        for other in self._watches:
            if other != path and os.path.commonpath((other, path)) in (other, path):
                raise BadArguments(
                    say(
                        "{other} is already watched, and one folder contains the other. First run: tabane "
                        "docs watch --remove {other}",
                        other=other,
                    ),
                    "path",
                )
        if path not in self._watches and len(self._watches) >= MOST_WATCHED:
            raise BadArguments(
                say(
                    "{limit} {limit:folder is|folders are} already watched, which is the maximum.",
                    limit=MOST_WATCHED,
                ),
                "path",
            )


def _check_path(path: str, parameter: str) -> str:
    if not os.path.isabs(path) or "\0" in path:
        raise BadArguments(say("{path}: give the full path, starting with /.", path=path), parameter)
    return os.path.realpath(path)


def _since_moment(since: str | None) -> float | None:
    """Return seconds since 1970 of a date, or of a date and time.

    Without a zone: in the zone of this machine.
    """
    if since is None:
        return None
    try:
        return datetime.fromisoformat(since).timestamp()
    except (ValueError, OverflowError, OSError):
        raise BadArguments(
            say("{since}: expected a date, such as 2026-01-31 or 2026-01-31T12:00", since=since), "since"
        ) from None
