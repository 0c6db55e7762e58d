"""Atoms are joined again to chunks: the weakest borders are given up first, where what they part fits.

What becomes of a border depends on its neighbours that are weaker, and on nothing else. Borders that are
equally strong are ordered by a checksum of the text around them, not by their place: so an edit changes
the chunks around it, and all others stay, where a cutter that fills one chunk after the other changes
everything up to the next heading.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from tabane.search.chunking.block import BREAK, OVERLAPS
from tabane.search.chunking.breaking import OVERLAP, ChunkAtom

_AROUND = 24  # code points on either side of a border, of which the checksum is made
_MOST_BACK = 4  # atoms
_ENOUGH = 4  # sections that have this part of a chunk each, one of so many, stay apart


class JoinedAtoms(NamedTuple):
    """The atoms ``first`` to ``last`` (not included) in one chunk, which begins at ``start``."""

    first: int
    last: int
    start: int


def joined(text: str, atoms: Sequence[ChunkAtom], rooms: Sequence[int]) -> list[JoinedAtoms]:
    """The chunks that the atoms make. ``rooms``: the tokens that a chunk of each section may have."""
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
    """Whether both sides of a border are long enough to stand alone."""
    least = room // _ENOUGH
    return sums[border] - sums[low] >= least and sums[high] - sums[border] >= least


def _weakest_first(text: str, atoms: Sequence[ChunkAtom]) -> list[int]:
    return sorted(range(1, len(atoms)), key=[_rank(text, atom) for atom in atoms].__getitem__)


def _rank(text: str, atom: ChunkAtom) -> int:
    around = text[max(atom.start - _AROUND, 0) : atom.start + _AROUND]
    return atom.strength << 32 | zlib.crc32(around.encode("utf-8", "surrogatepass"))


def _back(atoms: Sequence[ChunkAtom], place: int, room: int) -> int:
    """The atom at which a chunk begins that was cut before this one: earlier, where the cut is in prose."""
    most = min(room // OVERLAP, room - atoms[place].tokens)
    if not atoms[place].prose or atoms[place].strength > OVERLAPS:
        return place
    begin, tokens = place, 0
    while place - begin < _MOST_BACK and begin and (tokens := tokens + atoms[begin - 1].tokens) <= most:
        begin -= 1
        if not atoms[begin].prose:
            break
    return begin
