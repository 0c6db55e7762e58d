"""Formulas of Office Open XML (OMML) as MathML, from which Markdown makes TeX."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lxml import etree
from lxml.html import HtmlElement

from tabane.reader.formats.office.package import attribute, local, named_child
from tabane.reader.formats.office.writer import child, element

_DEEP = 30
_SCRIPTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "f": ("mfrac", ("num", "den")),
    "sSup": ("msup", ("e", "sup")),
    "sSub": ("msub", ("e", "sub")),
    "sSubSup": ("msubsup", ("e", "sub", "sup")),
    "limLow": ("munder", ("e", "lim")),
    "limUpp": ("mover", ("e", "lim")),
}
_FUNCTIONS = frozenset({"sin", "cos", "tan", "log", "ln", "exp", "lim", "max", "min", "det"})


def formula(node: etree._Element, *, shown: bool) -> HtmlElement | None:
    """Return a formula; ``shown``: on a line of its own. None for an empty one."""
    math = element("math", **({"display": "block"} if shown else {}))
    _add_children(node, math, 0)
    return math if "".join(math.itertext()).strip() else None


def _add_children(node: etree._Element, into: HtmlElement, depth: int) -> None:
    """Append what is in a node."""
    if depth > _DEEP:
        return
    for each in node:
        _write(each, into, depth)


def _write(node: etree._Element, into: HtmlElement, depth: int) -> None:
    name = local(node)
    if name in _SCRIPTS:
        tag, parts = _SCRIPTS[name]
        made = child(into, tag)
        for part in parts:
            _part(node, part, made, depth)
    elif (writing := _WRITING.get(name)) is not None:
        writing(node, into, depth)
    elif not name.endswith("Pr") and name not in ("del", "moveFrom"):
        _add_children(node, into, depth + 1)


def _matrix(node: etree._Element, into: HtmlElement, depth: int) -> None:
    table = child(into, "mtable")
    for row in node:
        if local(row) == "mr":
            made = child(table, "mtr")
            for cell in row:
                _add_children(cell, child(made, "mrow"), depth + 1)
        elif local(row) == "e":
            _add_children(row, child(child(table, "mtr"), "mrow"), depth + 1)


def _part(node: etree._Element, name: str, into: HtmlElement, depth: int) -> None:
    row = child(into, "mrow")
    if (part := named_child(node, name)) is not None:
        _add_children(part, row, depth + 1)


def _radical(node: etree._Element, into: HtmlElement, depth: int) -> None:
    degree = named_child(node, "deg")
    if degree is not None and "".join(str(text) for text in degree.itertext()).strip():
        made = child(into, "mroot")
        _part(node, "e", made, depth)
        _part(node, "deg", made, depth)
    else:
        _part(node, "e", child(into, "msqrt"), depth)


def _operator(node: etree._Element, into: HtmlElement, depth: int) -> None:
    sign = _property(node, "naryPr", "chr") or "∫"
    parts = [name for name in ("sub", "sup") if _says(named_child(node, name))]
    tag = {("sub", "sup"): "msubsup", ("sub",): "msub", ("sup",): "msup"}.get(tuple(parts), "mrow")
    made = child(into, tag)
    child(made, "mo", sign)
    for name in parts:
        _part(node, name, made, depth)
    _part(node, "e", into, depth)


def _delimited(node: etree._Element, into: HtmlElement, depth: int) -> None:
    begin, between, end = (
        _property(node, "dPr", name) for name in ("begChr", "sepChr", "endChr")
    )  # fmt: skip
    row = child(into, "mrow")
    child(row, "mo", "(" if begin is None else begin)
    for nth, each in enumerate([part for part in node if local(part) == "e"]):
        if nth:
            child(row, "mo", "|" if between is None else between)
        _add_children(each, child(row, "mrow"), depth + 1)
    child(row, "mo", ")" if end is None else end)


def _property(node: etree._Element, holder: str, name: str) -> str | None:
    found = named_child(node, holder, name)
    return (attribute(found, "val") or "")[:8] if found is not None else None


def _says(node: etree._Element | None) -> bool:
    return node is not None and any(str(text).strip() for text in node.itertext())


def _text(node: etree._Element, into: HtmlElement, _depth: int) -> None:
    text = "".join(each.text or "" for each in node if local(each) == "t")
    if not text.strip():
        return
    normal = named_child(node, "rPr", "nor") is not None
    word = text.strip() in _FUNCTIONS
    child(into, "mtext" if normal and not word else "mi" if word else "mo", text)


_WRITING: Mapping[str, Callable[[etree._Element, HtmlElement, int], None]] = {
    "rad": _radical,
    "nary": _operator,
    "d": _delimited,
    "m": _matrix,
    "eqArr": _matrix,
    "r": _text,
}
