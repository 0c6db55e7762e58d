"""Verification of the audit log: is each entry as it was written, and is none missing?

It needs the files of the log, its key and its head, but no running hub, and reads a million entries in
seconds. A log of a home or of a copy is verified in this process, or in one of its own for a running hub.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from binascii import hexlify
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import msgspec

from tabane.audit.chain import ChainHead, MacChain, kept_head, read_key, stored_head
from tabane.audit.entry import (
    GENESIS,
    LONGEST_LINE,
    MAC_LENGTH,
    MAC_MEMBER,
    AuditFile,
    AuditPaths,
    audit_files,
    decode_entry,
)
from tabane.errors import AuditError, BadArguments
from tabane.messages import Lang, Message, say

MOST_PROBLEMS = 20
"""Problems that are reported one by one; further ones are counted."""

_TAIL = MAC_LENGTH - 1
"""Bytes of the mac at the end of a line without its line end."""

_CHUNK = 1 << 20
_ATTEMPTS = 3
_SEQ = b'{"seq":'
_OF_LOG = b'"type":"audit"'
_MOST_BEFORE_TYPE = 90
"""Bytes of a line within which its type is."""

ProblemKind = Literal["changed", "missing", "order", "unreadable", "removed", "cut", "head", "key"]

Progress = Callable[[int, int], None]
"""Gets the number of bytes that were verified, and that of all bytes."""


class ChainProblem(NamedTuple):
    """A place at which the log is not as it was written. ``entry`` is its seq, ``line`` counts from 1."""

    kind: ProblemKind
    entry: int
    message: Message
    file: str = ""
    line: int = 0


class RetainedRange(NamedTuple):
    """Entries that retention deleted, and when that was recorded."""

    first: int
    last: int
    time: str


class ChainReport(NamedTuple):
    """The result of a verification. ``first`` and ``last`` are the entries that are there.

    ``removed`` are the entries that retention deleted, as the log recorded that. ``problems`` has the first
    ones, in the order of the log, and ``more`` counts the others. ``torn`` are bytes after the last entry
    that are no entry: the process ended while it wrote them, or writes them now.
    """

    entries: int
    files: int
    first: int
    last: ChainHead
    problems: list[ChainProblem]
    more: int
    torn: int
    removed: list[RetainedRange]

    @property
    def intact(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def as_object(self, render: Callable[[Message], str]) -> dict[str, Any]:
        """Return the report as an object of JSON. ``render`` makes a text of a message."""
        return {
            "intact": self.intact,
            "entries": self.entries,
            "files": self.files,
            "first": self.first,
            "last": self.last.seq,
            "head": str(self.last),
            "problems": [
                {key: value for key, value in problem._asdict().items() if value and key != "message"}
                | {"message": render(problem.message)}
                for problem in self.problems
            ],
            "more_problems": self.more,
            "torn_bytes": self.torn,
            "removed": [each._asdict() for each in self.removed],
        }


def verify(
    folder: str,
    key: bytes,
    heads: list[ChainHead],
    *,
    has_head: bool = True,
    progress: Progress = lambda done, total: None,
) -> ChainReport:
    """Verify all files of a folder. Raises AuditError if they cannot be read.

    ``heads`` are entries that the log must contain: the stored head, and one that was kept elsewhere. Read
    them first: a hub may write meanwhile. ``has_head`` is False if the stored head is missing.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return _ChainReading(MacChain(key), heads, has_head, progress).read(audit_files(folder))
        except FileNotFoundError:  # a hub deleted an old file meanwhile
            if attempt == _ATTEMPTS - 1:
                raise _unreadable_log(folder, "file not found") from None
        except OSError as error:
            raise _unreadable_log(folder, error.strerror or str(error)) from None
    raise AssertionError


