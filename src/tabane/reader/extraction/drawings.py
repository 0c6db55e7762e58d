"""Text of SVG drawings: where it is painted, with what, and whether that is in the drawing.

Geometry is that of SVG 2 with affine transforms; the widths of letters are estimated.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from itertools import islice
from math import cos, radians, sin, tan
from typing import Any, NamedTuple

from tabane.reader.extraction.blocks import iterwalk
from tabane.reader.extraction.styles.declarations import declared
from tabane.reader.extraction.styles.sheet_rules import Declarations
from tabane.reader.extraction.styles.values import Color, color, number

Element = Any
PARTS = frozenset(("svg", "g", "text", "tspan", "textpath", "foreignobject"))
"""Elements of a drawing that hold text, or others that do."""
_UNDRAWN = frozenset((
    "defs", "symbol", "clippath", "mask", "pattern", "marker", "lineargradient", "radialgradient", "filter",
    "title", "desc", "metadata", "style", "script",
))  # fmt: skip
_PAINTED = ("display", "visibility", "opacity", "font-size", "fill", "fill-opacity", "stroke")
_SHAPES = ("rect", "circle", "ellipse", "path", "polygon", "image", "use")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE)
_CALL = re.compile(r"(matrix|translate|scale|rotate|skewx|skewy)\s*\(([^()]*)\)", re.IGNORECASE)
_MOST_STEPS, _MOST_SHAPES, _MOST_CALLS = 500_000, 200, 20
_USUAL = 300.0, 150.0
"""Width and height of a drawing that says none."""
_LETTER = 10.0
"""Estimated width of a letter."""
_FAR = 3000.0

Matrix = tuple[float, float, float, float, float, float]
_UNMOVED: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


def drawings_with_text(root: Element) -> frozenset[Element]:
    """Return the drawings of a page that contain text, with those around them."""
    found: set[Element] = set()
    left = _MOST_STEPS
    for text in root.iter("text", "foreignobject"):
        for above in text.iterancestors():
            left -= 1
            if above.tag == "svg":
                found.add(above)
        if left < 0:
            break
    return frozenset(found)


def painted_by_attributes(tag: str, attributes: Mapping[str, str]) -> Declarations:
    """Return what the presentation attributes of a part of a drawing declare."""
    found = [one for name in _PAINTED if (value := attributes.get(name)) for one in declared(name, value)]
    if "font-size" in attributes and not any(one[0] == "font-size" for one in found):
        found += declared("font-size", f"{attributes['font-size']}px")
    if tag in ("svg", "foreignobject"):
        for name in ("width", "height"):
            size = _numbers(attributes.get(name))
            if size and size[0] < 1 and "%" not in attributes[name]:
                found += declared("display", "none")
    return tuple(found)


def with_fill(specified: Mapping[str, str], tag: str, *, first: bool) -> dict[str, str]:
    """Return what is set for a part of a drawing, with the colors of its text as HTML has them. ``first``: no
    drawing is around it.
    """
    found = dict(specified)
    fill = found.get("fill") or ("black" if first else "")
    share = number(found.get("fill-opacity", "1"))
    if tag == "foreignobject":
        fill = "currentcolor"
    elif fill == "none" or (share is not None and share <= 0.05):
        fill = "transparent"
    if fill:
        found["-webkit-text-fill-color"] = fill
    if (stroke := found.get("stroke")) and stroke != "none":
        found["-webkit-text-stroke"] = f"1px {stroke}"
    return found


def scale_of(drawing: Element) -> float:
    """Return by how much a drawing is scaled to its width."""
    box, width = _numbers(drawing.get("viewbox")), _numbers(drawing.get("width"))
    if len(box) != 4 or box[2] <= 0:
        return 1.0
    wide = width[0] if width and "%" not in drawing.get("width") else max(box[2], _USUAL[0])
    return wide / box[2]


def grounds_of(drawing: Element, around: tuple[Color, ...] | None) -> tuple[Color, ...] | None:
    """Return the colors that may be behind text of a drawing; None if one is not known."""
    found = around
    for shape in islice(drawing.iter(*_SHAPES), _MOST_SHAPES):
        fill = shape.get("fill")
        if fill == "none" or max(map(abs, _numbers(shape.get("width")) or [_FAR])) < 4:
            continue
        styled = fill is None and any(
            "fill" in at.attrib or "class" in at.attrib or "style" in at.attrib
            for at in islice((shape, *shape.iterancestors()), 6)
        )
        one = None if styled or shape.tag in ("image", "use") else color(fill or "black")
        if one is None or found is None:
            return None
        found = (*found, one)
    return found


class _Place(NamedTuple):
    """Where the text of a part begins, in the units around it."""

    matrix: Matrix = _UNMOVED
    x: float = 0.0
    y: float = 0.0
    anchor: str = "start"
    text: bool = False
    """Whether text is painted here at all."""
    html: bool = False


class DrawnText(NamedTuple):
    """The text of a drawing that is on the screen, and the rest of it."""

    shown: str
    hidden: str


def drawn_text(drawing: Element, hidden: Collection[Element], silent: Collection[Element]) -> DrawnText:
    """Return the text of a drawing, given the elements that are hidden and those whose own text is."""
    left, top, right, bottom = _view(drawing)
    seen: list[str] = []
    unseen: list[str] = []
    places = [_Place()]
    skip: Element | None = None
    for event, element in iterwalk(drawing):
        if event == "end":
            if element is skip:
                skip = None
            elif skip is None:
                places.pop()
            if element is drawing or skip is not None:
                continue
            owner, text = element.getparent(), element.tail
        elif skip is not None:
            continue
        elif not isinstance(element.tag, str) or element in hidden or element.tag in _UNDRAWN:
            skip = element
            if element in hidden and element.tag in PARTS:
                unseen.append(" ".join("".join(element.itertext()).split()))
            continue
        else:
            places.append(_place_of(element, places[-1]))
            owner, text = element, element.text
            if element.get("x") or element.get("y") or element.tag not in PARTS:
                seen.append(" ")
        place = places[-1]
        if not text or not text.strip() or not place.text:
            if text and place.text:
                seen.append(" ")
            continue
        a, b, c, d, e, f = place.matrix
        x, y = a * place.x + c * place.y + e, b * place.x + d * place.y + f
        wide = len(text.strip()) * _LETTER
        before = {"start": 0.0, "middle": wide / 2}.get(place.anchor, wide)
        inside = x - before < right and x - before + wide > left and top - 20 < y < bottom + 20
        if place.html:
            inside = x < right and y < bottom
        if owner in silent or not inside or abs(a * d - b * c) < 1e-4:
            unseen.append(" ".join(text.split()))
        else:
            seen.append(text)
    shown = " ".join("".join(seen).split())
    return DrawnText(shown, " ".join(filter(None, unseen)))


def _place_of(element: Element, around: _Place) -> _Place:
    tag = element.tag
    matrix = around.matrix
    if written := element.get("transform"):
        for call in islice(_CALL.finditer(written), _MOST_CALLS):
            matrix = _product(matrix, _matrix(call[1].lower(), _numbers(call[2])))
    if around.html:
        return around
    anchor = element.get("text-anchor") or around.anchor
    if tag not in ("text", "tspan", "textpath", "foreignobject", "svg"):
        return around._replace(matrix=matrix, anchor=anchor)
    x, y = (_numbers(element.get(name)) for name in "xy")
    if tag == "svg":
        moved = _product(matrix, (1.0, 0.0, 0.0, 1.0, (x or [0.0])[0], (y or [0.0])[0]))
        return around._replace(matrix=matrix if element.getparent().tag not in PARTS else moved)
    begin = (0.0, 0.0) if tag in ("text", "foreignobject") else (around.x, around.y)
    dx, dy = (_numbers(element.get(name)) for name in ("dx", "dy"))
    return _Place(
        matrix,
        (x[0] if x and "%" not in element.get("x") else begin[0]) + (dx[0] if dx else 0.0),
        (y[0] if y and "%" not in element.get("y") else begin[1]) + (dy[0] if dy else 0.0),
        anchor,
        text=True,
        html=tag == "foreignobject",
    )


def _view(drawing: Element) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of what a drawing shows, in its own units."""
    box = _numbers(drawing.get("viewbox"))
    if len(box) == 4:
        return box[0], box[1], box[0] + box[2], box[1] + box[3]
    sizes = []
    for name in ("width", "height"):
        size = _numbers(drawing.get(name))
        known = bool(size) and "%" not in drawing.get(name)
        sizes.append(size[0] if known else _FAR)
    return 0.0, 0.0, sizes[0], sizes[1]


