"""A terminal without a height: output with its times becomes rows of styled text, each shown for a while."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tabane.cli.terminal_text import cells

COLUMNS = 80

_TOKEN = re.compile(
    r"\x1b\[(?P<given>[\d;?]*)(?P<kind>[A-Za-z])|\x1b\][^\x07]*\x07|(?P<plain>[^\x1b])", re.DOTALL
)
_NAMES = {
    1: "bold", 2: "dim", 3: "", 4: "", 90: "dim",
    31: "red", 32: "green", 33: "yellow", 34: "blue", 35: "violet", 36: "cyan",
    91: "red", 92: "green", 93: "yellow", 94: "blue", 95: "violet", 96: "cyan",
}  # fmt: skip
"""Classes by the number of SGR. A number that is not here is an error."""

Style = tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """Text of one style and one width of characters, from a column on."""

    column: int
    text: str
    style: Style

    @property
    def width(self) -> int:
        return cells(self.text)


@dataclass(frozen=True)
class Shown:
    """A row as it is from one time to another, in seconds. The end is None for what stays."""

    row: int
    runs: tuple[Run, ...]
    start: float
    end: float | None = None


@dataclass
class Screen:
    """Rows of characters, a cursor, and what the rows were before.

    A row that changes again within ``shortest`` seconds was not seen, and is left out.
    """

    shortest: float = 0.07
    seen: list[Shown] = field(default_factory=list)
    row: int = 0
    column: int = 0
    _rows: list[dict[int, tuple[str, Style]]] = field(default_factory=lambda: [{}])
    _style: Style = ()
    _now: dict[int, Shown] = field(default_factory=dict)

    def write(self, text: str, time: float) -> None:
        """Show a part of the output at a time. Raises ValueError for a sequence that is not known here."""
        end = 0
        for token in _TOKEN.finditer(text):
            if token.start() != end:
                raise ValueError(f"not known: {text[end : end + 20]!r}")
            end = token.end()
            if token["plain"]:
                self._character(token["plain"])
            elif token["kind"]:
                self._control(token["kind"], token["given"])
        if end != len(text):
            raise ValueError(f"not known: {text[end : end + 20]!r}")
        self._record(time)

    def finish(self) -> list[Shown]:
        """Return what was shown, in the order of its start."""
        rows = [*self.seen, *(shown for shown in self._now.values() if shown.runs)]
        return sorted(rows, key=lambda shown: (shown.start, shown.row))

    def _character(self, character: str) -> None:
        if character == "\n":
            self._move_to(self.row + 1)
        elif character == "\r":
            self.column = 0
        elif character == "\b":
            self.column = max(0, self.column - 1)
        elif character >= " ":
            width = cells(character)
            if self.column + width > COLUMNS:
                self._move_to(self.row + 1)
                self.column = 0
            self._rows[self.row][self.column] = (character, self._style)
            if width == 2:
                self._rows[self.row].pop(self.column + 1, None)
            self.column += width

    def _move_to(self, row: int) -> None:
        self.row = max(0, row)
        while len(self._rows) <= self.row:
            self._rows.append({})

    def _control(self, kind: str, given: str) -> None:
        numbers = [int(number or 0) for number in given.lstrip("?").split(";")]
        if kind == "m":
            for number in numbers:
                self._style = () if number == 0 else (*self._style, *filter(None, [_NAMES[number]]))
        elif kind == "K":
            kept = {0: range(self.column), 1: range(self.column, COLUMNS), 2: range(0)}[numbers[0]]
            row = self._rows[self.row]
            self._rows[self.row] = {column: cell for column, cell in row.items() if column in kept}
        elif kind == "J" and numbers[0] == 0:
            self._control("K", "0")
            for cells_below in self._rows[self.row + 1 :]:
                cells_below.clear()
        elif kind in "AB":
            self._move_to(self.row + (numbers[0] or 1) * (-1 if kind == "A" else 1))
        elif kind == "C":
            self.column += numbers[0] or 1
        elif kind == "G":
            self.column = (numbers[0] or 1) - 1
        elif kind not in "hl":  # modes: the cursor is hidden, pasting is bracketed
            raise ValueError(f"not known: CSI {given}{kind}")

    def _record(self, time: float) -> None:
        for place, row in enumerate(self._rows):
            runs = tuple(_runs(row))
            before = self._now.get(place)
            if runs == (before.runs if before else ()):
                continue
            if before is not None and before.runs and time - before.start >= self.shortest:
                self.seen.append(Shown(place, before.runs, before.start, time))
            self._now[place] = Shown(place, runs, time)


def _runs(row: dict[int, tuple[str, Style]]) -> Iterator[Run]:
    """Yield the runs of a row. Two spaces end a run, and so does a change of style or of width."""
    begun, text = 0, ""
    style: Style = ()
    for column in sorted(row):
        character, new = row[column]
        follows = bool(text) and begun + cells(text) == column and style == new
        if follows and cells(character) == cells(text[-1]) and not (character == text[-1] == " "):
            text += character
            continue
        if text.strip():
            yield _stripped(begun, text, style)
        begun, text, style = column, character, new
    if text.strip():
        yield _stripped(begun, text, style)


def _stripped(column: int, text: str, style: Style) -> Run:
    bare = text.lstrip(" ")
    return Run(column + len(text) - len(bare), bare.rstrip(" "), style)
