"""The elements of a JSON array that is too long to be read at once, as a script assigns it to a name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import IO, Any

import msgspec

from tabane.messages import say
from tabane.posts.importing.import_report import UnusableRow

LONGEST = 1_048_576  # bytes of an element
_READ = 65_536
_LONGEST_HEAD = 1000
_HEAD = re.compile(rb"\s*;?\s*(?:(?:var\s+|let\s+|const\s+)?[\w.\[\]\"']+\s*=\s*)?(?=\[)")
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:(")|\\?\Z)|[{}\[\]]', re.DOTALL)


class _ElementCutter:
    """Cuts what comes into elements. ``start`` is where one began; None where it is too long to keep."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.line = 1
        self.depth = 0
        self.at = 0  # what is before was looked at
        self.start: int | None = None
        self.began = 1  # line of the element
        self.ended = False

    def elements(self) -> Iterator[tuple[int, bytes | None]]:
        """The elements that are whole by now: line, and bytes unless they are too many."""
        counted = 0
        while not self.ended and (token := _TOKEN.search(self.buffer, self.at)):
            first = self.buffer[token.start()]
            if first == 0x22 and token[1] is None:
                self.at = token.start()  # the rest of the string is still to come
                break
            self.at = token.end()
            if first in b"{[":
                if self.depth == 1:
                    self.line += self.buffer.count(b"\n", counted, token.start())
                    counted = self.start = token.start()
                    self.began = self.line
                self.depth += 1
            elif first in b"}]":
                self.depth -= 1
                self.ended = self.depth == 0
                if self.depth == 1:
                    yield self.began, None if self.start is None else bytes(self.buffer[self.start : self.at])
                    self.start = None
        else:
            self.at = len(self.buffer)
        self._forget(counted)

    def _forget(self, counted: int) -> None:
        keep = self.at if self.start is None else self.start
        if len(self.buffer) - keep > LONGEST:
            if self.at <= keep:  # a string that long: where it ends cannot be told without it
                raise UnusableRow(say("longer than {most} bytes", most=LONGEST))
            keep, self.start = self.at, None
        self.line += self.buffer.count(b"\n", counted, keep)
        del self.buffer[:keep]
        self.at = max(0, self.at - keep)
        if self.start is not None:
            self.start -= keep


def elements(stream: IO[bytes]) -> Iterator[tuple[int, Any]]:
    """Each element with the number of its line: the value, or an :class:`UnusableRow` where it is none.

    Raises :class:`UnusableRow` where the file is no such array, or ends in the midst of it.
    """
    cut = _ElementCutter()
    cut.buffer += stream.read(_READ).removeprefix(b"\xef\xbb\xbf")
    head = _HEAD.match(cut.buffer, 0, _LONGEST_HEAD)
    if head is None:
        raise UnusableRow(say("it contains no list of entries"))
    cut.at, cut.depth = head.end() + 1, 1
    while True:
        for line, element in cut.elements():
            yield line, _value(element)
        if cut.ended:
            while stream.read(_READ):
                pass  # at the end it turns out whether what was read is what was packed
            return
        more = stream.read(_READ)
        if not more:
            raise UnusableRow(say("it ends in the middle of an entry"))
        cut.buffer += more


def _value(element: bytes | None) -> Any:
    if element is None:
        return UnusableRow(say("longer than {most} bytes", most=LONGEST))
    try:
        return msgspec.json.decode(element)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:  # the standard library takes halves of characters, which Node emits when it cuts an emoji
        return json.loads(element.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        return UnusableRow(say("not JSON: {error}", error=str(error)))
