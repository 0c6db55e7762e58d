"""Search for a text in entries, by scanning the bytes of the log.

There is no index of texts: it would be larger than the log. A scan reads some hundred megabytes a second, and
is bounded in bytes.
"""

from __future__ import annotations

import json
from bisect import bisect_right

import msgspec

from tabane.audit.log_lines import LineReader

MOST_SCANNED = 1 << 28
"""Bytes that are scanned until a page is full."""

_COUNTING = 4  # once the page is full, counting goes on for one part in so many of these bytes
_OF_A_LINE = 10_000  # bytes that could be scanned in the time that a line takes to be checked


class _SearchedValues(msgspec.Struct):
    """The members of a line that a text is searched in, as they are in the log."""

    key: msgspec.Raw = msgspec.Raw()
    label: msgspec.Raw = msgspec.Raw()
    client: msgspec.Raw = msgspec.Raw()
    session: msgspec.Raw = msgspec.Raw()
    source: msgspec.Raw = msgspec.Raw()
    request: msgspec.Raw = msgspec.Raw()
    script: msgspec.Raw = msgspec.Raw()
    name: msgspec.Raw = msgspec.Raw()
    server: msgspec.Raw = msgspec.Raw()
    arguments: msgspec.Raw = msgspec.Raw()
    reason: msgspec.Raw = msgspec.Raw()


_values = msgspec.json.Decoder(_SearchedValues)


def needles_of(text: str) -> tuple[bytes, ...]:
    """Return a text as it may be in the log: escaped as in JSON, with small ASCII letters.

    Some clients escape all that is not ASCII.
    """
    usual = msgspec.json.encode(text)[1:-1].lower()
    return (usual,) if text.isascii() else (usual, json.dumps(text)[1:-1].lower().encode())


def line_holds(line: bytes, needles: tuple[bytes, ...]) -> bool:
    """Return whether one of an entry's values holds the text."""
    lowered = line.lower()
    if not any(needle in lowered for needle in needles):
        return False
    try:
        values = _values.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    held = [bytes(getattr(values, name)).lower() for name in values.__struct_fields__]
    return any(needle in value for value in held for needle in needles)


class TextScan:
    """Scans the log for one text, up to a number of bytes."""

    def __init__(self, reader: LineReader, needles: tuple[bytes, ...], most: int) -> None:
        self._reader, self._needles, self._most = reader, needles, most
        self._scanned = 0

    def spent(self, *, counting: bool) -> bool:
        """Return whether enough was scanned. ``counting``: what is still missing is only the total."""
        return self._scanned >= (self._most // _COUNTING if counting else self._most)

    def holds(self, first: int, place: int) -> bool:
        """Return whether the line at that place of a file holds the text."""
        return line_holds(self._reader.line(first, place), self._needles)

    def places(self, first: int, places: list[int]) -> set[int]:
        """Return which of the lines at these ascending places of a file hold the text."""
        end = places[-1] + len(self._reader.line(first, places[-1])) + 1
        part = self._reader.part(first, places[0], end)
        self._scanned += len(part)
        lowered = part.lower()
        found: set[int] = set()
        for needle in self._needles:
            found |= self._with_needle(needle, lowered, part, places)
        return found

    def _with_needle(self, needle: bytes, lowered: bytes, part: bytes, places: list[int]) -> set[int]:
        found: set[int] = set()
        at = lowered.find(needle)
        while at >= 0:
            number = bisect_right(places, places[0] + at) - 1
            begin = places[number] - places[0]
            self._scanned += _OF_A_LINE
            if line_holds(part[begin : part.find(b"\n", begin)], self._needles):
                found.add(places[number])
            if number + 1 == len(places):
                break
            at = lowered.find(needle, places[number + 1] - places[0])
        return found
