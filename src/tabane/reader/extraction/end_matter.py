"""Notes, captions, figures and link cards: parts of the content that do not read like text.

These are kept by reference and by place, not by how probable they are: a note, a citation or an entry of a
bibliography if kept text links to it; a figure, a caption or a card if it is between kept text. A table of
contents beside the text is not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any
from urllib.parse import unquote

from tabane.reader.extraction.blocks import (
    NAMES,
    TAGS,
    BlockSegmentation,
    ContentBlock,
    ElementBox,
    up,
)
from tabane.reader.markdown.inline import is_marked_as_notes, is_reference

Element = Any

_LONGEST_NOTE = 3_000  # letters
_LONGEST_FIGURE = 1_500  # letters of a caption and of what is drawn
_LONGEST_CARD = 600  # letters
_LONGEST_NAME = 300  # characters
_MOST_NOTES = 3_000
_MOST_NAMED = 2_000  # elements within a note that are looked at
_AROUND = 4  # elements around a note that may be marked as one for notes
_WITHIN = 8  # elements around a block that may be its figure or card
_NEAR = 4  # levels between a figure and the text beside it
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_FIGURES = frozenset(("figure", "figcaption", "caption"))

_FIGURE = re.compile(
    r"(?:^|[\s_-])(?:informal)?(?:figure|fig-?caption|caption|captioned|image-?block|media-?object|wp-caption"
    r"|file-?name|code-?block-?title|code-?title|table-title|listing-title|thumb-?inner|tsingle)(?:$|[\s_-])",
    re.IGNORECASE,
)
_CARD = re.compile(
    r"(?:blog|link|bookmark|embed|ogp?|url|external|internal|web|site)[-_]?card(?:$|[\s_-])|kg-bookmark"
    r"|hatena-citation|wp-block-embed|wp-embed|oembed|embedly|external-article|notion-bookmark"
    r"|bookmark-(?:container|wrapper)|embedded-post|(?:^|\s)sd-card",
    re.IGNORECASE,
)
_ANY_CARD = re.compile(r"(?:^|[\s_-])cards?(?:$|[\s_-])", re.IGNORECASE)
_CONTENTS = re.compile(
    r"(?:^|[\s_-])(?:toc|table-?of-?contents|on-?this-?page|toc-?\w+|\w+-toc|doc-?outline)(?:$|[\s_-])"
    r"|tableOfContents|VPDocAsideOutline|tocCollapsible|tocMobile",
    re.IGNORECASE,
)
_TITLES = re.compile(
    r"\W*(?:\d+\W+)?(?:(?:foot|end)?notes?|references|citations?|bibliography|works cited|literature"
    r"|notes and references|sources|脚注|注釈?|注記|註|出典|参考文献|参考資料|引用文献"
    r"|einzelnachweise|anmerkungen|fu(?:ß|ss)noten|literatur"
    r"|références|notes et références|bibliographie|referencias|notas|bibliografía"
    r"|note|bibliografia|参考资料|参考文獻|각주|примечания|литература)\W*",
    re.IGNORECASE,
)
_MARK = re.compile(r"\W*(?:\d{1,4}|[a-z]|[^\W\d]\w{0,20}\s?(?:\d{2,4}[a-z]?)?)?\W*", re.IGNORECASE)
_FOREIGN = tuple(
    len(TAGS) + NAMES.index(kind) for kind in ("nav", "side", "more", "ad", "consent", "form", "talk", "shop")
)
"""Where a box has the depth of kinds whose pictures and cards are not the text's own."""
_SHARE = len(TAGS) + NAMES.index("share")


class _Places:
    """The blocks of each box, which are a run of all blocks, and the box of each element."""

    def __init__(self, cutting: BlockSegmentation) -> None:
        self.blocks = cutting.blocks
        self.boxes = cutting.boxes
        self._runs: dict[int, tuple[int, int]] = {}
        for number, block in enumerate(self.blocks):
            self._add_run(block.box, number, number)
        for box in reversed(self.boxes):
            if box.parent is not None and (run := self._runs.get(id(box))) is not None:
                self._add_run(box.parent, *run)

    def _add_run(self, box: ElementBox, first: int, last: int) -> None:
        before = self._runs.get(id(box), (first, last))
        self._runs[id(box)] = (min(before[0], first), max(before[1], last))

    def of(self, box: ElementBox) -> range:
        """Return the numbers of the blocks in a box."""
        first, last = self._runs.get(id(box), (0, -1))
        return range(first, last + 1)


