"""Format of the audit log: files of JSON lines, each line one entry. Its settings, and where its files are.

A line is one JSON object in UTF-8. Its members come in the order of :class:`AuditEntry`; members without
a value are left out. ``time`` is RFC 3339 in UTC with milliseconds, always with the same length, so texts
sort as times do. ``seq`` counts up from 1 over all files. ``mac`` is the last member. It is the
HMAC-SHA256 of the raw bytes of the previous ``mac``, followed by the bytes of this line before
``,"mac":``. The first entry of all uses :data:`GENESIS` as the previous one.

A file is named after the ``seq`` of its first entry, with :data:`DIGITS` digits, so names sort as entries
do. Its first entry has type ``audit`` and name ``file``, and repeats the last mac of the file before as
``previous``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from tabane.settings import Settings

DIGITS = 16
SUFFIX = ".jsonl"
GENESIS = bytes(32)
"""The mac before the first entry."""

MAC_MEMBER = b',"mac":"'
MAC_LENGTH = len(MAC_MEMBER) + 64 + len(b'"}\n')
"""Bytes at the end of each line that hold its mac."""

LONGEST_LINE = 2 << 20
"""Bytes of a line; a longer one is no entry."""

EntryType = Literal["call", "access", "admin", "audit"]
Outcome = Literal["ok", "failed", "refused", "limited", "cancelled"]

INDEX, USAGE = "index.db", "usage.db"
"""The databases in the folder of the log: the index of entries, and the usage."""

UsageGroup = Literal["tool", "server", "key", "client", "day"]
"""The keys by which the usage of tools is counted."""


class RecordedScript(NamedTuple):
    """A script in its entry: SHA-256 and size in bytes of its code, and the number of its calls."""

    code: str
    code_size: int
    calls: int


class AuditEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry.

    ``type``: ``call`` for calls, ``access`` for sign-ins and failed attempts, ``admin`` for changes of keys
    and settings, start and stop of the hub, ``audit`` for the log itself. ``key`` is the holder, as in limits
    and usage; ``label`` is the name that a person gave it. ``source`` is the address of a sign-in. ``name``
    is the real tool of a call, otherwise the action. ``arguments`` is redacted JSON; if it was cut or was not
    valid JSON, a string that holds its text. ``arguments_size`` is the number of bytes that the caller sent,
    if ``arguments`` is not all of it. ``ms`` is the duration, ``bytes`` the size of the result, ``saved`` the
    tokens that disclosure saved. ``count`` is the number of equal events that one entry stands for, or of
    entries that were lost. ``approval`` says which approval a call used, who gave it, and in which way.

    ``script`` is the id of the script that made a call. The entry of the script itself has it too, with
    ``code`` (SHA-256), ``code_size`` in bytes, and ``calls``, the number of calls that it made.

    ``previous`` and ``begins`` are of entries of type ``audit``: the mac before the entry with seq
    ``begins``, with which the rest of the log begins.
    """

    seq: int
    time: str
    type: EntryType
    key: str = ""
    label: str = ""
    client: str = ""
    face: str = ""
    session: str = ""
    source: str = ""
    request: str = ""
    script: str = ""
    approval: str = ""
    kind: str = ""
    name: str = ""
    server: str = ""
    arguments: msgspec.Raw = msgspec.Raw()
    arguments_size: int = 0
    code: str = ""
    code_size: int = 0
    calls: int = 0
    outcome: Outcome | Literal[""] = ""
    reason: str = ""
    ms: float = 0.0
    bytes: int = 0
    saved: int = 0
    count: int = 0
    previous: str = ""
    begins: int = 0
    mac: str = ""


_entries = msgspec.json.Decoder(AuditEntry)


def decode_entry(line: bytes) -> AuditEntry:
    """Return a line as an entry. Raises ValueError if it is none: torn, or not written by the log."""
    try:
        return _entries.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def entry_object(entry: AuditEntry) -> dict[str, Any]:
    """Return an entry as an object of an answer: as it is in the log, without its mac."""
    values = ((name, getattr(entry, name)) for name in entry.__struct_fields__ if name != "mac")
    return {name: value for name, value in values if value and (name != "arguments" or bytes(value))}


class AuditFile(NamedTuple):
    """A file of the log, and the seq of its first entry."""

    path: str
    first: int


def file_name(first: int) -> str:
    """Return the name of the file that begins with the entry ``first``."""
    return f"{first:0{DIGITS}}{SUFFIX}"


def audit_files(folder: str) -> list[AuditFile]:
    """Return the files of the log, oldest first. There is none if the folder does not exist."""
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    return [
        AuditFile(os.path.join(folder, name), int(name[:DIGITS]))
        for name in names
        if len(name) == DIGITS + len(SUFFIX) and name[:DIGITS].isdecimal() and name.endswith(SUFFIX)
    ]


Redact = Callable[[bytes, int], tuple[bytes, int]]
"""Returns redacted JSON, and the number of bytes that were sent if it is not all of them.

Gets the first bytes of the arguments, and the number of all."""


class PreparedArguments:
    """Arguments of one call that are redacted, or will be with ``redact``. :meth:`take` returns them.

    ``short``: the work may be done on the event loop.
    """

    __slots__ = ("_answer", "_work", "short")

    def __init__(
        self, arguments: bytes, size: int = 0, redact: Redact | None = None, *, short: bool = False
    ) -> None:
        self._answer, self.short = (arguments, size), short
        self._work = None if redact is None else (redact, arguments, size)

    def take(self) -> tuple[bytes, int]:
        """Return the JSON, empty for none, and the number of bytes that were sent if it is not all of them.

        Bounded: what the thread has not finished is done here.
        """
        if self._work is not None:
            self.finish()
        return self._answer

    def finish(self) -> None:
        """Do the work if it is not done. Two threads may do so at once: both get the same result."""
        work = self._work
        if work is not None:
            redact, arguments, size = work
            self._answer = redact(arguments, size)
            self._work = None


NOTHING, EMPTY = PreparedArguments(b""), PreparedArguments(b"{}")


class AuditOptions(Struct, frozen=True):
    """The settings of the log, named as there without ``audit_``."""

    mode: Literal["on", "metadata", "off"] = "on"
    size: int = 64 << 20
    files: int = 16
    days: int = 90
    arguments: int = 4096
    redact: tuple[str, ...] = ()
    sync: Literal["1s", "strict"] = "1s"
    full: Literal["stop", "drop"] = "stop"

    @property
    def argument_limit(self) -> int:
        """The most bytes of arguments in an entry; 0 for none."""
        return self.arguments if self.mode == "on" else 0


def audit_options(settings: Settings) -> AuditOptions:
    """Return the settings of the log."""
    return AuditOptions(
        settings.audit,
        settings.audit_size,
        settings.audit_files,
        settings.audit_days,
        settings.audit_arguments,
        settings.audit_redact,
        settings.audit_sync,
        settings.audit_full,
    )


class AuditPaths(NamedTuple):
    """The folder of the log, its key and its head."""

    folder: str
    key: str
    head: str


def audit_paths(home: str) -> AuditPaths:
    """Return the places in the home of a hub."""
    return AuditPaths(*(os.path.join(home, name) for name in ("audit", "audit.key", "audit.head")))
