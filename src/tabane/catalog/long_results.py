"""Long results, kept until they are read or expire: the tool read_more reads on, and queries them.

A kept result has its text for further parts, and its value for queries; large ones are in a file without a
name. Queries run in processes that are killed when one takes too long.
"""

from __future__ import annotations

import asyncio
import logging
import os
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from msgspec import Raw, Struct, field, structs

from tabane.catalog.result_parts import (
    BYTES_OF_TOKEN,
    LongResult,
    PartStart,
    ResultPart,
    TextBlock,
    first_result,
    further_result,
    is_json,
    part_at,
    read_long,
    start_label,
)
from tabane.catalog.result_parts import omits_structure as leaves_structure_out
from tabane.catalog.results.result_query import (
    Aggregate,
    QueryAnswer,
    ResultQuery,
    outline,
    packed_query,
    read_answer,
)
from tabane.errors import CallerError, HubError, WorkerEnded, WorkerSpent
from tabane.messages import Lang, say
from tabane.operations import Caller, CallTarget
from tabane.wire import json
from tabane.workers.pool import Budget, Capacity, Pool
from tabane.workers.time_slices import Pause, no_pause, thread_slices
from tabane.workers.worker import Program, environment, module

if TYPE_CHECKING:
    from tabane.catalog.operations.table import ReadMore

log = logging.getLogger(__name__)

SPILL = 1 << 20
"""Bytes of a result above which it is on disk."""

_WRITTEN_AT_ONCE = 4 << 20


class KeptPieces:
    """Some texts. ``on_disk`` and ``in_memory`` are the numbers of their bytes there."""

    def __init__(self, pieces: Sequence[bytes], folder: Path | None, spill: int = SPILL) -> None:
        size = sum(map(len, pieces))
        self._sizes = [len(piece) for piece in pieces]
        self._file: int | None = None
        self._pieces: tuple[bytes, ...] = ()
        if folder is not None and size > spill:
            try:
                self._file = _write_unnamed_file(pieces, folder)
            except OSError as error:
                log.warning("a long result is kept in memory, because it cannot be on disk: %s", error)
        if self._file is None:
            self._pieces = tuple(pieces)
        else:
            weakref.finalize(self, os.close, self._file)  # a thread that still reads holds this object
        self.on_disk = size if self._file is not None else 0
        self.in_memory = size - self.on_disk

    def all(self, pause: Callable[[], None]) -> list[bytes]:
        """Return all pieces. ``pause`` is called after each. Raises OSError."""
        if self._file is None:
            return list(self._pieces)
        whole, at, found = self._read(0, sum(self._sizes)), 0, []
        for size in self._sizes:
            pause()
            found.append(whole[at : at + size])
            at += size
        return found

    def one(self, index: int) -> bytes:
        """Return one piece. Raises OSError."""
        if self._file is None:
            return self._pieces[index]
        return self._read(sum(self._sizes[:index]), self._sizes[index])

    def _read(self, start: int, size: int) -> bytes:
        assert self._file is not None
        found = bytearray()
        while len(found) < size:
            more = os.pread(self._file, size - len(found), start + len(found))
            if not more:
                raise OSError("the file of a result is shorter than it was")
            found += more
        return bytes(found)


def _write_unnamed_file(pieces: Sequence[bytes], folder: Path) -> int:
    """Write pieces into a file without a name, and return its descriptor. Raises OSError."""
    import tempfile  # most results stay in memory

    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        rest = memoryview(b"".join(pieces))
        while rest:
            rest = rest[file.write(rest[:_WRITTEN_AT_ONCE]) or 0 :]
        return os.dup(file.fileno())


_OF_BLOCK = 256
"""About how many bytes of memory a block takes, besides its text."""


