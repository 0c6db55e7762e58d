"""Selection of the blocks that are content, by a decision forest."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import islice
from math import exp
from typing import Any, cast

from tabane.reader.extraction import features
from tabane.reader.extraction.blocks import BlockSegmentation, ContentBlock, ElementBox, measured, up
from tabane.reader.extraction.declared_kinds import declared
from tabane.reader.extraction.hidden_elements import HiddenElementDetector
from tabane.reader.extraction.html_tree import open_noscripts, settle
from tabane.reader.extraction.marking import COLLAPSED, LATE, marked
from tabane.reader.extraction.pruning import filled, lowest, pruned
from tabane.reader.extraction.tab_labels import label_panes, tab_panes

Node = Any
"""A leaf is its value; a fork is (feature, threshold, subtree up to the threshold, subtree above it)."""


class DecisionForest:
    """Gradient-boosted trees: the sum of one leaf of each is the log-odds.

    Friedman, Greedy function approximation: a gradient boosting machine (2001). The trees become one function
    of conditional expressions, which takes half the time of a walk down their nodes. Its source is made of
    numbers only.
    """

    def __init__(self, base: float, trees: Sequence[Node]) -> None:
        self._odds = _compiled(base, trees)

    def odds(self, row: Sequence[float]) -> float:
        """Return the log-odds of a row of features."""
        return self._odds(row)

    def probability(self, row: Sequence[float]) -> float:
        return 1 / (1 + exp(-max(-30.0, min(30.0, self.odds(row)))))


def _compiled(base: float, trees: Sequence[Node]) -> Callable[[Sequence[float]], float]:
    """Return a function of a row, compiled from the trees: it takes half the time of a walk through them.

    Only numbers of the forest are in its source.
    """
    features: set[int] = set()
    lines = [line for tree in trees for line in _source(tree, " ", features)]
    columns = [f" f{number} = row[{number}]" for number in sorted(features)]
    source = ["def odds(row):", *columns, f" total = {float(base)!r}", *lines, " return total"]
    names: dict[str, Any] = {}
    exec("\n".join(source), {"__builtins__": {}}, names)
    return cast("Callable[[Sequence[float]], float]", names["odds"])


def _source(node: Node, margin: str, features: set[int]) -> Iterator[str]:
    """Yield the source of a tree. Its feature numbers are added to ``features``."""
    if not isinstance(node, list | tuple):
        yield f"{margin}total += {float(node)!r}"
        return
    number, threshold = int(node[0]), float(node[1])
    features.add(number)
    yield f"{margin}if f{number} <= {threshold!r}:"
    yield from _source(node[2], margin + " ", features)
    yield f"{margin}else:"
    yield from _source(node[3], margin + " ", features)


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
    ``kept`` says which of them are content. ``collapsed`` and ``late`` count the marked parts of the content
    that a click opens or a script shows. ``limited``: the page's style sheets were too large to be applied.
    """

    elements: tuple[Element, ...]
    letters: int
    share: float
    hidden: int = 0
    visible: tuple[str, ...] = ()
    kept: tuple[bool, ...] = ()
    collapsed: int = 0
    late: int = 0
    limited: bool = False


@cache
def _forest() -> DecisionForest:
    return forest()


def cut(root: Element) -> tuple[BlockSegmentation, HiddenElementDetector]:
    """Return a page in blocks, with streamed parts in their places and without hidden elements."""
    settle(root)
    found = _cut(root)
    if sum(block.letters for block in found[0].blocks) < _LITTLE and open_noscripts(root):
        found = _cut(root)
    return found


def _cut(root: Element) -> tuple[BlockSegmentation, HiddenElementDetector]:
    detector = HiddenElementDetector(root)
    cutting = BlockSegmentation(root, detector.hides)
    measured(cutting)
    return cutting, detector


def content(root: Element, without: Collection[Element] = ()) -> PageContent:
    """Find the content of a page. ``root`` is changed in place: everything else is removed from it.

    The elements ``without`` are not content, and their text is not counted as visible. Blocks are judged with
    them in place, because the forest was trained on pages that have them.
    """
    cutting, detector = cut(root)
    blocks = cutting.blocks
    aside = _within(blocks, without)
    whole = sum(block.letters for block, out in zip(blocks, aside, strict=True) if not out)
    kept = choice(cutting) if blocks else []
    kept = [keep and not out for keep, out in zip(kept, aside, strict=True)]
    letters = sum(block.letters for block, keep in zip(blocks, kept, strict=True) if keep)
    element = lowest(root, blocks, kept)
    visible = tuple(block.text for block, out in zip(blocks, aside, strict=True) if not out)
    seen = tuple(keep for keep, out in zip(kept, aside, strict=True) if not out)
    detector.set_lines_of_code()
    tabs = tab_panes(root)
    hidden = pruned(root, cutting, kept)
    collapsed, late = marked(detector.collapsed, COLLAPSED), marked(detector.late, LATE)
    label_panes(root, tabs)
    return PageContent(
        elements=(element,) if letters else (),
        letters=letters,
        share=letters / whole if whole else 0.0,
        hidden=hidden,
        visible=visible,
        kept=seen,
        collapsed=collapsed,
        late=late,
        limited=detector.limited,
    )


def _within(blocks: Sequence[ContentBlock], elements: Collection[Element]) -> list[bool]:
    """Return which blocks are within one of the elements."""
    if not elements:
        return [False] * len(blocks)
    inside: dict[int, bool] = {}
    return [_is_within(block.box, elements, inside) for block in blocks]


def _is_within(box: ElementBox, elements: Collection[Element], known: dict[int, bool]) -> bool:
    """Return whether a box is within one of the elements; ``known`` has the boxes that were asked for."""
    way: list[int] = []
    found = False
    for at in up(box):
        if id(at) in known:
            found = known[id(at)]
            break
        way.append(id(at))
        if at.element in elements:
            found = True
            break
    known.update(dict.fromkeys(way, found))
    return found


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
