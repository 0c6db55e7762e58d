"""Cutting of a text into chunks: it is outlined, broken up where a part is too long, and joined again.

Joining removes the weakest borders first, if the parts beside them fit together. What becomes of a border
depends only on its weaker neighbors. Borders of equal strength are ordered by a checksum of the text
around them, not by their position. So an edit changes the chunks around it and all others stay. A cutter
that fills one chunk after the other changes everything up to the next heading.

Breaking of blocks that are too long, at the coarsest borders at which all parts fit.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, takewhile
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from tabane.search.chunking.markdown import (
    BREAK,
    CLAUSE,
    GLUE,
    GRAPHEME,
    LINE,
    NESTED,
    OVERLAPS,
    ROW,
    SENTENCE,
    SENTENCE_LINE,
    WORD,
    Makeup,
    Outline,
    OutlineBlock,
    code_lines,
    code_outline,
    code_parts,
    indent_of,
    lines_of,
    markdown_outline,
    text_outline,
)

Kind = Literal["markdown", "text", "code"]
"""The structure of a text: by its headings and blocks, by its paragraphs, or by its indentation."""


class Chunk(NamedTuple):
    """A part of a text: code points ``start`` to ``end`` of it.

    ``headings`` are those that apply to all of it, the outermost first; only in Markdown.
    """

    start: int
    end: int
    headings: tuple[str, ...]


class Measure(Protocol):
    """The unit of length: tokens of a model, or an estimate of them. Several threads may use it.

    Failure policy: it always answers. Counting may need a process or a file, so it stays off event loops.
    """

    @property
    def capacity(self) -> int:
        """Return the tokens that a chunk and the headings above it may have together; at least one."""
        ...

    @property
    def name(self) -> str:
        """Return a name. Two measures of one name cut every text in the same places."""
        ...

    def count(self, text: str) -> int:
        """Return the tokens of a text, without those that a model adds itself."""
        ...


@runtime_checkable
class BatchMeasure(Protocol):
    """A measure that is faster with many texts at once."""

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return :meth:`Measure.count` of each."""
        ...


def counted(measure: Measure, texts: Sequence[str]) -> list[int]:
    """Return the tokens of each text."""
    if isinstance(measure, BatchMeasure):
        return measure.counts(texts)
    return [measure.count(text) for text in texts]


_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f"
# One token each: up to six letters of a Latin word, two digits, two letters of another script, a sign.
_TOKENS = re.compile(rf"[A-Za-z]{{1,6}}|[0-9]{{1,2}}|[^\W\d_A-Za-z{_CJK}]{{1,2}}|[^\w\s]|[_\d]")
_IDEOGRAPHS = re.compile(rf"[{_CJK}]+")


