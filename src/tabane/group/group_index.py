"""Audit log and usage of a group of hubs: each hub writes its own, and queries cover all of them.

The log of each hub stays as it is, with its chain. The index lags behind it and catches up from its mark.
If the database is away, a query is answered from this hub's log alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from tabane.audit.entry import MAC_MEMBER, AuditEntry, decode_entry, entry_object
from tabane.audit.index_requests import (
    EntryCounts,
    EntryQuery,
    IndexTask,
    UsageDays,
    UsageOfDay,
    UsageQuery,
)
from tabane.audit.log_lines import LogFile, line_holds, log_files, needles_of, read_lines, timed_entry, top
from tabane.audit.usage_rollups import KEPT_DAYS, usage_figures, usage_group
from tabane.errors import AuditError, StoreError
from tabane.group.shared_records import (
    LARGEST_ENTRY,
    MOST_COUNTED,
    FoundLine,
    IndexedEntry,
    LogMark,
    LogPart,
    UsageRow,
    UsageSums,
)
from tabane.messages import say

if TYPE_CHECKING:
    from tabane.audit.index_process import AuditIndexProcess
    from tabane.group.tables.shared_usage import PostgresAudit, PostgresUsage

STEP = 2_000
"""Entries that are given at once."""

STEPS = 4
"""Steps in one exchange, so that nothing else waits for long."""

MOST_SCANNED = 20_000
"""Entries that are looked at for one page of a search for a text."""

_ENTRIES_PAGE = 500
_PROPERTIES = ("type", "outcome", "server", "name", "key", "client", "face", "hub")


class GroupEntries:
    """The audit log of one hub in its group.

    ``newest`` returns the seq of its newest entry. ``mark`` names the hub, and ``address`` is where it is
    reached.
    """

    def __init__(
        self, shared: PostgresAudit, folder: str, newest: Callable[[], int], mark: str, address: str
    ) -> None:
        self._shared, self._folder, self._newest = shared, folder, newest
        self._hub, self.address = mark, address
        self._given = -1
        self._turn = asyncio.Lock()
        self._known = False
        self._mark: LogMark | None = None

    async def exchange(self) -> bool:
        """Give the index what it lacks of the log. Return whether it has all of it. Raises StoreError."""
        async with self._turn:
            newest = self._newest()
            if newest != self._given and await self._given_all():
                self._given = newest
            return newest == self._given

    async def _given_all(self) -> bool:
        if not self._known:
            self._mark = await self._shared.mark(self._hub)
            self._known = True
        for _ in range(STEPS):
            try:
                part = await asyncio.to_thread(next_part, self._folder, self._mark)
            except OSError as error:
                raise AuditError(
                    say("The audit log cannot be read: {reason}", reason=error.strerror or str(error))
                ) from None
            if part is None:
                return True
            self._known = False  # if this fails, it is not known how far the index is
            await self._shared.add(self._hub, self.address, part)
            self._mark, self._known = part.mark, True
            if not part.more:
                return True
        return False

    async def page(self, query: EntryQuery) -> dict[str, Any]:
        """Return a page of the entries of all hubs, as the index of one hub does. Raises StoreError."""
        await self._caught_up()
        if query.filter.text:
            return await self._page_with_text(query)
        rows = await self._shared.find(query, query.before, query.offset, query.limit + 1)
        total = await self._shared.count(query)
        shown = rows[: query.limit]
        return {
            "results": _entries(shown),
            "total": min(total, MOST_COUNTED),
            "exact": total <= MOST_COUNTED,
            "before": shown[-1].number if len(rows) > query.limit else None,
        }

    async def counts(self, query: EntryCounts) -> dict[str, Any]:
        """Return counts of the entries of all hubs, also by hub. Raises StoreError."""
        await self._caught_up()
        found = await self._shared.groups(query.filter)
        answer: dict[str, Any] = {"total": sum(count for _, count in found.counts)}
        for place, name in enumerate(_PROPERTIES):
            answer[f"by_{name}"] = top(((row[place], count) for row, count in found.counts), query.top)
        return answer | {"earliest": found.earliest, "latest": found.latest}

    async def _caught_up(self) -> None:
        if not await self.exchange():
            raise StoreError(
                say("The audit log of this hub is still being copied to the database. Try again in a moment.")
            )

    async def _page_with_text(self, query: EntryQuery) -> dict[str, Any]:
        """Look at candidates, newest first, until the page is full; the others are not counted."""
        needles, skip = needles_of(query.filter.text), query.offset
        found: list[FoundLine] = []
        before, scanned = query.before, 0
        while scanned < MOST_SCANNED:
            rows = await self._shared.find(query, before, 0, _ENTRIES_PAGE)
            scanned += _ENTRIES_PAGE
            for row in rows:
                before = row.number
                if line_holds(row.line.encode(), needles):
                    skip, held = max(0, skip - 1), skip == 0
                    found += [row] if held else []
                if len(found) == query.limit:
                    break
            if len(found) == query.limit or len(rows) < _ENTRIES_PAGE:
                break
        last = len(found) < query.limit and len(rows) < _ENTRIES_PAGE
        return {
            "results": _entries(found), "total": None, "exact": False, "before": None if last else before
        }  # fmt: skip


def next_part(folder: str, mark: LogMark | None) -> LogPart | None:
    """Return what follows a mark in the log; None if nothing does. Reads files."""
    files = log_files(folder)
    if not files:
        return None
    at = _place_of_mark(files, mark)
    begins = mark is None or at is None
    number, place = at or (0, 0)
    while True:
        file = files[number]
        entries, place = _read_entries(file, place)
        last = number + 1 == len(files)
        if entries or last:
            break
        number, place = number + 1, 0
    moved = LogMark(file.first, file.identity, place, files[0].first)
    if moved == mark:
        return None
    return LogPart(entries, moved, begins, more=not last or len(entries) == STEP)


def _place_of_mark(files: list[LogFile], mark: LogMark | None) -> tuple[int, int] | None:
    """Return the number of the file, and the place in it, that a mark means; None: it is another log."""
    if mark is None:
        return None
    for number, file in enumerate(files):
        if file.first == mark.first:
            same = file.identity == mark.identity and file.size >= mark.end
            return (number, mark.end) if same else None
        if file.first > mark.first:
            return number, 0  # the log has removed what was before
    return None


def _read_entries(file: LogFile, place: int) -> tuple[list[IndexedEntry], int]:
    """Return the next entries of a file, and the place after them."""
    entries: list[IndexedEntry] = []
    try:
        for read in read_lines(file, place):
            for line in read.lines:
                place += len(line) + 1
                found = timed_entry(line)
                if found is not None:
                    entries.append(_indexed_entry(line, *found))
                if len(entries) == STEP:
                    return entries, place
            place = read.end
    except FileNotFoundError:
        pass  # the log removed it meanwhile
    return entries, place


def _indexed_entry(line: bytes, entry: AuditEntry, moment: int) -> IndexedEntry:
    text = line[: line.rfind(MAC_MEMBER)] + b"}"
    if len(text) > LARGEST_ENTRY:
        size = entry.arguments_size or len(bytes(entry.arguments))
        short = msgspec.structs.replace(entry, arguments=msgspec.Raw(), arguments_size=size, mac="")
        text = msgspec.json.encode(entry_object(short))
    return IndexedEntry(
        entry.seq, moment, entry.type, entry.key, entry.label, entry.client, entry.face, entry.server,
        entry.name, entry.outcome, text.decode("utf-8", "replace"),
    )  # fmt: skip


def _entries(rows: Iterable[FoundLine]) -> list[dict[str, Any]]:
    return [{**entry_object(decode_entry(row.line.encode())), "hub": row.hub} for row in rows]


EVERY = 60.0
"""Seconds between two exchanges that nobody asked for."""

_PAGE = 1000


class GroupUsage:
    """The usage of a group, in which this hub has a mark. ``folder`` is that of its log.

    ``newest`` returns the seq of the newest entry of the log, and ``clock`` seconds.
    """

    def __init__(
        self,
        shared: PostgresUsage,
        index: Callable[[], AuditIndexProcess],
        mark: str,
        folder: str,
        newest: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        self._shared, self._index, self._mark, self._folder = shared, index, mark, folder
        self._newest, self._clock = newest, clock
        self._given = -1
        self._next = 0.0

    async def exchange(self, *, now: bool = False) -> None:
        """Give the group the usage that it lacks, if it is time or ``now`` is set. Raises TabaneError."""
        newest = self._newest()
        if newest == self._given or not await asyncio.to_thread(os.path.isdir, self._folder):
            return
        if not now and self._clock() < self._next:
            return
        self._next = self._clock() + EVERY
        counted = await self._index().ask(UsageDays())
        if self._given < 0 and len(counted) >= KEPT_DAYS:
            await self._shared.forget_before(counted[0][0])
        known = await self._shared.days(self._mark)
        for day, calls in counted:
            if calls > known.get(day, 0):
                await self._give_day(day)
        self._given = newest

    async def answer(self, query: UsageQuery) -> Any:
        """Return the answer to a query from the usage of all hubs. Raises TabaneError."""
        await self.exchange(now=True)
        if query.used_tools:
            return [list(row) for row in await self._shared.used_tools(query)]
        page = await self._shared.page(query)
        groups = [_usage_row(query, one) for one in page.groups]
        return {"results": groups, "total": page.total, "sum": usage_figures(page.amounts, page.buckets)}

    async def _give_day(self, day: str) -> None:
        after = 0
        while True:
            found = await self._index().ask(UsageOfDay(day, after, _PAGE))
            await self._shared.keep(self._mark, [_usage_of_day(day, each) for each in found])
            if len(found) < _PAGE:
                return
            after = found[-1][0]


def _usage_row(query: UsageQuery, one: UsageSums) -> dict[str, Any]:
    server = one.server if one.servers == 1 else None
    return usage_group(query.by, one.name, one.label, server, one.amounts, one.buckets)


def _usage_of_day(day: str, found: list[Any]) -> UsageRow:
    _, key, client, server, tool, label, amounts, buckets = found
    return UsageRow(day, key, label, client, server, tool, tuple(amounts), tuple(map(tuple, buckets)))


log = logging.getLogger(__name__)

THIS = "this"
"""In a filter: the hub that is asked."""


class GroupIndex:
    """Answers tasks as the index of one hub does. ``index`` returns that of this hub.

    Entries then have the member ``hub``. If only this hub is known, the answer has the reason as ``problem``.
    """

    def __init__(
        self, entries: GroupEntries, usage: GroupUsage, index: Callable[[], AuditIndexProcess]
    ) -> None:
        self._entries, self._usage, self._index = entries, usage, index

    async def ask(self, task: IndexTask) -> Any:
        """Return the answer to a task. Raises TabaneError."""
        try:
            if isinstance(task, UsageQuery):
                return await self._usage.answer(task)
            if isinstance(task, EntryCounts):
                return await self._entries.counts(task)
            if isinstance(task, EntryQuery) and task.filter.hub != THIS:
                return await self._entries.page(task)
        except StoreError as error:
            return await self._of_this_hub(task, error)
        return await self._of_this_hub(task, None)

    async def exchange(self, *, now: bool = False) -> None:
        """Give the group what it lacks of this hub. Raises TabaneError."""
        await self._entries.exchange()
        await self._usage.exchange(now=now)

    async def _of_this_hub(self, task: IndexTask, problem: StoreError | None) -> Any:
        if problem is not None:
            if isinstance(task, EntryQuery) and (task.filter.hub or task.before):
                raise problem  # what is asked for is not of this hub
            log.warning("only the audit log of this hub is searched: %s", problem)
        found = await self._index().ask(task)
        if isinstance(task, EntryQuery):
            for row in found["results"]:
                row["hub"] = self._entries.address
        if problem is not None and isinstance(found, dict):
            found["problem"] = say("Only this hub is included: {problem}", problem=problem.message)
        return found
