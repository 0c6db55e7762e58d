"""Reader of twilog.csv, row by row: five columns, quotes, line breaks in cells, HTML entities.

Memory is bounded by the longest accepted row. An unclosed quote loses only its own row: a line that begins
like a row cannot be inside a cell, because quotes are doubled there.
"""

from __future__ import annotations

import csv
import html
import re
from collections import deque
from collections.abc import Iterator
from datetime import tzinfo

from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.posts.importing.import_report import RejectedRow, UnusableRow, post_id
from tabane.posts.post import BOOKMARK, LIKE, POST, Post, timestamp_of, timestamp_of_id

COLUMNS = ("post_id", "url", "timestamp", "content", "log_type")
LONGEST_ROW = 131_072  # bytes; the longest posts have 25,000 characters
EXAMPLE = (
    '"1234567890123456789","https://x.com/alice/status/1234567890123456789","2024-03-15 14:30:25","…","1"'
)

_TRIED = 20  # first rows: if none of them is valid, the file is rejected
_BEGINS = re.compile(rb'"\d{1,20}","')
_ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});")
_ADDRESS = re.compile(
    r"https?://(?:www\.)?(?:twitter|x)\.com/(\w{1,50})/status/(\d+)", re.ASCII | re.IGNORECASE
)
_NOBODY = "i"  # x.com/i/status/… is the URL of a post without its author


def unescaped(text: str) -> str:
    """Return the text with HTML entities resolved. ``&copy=`` in a URL is not an entity."""
    return _ENTITY.sub(lambda found: html.unescape(found[0]), text) if "&" in text else text


def user_of(url: str, post: int) -> str:
    """Return the user in the URL of this post. Empty if the URL is of another post or has no user."""
    match = _ADDRESS.match(url)
    if match is None or match[1] == _NOBODY or post_id(match[2]) != post:
        return ""
    return match[1]


def post_of_row(cells: list[str], zone: tzinfo) -> Post:
    """Return the post of five cells. Raises :class:`UnusableRow`."""
    if len(cells) != len(COLUMNS):
        raise UnusableRow(
            say("{count} {count:column|columns} instead of 5", count=len(cells)),
            post_id(cells[0].strip()) or 0,
        )
    number = post_id(cells[0].strip())
    if number is None:
        raise UnusableRow(say("“{text}” is not a post_id", text=cells[0][:40]))
    log_type = cells[4].strip()
    if log_type not in ("1", "2", "3"):
        raise UnusableRow(say("log_type must be 1, 2 or 3, not “{text}”", text=log_type[:40]), number)
    timestamp, url = cells[2].strip(), cells[1].strip()
    at = timestamp_of(timestamp, zone) if timestamp else timestamp_of_id(number)
    if at is None and timestamp:
        raise UnusableRow(say("“{text}” is not a time", text=timestamp[:40]), number)
    return Post(
        post_id=number,
        content=unescaped(cells[3]),
        timestamp=timestamp,
        url=url,
        user=user_of(url, number),
        log_type=(POST, LIKE, BOOKMARK)[int(log_type) - 1],
        at=at,
    )


