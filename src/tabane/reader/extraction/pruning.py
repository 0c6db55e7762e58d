"""Pruning of the original tree to its content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tabane.reader.extraction.blocks import (
    SILENT,
    BlockSegmentation,
    ContentBlock,
    ElementBox,
    WordlessElement,
    iterwalk,
    up,
)
from tabane.reader.markdown.wordless import EMPTY

Element = Any
_MOSTLY = 0.5
"""Share of a list's words that makes the rest of it content too."""
_REACH = 3
_LISTS = frozenset(("ul", "ol", "dl"))
_FORMULA_NAMES = frozenset(
    ("katex-html", "katex-mathml", "mwe-math-mathml-inline", "mwe-math-mathml-display")
)
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
    amid = _between(blocks, kept)
    return [
        choice if block.pieces else amid[number] and amid[number + 1]
        for number, (block, choice) in enumerate(zip(blocks, kept, strict=True))
    ]


def _lists(
    blocks: Sequence[ContentBlock], kept: list[bool], probability: Sequence[float], least: FillThresholds
) -> list[bool]:
    """Keep whole the lists that are mostly content, or that are amid content and are not links."""
    groups: dict[int, list[int]] = {}
    around: dict[int, tuple[int, ...]] = {}
    for number, block in enumerate(blocks):
        for key in _list_ids(block.box, around):
            groups.setdefault(key, []).append(number)
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


def _list_ids(box: ElementBox, known: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the ids of the outermost and the innermost list around a box. What is ``known`` is not searched
    again.
    """
    below: list[ElementBox] = []
    found: tuple[int, ...] = ()
    for at in up(box):
        if (before := known.get(id(at))) is not None:
            found = before
            break
        below.append(at)
    for at in reversed(below):
        if at.element.tag in _LISTS:
            found = (found[0], id(at)) if found else (id(at),)
        known[id(at)] = found
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


def _between(blocks: Sequence[ContentBlock], kept: Sequence[bool]) -> list[bool]:
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


def pruned(root: Element, cutting: BlockSegmentation, kept: Sequence[bool]) -> int:
    """Remove in place the blocks that were not kept; return the number of hidden parts amid the kept ones."""
    blocks, hidden = cutting.blocks, cutting.hidden
    speaking = list(_speaking(cutting.wordless, blocks, kept))  # held, because their ids are compared
    for block, choice in zip(blocks, kept, strict=True):
        if choice:
            speaking += block.pictures
        else:
            _silence(block)
    amid = _amid(blocks, kept, hidden)
    _sweep(root, set(map(id, speaking)), {id(element) for element in hidden})
    return amid


def _speaking(
    wordless: Sequence[WordlessElement], blocks: Sequence[ContentBlock], kept: Sequence[bool]
) -> Iterator[Element]:
    """Yield the elements that carry meaning without text and belong to the content, and what is in them."""
    chosen = {id(block) for block, choice in zip(blocks, kept, strict=True) if choice}
    amid = _between(blocks, kept)
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
    around: dict[Element, Element] = {}
    for element in hidden:
        above = _around_line(element.getparent(), around)
        if above in alive and not _shows_formula(element) and len("".join(element.itertext()).strip()) > 1:
            count += 1
    return count


def _shows_formula(element: Element) -> bool:
    """Return whether it is one of two forms of a formula: the other one is not hidden."""
    return not _FORMULA_NAMES.isdisjoint((element.get("class") or "").split())


def _around_line(element: Element, known: dict[Element, Element]) -> Element:
    """Return the nearest element that is not a part of a line. What is ``known`` is not searched again."""
    below = []
    at = element
    while at is not None and at not in known and at.tag in _OF_LINE:
        below.append(at)
        at = at.getparent()
    found = known.get(at, at)
    known.update(dict.fromkeys(below, found))
    return found


def _sweep(root: Element, speaking: set[int], hidden: set[int]) -> None:
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
        said = id(element) in speaking
        silent = not said and (
            not isinstance(element.tag, str) or element.tag in SILENT or id(element) in hidden
        )
        speaks = not silent and (said or id(element) in alive or bool(element.text and element.text.strip()))
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
            texts += [*_white(child, gone), child.tail or ""]
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


def _white(element: Element, gone: Mapping[Element, bool]) -> Iterator[str]:
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
            common = block.box if common is None else _meeting(common, block.box, seen)
    return common.element if common else root


def _meeting(common: ElementBox, box: ElementBox, seen: set[int]) -> ElementBox:
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
