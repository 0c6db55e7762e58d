"""What is drawn on a page besides its text: rules, filled areas and images, in the order of drawing.

Read from PDFium's page objects. Forms are followed to a bounded depth, without recursion.
"""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import byref, c_float, c_int, c_uint, c_void_p, cast
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tabane.reader.formats.pdf.geometry import PdfBox, PdfFrame

_DEEPEST = 12
_ANNOTATIONS = 1000  # of a page
_LAST = 1 << 40  # annotations are drawn after the page
_THIN = 3.0  # points: an area that is thinner is a rule
_SHORT = 4.0
_SEGMENTS = 64  # of a path that is read point by point
_HUGE = 24_000_000  # pixels of an image that is not decoded

Matrix = tuple[float, float, float, float, float, float]
_PLAIN: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


class PdfArea(NamedTuple):
    """A filled area or an image, and its place in the order of drawing; ``solid``: nothing shows through.

    ``colour`` is that of an area which has only one.
    """

    box: PdfBox
    order: int
    solid: bool
    image: bool = False
    colour: tuple[int, int, int] | None = None


class TextObject(NamedTuple):
    """A piece of text as the page draws it: its handle and its place in the order of drawing.

    ``nested``: it is in a form, whose transparency it has too.
    """

    handle: Any
    order: int
    nested: bool


@dataclass(slots=True)
class PageDrawing:
    """The drawing of a page. ``texts`` are by address; ``huge`` are images too large to be decoded."""

    rules: list[PdfBox] = field(default_factory=list)
    areas: list[PdfArea] = field(default_factory=list)
    texts: dict[int, TextObject] = field(default_factory=dict)
    huge: list[Any] = field(default_factory=list)
    whole: bool = True

    @property
    def is_plain(self) -> bool:
        """Return whether nothing is drawn but text and horizontal rules."""
        return self.whole and not self.areas and all(rule.width > rule.height for rule in self.rules)

    def covered(self, frame: PdfFrame) -> float:
        """Return the share of the page that its largest image takes."""
        page = PdfBox(0.0, 0.0, frame.width, frame.height)
        largest = 0.0
        for area in self.areas:
            if area.image:
                wide = min(area.box.right, page.right) - max(area.box.left, 0.0)
                high = min(area.box.top, page.top) - max(area.box.bottom, 0.0)
                largest = max(largest, max(wide, 0.0) * max(high, 0.0))
        return largest / max(1.0, frame.width * frame.height)


def page_drawing(page: Any, frame: PdfFrame, most: int) -> PageDrawing:
    """Return what is drawn on a page: at most so many objects, in ``whole`` whether these are all."""
    found = PageDrawing()
    reader = _ObjectReader(frame, found)
    for order, (handle, kind, matrix, nested) in enumerate(_objects(page)):
        if order >= most:
            found.whole = False
            break
        reader.add(handle, kind, matrix, order, nested=nested)
    found.areas.extend(_annotations(page, frame))
    return found


def _annotations(page: Any, frame: PdfFrame) -> Iterator[PdfArea]:
    """Yield the places of annotations that may be drawn over text."""
    import pypdfium2.raw as raw

    edges = raw.FS_RECTF()
    for nth in range(min(raw.FPDFPage_GetAnnotCount(page), _ANNOTATIONS)):
        handle = raw.FPDFPage_GetAnnot(page, nth)
        if not handle:
            continue
        drawn = raw.FPDFAnnot_GetSubtype(handle) not in (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP)
        if drawn and raw.FPDFAnnot_GetRect(handle, byref(edges)):
            yield PdfArea(frame.box(edges.left, edges.bottom, edges.right, edges.top), _LAST, False)
        raw.FPDFPage_CloseAnnot(handle)


def _objects(page: Any) -> Iterator[tuple[Any, int, Matrix, bool]]:
    """Yield objects with their type, and the matrix of the forms around them."""
    import pypdfium2.raw as raw

    stack: list[tuple[Any, int, int, Matrix]] = [(None, 0, raw.FPDFPage_CountObjects(page), _PLAIN)]
    while stack:
        form, at, count, matrix = stack.pop()
        if at >= count:
            continue
        stack.append((form, at + 1, count, matrix))
        handle = raw.FPDFFormObj_GetObject(form, at) if form else raw.FPDFPage_GetObject(page, at)
        if not handle:
            continue
        kind = raw.FPDFPageObj_GetType(handle)
        if kind == raw.FPDF_PAGEOBJ_FORM:
            if len(stack) < _DEEPEST:
                inner = _times(_matrix(handle), matrix)
                stack.append((handle, 0, max(0, raw.FPDFFormObj_CountObjects(handle)), inner))
            continue
        yield handle, kind, matrix, len(stack) > 1


def _matrix(handle: Any) -> Matrix:
    import pypdfium2.raw as raw

    found = raw.FS_MATRIX()
    if not raw.FPDFPageObj_GetMatrix(handle, byref(found)):
        return _PLAIN
    return (found.a, found.b, found.c, found.d, found.e, found.f)


def _times(one: Matrix, other: Matrix) -> Matrix:
    a, b, c, d, e, f = one
    u, v, w, x, y, z = other
    return (a * u + b * w, a * v + b * x, c * u + d * w, c * v + d * x, e * u + f * w + y, e * v + f * x + z)


