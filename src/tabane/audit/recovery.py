"""Continuation of the audit log where the last process ended, in whatever way it did."""

from __future__ import annotations

import os
from typing import NamedTuple

from tabane.audit.chain import MacChain, equal_macs
from tabane.audit.entry import LONGEST_LINE, MAC_LENGTH, AuditEntry, AuditFile, audit_files, decode_entry
from tabane.audit.head import NO_HEAD, ChainHead


class ChainEnd(NamedTuple):
    """The place at which the log continues.

    ``head`` is the last entry in the files. ``file`` is the file to continue, None to begin one; ``size`` are
    its bytes up to the end of the last entry, and ``torn`` those after it. ``beyond`` are the entries that
    were written after the stored head; ``verified`` is whether they continue it.
    """

    head: ChainHead
    file: AuditFile | None
    size: int
    torn: int
    beyond: int
    verified: bool


def find_end(folder: str, stored: ChainHead | None, chain: MacChain) -> ChainEnd:
    """Return the end of the log. Reads only the end of the newest file with entries. Raises OSError."""
    newest: AuditFile | None = None
    torn = 0
    for file in reversed(audit_files(folder)):
        whole = os.path.getsize(file.path)
        entries, size = _last_entries(file.path, whole)
        if newest is None:
            newest, torn, kept = file, whole - size, size
        if entries:
            beyond = [entry for entry in entries if stored is not None and entry[0].seq > stored.seq]
            last = entries[-1][0]
            head = ChainHead(last.seq, bytes.fromhex(last.mac))
            verified = stored is None or _continue(chain, stored, beyond)
            return ChainEnd(head, newest, kept, torn, len(beyond), verified)
    if newest is not None:
        return ChainEnd(NO_HEAD, newest, kept, torn, 0, True)
    return ChainEnd(NO_HEAD, None, 0, 0, 0, True)


def _last_entries(path: str, size: int) -> tuple[list[tuple[AuditEntry, bytes]], int]:
    """Return the entries in the last bytes of a file, with their lines, and the size without a torn line."""
    with open(path, "rb") as file:
        start = max(0, size - LONGEST_LINE)
        file.seek(start)
        data = file.read(size - start)
    end = data.rfind(b"\n") + 1
    if not end:
        return [], 0 if not start else size
    lines = data[:end].split(b"\n")[:-1]
    if start:
        del lines[0]
    found = []
    for line in lines[-1000:]:
        try:
            entry = decode_entry(line)
            bytes.fromhex(entry.mac)
        except ValueError:
            continue
        if len(entry.mac) == 64:
            found.append((entry, line))
    return found, start + end


def _continue(chain: MacChain, stored: ChainHead, entries: list[tuple[AuditEntry, bytes]]) -> bool:
    seq, mac = stored
    for entry, line in entries:
        expected = chain.mac(mac, line[: 1 - MAC_LENGTH])
        if entry.seq != seq + 1 or not equal_macs(expected.hex().encode(), entry.mac.encode()):
            return False
        seq, mac = entry.seq, expected
    return True