@dataclass(frozen=True, slots=True)
class Estimate:
    """Counts by scripts: three tokens for four characters of Chinese, Japanese and Korean.

    Two digits are one token: WordPiece has most pairs, and few longer numbers. With three, tables of
    measurements had 30 % more tokens than estimated. With two, years have 20 % fewer.

    Tokenizers of many languages make two to two and a half of these; those of English alone make four, but
    then their models read nothing in them either.
    """

    capacity: int
    name: str

    def count(self, text: str) -> int:
        """Return the estimated tokens of a text."""
        tokens = len(_TOKENS.findall(text))
        if text.isascii():
            return tokens
        return tokens + (3 * sum(map(len, _IDEOGRAPHS.findall(text))) + 3) // 4

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return the estimated tokens of each text."""
        return [self.count(text) for text in texts]


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
        found = [(part, whole) for whole in large for part in _split_atom(text, whole.atom, whole.ways[0])]
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


def _split_atom(text: str, atom: ChunkAtom, way: Callable[[str], Borders]) -> Iterator[ChunkAtom]:
    borders = [(start, strength) for start, strength in way(text[atom.start : atom.end]) if start > 0]
    starts = [atom.start, *(atom.start + start for start, _ in borders), atom.end]
    strengths = [atom.strength, *(strength for _, strength in borders)]
    prose = way in _PROSE
    for (start, end), strength in zip(pairwise(starts), strengths, strict=True):
        yield ChunkAtom(start, end, strength, 0, atom.section, atom.prose if start == atom.start else prose)


def _block_borders(text: str) -> Borders:
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


def _row_borders(text: str) -> Borders:
    """Return the borders of the rows of a table; the line under its head stays with it."""
    _, starts = lines_of(text)
    return ((start, GLUE if place == 2 else ROW) for place, start in enumerate(starts[:-1]) if place != 1)


def _sentence_borders(text: str) -> Borders:
    ends = {found.end(): SENTENCE for found in _SENTENCE_ENDS.finditer(text)}
    for found in _LINE_ENDS.finditer(text):
        ends[found.end()] = SENTENCE_LINE if found.start() in ends else LINE
        ends.pop(found.start(), None)
    return iter(sorted(pair for pair in ends.items() if pair[0] < len(text)))


def _clause_borders(text: str) -> Borders:
    ends = {found.end() for found in _CLAUSE_ENDS.finditer(text)}
    return ((end, CLAUSE) for end in sorted(ends) if end < len(text))


def _word_borders(text: str) -> Borders:
    return ((found.start(), WORD) for found in _WORDS.finditer(text))


def _run_borders(text: str) -> Borders:
    return ((found.start(), GRAPHEME) for found in _RUNS.finditer(text))


def _grapheme_borders(text: str) -> Borders:
    return ((found.start(), GRAPHEME) for found in _GRAPHEMES.finditer(text))


def _code_parts(text: str) -> Borders:
    return iter(code_parts(text))


def _code_lines(text: str) -> Borders:
    return iter(code_lines(text))


_LAST = (_word_borders, _run_borders, _grapheme_borders)
_TEXT = (_sentence_borders, _clause_borders, *_LAST)
_PROSE = frozenset(_TEXT)
_WAYS: dict[Makeup, tuple[Callable[[str], Borders], ...]] = {
    "heading": _TEXT,
    "prose": (_block_borders, *_TEXT),
    "item": (_block_borders, *_TEXT),
    "table": (_row_borders, *_TEXT),
    "code": (_code_parts, _code_lines, *_LAST),
    "whole": (_code_lines, *_LAST),
}

_HEADINGS = 4  # the part of a chunk that headings above it may take, one of so many

_OUTLINES: Mapping[Kind, Callable[[str], Outline]] = {
    "markdown": markdown_outline,
    "text": text_outline,
    "code": code_outline,
}


def chunks(text: str, kind: Kind, measure: Measure, lang: str = "") -> list[Chunk]:
    """Cut a text into chunks that the measure's capacity holds together with the headings above them.

    Spans are in order and cover the text without a gap: white space belongs to what it follows. Where a
    long paragraph had to be cut, the next chunk begins with the last words of the one before. A grapheme
    that is longer than the capacity is a chunk all the same. An empty text has no chunks. ``lang`` is what it
    is written in; the rules are the same for all.
    """
    if not text:
        return []
    outline = _OUTLINES[kind](text)
    blocks = outline.blocks or [OutlineBlock(0, 0, "prose")]
    blocks = [blocks[0]._replace(start=0), *blocks[1:]]  # the first one begins where the text begins
    taken = counted(measure, ["\n".join(path) for path in outline.paths])
    capacity = max(measure.capacity, 1)
    rooms = [capacity - min(tokens, capacity // _HEADINGS) for tokens in taken]
    atoms = _atoms(text, blocks, rooms, measure)
    return [_chunk_of(piece, atoms, outline.paths) for piece in joined(text, atoms, rooms)]


def _atoms(
    text: str, blocks: Sequence[OutlineBlock], rooms: Sequence[int], measure: Measure
) -> list[ChunkAtom]:
    ends = [*(block.start for block in blocks[1:]), len(text)]
    spans = [(block.start, end) for block, end in zip(blocks, ends, strict=True)]
    tokens = counted(measure, [text[start:end] for start, end in spans])
    found: list[tuple[ChunkAtom, Makeup]] = [
        (ChunkAtom(start, end, block.strength, size, block.section), block.makeup)
        for block, (start, end), size in zip(blocks, spans, tokens, strict=True)
    ]
    return broken(text, found, rooms, measure)


def _chunk_of(piece: JoinedAtoms, atoms: Sequence[ChunkAtom], paths: Sequence[tuple[str, ...]]) -> Chunk:
    above = paths[atoms[piece.first].section]
    for section in range(atoms[piece.first].section + 1, atoms[piece.last - 1].section + 1):
        both = zip(above, paths[section], strict=False)
        above = tuple(title for title, _ in takewhile(lambda pair: pair[0] == pair[1], both))
    return Chunk(piece.start, atoms[piece.last - 1].end, above)


_AROUND = 24  # code points on either side of a border, of which the checksum is made
_MOST_BACK = 4  # atoms
_ENOUGH = 4  # sections that have this part of a chunk each, one of so many, stay apart


class JoinedAtoms(NamedTuple):
    """The atoms ``first`` to ``last`` (not included) in one chunk, which begins at ``start``."""

    first: int
    last: int
    start: int


def joined(text: str, atoms: Sequence[ChunkAtom], rooms: Sequence[int]) -> list[JoinedAtoms]:
    """Join atoms into chunks. ``rooms``: the tokens that a chunk of each section may have."""
    sums = list(accumulate((atom.tokens for atom in atoms), initial=0))
    back = [_overlap_start(atoms, place, rooms[atom.section]) for place, atom in enumerate(atoms)]
    first = [place - 1 for place in range(len(atoms) + 1)]  # of the piece that ends there
    last = [place + 1 for place in range(len(atoms) + 1)]  # of the piece that begins there
    for border in sorted(range(1, len(atoms)), key=[_border_rank(text, atom) for atom in atoms].__getitem__):
        low, high = first[border], last[border]
        room = rooms[atoms[low].section]
        if sums[high] - sums[back[low]] > room:
            continue
        shorter = min(sums[border] - sums[low], sums[high] - sums[border])
        if atoms[border].strength > BREAK and shorter >= room // _ENOUGH:
            continue  # both sides are long enough to be chunks of their own
        last[low], first[high] = high, low
    pieces, place = [], 0
    while place < len(atoms):
        pieces.append(JoinedAtoms(place, last[place], atoms[back[place]].start))
        place = last[place]
    return pieces


def _border_rank(text: str, atom: ChunkAtom) -> int:
    around = text[max(atom.start - _AROUND, 0) : atom.start + _AROUND]
    return atom.strength << 32 | zlib.crc32(around.encode("utf-8", "surrogatepass"))


def _overlap_start(atoms: Sequence[ChunkAtom], place: int, room: int) -> int:
    """Return the atom at which the chunk before this border begins to overlap:

    earlier, if the cut is in prose.
    """
    most = min(room // OVERLAP, room - atoms[place].tokens)
    if not atoms[place].prose or atoms[place].strength > OVERLAPS:
        return place
    begin, tokens = place, 0
    while place - begin < _MOST_BACK and begin and (tokens := tokens + atoms[begin - 1].tokens) <= most:
        begin -= 1
        if not atoms[begin].prose:
            break
    return begin
