"""News-like pages, made of articles: parts of other pages that are not content, within and after their text.

An article of the development set seldom has lists of links within its text, and few have comments. News pages
have both. So parts of other articles that no reader wanted (newsletters, "Related", link cards, comments) are
put between paragraphs and behind the text, and threads of forums behind it. Such a part is marked by an
attribute that no feature looks at.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.reader.labels import labels
from benchmarks.reader.pages import Gold
from lxml import etree
from lxml.html import fragment_fromstring

from tabane.reader.extraction.blocks import BlockSegmentation, ElementBox, up
from tabane.reader.extraction.content import cut
from tabane.reader.extraction.html_tree import parsed

MARK = "data-graft"
_TAGS = frozenset(("ul", "ol", "div", "section", "aside", "table", "form"))
_FRAMES = frozenset(("nav", "header", "footer"))
_FRAME_NAMES = ("foot", "nav", "menu")
_TALK_NAMES = ("comment", "repl", "thread", "discuss", "disqus", "post", "message")
_LONGEST = 120_000  # characters of a part
_SHORT = 120  # words of a part that is put between paragraphs
_LONG = 40  # words of one that is put behind the text
_TALK = 0.35  # share of threads among the parts behind the text
_PARAGRAPH = 15  # words
_COUNTS = (0, 1, 1, 2)


@dataclass(frozen=True, slots=True)
class ForeignPart:
    """A part of a page that may be put into an article of another site. ``talk``: it is a forum's thread."""

    html: str
    words: int
    talk: bool
    site: str


@dataclass(slots=True)
class _Tally:
    box: ElementBox
    blocks: int = 0
    good: int = 0
    words: int = 0
    good_words: int = 0


def news_like(golds: Sequence[Gold], seed: int) -> Iterator[Gold]:
    """Yield each article that has text to put something in, with foreign parts."""
    chance = random.Random(seed)
    texts = [gold for gold in golds if gold.text and isinstance(gold.html, str)]
    parts = [part for gold in texts if gold.kind in ("article", "forum") for part in foreign_parts(gold)]
    for gold in texts:
        if gold.kind == "article":
            others = [part for part in parts if part.site != gold.site]
            if html := _grafted(gold, others, chance):
                yield replace(gold, name=f"{gold.name}~{seed}", kind="news-like", html=html)


def foreign_parts(gold: Gold) -> Iterator[ForeignPart]:
    """Yield the largest parts of an article that are not content, or of a forum that are a thread."""
    cutting, _ = cut(parsed(str(gold.html)))
    taken: set[int] = set()
    for tally in sorted(_tallies(cutting, gold.text), key=lambda tally: -tally.words):
        if any(id(at) in taken for at in up(tally.box)):
            continue
        if not (_is_negative(tally) if gold.kind == "article" else _is_thread(tally)):
            continue
        taken.add(id(tally.box))
        html = etree.tostring(tally.box.element, encoding="unicode", method="html", with_tail=False)
        if len(html) <= _LONGEST:
            yield ForeignPart(html, tally.words, gold.kind == "forum", gold.site)


def _tallies(cutting: BlockSegmentation, text: str) -> list[_Tally]:
    found: dict[int, _Tally] = {}
    right = labels([block.text for block in cutting.blocks], text)
    for block, good in zip(cutting.blocks, right, strict=True):
        for box in up(block.box):
            tally = found.setdefault(id(box), _Tally(box))
            tally.blocks += 1
            tally.good += good
            tally.words += block.words
            tally.good_words += block.words if good else 0
    return [tally for tally in found.values() if tally.box.element.tag in _TAGS]


def _is_negative(tally: _Tally) -> bool:
    around = {box.element.tag for box in up(tally.box)}
    return (
        tally.good == 0
        and tally.blocks >= 2
        and 8 <= tally.words <= 700
        and not around & _FRAMES
        and not any(name in _name(tally.box) for name in _FRAME_NAMES)
    )


def _is_thread(tally: _Tally) -> bool:
    return (
        tally.good_words > 0.75 * tally.words
        and tally.blocks >= 6
        and 60 <= tally.words <= 1500
        and any(name in _name(tally.box) for name in _TALK_NAMES)
    )


def _name(box: ElementBox) -> str:
    boxes = [box] if box.parent is None else [box, box.parent]
    return " ".join(f"{at.element.get('class') or ''} {at.element.get('id') or ''}" for at in boxes).lower()


def _grafted(gold: Gold, parts: Sequence[ForeignPart], chance: random.Random) -> str:
    """Return the page with foreign parts; "" if it has too little text, or none was put in."""
    root = parsed(str(gold.html))
    cutting, _ = cut(root)
    right = labels([block.text for block in cutting.blocks], gold.text)
    texts = [
        block.box.element
        for block, good in zip(cutting.blocks, right, strict=True)
        if good and block.words >= _PARAGRAPH
    ]
    if len(texts) < 4:
        return ""
    top = _around(texts)
    last = next((at for at in (texts[-1], *texts[-1].iterancestors()) if at.getparent() is top), None)
    if last is None:
        return ""
    count = 0
    paragraphs = [element for element in texts if element.tag == "p"]
    short = [part for part in parts if not part.talk and part.words <= _SHORT]
    for _ in range(chance.choice(_COUNTS) if paragraphs and short else 0):
        count += _put(chance.choice(short), chance.choice(paragraphs))
    threads = [part for part in parts if part.talk]
    long = [part for part in parts if part.talk or part.words > _LONG]
    for _ in range(chance.choice(_COUNTS) if long else 0):
        part = chance.choice(threads if threads and chance.random() < _TALK else long)
        inside = chance.random() < 0.6 or top.tag in ("body", "html") or top.getparent() is None
        count += _put(part, last if inside else top)
    return etree.tostring(root, encoding="unicode", method="html") if count else ""


def _put(part: ForeignPart, before: Any) -> int:
    """Put a part behind an element; return how many were put, 0 if its HTML is no single element."""
    try:
        element = fragment_fromstring(part.html)
    except (etree.ParserError, etree.XMLSyntaxError):
        return 0
    element.set(MARK, part.site)
    element.tail, before.tail = before.tail, None
    before.addnext(element)
    return 1


def _around(elements: Sequence[Any]) -> Any:
    """Return the lowest element around all of them."""
    chains = [[element, *element.iterancestors()][::-1] for element in elements]
    level = 0
    while all(len(chain) > level and chain[level] is chains[0][level] for chain in chains):
        level += 1
    return chains[0][level - 1]
