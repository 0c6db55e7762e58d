"""Selection of the blocks that are content, by a decision forest, and pruning of the tree to them.

Parts that a page does not show at first are marked. Labels of tabs are moved from their row to the panes that
they open, so that each code keeps its name.
"""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import chain, islice
from math import exp
from typing import Any

from tabane.reader.extraction import blocks
from tabane.reader.extraction.asides import asides, without_empty_headings
from tabane.reader.extraction.blocks import (
    SILENT,
    BlockSegmentation,
    ContentBlock,
    ElementBox,
    WordlessElement,
    iterwalk,
    measured,
    nearest,
    up,
)
from tabane.reader.extraction.end_matter import with_end_matter
from tabane.reader.extraction.hidden_elements import HiddenElementDetector
from tabane.reader.extraction.html_tree import open_noscripts, settle
from tabane.reader.extraction.metadata import declared
from tabane.reader.extraction.styles.shadow_trees import ShadowTrees, detach_shadow_trees
from tabane.reader.extraction.tabs import label_panes, with_panes, write_line
from tabane.reader.markdown.elements import EMPTY, is_formula_image
from tabane.reader.markdown.inline import mathml_source

Node = Any
"""A leaf is its value; a fork is (feature, threshold, subtree up to the threshold, subtree above it)."""


_LEAVES = 8
"""Most leaves of a tree: its bits are one byte."""
_LOWEST = bytes((bits & -bits).bit_length() - 1 if bits else 0 for bits in range(1 << _LEAVES))
"""Number of the lowest bit that is set in a byte."""


class DecisionForest:
    """Gradient-boosted trees of at most 8 leaves: the sum of one leaf of each is the log-odds.

    Friedman, Greedy function approximation: a gradient boosting machine (2001). Trees are not walked: each
    feature tells by its thresholds which leaves of all trees cannot be reached, as the bits of one number.
    Of each tree the first leaf that is left counts. Blocks of a page share most features, so that most of
    these numbers are found once a box, a path or a page. Lucchese and others, QuickScorer: a fast algorithm
    to rank documents with additive ensembles of regression trees (2015).
    """

    def __init__(self, base: float, trees: Sequence[Node]) -> None:
        self._base = float(base)
        self._leaves: list[list[float]] = []
        forks: dict[int, list[tuple[float, int]]] = {}
        for number, tree in enumerate(trees):
            leaves: list[float] = []
            self._leaves.append(leaves)
            _add_tree(tree, leaves, forks, _LEAVES * number)
        self._all = (1 << _LEAVES * len(trees)) - 1
        self._steps: dict[int, tuple[list[float], list[int]]] = {}
        """By feature: its thresholds in rising order, and the leaves left above none, one, two … of them."""
        for feature, cuts in forks.items():
            cuts.sort()
            left = [self._all]
            for _, gone in cuts:
                left.append(left[-1] & ~gone)
            self._steps[feature] = [threshold for threshold, _ in cuts], left

    def odds(self, rows: Sequence[blocks.Row]) -> list[float]:
        """Return the log-odds of each row of features. Parts that rows share are looked at once."""
        if not rows:
            return []
        plans = self._plans(rows[0])
        known: list[dict[int, int]] = [{} for _ in plans]
        found = []
        for row in rows:
            bits = self._all
            for part, plan, seen in zip(row, plans, known, strict=True):
                left = seen.get(id(part))
                if left is None:
                    left = self._all
                    for at, thresholds, leaves in plan:
                        left &= leaves[bisect_left(thresholds, part[at])]
                    seen[id(part)] = left
                bits &= left
            leaf = bits.to_bytes(len(self._leaves), "little").translate(_LOWEST)
            found.append(self._base + sum(map(list.__getitem__, self._leaves, leaf)))
        return found

    def probabilities(self, rows: Sequence[blocks.Row]) -> list[float]:
        return [1 / (1 + exp(-max(-30.0, min(30.0, odds)))) for odds in self.odds(rows)]

    def _plans(self, row: blocks.Row) -> list[list[tuple[int, list[float], list[int]]]]:
        """Return for each part of a row the features in it that a tree asks for: their places and steps."""
        plans = []
        first = 0
        for part in row:
            numbers = range(first, first + len(part))
            plans.append([(n - first, *self._steps[n]) for n in numbers if n in self._steps])
            first += len(part)
        return plans


