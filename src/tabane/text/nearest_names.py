"""Names that are similar to a wrong one; pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence

Similarity = Callable[[str, str], float]
"""(wanted, candidate) -> similarity in 0..1, 0 for no match."""

_NEAR = 0.5  # measured: finds more names with 1 to 3 typos than difflib, and no more wrong ones
_LONGEST = 128  # characters of a name that are compared
_SHORTEST_PART = 3  # characters of a name that counts as part of another
_SERVER_WEIGHT = 0.9


def nearest(misspelled: str, names: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """Return up to ``limit`` of ``names`` that look like ``misspelled``, nearest first; empty if none does.

    A name that differs only in case, width, ``-`` and ``_`` is the one that was meant, alone.
    """
    target = _bare(misspelled)
    similar = similarity(_NEAR)
    scored = []
    for name in dict.fromkeys(names):
        candidate = _bare(name)
        if candidate == target:
            return (name,)
        if score := max(similar(target, candidate), _contained(target, candidate)):
            scored.append((-score, name))
    return tuple(name for _, name in sorted(scored)[:limit])


def nearest_qualified(misspelled: str, names: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """Return similar names such as ``server__tool``, also if the name has no server or a ``.`` behind it.

    A name is compared whole and without its server, so that ``read_fiel`` finds ``filesystem__read_file``.
    """
    similar = similarity(_NEAR)
    target = _folded(misspelled).replace(".", "__", 1)
    bare = target.partition("__")[2] or target
    scored = []
    for name in names:
        candidate = _folded(name)
        own = candidate.partition("__")[2] or candidate
        # The name of the server weighs less than that of the tool: a right server does not make a right tool.
        whole = similar(target, candidate)
        if score := max(similar(bare, own), whole * _SERVER_WEIGHT, _contained(bare, own)):
            # Of servers with the same tool, the one that was named comes first.
            scored.append((-score, -whole, name))
    return tuple(name for _, _, name in sorted(scored)[:limit])


def closest(name: str, names: Sequence[str], limit: int) -> list[int]:
    """Return the indexes of the ``limit`` names closest to ``name`` by Levenshtein ratio, however far.

    The ratio is that of python-Levenshtein: a replaced letter counts as one removed and one added.
    """
    from rapidfuzz.distance import Indel
    from rapidfuzz.process import extract

    near = extract(name, names, scorer=Indel.normalized_similarity, limit=limit)
    return [index for _, _, index in near]


def similarity(cutoff: float) -> Similarity:
    """Return a measure of edits, a transposition being one; what is below ``cutoff`` is 0."""
    # Imported when a name is wrong: most processes never need it.
    from rapidfuzz.distance import OSA

    def similar(name: str, candidate: str) -> float:
        return OSA.normalized_similarity(name[:_LONGEST], candidate[:_LONGEST], score_cutoff=cutoff)

    return similar


def _contained(name: str, candidate: str) -> float:
    """Compare a name with one that it holds, or that holds it: ``read`` with ``read_file``."""
    short, long = sorted((name, candidate), key=len)
    return 0.5 + 0.5 * len(short) / len(long) if len(short) >= _SHORTEST_PART and short in long else 0.0


def _folded(name: str) -> str:
    name = name[:_LONGEST]
    return name.lower() if name.isascii() else unicodedata.normalize("NFKC", name).casefold()


def _bare(name: str) -> str:
    return _folded(name).replace("-", "").replace("_", "")
