"""Text of SVG drawings: where it is painted, with what, and whether that is in the drawing.

Geometry is that of SVG 2 with affine transforms; the widths of letters are estimated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from math import cos, radians, sin, tan
from typing import Any, NamedTuple

from tabane.reader.extraction.blocks import iterwalk
from tabane.reader.extraction.styles.declarations import declared
from tabane.reader.extraction.styles.sheet_rules import Declarations
from tabane.reader.extraction.styles.values import Color, color, number

Element = Any
_LINKS = frozenset(("a", "switch"))
PARTS = frozenset(("svg", "g", "text", "tspan", "textpath", "foreignobject"))
"""Elements of a drawing that hold text, or others that do."""
_UNDRAWN = frozenset((
    "defs", "symbol", "clippath", "mask", "pattern", "marker", "lineargradient", "radialgradient", "filter",
    "title", "desc", "metadata", "style", "script",
))  # fmt: skip
_PAINTED = (
    "display", "visibility", "opacity", "font-size", "fill", "fill-opacity", "stroke", "color", "clip-path",
)  # fmt: skip
_SHAPES = ("rect", "circle", "ellipse", "path", "polygon", "image", "use")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE)
_CALL = re.compile(r"(matrix|translate|scale|rotate|skewx|skewy)\s*\(([^()]*)\)", re.IGNORECASE)
_REFERENCE = re.compile(r"url\(\s*[\"']?#([^\"')\s]{1,200})[\"']?\s*\)\s*(.*)", re.DOTALL)
_CUT = re.compile(r"(?:^|;)\s*(?:clip-path|mask)\s*:\s*(url\([^()]{1,200}\))", re.IGNORECASE)
_PIXEL = re.compile(r"\s*0*[01](?:\.0*)?(?:px)?\s*")
_GRADIENTS = ("lineargradient", "radialgradient")
_READ_EXTENSIONS = frozenset(("http://www.w3.org/1999/xhtml", "http://www.w3.org/1998/math/mathml"))
_MOST_STEPS, _MOST_SHAPES, _MOST_CALLS = 500_000, 200, 20
_USUAL = 300.0, 150.0
"""Width and height of a drawing that says none."""
_LETTER = 10.0
"""Estimated width of a letter."""
_FAR = 3000.0
_LONGEST_VALUES = 2_000

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
        styled = "style" in attributes or "class" in attributes or "id" in attributes
        for name in ("width", "height"):
            size = _numbers(attributes.get(name))
            small = bool(size) and size[0] < 1 and "%" not in attributes[name]
            if small or _PIXEL.fullmatch(attributes.get(name, "")):
                found += declared("display", "none")
            if tag == "foreignobject" and name not in attributes and not styled:
                found += declared("display", "none")
        found += declared("overflow", "hidden")
    if "hidden" in attributes or not _meets_conditions(attributes):
        found += declared("display", "none")
    return tuple(found)


def is_part(element: Element) -> bool:
    """Return whether an element is a part of a drawing that holds text, or others that do."""
    if element.tag in PARTS:
        return True
    above = element.getparent() if element.tag in _LINKS else None
    if above is None or above.tag in PARTS:
        return above is not None
    return above.tag in _LINKS and any(at.tag == "svg" for at in islice(above.iterancestors(), 20))


def _meets_conditions(attributes: Mapping[str, str]) -> bool:
    """Return whether a browser draws an element with these conditions. Of languages, English counts."""
    extensions = attributes.get("requiredextensions")
    if extensions is not None and not _READ_EXTENSIONS.issuperset(extensions.lower().split()):
        return False
    languages = attributes.get("systemlanguage")
    return languages is None or any(
        each.strip().lower().startswith("en") for each in languages[:400].split(",")
    )


def animated(element: Element) -> Declarations:
    """Return what the animations of a part of a drawing declare in the end."""
    found: list[tuple[str, str, bool]] = []
    for child in islice(element, _MOST_CALLS):
        if child.tag not in ("animate", "set"):
            continue
        stays = child.tag == "set" or child.get("fill") == "freeze"
        if (stays or child.get("repeatcount") == "indefinite") and child.get("attributename") in _PAINTED:
            value = child.get("to") or (child.get("values") or "")[:_LONGEST_VALUES].rpartition(";")[2]
            found += declared(child.get("attributename"), value.strip())
    return tuple(found)


class Paints:
    """The gradients and patterns of a page, by their ids."""

    def __init__(self, root: Element) -> None:
        # In reverse, so that the first of an id counts, and because lxml frees elements that were removed
        # from a tree in quadratic time if the first of them go first.
        servers = reversed(list(root.iter(*_GRADIENTS, "pattern")))
        self._servers = {key: each for each in servers if (key := each.get("id")) is not None}

    def color_of(self, fill: str) -> str:
        """Return a fill that refers to a gradient as the color that it has everywhere, if it has one."""
        reference = _REFERENCE.match(fill)
        if reference is None:
            return fill
        server = self._servers.get(reference[1])
        if server is None:
            return reference[2].strip() or "none"
        if server.tag == "pattern":
            return fill
        if not _stops(server):
            other = server.get("href") or server.get("xlink:href") or ""
            server = self._servers.get(other.removeprefix("#"), server)
        colors: set[str] = set()
        for stop in _stops(server):
            pairs = (each.partition(":") for each in (stop.get("style") or "").split(";"))
            style = {name.strip(): value.strip() for name, _, value in pairs}
            share = number(style.get("stop-opacity") or stop.get("stop-opacity") or "1")
            written = style.get("stop-color") or stop.get("stop-color") or "black"
            colors.add("transparent" if share is not None and share <= 0.05 else written)
        return fill if len(colors) > 1 else next(iter(colors), "none")


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


def _stops(gradient: Element) -> list[Element]:
    return [child for child in islice(gradient, _MOST_CALLS) if child.tag == "stop"]


class Grounds(NamedTuple):
    """Colors that may be behind text of a drawing, None if one is not known; shapes that cover all before."""

    colors: tuple[Color, ...] | None
    covers: frozenset[Element]


def grounds_of(
    drawing: Element, around: tuple[Color, ...] | None, fill_at: Callable[[Element], str | None]
) -> Grounds:
    """Return what may be behind text of a drawing. ``fill_at`` returns the fill set for an element."""
    found = around
    covers: set[Element] = set()
    for shape in islice(drawing.iter(*_SHAPES), _MOST_SHAPES):
        if max(map(abs, _numbers(shape.get("width")) or [_FAR])) < 4:
            continue
        fill: str | None = None
        drawn = True
        for at in islice((shape, *shape.iterancestors()), 12):
            drawn = drawn and at.tag not in _UNDRAWN
            fill = fill or fill_at(at)
            if at is drawing:
                break
        if fill == "none" or not drawn:
            continue
        one = None if shape.tag in ("image", "use") else color(fill or "black")
        if one is not None and one.alpha == 1 and _covers(shape, drawing):
            found = (one,)
            covers.add(shape)
        elif one is None or found is None:
            found = None
        else:
            found = (*found, one)
    return Grounds(found, frozenset(covers))


def _covers(shape: Element, drawing: Element) -> bool:
    """Return whether a shape is an opaque rectangle over the whole drawing."""
    if shape.tag != "rect" or any("opacity" in name for name in list(shape.attrib)):
        return False
    if "opacity" in (shape.get("style") or "") or "class" in shape.attrib:
        return False
    for at in islice(shape.iterancestors(), 12):
        if at is drawing:
            break
        if at.tag != "g" or at.attrib:
            return False
    else:
        return False
    if "transform" in shape.attrib or "clip-path" in shape.attrib or "mask" in shape.attrib:
        return False
    left, top, right, bottom = _view(drawing)
    for begin, length, first, last in (("x", "width", left, right), ("y", "height", top, bottom)):
        size = _numbers(shape.get(length))
        at_least = (last - first) * 0.98
        if not size or ((_numbers(shape.get(begin)) or [0.0])[0] > first + 1):
            return False
        if (size[0] < 98) if "%" in shape.get(length) else (size[0] < at_least):
            return False
    return True


class _Place(NamedTuple):
    """The point at which the text of a part begins, in the units of the element around it."""

    matrix: Matrix = _UNMOVED
    x: float = 0.0
    y: float = 0.0
    anchor: str = "start"
    text: bool = False
    """Whether text is painted here at all."""
    html: bool = False
    view: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """The visible part of the drawing around it: left, top, right and bottom."""


class DrawnText(NamedTuple):
    """The text of a drawing that is on the screen, and the rest of it."""

    shown: str
    hidden: str


def drawn_text(
    drawing: Element,
    hidden: Collection[Element],
    silent: Collection[Element],
    covers: Collection[Element] = (),
) -> DrawnText:
    """Return the text of a drawing, given the elements that are hidden, those whose own text is, and the
    shapes that cover all before them.
    """
    ids = {key: each for each in drawing.iter("path", "clippath", "mask") if (key := each.get("id"))}
    switched: dict[Element, Element | None] = {}
    seen: list[str] = []
    unseen: list[str] = []
    places = [_Place(view=_view(drawing))]
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
        elif not isinstance(element.tag, str) or element.tag in _UNDRAWN:
            skip = element
            continue
        elif element in hidden or _is_cut(element, ids) or not _is_switched_on(element, switched):
            skip = element
            unseen.append(" ".join("".join(element.itertext()).split()))
            continue
        else:
            if element in covers:
                unseen.append(" ".join("".join(seen).split()))
                seen.clear()
            places.append(_place_of(element, places[-1], ids))
            owner, text = element, element.text
            if element.get("x") or element.get("y") or element.tag not in PARTS:
                seen.append(" ")
        place = places[-1]
        if not text or not text.strip() or not place.text:
            if text and place.text:
                seen.append(" ")
            continue
        if owner in silent or not _is_in_view(place, len(text.strip()), owner):
            unseen.append(" ".join(text.split()))
        else:
            seen.append(text)
    shown = " ".join("".join(seen).split())
    return DrawnText(shown, " ".join(filter(None, unseen)))


def _is_in_view(place: _Place, letters: int, owner: Element) -> bool:
    """Return whether text of so many letters may be in the part of the drawing that is shown."""
    left, top, right, bottom = place.view
    a, b, c, d, e, f = place.matrix
    if left >= right or top >= bottom or abs(a * d - b * c) < 1e-4:
        return False
    if (length := _numbers(owner.get("textlength"))) and 2 * length[0] < letters:
        return False
    x, y = a * place.x + c * place.y + e, b * place.x + d * place.y + f
    if place.html:
        return x < right and y < bottom
    wide = letters * _LETTER
    before = {"start": 0.0, "middle": wide / 2}.get(place.anchor, wide)
    return x - before < right and x - before + wide > left and top - 20 < y < bottom + 20


def _is_cut(element: Element, ids: Mapping[str, Element]) -> bool:
    """Return whether a clip path or a mask leaves nothing of an element."""
    written = [value for name in ("clip-path", "mask") if (value := element.get(name))]
    written += _CUT.findall((element.get("style") or "")[:2000])
    for value in written:
        reference = _REFERENCE.match(value.strip())
        target = ids.get(reference[1]) if reference is not None else None
        if target is None or target.tag not in ("clippath", "mask"):
            continue
        shapes = islice(target.iter(*_SHAPES, "text"), _MOST_CALLS)
        if not any(_leaves(shape, masked=target.tag == "mask") for shape in shapes):
            return True
    return False


def _leaves(shape: Element, *, masked: bool) -> bool:
    if shape.tag == "path" and not _NUMBER.search((shape.get("d") or "")[:400]):
        return False
    for name in ("width", "height", "r", "rx", "ry") if shape.tag != "rect" else ("width", "height"):
        size = _numbers(shape.get(name))
        if (size and size[0] <= 0) or (shape.tag == "rect" and not size and "style" not in shape.attrib):
            return False
    return not masked or shape.get("fill") not in (None, "black", "#000", "#000000", "none", "transparent")


def _is_switched_on(element: Element, switched: dict[Element, Element | None]) -> bool:
    """Return whether an element is not one that the switch around it leaves out."""
    above = element.getparent()
    if above is None or above.tag != "switch":
        return True
    if above not in switched:
        drawable = (each for each in above if isinstance(each.tag, str) and _meets_conditions(each.attrib))
        switched[above] = next(drawable, None)
    return switched[above] is element


def _place_of(element: Element, around: _Place, ids: Mapping[str, Element]) -> _Place:
    tag = element.tag
    matrix = around.matrix
    if written := element.get("transform"):
        for call in islice(_CALL.finditer(written), _MOST_CALLS):
            matrix = _product(matrix, _matrix(call[1].lower(), _numbers(call[2])))
    if around.html:
        return around
    anchor = element.get("text-anchor") or around.anchor
    if tag not in ("text", "tspan", "textpath", "foreignobject", "svg"):
        return around._replace(matrix=matrix, anchor=anchor, text=around.text and tag == "a")
    x, y = (_numbers(element.get(name)) for name in "xy")
    if tag == "svg":
        if element.getparent() is None or element.getparent().tag not in PARTS:
            return around._replace(matrix=matrix)
        return _viewport(element, around, matrix)
    if tag == "textpath":
        path = ids.get((element.get("href") or element.get("xlink:href") or "").removeprefix("#"))
        start = _numbers(path.get("d")) if path is not None else []
        if len(start) < 2:
            return _Place()
        return _Place(matrix, start[0], start[1], anchor, text=True, view=around.view)
    begin = (0.0, 0.0) if tag in ("text", "foreignobject") else (around.x, around.y)
    dx, dy = (_numbers(element.get(name)) for name in ("dx", "dy"))
    return _Place(
        matrix,
        (x[0] if x and "%" not in element.get("x") else begin[0]) + (dx[0] if dx else 0.0),
        (y[0] if y and "%" not in element.get("y") else begin[1]) + (dy[0] if dy else 0.0),
        anchor,
        text=True,
        html=tag == "foreignobject",
        view=around.view,
    )


def _viewport(element: Element, around: _Place, matrix: Matrix) -> _Place:
    """Return the place within a drawing in a drawing, which shows nothing outside of it."""
    x, y, width, height = (
        size[0] if (size := _numbers(element.get(name))) and "%" not in element.get(name) else None
        for name in ("x", "y", "width", "height")
    )
    matrix = _product(matrix, (1.0, 0.0, 0.0, 1.0, x or 0.0, y or 0.0))
    if width is None or height is None or element.get("overflow") == "visible":
        return around._replace(matrix=matrix)
    a, b, c, d, e, f = matrix
    across, down = sorted((e, e + a * width + c * height)), sorted((f, f + b * width + d * height))
    left, top, right, bottom = around.view
    view = (max(left, across[0]), max(top, down[0]), min(right, across[1]), min(bottom, down[1]))
    box = _numbers(element.get("viewbox"))
    if len(box) == 4 and box[2] > 0 and box[3] > 0:
        scale = min(width / box[2], height / box[3])
        matrix = _product(matrix, (scale, 0.0, 0.0, scale, -scale * box[0], -scale * box[1]))
    return around._replace(matrix=matrix, view=view)


def _view(drawing: Element) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of what a drawing shows, in its own units."""
    box = _numbers(drawing.get("viewbox"))
    if len(box) == 4:
        return box[0], box[1], box[0] + box[2], box[1] + box[3]
    sizes = []
    plain = "style" not in drawing.attrib and "class" not in drawing.attrib and "id" not in drawing.attrib
    for name, usual in zip(("width", "height"), _USUAL, strict=True):
        size = _numbers(drawing.get(name))
        known = bool(size) and "%" not in drawing.get(name)
        sizes.append(size[0] if known else usual if plain and name not in drawing.attrib else _FAR)
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