def _add_tree(tree: Node, leaves: list[float], forks: dict[int, list[tuple[float, int]]], first: int) -> None:
    """Add the leaves of a tree from left to right, and each fork with the bits of the leaves that are out of
    reach above its threshold. ``first`` is the number of the tree's first bit.
    """
    todo: list[tuple[Node, int]] = [(tree, -1)]
    while todo:
        node, begin = todo.pop()
        if not isinstance(node, list | tuple):
            leaves.append(float(node))
        elif begin < 0:
            todo += [(node[3], -1), (node, len(leaves)), (node[2], -1)]
        else:
            bits = (1 << len(leaves)) - (1 << begin)
            forks.setdefault(int(node[0]), []).append((float(node[1]), bits << first))


@cache
def forest() -> DecisionForest:
    """Return the forest that is in a file of this room."""
    data = json.loads(gzip.decompress(files(__package__).joinpath("forest.json.gz").read_bytes()))
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
    weighed = good = best = 0.0
    count = 0
    for rank, number in enumerate(order, 1):
        weighed += weight[number]
        good += probability[number] * weight[number]
        f1 = 2 * good / (weighed + expected)
        if f1 > best:
            best, count = f1, rank
    kept = [False] * len(blocks)
    for number in order[:count]:
        kept[number] = True
    if not _is_sure(blocks, probability):
        return kept
    sure = (block.box for block, p in zip(blocks, probability, strict=True) if p > _SURE)
    around = {id(at) for box in sure for at in islice(up(box), 1, 4)}
    least = _LIKELIER if _is_sure(blocks, probability, _CERTAIN) else _LIKELY
    return [
        keep and (p >= least or (id(block.box.parent) in around and 2 * block.linked < block.letters))
        for block, keep, p in zip(blocks, kept, probability, strict=True)
    ]


def selected(blocks: Sequence[ContentBlock], probability: Sequence[float]) -> list[bool]:
    """Return which blocks are content: the best cut through all is made, and made whole."""
    even = smoothed(blocks, probability)
    kept = filled(blocks, chosen(blocks, even), even, _is_sure(blocks, even, _CERTAIN))
    return _keep_containers(blocks, kept, even)


_TEMPLATE = 6  # blocks at one path that come from a template, and are content or not together


def smoothed(blocks: Sequence[ContentBlock], probability: Sequence[float]) -> list[float]:
    """Return the probabilities, each drawn half the way to the mean of its path if many blocks are there."""
    sums: dict[int, tuple[int, float]] = {}
    for block, p in zip(blocks, probability, strict=True):
        count, total = sums.get(block.box.path, (0, 0.0))
        sums[block.box.path] = count + 1, total + p
    even = []
    for block, p in zip(blocks, probability, strict=True):
        count, total = sums[block.box.path]
        even.append((p + total / count) / 2 if count >= _TEMPLATE else p)
    return even


_WHOLE = 0.9  # share of its prose from which a container is kept whole
_LEAST_PROSE = 1500  # words of such a container
_AROUND = 10  # boxes around a block that may be its container
_FOREIGN = 0.3
"""Probability below which a block is foreign to the container that it is in."""


def _keep_containers(
    blocks: Sequence[ContentBlock], kept: Sequence[bool], probability: Sequence[float]
) -> list[bool]:
    """Keep the rest of each container of whose prose most is kept: a text does not end before its end."""
    words: dict[int, int] = {}
    good: dict[int, int] = {}
    for block, keep, p in zip(blocks, kept, probability, strict=True):
        if _is_prose(block) and p >= _FOREIGN:
            for at in islice(up(block.box), _AROUND):
                words[id(at)] = words.get(id(at), 0) + block.words
                if keep:
                    good[id(at)] = good.get(id(at), 0) + block.words
    whole = {at for at, count in words.items() if count >= _LEAST_PROSE and good.get(at, 0) >= _WHOLE * count}
    return [
        keep
        or (
            p >= _FOREIGN
            and _is_prose(block)
            and any(id(at) in whole for at in islice(up(block.box), _AROUND))
        )
        for block, keep, p in zip(blocks, kept, probability, strict=True)
    ]


def _is_prose(block: ContentBlock) -> bool:
    return 2 * block.linked < block.letters


