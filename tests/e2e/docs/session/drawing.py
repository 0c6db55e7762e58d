"""A session as an SVG that moves by CSS alone: no script, no font, nothing from elsewhere.

Whoever asks for less motion sees the last frame. It has a light and a dark look.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from tests.e2e.docs.session.screen import COLUMNS, Run, Shown

CELL, LINE, EDGE, BAR = 8.4, 19, 16, 34
"""Width of a character, height of a row, space around them, height of the title bar: in pixels."""

ROWS = 24
REST = 6.0
"""Seconds that the last frame stays."""
ENTER = 0.3
"""Seconds between the last character of a command and its start."""

_LOOKS = {
    "light": {
        "ground": "#ffffff", "bar": "#f6f8fa", "edge": "#d0d7de", "text": "#1f2328", "dim": "#59636e",
        "green": "#1a7f37", "red": "#cf222e", "yellow": "#9a6700", "blue": "#0969da", "violet": "#8250df",
        "cyan": "#1b7c83",
    },
    "dark": {
        "ground": "#0d1117", "bar": "#161b22", "edge": "#30363d", "text": "#e6edf3", "dim": "#9198a1",
        "green": "#3fb950", "red": "#ff7b72", "yellow": "#d29922", "blue": "#58a6ff", "violet": "#bc8cff",
        "cyan": "#39c5cf",
    },
}  # fmt: skip
"""Colors by class. Those of the edge are also the lines, and those of the text the cursor."""


@dataclass(frozen=True)
class Typing:
    """A line that is typed: its row, where it begins, and when each of its characters comes."""

    row: int
    column: int
    start: float
    """When the prompt comes."""
    keys: Sequence[tuple[float, int]]
    """Time and width in cells of each character."""


def picture(shown: Sequence[Shown], typed: Sequence[Typing], end: float, title: str, about: str) -> str:
    """Return the SVG. ``end`` is the time of the last frame, in seconds."""
    moving = _Moving(end + REST)
    body = [*_rows(shown, moving), *(_typing(line, moving) for line in typed)]
    scroll = moving.name(_scroll(shown), "transform")
    width, height = COLUMNS * CELL + 2 * EDGE, BAR + ROWS * LINE + 2 * EDGE
    inner = f'x="{EDGE}" y="{BAR + EDGE / 2:g}" width="{COLUMNS * CELL:g}" height="{ROWS * LINE + EDGE:g}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" role="img" aria-labelledby="title about">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="about">{escape(about)}</desc>',
            f"<style>{_style()}#rows{{transform:{_up(max(one.row for one in shown))}}}",
            f"@media (prefers-reduced-motion:no-preference){{{moving.css()}}}</style>",
            *_window(width, height, title),
            f'<svg {inner}><g id="rows" class="{scroll}">',
            *body,
            "</g></svg>",
            "</svg>",
            "",
        ]
    )


def _window(width: float, height: float, title: str) -> Iterator[str]:
    """Yield the ground, and the bar with the title."""
    size = f'width="{width - 1:g}" height="{height - 1:g}"'
    yield f'<rect class="ground edge" x="0.5" y="0.5" {size} rx="8"/>'
    yield f'<path class="bar" d="M1 {BAR}V9a8 8 0 0 1 8-8H{width - 9:g}a8 8 0 0 1 8 8V{BAR}z"/>'
    for place in range(3):
        yield f'<circle class="edge" cx="{20 + 18 * place}" cy="{BAR / 2:g}" r="5.5"/>'
    middle = f'x="{width / 2:g}" y="{BAR / 2 + 5:g}" text-anchor="middle"'
    yield f'<text class="dim" {middle}>{escape(title)}</text>'


class _Moving:
    """Named animations of one length, each with its values at times."""

    def __init__(self, length: float) -> None:
        self._length = length
        self._names: dict[tuple[str, str], str] = {}

    def name(self, values: Sequence[tuple[float, str]], what: str) -> str:
        """Return the class that gives an attribute these values, each from its time on."""
        if values[0][0]:
            values = [(0.0, values[0][1]), *values]
        ends = [*values, (self._length, values[-1][1])]
        frames = "".join(f"{100 * time / self._length:.5g}%{{{what}:{value}}}" for time, value in ends)
        return self._names.setdefault((what, frames), f"m{len(self._names)}")

    def css(self) -> str:
        return "\n".join(
            f"@keyframes {name}{{{frames}}}.{name}{{animation:{name} {self._length:.1f}s step-end infinite}}"
            for (_, frames), name in self._names.items()
        )


def _style() -> str:
    def look(name: str) -> str:
        colors = {**_LOOKS[name]}
        text, edge = colors.pop("text"), colors.pop("edge")
        first = f"text,.cursor{{fill:{text}}}.edge{{stroke:{edge}}}circle{{fill:{edge}}}"
        return first + "".join(f".{kind}{{fill:{color}}}" for kind, color in colors.items())

    fonts = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Noto Sans Mono CJK JP',monospace"
    fixed = f"text{{font:14px {fonts};white-space:pre}}.bold{{font-weight:700}}.gone{{opacity:0}}"
    return f"{fixed}{look('light')}@media (prefers-color-scheme:dark){{{look('dark')}}}"


def _rows(shown: Sequence[Shown], moving: _Moving) -> Iterator[str]:
    """Yield the rows. Those that come and go together are one group."""
    for (start, end), rows in groupby(shown, key=lambda one: (one.start, one.end)):
        values = [(0.0, "0"), (start, "1"), *([(end, "0")] if end is not None else [])]
        gone = " gone" if end is not None else ""
        yield f'<g class="{moving.name(values, "opacity")}{gone}">'
        for row in rows:
            yield from (_text(row.row, run) for run in row.runs)
        yield "</g>"


def _text(row: int, run: Run) -> str:
    kind = f' class="{" ".join(run.style)}"' if run.style else ""
    place = f'x="{run.column * CELL:.4g}" y="{row * LINE + 15}"'
    # Fonts differ in width, so each run is made as wide as its cells.
    length = f'textLength="{run.width * CELL:.4g}" lengthAdjust="spacingAndGlyphs"'
    return f"<text {place}{kind} {length}>{escape(run.text)}</text>"


def _typing(line: Typing, moving: _Moving) -> str:
    """Return a cover over a typed line that moves right with each character, with the cursor at its edge."""
    shifts, width = [(line.start, "translateX(0)")], 0
    for time, wide in line.keys:
        width += wide
        shifts.append((time, f"translateX({width * CELL:.4g}px)"))
    place = f'x="{line.column * CELL:.4g}" y="{line.row * LINE}" height="{LINE}"'
    shown = moving.name([(0.0, "0"), (line.start, "1"), (line.keys[-1][0] + ENTER, "0")], "opacity")
    return (
        f'<g class="{shown} gone"><g class="{moving.name(shifts, "transform")}">'
        f'<rect class="ground" {place} width="{width * CELL + 2:.4g}"/>'
        f'<rect class="cursor" {place} width="{CELL}"/></g></g>'
    )


def _scroll(shown: Sequence[Shown]) -> list[tuple[float, str]]:
    values, lowest = [(0.0, _up(0))], 0
    for one in shown:
        if one.row > lowest:
            lowest = one.row
            if values[-1][1] != _up(lowest):
                values.append((one.start, _up(lowest)))
    return values


def _up(lowest: int) -> str:
    return f"translateY({-max(0, lowest - ROWS + 1) * LINE}px)"
