"""Names that a person may have meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """Up to ``limit`` of ``known`` that look like ``word``, the nearest first; empty where none does.

    One that differs in case, ``-`` and ``_`` alone is the one that was meant.
    """
    import difflib  # only a wrong name pays for it

    by_folded = {_folded(name): name for name in known}
    if _folded(word) in by_folded:
        return (by_folded[_folded(word)],)
    return tuple(by_folded[near] for near in difflib.get_close_matches(_folded(word), by_folded, limit))


def _folded(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
