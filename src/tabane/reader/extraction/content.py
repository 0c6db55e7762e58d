"""Selection of the blocks that are content, by a decision forest."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import islice
from math import exp
from typing import Any

from tabane.reader.extraction import features
from tabane.reader.extraction.blocks import BlockSegmentation, ContentBlock, measured, up
from tabane.reader.extraction.declared_kinds import declared
from tabane.reader.extraction.hidden_elements import HiddenElementDetector
from tabane.reader.extraction.html_tree import open_noscripts, settle
from tabane.reader.extraction.pruning import filled, lowest, pruned

Node = Any
"""A leaf is its value; a fork is (feature, threshold, subtree up to the threshold, subtree above it)."""


class DecisionForest:
    """Gradient-boosted trees: the sum of one leaf of each is the log-odds.

    Friedman, Greedy function approximation: a gradient boosting machine (2001). The trees become one function
    of conditional expressions, which takes half the time of a walk down their nodes. Its source is made of
    numbers only.
    """

    def __init__(self, base: float, trees: Sequence[Node]) -> None:
        lines = ["def odds(row):", f"    total = {float(base)!r}"]
        lines += [f"    total += {_expression(tree)}" for tree in trees]
        names: dict[str, Any] = {}
        exec("\n".join([*lines, "    return total"]), names)
        self.odds: Callable[[Sequence[float]], float] = names["odds"]
        """Return the log-odds of a row of features."""

    def probability(self, row: Sequence[float]) -> float:
        return 1 / (1 + exp(-max(-30.0, min(30.0, self.odds(row)))))


def _expression(node: Node) -> str:
    if not isinstance(node, list):
        return repr(float(node))
    feature, threshold, below, above = node
    left, right = _expression(below), _expression(above)
    return f"({left} if row[{int(feature)}] <= {float(threshold)!r} else {right})"


def forest(name: str = "forest.json.gz") -> DecisionForest:
    """Return the forest that is in a file of this room."""
    data = json.loads(gzip.decompress(files(__package__).joinpath(name).read_bytes()))
    return DecisionForest(data["base"], data["trees"])


_LEAST = 0.3  # words: a picture's block and one of punctuation weigh something
_SURE = 0.8
"""From this probability on, a block is sure to be content."""
_ENOUGH = 80  # words that are sure, and more than half of all that are expected
_LIKELY = 0.5
_CERTAIN = 0.8
"""Share of the expected words that is sure on a page of which most content is certain, as of an article."""
_LIKELIER = 0.55
"""As ``_LIKELY``, on such a page."""


def weights(blocks: Sequence[ContentBlock]) -> list[float]:
    """Return how much each block is worth in words."""
    return [block.words + _LEAST for block in blocks]


def chosen(blocks: Sequence[ContentBlock], probability: Sequence[float]) -> list[bool]:
    """Return which blocks to keep, so that the expected F1 is greatest.

    Blocks are taken from the most probable down while that raises 2·(sum of p·w of those taken) / (w of those
    taken + sum of p·w of all): if little of a page is certain, more of it is kept than by a fixed threshold.
    Lipton, Elkan, Naryanaswamy, Optimal thresholding of classifiers to maximize F1 (2014). If most of the
    expected content is certain, as in an article, improbable blocks are dropped, unless they are text close
    to certain content.
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


def selected(blocks: Sequence[ContentBlock], probability: Sequence[float]) -> list[bool]:
    """Return which blocks are content: the best cut through all is made, and made whole."""
    return filled(blocks, chosen(blocks, probability), probability, _is_sure(blocks, probability, _CERTAIN))


def _likely(blocks: Sequence[ContentBlock], kept: Sequence[bool], probability: Sequence[float]) -> list[bool]:
    """Return the kept blocks that are probably content, and text close to certain content."""
    sure = (block.box for block, p in zip(blocks, probability, strict=True) if p > _SURE)
    around = {id(at) for box in sure for at in islice(up(box), 1, 4)}
    least = _LIKELIER if _is_sure(blocks, probability, _CERTAIN) else _LIKELY
    return [
        keep and (p >= least or (id(block.box.parent) in around and 2 * block.linked < block.letters))
        for block, keep, p in zip(blocks, kept, probability, strict=True)
    ]