class KeptDocument:
    """The texts of a result, and its value: ``structuredContent``, else JSON in its text, else its text.

    ``value`` is given if the text contains more than the value. ``folder`` is that of large results.
    """

    def __init__(
        self, long: LongResult, folder: Path | None, value: bytes | None = None, pause: Pause = no_pause
    ) -> None:
        texts = [block.text for block in long.content if isinstance(block, TextBlock)]
        document, self.of_json = _value(long, texts, pause) if value is None else (value, True)
        pause()
        self.outline = outline(document, of_json=self.of_json)
        pieces = texts if document in texts else [*texts, document]
        pause()
        self._document = pieces.index(document)
        self._pieces = KeptPieces(pieces, folder)
        self._rest = long.to_keep().without_texts(pause)

    @property
    def tokens(self) -> int:
        """Return the tokens of a part."""
        return self._rest.budget // BYTES_OF_TOKEN

    @property
    def in_memory(self) -> int:
        return self._pieces.in_memory + _OF_BLOCK * len(self._rest.content)

    @property
    def on_disk(self) -> int:
        """Return the bytes of it that are on disk."""
        return self._pieces.on_disk

    def read(self) -> bytes:
        """Return the value as JSON, or the text. Raises OSError."""
        return self._pieces.one(self._document)

    def long(self, pause: Pause = no_pause) -> LongResult:
        """Return what further parts need. Raises OSError."""
        return self._rest.with_texts(iter(self._pieces.all(pause)), pause)

    def whole(self) -> bytes:
        """Return the value as the result of a tool. Raises OSError."""
        members = {"content": Raw(b"[]"), **self._rest.members}
        if self.of_json:
            return json.join({**members, "structuredContent": Raw(self.read())})
        text = self.read().decode("utf-8", "surrogatepass")
        return json.join({**members, "content": Raw(json.encode([{"type": "text", "text": text}]))})


def _value(long: LongResult, texts: list[bytes], pause: Pause) -> tuple[bytes, bool]:
    """Return the value of a result, and whether it is JSON. Several texts of JSON are a list."""
    structured = bytes(long.members.get("structuredContent", b"")).strip()
    if structured and structured != b"null":
        return (texts[0] if texts == [structured] else structured), True
    if texts and all(_is_json(text, pause) for text in texts):
        return (texts[0] if len(texts) == 1 else b"[" + b",".join(texts) + b"]"), True
    return (texts[0] if len(texts) == 1 else b"\n".join(texts)), False


def _is_json(text: bytes, pause: Pause) -> bool:
    found = is_json(text)
    pause()
    return found


MOST = 256
"""Results that are kept; the oldest are dropped."""

MIB = 1 << 20

_AGGREGATES = ", ".join(get_args(Aggregate))


class KeptLimits(Struct, frozen=True):
    """How much is kept: seconds after the last read, results, and bytes in memory and on disk."""

    life: float = 600.0
    most: int = MOST
    most_bytes: int = 64 * MIB
    most_on_disk: int = 512 * MIB


class _KeptResult(Struct):
    """A long result, its owner, and the starts of parts that were given or may be asked for next.

    ``origins`` are the tools that it comes from.
    """

    session: str
    holder: str
    document: KeptDocument
    until: float
    origins: tuple[CallTarget, ...] = ()
    begins: list[PartStart] = field(default_factory=list)


