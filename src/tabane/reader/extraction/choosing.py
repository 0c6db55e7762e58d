"""Which blocks to keep, once it is known how probable it is of each that it is content."""

from __future__ import annotations

from collections.abc import Sequence

from tabane.reader.extraction.blocks import Block

_LEAST = 0.3  # words: a picture's block and one of punctuation weigh something


def weights(blocks: Sequence[Block]) -> list[float]:
    """How much each block is worth in words."""
    return [block.words + _LEAST for block in blocks]


def chosen(blocks: Sequence[Block], probability: Sequence[float]) -> list[bool]:
    """Which blocks to keep, so that the F1 that is to be expected is the greatest.

    Blocks are taken from the most probable down while that raises 2·(sum of p·w of those taken) / (w of those
    taken + sum of p·w of all): a page of which little is certain is kept more freely than a fixed threshold
    would. Lipton, Elkan, Naryanaswamy, Optimal thresholding of classifiers to maximize F1 (2014).
    """
    weight = weights(blocks)
    order = sorted(range(len(blocks)), key=lambda number: -probability[number])
    expected = sum(p * w for p, w in zip(probability, weight, strict=True))
    taken = good = best = 0.0
    count = 0
    for rank, number in enumerate(order, 1):
        taken += weight[number]
        good += probability[number] * weight[number]
        f1 = 2 * good / (taken + expected)
        if f1 > best:
            best, count = f1, rank
    kept = [False] * len(blocks)
    for number in order[:count]:
        kept[number] = True
    return kept