def lost_share(blocks: Sequence[ContentBlock], kept: Sequence[bool]) -> float:
    """Return the share of its own prose that the container of the content lost, 0..1.

    The container is the lowest box around nearly all kept prose. Its own prose is at paths of which blocks
    were kept.
    """
    words: dict[int, int] = {}
    for block, keep in zip(blocks, kept, strict=True):
        if keep and _is_prose(block):
            for at in islice(up(block.box), _AROUND):
                words[id(at)] = words.get(id(at), 0) + block.words
    total = sum(block.words for block, keep in zip(blocks, kept, strict=True) if keep and _is_prose(block))
    main = {at for at, count in words.items() if count >= _WHOLE * total}
    paths = {block.box.path for block, keep in zip(blocks, kept, strict=True) if keep}
    lost = sum(
        block.words
        for block, keep in zip(blocks, kept, strict=True)
        if not keep
        and block.box.path in paths
        and _is_prose(block)
        and any(id(at) in main for at in islice(up(block.box), _AROUND))
    )
    return lost / (lost + total) if lost else 0.0


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
    ``lost`` is the share of the prose of its container that was left out, 0..1.
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
    lost: float = 0.0


def cut(root: Element) -> tuple[BlockSegmentation, HiddenElementDetector]:
    """Return a page in blocks, with streamed parts in their places and without hidden elements."""
    settle(root)
    shadows = detach_shadow_trees(root)
    parts = _cut_blocks(root, shadows)
    little = sum(block.letters for block in parts[0].blocks) < _LITTLE
    if little and not shadows.trees and open_noscripts(root):
        parts = _cut_blocks(root, shadows)
    return parts


def _cut_blocks(root: Element, shadows: ShadowTrees) -> tuple[BlockSegmentation, HiddenElementDetector]:
    detector = HiddenElementDetector(root, shadows)
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
    if not without:
        aside = [False] * len(blocks)
    else:
        inside: dict[int, bool] = {}
        aside = [
            nearest(block.box, inside, lambda at: True if at.element in without else None, False)
            for block in blocks
        ]
    whole = sum(block.letters for block, out in zip(blocks, aside, strict=True) if not out)
    kept = with_panes(cutting, choice(cutting), detector.panes) if blocks else []
    kept = with_end_matter(cutting, kept)
    kept = [keep and not out for keep, out in zip(kept, aside, strict=True)]
    letters = sum(block.letters for block, keep in zip(blocks, kept, strict=True) if keep)
    element = lowest(root, blocks, kept)
    visible = tuple(block.text for block, out in zip(blocks, aside, strict=True) if not out)
    seen = tuple(keep for keep, out in zip(kept, aside, strict=True) if not out)
    detector.set_lines_of_code()
    _name_formula_images(cutting.hidden)
    hidden = pruned(root, cutting, kept)
    collapsed, late = marked(detector.collapsed, COLLAPSED), marked(detector.late, LATE)
    label_panes(root, detector.panes)
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
        lost=lost_share(blocks, kept),
    )


def title(root: Element) -> str:
    """Return the title in the page's head, in one line."""
    element = root.find(".//title")
    return " ".join("".join(element.itertext()).split())[:500] if element is not None else ""


def choice(cutting: BlockSegmentation) -> list[bool]:
    """Return which blocks are content: each is judged, then the best cut is made through all that are not
    beside the content.
    """
    beside = asides(cutting, declared(cutting.boxes[0].element))
    probability = [0.0 if out else p for p, out in zip(_probability(cutting), beside, strict=True)]
    kept = selected(cutting.blocks, probability)
    kept = [keep and not out for keep, out in zip(kept, beside, strict=True)]
    return without_empty_headings(cutting.blocks, kept, beside)


def rows(cutting: BlockSegmentation) -> list[list[float]]:
    """Return a row of features for each block of a page."""
    return [list(chain(*row)) for row in _rows(cutting)]


def _rows(cutting: BlockSegmentation, only: Sequence[int] | None = None) -> list[blocks.Row]:
    root = cutting.boxes[0].element
    return blocks.rows(cutting.boxes, cutting.blocks, title(root), declared(root), only)


