"""Import of the documents of a Chroma collection: names, texts, metadata and dates.

Its vectors are not imported: there is one for a whole document, which says little of a long one, and Chroma
does not know which model made it. The texts are embedded again, chunk by chunk, by the configured model.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from tabane.documents.document import Draft
from tabane.documents.files.file_sources import DocumentWriting, FilesReport, joined
from tabane.documents.parameters import ImportChroma
from tabane.errors import BadArguments, HubError, ModelError, StoreError, TabaneError
from tabane.extras import extra_command
from tabane.messages import say
from tabane.operations import Caller, Progress

_PUT, _MOST_TOGETHER = 50, 4_000_000  # documents, and their characters, that are stored together
_LONGEST_LINE = 64 << 20  # bytes
_OURS = ("filepath", "file_type", "updated_at", "document")


class ChromaImport:
    """The job that imports a collection. Documents that are up to date are skipped."""

    def __init__(self, keeping: DocumentWriting) -> None:
        self._keeping = keeping

    async def import_chroma(self, caller: Caller, params: ImportChroma, progress: Progress) -> dict[str, Any]:
        if not os.path.isabs(params.path):
            raise BadArguments(say("{path}: give the full path, starting with /.", path=params.path), "path")
        report = FilesReport()
        progress.tell(0, None, say("Opening the collection"))
        lines = _lines(params.path, params.collection)
        try:
            total = _total(await anext(lines, {}), params)
            done = 0
            async for rows in _together(lines):
                await self._put(rows, params, report)
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

    async def _put(
        self, rows: Sequence[Mapping[str, Any]], params: ImportChroma, report: FilesReport
    ) -> None:
        drafts = []
        for row in rows:
            if row["text"] and row["text"].strip():
                drafts.append(draft_of(row, params.id_prefix))
            else:
                report.refuse(row["id"], say("it has no text"))
        results = await self._keeping.put(drafts) if drafts else []
        failed = [result for result in results if isinstance(result, StoreError | ModelError)]
        if failed and len(failed) == len(results):
            raise failed[0]
        for draft, result in zip(drafts, results, strict=True):
            if isinstance(result, TabaneError):
                report.refuse(draft.filepath, result.message)
                continue
            report.new += not result.existed
            report.unchanged += result.unchanged
            report.changed += result.existed and not result.unchanged
            report.warning = report.warning or result.warning


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
        updated_at=_moment(metadata.get("updated_at")),
    )


def _moment(written: object) -> float | None:
    """Return seconds since 1970; semche wrote the time of its machine, without a zone."""
    try:
        return datetime.fromisoformat(str(written)).timestamp() if written else None
    except (ValueError, OverflowError, OSError):
        return None


def _total(first: Mapping[str, Any], params: ImportChroma) -> int:
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


async def _lines(path: str, collection: str | None) -> AsyncGenerator[dict[str, Any], None]:
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


async def _together(lines: AsyncIterator[dict[str, Any]]) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield rows in batches that are stored together."""
    some: list[dict[str, Any]] = []
    size = 0
    async for row in lines:
        some.append(row)
        size += len(row["text"] or "")
        if len(some) >= _PUT or size > _MOST_TOGETHER:
            yield some
            some, size = [], 0
    if some:
        yield some
