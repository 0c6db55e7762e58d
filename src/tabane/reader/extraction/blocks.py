"""Segmentation of a page into blocks, and the features of each block.

A block is the shortest run of text that is content or not as a whole. Features are numbers that mean the same
in every script.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import log1p
from typing import Any, NamedTuple, TypeVar

from tabane.reader.markdown.elements import speaks

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
    numbers = (_OF.get(word.lower()) for word in _WORD.findall(name[:_LONGEST_NAME]))
    return frozenset(number for number in numbers if number is not None)


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
_Value = TypeVar("_Value")
_ENTER, _TAIL, _END = range(3)
_WHOLE = frozenset(("pre", "table"))
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
    """Depth of the nearest ancestor or self of each of TAGS, then of each kind of name; -1 for none.

    Boxes of one parent that are built alike share it.
    """
    path: int
    letters: int = 0
    linked: int = 0
    blocks: int = 0
    long: int = 0
    headings: int = 0
    dates: int = 0
    children: int = 0
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
        self._near: dict[tuple[int, int, int | None, frozenset[int]], list[int]] = {}
        self._open: ContentBlock | None = None
        self._texts: list[str] = []
        top = self._box(root, None, [-1] * (len(TAGS) + len(NAMES)))
        todo: list[tuple[int, Element, ElementBox, bool, bool]] = []
        self._walk_inside(root, top, False, False, todo)
        while todo:
            what, element, box, link, bold = todo.pop()
            if what == _TAIL:
                self._add_text(element.tail, element, True, box, link, bold)
            elif what == _END:
                self._close_block()
            else:
                self._enter_element(element, box, link, bold, todo)
        self._close_block()

    def _walk_inside(
        self, element: Element, box: ElementBox, link: bool, bold: bool, todo: list[Any]
    ) -> None:
        for child in reversed(element):
            if child.tail:
                todo.append((_TAIL, child, box, link, bold))
            todo.append((_ENTER, child, box, link, bold))
        self._add_text(element.text, element, False, box, link, bold)

    def _enter_element(
        self, element: Element, box: ElementBox, link: bool, bold: bool, todo: list[Any]
    ) -> None:
        tag = element.tag
        if not self._is_for_readers(element, tag):
            self._add_wordless(element, box)
            return
        if tag in ("img", "math"):
            self._open_block(box).pictures.append(element)
        elif tag == "br":
            self._texts.append("\n")
        elif tag in INLINE or tag.startswith("mjx-"):  # parts of formulas that MathJax 3 makes
            if tag == "a" and element.get("href"):
                link = True
                self._open_block(box).links += 1
            if element.text is None and not len(element):
                self._add_wordless(element, box)
            self._walk_inside(element, box, link, bold or tag in ("b", "strong"), todo)
        else:
            self._close_block()
            inner = self._box(element, box, box.near)
            todo.append((_END, element, inner, link, bold))
            if tag in _WHOLE and (tag == "pre" or plain_table(element)):
                skip: Element | None = None
                for event, child in iterwalk(element):
                    if event == "start":
                        if (
                            skip is None
                            and child is not element
                            and not self._is_for_readers(child, child.tag)
                        ):
                            skip = child
                            self._add_wordless(child, inner)
                        if skip is None:
                            self._begin_text(child, inner, link or child.tag == "a")
                        continue
                    if child is skip:
                        skip = None
                    if skip is None and child is not element:
                        self._add_text(child.tail, child, True, inner, link, False)
            else:
                self._walk_inside(element, inner, link, bold, todo)

    def _is_for_readers(self, element: Element, tag: object) -> bool:
        """Return whether an element is for readers at all."""
        if not isinstance(tag, str) or tag in SILENT:
            return False
        if self._hides(element):
            self.hidden.append(element)
            return False
        return True

    def _add_wordless(self, element: Element, box: ElementBox) -> None:
        if isinstance(element.tag, str) and speaks(element) and not self._hides(element):
            self.wordless.append(WordlessElement(element, box, self._open, len(self.blocks)))

    def _begin_text(self, child: Element, box: ElementBox, link: bool) -> None:
        if child.tag in ("td", "th", "tr", "br"):
            self._texts.append(" ")
        elif child.tag == "img":
            self._open_block(box).pictures.append(child)
        elif child.tag == "input":
            self._add_wordless(child, box)
        self._add_text(child.text, child, False, box, link, False)

    def _open_block(self, box: ElementBox) -> ContentBlock:
        if self._open is None:
            self._open = ContentBlock(box)
        return self._open

    def _add_text(
        self, text: str | None, element: Element, tail: bool, box: ElementBox, link: bool, bold: bool
    ) -> None:
        if not text:
            return
        self._texts.append(text)
        if text.isspace():
            return
        block = self._open_block(box)
        block.pieces.append((element, tail))
        letters = size(text)
        block.letters += letters
        if link:
            block.linked += letters
        if bold:
            block.bold += letters

    def _close_block(self) -> None:
        block, self._open = self._open, None
        texts, self._texts = self._texts, []
        if block is None:
            return
        block.text = " ".join("".join(texts).split())
        if block.pieces or block.pictures:
            block.words = len(_WORDS.findall(block.text)) + round(_dense(block.text) / 2)
            self.blocks.append(block)

    def _box(self, element: Element, parent: ElementBox | None, near: list[int]) -> ElementBox:
        depth = parent.depth + 1 if parent else 0
        name = f"{element.get('class') or ''} {element.get('id') or ''} {element.get('role') or ''}"
        tag = element.tag
        named = self._kinds.get(name)
        if named is None:
            named = self._kinds[name] = kinds(name)
        number = _TAG.get(tag)
        if number is not None or named:
            alike = id(near), depth, number, named  # boxes hold these lists; siblings share one
            known = self._near.get(alike)
            if known is None:
                known = self._near[alike] = near.copy()
                if number is not None:
                    known[number] = depth
                for kind in named:
                    known[len(TAGS) + kind] = depth
            near = known
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
        if block.letters <= _LONGEST_DATE and _DATE.search(block.text):
            box.dates += 1
    for box in reversed(cutting.boxes):
        if (up := box.parent) is not None:
            up.children += 1
            up.dates += box.dates
            up.letters += box.letters
            up.linked += box.linked
            up.blocks += box.blocks
            up.long += box.long
            up.headings += box.headings
    counts: dict[tuple[int, int], int] = {}
    for box in cutting.boxes:
        key = (id(box.parent), box.path)
        box.nth = counts.get(key, 0)
        counts[key] = box.nth + 1
    for box in cutting.boxes:
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


def nearest(
    box: ElementBox, known: dict[int, _Value], own: Callable[[ElementBox], _Value | None], otherwise: _Value
) -> _Value:
    """Return what ``own`` says of the nearest box around one, from itself on, of which it says anything.

    ``known`` has what is known of boxes by their ``id()``; what is found for the boxes on the way is added,
    so that each is asked once.
    """
    below: list[ElementBox] = []
    value: _Value | None = None
    for at in up(box):
        value = known.get(id(at))
        if value is None:
            below.append(at)
            value = own(at)
        if value is not None:
            break
    result = otherwise if value is None else value
    known.update((id(at), result) for at in below)
    return result


_SENTENCE_END = re.compile(r"[.!?。!?…:;][\"'”’」』)\]]*$")
_COMMAS = re.compile(r"[,、，;。.](?:(?<!\.)|(?<=\D\.)(?=\s))")
_DATE = re.compile(r"\b(19|20)\d\d\b|\d{1,2}:\d\d|\bago\b|年|前$")
_PRICE = re.compile(r"[$€£¥￥]\s?\d|\d\s?[€円]")
_LEGAL = re.compile(
    r"©|\(c\)\s|all rights reserved|copyright|cookies?\b|terms (?:of|and)|無断"
)  # of lower case
_CALL = re.compile(
    r"^(?:share|tweet|pin it|follow|subscribe|sign (?:in|up)|log ?in|register|read more|learn more|more"
    r"|related|view|see (?:all|more)|show|load more|add to|buy|shop|download|skip to|back to|reply|report"
    r"|print|e-?mail|copy|next|prev|previous|home|menu|search|close|contact|advertisement|sponsored"
    r"|you (?:may|might)|popular|trending|recommended|latest|recent|tags?|categor|posted|published|by\b"
    r"|filed|comments?|leave a|join|シェア|フォロー|登録|ログイン|続きを|もっと|関連|おすすめ|人気|検索"
    r"|メニュー|ホーム|トップ|前の|次の|お問い?合|広告|一覧|コメント|タグ|カテゴリ|ランキング|新着|最新"
    r"|利用規約|会員)",
    re.IGNORECASE,
)
_REACH = 6  # blocks before and after a block whose prose counts
_FAR = 12  # larger distances in blocks from a heading or an end of the main part count as this
_NEAR = 8  # boxes around a block that are looked at
_FAR_APART = 20
_EDGE = 30  # larger distances in blocks from an end of the page count as this
_LONGEST_DATE = 60  # letters of a line that tells when something was written
_LEVELS = ("h1", "h2", "h3", "h4", "h5", "h6")
_SHAPES = {
    "p": 1, "li": 2, "td": 3, "th": 3, "table": 3, "div": 4, "pre": 5, "dd": 6, "dt": 6, "button": 7,
    "label": 7,
}  # fmt: skip


Row = tuple[Sequence[float], ...]
"""The features of a block in parts: its own, what it is within, those of its box, its path, and the page.