class _ObjectReader:
    """Puts objects into a drawing. Its buffers are reused: a page may have many thousands."""

    def __init__(self, frame: PdfFrame, drawing: PageDrawing) -> None:
        import pypdfium2.raw as raw

        self._raw = raw
        self._frame, self._drawing = frame, drawing
        self._edges = [c_float(), c_float(), c_float(), c_float()]
        self._colour = [c_uint(), c_uint(), c_uint(), c_uint()]
        self._fill, self._stroke = c_int(), c_int()

    def add(self, handle: Any, kind: int, matrix: Matrix, order: int, *, nested: bool) -> None:
        raw = self._raw
        if kind == raw.FPDF_PAGEOBJ_TEXT:
            address = cast(handle, c_void_p).value or 0
            self._drawing.texts[address] = TextObject(handle, order, nested)
        elif kind == raw.FPDF_PAGEOBJ_PATH:
            self._path(handle, matrix, order)
        else:
            box = self._bounds(handle, matrix)
            if box is not None:
                image = kind == raw.FPDF_PAGEOBJ_IMAGE
                self._drawing.areas.append(PdfArea(box, order, True, image))
                if image and self._pixels(handle) > _HUGE:
                    self._drawing.huge.append(handle)

    def _pixels(self, handle: Any) -> int:
        wide, high = c_uint(), c_uint()
        if not self._raw.FPDFImageObj_GetImagePixelSize(handle, byref(wide), byref(high)):
            return 0
        return wide.value * high.value

    def _bounds(self, handle: Any, matrix: Matrix) -> PdfBox | None:
        edges = self._edges
        if not self._raw.FPDFPageObj_GetBounds(handle, *map(byref, edges)):
            return None
        left, bottom, right, top = (edge.value for edge in edges)
        return self._framed(left, bottom, right, top, matrix)

    def _framed(self, left: float, bottom: float, right: float, top: float, matrix: Matrix) -> PdfBox:
        if matrix is not _PLAIN:
            a, b, c, d, e, f = matrix
            xs = [a * x + c * y + e for x, y in ((left, bottom), (right, top), (left, top), (right, bottom))]
            ys = [b * x + d * y + f for x, y in ((left, bottom), (right, top), (left, top), (right, bottom))]
            left, right, bottom, top = min(xs), max(xs), min(ys), max(ys)
        return self._frame.box(left, bottom, right, top)

    def _path(self, handle: Any, matrix: Matrix, order: int) -> None:
        box = self._bounds(handle, matrix)
        if box is None:
            return
        raw = self._raw
        raw.FPDFPath_GetDrawMode(handle, byref(self._fill), byref(self._stroke))
        thin = min(box.width, box.height) <= _THIN
        if thin:
            if max(box.width, box.height) >= _SHORT and self._shows(handle):
                self._drawing.rules.append(box)
            if self._fill.value and box.height > 0.8 and box.width > 0.8:
                self._drawing.areas.append(PdfArea(box, order, False))
            return
        if self._fill.value:
            self._drawing.areas.append(PdfArea(box, order, *self._filling(handle)))
        if self._stroke.value and self._shows(handle):
            self._drawing.rules.extend(self._strokes(handle, matrix))

    def _filling(self, handle: Any) -> tuple[bool, bool, tuple[int, int, int] | None]:
        """Return whether an area is solid, that it is no image, and its color."""
        red, green, blue, alpha = self._colour
        said = self._raw.FPDFPageObj_GetFillColor(handle, byref(red), byref(green), byref(blue), byref(alpha))
        if not said or self._raw.FPDFPageObj_HasTransparency(handle):
            return True, False, None
        return alpha.value > 200, False, (red.value, green.value, blue.value)

    def _shows(self, handle: Any) -> bool:
        """Return whether a rule is not white: a white one is drawn over another."""
        red, green, blue, alpha = self._colour
        raw = self._raw
        get = raw.FPDFPageObj_GetStrokeColor if self._stroke.value else raw.FPDFPageObj_GetFillColor
        if not get(handle, byref(red), byref(green), byref(blue), byref(alpha)):
            return True
        return alpha.value > 12 and min(red.value, green.value, blue.value) < 250

    def _strokes(self, handle: Any, matrix: Matrix) -> Iterator[PdfBox]:
        """Yield the straight strokes of a path."""
        raw = self._raw
        count = raw.FPDFPath_CountSegments(handle)
        if not 1 < count <= _SEGMENTS:
            return
        own = _times(_matrix(handle), matrix)
        a, b, c, d, e, f = own
        x, y = c_float(), c_float()
        first = before = (0.0, 0.0)
        for nth in range(count):
            segment = raw.FPDFPath_GetPathSegment(handle, nth)
            kind = raw.FPDFPathSegment_GetType(segment)
            if not raw.FPDFPathSegment_GetPoint(segment, byref(x), byref(y)):
                continue
            point = (a * x.value + c * y.value + e, b * x.value + d * y.value + f)
            if kind == raw.FPDF_SEGMENT_MOVETO:
                first = point
            elif kind == raw.FPDF_SEGMENT_LINETO:
                yield from self._stroke_between(before, point)
            if raw.FPDFPathSegment_GetClose(segment) and kind == raw.FPDF_SEGMENT_LINETO:
                yield from self._stroke_between(point, first)
            before = point

    def _stroke_between(self, one: tuple[float, float], other: tuple[float, float]) -> Iterator[PdfBox]:
        box = self._frame.box(
            min(one[0], other[0]), min(one[1], other[1]), max(one[0], other[0]), max(one[1], other[1])
        )
        if min(box.width, box.height) <= 1.0 and max(box.width, box.height) >= _SHORT:
            yield box