class LongResults:
    """Gives long results in parts, and answers queries on them. A handle belongs to one session and one part.

    ``limits`` are those in force. At a limit, the oldest result is dropped of the session that has most.
    ``folder`` is where large results are kept, None for memory only. ``queries`` is None where nothing is
    queried.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: Callable[[], KeptLimits] = KeptLimits,
        *,
        folder: Path | None = None,
        queries: QueryPool | None = None,
    ) -> None:
        self._loop, self._limits, self._folder, self._queries = loop, limits, folder, queries
        self.prefix = ""
        """Begins each handle. In a group of hubs, it names the hub."""
        self.on_read: Callable[[Caller, CallTarget], None] = lambda caller, origin: None
        """Called for each tool that a result comes from, before something of the result is given."""
        self._kept: dict[str, _KeptResult] = {}
        self._timer: asyncio.TimerHandle | None = None

    def first_part(
        self, caller: Caller, result: Raw, tokens: int, origins: tuple[CallTarget, ...] = ()
    ) -> Raw:
        """Return a result unchanged, or its first part if its text exceeds the budget.

        ``origins`` are the tools that it comes from.
        """
        long = read_long(result, tokens)
        if long is None:
            return result
        part = part_at(long, PartStart())
        document = KeptDocument(long, None)
        return Raw(first_result(long, part, *self._keep_first(caller, long, document, part, origins)))

    async def first_part_of_large(
        self,
        caller: Caller,
        result: Raw,
        tokens: int,
        origins: tuple[CallTarget, ...] = (),
        *,
        value: bytes | None = None,
    ) -> Raw:
        """Do the same, with the expensive part in a thread.

        ``value`` is the value of the result as JSON, if its text contains more than that.
        """
        pause = thread_slices()
        long = await asyncio.to_thread(read_long, result, tokens, pause)
        if long is None:
            return result
        part = await asyncio.to_thread(part_at, long, PartStart(), pause)
        document = await asyncio.to_thread(KeptDocument, long, self._folder, value, pause)
        ending = self._keep_first(caller, long, document, part, origins)
        return Raw(await asyncio.to_thread(first_result, long, part, *ending))

    async def read(self, caller: Caller, params: ReadMore) -> Raw:
        """Return the part for a handle, or what a query finds, as the result of a tool.

        Raises CallerError if there is none, WorkerError, and HubError if it cannot be read from the disk.
        """
        try:
            return await self._read(caller, params)
        except OSError as error:
            raise HubError(
                say("The result cannot be read from the disk: {reason}", reason=str(error))
            ) from None

    async def _read(self, caller: Caller, params: ReadMore) -> Raw:
        key, _, number = params.handle.strip().partition(".")
        kept = self._kept.get(key)
        if kept is None or not _owns(caller, kept) or kept.until <= self._loop.time():
            raise CallerError(
                say(
                    "The handle {handle} is not valid. A handle works only for the client that received it, "
                    "and for a while after the last read (setting result_lifetime). Call the tool again.",
                    handle=params.handle,
                )
            )
        kept.until = self._loop.time() + self._limits().life
        for origin in kept.origins:
            self.on_read(structs.replace(caller, approval=""), origin)
        if params.queries:
            return await self._queried(caller, kept, params)
        if params.whole:
            return Raw(await asyncio.to_thread(kept.document.whole))
        if not number.isdecimal() or not 2 <= int(number) <= len(kept.begins) + 1:
            raise CallerError(say(

                    "The handle {handle} does not belong to a part. Use the handle at the end of the "
                    "previous part.",
                handle=params.handle))  # fmt: skip
        pause = thread_slices()
        long = await asyncio.to_thread(kept.document.long, pause)
        part = await asyncio.to_thread(part_at, long, kept.begins[int(number) - 2], pause)
        return Raw(self._further(kept, long, part, key, int(number), caller.lang))

    def leave(self, session: str) -> None:
        """Drop what was kept for a client that has gone."""
        for key in [key for key, kept in self._kept.items() if kept.session == session]:
            del self._kept[key]

    async def close(self) -> None:
        """Drop everything, and end the processes of queries."""
        self._kept.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._queries is not None:
            await self._queries.close()

    def __len__(self) -> int:
        return len(self._kept)

    # -- queries -----------------------------------------------------------------------------------------

    async def _queried(self, caller: Caller, kept: _KeptResult, params: ReadMore) -> Raw:
        if self._queries is None:
            raise CallerError(say("This hub cannot query results. Read the next part instead."))
        document = kept.document
        query = ResultQuery(
            await asyncio.to_thread(document.read),
            document.of_json,
            _valid(params.select),
            _valid(params.lines),
            _valid(params.regex),
            params.context,
            params.aggregate,
        )
        found = await self._queries.ask(query, caller.session)
        if found.failure is not None:
            raise CallerError(found.failure)
        if params.whole:
            return Raw(await asyncio.to_thread(_as_value, found))
        result = await asyncio.to_thread(_as_text, found, caller.lang)
        return await self.first_part_of_large(caller, result, document.tokens, kept.origins)

    # -- what is kept ------------------------------------------------------------------------------------

    def _keep_first(
        self,
        caller: Caller,
        long: LongResult,
        document: KeptDocument,
        part: ResultPart,
        origins: tuple[CallTarget, ...],
    ) -> tuple[str, dict[str, Any]]:
        """Keep a result; return the ending of its first part."""
        key = self.prefix + os.urandom(9).hex()
        now, life = self._loop.time(), self._limits().life
        holder = caller.access.holder
        self._kept[key] = _KeptResult(caller.session, holder, document, now + life, origins, [part.end])
        self._make_room(now)
        if self._timer is None:
            self._timer = self._loop.call_later(life, self._expire)
        note, meta = _ending(long, part, f"{key}.2", 1, caller.lang)
        return f"{note[:-1]} {_how_to_query(document, key, caller)}]", meta

    def _further(
        self, kept: _KeptResult, long: LongResult, part: ResultPart, key: str, number: int, lang: Lang
    ) -> bytes:
        if not part.last and len(kept.begins) < number:
            kept.begins.append(part.end)
        note, meta = _ending(long, part, f"{key}.{number + 1}", number, lang)
        return further_result(long, part, note, meta)

    def _make_room(self, now: float) -> None:
        for key in [key for key, kept in self._kept.items() if kept.until <= now]:
            del self._kept[key]
        limits = self._limits()
        self._drop_above(limits.most, lambda document: 1)
        self._drop_above(limits.most_bytes, lambda document: document.in_memory)
        self._drop_above(limits.most_on_disk, lambda document: document.on_disk)

    def _drop_above(self, most: int, size: Callable[[KeptDocument], int]) -> None:
        """Drop the oldest result of the session that has most, until no more than ``most`` is kept.

        The newest stays, whatever its size: its client has just got a handle for the rest.
        """
        total = sum(size(kept.document) for kept in self._kept.values())
        while total > most:
            used: Counter[str] = Counter()
            for kept in self._kept.values():
                used[kept.session] += size(kept.document)
            others = [key for key in list(self._kept)[:-1] if size(self._kept[key].document)]
            if not others:
                return
            oldest = max(others, key=lambda key: used[self._kept[key].session])
            total -= size(self._kept.pop(oldest).document)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        self._make_room(now)
        if self._kept:
            first = min(kept.until for kept in self._kept.values())
            self._timer = self._loop.call_later(max(first - now, 0.0), self._expire)


def _owns(caller: Caller, kept: _KeptResult) -> bool:
    return kept.session == caller.session and kept.holder == caller.access.holder


def _valid(text: str | None) -> str | None:
    """Return a text that can be encoded: a client may send half a surrogate pair."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _as_text(found: QueryAnswer, lang: Lang) -> Raw:
    content = [found.found.decode("utf-8", "replace")] + ([found.note.render(lang)] if found.note else [])
    blocks = [{"type": "text", "text": text} for text in content if text]
    return Raw(json.encode({"content": blocks, "isError": False}))


