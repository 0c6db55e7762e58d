"""Learning from results in the background: a queue of results, and a file that is written now and then.

``learned-types.jsonl`` in the home gets a line whenever a type has changed. It has names of properties and
kinds of values, but no value. The last line of a tool counts. It is not synced: if the machine fails, what
was learned last may be lost. All methods of the file block.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Raw, Struct

from tabane.code.result_types import MOST_TOOLS, LearnedType, LearnedTypes, ResultShape, ToolKey, read_types
from tabane.code.script_values import ToolFailed, tool_value
from tabane.errors import ConfigurationError
from tabane.hub.context import HubContext
from tabane.hub.servers import BROKEN
from tabane.settings.files import read_trusted
from tabane.wire import json
from tabane.wire.json import InvalidJson

log = logging.getLogger(__name__)


LEAST_ROOM = 1 << 20
"""Bytes that are appended before the file is written again."""

LARGEST_TYPE_FILE = 64 << 20
"""Bytes of a file that is read. A larger one is none of ours."""

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class TypeFile:
    """Reads and writes the file. It is created with the first type."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._room = LEAST_ROOM

    def read(self) -> list[LearnedType]:
        """Return what the file says. One that is damaged is set aside, and what is readable of it is kept."""
        try:
            data = read_trusted(self._path, LARGEST_TYPE_FILE)
        except FileNotFoundError:
            return []
        except (ConfigurationError, OSError) as error:
            self._set_aside(str(error))
            return []
        whole = data[: data.rfind(b"\n") + 1]  # the last line may be cut by a crash
        found, faults = read_types(whole.splitlines())
        if faults:
            self._set_aside(f"{faults} lines are unreadable")
            self.write(found)
        elif len(whole) < len(data):
            self.write(found)
        return found

    def add(self, types: Iterable[LearnedType]) -> bool:
        """Append types. Return whether the file has grown so much that it should be written again.

        Raises OSError.
        """
        body = _lines(types)
        with open(os.open(self._path, _FLAGS | os.O_APPEND, 0o600), "wb") as file:
            file.write(body)
        self._room -= len(body)
        return self._room < 0

    def write(self, types: Iterable[LearnedType]) -> None:
        """Write types in place of the file; without any, remove it. Raises OSError."""
        body = _lines(types)
        self._room = max(LEAST_ROOM, len(body))
        if not body:
            self._path.unlink(missing_ok=True)
            return
        part = self._path.with_suffix(".part")
        with open(os.open(part, _FLAGS | os.O_TRUNC, 0o600), "wb") as file:
            file.write(body)
        os.replace(part, self._path)

    @property
    def _broken(self) -> Path:
        return self._path.with_name(self._path.name + BROKEN)

    def _set_aside(self, why: str) -> None:
        log.warning("the learned types of results are unreadable, and set aside as %s: %s", self._broken, why)
        try:
            os.replace(self._path, self._broken)
        except OSError as error:
            log.warning("%s cannot be renamed: %s", self._path, error)


def _lines(types: Iterable[LearnedType]) -> bytes:
    return b"".join(line for each in types if (line := each.line()) is not None)


SMALL = 8 << 10
"""Bytes of a result up to which it is looked at on the event loop."""

LARGEST = 4 << 20
"""Bytes of a result above which it is ignored."""

MOST_WAITING = 64
MOST_BYTES = 8 << 20
"""Results that wait, and their bytes. More are ignored."""

SAVED = 5.0
"""Seconds after which what was learned is written."""

_FINAL = (None, b'"complete"')


class WaitingResult(Struct, frozen=True):
    """A result that is to be looked at."""

    learned: LearnedType
    result: bytes | Raw


