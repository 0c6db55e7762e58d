"""Inline content as spans: emphasis, links, images, code, ruby, formulas as TeX, and marks of footnotes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple
from urllib.parse import unquote

from lxml.etree import iterwalk
from lxml.html import HtmlElement

from tabane.reader.markdown import spans
from tabane.reader.markdown.elements import (
    BLOCKS,
    PLAYERS,
    SILENT,
    address,
    classes,
    decorative,
    embedded_address,
    image,
    is_embedded,
    is_formula,
    is_formula_image,
    is_task_box,
    short_text,
    source,
    text_of,
)
from tabane.reader.markdown.spans import (
    AtomicSpan,
    ClosingMark,
    HardLineBreak,
    LinkSpan,
    OpeningMark,
    Piece,
    blank,
    joined,
)

_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "dfn": "*", "del": "~~", "s": "~~", "strike": "~~"}
_CODE = frozenset({"code", "kbd", "samp", "tt"})
_LISTINGS = frozenset({"pre", "listing", "xmp"})
_ANCHOR_NAMES = (
    "headerlink anchor anchorjs-link permalink hash-link header-anchor heading-anchor heading-link "
    "mw-editsection anchor-link header-link toc-anchor autolink-headings "
)
_ANCHORS = frozenset(_ANCHOR_NAMES.split())
_SIGNS = re.compile(r"[\s\u200b\ufeff\ue000-\uf8ff#¶§🔗⚓∞⌗\ufe0e\ufe0f]*")
_PERMALINK = re.compile(
    r"\s*(?:direct |copy )?(?:perma(?:nent )?link|anchor(?: link)?|section link|link to (?:this )?"
    r"(?:heading|section|definition|headline|title|image|table|code|term|equation))\b.*",
    re.IGNORECASE | re.DOTALL,
)
_TITLED = frozenset(("h1", "h2", "h3", "h4", "h5", "h6", "dt", "figcaption", "caption", "summary"))
_NOTE_IN_LINE = frozenset(("ltx_note", "sidenote", "marginnote", "inline-footnote", "footnote-inline"))
_OWN_MARKS = frozenset(("ltx_note_mark", "ltx_tag_note", "ltx_note_type", "sidenote-number", "msg-symbol"))
_COPY = re.compile(r"copy|copied|コピー|clipboard", re.I)
_VALUE = re.compile(r"[-+−\u2212]?\d+|[A-Za-z]|[-+−\u2212]?\w\s*[-+−\u2212]\s*\w")
_BETWEEN = {"li": " • ", "tr": " • ", "td": " / ", "th": " / "}
"""Written between items, and between rows and cells of a table that is in a cell of another one."""
_LONGEST_VALUE = 40  # characters of an exponent or an index
_LONGEST_SIGN = 12  # characters of a sign that is a link to a heading
_LONGEST_PERMALINK = 120  # characters
_MOST_WORDS = 300  # characters of a text that is shown only if a picture or a player is missing
_EMOJI = 40  # characters of the name of one
_DEEP = 90  # nested elements; deeper ones are taken as text


class InlineConverter:
    """Makes pieces. ``plain`` within a heading, if nothing needs to be bold."""

    def __init__(self, base: str, notes: Footnotes, *, links: bool = True) -> None:
        self._base, self._notes, self._links = base, notes, links
        self._depth = 0
        self._plain = 0

    def line(self, element: HtmlElement, *, plain: bool = False) -> str:
        """Return all that is in the element as one line."""
        self._plain += plain
        try:
            return " ".join(joined(self.pieces(element)).split())
        finally:
            self._plain -= plain

    def pieces(self, element: HtmlElement) -> list[Piece]:
        """Return what is in the element."""
        parts: list[Piece] = [element.text or ""]
        for child in element:
            self.add(child, parts)
            parts.append(child.tail or "")
        return parts

    def add(self, element: HtmlElement, pieces: list[Piece]) -> None:
        """Add the pieces of an element to the result, without its tail."""
        tag = element.tag
        if not isinstance(tag, str):
            return
        if self._depth >= _DEEP:
            pieces.append(text_of(element))
            return
        self._depth += 1
        try:
            if not self._left_out(element) and not self._notes.leads_back(element):
                tex = formula(element)
                if tex is not None:
                    pieces.extend([HardLineBreak(), HardLineBreak()] * tex.shown)
                    pieces.append(AtomicSpan(tex.markdown))
                    pieces.extend([HardLineBreak(), HardLineBreak()] * tex.shown)
                elif tag == "span" and not _NOTE_IN_LINE.isdisjoint(classes(element)):
                    self._write_note(element, pieces)
                elif tag in _MARKS:
                    self._write_mark(_MARKS[tag], element, pieces)
                elif writing := _WRITING.get(tag):
                    writing(self, element, pieces)
                elif tag in _CODE:
                    self._write_code(element, pieces)
                elif tag in PLAYERS:
                    where = embedded_address(element)
                    url = address(where, self._base)
                    words = _attribute_text(element.get("title") or element.get("aria-label"))
                    if url and self._links and (words or is_embedded(element, url)):
                        label = spans.label(spans.inline(words)) if words else None
                        pieces.extend([" ", LinkSpan(label, url) if label else AtomicSpan(f"<{url}>"), " "])
                    elif element.tag in ("object", "video", "audio"):
                        pieces.extend(self.pieces(element))
                elif tag in BLOCKS:
                    self._write_block(tag, element, pieces)
                elif tag not in SILENT:
                    pieces.extend(self.pieces(element))
                    if tag == "span" and "ltx_tag" in classes(element):
                        pieces.append(" ")  # its margin is in a style sheet
        finally:
            self._depth -= 1

    def _left_out(self, element: HtmlElement) -> bool:
        """Return whether to skip an element: links to a heading, copy buttons, images of formulas."""
        if element.tag == "a" and is_permalink(element):
            return True
        if element.get("class") is None and element.tag != "button":
            return False
        names = classes(element)
        if element.tag == "button":
            words = [*names, element.get("aria-label", ""), text_of(element, 20)[:20]]
            return bool(_COPY.search(" ".join(words)))
        if _ANCHORS.intersection(names) and (text := short_text(element, _LONGEST_SIGN)) is not None:
            return element.tag != "a" or not re.search(r"\w{3}", text) or "headerlink" in names
        return "katex-html" in names or rendered(element) or not _OWN_MARKS.isdisjoint(names)

    def _write_mark(self, sign: str, element: HtmlElement, pieces: list[Piece]) -> None:
        inside = self.pieces(element)
        if blank(inside) or (self._plain and sign == "**"):
            pieces.extend(inside)
            return
        seen = [piece for piece in inside if not isinstance(piece, str) or piece.strip()]
        if len(seen) == 1 and isinstance(seen[0], LinkSpan) and not seen[0].label.startswith(("![", sign)):
            pieces.append(LinkSpan(f"{sign}{seen[0].label}{sign}", seen[0].url))
            return
        pieces.extend([OpeningMark(sign), *inside, ClosingMark(sign)])

    def _write_link(self, element: HtmlElement, pieces: list[Piece]) -> None:
        if label := self._notes.mark(element):
            pieces.append(AtomicSpan(f"[^{label}]"))
            return
        inside = self.pieces(element)
        url = address(element.get("href"), self._base) if self._links else None
        if url is None or blank(inside):
            pieces.extend(inside)
            return
        label = " ".join(joined(inside).split())
        texts = [piece for piece in inside if isinstance(piece, str) and piece]
        first, last = (texts[0], texts[-1]) if texts else ("", "")
        before, behind = " " if first[:1].isspace() else "", " " if last[-1:].isspace() else ""
        pieces.append(before)
        pieces.append(LinkSpan(label, url))
        pieces.append(behind)

    def _write_note(self, element: HtmlElement, pieces: list[Piece]) -> None:
        """Return a note within its text in parentheses, without its number."""
        inside = self.pieces(element)
        if not blank(inside):
            pieces.extend([" (", *_trimmed(inside), ")"])

    def _write_image(self, element: HtmlElement, pieces: list[Piece]) -> None:
        words = _attribute_text(element.get("alt"))
        names = classes(element)
        if "emoji" in names or "wp-smiley" in names:
            pieces.append(words if len(words) <= _EMOJI else "")
            return
        where = image(element, self._base)
        if where is None:
            if words and set(element.attrib) == {"alt"}:  # of a document, which has its images in it
                pieces.append(AtomicSpan(f"![{spans.label(spans.inline(words))}]()"))
            return
        in_figure = next(element.iterancestors("figure"), None) is not None
        if words or in_figure or not decorative(element):
            label = spans.label(spans.inline(words))
            pieces.append(AtomicSpan(f"![{label}]({where if self._links else ''})"))

    def _write_code(self, element: HtmlElement, pieces: list[Piece]) -> None:
        text = text_of(element)
        links = [child for child in element if child.tag == "a"]
        code = spans.code(text.replace("\xa0", " "))
        if not code:
            pieces.append(text)
            return
        if len(links) == 1 and text_of(links[0]).strip() == text.strip() and self._links:
            url = address(links[0].get("href"), self._base)
            pieces.append(LinkSpan(code, url) if url else AtomicSpan(code))
            return
        pieces.extend([text[: len(text) - len(text.lstrip())], AtomicSpan(code), text[len(text.rstrip()) :]])

    def _write_script(self, element: HtmlElement, pieces: list[Piece]) -> None:
        """Exponents as ``10^3``, indexes as ``x_i``, but ``H2O`` and ``1st`` as everybody writes them."""
        sign = "^" if element.tag == "sup" else "_"
        inside = self.pieces(element)
        marks = [each for each in inside if isinstance(each, AtomicSpan) and each.markdown.startswith("[^")]
        if marks and all(
            each in marks or (isinstance(each, str) and not each.strip("[]() \t\r\n\xa0")) for each in inside
        ):
            pieces.extend(marks)
            return
        text = short_text(element, _LONGEST_VALUE)
        if (
            text is None
            or not _VALUE.fullmatch(text)
            # It walks back over empty pieces, so only where something is written then.
            or not (before := _last_char(pieces)).isalnum()
            or (sign == "_" and text.isdigit() and before.isalpha())
            or any(isinstance(piece, AtomicSpan | LinkSpan) for piece in inside)
        ):
            pieces.extend(inside)
            return
        pieces.append(AtomicSpan(f"{sign}{text}" if re.fullmatch(r"\w+", text) else f"{sign}({text})"))

    def _write_ruby(self, element: HtmlElement, pieces: list[Piece]) -> None:
        """Return the words of a ruby and of those right behind it, as one word: then their readings."""
        before = element.getprevious()
        if before is not None and before.tag == "ruby" and not before.tail:
            return  # it was written with the one before
        base: list[Piece] = []
        readings: list[list[str]] = []
        ruby: HtmlElement | None = element
        while ruby is not None and ruby.tag == "ruby":
            self._write_annotated(ruby, base, readings)
            ruby = None if ruby.tail else ruby.getnext()
        pieces.extend(
            (piece if re.search(r"[a-zA-Z]", piece) else "".join(piece.split()))
            if isinstance(piece, str)
            else piece
            for piece in base
        )
        for texts in readings:
            if any(texts):
                apart = " " if re.search(r"[a-zA-Z]", "".join(texts)) else ""
                pieces.append(f"({apart.join(filter(None, texts))})")

    def _write_annotated(self, element: HtmlElement, base: list[Piece], readings: list[list[str]]) -> None:
        """Add the base text of a part of a ruby, and its readings: a list for each level of them."""
        if self._depth >= _DEEP:
            base.append(text_of(element))
            return
        self._depth += 1
        level = 1 if element.find("ruby") is not None else 0
        base.append(element.text or "")
        for child in element:
            if child.tag in ("rt", "rtc"):
                parts = child.findall("rt") if child.tag == "rtc" else []
                readings.extend([] for _ in range(level + 1 - len(readings)))
                readings[level] += [self.line(each, plain=True) for each in parts or [child]]
                level += child.tag == "rtc"
            elif child.tag in ("ruby", "rb", "rbc", "span"):
                self._write_annotated(child, base, readings)
            else:
                self.add(child, base)
            base.append(child.tail or "")
        self._depth -= 1

    def _write_reading(self, element: HtmlElement, pieces: list[Piece]) -> None:
        """Return ruby text outside of a ruby: the reading after its base text."""
        inside = self.pieces(element)
        if not blank(inside):
            pieces.extend(["(", *inside, ")"])

    def _write_quotation(self, element: HtmlElement, pieces: list[Piece]) -> None:
        pieces.extend(['"', *self.pieces(element), '"'])

    def _write_checkbox(self, element: HtmlElement, pieces: list[Piece]) -> None:
        """Return the checkbox of a task list."""
        if is_task_box(element):
            pieces.extend([AtomicSpan("[x]" if element.get("checked") is not None else "[ ]"), " "])

    def _write_noscript(self, element: HtmlElement, pieces: list[Piece]) -> None:
        """Return the image for browsers without scripts, if the one for the others has no address."""
        before = element.getprevious()
        shown = before is not None and before.tag == "img" and image(before, self._base)
        for child in element.iter("img"):
            if not shown:
                self._write_image(child, pieces)

    def _write_block(self, tag: str, element: HtmlElement, pieces: list[Piece]) -> None:
        """Return a block as inline text, as in a cell, set off by white space."""
        if tag in _LISTINGS:
            lines = source(element).split("\n")
            pieces.append(" ")
            pieces.extend(
                piece for line in lines if line.strip() for piece in (AtomicSpan(spans.code(line)), " ")
            )
            return
        before = _BETWEEN.get(tag, " ") if element.getprevious() is not None else " "
        pieces.extend([before, *self.pieces(element), " "])


_WRITING: Mapping[str, Callable[[InlineConverter, HtmlElement, list[Piece]], None]] = {
    "a": InlineConverter._write_link,
    "img": InlineConverter._write_image,
    "br": lambda _converter, _element, pieces: pieces.append(HardLineBreak()),
    "sup": InlineConverter._write_script,
    "sub": InlineConverter._write_script,
    "ruby": InlineConverter._write_ruby,
    "rt": InlineConverter._write_reading,
    "q": InlineConverter._write_quotation,
    "input": InlineConverter._write_checkbox,
    "noscript": InlineConverter._write_noscript,
}
TAGS = frozenset((*_MARKS, *_CODE, *_WRITING, *PLAYERS))
"""Elements of a line that are written in a way of their own."""


def _trimmed(pieces: list[Piece]) -> list[Piece]:
    """Return pieces without white space at both ends."""
    trimmed = [piece for piece in pieces if not isinstance(piece, str) or piece]
    while trimmed and isinstance(trimmed[0], str) and not trimmed[0].strip():
        trimmed.pop(0)
    while trimmed and isinstance(trimmed[-1], str) and not trimmed[-1].strip():
        trimmed.pop()
    if trimmed and isinstance(trimmed[0], str):
        trimmed[0] = trimmed[0].lstrip()
    if trimmed and isinstance(trimmed[-1], str):
        trimmed[-1] = trimmed[-1].rstrip()
    return trimmed


def is_permalink(link: HtmlElement) -> bool:
    """Return whether a link only gives the address of the heading or the part that it is in."""
    if "#" not in (link.get("href") or ""):
        return False
    text = short_text(link, _LONGEST_PERMALINK)
    if text is None:
        return False
    if "headerlink" in classes(link):
        return len(text) <= _LONGEST_SIGN
    parent = link.getparent()
    titles = parent is not None and parent.tag in _TITLED
    if _SIGNS.fullmatch(text):
        if not text:
            return next(link.iter("img"), None) is None
        return titles or text != "§" or any(link.get(name) for name in ("class", "title", "aria-label"))
    return titles and _PERMALINK.fullmatch(text) is not None


def _attribute_text(text: str | None) -> str:
    """Return the text that an attribute gives for a picture or a player, in one line and not too long."""
    words = " ".join((text or "").split())
    return words if len(words) <= _MOST_WORDS else f"{words[: _MOST_WORDS - 1].rstrip()}…"


def _last_char(pieces: list[Piece]) -> str:
    for piece in reversed(pieces):
        if isinstance(piece, str):
            if piece:
                return piece[-1]
        elif not isinstance(piece, OpeningMark | ClosingMark):
            return " "
    return " "


_RENDERED = {
    "mathjax",
    "mathjax_preview",
    "mathjax_display",
    "mathjax_svg",
    "mathjax_chtml",
    "mathjax_svg_display",
}
_WRAPPERS = {"katex", "katex-display", "mwe-math-element", "math-container", "math", "ztext-math", "mathjax"}
SOURCES = frozenset(("math", "annotation", "script", "data-tex", "image of a formula", "math-container"))
"""Places where a page has a formula."""
_GLYPHS = {  # characters of MathML that TeX writes as words, if TeX does not read the character
    "\u2061": "", "\u2062": "", "\u2063": ",", "\u2064": "", "\u2212": "-", "\u00d7": r"\times ",
    "\u22c5": r"\cdot ", "\u2264": r"\le ", "\u2265": r"\ge ", "\u2260": r"\ne ", "\u2211": r"\sum ",
    "\u222b": r"\int ", "\u221e": r"\infty ", "\u2208": r"\in ", "\u2192": r"\to ", "\u00b1": r"\pm ",
    "\u220f": r"\prod ", "\u2202": r"\partial ", "{": r"\{", "}": r"\}",
}  # fmt: skip
_DEEPEST_FORMULA = 60
_PROSE = re.compile(r"(?<![A-Za-z])(?:[A-Za-z]{2,}[,.;:!?'\"]*\s+){7}|[\u3040-\u30ff\u3400-\u9fff、。]{40}")
"""Seven words in a row, or as much Japanese or Chinese: no formula contains that."""


_TEX_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{4,}")
_ENVIRONMENT = re.compile(r"\\(?:begin|end|color|textcolor|label|ref|tag|class|style|href)\s*\{[^{}]*\}")
_FEW_WORDS = 3


class Formula(NamedTuple):
    """TeX, and whether it is on a line of its own."""

    tex: str
    shown: bool

    @property
    def markdown(self) -> str:
        return f"$${self.tex}$$" if self.shown else f"${self.tex}$"


def formula(element: HtmlElement) -> Formula | None:
    """Return the formula of this element; None if it is not one or its source is unknown."""
    tag = element.tag
    if tag == "math":
        return _made_formula(mathml_source(element), element.get("display") == "block")
    if tag == "script":
        if not is_formula(element):
            return None
        return _given(element.text or "", "mode=display" in element.get("type", "").replace(" ", ""))
    if tag == "img":
        return _of_image(element)
    if element.get("class") is None and tag != "mjx-container" and element.get("data-tex") is None:
        return None
    names = set(classes(element))
    if tag == "mjx-container" or names & _WRAPPERS or element.get("data-tex"):
        shown = bool(names & {"katex-display", "display"}) or element.get("display") == "true"
        math = next(element.iter("math"), None)
        if math is not None:
            return _made_formula(mathml_source(math), shown or math.get("display") == "block")
        if tex := element.get("data-tex"):
            return _given(tex, shown)
        text = text_of(element)
        if "math-container" in names or (names & {"inline", "display"} and "math" in names):
            return _made_formula(text, shown or text.strip().startswith(("$$", "\\[")))
        return None
    return None


def rendered(element: HtmlElement) -> bool:
    """Return whether this is the image of a formula whose source comes right after it."""
    if not _RENDERED.intersection(classes(element)):
        return False
    behind = element.getnext()
    for _ in range(2):
        if behind is None:
            return "mathjax_preview" in classes(element)
        if behind.tag == "script" and str(behind.get("type", "")).startswith("math/"):
            return True
        behind = behind.getnext()
    return False


def _of_image(element: HtmlElement) -> Formula | None:
    source = element.get("data-tex") or (element.get("alt") or "" if is_formula_image(element) else "")
    return _given(source, "display" in (element.get("class") or "")) if source else None


def _given(tex: str, shown: bool) -> Formula | None:
    """Return the TeX source that the page hides next to a formula; None if it is prose."""
    return None if _PROSE.search(tex) else _made_formula(tex, shown)


def _made_formula(tex: str, shown: bool) -> Formula | None:
    tex = " ".join(tex.split())
    for before, behind in (("$$", "$$"), ("\\(", "\\)"), ("\\[", "\\]"), ("$", "$")):
        if tex.startswith(before) and tex.endswith(behind) and len(tex) >= len(before) * 2:
            tex = tex[len(before) : len(tex) - len(behind)].strip()
    if match := re.fullmatch(r"\{\\(?:display|text)style\s*(.*)\}", tex):
        tex = match[1].strip()
    return Formula(tex, shown) if tex else None


def mathml_source(math: HtmlElement) -> str:
    """Return the TeX that the page gives next to its MathML, else TeX made from the MathML."""
    for note in math.iter("annotation"):
        tex = note.text or ""
        if "tex" in str(note.get("encoding", "")).lower() and not _PROSE.search(tex):
            return tex if _says_the_same(tex, math) else _tex_of_node(math, 0)
    tex = math.get("alttext") or ""
    if tex and not _PROSE.search(tex) and _says_the_same(tex, math):
        return tex
    return _tex_of_node(math, 0)


def _says_the_same(tex: str, math: HtmlElement) -> bool:
    """Return whether TeX has no words that the formula beside it does not show."""
    words = [word.lower() for word in _TEX_WORD.findall(_ENVIRONMENT.sub("", tex))]
    if len(words) < _FEW_WORDS:
        return True
    sources = {text_of(note) for note in math.iter("annotation", "annotation-xml")}
    shown = text_of(math).lower()
    for note in sources:
        shown = shown.replace(note.lower(), " ")
    return sum(word not in shown for word in words[:200]) < _FEW_WORDS


def _tex_of_node(node: HtmlElement, depth: int) -> str:
    tag = str(node.tag).rpartition(":")[2]
    if depth > _DEEPEST_FORMULA or tag in ("mi", "mn", "mo", "mtext", "ms"):
        text = text_of(node).strip()
        if tag == "mtext":
            return rf"\text{{{text}}}" if text else ""
        if tag == "mi" and len(text) > 1 and text.isascii() and text.isalpha():
            return rf"\operatorname{{{text}}}"
        return "".join(_GLYPHS.get(char, char) for char in text)
    if tag in ("annotation", "annotation-xml"):
        return ""
    parts = [_tex_of_node(child, depth + 1) for child in node if isinstance(child.tag, str)]
    form = _FORMS.get(tag)
    return form(parts) if form and len(parts) >= _NEEDS.get(tag, 1) else "".join(parts)


_FORMS: Mapping[str, Callable[[list[str]], str]] = {
    "mfrac": lambda parts: rf"\frac{{{parts[0]}}}{{{parts[1]}}}",
    "msup": lambda parts: f"{parts[0]}^{{{parts[1]}}}",
    "msub": lambda parts: f"{parts[0]}_{{{parts[1]}}}",
    "msubsup": lambda parts: f"{parts[0]}_{{{parts[1]}}}^{{{parts[2]}}}",
    "munder": lambda parts: f"{parts[0]}_{{{parts[1]}}}",
    "mover": lambda parts: f"{parts[0]}^{{{parts[1]}}}",
    "munderover": lambda parts: f"{parts[0]}_{{{parts[1]}}}^{{{parts[2]}}}",
    "msqrt": lambda parts: rf"\sqrt{{{''.join(parts)}}}",
    "mroot": lambda parts: rf"\sqrt[{parts[1]}]{{{parts[0]}}}",
    "mtable": lambda parts: r"\begin{matrix}" + r" \\ ".join(parts) + r"\end{matrix}",
    "mtr": lambda parts: " & ".join(parts),
}
_NEEDS = {
    "mfrac": 2,
    "msup": 2,
    "msub": 2,
    "msubsup": 3,
    "munder": 2,
    "mover": 2,
    "munderover": 3,
    "mroot": 2,
}


_KINDS = re.compile(
    r"\b(?:foot-?notes?|end-?notes?|references?|reflist|citations?|bibliography|doc-(?:end|foot)notes?"
    r"|doc-biblio(?:entry|graphy)|ltx_bib\w+|msofootnotetext|msoendnotetext)\b"
)
_REFERENCE = re.compile(
    r"\b(?:foot-?note(?:-?ref)?|foot-?note-reference|doc-noteref|fn-?ref|noteref|msofootnotereference)\b"
)
_BACK = re.compile(r"(?:[\^\[\]().:*†‡↩↑⏎↵\ufe0e\ufe0f\s←]|\b(?:[a-z]|\d{1,4})\b)*", re.I)
_LONGEST_BACK = 200  # characters of a link back, with white space
_LONGEST_MARK = 200
_NOTES = frozenset({"li", "p", "div", "dd", "aside"})
_AROUND_ANCHOR = 3  # elements between the anchor of a note and the note
_AROUND_BACK = 3  # elements around a link back that hold nothing else


@dataclass(frozen=True, slots=True)
class Footnotes:
    """``marks``: label by the href of a reference; ``notes``: labels of the elements that are notes;
    ``backs``: elements in notes that only lead back to a reference.
    """

    marks: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[HtmlElement, str] = field(default_factory=dict)
    backs: Collection[HtmlElement] = frozenset()

    def mark(self, link: HtmlElement) -> str | None:
        """Return the label of the note that this link leads to, if it is a reference."""
        return self.marks.get(link.get("href", "")) if self.marks and is_reference(link) else None

    def note(self, element: HtmlElement) -> str | None:
        """Return the label of the note that this element is."""
        return self.notes.get(element) if self.notes else None

    def leads_back(self, element: HtmlElement) -> bool:
        """Return whether this element, within a note, only leads back to its reference."""
        return element in self.backs


def notes(elements: Sequence[HtmlElement]) -> Footnotes:
    """Return the footnotes of these elements: references whose notes come after them in these elements."""
    references: dict[str, HtmlElement] = {}
    found: dict[str, HtmlElement] = {}
    for element in elements:
        for at in element.iter("*"):
            href = at.get("href", "") if at.tag == "a" else ""
            if len(href) > 1 and href[0] == "#" and is_reference(at):
                references.setdefault(unquote(href[1:]), at)
            for name in (at.get("id"), at.get("name") if at.tag == "a" else None):
                if name and name in references and at is not references[name]:
                    found.setdefault(name, at)
    if not found:
        return Footnotes()
    marked = _marked_or_leading_back(elements)
    marks: dict[str, str] = {}
    labels: dict[HtmlElement, str] = {}
    used: set[str] = set()
    terms: list[HtmlElement] = []
    for name, link in references.items():
        note = _note_at(found[name], link, marked) if name in found else None
        if note is None or note in labels:
            continue
        label = _mark_of(link, used)
        used.add(label)
        labels[note] = label
        marks[link.get("href", "")] = label
        if found[name].tag == "dt":
            terms.append(found[name])
    return Footnotes(marks, labels, frozenset((*terms, *_back_links(elements, labels))))


def is_reference(link: HtmlElement) -> bool:
    """Return whether a link leads to a note: it is raised, or a name says so."""
    if not link.get("href", "").startswith("#"):
        return False
    parent = link.getparent()
    if link.find("sup") is not None or (parent is not None and parent.tag == "sup"):
        return True
    inner = next(iter(link), None)
    around = [at for at in (link, parent, inner) if at is not None and isinstance(at.tag, str)]
    names = " ".join([*(name for at in around for name in classes(at)), link.get("role", "")])
    return bool(_REFERENCE.search(names)) and len(text_of(link, 8)) <= 8


def _note_at(target: HtmlElement, link: HtmlElement, marked: Collection[HtmlElement]) -> HtmlElement | None:
    """Return the note that an element is, or that it is the anchor of, at its beginning."""
    if target.tag in _NOTES:
        return target if target in marked else None
    if target.tag == "dt":
        after = target.getnext()
        return after if after is not None and after.tag == "dd" and target in marked else None
    at = target
    for above in islice(target.iterancestors(), _AROUND_ANCHOR):
        if (above.text or "").strip() or next(iter(above), None) is not at:
            return None
        if above.tag in _NOTES:
            return above if above in marked and link not in above.iter("a") else None
        at = above
    return None


def _marked_or_leading_back(elements: Sequence[HtmlElement]) -> set[HtmlElement]:
    """Return the elements that may be notes: in a section marked as such, or with a link back."""
    possible = _linking_back(elements)
    for element in elements:
        marked = int(any(is_marked_as_notes(above) for above in element.iterancestors()))
        for event, at in iterwalk(element, events=("start", "end")):
            if is_marked_as_notes(at):
                marked += 1 if event == "start" else -1
            if event == "start" and marked:
                possible.add(at)
    return possible


def is_marked_as_notes(element: HtmlElement) -> bool:
    """Return whether the names of an element are those of footnotes."""
    attributes = element.attrib
    if not attributes:
        return False
    return bool(
        _KINDS.search(" ".join([*classes(element), attributes.get("role", ""), attributes.get("id", "")]))
    )


def _linking_back(elements: Sequence[HtmlElement]) -> set[HtmlElement]:
    """Return every element with a link that may lead back from a note."""
    linking: set[HtmlElement] = set()
    for element in elements:
        for link in element.iter("a"):
            if not _is_back(link):
                continue
            for above in (link, *link.iterancestors()):
                if above in linking:
                    break
                linking.add(above)
    return linking


def _back_links(elements: Sequence[HtmlElement], labels: Mapping[HtmlElement, str]) -> Iterator[HtmlElement]:
    """Yield the links in notes that only lead back, with the brackets around them."""
    others = {note.get("id") for note in labels}
    for element in elements:
        inside = 0
        for event, at in iterwalk(element, events=("start", "end"), tag=("a", "dt", *_NOTES)):
            if at.tag != "a":
                if at in labels:
                    inside += 1 if event == "start" else -1
            elif (
                inside and event == "start" and _is_back(at) and unquote(at.get("href", "")[1:]) not in others
            ):
                back = at
                for above in islice(at.iterancestors("span", "sup", "b", "small", "cite"), _AROUND_BACK):
                    if not _BACK.fullmatch(short_text(above, _LONGEST_BACK) or "-"):
                        break
                    back = above
                yield back


def _is_back(link: HtmlElement) -> bool:
    if not link.get("href", "").startswith("#"):
        return False
    text = text_of(link, _LONGEST_BACK)
    return len(text) <= _LONGEST_BACK and (
        _BACK.fullmatch(text) is not None or link.get("role") == "doc-backlink"
    )


def _mark_of(link: HtmlElement, used: Collection[str]) -> str:
    """Return the text of the mark if it is a valid, unique label; else a number."""
    label = re.sub(r"[^\w.-]", "", text_of(link, _LONGEST_MARK)[:_LONGEST_MARK])[:16]
    if label and label not in used:
        return label
    number = len(used) + 1
    while str(number) in used:
        number += 1
    return str(number)
