"""Cutting of a text into chunks: it is outlined, broken up where a part is too long, and joined again.

Joining removes the weakest borders first, if the parts beside them fit together. What becomes of a border
depends only on its weaker neighbors. Borders of equal strength are ordered by a checksum of the text around
them, not by their position. So an edit changes the chunks around it and all others stay. A cutter that fills
one chunk after the other changes everything up to the next heading.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import NamedTuple

from tabane.search.chunking.breaking import OVERLAP, ChunkAtom, broken
from tabane.search.chunking.chunk import Chunk, Kind, Measure, counted
from tabane.search.chunking.markdown import markdown_outline
from tabane.search.chunking.outline import (
    BREAK,
    OVERLAPS,
    Makeup,
    Outline,
    OutlineBlock,
    code_outline,
    text_outline,
)

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
    blocks = _covering(outline.blocks)
    rooms = _rooms(outline.paths, measure)
    atoms = _atoms(text, blocks, rooms, measure)
    return [_chunk(piece, atoms, outline.paths) for piece in joined(text, atoms, rooms)]


def _covering(blocks: Sequence[OutlineBlock]) -> list[OutlineBlock]:
    """Return the blocks; the first one begins where the text begins."""
    if not blocks:
        return [OutlineBlock(0, 0, "prose")]
    return [blocks[0]._replace(start=0), *blocks[1:]]


def _rooms(paths: Sequence[tuple[str, ...]], measure: Measure) -> list[int]:
    """Return the tokens that a chunk of each section may have, beside its headings."""
    taken = counted(measure, ["\n".join(path) for path in paths])
    capacity = max(measure.capacity, 1)
    return [capacity - min(tokens, capacity // _HEADINGS) for tokens in taken]


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


def _chunk(piece: JoinedAtoms, atoms: Sequence[ChunkAtom], paths: Sequence[tuple[str, ...]]) -> Chunk:
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
    back = [_back(atoms, place, rooms[atom.section]) for place, atom in enumerate(atoms)]
    first = [place - 1 for place in range(len(atoms) + 1)]  # of the piece that ends there
    last = [place + 1 for place in range(len(atoms) + 1)]  # of the piece that begins there
    for border in _weakest_first(text, atoms):
        low, high = first[border], last[border]
        room = rooms[atoms[low].section]
        if sums[high] - sums[back[low]] > room:
            continue
        if atoms[border].strength > BREAK and _enough(sums, low, border, high, room):
            continue
        last[low], first[high] = high, low
    pieces, place = [], 0
    while place < len(atoms):
        pieces.append(JoinedAtoms(place, last[place], atoms[back[place]].start))
        place = last[place]
    return pieces


def _enough(sums: Sequence[int], low: int, border: int, high: int, room: int) -> bool:
    """Return whether both sides of a border are long enough to be chunks of their own."""
    least = room // _ENOUGH
    return sums[border] - sums[low] >= least and sums[high] - sums[border] >= least


def _weakest_first(text: str, atoms: Sequence[ChunkAtom]) -> list[int]:
    return sorted(range(1, len(atoms)), key=[_rank(text, atom) for atom in atoms].__getitem__)


def _rank(text: str, atom: ChunkAtom) -> int:
    around = text[max(atom.start - _AROUND, 0) : atom.start + _AROUND]
    return atom.strength << 32 | zlib.crc32(around.encode("utf-8", "surrogatepass"))


def _back(atoms: Sequence[ChunkAtom], place: int, room: int) -> int:
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