class TypeLearning:
    """Learns types from results."""

    def __init__(self, context: HubContext, file: TypeFile) -> None:
        self._context, self._loop, self._file = context, context.loop, file
        self._types = LearnedTypes()
        self._counted: dict[tuple[str, str, str, str], LearnedType] = {}
        self._waiting: deque[WaitingResult] = deque()
        self._bytes = 0
        self._at_work: asyncio.Task[None] | None = None
        self._saving: asyncio.TimerHandle | None = None
        self._writing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed = self._ended = False
        self._loaded = self._spawn(self._load())

    @property
    def _outlive(self) -> bool:
        """Whether the types outlive the hub: not if calls are not to be recorded."""
        return self._context.settings.audit != "off"

    def note(self, key: tuple[str, str, str, str], result: bytes | Raw) -> None:
        """Note the result of a call. It is looked at later, if at all. ``key`` has the members of ToolKey."""
        learned = self._counted.get(key) or self._type_of(key)
        if not learned.is_due():
            return
        learned, size = self._type_of(key), len(result)
        if size > LARGEST:
            return
        if len(self._waiting) >= MOST_WAITING or self._bytes + size > MOST_BYTES:
            return
        self._waiting.append(WaitingResult(learned, result))
        self._bytes += size
        if self._at_work is None:
            self._at_work = self._spawn(self._learn())

    def _type_of(self, key: tuple[str, str, str, str]) -> LearnedType:
        """Return the type to which a call belongs, and keep it at hand: most calls are only counted."""
        if len(self._counted) >= MOST_TOOLS:
            self._counted.clear()
        learned = self._counted[key] = self._types.of_call(ToolKey._make(key))
        return learned

    def find(self, key: tuple[str, str, str, str]) -> LearnedType | None:
        """Return what was learned of this definition of a tool for this caller."""
        return self._types.find(ToolKey._make(key))

    async def forget(self, name: str) -> int:
        """Forget a tool, the tools of a server, or all. Return how many. Raises OSError."""
        await self._loaded
        count = self._types.forget(name)
        self._counted.clear()
        async with self._writing:
            await asyncio.to_thread(self._file.write, self._types.all() if self._outlive else [])
        return count

    async def close(self) -> None:
        """Write what is not written yet."""
        await self._loaded
        self._stop()
        await self._save()

    def abandon(self) -> None:
        """Learn and write nothing more."""
        self._stop()
        self._ended = True

    def _stop(self) -> None:
        self._waiting.clear()
        if self._at_work is not None:
            self._at_work.cancel()
        if self._saving is not None:
            self._saving.cancel()

    async def _load(self) -> None:
        found = await asyncio.to_thread(self._read)
        self._types.restore(found)
        self._counted.clear()

    def _read(self) -> list[LearnedType]:
        try:
            return self._file.read()
        except OSError as error:
            log.warning("the learned types of results cannot be written: %s", error)
            return []

    async def _learn(self) -> None:
        """Look at all results that wait, one after another."""
        try:
            await self._loaded
            while self._waiting:
                await asyncio.sleep(0)  # others have their turn
                waiting = self._waiting.popleft()
                self._bytes -= len(waiting.result)
                if len(waiting.result) > SMALL:
                    seen = await asyncio.to_thread(_observed, waiting)
                else:
                    seen = _observed(waiting)
                if seen is not None:
                    self._types.learn(waiting.learned, *seen)
                    if self._saving is None and self._outlive:
                        self._saving = self._loop.call_later(SAVED, self._save_later)
        finally:
            self._at_work = None

    def _save_later(self) -> None:
        self._saving = None
        self._spawn(self._save())

    async def _save(self) -> None:
        """Append what has changed, or write the file again. A failure is logged once."""
        async with self._writing:
            fresh = self._types.take_fresh()
            if not fresh or self._ended or not self._outlive:
                return
            try:
                if await asyncio.to_thread(self._file.add, fresh):
                    await asyncio.to_thread(self._file.write, self._types.all())
                self._failed = False
            except OSError as error:
                if not self._failed:
                    log.warning("the learned types of results cannot be written: %s", error)
                self._failed = True

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _observed(waiting: WaitingResult) -> tuple[ResultShape, int] | None:
    """Return the shape of a result and a digest of its content; None if it says nothing."""
    with contextlib.suppress(InvalidJson, ToolFailed, RecursionError):
        members = json.fields(waiting.result)
        kind = members.get("resultType")
        has_content = "content" in members or "structuredContent" in members
        if has_content and (None if kind is None else bytes(kind)) in _FINAL:
            content = hash(bytes(waiting.result))
            return waiting.learned.observed(tool_value(Raw(waiting.result)), content), content
    return None
