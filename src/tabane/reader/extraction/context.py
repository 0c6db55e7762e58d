"""What is thought of the blocks around a block: the second look takes them into account."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log1p

from tabane.reader.extraction.blocks import Block, up

_STEPS = (0, 1, 2, 3, 5)
_LEAST = 0.3  # words: a picture's block and one of punctuation weigh something


def weights(blocks: Sequence[Block]) -> list[float]:
    """How much each block is worth in words."""
    return [block.words + _LEAST for block in blocks]


def context(blocks: Sequence[Block], first: Sequence[float]) -> list[list[float]]:
    """Columns for the second look: the first look's probabilities, near by, around, and on the whole page."""
    weight = weights(blocks)
    mass = [p * w for p, w in zip(first, weight, strict=True)]
    inside = _inside(blocks, mass, weight)
    paths = _paths(blocks, mass, weight)
    total, whole = sum(mass), sum(weight)
    sums, sizes = [0.0, *_running(mass)], [0.0, *_running(weight)]
    count = len(blocks)
    rows = []
    for number, block in enumerate(blocks):
        row = [first[number]]
        for step in (1, 2, 3):
            row.append(first[number - step] if number >= step else 0.0)
            row.append(first[number + step] if number + step < count else 0.0)
        for reach in (2, 6):
            low, high = max(0, number - reach), min(count, number + reach + 1)
            row.append((sums[high] - sums[low]) / (sizes[high] - sizes[low]))
        row += inside[id(block.box)]
        row.append(paths[block.box.path])
        row += [total / whole, log1p(total), sums[number + 1] / max(1e-9, total)]
        rows.append(row)
    return rows


def _running(values: Sequence[float]) -> Iterator[float]:
    total = 0.0
    for value in values:
        total += value
        yield total


def _inside(
    blocks: Sequence[Block], mass: Sequence[float], weight: Sequence[float]
) -> dict[int, list[float]]:
    """For each box with a block: the share of content in it and in the boxes around it."""
    held: dict[int, list[float]] = {}
    chains: dict[int, list[int]] = {}
    for number, block in enumerate(blocks):
        key = id(block.box)
        chain = chains.get(key)
        if chain is None:
            chain = chains[key] = [id(box) for box in up(block.box)]
        for box in chain:
            both = held.setdefault(box, [0.0, 0.0])
            both[0] += mass[number]
            both[1] += weight[number]
    shares = {key: both[0] / both[1] for key, both in held.items()}
    return {
        key: [shares[chain[min(step, len(chain) - 1)]] for step in _STEPS] for key, chain in chains.items()
    }


def _paths(blocks: Sequence[Block], mass: Sequence[float], weight: Sequence[float]) -> dict[int, float]:
    held: dict[int, list[float]] = {}
    for number, block in enumerate(blocks):
        both = held.setdefault(block.box.path, [0.0, 0.0])
        both[0] += mass[number]
        both[1] += weight[number]
    return {path: both[0] / both[1] for path, both in held.items()}


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