def with_end_matter(cutting: BlockSegmentation, kept: Sequence[bool]) -> list[bool]:
    """Return which blocks are content, with what belongs to those that were kept."""
    choice = list(kept)
    if not any(choice):
        return choice
    places = _Places(cutting)
    _leave_contents_beside(places, choice)
    _keep_notes(places, choice)
    _keep_figures(places, choice)
    return choice


def _leave_contents_beside(places: _Places, kept: list[bool]) -> None:
    """Leave tables of contents that come before or after all other content."""
    known: dict[str, bool] = {}
    first, last = kept.index(True), len(kept) - 1 - kept[::-1].index(True)
    seen = -1  # number of the last block of a table of contents
    for box in places.boxes:
        get = box.element.get
        name = f"{get('class') or ''} {get('id') or ''} {get('aria-label') or ''}"[:_LONGEST_NAME]
        if name not in known:
            known[name] = _CONTENTS.search(name) is not None
        run = places.of(box)
        if not known[name] or not run or run[-1] <= seen or 3 * box.letters > places.boxes[0].letters:
            continue
        if box.element.tag in ("html", "body", "main", "article") or box.headings > 1 or box.long:
            continue
        seen = run[-1]
        if run[0] <= first and last <= run[-1]:
            continue
        if first in run or last in run:
            kept[run[0] : run[-1] + 1] = [False] * len(run)
        while not kept[first]:
            first += 1
        while not kept[last]:
            last -= 1


def _keep_notes(places: _Places, kept: list[bool]) -> None:
    """Keep the notes that kept text refers to, and those that these refer to, with their headings."""
    links = list(_fragment_links(places.blocks, kept))
    if not links:
        return
    targets = _targets(places.boxes[0].element)
    box_of = {box.element: box for box in places.boxes}
    seen: set[Element] = set()
    lists: dict[int, tuple[ElementBox, int]] = {}  # what notes are in, and the first of these
    while links:
        found: list[int] = []
        for link in links:
            target = targets.get(unquote(link.get("href")[1:]))
            if target is None or target in seen or len(seen) >= _MOST_NOTES:
                continue
            seen.add(target)
            for box in _boxes_of_note(link, target, box_of):
                new = [number for number in places.of(box) if not kept[number]]
                for number in new:
                    kept[number] = True
                found += new
                if new and box.parent is not None:
                    _, first = lists.get(id(box.parent), (box.parent, new[0]))
                    lists[id(box.parent)] = (box.parent, min(first, new[0]))
        links = list(_fragment_links(places.blocks, kept, found))
    for box, first in lists.values():
        _complete_list(places, kept, box, first)


def _fragment_links(
    blocks: Sequence[ContentBlock], kept: Sequence[bool], only: Iterable[int] | None = None
) -> Iterator[Element]:
    """Yield the links of kept blocks that lead to a place on the page itself."""
    seen: set[Element] = set()
    for number in range(len(blocks)) if only is None else only:
        if not kept[number]:
            continue
        top = blocks[number].box.element
        for element, tail in blocks[number].pieces:
            at = element.getparent() if tail else element
            while at is not None and at is not top and at not in seen:
                seen.add(at)
                if at.tag == "a" and len(at.get("href") or "") > 1 and at.get("href")[0] == "#":
                    yield at
                at = at.getparent()


def _targets(root: Element) -> dict[str, Element]:
    targets: dict[str, Element] = {}
    for element in root.iter("*"):
        attributes = element.attrib
        if "id" in attributes:
            targets.setdefault(attributes["id"], element)
        if "name" in attributes and element.tag == "a":
            targets.setdefault(attributes["name"], element)
    return targets


