"""Remaining parts of long results, kept until they are read or expire: the tool read_more."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from msgspec import Raw, Struct, field

from tabane.errors import CallerError
from tabane.gateway.parameters import ReadMore
from tabane.gateway.result_parts import (
    LongResult,
    PartStart,
    ResultPart,
    first_result,
    further_result,
    part_at,
    read_long,
    start_label,
)
from tabane.gateway.result_parts import omits_structure as leaves_structure_out
from tabane.messages import Lang, say
from tabane.operations import Caller

LIFE = 600.0
"""Seconds to keep a result after its last read."""

MOST = 256
"""Results that are kept; the oldest are dropped."""

MOST_BYTES = 64 << 20


class _KeptResult(Struct):
    """A long result, its owner, and the starts of parts that were given or may be asked for next."""

    session: str
    long: LongResult
    until: float
    footprint: int
    begins: list[PartStart] = field(default_factory=list)


class LongResults:
    """Gives long results in parts. A handle belongs to one session and one part, which may be read again.

    Limits: ten minutes after the last read, 256 results, 64 MiB of text.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        life: float = LIFE,
        most: int = MOST,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._loop, self._life, self._most, self._most_bytes = loop, life, most, most_bytes
        self.prefix = ""
        """Begins each handle. In a group of hubs, it names the hub."""
        self._kept: dict[str, _KeptResult] = {}
        self._timer: asyncio.TimerHandle | None = None

    def first_part(self, caller: Caller, result: Raw, tokens: int) -> Raw:
        """Return a result unchanged, or its first part if its text exceeds the budget."""
        long = read_long(result, tokens)
        if long is None:
            return result
        part = part_at(long, PartStart())
        return Raw(first_result(long, part, *self._keep_first(caller, long, long.to_keep(), part)))

    async def first_part_of_large(self, caller: Caller, result: Raw, tokens: int) -> Raw:
        """Do the same, with the expensive part in a thread."""
        long = await asyncio.to_thread(read_long, result, tokens)
        if long is None:
            return result
        part = await asyncio.to_thread(part_at, long, PartStart())
        kept = await asyncio.to_thread(long.to_keep)
        ending = self._keep_first(caller, long, kept, part)
        return Raw(await asyncio.to_thread(first_result, long, part, *ending))

    async def read(self, caller: Caller, params: ReadMore) -> Raw:
        """Return the part for a handle, as the result of a tool. Raises CallerError if there is none."""
        key, _, number = params.handle.strip().partition(".")
        kept = self._kept.get(key)
        if kept is None or kept.session != caller.session or kept.until <= self._loop.time():
            raise CallerError(say(

                    "The handle {handle} is not valid. A handle works for ten minutes and only for the "
                    "client that received it. Call the tool again.", handle=params.handle))  # fmt: skip
        if not number.isdecimal() or not 2 <= int(number) <= len(kept.begins) + 1:
            raise CallerError(say(

                    "The handle {handle} does not belong to a part. Use the handle at the end of the "
                    "previous part.",
                handle=params.handle))  # fmt: skip
        kept.until = self._loop.time() + self._life
        begin = kept.begins[int(number) - 2]
        part = await asyncio.to_thread(part_at, kept.long, begin)
        return Raw(self._further(kept, part, key, int(number), caller.lang))

    def leave(self, session: str) -> None:
        """Drop what was kept for a client that has gone."""
        for key in [key for key, kept in self._kept.items() if kept.session == session]:
            del self._kept[key]

    def __len__(self) -> int:
        return len(self._kept)

    def _keep_first(
        self, caller: Caller, long: LongResult, kept: LongResult, part: ResultPart
    ) -> tuple[str, dict[str, Any]]:
        """Keep the text after the first part; return the ending of that part."""
        key = self._keep(caller.session, kept, part.end)
        return _ending(long, part, f"{key}.2", 1, caller.lang)

    def _further(self, kept: _KeptResult, part: ResultPart, key: str, number: int, lang: Lang) -> bytes:
        if not part.last and len(kept.begins) < number:
            kept.begins.append(part.end)
        note, meta = _ending(kept.long, part, f"{key}.{number + 1}", number, lang)
        return further_result(kept.long, part, note, meta)

    def _keep(self, session: str, long: LongResult, begin: PartStart) -> str:
        key = self.prefix + os.urandom(9).hex()
        now = self._loop.time()
        self._kept[key] = _KeptResult(session, long, now + self._life, long.footprint, [begin])
        self._make_room(now)
        if self._timer is None:
            self._timer = self._loop.call_later(self._life, self._expire)
        return key

    def _make_room(self, now: float) -> None:
        for key in [key for key, kept in self._kept.items() if kept.until <= now]:
            del self._kept[key]
        # The newest stays, whatever its size: its client has just got a handle for the rest.
        size = sum(kept.footprint for kept in self._kept.values())
        for key in list(self._kept)[:-1]:
            if len(self._kept) <= self._most and size <= self._most_bytes:
                break
            size -= self._kept.pop(key).footprint

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        self._make_room(now)
        if self._kept:
            first = min(kept.until for kept in self._kept.values())
            self._timer = self._loop.call_later(max(first - now, 0.0), self._expire)


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