class TwilogCsv:
    """An open twilog.csv. ``done`` of ``size`` bytes are read. Iterate once; :meth:`close` closes it.

    Raises :class:`~tabane.errors.BadArguments` if the file has another format, OSError if it cannot be read.
    A time without a zone is in ``zone``.
    """

    def __init__(self, path: str, zone: tzinfo) -> None:
        self.path = path
        self.done = 0
        self._zone = zone
        self._columns = list(range(len(COLUMNS)))
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._line = 0
        self._file = open(path, "rb")  # noqa: SIM115  (closed by close)
        try:
            self.size = self._file.seek(0, 2)
            self._file.seek(0)
            start = self._file.peek(8192)[:8192]
            if start.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise self._format_error(say("it is UTF-16"))
            if not start.strip():
                raise self._format_error(say("it is empty"))
            if start.startswith(b"\xef\xbb\xbf"):
                self.done = len(self._file.read(3))
            self._first = self._first_rows(binary=b"\0" in start)
        except BaseException:
            self._file.close()
            raise

    def __iter__(self) -> Iterator[Post | RejectedRow]:
        yield from self._first
        self._first = []
        for number, record in self._raw_rows():
            read = self._read_row(number, record)
            if read is not None:
                yield read

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    # The beginning of the file: does it have this format?

    def _first_rows(self, *, binary: bool) -> list[Post | RejectedRow]:
        """Read up to the first valid row. Raises BadArguments if the first rows have none."""
        first: list[Post | RejectedRow] = []
        headed = False
        for number, record in self._raw_rows():
            if number == 1 and self._is_header(record):
                headed = True
                continue
            read = self._read_row(number, record)
            first += [read] if read is not None else []
            if isinstance(read, Post):
                return first
            if len(first) == _TRIED:
                break
        bad = next((each for each in first if isinstance(each, RejectedRow)), None)
        if binary:
            raise self._format_error(say("it is not text"))
        if bad is not None:
            raise self._format_error(say("line {line}: {reason}", line=bad.line, reason=bad.reason))
        if not headed:
            raise self._format_error(say("it has no rows"))
        return first

    def _is_header(self, record: bytes | UnusableRow) -> bool:
        """Return whether the first line names columns. Our names may be in any order."""
        if isinstance(record, UnusableRow):
            return False
        try:
            names = [cell.strip().lower() for cell in _split_cells(record)]
        except UnusableRow:
            return False
        if sorted(names) == sorted(COLUMNS):
            self._columns = [names.index(name) for name in COLUMNS]
            return True
        # Names in another language are in our order; a damaged first row has digits somewhere.
        return len(names) == len(COLUMNS) and not any(char.isdigit() for name in names for char in name)

    def _format_error(self, why: Message) -> BadArguments:
        return BadArguments(
            say(
                "{path} is not a twilog.csv: {why}. It must be a UTF-8 file with the columns "
                "post_id, url, timestamp, content, log_type and rows such as {example}",
                path=self.path,
                why=why,
                example=EXAMPLE,
            ),
            "files",
        )

    # Rows

    def _read_row(self, number: int, record: bytes | UnusableRow) -> Post | RejectedRow | None:
        try:
            if isinstance(record, UnusableRow):
                raise record
            cells = _split_cells(record)
            if not cells or cells == [""]:
                return None
            if len(cells) == len(COLUMNS):
                cells = [cells[column] for column in self._columns]
            return post_of_row(cells, self._zone)
        except UnusableRow as unfit:
            return RejectedRow(self.path, number, unfit.reason, unfit.post_id)

    def _raw_rows(self) -> Iterator[tuple[int, bytes | UnusableRow]]:
        """Yield the number of each row's first line, and its bytes or the reason why it is unusable."""
        held: deque[tuple[int, bytes]] = deque()
        size = quotes = 0
        while True:
            number, line = self._next_line()
            unclosed = bool(held) and (not line or size > LONGEST_ROW or bool(_BEGINS.match(line)))
            if unclosed:
                first, start = held.popleft()
                self._waiting.extendleft(reversed([*held, (number, line)] if line else held))
                held.clear()
                size = quotes = 0
                yield first, UnusableRow(say("a quote is not closed"), _id_at(start))
                continue
            if not line:
                return
            held.append((number, line))
            size, quotes = size + len(line), quotes + line.count(b'"')
            if quotes % 2 == 0:
                record = b"".join(each for _, each in held)
                if len(record) > LONGEST_ROW:
                    reason = say("longer than {most} {most:byte|bytes}", most=LONGEST_ROW)
                    yield held[0][0], UnusableRow(reason, _id_at(record))
                else:
                    yield held[0][0], record
                held.clear()
                size = quotes = 0

    def _next_line(self) -> tuple[int, bytes]:
        """Return the next line, empty at the end. A line that is too long is cut, and its rest is skipped."""
        if self._waiting:
            return self._waiting.popleft()
        line = self._file.readline(LONGEST_ROW + 1)
        self._line += 1
        self.done += len(line)
        if len(line) > LONGEST_ROW:
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = self._file.readline(LONGEST_ROW)
                self.done += len(rest)
            line = line.replace(b'"', b" ")  # without quotes it is a row of its own, rejected as too long
        return self._line, line


def _split_cells(record: bytes) -> list[str]:
    try:
        text = record.decode()
    except UnicodeDecodeError:
        raise UnusableRow(say("not UTF-8"), _id_at(record)) from None
    try:
        return next(csv.reader((text,)), [])
    except csv.Error as error:
        raise UnusableRow(say("not CSV: {error}", error=str(error)), _id_at(record)) from None


def _id_at(record: bytes) -> int:
    """Return the id at the beginning of a row, 0 if there is none."""
    match = re.match(rb'\s*"?(\d{1,19})(?=\D|$)', record)
    return (post_id(match[1].decode()) or 0) if match else 0
