"""What of a page is content, in its own tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tabane.reader.extraction import features
from tabane.reader.extraction.blocks import Block, Cutting, measured
from tabane.reader.extraction.choosing import chosen
from tabane.reader.extraction.forest import Forest, forest
from tabane.reader.extraction.hidden_elements import Hiding
from tabane.reader.extraction.pruning import filled, lowest, pruned
from tabane.reader.extraction.streamed import open_noscripts, settle

Element = Any
_MOST = 12_000
"""Blocks that are judged one by one; of a page of more, some of each shape are, for all of that shape."""
_SAMPLES = 6_000
_LITTLE = 250
"""Visible letters below which a page is read as if without JavaScript."""


@dataclass(frozen=True, slots=True)
class Content:
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
def _forest() -> Forest:
    return forest()


def cut(root: Element) -> Cutting:
    """A page in blocks, with what was streamed in its place and without what nobody sees."""
    settle(root)
    cutting = Cutting(root, Hiding(root).hides)
    measured(cutting)
    if sum(block.letters for block in cutting.blocks) < _LITTLE and open_noscripts(root):
        cutting = Cutting(root, Hiding(root).hides)
        measured(cutting)
    return cutting


def content(root: Element) -> Content:
    """Find the content of a page. ``root`` is changed: what was not content is gone from it."""
    cutting = cut(root)
    blocks = cutting.blocks
    whole = sum(block.letters for block in blocks)
    kept = choice(cutting) if blocks else []
    letters = sum(block.letters for block, keep in zip(blocks, kept, strict=True) if keep)
    element = lowest(root, blocks, kept)
    visible = tuple(block.text for block in blocks)
    hidden = pruned(root, blocks, kept, cutting.hidden)
    share = letters / whole if whole else 0.0
    return Content((element,) if letters else (), letters, share, hidden, visible, tuple(kept))


def title(root: Element) -> str:
    """What the page calls itself in its head, in one line."""
    element = root.find(".//title")
    return " ".join("".join(element.itertext()).split())[:500] if element is not None else ""


def choice(cutting: Cutting) -> list[bool]:
    """Which blocks are content: each is judged, then the best cut through all is made, and made whole."""
    blocks = cutting.blocks
    probability = _probability(cutting)
    return filled(blocks, chosen(blocks, probability), probability)


def _probability(cutting: Cutting) -> list[float]:
    """How probable it is of each block that it is content."""
    blocks, name = cutting.blocks, title(cutting.boxes[0].element)
    judge = _forest()
    if len(blocks) <= _MOST:
        return [judge.probability(row) for row in features.rows(cutting.boxes, blocks, name)]
    shapes = _shapes(blocks)
    some = max(1, _SAMPLES // len(shapes))
    samples = {shape: numbers[:: -(-len(numbers) // some)] for shape, numbers in shapes.items()}
    asked = sorted(number for numbers in samples.values() for number in numbers)
    rows = features.rows(cutting.boxes, blocks, name, asked)
    judged = dict(zip(asked, map(judge.probability, rows), strict=True))
    found = [0.0] * len(blocks)
    for shape, numbers in shapes.items():
        mean = sum(judged[number] for number in samples[shape]) / len(samples[shape])
        for number in numbers:
            found[number] = judged.get(number, mean)
    return found


def _shapes(blocks: Sequence[Block]) -> dict[int, list[int]]:
    """Numbers of the blocks that stand at the same path, which are made by the same template.

    Where a page has too many paths for one of each to be judged, its blocks go by their tags alone.
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