def _boxes_of_note(link: Element, target: Element, box_of: dict[Element, ElementBox]) -> list[ElementBox]:
    """Return the boxes of the note that a link leads to; none if it leads to something else."""
    at = target
    while at is not None and at not in box_of:
        at = at.getparent()
    box = box_of.get(at)
    if box is None or box.letters > _LONGEST_NOTE or box.headings or at.tag in ("html", "body", *_HEADINGS):
        return []
    marked = any(is_marked_as_notes(each) for each in (target, *islice(at.iterancestors(), _AROUND), at))
    text = "".join(islice(link.itertext(), 20))
    if not (marked or is_reference(link) or (_MARK.fullmatch(text[:60]) and _leads_back(link, at))):
        return []
    boxes = [box]
    if at.tag == "dt":
        for other in islice(at.itersiblings("dt", "dd"), _AROUND):
            if other.tag == "dt":
                break
            boxes += [box_of[other]] if other in box_of else []
    return [box for box in boxes if box.letters <= _LONGEST_NOTE]


def _leads_back(link: Element, note: Element) -> bool:
    """Return whether a note has a link back to the place of the one that leads to it."""
    around = (link, *islice(link.iterancestors(), 2))
    ids = {f"#{each.get(name)}" for each in around for name in ("id", "name") if each.get(name)}
    return any(unquote(back.get("href", "")) in ids for back in islice(note.iter("a"), _MOST_NAMED))


def _complete_list(places: _Places, kept: list[bool], box: ElementBox, first: int) -> None:
    """Keep all of a list of notes of which most was kept, and the heading before the first of them."""
    run = places.of(box)
    marked = any(is_marked_as_notes(at.element) for at in islice(up(box), 3))
    if marked and not box.headings:
        good = sum(places.blocks[number].letters for number in run if kept[number])
        if 2 * good >= box.letters:
            for number in run:
                kept[number] = True
            first = min(first, run[0])
    before = places.blocks[first - 1] if first else None
    if before is not None and len(before.text) < _LONGEST_NAME and _TITLES.fullmatch(before.text):
        kept[first - 1] = True


def _keep_figures(places: _Places, kept: list[bool]) -> None:
    """Keep figures, captions, titles of listings and link cards amid kept text, and figures at its end."""
    _complete_cards(places, kept)
    filled: set[int] = set()
    for number, keep in enumerate(kept):
        if keep:
            for at in up(places.blocks[number].box):
                if id(at) in filled:
                    break
                filled.add(id(at))
    units: dict[int, ElementBox] = {}  # the outermost box around one that has no kept text
    for box in places.boxes:
        if id(box) not in filled:
            units[id(box)] = units.get(id(box.parent), box)
    blocks = places.blocks
    following = _next_kept(kept)
    number = 0
    before = -1  # number of the last text that is content
    while number < len(blocks):
        unit = units.get(id(blocks[number].box))
        if kept[number] or unit is None or unit.parent is None:
            if blocks[number].pieces:
                before = number if kept[number] else -1
            number += 1
            continue
        run = places.of(unit)
        ends = following[run[-1]] not in places.of(unit.parent)
        belongs = _belongs_to_text(unit, places, kept, units, before, ends)
        for each in run:
            kept[each] = kept[each] or (belongs and bool(blocks[each].pieces or blocks[each].pictures))
        if not belongs and any(blocks[each].pieces for each in run):
            before = -1
        number = run[-1] + 1


def _complete_cards(places: _Places, kept: list[bool]) -> None:
    """Keep the whole of each link card of which a part was kept."""
    seen: set[int] = set()
    for number, keep in enumerate(tuple(kept)):
        if not keep:
            continue
        around = islice(up(places.blocks[number].box), _WITHIN)
        cards = [at for at in around if _kind_by_name(_name_of(at.element)) == "link card"]
        if not cards or id(cards[-1]) in seen:
            continue
        seen.add(id(cards[-1]))
        if cards[-1].letters <= _LONGEST_CARD and not _is_foreign(cards[-1], places, _FOREIGN):
            for each in places.of(cards[-1]):
                kept[each] = kept[each] or bool(places.blocks[each].pieces)


def _next_kept(kept: Sequence[bool]) -> list[int]:
    """Return for each block the number of the next one that was kept; the number of blocks if none is."""
    following = [len(kept)] * len(kept)
    for number in range(len(kept) - 2, -1, -1):
        following[number] = number + 1 if kept[number + 1] else following[number + 1]
    return following