Blocks that share such a part have the same object.
"""


def rows(
    boxes: Sequence[ElementBox],
    blocks: Sequence[ContentBlock],
    title: str = "",
    declared: Sequence[float] = (),
    only: Iterable[int] | None = None,
) -> list[Row]:
    """Return a row of features for each block, or for those of the numbers in ``only``, in rising order.

    ``title`` is the title in the page's head, ``declared`` are the numbers of what the page declares to be.
    No feature counts how many blocks come before or after a block beyond a few, because a long text would
    end where its last blocks are judged like the end of a page.
    """
    if not blocks:
        return []
    best = _best_box(boxes)
    page = (*_page_features(boxes, blocks, best), *declared)
    own = _BlockFeatures(blocks) if only is not None else [_own_features(block) for block in blocks]
    root = boxes[0]
    counts = Counter(block.text for block in blocks)
    paths = _path_features(blocks)
    around: dict[int, list[float]] = {}
    shares: dict[int, tuple[float, ...]] = {}
    within: dict[tuple[int, int], list[int]] = {}
    ends = _block_range(best, blocks)
    heading_at = title_at = -1
    heading = [0.0, 0.0, 0.0]
    titles = _title_headings(blocks, title)
    apart = _steps_apart(best)
    tops = titles or [number for number, block in enumerate(blocks) if block.box.element.tag == "h1"]
    top = min(tops, default=None)
    of_title = {} if top is None else _steps_apart(blocks[top].box)
    chosen = None if only is None else frozenset(only)
    prose = _prose(own, chosen)
    features: list[Row] = []
    for number, block in enumerate(blocks):
        box = block.box
        tag = box.element.tag
        if tag in _LEVELS:
            heading_at = number
            heading = [own[number][13], float(_LEVELS.index(tag) + 1), own[number][2]]
        if number in titles:
            title_at = number
        if chosen is not None and number not in chosen:
            continue
        outside = around.get(id(box))
        if outside is None:
            outside = around[id(box)] = _box_features(box, root, apart, of_title, shares)
        alike = id(box.near), box.depth
        steps = within.get(alike)
        if steps is None:
            depth = box.depth
            steps = [min(FAR, depth - at) if at >= 0 else FAR + 1 for at in box.near]
            within[alike] = steps
        row = [
            *own[number],
            log1p(counts[block.text] - 1),
            min(_FAR, number - heading_at) if heading_at >= 0 else _FAR + 1,
            *heading,
            min(_FAR, number - title_at) if title_at >= 0 else (-2 if titles else -1),
            max(-_FAR, min(_FAR, number - ends[0])),
            max(-_FAR, min(_FAR, ends[1] - number)),
        ]
        for step in (-2, -1, 1, 2):
            at = number + step
            if 0 <= at < len(blocks):
                other = own[at]
                row += (other[0], other[2], other[4], 1.0 if blocks[at].box.path == box.path else 0.0)
            else:
                row += (-1.0, -1.0, -1.0, -1.0)
        row.append(_mean_prose(prose, number))
        features.append((row, steps, outside, paths[box.path], page))
    return features


def _steps_apart(box: ElementBox) -> dict[int, int]:
    """Return by the ``id()`` of each box around one how many steps up it is, at most ``_FAR_APART``."""
    return {id(at): min(_FAR_APART, box.depth - at.depth) for at in up(box)}


class _BlockFeatures:
    """Features of each block by itself, computed on first use."""

    def __init__(self, blocks: Sequence[ContentBlock]) -> None:
        self._blocks = blocks
        self._found: dict[int, list[float]] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, number: int) -> list[float]:
        row = self._found.get(number)
        if row is None:
            row = self._found[number] = _own_features(self._blocks[number])
        return row


def _own_features(block: ContentBlock) -> list[float]:
    text, letters = block.text, max(1, block.letters)
    tag = block.box.element.tag
    head = text[:400]
    length = max(1, len(head))
    digits = sum(map(str.isdigit, head))
    dated = digits or "ago" in head or "年" in head or head.endswith("前")
    return [
        log1p(block.letters - block.linked),
        log1p(min(60, block.linked)),
        block.linked / letters,
        block.links,
        1.0 if _SENTENCE_END.search(text[-4:]) else 0.0,
        len(_COMMAS.findall(head)) / length,
        digits / length,
        sum(map(str.isupper, head)) / length,
        size(text) / max(1, block.words),
        block.bold / letters,
        1.0 if dated and _DATE.search(head) else 0.0,
        1.0 if digits and _PRICE.search(head) else 0.0,
        1.0 if _LEGAL.search(head.lower()) else 0.0,
        1.0 if _CALL.match(text) else 0.0,
        _LEVELS.index(tag) + 1 if tag in _LEVELS else 0,
        _SHAPES.get(tag, 0),
        len(block.pieces),
        1.0 if block.pictures else 0.0,
    ]


def _prose(own: _BlockFeatures | list[list[float]], chosen: Iterable[int] | None) -> list[float]:
    """Return how much prose each block has; 0 for those that are not near one that is asked for."""
    amounts = [0.0] * len(own)
    near = (
        range(len(own)) if chosen is None else {at for number in chosen for at in _window(number, len(own))}
    )
    for at in near:
        row = own[at]
        amounts[at] = row[0] * (1 - row[2])
    return amounts


def _window(number: int, count: int) -> range:
    return range(max(0, number - _REACH), min(count, number + _REACH + 1))


def _mean_prose(prose: list[float], number: int) -> float:
    near = _window(number, len(prose))
    return sum(prose[near.start : near.stop]) / len(near)


def _box_features(
    box: ElementBox,
    root: ElementBox,
    apart: dict[int, int],
    of_title: dict[int, int],
    shares: dict[int, tuple[float, ...]],
) -> list[float]:
    row: list[float] = [float(box.depth)]
    chain = list(islice(up(box), _NEAR))
    for step in (0, 1, 2, 3, 5):
        at = chain[min(step, len(chain) - 1)]
        known = shares.get(id(at))
        if known is None:
            letters = max(1, at.letters)
            known = shares[id(at)] = (
                letters / max(1, root.letters),
                at.linked / letters,
                at.long / letters,
                log1p(letters / max(1, at.blocks)),
                log1p(at.blocks),
            )
        row += known
    repeated = max(chain, key=lambda at: at.repeats)
    row += [
        log1p(repeated.repeats),
        log1p(repeated.letters),
        repeated.linked / max(1, repeated.letters),
        repeated.dates,
    ]
    above = repeated.parent or repeated
    row += [
        log1p(box.repeats),
        min(2, box.nth),
        repeated.repeats / max(1, above.children),
        log1p(above.letters / repeated.repeats),
        above.linked / max(1, above.letters),
        above.dates / repeated.repeats,
        above.headings / repeated.repeats,
    ]
    # Steps up from the best box to the first that is around this one too; 0 within it.
    row.append(float(nearest(box, apart, lambda _: None, _FAR_APART)))
    row.append(float(nearest(box, of_title, lambda _: None, _FAR_APART)))
    return row


def _best_box(boxes: Sequence[ElementBox]) -> ElementBox:
    """Return the box that holds most of the long, unlinked text and not much else: as Readability would
    choose.
    """
    scores: dict[int, float] = {}
    of: dict[int, ElementBox] = {}
    for box in boxes:
        if box.long and box.blocks <= 2:
            for step, at in enumerate(islice(up(box), 4)):
                if step:
                    scores[id(at)] = scores.get(id(at), 0.0) + box.long / (1, 1, 2, 4)[step]
                    of[id(at)] = at
    if not scores:
        return boxes[0]
    return of[max(scores, key=lambda key: scores[key] * (1 - of[key].linked / max(1, of[key].letters)))]


def _block_range(best: ElementBox, blocks: Sequence[ContentBlock]) -> tuple[int, int]:
    """Return numbers of the first and last block within a box."""
    inside: dict[int, bool] = {}
    within = [
        number
        for number, block in enumerate(blocks)
        if nearest(block.box, inside, lambda at: True if at is best else None, False)
    ]
    return (within[0], within[-1]) if within else (0, len(blocks) - 1)


def _title_headings(blocks: Sequence[ContentBlock], title: str) -> set[int]:
    """Return numbers of the headings that repeat the page's title."""
    title = title.casefold()
    numbers = set()
    for number, block in enumerate(blocks):
        text = block.text.casefold()
        if (
            len(text) > 3
            and block.box.element.tag in _LEVELS[:3]
            and text in title
            and 2 * len(text) > len(title)
        ):
            numbers.add(number)
    return numbers