def _is_sure(blocks: Sequence[ContentBlock], probability: Sequence[float], share: float = 0.5) -> bool:
    """Return whether so large a share of the expected words is certain."""
    sure = sum(block.words for block, p in zip(blocks, probability, strict=True) if p > _SURE)
    expected = sum(block.words * p for block, p in zip(blocks, probability, strict=True))
    return sure >= _ENOUGH and sure >= share * expected


Element = Any
_MOST = 12_000
"""Blocks that are judged one by one; of a page of more, some of each shape are, for all of that shape."""
_SAMPLES = 6_000
_LITTLE = 250
"""Visible letters below which a page is read as if without JavaScript."""


@dataclass(frozen=True, slots=True)
class PageContent:
    """The content of a page, as elements of its own tree from which the rest was removed.

    ``letters`` is its length, ``share`` its part of the visible text, 0..1. ``hidden`` counts the invisible
    parts within the content, which were removed. ``visible`` are all visible texts of the page in order, and
    ``kept`` says which of them are content.
    """

    elements: tuple[Element, ...]
    letters: int
    share: float
    hidden: int = 0
    visible: tuple[str, ...] = ()
    kept: tuple[bool, ...] = ()


@cache
def _forest() -> DecisionForest:
    return forest()


def cut(root: Element) -> BlockSegmentation:
    """Return a page in blocks, with streamed parts in their places and without hidden elements."""
    settle(root)
    cutting = BlockSegmentation(root, HiddenElementDetector(root).hides)
    measured(cutting)
    if sum(block.letters for block in cutting.blocks) < _LITTLE and open_noscripts(root):
        cutting = BlockSegmentation(root, HiddenElementDetector(root).hides)
        measured(cutting)
    return cutting


def content(root: Element) -> PageContent:
    """Find the content of a page. ``root`` is changed in place: everything else is removed from it."""
    cutting = cut(root)
    blocks = cutting.blocks
    whole = sum(block.letters for block in blocks)
    kept = choice(cutting) if blocks else []
    letters = sum(block.letters for block, keep in zip(blocks, kept, strict=True) if keep)
    element = lowest(root, blocks, kept)
    visible = tuple(block.text for block in blocks)
    hidden = pruned(root, blocks, kept, cutting.hidden)
    share = letters / whole if whole else 0.0
    return PageContent((element,) if letters else (), letters, share, hidden, visible, tuple(kept))


def title(root: Element) -> str:
    """Return the title in the page's head, in one line."""
    element = root.find(".//title")
    return " ".join("".join(element.itertext()).split())[:500] if element is not None else ""


def choice(cutting: BlockSegmentation) -> list[bool]:
    """Return which blocks are content: each is judged, then the best cut through all is made."""
    return selected(cutting.blocks, _probability(cutting))


def rows(cutting: BlockSegmentation, only: Sequence[int] | None = None) -> list[list[float]]:
    """Return a row of features for each block of a page, or for those of the numbers in ``only``."""
    root = cutting.boxes[0].element
    return features.rows(cutting.boxes, cutting.blocks, title(root), declared(root), only)


def _probability(cutting: BlockSegmentation) -> list[float]:
    """Return how probable it is of each block that it is content."""
    blocks = cutting.blocks
    judge = _forest()
    if len(blocks) <= _MOST:
        return [judge.probability(row) for row in rows(cutting)]
    shapes = _shapes(blocks)
    some = max(1, _SAMPLES // len(shapes))
    samples = {shape: numbers[:: -(-len(numbers) // some)] for shape, numbers in shapes.items()}
    asked = sorted(number for numbers in samples.values() for number in numbers)
    judged = dict(zip(asked, map(judge.probability, rows(cutting, asked)), strict=True))
    found = [0.0] * len(blocks)
    for shape, numbers in shapes.items():
        mean = sum(judged[number] for number in samples[shape]) / len(samples[shape])
        for number in numbers:
            found[number] = judged.get(number, mean)
    return found


def _shapes(blocks: Sequence[ContentBlock]) -> dict[int, list[int]]:
    """Return numbers of the blocks at the same path, which come from the same template.

    If a page has too many paths to judge a block of each, its blocks are grouped by tag only.
    """
    by_path: dict[int, list[int]] = {}
    for number, block in enumerate(blocks):
        by_path.setdefault(block.box.path, []).append(number)
    if len(by_path) <= _SAMPLES:
        return by_path
    by_tag: dict[str, list[int]] = {}
    for number, block in enumerate(blocks):
        by_tag.setdefault(block.box.element.tag, []).append(number)
    return dict(enumerate(by_tag.values()))