def _belongs_to_text(
    unit: ElementBox,
    places: _Places,
    kept: Sequence[bool],
    units: dict[int, ElementBox],
    before: int,
    ends: bool,
) -> bool:
    """Return whether a part without kept text is of the text: amid it, or a figure at its end.

    ``before`` is the number of the last text before it, if that is content, else -1. ``ends``: nothing that
    was kept comes after it in the same element.
    """
    parent = unit.parent
    run = places.of(unit)
    if parent is None or unit.letters > _LONGEST_FIGURE * 4:
        return False
    within = [_kind_of(places.blocks[number].box, unit) for number in run]
    if not all(within):
        return False
    if all(kind == "figure" for kind in within):
        if unit.letters > _LONGEST_FIGURE or _is_foreign(unit, places, _FOREIGN):
            return False
        if _is_figure(parent) or (parent.parent is not None and _is_figure(parent.parent)):
            return True
        if ends and before >= places.of(parent)[0] and places.blocks[before].box.parent is parent:
            return True
    else:
        shared = _FOREIGN if "link card" in within else (*_FOREIGN, _SHARE)
        if "card" in within and not _is_between_paragraphs(unit, places, kept):
            return False
        if unit.letters > _LONGEST_CARD * len(run) or _is_foreign(unit, places, shared):
            return False
    after = _text_after(run[-1], places, kept, units)
    near = (
        number
        for number in (before, after)
        if number in places.of(parent) and places.blocks[number].box.depth - parent.depth <= _NEAR
    )
    return before >= 0 and after >= 0 and next(near, -1) >= 0


def _is_between_paragraphs(unit: ElementBox, places: _Places, kept: Sequence[bool]) -> bool:
    """Return whether a part is right between two paragraphs that are content."""
    run = places.of(unit)
    return all(
        0 <= number < len(kept)
        and kept[number]
        and places.blocks[number].box.parent is unit.parent
        and places.blocks[number].box.element.tag in ("p", "pre", "blockquote", *_HEADINGS)
        and 2 * places.blocks[number].linked < places.blocks[number].letters
        for number in (run[0] - 1, run[-1] + 1)
    )


def _text_after(number: int, places: _Places, kept: Sequence[bool], units: dict[int, ElementBox]) -> int:
    """Return the number of the next text if it is content, beyond other figures and cards; else -1."""
    blocks = places.blocks
    for at in range(number + 1, min(len(blocks), number + 1 + 5 * _WITHIN)):
        if not blocks[at].pieces:
            continue
        if kept[at]:
            return at
        unit = units.get(id(blocks[at].box))
        if unit is None or not _kind_of(blocks[at].box, unit):
            return -1
    return -1


def _kind_of(box: ElementBox, unit: ElementBox) -> str:
    """Return what a block is in, no farther out than a box: "figure", "link card", "card"; else ""."""
    for at in islice(up(box), _WITHIN):
        if at.element.tag in _FIGURES:
            return "figure"
        if kind := _kind_by_name(_name_of(at.element)):
            return kind
        if at is unit:
            break
    inner = next(iter(box.element), None)
    if inner is not None and isinstance(inner.tag, str) and _CARD.search(_name_of(inner)):
        return "link card"
    return ""


def _is_figure(box: ElementBox) -> bool:
    return box.element.tag in _FIGURES or _kind_by_name(_name_of(box.element)) == "figure"


@lru_cache(2048)
def _kind_by_name(name: str) -> str:
    """Return what classes say that an element is: "figure", "link card", "card"; else ""."""
    if not name:
        return ""
    if _FIGURE.search(name):
        return "figure"
    if _CARD.search(name):
        return "link card"
    return "card" if _ANY_CARD.search(name) else ""


def _name_of(element: Element) -> str:
    return str(element.get("class") or "")[:_LONGEST_NAME]


def _is_foreign(unit: ElementBox, places: _Places, kinds: Sequence[int]) -> bool:
    """Return whether something in a part, or the part itself, is named as what is not the text's own."""
    return any(
        max(places.blocks[number].box.near[kind] for kind in kinds) >= unit.depth
        for number in places.of(unit)
    )
