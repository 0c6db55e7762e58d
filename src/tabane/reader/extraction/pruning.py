"""Pruning of the original tree to its content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tabane.reader.extraction.blocks import SILENT, ContentBlock, ElementBox, iterwalk, up
from tabane.reader.extraction.html_tree import drop

Element = Any
_EMPTY = frozenset(("br", "hr", "wbr", "td", "th", "col", "colgroup"))
"""Elements that have a meaning when empty."""
_MOSTLY = 0.5
"""Share of a list's words that makes the rest of it content too."""
_REACH = 3
_LISTS = frozenset(("ul", "ol", "dl"))
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


_UNSURE = FillThresholds(item=0.12, interruption=0.12, title=0.12, heading=0.12, links=0.12)
_SURE = FillThresholds(item=0.15, interruption=0.12, title=0.2, heading=0.12, links=0.2)
"""Around certain content are the title of the page, which is in its metadata, and "More from …"."""


def filled(
    blocks: Sequence[ContentBlock], kept: Sequence[bool], probability: Sequence[float], sure: bool = False
) -> list[bool]:
    """Complete the choice: blocks amid content belong to it, unless they are probably not content.

    Lists that are mostly content are kept whole. Headings follow their sections, code blocks and tables the
    text that they interrupt, images the blocks on both sides. ``sure``: most of the content is certain.
    """
    least = _SURE if sure else _UNSURE
    kept = _structure(blocks, _lists(blocks, list(kept), probability, least), probability, least)
    return [
        choice if block.pieces else _between(blocks, kept, number)
        for number, (block, choice) in enumerate(zip(blocks, kept, strict=True))
    ]


def _lists(
    blocks: Sequence[ContentBlock], kept: list[bool], probability: Sequence[float], least: FillThresholds
) -> list[bool]:
    """Keep whole the lists that are mostly content, or that are amid content and are not links."""
    groups: dict[int, list[int]] = {}
    for number, block in enumerate(blocks):
        outer = [box for box in up(block.box) if box.element.tag in _LISTS]
        if outer:
            groups.setdefault(id(outer[-1]), []).append(number)
            if outer[0] is not outer[-1]:
                groups.setdefault(id(outer[0]), []).append(number)
    found = list(kept)
    for numbers in groups.values():
        words = sum(blocks[number].words for number in numbers)
        good = sum(blocks[number].words for number in numbers if kept[number])
        linked = sum(blocks[number].linked for number in numbers)
        amid = any(kept[max(0, numbers[0] - 2) : numbers[0]]) and any(kept[numbers[-1] + 1 : numbers[-1] + 3])
        amid = amid and 2 * linked < sum(blocks[number].letters for number in numbers)
        if good >= _MOSTLY * words or amid:
            for number in numbers:
                found[number] = found[number] or probability[number] >= least.item
    return found


def _structure(
    blocks: Sequence[ContentBlock], kept: list[bool], probability: Sequence[float], least: FillThresholds
) -> list[bool]:
    found = list(kept)
    for number in range(len(blocks) - 1, -1, -1):
        tag = blocks[number].box.element.tag
        if kept[number]:
            continue
        if tag in _HEADINGS:
            found[number] = probability[number] >= _least_of_heading(blocks, found, number, least)
        elif tag in ("pre", "table") and probability[number] >= least.interruption:
            found[number] = any(found[number + 1 : number + 1 + _REACH]) or any(
                kept[max(0, number - _REACH) : number]
            )
    return found


def _least_of_heading(
    blocks: Sequence[ContentBlock], kept: Sequence[bool], number: int, least: FillThresholds
) -> float:
    """Return the least probability from which a heading is kept; more than 1 if nothing after it is kept."""
    after = [at for at in range(number + 1, min(len(blocks), number + 1 + _REACH)) if kept[at]]
    if not after:
        return 2.0
    if blocks[number].box.element.tag == "h1":
        return least.title
    text = any(2 * blocks[at].linked < blocks[at].letters for at in after)
    return least.heading if text else least.links


def _between(blocks: Sequence[ContentBlock], kept: Sequence[bool], number: int) -> bool:
    """Return whether a block without text is between two blocks of content."""
    before = next((kept[at] for at in range(number - 1, -1, -1) if blocks[at].pieces), False)
    after = next((kept[at] for at in range(number + 1, len(blocks)) if blocks[at].pieces), False)
    return before and after


def pruned(
    root: Element, blocks: Sequence[ContentBlock], kept: Sequence[bool], hidden: Sequence[Element]
) -> int:
    """Remove in place the blocks that were not kept; return the number of hidden parts amid the kept ones."""
    pictures: set[int] = set()
    for block, choice in zip(blocks, kept, strict=True):
        if choice:
            pictures.update(map(id, block.pictures))
        else:
            _silence(block)
    amid = _amid(blocks, kept, hidden)
    _sweep(root, pictures, {id(element) for element in hidden})
    return amid


def _silence(block: ContentBlock) -> None:
    for element, tail in block.pieces:
        if tail:
            element.tail = None
        else:
            element.text = None
    for picture in block.pictures:
        picture.clear(keep_tail=True)


def _amid(blocks: Sequence[ContentBlock], kept: Sequence[bool], hidden: Sequence[Element]) -> int:
    """Return the number of hidden elements with text in a box of which something is kept."""
    alive: set[Element] = set()
    for block, choice in zip(blocks, kept, strict=True):
        if choice:
            alive.add(block.box.element)
            if block.box.parent is not None:
                alive.add(block.box.parent.element)
    count = 0
    for element in hidden:
        above = element.getparent()
        while above is not None and above.tag in ("span", "a", "b", "em", "strong", "i", "font"):
            above = above.getparent()
        if above in alive and len("".join(element.itertext()).strip()) > 1:
            count += 1
    return count


def _sweep(root: Element, pictures: set[int], hidden: set[int]) -> None:
    """Remove every element that has no text or image left.

    Elements are identified by ``id()``. lxml creates their objects on access; the walk, the blocks and the
    list of hidden elements hold these objects for as long as the ids are needed.
    """
    alive: set[int] = set()
    gone: list[tuple[Element, bool]] = []
    for event, element in iterwalk(root):
        if event == "start" or element is root:
            continue
        parent = element.getparent()
        silent = not isinstance(element.tag, str) or element.tag in SILENT or id(element) in hidden
        speaks = not silent and (
            id(element) in alive or id(element) in pictures or bool(element.text and element.text.strip())
        )
        alive.discard(id(element))
        if speaks or (element.tail and element.tail.strip()):
            alive.add(id(parent))
        if silent or not (speaks or element.tag in _EMPTY):
            gone.append((element, silent))
    for element, silent in gone:  # inner ones first, so that these contain only white space
        drop(element, "" if silent else "".join(element.itertext()))


def lowest(root: Element, blocks: Sequence[ContentBlock], kept: Sequence[bool]) -> Element:
    """Return the lowest element around all that was kept."""
    common: list[ElementBox] | None = None
    for block, choice in zip(blocks, kept, strict=True):
        if choice:
            chain = list(up(block.box))[::-1]
            if common is None:
                common = chain
            else:
                length = 0
                for one, other in zip(common, chain, strict=False):
                    if one is not other:
                        break
                    length += 1
                common = common[:length]
    return common[-1].element if common else root
