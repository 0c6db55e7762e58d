"""From a text to its chunks: outlined, taken apart where it is too long, and joined to what fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

from tabane.search.chunking.block import Makeup, Outline, OutlineBlock
from tabane.search.chunking.breaking import ChunkAtom, broken
from tabane.search.chunking.chunk import Chunk, Kind, Measure, counted
from tabane.search.chunking.joining import JoinedAtoms, joined
from tabane.search.chunking.markdown import markdown_outline
from tabane.search.chunking.plain import code_outline, text_outline

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
    """The blocks, of which the first begins where the text does."""
    if not blocks:
        return [OutlineBlock(0, 0, "prose")]
    return [blocks[0]._replace(start=0), *blocks[1:]]


def _rooms(paths: Sequence[tuple[str, ...]], measure: Measure) -> list[int]:
    """The tokens that a chunk of each section may have, beside its headings."""
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
