"""Breaking of blocks that are too long, at the coarsest borders at which all parts fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tabane.search.chunking.chunk import Measure, counted
from tabane.search.chunking.outline import (
    CLAUSE,
    GLUE,
    GRAPHEME,
    LINE,
    NESTED,
    ROW,
    SENTENCE,
    SENTENCE_LINE,
    WORD,
    Makeup,
    code_lines,
    code_parts,
    indent_of,
    lines_of,
)

_CLOSERS = "」』）】〉》〕”’\"')\\]*_`"
# A full stop of Japanese ends a sentence at once, a Latin one only before a blank.
_SENTENCE_ENDS = re.compile(rf"[。！？｡]+[{_CLOSERS}]*[ \t\u3000]*|[.!?…]+[{_CLOSERS}]*[ \t]+")
_LINE_ENDS = re.compile(r"(?:\r\n|\n|\r)\s*")
_CLAUSE_ENDS = re.compile(r"[、，，､；：]+[ \t]*|[,;:–—|][ \t]+|(?<=[」』）])(?=[^」』）。、])")
_WORDS = re.compile(r"\S[\s\S]{15,}?(?:\s+|\Z)")
# What a reader takes for one character, near enough: marks and joiners stay with what they follow.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0e31\u0e34-\u0e3a"
    "\u0e47-\u0e4e\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe00-\ufe0f\ufe20-\ufe2f"
    "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef"
)
_BASE = r"\r\n|[\U0001f1e6-\U0001f1ff]{2}|[\ud800-\udbff][\udc00-\udfff]|[\s\S]"
_GRAPHEME = rf"(?:{_BASE})(?:[{_MARKS}]|\u200d[\s\S]?)*"
_GRAPHEMES = re.compile(_GRAPHEME)
_RUNS = re.compile(rf"(?:{_GRAPHEME}){{1,32}}")
_MARKER = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)|[ \t]*>")

OVERLAP = 8
"""The part of a chunk that may be of the one before it: one of so many."""

Borders = Iterator[tuple[int, int]]
"""The beginnings of parts of a text, and the strength of the border before each; 0 among them or not."""


class ChunkAtom(NamedTuple):
    """A part of a text that is not broken up. ``prose``: it continues the prose of the part before it."""

    start: int
    end: int
    strength: int
    tokens: int
    section: int
    prose: bool = False


class _OversizedBlock(NamedTuple):
    """A block to break into parts of at most so many tokens, and the ways that are left."""

    atom: ChunkAtom
    most: int
    ways: tuple[Callable[[str], Borders], ...]


def broken(
    text: str, atoms: Sequence[tuple[ChunkAtom, Makeup]], rooms: Sequence[int], measure: Measure
) -> list[ChunkAtom]:
    """Return the atoms, broken up if they do not fit. ``rooms``: the tokens of a chunk in each section.

    An atom that is still too long is one character to its reader.
    """
    done: list[ChunkAtom] = []
    large: list[_OversizedBlock] = []
    above = 0  # tokens of the headings right before, which are to fit in with what follows
    for atom, makeup in atoms:
        room = rooms[atom.section]
        most = room - above if atom.strength == GLUE and above <= room // 2 else room
        if atom.tokens <= most:
            done.append(atom)
        else:
            large.append(_OversizedBlock(atom, most, _WAYS[makeup]))
        above = (above + atom.tokens if atom.strength == GLUE else atom.tokens) if makeup == "heading" else 0
    while large:
        found = [(part, whole) for whole in large for part in _parts(text, whole.atom, whole.ways[0])]
        tokens = counted(measure, [text[part.start : part.end] for part, _ in found])
        large = []
        for (part, whole), size in zip(found, tokens, strict=True):
            part = part._replace(tokens=size)
            # Where more of the same stands before a part, some of that comes with it.
            most = whole.most - whole.most // OVERLAP if part.prose else whole.most
            if size <= most or len(whole.ways) == 1:
                done.append(part)
            else:
                large.append(whole._replace(atom=part, ways=whole.ways[1:]))
    return sorted(done)


def _parts(text: str, atom: ChunkAtom, way: Callable[[str], Borders]) -> Iterator[ChunkAtom]:
    borders = [(start, strength) for start, strength in way(text[atom.start : atom.end]) if start > 0]
    starts = [atom.start, *(atom.start + start for start, _ in borders), atom.end]
    strengths = [atom.strength, *(strength for _, strength in borders)]
    prose = way in _PROSE
    for (start, end), strength in zip(pairwise(starts), strengths, strict=True):
        yield ChunkAtom(start, end, strength, 0, atom.section, atom.prose if start == atom.start else prose)


def _blocks(text: str) -> Borders:
    """Return the borders at blank lines, and at items and quotes within an item."""
    blank = False
    lines, starts = lines_of(text)
    for line, start in zip(lines, starts, strict=False):
        if not line or line.isspace():
            blank = True
        else:
            if blank or _MARKER.match(line):
                yield start, NESTED - min(indent_of(line), 12) // 2
            blank = False


def _rows(text: str) -> Borders:
    """Return the borders of the rows of a table; the line under its head stays with it."""
    _, starts = lines_of(text)
    return ((start, GLUE if place == 2 else ROW) for place, start in enumerate(starts[:-1]) if place != 1)


def _sentences(text: str) -> Borders:
    ends = {found.end(): SENTENCE for found in _SENTENCE_ENDS.finditer(text)}
    for found in _LINE_ENDS.finditer(text):
        ends[found.end()] = SENTENCE_LINE if found.start() in ends else LINE
        ends.pop(found.start(), None)
    return iter(sorted(pair for pair in ends.items() if pair[0] < len(text)))


def _clauses(text: str) -> Borders:
    ends = {found.end() for found in _CLAUSE_ENDS.finditer(text)}
    return ((end, CLAUSE) for end in sorted(ends) if end < len(text))


def _words(text: str) -> Borders:
    return ((found.start(), WORD) for found in _WORDS.finditer(text))


def _runs(text: str) -> Borders:
    return ((found.start(), GRAPHEME) for found in _RUNS.finditer(text))


def _graphemes(text: str) -> Borders:
    return ((found.start(), GRAPHEME) for found in _GRAPHEMES.finditer(text))


def _code_parts(text: str) -> Borders:
    return iter(code_parts(text))


def _code_lines(text: str) -> Borders:
    return iter(code_lines(text))


_LAST = (_words, _runs, _graphemes)
_TEXT = (_sentences, _clauses, *_LAST)
_PROSE = frozenset(_TEXT)
_WAYS: dict[Makeup, tuple[Callable[[str], Borders], ...]] = {
    "heading": _TEXT,
    "prose": (_blocks, *_TEXT),
    "item": (_blocks, *_TEXT),
    "table": (_rows, *_TEXT),
    "code": (_code_parts, _code_lines, *_LAST),
    "whole": (_code_lines, *_LAST),
}