def _numbers(text: str | None) -> list[float]:
    return [float(each) for each in islice(_NUMBER.findall((text or "")[:400]), 8)]


def _matrix(name: str, values: list[float]) -> Matrix:
    first = values[0] if values else 0.0
    if name == "matrix" and len(values) == 6:
        return values[0], values[1], values[2], values[3], values[4], values[5]
    if name == "translate":
        return 1.0, 0.0, 0.0, 1.0, first, values[1] if len(values) > 1 else 0.0
    if name == "scale" and values:
        return first, 0.0, 0.0, values[1] if len(values) > 1 else first, 0.0, 0.0
    if name == "rotate":
        turn = radians(first)
        turned = cos(turn), sin(turn), -sin(turn), cos(turn), 0.0, 0.0
        if len(values) < 3:
            return turned
        x, y = values[1], values[2]
        return _product(_product((1.0, 0.0, 0.0, 1.0, x, y), turned), (1.0, 0.0, 0.0, 1.0, -x, -y))
    if name == "skewx":
        return 1.0, 0.0, tan(radians(first)), 1.0, 0.0, 0.0
    return (1.0, tan(radians(first)), 0.0, 1.0, 0.0, 0.0) if name == "skewy" else _UNMOVED


def _product(one: Matrix, other: Matrix) -> Matrix:
    a, b, c, d, e, f = one
    g, h, i, j, k, m = other
    return a * g + c * h, b * g + d * h, a * i + c * j, b * i + d * j, a * k + c * m + e, b * k + d * m + f