def _as_value(found: QueryAnswer) -> bytes:
    """Return what a query found as the result of a tool that a script calls."""
    if found.of_json:
        return b'{"content":[],"structuredContent":' + found.found + b"}"
    text = found.found.decode("utf-8", "replace")
    return json.encode({"content": [{"type": "text", "text": text}]})


def _how_to_query(document: KeptDocument, key: str, caller: Caller) -> str:
    """Return what a result contains, and how to query it: also in a script if it is that of one."""
    outline = document.outline
    example = {"handle": key, "select": outline.select} if document.of_json else {"handle": key, "regex": "…"}
    written = json.encode(example).decode("utf-8", "replace")
    if document.of_json:
        text = say(
            "All of it: {shape}. To query it by JMESPath: read_more {example}, also with aggregate: {all}.",
            shape=outline.shape,
            example=written,
            all=_AGGREGATES,
        )
    else:
        text = say(
            'All of it: {shape}. To query it: read_more {example}, or lines: "120-180", also with '
            "aggregate: {all}.",
            shape=outline.shape,
            example=written,
            all=_AGGREGATES,
        )
    in_script = say('In a script: from tools import open_result; await open_result("{handle}")', handle=key)
    words = [text, in_script] if caller.script else [text]
    return " ".join(each.render(caller.lang) for each in words)


