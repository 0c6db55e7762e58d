"""Which blocks to keep, once it is known how probable it is of each that it is content."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from tabane.reader.extraction.blocks import Block, up

_LEAST = 0.3  # words: a picture's block and one of punctuation weigh something
_SURE = 0.8
"""From this probability on, a block is sure to be content."""
_ENOUGH = 80  # words that are sure, and more than half of all that are expected
_LIKELY = 0.5


def weights(blocks: Sequence[Block]) -> list[float]:
    """How much each block is worth in words."""
    return [block.words + _LEAST for block in blocks]


def chosen(blocks: Sequence[Block], probability: Sequence[float]) -> list[bool]:
    """Which blocks to keep, so that the F1 that is to be expected is the greatest.

    Blocks are taken from the most probable down while that raises 2·(sum of p·w of those taken) / (w of those
    taken + sum of p·w of all): a page of which little is certain is kept more freely than a fixed threshold
    would. Lipton, Elkan, Naryanaswamy, Optimal thresholding of classifiers to maximize F1 (2014). Where most
    of what is expected is sure, as in an article, nothing is taken that is rather not content, unless it is
    text close to what is.
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
    return _likely(blocks, kept, probability) if _is_sure(blocks, probability) else kept


def _likely(blocks: Sequence[Block], kept: Sequence[bool], probability: Sequence[float]) -> list[bool]:
    """What is rather content than not of what was kept, and the text that stands close to what surely is."""
    sure = (block.box for block, p in zip(blocks, probability, strict=True) if p > _SURE)
    around = {id(at) for box in sure for at in islice(up(box), 1, 4)}
    return [
        keep and (p >= _LIKELY or (id(block.box.parent) in around and 2 * block.linked < block.letters))
        for block, keep, p in zip(blocks, kept, probability, strict=True)
    ]


def _is_sure(blocks: Sequence[Block], probability: Sequence[float]) -> bool:
    sure = sum(block.words for block, p in zip(blocks, probability, strict=True) if p > _SURE)
    expected = sum(block.words * p for block, p in zip(blocks, probability, strict=True))
    return sure >= _ENOUGH and 2 * sure >= expected