def _probability(cutting: BlockSegmentation) -> list[float]:
    """Return how probable it is of each block that it is content."""
    blocks = cutting.blocks
    judge = forest()
    if len(blocks) <= _MOST:
        return judge.probabilities(_rows(cutting))
    shapes = _same_path_blocks(blocks)
    some = max(1, _SAMPLES // len(shapes))
    samples = {shape: numbers[:: -(-len(numbers) // some)] for shape, numbers in shapes.items()}
    sampled = sorted(number for numbers in samples.values() for number in numbers)
    judged = dict(zip(sampled, judge.probabilities(_rows(cutting, sampled)), strict=True))
    probabilities = [0.0] * len(blocks)
    for shape, numbers in shapes.items():
        mean = sum(judged[number] for number in samples[shape]) / len(samples[shape])
        for number in numbers:
            probabilities[number] = judged.get(number, mean)
    return probabilities


def _same_path_blocks(blocks: Sequence[ContentBlock]) -> dict[int, list[int]]:
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


COLLAPSED = "(collapsed on the page)"
LATE = "(hidden until a script shows it)"


def marked(elements: Iterable[Element], mark: str) -> int:
    """Write a mark at the begin of each element that still has text; return the number of these."""
    count = 0
    for element in elements:
        if element.tag not in ("body", "html") and element.getparent() is None:
            continue
        if any(text.strip() for text in element.itertext()):
            write_line(element, mark)
            count += 1
    return count


_MOSTLY = 0.5
"""Share of a list's words that makes the rest of it content too."""
_REACH = 3
_LISTS = frozenset(("ul", "ol", "dl"))
_FORMULA_NAMES = frozenset(
    ("katex-html", "katex-mathml", "mwe-math-mathml-inline", "mwe-math-mathml-display")
)
_WORDS_IN_A_ROW = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}(?:[\s,.;:!?]+[A-Za-z]{2,}){3}")
"""Four words that are not commands: hidden prose, not a formula."""
_OF_LINE = frozenset(("span", "a", "b", "em", "strong", "i", "font"))
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")


@dataclass(frozen=True, slots=True)
class FillThresholds:
    """Least probabilities from which blocks are kept because of their neighbors.

    ``title`` is that of an h1, ``heading`` that of other headings before kept text, and ``links`` that of
    headings before anything else that is kept, such as a list of links.
    """

    item: float
    interruption: float
    title: float
    heading: float
    links: float


_FILL_UNSURE = FillThresholds(item=0.12, interruption=0.12, title=0.12, heading=0.12, links=0.12)
_FILL_SURE = FillThresholds(item=0.15, interruption=0.12, title=0.2, heading=0.12, links=0.2)
"""Around certain content are the title of the page, which is in its metadata, and "More from …"."""


def filled(
    blocks: Sequence[ContentBlock], kept: Sequence[bool], probability: Sequence[float], sure: bool = False
) -> list[bool]:
    """Complete the choice: blocks amid content belong to it, unless they are probably not content.

    Lists that are mostly content are kept whole. Headings follow their sections, code blocks and tables the
    text that they interrupt, images the blocks on both sides. ``sure``: most of the content is certain.
    """
    least = _FILL_SURE if sure else _FILL_UNSURE
    kept = _keep_structure(blocks, _keep_lists(blocks, list(kept), probability, least), probability, least)
    amid = _content_between(blocks, kept)
    return [
        choice if block.pieces else amid[number] and amid[number + 1]
        for number, (block, choice) in enumerate(zip(blocks, kept, strict=True))
    ]


def _keep_lists(
    blocks: Sequence[ContentBlock], kept: list[bool], probability: Sequence[float], least: FillThresholds
) -> list[bool]:
    """Keep whole the lists that are mostly content, or that are amid content and are not links."""
    groups: dict[int, list[int]] = {}
    around: dict[int, tuple[int, ...]] = {}
    for number, block in enumerate(blocks):
        for key in _list_ids(block.box, around):
            groups.setdefault(key, []).append(number)
    choice = list(kept)
    for numbers in groups.values():
        words = sum(blocks[number].words for number in numbers)
        good = sum(blocks[number].words for number in numbers if kept[number])
        linked = sum(blocks[number].linked for number in numbers)
        amid = any(kept[max(0, numbers[0] - 2) : numbers[0]]) and any(kept[numbers[-1] + 1 : numbers[-1] + 3])
        amid = amid and 2 * linked < sum(blocks[number].letters for number in numbers)
        if good >= _MOSTLY * words or amid:
            for number in numbers:
                choice[number] = choice[number] or probability[number] >= least.item
    return choice


def _list_ids(box: ElementBox, ids_by_box: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the ids of the outermost and the innermost list around a box. What is in
    ``ids_by_box`` is not searched again.
    """
    below: list[ElementBox] = []
    ids: tuple[int, ...] = ()
    for at in up(box):
        if (before := ids_by_box.get(id(at))) is not None:
            ids = before
            break
        below.append(at)
    for at in reversed(below):
        if at.element.tag in _LISTS:
            ids = (ids[0], id(at)) if ids else (id(at),)
        ids_by_box[id(at)] = ids
    return ids


def _keep_structure(
    blocks: Sequence[ContentBlock], kept: list[bool], probability: Sequence[float], least: FillThresholds
) -> list[bool]:
    choice = list(kept)
    for number in range(len(blocks) - 1, -1, -1):
        tag = blocks[number].box.element.tag
        if kept[number]:
            continue
        if tag in _HEADINGS:
            after = [at for at in range(number + 1, min(len(blocks), number + 1 + _REACH)) if choice[at]]
            if not after:
                least_of_heading = 2.0
            elif blocks[number].box.element.tag == "h1":
                least_of_heading = least.title
            else:
                text = any(2 * blocks[at].linked < blocks[at].letters for at in after)
                least_of_heading = least.heading if text else least.links
            choice[number] = probability[number] >= least_of_heading
        elif tag in ("pre", "table") and probability[number] >= least.interruption:
            choice[number] = any(choice[number + 1 : number + 1 + _REACH]) or any(
                kept[max(0, number - _REACH) : number]
            )
    return choice


def _content_between(blocks: Sequence[ContentBlock], kept: Sequence[bool]) -> list[bool]:
    """Return for each place between two blocks, and for both ends, whether the nearest blocks of text on both
    sides are kept; a block without text is between two places.
    """
    before = [False]
    for block, choice in zip(blocks, kept, strict=True):
        before.append(choice if block.pieces else before[-1])
    after = [False]
    for block, choice in zip(reversed(blocks), reversed(kept), strict=True):
        after.append(choice if block.pieces else after[-1])
    return [one and other for one, other in zip(before, reversed(after), strict=True)]


def pruned(root: Element, cutting: BlockSegmentation, kept: Sequence[bool]) -> int:
    """Remove in place the blocks that were not kept; return the number of hidden parts amid the kept ones."""
    blocks, hidden = cutting.blocks, cutting.hidden
    speaking = list(
        _speaking_elements(cutting.wordless, blocks, kept)
    )  # held, because their ids are compared
    for block, choice in zip(blocks, kept, strict=True):
        if choice:
            speaking += block.pictures
        else:
            for element, tail in block.pieces:
                if tail:
                    element.tail = None
                else:
                    element.text = None
            for picture in block.pictures:
                picture.clear(keep_tail=True)
    amid = _count_hidden_amid_content(blocks, kept, hidden)
    _remove_silent(root, set(map(id, speaking)), {id(element) for element in hidden})
    return amid


def _speaking_elements(
    wordless: Sequence[WordlessElement], blocks: Sequence[ContentBlock], kept: Sequence[bool]
) -> Iterator[Element]:
    """Yield the elements that carry meaning without text and belong to the content, and what is in them."""
    chosen = {id(block) for block, choice in zip(blocks, kept, strict=True) if choice}
    amid = _content_between(blocks, kept)
    for at in wordless:
        neighbors = blocks[max(0, at.number - 1) : at.number + 1]
        if at.block is not None:
            belongs = id(at.block) in chosen
        elif own := [block for block in neighbors if block.box is at.box]:
            belongs = any(id(block) in chosen for block in own)
        else:
            belongs = amid[at.number] or any(
                id(block) in chosen and _is_beside(block.box, at.box) for block in neighbors
            )
        if belongs:
            yield from at.element.iter()


def _is_beside(box: ElementBox, other: ElementBox) -> bool:
    """Return whether a box is in the one that another is in, or within that other itself."""
    return box.parent is not None and (box.parent is other or box.parent is other.parent)


def _count_hidden_amid_content(
    blocks: Sequence[ContentBlock], kept: Sequence[bool], hidden: Sequence[Element]
) -> int:
    """Return the number of hidden elements with text in a box of which something is kept."""
    alive: set[Element] = set()
    for block, choice in zip(blocks, kept, strict=True):
        if choice:
            alive.add(block.box.element)
            if block.box.parent is not None:
                alive.add(block.box.parent.element)
    count = 0
    around: dict[Element, Element] = {}
    for element in hidden:
        above = _around_line(element.getparent(), around)
        # One of two forms of a formula is hidden, and the other one is not.
        is_formula = not _FORMULA_NAMES.isdisjoint((element.get("class") or "").split())
        if above in alive and not is_formula and len("".join(element.itertext()).strip()) > 1:
            count += 1
    return count


def _name_formula_images(hidden: Sequence[Element]) -> None:
    """Give each image beside a hidden formula its source, which pages have for programs."""
    for element in hidden:
        math = element if element.tag == "math" else next(element.iter("math"), None)
        if math is None:
            continue
        for neighbor in (element.getnext(), element.getprevious()):
            if neighbor is not None and neighbor.tag == "img":
                source = mathml_source(math)
                described = is_formula_image(neighbor) and neighbor.get("alt")
                if not described and not _WORDS_IN_A_ROW.search(source):
                    neighbor.set("data-tex", source)
                break


def _around_line(element: Element, lines: dict[Element, Element]) -> Element:
    """Return the nearest element that is not a part of a line. What is in ``lines`` is not searched again."""
    below = []
    at = element
    while at is not None and at not in lines and at.tag in _OF_LINE:
        below.append(at)
        at = at.getparent()
    nearest = lines.get(at, at)
    lines.update(dict.fromkeys(below, nearest))
    return nearest


def _remove_silent(root: Element, speaking: set[int], hidden: set[int]) -> None:
    """Remove every element that has no text left, and is not one of those that speak without text.

    Elements are identified by ``id()``. lxml creates their objects on access; the walk, the blocks and the
    list of hidden elements hold these objects for as long as the ids are needed.
    """
    from lxml import etree

    alive: set[int] = set()
    gone: dict[Element, bool] = {}  # whether its text is not shown, either
    for _, element in etree.iterwalk(root, events=("end", "comment", "pi")):
        if element is root:
            continue
        parent = element.getparent()
        wordless = id(element) in speaking
        silent = not wordless and (
            not isinstance(element.tag, str) or element.tag in SILENT or id(element) in hidden
        )
        speaks = not silent and (
            wordless or id(element) in alive or bool(element.text and element.text.strip())
        )
        alive.discard(id(element))
        if speaks or (element.tail and element.tail.strip()):
            alive.add(id(parent))
        if silent or not (speaks or element.tag in EMPTY):
            gone[element] = silent
    parents = dict.fromkeys(element.getparent() for element in gone)
    for parent in parents:
        if parent not in gone:
            _drop_children(parent, gone)


def _drop_children(parent: Element, gone: Mapping[Element, bool]) -> None:
    """Remove children of an element, and keep the text after them and the white space in them.

    The texts between two children that stay are joined once: many could be removed.
    """
    before: Element | None = None
    texts = [parent.text or ""]
    changed = False
    for child in list(parent):
        if child in gone:
            texts += [*_white_space(child, gone), child.tail or ""]
            child.tail = None
            parent.remove(child)
            changed = True
            continue
        if changed:
            _set_text(parent, before, "".join(texts))
        before, texts, changed = child, [child.tail or ""], False
    if changed:
        _set_text(parent, before, "".join(texts))


def _set_text(parent: Element, before: Element | None, text: str) -> None:
    if before is None:
        parent.text = text or None
    else:
        before.tail = text or None


def _white_space(element: Element, gone: Mapping[Element, bool]) -> Iterator[str]:
    """Yield the white space in an element that has no text left: code blocks need it."""
    if gone[element]:
        return
    silent: Element | None = None
    for event, inner in iterwalk(element):
        if event == "start":
            if silent is None and gone.get(inner):
                silent = inner
            if silent is None:
                yield inner.text or ""
            continue
        if silent is inner:
            silent = None
        if silent is None and inner is not element:
            yield inner.tail or ""


def lowest(root: Element, blocks: Sequence[ContentBlock], kept: Sequence[bool]) -> Element:
    """Return the lowest element around all that was kept.

    Each box is visited once: the way up from a block ends at a box that another block was in.
    """
    common: ElementBox | None = None
    seen: set[int] = set()
    for block, choice in zip(blocks, kept, strict=True):
        if choice:
            common = block.box if common is None else _lowest_common_box(common, block.box, seen)
    return common.element if common else root


def _lowest_common_box(common: ElementBox, box: ElementBox, seen: set[int]) -> ElementBox:
    """Return the lowest box around both. ``seen`` has boxes within ``common``, and is completed."""
    at = box
    while at is not common and id(at) not in seen:
        if at.depth >= common.depth:
            seen.add(id(at))
            at = at.parent or at
        else:
            seen.add(id(common))
            common = common.parent or common
    return common