def _ending(
    long: LongResult, part: ResultPart, handle: str, number: int, lang: Lang
) -> tuple[str, dict[str, Any]]:
    """Return how to continue: as text at the end of a part, and for programs in its ``_meta``."""
    meta: dict[str, Any] = {"part": number, "bytes": part.end.given, "of": long.size}
    dropped = number == 1 and leaves_structure_out(long)
    if dropped:
        meta["omitted"] = ["structuredContent"]
    if part.last:
        last = say("This is the last of {count} {count:part|parts} of the result.", count=number)
        return f"[{last.render(lang)}]", meta
    meta["next"] = handle
    position = {"given": f"{part.end.given:,}", "size": f"{long.size:,}"}
    if place := start_label(long, part.end):
        text = say(
            "{given} of {size} {size:byte is|bytes are} shown. The rest starts at {place}.",
            place=place,
            **position,
        )
    else:
        text = say("{given} of {size} {size:byte is|bytes are} shown.", **position)
    how = say('Next part: read_more {{"handle": "{handle}"}}', handle=handle)
    words = [text.render(lang), how.render(lang)]
    if dropped:
        words.insert(1, say("structuredContent is left out.").render(lang))
    return f"[{' '.join(words)}]", meta


LARGEST = 64 << 20
"""Bytes of a document that can be queried."""

BUDGET = Budget(seconds=3.0, deadline=60.0, patience=60.0, tries=1)
CAPACITY = Capacity(turns=3, each=1, waiting=16, size=4 * LARGEST)
IDLE = 60.0
_MEMORY = 1_000_000_000  # bytes of address space


class QueryPool:
    """Queries results in processes: one query of a client at a time.

    ``environ`` is the hub's, ``errors`` the descriptor that a process writes its stderr to. The first query
    starts a process, which ends when it has had nothing to do for a minute.
    """

    def __init__(
        self, environ: Mapping[str, str], errors: int | None = None, *, budget: Budget = BUDGET
    ) -> None:
        program = Program(
            module("tabane.catalog.results.query_worker"), environment(environ), _MEMORY, errors
        )
        self.pool = Pool(program, CAPACITY, idle=IDLE)
        self._budget = budget

    async def ask(self, query: ResultQuery, key: str) -> QueryAnswer:
        """Return what a query of a client finds. Raises CallerError and WorkerError."""
        if len(query.document) > LARGEST:
            raise CallerError(say("The result is too large to be queried: {size} MiB. Read it in parts.",
                                  size=len(query.document) >> 20))  # fmt: skip
        body = await asyncio.to_thread(packed_query, query)
        try:
            return read_answer(await self.pool.ask(body, self._budget, key=key))
        except WorkerSpent:
            raise CallerError(
                say(
                    "The query was stopped after {seconds:g} s of CPU time. Write a simpler expression.",
                    seconds=self._budget.seconds,
                )
            ) from None
        except (WorkerEnded, msgspec.DecodeError):
            raise CallerError(
                say(
                    "The query was stopped: it took too long, or too much memory. Write a simpler expression."
                )
            ) from None

    async def close(self) -> None:
        """End the processes. Nothing is queried after that."""
        await self.pool.close()