def _path_features(blocks: Sequence[ContentBlock]) -> dict[int, list[float]]:
    """Of all blocks at the same path: how many, how long, how much of it links, and where they begin and end.

    The blocks of one template have the same place: none of them is less probable because it comes late.
    """
    sums: dict[int, list[int]] = {}
    for number, block in enumerate(blocks):
        kept = sums.setdefault(block.box.path, [0, 0, 0, number, number])
        kept[0] += 1
        kept[1] += block.letters
        kept[2] += block.linked
        kept[4] = number
    total = max(1, sum(kept[1] for kept in sums.values()))
    count = len(blocks)
    return {
        path: [
            log1p(n),
            log1p(letters / n),
            linked / max(1, letters),
            letters / total,
            first / count,
            last / count,
            min(_EDGE, first),
            min(_EDGE, count - 1 - last),
        ]
        for path, (n, letters, linked, first, last) in sums.items()
    }


def _page_features(
    boxes: Sequence[ElementBox], blocks: Sequence[ContentBlock], best: ElementBox
) -> list[float]:
    root = boxes[0]
    letters = max(1, root.letters)
    tags: dict[str, int] = {}
    for box in boxes:
        tags[box.element.tag] = tags.get(box.element.tag, 0) + 1
    prose = sum(block.letters for block in blocks if block.box.element.tag == "p")
    talk = sum(1 for box in boxes if box.near[len(TAGS) + NAMES.index("talk")] == box.depth)
    shop = sum(1 for box in boxes if box.near[len(TAGS) + NAMES.index("shop")] == box.depth)
    card = sum(1 for box in boxes if box.near[len(TAGS) + NAMES.index("card")] == box.depth)
    return [
        log1p(letters),
        root.linked / letters,
        root.long / letters,
        best.long / max(1, root.long),
        best.linked / max(1, best.letters),
        log1p(best.long),
        prose / letters,
        log1p(len(blocks)),
        tags.get("article", 0),
        tags.get("main", 0),
        tags.get("h1", 0),
        log1p(talk),
        log1p(shop),
        log1p(card),
        log1p(sum(1 for block in blocks if _PRICE.search(block.text[:200]))),
    ]