class _ChainReading:
    def __init__(self, chain: MacChain, heads: list[ChainHead], has_head: bool, progress: Progress) -> None:
        self._chain, self._heads, self._has_head, self._progress = chain, heads, has_head, progress
        self._problems: list[ChainProblem] = []
        self._more = self._unverified = self._verified = self._torn = self._first = 0
        self._seq, self._previous = 0, GENESIS
        self._known = True
        """Whether the mac before the next entry is known."""
        self._gap = False
        """Whether the line before was unreadable: an inserted one, or what is left of an entry."""
        self._removals: dict[int, str] = {}
        self._removed: list[RetainedRange] = []
        self._wanted = {head.seq: head.mac for head in heads}
        self._begins_with = ""
        self._file, self._line = "", 0

    def read(self, files: list[AuditFile]) -> ChainReport:
        total = sum(os.path.getsize(file.path) for file in files)
        done = 0
        for file in files:
            done = self._read_file(file, done, total)
        self._check_beginning()
        self._check_heads()
        if self._unverified > 1 and not self._verified:  # one problem in place of many
            message = say("No entry matches the key. It is not the key of this log.")
            self._problems, self._more = [ChainProblem("key", self._first, message)], 0
        last = ChainHead(self._seq, self._previous)
        entries = self._verified + self._unverified
        return ChainReport(
            entries, len(files), self._first, last, self._problems, self._more, self._torn, self._removed
        )

    def _read_file(self, file: AuditFile, done: int, total: int) -> int:
        self._file, self._line = os.path.basename(file.path), 0
        if not self._first:
            self._begin_with(file)
        rest = b""
        with open(file.path, "rb") as opened:
            while chunk := opened.read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > LONGEST_LINE:  # no entry, and no reason to keep it
                    lines, rest = [*lines, rest[:LONGEST_LINE]], b""
                self._check_lines(lines)
                done += len(chunk)
                self._progress(done, total)
        self._torn += len(rest)
        return done

    def _begin_with(self, file: AuditFile) -> None:
        """Take the place of the first entry, and the mac before it, from the first file."""
        self._first = file.first
        if file.first <= 1:
            return
        self._seq, self._known = file.first - 1, False
        with open(file.path, "rb") as opened:
            try:
                self._begins_with = decode_entry(opened.readline(LONGEST_LINE)).previous
                self._previous, self._known = bytes.fromhex(self._begins_with), True
            except ValueError:
                return

    def _check_lines(self, lines: list[bytes]) -> None:
        """Check the next lines. Most are calls that fit the chain, for which this loop does all.

        An entry that fits the chain is the next one: only entries of the log itself may skip numbers.
        """
        compute, ends = self._chain.mac, b'%b%%b"}' % MAC_MEMBER
        previous = self._previous
        for line in lines:
            self._line += 1
            mac = compute(previous, line[:-_TAIL])
            if (
                self._known
                and line.endswith(ends % hexlify(mac))
                and line.find(_OF_LOG, 0, _MOST_BEFORE_TYPE) < 0
                and self._seq + 1 not in self._wanted
            ):
                self._seq += 1
                self._verified += 1
                previous = mac
            else:
                self._previous = previous
                self._check_line(line)
                previous = self._previous
        self._previous = previous

    def _check_line(self, line: bytes) -> None:
        """Check a line that does not fit, an entry of the log itself, or one that a head names."""
        seq = self._seq + 1
        mac = self._chain.mac(self._previous, line[:-_TAIL])
        fits = self._known and line.endswith(b'%b%b"}' % (MAC_MEMBER, hexlify(mac)))
        if not fits or not line.startswith(b"%b%d," % (_SEQ, seq)):
            self._check_closely(line)
            return
        self._seq, self._previous = seq, mac
        self._verified += 1
        if self._wanted.pop(seq, mac) != mac:
            self._report_problem(
                "head", seq, say("Entry {entry} is not the one that the head of the log names.", entry=seq)
            )
        if line.find(_OF_LOG, 0, _MOST_BEFORE_TYPE) >= 0:
            self._note_removal(line)

    def _note_removal(self, line: bytes) -> None:
        try:
            entry = decode_entry(line)
        except ValueError:
            return
        if entry.name == "removed":
            self._removals[entry.begins] = entry.previous
            first = self._removed[-1].last + 1 if self._removed else 1
            if first < entry.begins <= self._first:
                self._removed.append(RetainedRange(first, entry.begins - 1, entry.time))

    def _check_closely(self, line: bytes) -> None:
        """Report why a line is not the next entry, and go on as well as possible."""
        seq, mac = _stated_seq_and_mac(line)
        expected = self._seq + 1
        if mac is None:
            self._report_problem(
                "unreadable", expected, say("Entry {entry} is unreadable, or was inserted.", entry=expected)
            )
            self._gap = True
            return
        gap, self._gap = self._gap, False
        if seq < expected:
            self._report_problem(
                "order", seq, say("Entry {entry} appears twice, or in the wrong order.", entry=seq)
            )
            return
        if seq > expected + gap:
            self._report_problem("missing", expected, _missing_message(expected, seq - 1))
        elif self._known and not gap:
            self._report_problem(
                "changed", seq, say("Entry {entry} or the one before it was changed.", entry=seq)
            )
        if seq > self._seq:
            self._seq, self._previous, self._known = seq, mac, True
            self._unverified += 1

    def _check_beginning(self) -> None:
        if self._first <= 1:
            return
        honest = [begins for begins in self._removals if begins >= self._first]
        if not honest or self._removals.get(self._first, self._begins_with) != self._begins_with:
            retained = self._removed[-1].last if self._removed else 0
            message = _missing_message(min(retained, self._first - 2) + 1, self._first - 1)
            self._problems.insert(0, ChainProblem("removed", 1, message))

    def _check_heads(self) -> None:
        if not self._has_head:
            self._report_problem(
                "head",
                self._seq,
                say("The head of the log is missing, so entries cut off at the end cannot be detected."),
            )
        for seq in sorted(self._wanted):
            if seq < self._first:
                self._report_problem(
                    "head", seq, say("Entry {entry}, which the head names, was deleted.", entry=seq)
                )
            if seq > self._seq:
                self._report_problem("cut", self._seq + 1, _missing_message(self._seq + 1, seq))
                return

    def _report_problem(self, kind: ProblemKind, entry: int, message: Message) -> None:
        if len(self._problems) >= MOST_PROBLEMS:
            self._more += 1
            return
        self._problems.append(ChainProblem(kind, entry, message, self._file, self._line))


