"""Batches of texts of similar length, bounded by the memory that they need in a model."""

from __future__ import annotations

from collections.abc import Sequence

MOST_TEXTS = 64
"""Texts of a batch: more of them, however short, bring no more speed."""


def batches(lengths: Sequence[int], budget: int, most: int = MOST_TEXTS) -> list[list[int]]:
    """Return the positions of ``lengths``, each once, in batches of similar length, the longest first.

    A batch is padded to its longest text. That length times its number of texts is at most ``budget`` tokens,
    except for a single text that is longer than the budget. Equal lengths stay in their order.
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
    """Return the positions of ``sizes``, each once, in parts of similar size, to be handed over at once.

    A part has at most ``texts`` positions, and at most ``total`` as the sum of their sizes, except for a
    single one that is larger.
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
