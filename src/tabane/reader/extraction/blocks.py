"""Segmentation of a page into blocks: the shortest runs of text that are content or not as a whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tabane.reader.markdown.wordless import speaks

KINDS: dict[str, str] = {
    "body": "content article post entry story text body prose markdown document description desc richtext rte"
    " copy wysiwyg read paragraph articlebody blog main editor",
    "talk": "comment comments reply replies thread message messages discussion topic answer answers question"
    " forum cooked disqus",
    "nav": "nav menu navbar breadcrumb breadcrumbs navigation toc pagination pager skip submenu megamenu"
    " dropdown sitemap links crumb pnavi",
    "head": "header masthead topbar head top logo brand",
    "foot": "footer foot copyright colophon legal bottom",
    "side": "sidebar aside rail side widget widgets complementary secondary",
    "more": "related recommend recommended recommendations recommendation more similar popular trending also"
    " next prev previous latest recent ranking pickup upsell crosssell",
    "share": "share sharing social follow tweet facebook twitter sns like likes vote votes bookmark",
    "ad": "ad ads advert advertisement advertising sponsor sponsored promo promotion banner adsense dfp gpt"
    " outbrain taboola",
    "consent": "cookie cookies consent gdpr ccpa privacy onetrust notice alert announcement toast",
    "form": "subscribe newsletter signup cta form login signin register modal popup dialog overlay search"
    " filter filters facet sort input field button btn contact",
    "meta": "meta byline author date time timestamp tags tag category categories info published posted credit"
    " avatar user username profile",
    "shop": "product price sku variant cart buy rating stars swatch quantity checkout wishlist shipping",
    "review": "review reviews testimonial testimonials ugc yotpo feedback",
    "card": "card cards grid item items list listing tile teaser feed loop results result archive collection"
    " row col column",
    "hidden": "hidden hide sr visually screenreader offscreen invisible closed",
    "image": "caption figcaption image gallery carousel slider slide hero slick swiper thumb thumbnail media",
    "fold": "accordion faq collapse collapsible toggle tab tabs panel details expand tabpanel",
    "title": "title heading headline subtitle lead intro summary excerpt",
}
"""Kinds of part, and the words in a name that speak for them."""

NAMES = tuple(KINDS)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_OF = {word: number for number, words in enumerate(KINDS.values()) for word in words.split()}
_LONGEST_NAME = 300


def kinds(name: str) -> frozenset[int]:
    """Return numbers of the kinds that a class, id or role speaks for: ``post-body commentList`` for body,
    talk.
    """
    found = (_OF.get(word.lower()) for word in _WORD.findall(name[:_LONGEST_NAME]))
    return frozenset(number for number in found if number is not None)


Element = Any  # lxml's, which is imported with the first page

TAGS = (
    "main", "article", "section", "nav", "header", "footer", "aside", "form", "ul", "ol", "li", "table", "td",
    "figure", "figcaption", "blockquote", "a", "button", "dl", "pre", "p", "label", "details", "summary",
    "h1", "h2", "h3", "h4", "h5", "h6", "dd", "dt", "div", "span",
)  # fmt: skip
_TAG = {tag: number for number, tag in enumerate(TAGS)}
INLINE = frozenset((
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font",
    "i", "img", "ins", "kbd", "label", "mark", "math", "meter", "nobr", "output", "picture", "progress",
    "q", "rp", "rt", "ruby", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "time", "tt",
    "u", "var", "wbr", "video", "audio", "source", "input", "svg", "o:p", "object", "embed", "iframe",
))  # fmt: skip
SILENT = frozenset((
    "script", "style", "noscript", "template", "head", "title", "meta", "link", "base", "svg", "select",
    "option", "textarea", "object", "embed", "iframe", "canvas", "audio", "video", "map", "param",
    "source", "track", "datalist",
))  # fmt: skip
_ENTER, _TAIL, _END = range(3)
_WHOLE = frozenset(("pre", "table"))
_SPACE = re.compile(r"\s+")
_DENSE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uff66-\uff9f\uac00-\ud7af]+")
_WORDS = re.compile(r"[^\W\u3040-\u30ff\u3400-\u9fff\uff66-\uff9f\uac00-\ud7af]+")
FAR = 12


@dataclass(slots=True)
class ElementBox:
    """An element that contains blocks, with properties derived from its ancestors and its blocks."""

    element: Element
    parent: ElementBox | None
    depth: int
    near: list[int]
    """Depth of the nearest ancestor or self of each of TAGS, then of each kind of name; -1 for none."""
    path: int
    letters: int = 0
    linked: int = 0
    blocks: int = 0
    long: int = 0
    headings: int = 0
    repeats: int = 1
    nth: int = 0


@dataclass(slots=True)
class ContentBlock:
    """A run of text: its position, its text, and how much of it is links."""

    box: ElementBox
    pieces: list[tuple[Element, bool]] = field(default_factory=list)
    """Text nodes: an element and whether it is its tail."""
    pictures: list[Element] = field(default_factory=list)
    text: str = ""
    letters: int = 0
    words: int = 0
    linked: int = 0
    bold: int = 0
    links: int = 0


class WordlessElement(NamedTuple):
    """An element that carries meaning without text, and its place.

    ``block`` is the block that it is in, if it comes after its first text. ``number`` is that of the next
    block.
    """

    element: Element
    box: ElementBox
    block: ContentBlock | None
    number: int


class BlockSegmentation:
    """Walks a tree once, without recursion, and cuts it into blocks.

    ``boxes`` are in document order, so that each comes after its parent. ``hidden`` are the elements with
    text for which ``hides`` returned True. ``wordless`` are elements that are in no block's text or pictures.
    """

    def __init__(self, root: Element, hides: Callable[[Element], bool] = lambda element: False) -> None:
        self.boxes: list[ElementBox] = []
        self.blocks: list[ContentBlock] = []
        self.hidden: list[Element] = []
        self.wordless: list[WordlessElement] = []
        self._hides = hides
        self._kinds: dict[str, frozenset[int]] = {}
        self._paths: dict[tuple[int, str, str], int] = {}
        self._open: ContentBlock | None = None
        self._texts: list[str] = []
        self._walk(root)
        self._close()

    def _walk(self, root: Element) -> None:
        top = self._box(root, None, [-1] * (len(TAGS) + len(NAMES)))
        todo: list[tuple[int, Element, ElementBox, bool, bool]] = []
        self._inside(root, top, False, False, todo)
        while todo:
            what, element, box, link, bold = todo.pop()
            if what == _TAIL:
                self._text(element.tail, element, True, box, link, bold)
            elif what == _END:
                self._close()
            else:
                self._enter(element, box, link, bold, todo)

    def _inside(self, element: Element, box: ElementBox, link: bool, bold: bool, todo: list[Any]) -> None:
        for child in reversed(element):
            if child.tail:
                todo.append((_TAIL, child, box, link, bold))
            todo.append((_ENTER, child, box, link, bold))
        self._text(element.text, element, False, box, link, bold)

    def _enter(self, element: Element, box: ElementBox, link: bool, bold: bool, todo: list[Any]) -> None:
        tag = element.tag
        if not self._said(element, tag):
            self._wordless(element, box)
            return
        if tag in ("img", "math"):
            self._run(box).pictures.append(element)
        elif tag == "br":
            self._texts.append("\n")
        elif tag in INLINE:
            if tag == "a" and element.get("href"):
                link = True
                self._run(box).links += 1
            if element.text is None and not len(element):
                self._wordless(element, box)
            self._inside(element, box, link, bold or tag in ("b", "strong"), todo)
        else:
            self._close()
            inner = self._box(element, box, box.near)
            todo.append((_END, element, inner, link, bold))
            if tag in _WHOLE and (tag == "pre" or plain_table(element)):
                self._whole(element, inner, link)
            else:
                self._inside(element, inner, link, bold, todo)

    def _said(self, element: Element, tag: object) -> bool:
        """Return whether an element is for readers at all."""
        if not isinstance(tag, str) or tag in SILENT:
            return False
        if self._hides(element):
            self.hidden.append(element)
            return False
        return True

    def _wordless(self, element: Element, box: ElementBox) -> None:
        if isinstance(element.tag, str) and speaks(element) and not self._hides(element):
            self.wordless.append(WordlessElement(element, box, self._open, len(self.blocks)))

    def _whole(self, element: Element, box: ElementBox, link: bool) -> None:
        """Add a block that is not cut further: code, or a data table."""
        skip: Element | None = None
        for event, child in iterwalk(element):
            if event == "start":
                if skip is None and child is not element and not self._said(child, child.tag):
                    skip = child
                    self._wordless(child, box)
                if skip is None:
                    self._start(child, box, link or child.tag == "a")
                continue
            if child is skip:
                skip = None
            if skip is None and child is not element:
                self._text(child.tail, child, True, box, link, False)

    def _start(self, child: Element, box: ElementBox, link: bool) -> None:
        if child.tag in ("td", "th", "tr", "br"):
            self._texts.append(" ")
        elif child.tag == "img":
            self._run(box).pictures.append(child)
        elif child.tag == "input":
            self._wordless(child, box)
        self._text(child.text, child, False, box, link, False)

    def _run(self, box: ElementBox) -> ContentBlock:
        if self._open is None:
            self._open = ContentBlock(box)
        return self._open

    def _text(
        self, text: str | None, element: Element, tail: bool, box: ElementBox, link: bool, bold: bool
    ) -> None:
        if not text:
            return
        self._texts.append(text)
        if text.isspace():
            return
        block = self._run(box)
        block.pieces.append((element, tail))
        letters = size(text)
        block.letters += letters
        if link:
            block.linked += letters
        if bold:
            block.bold += letters

    def _close(self) -> None:
        block, self._open = self._open, None
        texts, self._texts = self._texts, []
        if block is None:
            return
        block.text = _SPACE.sub(" ", "".join(texts)).strip()
        if block.pieces or block.pictures:
            block.words = len(_WORDS.findall(block.text)) + round(_dense(block.text) / 2)
            self.blocks.append(block)

    def _box(self, element: Element, parent: ElementBox | None, near: list[int]) -> ElementBox:
        depth = parent.depth + 1 if parent else 0
        name = f"{element.get('class') or ''} {element.get('id') or ''} {element.get('role') or ''}"
        tag = element.tag
        found = self._kinds.get(name)
        if found is None:
            found = self._kinds[name] = kinds(name)
        number = _TAG.get(tag)
        if number is not None or found:
            near = near.copy()
            if number is not None:
                near[number] = depth
            for kind in found:
                near[len(TAGS) + kind] = depth
        key = (parent.path if parent else -1, tag, element.get("class") or "")
        path = self._paths.setdefault(key, len(self._paths))
        box = ElementBox(element, parent, depth, near, path)
        self.boxes.append(box)
        return box


def iterwalk(root: Element) -> Iterator[tuple[str, Element]]:
    """Yield each element and comment within a tree, where it begins and where it ends, without recursion."""
    stack = [(root, iter(root))]
    yield "start", root
    while stack:
        element, children = stack[-1]
        child = next(children, None)
        if child is None:
            stack.pop()
            yield "end", element
        else:
            yield "start", child
            stack.append((child, iter(child)))


def plain_table(table: Element) -> bool:
    """Return whether a table is a data table: without nested tables, forms or long texts."""
    rows, cells = 0, 0
    for inner in table.iter("tr", "td", "th", "table", "form", "div", "p", "ul", "h1", "h2", "h3"):
        if inner.tag == "tr":
            rows += 1
        elif inner.tag in ("td", "th"):
            cells += 1
        elif inner.tag in ("table", "form", "h1", "h2") and inner is not table:
            return False
    if rows < 2 or cells < 2 * rows * 0.7:
        return False
    letters = sum(len(text.strip()) for text in table.itertext())
    return letters / max(1, cells) < 150


def measured(cutting: BlockSegmentation) -> None:
    """Sum up the contents of each box in it and in its ancestors, and count boxes built alike."""
    for block in cutting.blocks:
        box = block.box
        box.letters += block.letters
        box.linked += block.linked
        box.blocks += 1
        if block.letters - block.linked > 80:
            box.long += block.letters - block.linked
        if box.element.tag in ("h1", "h2", "h3", "h4"):
            box.headings += 1
    for box in reversed(cutting.boxes):
        if (up := box.parent) is not None:
            up.letters += box.letters
            up.linked += box.linked
            up.blocks += box.blocks
            up.long += box.long
            up.headings += box.headings
    _count_repeats(cutting.boxes)


def _count_repeats(boxes: list[ElementBox]) -> None:
    counts: dict[tuple[int, int], int] = {}
    for box in boxes:
        key = (id(box.parent), box.path)
        box.nth = counts.get(key, 0)
        counts[key] = box.nth + 1
    for box in boxes:
        box.repeats = counts[id(box.parent), box.path]


def size(text: str) -> int:
    """Return the length of a text in letters, with a character of Chinese or Japanese counted as more than
    one.

    The same text has 2.3 times as many letters in English as characters in Japanese, which is the factor.
    """
    text = text.strip()
    return len(text) if text.isascii() else len(text) + round(1.3 * _dense(text))


def _dense(text: str) -> int:
    return 0 if text.isascii() else sum(map(len, _DENSE.findall(text)))


def up(box: ElementBox) -> Iterator[ElementBox]:
    """Yield the boxes around one, from itself to the root."""
    at: ElementBox | None = box
    while at is not None:
        yield at
        at = at.parent