def _missing_message(first: int, last: int) -> Message:
    if first == last:
        return say("Entry {entry} is missing.", entry=first)
    return say("Entries {first} to {last} are missing.", first=first, last=last)


class _SeqAndMac(msgspec.Struct):
    seq: int
    mac: str


def _stated_seq_and_mac(line: bytes) -> tuple[int, bytes | None]:
    """Return the seq and the mac that a line states; no mac if it is no entry."""
    try:
        found = msgspec.json.decode(line, type=_SeqAndMac)
        mac = bytes.fromhex(found.mac)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return 0, None
    return found.seq, mac if len(mac) == len(GENESIS) else None


def _unreadable_log(folder: str, reason: str) -> AuditError:
    return AuditError(say("The audit log in {folder} cannot be read: {reason}", folder=folder, reason=reason))


_EVERY = 0.2
"""Seconds between two lines of progress of a process."""


def verify_files(
    paths: AuditPaths, kept: ChainHead | None = None, progress: Progress = lambda done, total: None
) -> ChainReport:
    """Verify a log. ``kept`` is a head that was kept elsewhere. Raises AuditError if there is no log."""
    head = stored_head(paths)
    if head is None and not audit_files(paths.folder):
        raise AuditError(say("There is no audit log in {folder}.", folder=paths.folder))
    heads = [found for found in (head, kept) if found is not None and found.seq]
    return verify(paths.folder, read_key(paths.key), heads, has_head=head is not None, progress=progress)


async def verify_in_process(
    paths: AuditPaths, kept: str | None, lang: Lang, progress: Progress
) -> dict[str, Any]:
    """Verify a log in a process of its own, which is ended with this task. Raises AuditError."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        __name__,
        *(*paths, lang, kept or ""),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    found: dict[str, Any] = {}
    try:
        while line := await process.stdout.readline():
            found = json.loads(line)
            if "done" in found:
                progress(found["done"], found["total"])
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
    if "report" in found:
        report: dict[str, Any] = found["report"]
        return report
    if "error" in found:
        raise AuditError(say("{text}", text=found["error"]))
    raise AuditError(say("The process that verifies the audit log ended early."))


def _verify_and_print(paths: AuditPaths, lang: Lang, kept: str) -> None:
    os.nice(10)
    tell = _at_most_every(_EVERY, lambda done, total: _print_json({"done": done, "total": total}))
    try:
        report = verify_files(paths, kept_head(kept), tell)
    except (AuditError, BadArguments) as error:
        _print_json({"error": error.text(lang)})
        return
    _print_json({"report": report.as_object(lambda message: message.render(lang))})


def _at_most_every(seconds: float, tell: Callable[[int, int], None]) -> Progress:
    last = 0.0

    def progress(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            tell(done, total)

    return progress


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    _verify_and_print(AuditPaths(*sys.argv[1:4]), "ja" if sys.argv[4] == "ja" else "en", sys.argv[5])
