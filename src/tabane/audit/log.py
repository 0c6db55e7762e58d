"""The audit log: one entry for each call, chained, in the kernel before its answer goes out.

An entry is one ``write`` to a file that is only appended to. When :meth:`AuditLog.record` returns, the
entry survives ``kill -9``. A thread writes it to disk within a second, or at once if the log is strict;
then ``record`` returns a future to wait for.

Failed attempts are bounded: those of one second and source are one entry with a count.

Old files are removed. A clock may jump, forward by years if the one of the hardware is wrong. So after a gap
in the log, its age counts from before the gap, until the log has gone on for a week. The removal is recorded
before files are deleted, with the mac at which the rest of the log begins. So the verification distinguishes
it from files that somebody deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from binascii import hexlify
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, get_args

from tabane.audit.chain import (
    NO_HEAD,
    ChainEnd,
    ChainHead,
    DiskSync,
    HeadFile,
    MacChain,
    disk_error,
    find_end,
    own_key,
    sync_folder,
)
from tabane.audit.entry import (
    EMPTY,
    LONGEST_LINE,
    MAC_MEMBER,
    NOTHING,
    USAGE,
    AuditFile,
    AuditOptions,
    EntryType,
    Outcome,
    PreparedArguments,
    RecordedScript,
    audit_files,
    audit_paths,
    decode_entry,
    file_name,
)
from tabane.errors import AuditError
from tabane.messages import Message, say
from tabane.wire import json

if TYPE_CHECKING:
    from tabane.audit.redaction import ArgumentRedactor
    from tabane.operations.caller import Caller, CallTarget

DAY = 86_400.0

_CONFIRMED = 7 * DAY
"""Seconds of log after a gap, from which on the clock is believed."""


class OldFiles(NamedTuple):
    """Files to remove, and where the rest begins: the seq of its first entry and the mac before that."""

    files: list[AuditFile]
    begins: int
    previous: str


def old_files(folder: str, most: int, days: int, now: Callable[[], float] = time.time) -> OldFiles | None:
    """Return the files that are beyond the number or the age; None if there is none. Raises OSError.

    The newest file stays in any case.
    """
    files = audit_files(folder)
    count = max(0, len(files) - most)
    if days:
        oldest = _without_jump(files, now(), max(3.0, days / 8 + 2) * DAY) - days * DAY
        while count < len(files) - 1 and os.path.getmtime(files[count].path) < oldest:
            count += 1
    if not count:
        return None
    first = files[count]
    with open(first.path, "rb") as file:
        try:
            previous = decode_entry(file.readline(LONGEST_LINE)).previous
        except ValueError:
            return None  # a damaged file: whoever verifies the log must see it
    return OldFiles(files[:count], first.first, previous)


def _without_jump(files: list[AuditFile], now: float, longest: float) -> float:
    """Return the time by which the log grows old: ``now`` without gaps over ``longest`` that end lately.

    Raises OSError.
    """
    times = [time for file in files for time in (began_at(file), os.path.getmtime(file.path))]
    jumped = 0.0
    for before, after in pairwise([*times, now]):
        if after - before > longest and now - after < _CONFIRMED:
            jumped += after - before
    return now - jumped


def began_at(file: AuditFile) -> float:
    """Return when a file was begun, in seconds since 1970; if its first line is damaged, when it was written.

    Raises OSError.
    """
    with open(file.path, "rb") as opened:
        try:
            return datetime.fromisoformat(decode_entry(opened.readline(LONGEST_LINE)).time).timestamp()
        except ValueError:
            return os.fstat(opened.fileno()).st_mtime


def remove(files: list[AuditFile]) -> None:
    """Delete the files, oldest first, so that what remains is always the end of the log."""
    for file in files:
        os.unlink(file.path)


WINDOW = 1.0
"""Seconds for which equal events are counted together."""

MOST_SOURCES = 100
"""Sources in a second that get entries of their own; all others share entries."""

_OTHERS = "…"


class AccessEvent(NamedTuple):
    """A sign-in, a failed attempt, or a change of keys, settings or the hub."""

    type: EntryType
    holder: str
    label: str
    source: str
    action: str
    outcome: Outcome
    detail: str


class EventFlood:
    """Writes the first event of a source at once, and the number of the others after a second."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        write: Callable[[AccessEvent, int], None],
        clock: Callable[[], float],
    ) -> None:
        self._loop, self._write, self._clock = loop, write, clock
        self._counts: dict[tuple[str, str], int] = {}
        self._last: dict[tuple[str, str], AccessEvent] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, event: AccessEvent) -> None:
        """Write an event, or count it if its source had one like it in this second."""
        key = (event.source, event.action)
        if key not in self._counts and len(self._counts) >= MOST_SOURCES:
            key = (_OTHERS, "")
            event = event._replace(holder="", label="", source=_OTHERS)
        if key in self._counts:
            self._counts[key] += 1
            self._last[key] = event
            return
        self._counts[key] = 0
        self._write(event, 1)
        if self._timer is None:
            self._timer = self._loop.call_later(WINDOW, self.flush)

    def flush(self) -> None:
        """Write the numbers of the events that were only counted."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        counts, self._counts = self._counts, {}
        last, self._last = self._last, {}
        for key, count in counts.items():
            if count:
                self._write(last[key], count)


MOST_REMEMBERED = 2048
"""Callers and targets whose texts are remembered; beyond it, the memory begins again."""

LONGEST_TEXT = 500
"""Characters of a name, reason or other text of an entry; longer ones are cut."""


class EntryTexts:
    """Makes the texts of callers, targets and times, and remembers them."""

    def __init__(self) -> None:
        self._callers: dict[tuple[str, ...], bytes] = {}
        self._targets: dict[tuple[str, ...], bytes] = {}
        self._second, self._time = -1, b""
        self._last: tuple[Caller, str, bytes] | None = None

    def caller(self, caller: Caller) -> bytes:
        """Return the members that name a caller, as they follow others in an entry."""
        access, last = caller.access, self._last
        # A record never changes, but its key may get another label.
        if last is not None and last[0] is caller and last[1] == access.label:
            return last[2]
        key = (access.holder, access.label, caller.client, caller.face._value_, caller.session)
        text = self._callers.get(key)
        if text is None:
            names = ("key", "label", "client", "face", "session")
            text = _remember_text(self._callers, key, members(**dict(zip(names, key, strict=True))))
        self._last = caller, access.label, text
        return text

    def target(self, target: CallTarget) -> bytes:
        """Return the members that name what is called, as they follow others in an entry."""
        key = (target.kind, target.name, target.server)
        text = self._targets.get(key)
        if text is None:
            text = members(kind=target.kind, name=target.name, server=target.server)
            _remember_text(self._targets, key, text)
        return text

    def time(self, now: float) -> bytes:
        """Return a time, in seconds since 1970, as RFC 3339 in UTC with milliseconds."""
        second = int(now)
        if second != self._second:
            self._second = second
            self._time = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S.").encode()
        return b"%b%03dZ" % (self._time, int((now - second) * 1000))


def members(**values: str | int | float) -> bytes:
    """Return values as members that follow others: ``,"name":"value"`` for each that is not empty."""
    return b"".join(member(name, value) for name, value in values.items() if value)


def member(name: str, value: str | int | float) -> bytes:
    """Return one value as a member that follows others. A text beyond LONGEST_TEXT is cut."""
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            value = value[: LONGEST_TEXT - 1] + "…"
        text = json.quote(value.encode("utf-8", "replace").decode())
    else:
        text = json.encode(value)
    return b',"%b":%b' % (name.encode(), text)


def _remember_text(memory: dict[tuple[str, ...], bytes], key: tuple[str, ...], text: bytes) -> bytes:
    if len(memory) >= MOST_REMEMBERED:
        memory.clear()
    memory[key] = text
    return text


RETRY = 1.0
"""Seconds between two attempts to write a log that could not be written."""

_OUTCOMES = {outcome: member("outcome", outcome) for outcome in get_args(Outcome)}

log = logging.getLogger(__name__)


class AuditLog:
    """The log of one home. Use it on the event loop only.

    ``folder`` has its files. ``head`` is its last entry. ``lost`` are the entries that could not be written
    and are not recorded as lost yet, ``dropped`` all since the log was opened. ``clock`` returns seconds
    since 1970, and ``steady`` seconds that never go back.
    """

    def __init__(
        self,
        home: str,
        options: AuditOptions,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open the log, and continue it where it ended. Raises AuditError if that is not possible."""
        paths = audit_paths(home)
        self.folder = paths.folder
        self._options, self._loop, self._clock, self._steady = options, loop, clock, steady
        self._texts = EntryTexts()
        self._redactor: ArgumentRedactor | None = None
        self._hidden: tuple[Iterable[str], Callable[[str], str]] | None = None
        self._floods = EventFlood(loop, self._write_event, clock)
        self._problem: OSError | None = None
        self._retry_at = 0.0
        self.lost = self.dropped = 0
        self._seq, self._mac = NO_HEAD
        self._fd, self._size, self._next_day = -1, 0, 0.0
        self._file_began = 0.0
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            self._chain = MacChain(own_key(paths.key))
            self._head_file = HeadFile(paths.head)
        except OSError as error:
            raise _open_error(self.folder, error) from None
        self._sync = DiskSync(loop, self._head_file, self._disk_failed, strict=options.sync == "strict")
        try:
            self._resume_log(self._head_file.found)
        except OSError as error:
            self._head_file.close()
            raise _open_error(self.folder, error) from None

    @property
    def head(self) -> ChainHead:
        """The last entry: its seq and mac."""
        return ChainHead(self._seq, self._mac)

    @property
    def problem(self) -> Message | None:
        """Return why entries cannot be written at the moment; None if they can."""
        if self._problem is None:
            return None
        reason = self._problem.strerror or str(self._problem)
        return say(
            "The audit log cannot be written: {reason}. Entries lost: {count}.",
            reason=reason,
            count=self.lost,
        )

    @property
    def lag(self) -> float:
        """The seconds that the oldest entry has been waiting for the disk; 0 if all are on it."""
        return self._sync.lag

    def hide(self, values: Iterable[str], hide: Callable[[str], str]) -> None:
        """Hide these values in arguments from now on. ``hide`` replaces them in a text, however written."""
        self._hidden = values, hide
        if self._redactor is not None:
            self._redactor.hide(values, hide)

    def use(self, options: AuditOptions) -> None:
        """Apply changed settings from now on."""
        if options.mode != self._options.mode:
            self._write_event(AccessEvent("audit", "", "", "", options.mode, "ok", ""), 1)
        self._options = options
        if self._redactor is not None:
            self._redactor.use(options.argument_limit, options.redact)
        self._sync.strict = options.sync == "strict"
        self._next_day = 0.0

    def prepare(self, arguments: bytes) -> PreparedArguments:
        """Return the arguments of a call that begins, redacted, or being redacted in a thread.

        Raises AuditError if no call may begin because the log cannot be written.
        """
        if self._problem is not None and not self._try_to_recover() and self._stops_calls:
            raise disk_error(self._problem)
        if len(arguments) <= 2 and arguments in (b"", b"{}"):
            return EMPTY if arguments and self._options.argument_limit > 2 else NOTHING
        return (self._redactor or self._with_redactor()).prepare(arguments)

    def record(
        self,
        caller: Caller,
        target: CallTarget,
        arguments: PreparedArguments = NOTHING,
        request: str = "",
        outcome: Outcome = "ok",
        seconds: float = 0.0,
        size: int = 0,
        saved: int = 0,
        reason: str = "",
        script: RecordedScript | None = None,
    ) -> Awaitable[None] | None:
        """Record one call, before its answer goes out. The entry is in the kernel when this returns.

        Returns a future if the answer has to wait for the disk. Raises AuditError if the entry could not be
        written and calls are then refused.
        """
        if self._options.mode == "off":
            return None
        json, sent = arguments.take()
        parts = [self._texts.caller(caller)]
        if request:
            parts.append(_plain_member("request", request))
        if caller.script:
            parts.append(_plain_member("script", caller.script))
        if caller.approval:
            parts.append(member("approval", caller.approval))
        parts.append(self._texts.target(target))
        if json:
            parts += (b',"arguments":', json)
        if sent:
            parts.append(b',"arguments_size":%d' % sent)
        if script is not None:
            parts.append(b',"code":"%b","code_size":%d,"calls":%d' % (script.code.encode(), *script[1:]))
        parts.append(_OUTCOMES[outcome])
        if reason:
            parts.append(member("reason", reason))
        parts.append(b',"ms":%.3f,"bytes":%d' % (seconds * 1000, size))
        if saved:
            parts.append(b',"saved":%d' % saved)
        self._append_entry("call", b"".join(parts))
        return self._sync.on_disk(self._seq) if self._sync.strict else None

    def event(
        self,
        type: EntryType,
        holder: str,
        action: str,
        outcome: Outcome = "ok",
        detail: str = "",
        *,
        label: str = "",
        source: str = "",
    ) -> None:
        """Record a sign-in, a failed attempt, or a change of keys, settings or the hub. Never raises.

        Failed attempts are bounded: those of one second and source are one entry with a count.
        """
        if self._options.mode == "off":
            return
        event = AccessEvent(type, holder, label, source, action, outcome, detail)
        if type == "access" and outcome != "ok":
            self._floods.add(event)
        else:
            self._write_event(event, 1)

    def close(self) -> None:
        """Write everything to disk and close the log. Blocks as long as the disk takes."""
        self._floods.flush()
        self._sync.close()
        if self._redactor is not None:
            self._redactor.close()
        self._head_file.close()
        self._fd = -1

    def _with_redactor(self) -> ArgumentRedactor:
        """Return the redactor. It is imported with the first arguments: its patterns are large."""
        from tabane.audit.redaction import ArgumentRedactor

        redactor = self._redactor = ArgumentRedactor(self._options.argument_limit, self._options.redact)
        if self._hidden is not None:
            redactor.hide(*self._hidden)
        return redactor

    # -- writing ---------------------------------------------------------------------------------

    def _append_entry(self, type: EntryType, members: bytes) -> None:
        """Write an entry. Raises AuditError if it cannot be written and calls are then refused."""
        if self._problem is not None and not self._try_to_recover():
            self._lose_entry(self._problem)
            return
        now = self._clock()
        if self._size >= self._options.size or now >= self._next_day:
            self._tend_files(now)
            if self._problem is not None:
                self._lose_entry(self._problem)
                return
        try:
            self._write(type, now, members)
        except OSError as error:
            self._lose_entry(error)

    def _write(self, type: EntryType, now: float, members: bytes) -> None:
        """Write an entry to the open file. Raises OSError; then nothing of it is in the file."""
        seq = self._seq + 1
        body = b'{"seq":%d,"time":"%b","type":"%b"%b' % (seq, self._texts.time(now), type.encode(), members)
        mac = self._chain.mac(self._mac, body)
        line = b'%b%b%b"}\n' % (body, MAC_MEMBER, hexlify(mac))
        if os.write(self._fd, line) != len(line):
            self._finish_torn(line)
        self._size += len(line)
        self._seq, self._mac = seq, mac
        self._head_file.write(seq, mac)
        self._sync.written()

    def _finish_torn(self, line: bytes) -> None:
        """Write the rest of a line of which a part was written; or remove that part, and raise OSError."""
        try:
            while (written := os.fstat(self._fd).st_size - self._size) < len(line):
                if not os.write(self._fd, line[written:]):
                    raise OSError(0, "nothing was written")
        except OSError:
            try:
                os.ftruncate(self._fd, self._size)
            except OSError:  # of an append-only file, for example: the part stays, and the next file begins
                self._size = self._options.size
            raise

    def _write_event(self, event: AccessEvent, count: int) -> None:
        text = members(
            key=event.holder,
            label=event.label,
            source=event.source,
            name=event.action,
            outcome=event.outcome,
            reason=event.detail,
            count=count if count > 1 else 0,
        )
        with contextlib.suppress(AuditError):
            self._append_entry(event.type, text)

    @property
    def _stops_calls(self) -> bool:
        return self._options.full == "stop" and self._options.mode != "off"

    # -- a log that cannot be written --------------------------------------------------------------

    def _lose_entry(self, error: OSError) -> None:
        if self._problem is None:
            log.error("the audit log cannot be written: %s", error)
        self._problem = error
        self._retry_at = self._steady() + RETRY
        self.lost += 1
        self.dropped += 1
        if self._stops_calls:
            raise disk_error(error)

    def _disk_failed(self, error: OSError) -> None:
        if self._problem is None:
            log.error("the audit log cannot be written to disk: %s", error)
        self._problem = error
        self._retry_at = self._steady() + RETRY

    def _try_to_recover(self) -> bool:
        """Try again to write, now and then. Return whether the log can be written."""
        if self._steady() < self._retry_at:
            return False
        try:
            now = self._clock()
            if not 0 < self._size < self._options.size:
                self._begin_file(now)
            self._write("audit", now, members(name="lost", reason=str(self._problem), count=self.lost))
        except OSError as error:
            self._problem, self._retry_at = error, self._steady() + RETRY
            return False
        log.warning("the audit log can be written again; %d entries were lost", self.lost)
        self._problem, self.lost = None, 0
        return True

    # -- files -----------------------------------------------------------------------------------

    def _resume_log(self, stored: ChainHead | None) -> None:
        """Continue the log after its last entry. Raises OSError."""
        end = find_end(self.folder, stored, self._chain)
        self._seq, self._mac = end.head
        missing = stored.seq - end.head.seq if stored is not None else 0
        if missing > 0 and stored is not None:
            self._seq = stored.seq
        self._head_file.seq = self._seq  # a crash may have left the head behind the entries
        now = self._clock()
        reused = self._reopen_file(end) if missing <= 0 else False
        if not reused:
            self._begin_file(now)
        # What is not as the last process left it is recorded.
        if missing > 0 and stored is not None:
            text = members(name="missing", count=missing, previous=stored.mac.hex(), begins=end.head.seq + 1)
            self._write("audit", now, text)
        if end.torn:
            self._write("audit", now, members(name="torn", bytes=end.torn))
        if stored is None and end.head != NO_HEAD:
            self._write("audit", now, members(name="head_missing"))
        if not end.verified or (stored and stored.seq == end.head.seq and stored.mac != end.head.mac):
            self._write("audit", now, members(name="changed", count=end.beyond))
        self._next_day = now  # retention, with the first entry

    def _reopen_file(self, end: ChainEnd) -> bool:
        """Open the last file to continue it. Return False if a new one has to begin."""
        if end.file is None or not end.size:
            return False
        fd = self._open_file(end.file.path)
        if end.torn:
            try:
                os.ftruncate(fd, end.size)
            except OSError:
                os.close(fd)
                return False
        self._use_file(fd, end.size, began_at(end.file))
        return True

    def _begin_file(self, now: float) -> None:
        """Begin the next file with an entry that continues the chain. Raises OSError."""
        path = os.path.join(self.folder, file_name(self._seq + 1))
        fd = self._open_file(path)
        size = os.fstat(fd).st_size
        try:
            if size:  # of an attempt that failed
                os.ftruncate(fd, 0)
        except OSError:
            os.close(fd)
            raise
        self._use_file(fd, 0, now)
        self._write("audit", now, members(name="file", previous=self._mac.hex()))
        self._sync.later(sync_folder, self.folder)

    def _open_file(self, path: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(path, flags, 0o600)

    def _use_file(self, fd: int, size: int, began: float) -> None:
        self._fd, self._size, self._file_began = fd, size, began
        self._sync.use(fd)

    def _tend_files(self, now: float) -> None:
        """Begin the next file if this one is large or old, and look for old files, also once a day."""
        self._next_day = now + DAY
        old = self._options.days and now - self._file_began > max(1, self._options.days / 8) * DAY
        if self._size >= self._options.size or old:
            try:
                self._begin_file(now)
            except OSError as error:
                self._disk_failed(error)
        self._sync.later(self._look_for_old_files)

    def _look_for_old_files(self) -> None:
        """Find old files, in the thread, and have their removal recorded on the loop."""
        found = old_files(self.folder, self._options.files, self._options.days, self._clock)
        if found is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._record_removal, found)

    def _record_removal(self, found: OldFiles) -> None:
        text = members(name="removed", count=len(found.files), previous=found.previous, begins=found.begins)
        if self._fd < 0 or self._problem is not None:
            return
        try:
            self._write("audit", self._clock(), text)
        except OSError as error:
            self._disk_failed(error)
            return
        self._sync.later(remove, found.files)


