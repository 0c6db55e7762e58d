"""Postings of the words of tools: a row for each token and server, packed; and what they hold.

A word's part in a tool's score depends on that tool alone, not on the others: it is computed when the tool is
indexed, so that a search reads numbers and multiplies them with the word's rarity.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress

_IN_FIRST = bytes(mask & 1 for mask in range(256))
_ENTRY = 9  # bytes: number and score, four each, and the fields as bits

POSTINGS_TABLE = (
    "CREATE TABLE postings (token TEXT NOT NULL, server TEXT NOT NULL, entries BLOB NOT NULL,"
    " PRIMARY KEY (token, server)) WITHOUT ROWID"
)
POSTINGS_INDEX = "CREATE INDEX postings_of ON postings (server)"


class TermPostings:
    """The tools that have a token: ``scores`` by number, and those that have it in the first field."""

    __slots__ = ("_masks", "names", "scores")

    def __init__(self, numbers: Sequence[int], scores: Sequence[float], masks: bytes) -> None:
        self.scores = dict(zip(numbers, scores, strict=True))
        self.names = set(compress(numbers, masks.translate(_IN_FIRST)))
        self._masks = masks

    def fields(self, numbers: Collection[int]) -> dict[int, list[int]]:
        """Return the places of the fields that have the token, for those of these tools that have it."""
        return {
            number: [place for place in range(8) if mask >> place & 1]
            for number, mask in zip(self.scores, self._masks, strict=True)
            if number in numbers
        }


NO_POSTINGS = TermPostings((), (), b"")

ToolPostings = Mapping[str, tuple[float, int]]
"""Token → its score in one tool, and its fields as bits."""


def write_postings(db: sqlite3.Connection, server: str, tools: Iterable[tuple[int, ToolPostings]]) -> None:
    """Store the postings of a server that has none yet, with the number of each tool."""
    found: dict[str, tuple[array[int], array[float], bytearray]] = {}
    for number, postings in tools:
        for token, (score, mask) in postings.items():
            entry = found.get(token)
            if entry is None:
                entry = found[token] = (array("I"), array("f"), bytearray())
            entry[0].append(number)
            entry[1].append(score)
            entry[2].append(mask)
    db.executemany(
        "INSERT INTO postings VALUES (?, ?, ?)",
        (
            (token, server, entry[0].tobytes() + entry[1].tobytes() + entry[2])
            for token, entry in sorted(found.items())
        ),
    )


def read_postings(db: sqlite3.Connection, token: str) -> TermPostings:
    """Return the tools of all servers that have a token."""
    rows = db.execute("SELECT entries FROM postings WHERE token = ?", (token,)).fetchall()
    if not rows:
        return NO_POSTINGS
    numbers, scores, masks = array("I"), array("f"), bytearray()
    for (entries,) in rows:
        size = 4 * (len(entries) // _ENTRY)
        numbers.frombytes(entries[:size])
        scores.frombytes(entries[size : 2 * size])
        masks += entries[2 * size :]
    return TermPostings(numbers, scores, bytes(masks))


def delete_tool_postings(db: sqlite3.Connection, server: str, number: int) -> None:
    """Take one tool out of the postings of its server."""
    rows = db.execute("SELECT token, entries FROM postings WHERE server = ?", (server,)).fetchall()
    for token, entries in rows:
        count = len(entries) // _ENTRY
        numbers = array("I", entries[: 4 * count])
        if number not in numbers:
            continue
        at = numbers.index(number)
        kept = entries[: 4 * at] + entries[4 * at + 4 : 4 * count + 4 * at]
        kept += entries[4 * count + 4 * at + 4 : 8 * count + at] + entries[8 * count + at + 1 :]
        db.execute("UPDATE postings SET entries = ? WHERE token = ? AND server = ?", (kept, token, server))
