"""How texts are put together for a model: of like length, and never more than memory was promised for."""

from __future__ import annotations

from collections.abc import Sequence

MOST_TEXTS = 64
"""Texts of a batch: more of them, however short, bring no more speed."""


def batches(lengths: Sequence[int], budget: int, most: int = MOST_TEXTS) -> list[list[int]]:
    """Positions of ``lengths``, each once, in batches of like length, the longest first.

    A batch is padded to its longest text: that length times its texts is at most ``budget`` tokens, but
    for a text that is longer than the budget, which is alone. Equal lengths stay in their order.
    """
    found: list[list[int]] = []
    room = 0
    for position in sorted(range(len(lengths)), key=lambda position: -lengths[position]):
        if room <= 0:
            found.append([])
            room = min(most, budget // max(lengths[position], 1)) or 1
        found[-1].append(position)
        room -= 1
    return found


def slices(sizes: Sequence[int], texts: int, total: int) -> list[list[int]]:
    """Positions of ``sizes``, each once, in parts of like size: what is handed over at once.

    A part has at most ``texts`` of them, and of their sizes at most ``total``, but for one that is
    larger, which is alone.
    """
    found: list[list[int]] = []
    room = 0
    for position in sorted(range(len(sizes)), key=lambda position: -sizes[position]):
        if not found or len(found[-1]) >= texts or room < sizes[position]:
            found.append([])
            room = total
        found[-1].append(position)
        room -= sizes[position]
    return found
