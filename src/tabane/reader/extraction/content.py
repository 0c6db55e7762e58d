"""What of a page is content, in its own tree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from tabane.reader.extraction import features
from tabane.reader.extraction.blocks import Cutting, measured
from tabane.reader.extraction.choosing import chosen
from tabane.reader.extraction.forest import Forest, forest
from tabane.reader.extraction.hiding import Hiding
from tabane.reader.extraction.pruning import filled, lowest, pruned
from tabane.reader.extraction.streamed import settle

Element = Any
_MOST = 12_000
"""Blocks that are judged by the forests; a page of more is judged by its boxes alone."""


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a page, as elements of its own tree from which the rest was taken away.

    ``letters`` is how long it is, ``share`` what part of the visible text that is, 0..1. ``hidden`` counts
    the parts amid the content that no reader sees, which are not in it.
    """

    elements: tuple[Element, ...]
    letters: int
    share: float
    hidden: int = 0


@cache
def _forest() -> Forest:
    return forest()


def cut(root: Element) -> Cutting:
    """A page in blocks, with what was streamed in its place and without what nobody sees."""
    settle(root)
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
    hidden = pruned(root, blocks, kept, cutting.hidden)
    return Content((element,) if letters else (), letters, letters / whole if whole else 0.0, hidden)


def title(root: Element) -> str:
    """What the page calls itself in its head, in one line."""
    element = root.find(".//title")
    return " ".join("".join(element.itertext()).split())[:500] if element is not None else ""


def choice(cutting: Cutting) -> list[bool]:
    """Which blocks are content: each is judged, then the best cut through all is made, and made whole."""
    blocks = cutting.blocks
    if len(blocks) > _MOST:
        return [block.letters > 2 * block.linked for block in blocks]
    judge = _forest()
    rows = features.rows(cutting.boxes, blocks, title(cutting.boxes[0].element))
    probability = [judge.probability(row) for row in rows]
    return filled(blocks, chosen(blocks, probability), probability)
