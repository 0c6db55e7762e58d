"""Formulas, in any notation of a page, as TeX between dollars."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from lxml.html import HtmlElement

from tabane.reader.markdown.elements import classes, text_of
from tabane.reader.markdown.wordless import is_formula

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
_DEEP = 60
_PROSE = re.compile(r"(?<![A-Za-z])(?:[A-Za-z]{2,}[,.;:!?'\"]*\s+){12}|[\u3040-\u30ff\u3400-\u9fff、。]{40}")
"""Twelve words in a row, or as much Japanese or Chinese: no formula contains that."""


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
        return _made(_of_mathml(element), element.get("display") == "block")
    if tag == "script":
        return _of_script(element)
    if tag == "img":
        return _of_image(element)
    if element.get("class") is None and tag != "mjx-container" and element.get("data-tex") is None:
        return None
    names = set(classes(element))
    if tag == "mjx-container" or names & _WRAPPERS or element.get("data-tex"):
        return _of_wrapper(element, names)
    return None


def rendered(element: HtmlElement) -> bool:
    """Return whether this is the image of a formula whose source comes right after it."""
    if not _RENDERED.intersection(classes(element)):
        return False
    behind = element.getnext()
    for _ in range(2):
        if behind is None:
            return "mathjax_preview" in classes(element)
        if _is_source(behind):
            return True
        behind = behind.getnext()
    return False


def _is_source(element: HtmlElement) -> bool:
    return element.tag == "script" and str(element.get("type", "")).startswith("math/")


def _of_script(element: HtmlElement) -> Formula | None:
    if not is_formula(element):
        return None
    return _given(element.text or "", "mode=display" in element.get("type", "").replace(" ", ""))


def _of_image(element: HtmlElement) -> Formula | None:
    names = " ".join(classes(element))
    if not re.search(r"\b(?:latex|tex|math|mwe-math-fallback-image-\w+)\b", names):
        return None
    return _given(element.get("alt") or "", "display" in names)


def _of_wrapper(element: HtmlElement, names: set[str]) -> Formula | None:
    shown = bool(names & {"katex-display", "display"}) or element.get("display") == "true"
    math = next(element.iter("math"), None)
    if math is not None:
        return _made(_of_mathml(math), shown or math.get("display") == "block")
    if tex := element.get("data-tex"):
        return _given(tex, shown)
    text = text_of(element)
    if "math-container" in names or (names & {"inline", "display"} and "math" in names):
        return _made(text, shown or text.strip().startswith(("$$", "\\[")))
    return None


def _given(tex: str, shown: bool) -> Formula | None:
    """Return the TeX source that the page hides next to a formula; None if it is prose."""
    return None if _PROSE.search(tex) else _made(tex, shown)


def _made(tex: str, shown: bool) -> Formula | None:
    tex = " ".join(tex.split())
    for before, behind in (("$$", "$$"), ("\\(", "\\)"), ("\\[", "\\]"), ("$", "$")):
        if tex.startswith(before) and tex.endswith(behind) and len(tex) >= len(before) * 2:
            tex = tex[len(before) : len(tex) - len(behind)].strip()
    if found := re.fullmatch(r"\{\\(?:display|text)style\s*(.*)\}", tex):
        tex = found[1].strip()
    return Formula(tex, shown) if tex else None


def _of_mathml(math: HtmlElement) -> str:
    """Return the TeX that the page gives next to its MathML, else TeX made from the MathML."""
    for note in math.iter("annotation"):
        if "tex" in str(note.get("encoding", "")).lower() and not _PROSE.search(note.text or ""):
            return note.text or ""
    said = math.get("alttext") or ""
    return said if said and not _PROSE.search(said) else _tex(math, 0)


def _tex(node: HtmlElement, depth: int) -> str:
    tag = str(node.tag).rpartition(":")[2]
    if depth > _DEEP or tag in ("mi", "mn", "mo", "mtext", "ms"):
        return _leaf(tag, text_of(node))
    if tag in ("annotation", "annotation-xml"):
        return ""
    parts = [_tex(child, depth + 1) for child in node if isinstance(child.tag, str)]
    form = _FORMS.get(tag)
    return form(parts) if form and len(parts) >= _NEEDS.get(tag, 1) else "".join(parts)


def _leaf(tag: str, text: str) -> str:
    text = text.strip()
    if tag == "mtext":
        return rf"\text{{{text}}}" if text else ""
    if tag == "mi" and len(text) > 1 and text.isascii() and text.isalpha():
        return rf"\operatorname{{{text}}}"
    return "".join(_GLYPHS.get(char, char) for char in text)


def _rows(parts: list[str]) -> str:
    return r"\begin{matrix}" + r" \\ ".join(parts) + r"\end{matrix}"


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
    "mtable": _rows,
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
