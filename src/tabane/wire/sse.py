"""Server-sent events: encoding and parsing; pure.

Source: the WHATWG HTML standard, "Server-sent events", its grammar and its rules for interpreting
a stream.
"""

from __future__ import annotations

from typing import NamedTuple

KEEP_ALIVE = b":\n\n"
"""A comment: keeps proxies from closing a stream on which nothing happens."""

MAX_EVENT = 64 * 1024 * 1024
"""Bytes of one event's data, as of a line on stdio."""

HEAD = 1024
"""Bytes kept of an event that is too large: enough to find the id of the message in it."""

_BOM = b"\xef\xbb\xbf"
_MOST_DIGITS = 18

# Lines of other fields may be longer than the limit by this much, so that it is never decided before
# the name of the field is read.
_SLACK = len(b"data: ")


class Event(NamedTuple):
    """One event. ``id`` is its own id, None if it had none; ``data`` is not decoded."""

    event: str
    data: bytes
    id: str | None


class EventTooLarge(ValueError):
    """Events were larger than the limit. They are dropped, and the stream continues.

    ``events`` are the whole events of the same chunk; ``heads`` the first bytes of the data of each
    that was dropped.
    """

    def __init__(self, limit: int, events: list[Event], heads: list[bytes]) -> None:
        super().__init__(f"an event is larger than {limit} bytes")
        self.events, self.heads = events, heads


def encode_event(
    data: bytes, event_id: str | None = None, retry: int | None = None, event: str | None = None
) -> bytes:
    """Return an event whose data is ``data`` without its last newline. ``retry`` is in milliseconds.

    Line breaks within the data (in JSON they occur only between tokens) arrive as newlines. Raises ValueError
    for an id or event name with a line break.
    """
    head = b""
    if event_id is not None:
        head += b"id: " + _in_line(event_id) + b"\n"
    if event is not None:
        head += b"event: " + _in_line(event) + b"\n"
    if retry is not None:
        head += b"retry: %d\n" % retry
    data = data.removesuffix(b"\n")
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(_unify_line_breaks(data).split(b"\n"))
    return b"".join((head, b"data: ", data, b"\n\n"))


class EventParser:
    """Reads events from chunks that are cut anywhere. Takes time linear in the bytes fed."""

    __slots__ = (
        "_data",
        "_heads",
        "_id",
        "_line",
        "_name",
        "_opening",
        "_size",
        "_skip_newline",
        "_too_large",
        "last_id",
        "limit",
        "retry",
    )

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self.limit = limit
        self.retry: int | None = None
        """Milliseconds to wait before connecting again, as the peer last said."""
        self.last_id = ""
        """The ``Last-Event-ID`` to send when connecting again; if it is empty, none is sent."""
        self._opening: bytes | None = b""
        self._skip_newline = False
        self._line = bytearray()
        self._heads: list[bytes] = []
        self._begin()

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that ``chunk`` completes. Raises :class:`EventTooLarge` after reading it all."""
        chunk = self._without_bom(chunk)
        if self._skip_newline and chunk:
            self._skip_newline = False
            chunk = chunk.removeprefix(b"\n")
        if not chunk:
            return []
        self._skip_newline = chunk.endswith(b"\r")
        events: list[Event] = []
        *lines, rest = _unify_line_breaks(chunk).split(b"\n")
        for line in lines:
            self._take(self._take_line(line), events)
        self._keep_beginning(rest)
        if self._heads:
            heads, self._heads = self._heads, []
            raise EventTooLarge(self.limit, events, heads)
        return events

    def _begin(self) -> None:
        self._data: list[bytes] = []
        self._size = 0
        self._name = ""
        self._id: str | None = None
        self._too_large = False

    def _without_bom(self, chunk: bytes) -> bytes:
        """Return the chunk without the byte order mark that may begin a stream."""
        if self._opening is None:
            return chunk
        chunk = self._opening + chunk
        unsure = len(chunk) < len(_BOM) and _BOM.startswith(chunk)
        self._opening = chunk if unsure else None
        return b"" if unsure else chunk.removeprefix(_BOM)

    def _take_line(self, end: bytes) -> bytes | bytearray:
        if not self._line:
            return end
        # Moved, not copied: a line may be as long as a message.
        line, self._line = self._line, bytearray()
        line += end
        return line

    def _keep_beginning(self, part: bytes) -> None:
        """Keep the beginning of a line; of a line that will be dropped, keep only that there is one."""
        self._line += part
        if not self._too_large and len(self._line) > self.limit - self._size:
            self._measure(self._line)
        if self._too_large:
            del self._line[1:]

    def _take(self, line: bytes | bytearray, events: list[Event]) -> None:
        if not line:
            self._dispatch(events)
            return
        if line == b"data":
            line = b"data:"
        if not self._too_large and self._measure(line):
            self._read(line)

    def _measure(self, line: bytes | bytearray) -> bool:
        """Return whether a line, or the beginning of one, is within the limit; if not, drop its event."""
        data = line.startswith(b"data:")
        size = len(line) - len(b"data:") - (line[5:6] == b" ") + self._size if data else len(line) - _SLACK
        if size > self.limit:
            first = self._data[0] if self._data else _value(line[: HEAD + _SLACK]) if data else b""
            self._heads.append(bytes(first[:HEAD]))
            self._data, self._too_large = [], True
        return not self._too_large

    def _read(self, line: bytes | bytearray) -> None:
        if line.startswith(b"data:"):
            value = _value(line)
            self._data.append(value)
            self._size += len(value) + 1
            return
        field, value = line.partition(b":")[0], _value(line)
        if field == b"event":
            self._name = value.decode(errors="replace")
        elif field == b"id" and b"\0" not in value:
            self._id = value.decode(errors="replace")
        elif field == b"retry" and value.isdigit() and len(value) <= _MOST_DIGITS:
            self.retry = int(value)

    def _dispatch(self, events: list[Event]) -> None:
        if self._id is not None:
            self.last_id = self._id
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            events.append(Event(self._name or "message", data, self._id))
        self._begin()


def _value(line: bytes | bytearray) -> bytes:
    """Return the text after a line's colon, without one leading space; nothing if there is no colon."""
    at = line.find(b":") + 1
    if not at:
        return b""
    return bytes(memoryview(line)[at + 1 if line[at : at + 1] == b" " else at :])


def _unify_line_breaks(text: bytes) -> bytes:
    """Return the text with newlines as its only line breaks."""
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in text else text


def _in_line(text: str) -> bytes:
    if any(mark in text for mark in "\r\n\0"):
        raise ValueError(f"an event's id and name are one line each: {text!r}")
    return text.encode()