def _plain_member(name: str, text: str) -> bytes:
    """Return a member. An id of letters and digits needs no escapes."""
    if text.isascii() and text.isalnum() and len(text) < 100:
        return b',"%b":"%b"' % (name.encode(), text.encode())
    return member(name, text)


def _open_error(folder: str, error: OSError) -> AuditError:
    return AuditError(
        say(
            "The audit log in {folder} cannot be opened: {reason}. Fix that, or turn the log off with the "
            'setting audit = "off".',
            folder=folder,
            reason=error.strerror or str(error),
        )
    )


LARGEST_LAG = 50_000
"""Entries that are written before the index reads them without being asked."""

_LOOK = 15.0  # seconds between two looks
_DAY = 86_400.0


class IndexFollowing:
    """Lets the index catch up from now on when it is far behind, or was not read for a day.

    Without that, usage of days that nobody asks about would be lost with the files of the log. ``newest``
    returns the seq of the newest entry, and ``catch_up_soon`` returns at once.
    """

    def __init__(self, folder: str, newest: Callable[[], int], catch_up_soon: Callable[[], None]) -> None:
        self._folder, self._newest, self._catch_up_soon = folder, newest, catch_up_soon
        self._task = asyncio.get_running_loop().create_task(self._follow_log())

    async def close(self) -> None:
        """Stop following the log."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _follow_log(self) -> None:
        read = self._newest()
        while True:
            await asyncio.sleep(_LOOK)
            seq = self._newest()
            if seq - read >= LARGEST_LAG or (seq and _is_old(self._folder)):
                read = seq
                self._catch_up_soon()


def _is_old(folder: str) -> bool:
    """Return whether the index was not written for a day, nor the log begun within it."""
    names = (USAGE, f"{USAGE}-wal")
    times = [when for name in names if (when := _written_at(os.path.join(folder, name)))]
    if not times:
        times = [_written_at(file.path) for file in audit_files(folder)[:1]]
    return bool(times) and time.time() - max(times) > _DAY


def _written_at(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
