"""What is on a page, and which of its words a reader sees.

Words with boxes and styles, rules, filled areas and images are read in the order of drawing, from PDFium's
characters and page objects. Forms are followed to a bounded depth, without recursion. Boxes are in points,
from the lower left corner of what is shown of the page, as it is turned.

PDFium draws the page twice within a bounded time, with its text and without. A word is seen if that makes a
difference where it is: this holds for text under images and areas, clipped text, layers that are off,
transparency and colors alike. Pages on which nothing can hide text are judged by the styles of their text
alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from ctypes import (
    CFUNCTYPE,
    byref,
    c_double,
    c_float,
    c_int,
    c_uint,
    c_ulong,
    c_ushort,
    c_void_p,
    cast,
    create_string_buffer,
    pointer,
)
from dataclasses import dataclass, field
from itertools import pairwise
from operator import sub
from time import process_time
from typing import Any, NamedTuple


class PdfBox(NamedTuple):
    """A rectangle; y grows upwards."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def width(self) -> float:
        """Width in points."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """Height in points."""
        return self.top - self.bottom

    def holds(self, x: float, y: float, room: float = 0.0) -> bool:
        """Return whether a point is within the box, or not further than ``room`` from it."""
        return self.left - room <= x <= self.right + room and self.bottom - room <= y <= self.top + room

    def meets(self, other: PdfBox) -> bool:
        """Return whether the boxes have an area in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )


@dataclass(frozen=True, slots=True)
class PdfFrame:
    """The part of a page that is shown: its corner in the page's own units, its size and its turn.

    ``turn`` counts quarters of a turn, clockwise. ``width`` and ``height`` are those of the turned page.
    """

    left: float
    bottom: float
    width: float
    height: float
    turn: int = 0

    def box(self, left: float, bottom: float, right: float, top: float) -> PdfBox:
        """Return a box of the page's own units on this frame."""
        left, right = left - self.left, right - self.left
        bottom, top = bottom - self.bottom, top - self.bottom
        if self.turn == 0:
            return PdfBox(left, bottom, right, top)
        if self.turn == 1:
            return PdfBox(bottom, self.height - right, top, self.height - left)
        if self.turn == 2:
            return PdfBox(self.width - right, self.height - top, self.width - left, self.height - bottom)
        return PdfBox(self.width - top, left, self.width - bottom, right)

    def direction(self, x: float, y: float) -> tuple[float, float]:
        """Return a direction of the page as seen on this frame."""
        return ((x, y), (y, -x), (-x, -y), (-y, x))[self.turn]


def merged_spans(spans: list[tuple[float, float]], room: float) -> list[tuple[float, float]]:
    """Return the union of ranges; those that are not further apart than ``room`` become one."""
    found: list[tuple[float, float]] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1] + room:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def centers(values: list[float], room: float) -> list[float]:
    """Return the means of groups of values: neighbors within ``room`` of each other are one group."""
    found: list[list[float]] = []
    for value in sorted(values):
        if found and value - found[-1][-1] <= room:
            found[-1].append(value)
        else:
            found.append([value])
    return [sum(group) / len(group) for group in found]


_WORD = re.compile(r"[^\s\x00]+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_TYPED = re.compile(rb"mono|courier|consol|menlo|typewriter|cmtt|hack|firacode|sourcecode", re.I)
_BOLD = re.compile(rb"bold|black|heavy|cmbx|-w[6-9]\b|demi", re.I)
_CUT = 10  # characters after which a word without spaces is cut, so that its boxes are exact
_FORCED_BOLD = 1 << 18

Color = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class TextStyle:
    """How a text object is drawn. ``mode`` is that of ISO 32000-1, table 106; ``alpha`` is 0..255.

    ``upright``: it is written from left to right. ``embedded``: the file has the font's shapes.
    ``address`` is the object's. ``shaped``: its first letter has a shape, and its font is no program of
    the file (Type 3), whose letters may draw nothing.
    """

    address: int
    color: Color
    alpha: int
    mode: int
    bold: bool
    typed: bool
    upright: bool
    embedded: bool
    scale: float
    shaped: bool = True


class PdfWord(NamedTuple):
    """Characters without a space between them. ``glued``: nor is there one before it.

    ``line`` counts the lines of PDFium, ``size`` is that of the font on the page.
    """

    text: str
    left: float
    bottom: float
    right: float
    top: float
    size: float
    style: TextStyle
    line: int
    glued: bool

    @property
    def middle(self) -> float:
        """Height of the middle of the word."""
        return (self.bottom + self.top) / 2

    @property
    def center(self) -> float:
        """Distance of the center of the word from the left edge."""
        return (self.left + self.right) / 2

    @property
    def box(self) -> PdfBox:
        return PdfBox(self.left, self.bottom, self.right, self.top)


@dataclass(frozen=True, slots=True)
class _FontFacts:
    bold: bool
    typed: bool
    embedded: bool
    named: bool


class FontTable:
    """Facts of the fonts of a document, each asked for once."""

    def __init__(self) -> None:
        self._known: dict[int, _FontFacts] = {}

    def facts(self, text: Any, index: int, handle: Any) -> _FontFacts:
        """Return what is known about the font of a character; ``handle`` is its text object."""
        import pypdfium2.raw as raw

        font = raw.FPDFTextObj_GetFont(handle) if handle else None
        address = cast(font, c_void_p).value or 0 if font else 0
        known = self._known.get(address)
        if known is None or not address:
            name, flags = create_string_buffer(128), c_int()
            raw.FPDFText_GetFontInfo(text, index, name, len(name), byref(flags))
            weight = raw.FPDFText_GetFontWeight(text, index)
            bold = bool(_BOLD.search(name.value)) or weight >= 600 or bool(flags.value & _FORCED_BOLD)
            embedded = bool(font) and raw.FPDFFont_GetIsEmbedded(font) == 1
            typed = bool(_TYPED.search(name.value))
            known = self._known[address] = _FontFacts(bold, typed, embedded, bool(name.value))
        return known


def page_words(
    text: Any, frame: PdfFrame, fonts: FontTable, most: int, *, fine: bool = True
) -> list[PdfWord]:
    """Return at most so many words of a text page, in the order of the page's own stream.

    Without ``fine`` a line that is drawn at once, with its spaces, is one word.
    """
    reader = _WordReader(text.raw, frame, fonts)
    found: list[PdfWord] = []
    at = 0
    for number, line in enumerate(_page_characters(text).split("\r\n")):
        core = line.strip()
        first = at + len(line) - len(line.lstrip())
        if core and not fine and reader.is_one(core, first):
            whole = reader.piece(core, first, first + len(core) - 1, number)
            if whole.left >= 0 and whole.right <= frame.width:
                found.append(whole)
                at += len(line) + 2
                continue
        for word in _WORD.finditer(line):
            found.extend(reader.pieces(word[0], at + word.start(), number))
        at += len(line) + 2
        if len(found) > most:
            break
    return found[:most]


def _page_characters(text: Any) -> str:
    """Return the characters, one for each index of PDFium."""
    import pypdfium2.raw as raw

    count = text.count_chars()
    whole = str(text.get_text_range()) if count else ""
    if len(whole) == count:
        return whole
    get, page = raw.FPDFText_GetUnicode, text.raw
    return "".join(chr(code) if (code := get(page, nth)) < 0x110000 else "\ufffd" for nth in range(count))


class _WordReader:
    """Reads boxes and styles; its buffers are reused."""

    def __init__(self, text: Any, frame: PdfFrame, fonts: FontTable) -> None:
        import pypdfium2.raw as raw

        self._raw, self._text, self._frame, self._fonts = raw, text, frame, fonts
        # the same function with numbers for pointers: three times as fast
        prototype = CFUNCTYPE(c_void_p, c_void_p, c_int)
        self._address: Callable[[int, int], int | None] = cast(raw.FPDFText_GetTextObject, prototype)
        self._page = cast(text, c_void_p).value or 0
        self._loose = raw.FS_RECTF()
        self._reference = byref(self._loose)
        self._styles: dict[int, TextStyle] = {}
        self._last: TextStyle | None = None

    def pieces(self, word: str, first: int, line: int) -> Iterator[PdfWord]:
        """Yield the pieces of a word: cut where another text object begins, and each ten characters."""
        glued = False
        for start, end in self._word_cuts(word, first):
            yield self.piece(word[start:end], first + start, first + end - 1, line, glued=glued)
            glued = True

    def is_one(self, line: str, first: int) -> bool:
        """Return whether a line is one text object: PDFium adds spaces where the object has gaps."""
        if "  " in line or "\0" in line:
            return False
        address, page = self._address, self._page
        own = address(page, first)
        if address(page, first + len(line) - 1) != own:
            return False
        at = line.find(" ")
        while at >= 0:
            if address(page, first + at) != own:
                return False
            at = line.find(" ", at + 1)
        return own is not None

    def _word_cuts(self, word: str, first: int) -> Iterator[tuple[int, int]]:
        address, page = self._address, self._page
        count = len(word)
        if count <= _CUT and address(page, first) == address(page, first + count - 1):
            yield 0, count
            return
        start, before = 0, address(page, first)
        for nth in range(1, count):
            now = address(page, first + nth)
            if now != before or nth - start >= _CUT:
                yield start, nth
                start, before = nth, now
        yield start, count

    def piece(self, text: str, first: int, last: int, line: int, *, glued: bool = False) -> PdfWord:
        """Return characters as a word."""
        style = self._char_style(first)
        left, bottom, right, top = self._char_box(first)
        if text[-1] == "\x02":  # a hyphen at the end of a line, whose place PDFium does not say
            last -= 1
        if last > first:
            other = self._char_box(last)
            left, bottom = min(left, other[0]), min(bottom, other[1])
            right, top = max(right, other[2]), max(top, other[3])
        box = self._frame.box(left, bottom, right, top)
        if _SURROGATE.search(text):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if len(text) == 1 and "\ue000" <= text <= "\uf8ff":
            text = "•"  # of a font of symbols, which are bullets where they are words
        size = style.scale if style.scale > 0 else box.height
        return PdfWord(text, *box, round(size, 1), style, line, glued)

    def _char_box(self, index: int) -> tuple[float, float, float, float]:
        loose = self._loose
        if not self._raw.FPDFText_GetLooseCharBox(self._text, index, self._reference):
            return 0.0, 0.0, 0.0, 0.0
        return loose.left, loose.bottom, loose.right, loose.top

    def _char_style(self, index: int) -> TextStyle:
        address = self._address(self._page, index)
        if not address:
            self._last = self._last or self._read_style(index, 0)
            return self._last
        style = self._styles.get(address)
        if style is None:
            style = self._styles[address] = self._read_style(index, address)
        self._last = style
        return style

    def _read_style(self, index: int, address: int) -> TextStyle:
        raw, text = self._raw, self._text
        handle = raw.FPDFText_GetTextObject(text, index)
        mode = raw.FPDFTextObj_GetTextRenderMode(handle) if handle else 0
        parts = [c_uint(), c_uint(), c_uint(), c_uint()]
        get = raw.FPDFText_GetStrokeColor if mode in (1, 5) else raw.FPDFText_GetFillColor
        known = get(text, index, *map(byref, parts))
        red, green, blue, alpha = (part.value for part in parts) if known else (0, 0, 0, 255)
        matrix = raw.FS_MATRIX()
        upright, scale = True, 1.0
        if raw.FPDFText_GetMatrix(text, index, byref(matrix)):
            x, y = self._frame.direction(matrix.a, matrix.b)
            upright = x > 0 and abs(y) < x * 0.1
            scale = min(matrix.a**2 + matrix.b**2, matrix.c**2 + matrix.d**2) ** 0.5
        facts = self._fonts.facts(text, index, handle)
        return TextStyle(
            address,
            (red, green, blue),
            alpha,
            mode,
            facts.bold,
            facts.typed,
            upright,
            facts.embedded,
            raw.FPDFText_GetFontSize(text, index) * scale,
            facts.named and self._has_shape(index),
        )

    def _has_shape(self, index: int) -> bool:
        edges = [c_double(), c_double(), c_double(), c_double()]
        if not self._raw.FPDFText_GetCharBox(self._text, index, *map(byref, edges)):
            return False
        left, right, bottom, top = (edge.value for edge in edges)
        return right > left and top > bottom


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
    color: tuple[int, int, int] | None = None


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
    for order, (handle, kind, matrix, nested) in enumerate(_page_objects_of(page)):
        if order >= most:
            found.whole = False
            break
        reader.add(handle, kind, matrix, order, nested=nested)
    found.areas.extend(_annotation_areas(page, frame))
    return found


def _annotation_areas(page: Any, frame: PdfFrame) -> Iterator[PdfArea]:
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


def _page_objects_of(page: Any) -> Iterator[tuple[Any, int, Matrix, bool]]:
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
                inner = _multiplied(_matrix_of(handle), matrix)
                stack.append((handle, 0, max(0, raw.FPDFFormObj_CountObjects(handle)), inner))
            continue
        yield handle, kind, matrix, len(stack) > 1


def _matrix_of(handle: Any) -> Matrix:
    import pypdfium2.raw as raw

    found = raw.FS_MATRIX()
    if not raw.FPDFPageObj_GetMatrix(handle, byref(found)):
        return _PLAIN
    return (found.a, found.b, found.c, found.d, found.e, found.f)


def _multiplied(one: Matrix, other: Matrix) -> Matrix:
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
        self._color = [c_uint(), c_uint(), c_uint(), c_uint()]
        self._fill, self._stroke = c_int(), c_int()

    def add(self, handle: Any, kind: int, matrix: Matrix, order: int, *, nested: bool) -> None:
        raw = self._raw
        if kind == raw.FPDF_PAGEOBJ_TEXT:
            address = cast(handle, c_void_p).value or 0
            self._drawing.texts[address] = TextObject(handle, order, nested)
        elif kind == raw.FPDF_PAGEOBJ_PATH:
            self._add_path(handle, matrix, order)
        else:
            box = self._object_bounds(handle, matrix)
            if box is not None:
                image = kind == raw.FPDF_PAGEOBJ_IMAGE
                self._drawing.areas.append(PdfArea(box, order, True, image))
                if image and self._pixel_count(handle) > _HUGE:
                    self._drawing.huge.append(handle)

    def _pixel_count(self, handle: Any) -> int:
        wide, high = c_uint(), c_uint()
        if not self._raw.FPDFImageObj_GetImagePixelSize(handle, byref(wide), byref(high)):
            return 0
        return wide.value * high.value

    def _object_bounds(self, handle: Any, matrix: Matrix) -> PdfBox | None:
        edges = self._edges
        if not self._raw.FPDFPageObj_GetBounds(handle, *map(byref, edges)):
            return None
        left, bottom, right, top = (edge.value for edge in edges)
        if matrix is not _PLAIN:
            a, b, c, d, e, f = matrix
            xs = [a * x + c * y + e for x, y in ((left, bottom), (right, top), (left, top), (right, bottom))]
            ys = [b * x + d * y + f for x, y in ((left, bottom), (right, top), (left, top), (right, bottom))]
            left, right, bottom, top = min(xs), max(xs), min(ys), max(ys)
        return self._frame.box(left, bottom, right, top)

    def _add_path(self, handle: Any, matrix: Matrix, order: int) -> None:
        box = self._object_bounds(handle, matrix)
        if box is None:
            return
        raw = self._raw
        raw.FPDFPath_GetDrawMode(handle, byref(self._fill), byref(self._stroke))
        thin = min(box.width, box.height) <= _THIN
        if thin:
            if max(box.width, box.height) >= _SHORT and self._is_not_white(handle):
                self._drawing.rules.append(box)
            if self._fill.value and box.height > 0.8 and box.width > 0.8:
                self._drawing.areas.append(PdfArea(box, order, False))
            return
        if self._fill.value:
            self._drawing.areas.append(PdfArea(box, order, *self._fill_of(handle)))
        if self._stroke.value and self._is_not_white(handle):
            self._drawing.rules.extend(self._straight_strokes(handle, matrix))

    def _fill_of(self, handle: Any) -> tuple[bool, bool, tuple[int, int, int] | None]:
        """Return whether an area is solid, that it is no image, and its color."""
        red, green, blue, alpha = self._color
        said = self._raw.FPDFPageObj_GetFillColor(handle, byref(red), byref(green), byref(blue), byref(alpha))
        if not said or self._raw.FPDFPageObj_HasTransparency(handle):
            return True, False, None
        return alpha.value > 200, False, (red.value, green.value, blue.value)

    def _is_not_white(self, handle: Any) -> bool:
        """Return whether a rule is not white: a white one is drawn over another."""
        red, green, blue, alpha = self._color
        raw = self._raw
        get = raw.FPDFPageObj_GetStrokeColor if self._stroke.value else raw.FPDFPageObj_GetFillColor
        if not get(handle, byref(red), byref(green), byref(blue), byref(alpha)):
            return True
        return alpha.value > 12 and min(red.value, green.value, blue.value) < 250

    def _straight_strokes(self, handle: Any, matrix: Matrix) -> Iterator[PdfBox]:
        """Yield the straight strokes of a path."""
        raw = self._raw
        count = raw.FPDFPath_CountSegments(handle)
        if not 1 < count <= _SEGMENTS:
            return
        own = _multiplied(_matrix_of(handle), matrix)
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


_SMALLEST = 1.5  # points of a font
_NEAR = 28  # of 255 in each channel: colors that differ less are the same to a reader
_FAINT = 20  # of 255: opacity
_UNSEEN_MODES = (3, 7)
_SCAN = 0.7  # of the page is an image
_RECOGNIZED = 0.8  # of the characters are an invisible layer
_AREAS = 100  # of a page that are compared with its words one by one
_MARKS = 8
_WHITE = (255, 255, 255)
_STEPS = 2_000_000  # of areas times words
_WIDE = re.compile(r"[^\x00-\u052f\u1e00-\u23ff\ufb00-\ufb06]")
_WRITTEN = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class SeenWords:
    """Words that are seen, and the number of parts that are not. ``scan``: they lie on an image of them.

    ``complete``: the page was drawn if that was necessary.
    """

    words: list[PdfWord]
    hidden: int = 0
    scan: bool = False
    complete: bool = True


def seen_words(
    words: Sequence[PdfWord], page: Any, frame: PdfFrame, drawing: PageDrawing, *, draws: bool = True
) -> SeenWords:
    """Return the words that are seen. Without ``draws`` the page is not drawn, and less is found."""
    # A scan is an image with an invisible layer of recognized text.
    if drawing.covered(frame) < _SCAN:
        scan = False
    else:
        unseen = sum(len(word.text) for word in words if word.style.mode == 3)
        scan = unseen >= _RECOGNIZED * sum(len(word.text) for word in words) > 0
    marks = [_is_plausible(word, frame, scan=scan) for word in words]
    complete = True
    if not scan:
        suspects = _Suspects(drawing)
        doubtful = [nth for nth, word in enumerate(words) if marks[nth] and suspects.has(word)]
        if doubtful:
            pixels = drawn_twice(page, frame, drawing) if draws else None
            complete = pixels is not None
            shown = _PageDrawings(frame, drawing, pixels, len(doubtful))
            under = _covered_words(words, drawing)
            for nth in doubtful:
                marks[nth] = nth not in under and shown.shows(words[nth])
    seen = [word for word, mark in zip(words, marks, strict=True) if mark]
    hidden = sum(1 for one, other in pairwise([True, *marks]) if one and not other)
    return SeenWords(seen, hidden, scan and bool(seen), complete)


def may_hide(drawing: PageDrawing) -> bool:
    """Return whether anything on the page could hide text of a dark color."""
    return not drawing.is_plain or any(map(_is_special, drawing.texts.values()))


def _is_special(text: TextObject) -> bool:
    """Return whether a text object is on a layer, clipped, transparent or within a form."""
    import pypdfium2.raw as raw

    handle = text.handle
    return bool(
        text.nested
        or _is_on_layer(handle)
        or raw.FPDFClipPath_CountPaths(raw.FPDFPageObj_GetClipPath(handle)) > 0
        or raw.FPDFPageObj_HasTransparency(handle)
    )


def _is_on_layer(handle: Any) -> bool:
    """Return whether an object belongs to optional content: all other marks only tell of its structure."""
    import pypdfium2.raw as raw

    count = raw.FPDFPageObj_CountMarks(handle)
    if count <= 0:
        return False
    name, size = (c_ushort * 8)(), c_ulong()
    for nth in range(min(count, _MARKS)):
        raw.FPDFPageObjMark_GetName(raw.FPDFPageObj_GetMark(handle, nth), name, 16, byref(size))
        if list(name[:3]) == [79, 67, 0]:  # OC
            return True
    return bool(count > _MARKS)


class _Suspects:
    """Words that something could hide: what is drawn over or behind them, their object, or their color."""

    def __init__(self, drawing: PageDrawing) -> None:
        self._drawing = drawing
        self._known: dict[int, bool] = {}
        self._many = len(drawing.areas) > _AREAS or not drawing.whole

    def has(self, word: PdfWord) -> bool:
        style = word.style
        known = self._known.get(style.address)
        if known is None:
            text = self._drawing.texts.get(style.address)
            known = (
                text is None
                or not style.shaped
                or _is_special(text)
                or not _is_visible_on(style, _WHITE, _WHITE)
            )
            self._known[style.address] = known
        if known or self._many:
            return True
        box = None
        for area in self._drawing.areas:
            if box is None:  # its edge may touch what is above or below
                part = (word.top - word.bottom) * 0.25
                box = PdfBox(word.left, word.bottom + part, word.right, word.top - part)
            if area.box.meets(box) and self._may_cover(area, word):
                return True
        return False

    def _may_cover(self, area: PdfArea, word: PdfWord) -> bool:
        return (
            area.order > _draw_order(word, self._drawing)
            or area.color is None
            or not _is_visible_on(word.style, area.color, area.color)
        )


def _is_plausible(word: PdfWord, frame: PdfFrame, *, scan: bool) -> bool:
    """Return whether a word is within the page and is drawn with some size and color."""
    style = word.style
    if style.mode in _UNSEEN_MODES and not (scan and style.mode == 3):
        return False
    if style.alpha <= _FAINT or style.scale < _SMALLEST:
        return False
    inside = 0 <= word.center <= frame.width and 0 <= word.middle <= frame.height
    return inside and (min(word.right, frame.width) - max(word.left, 0)) * 2 >= word.right - word.left


def _is_visible_on(style: TextStyle, lowest: Color, highest: Color) -> bool:
    """Return whether a color can be seen on a background between two colors."""
    return any(
        (low - own) * style.alpha > _NEAR * 255 or (own - high) * style.alpha > _NEAR * 255
        for own, low, high in zip(style.color, lowest, highest, strict=True)
    )


def _covered_words(words: Sequence[PdfWord], drawing: PageDrawing) -> set[int]:
    """Return the words that lie under an area on which other words are, at the same place."""
    found: set[int] = set()
    for one, other in _overlapping_words(words):
        orders = [_draw_order(words[nth], drawing) for nth in (one, other)]
        lower = one if orders[0] < orders[1] else other
        word = words[lower]
        if any(
            area.solid and min(orders) < area.order < max(orders) and area.box.holds(word.center, word.middle)
            for area in drawing.areas[:2000]
        ):
            found.add(lower)
    return found


def _draw_order(word: PdfWord, drawing: PageDrawing) -> int:
    text = drawing.texts.get(word.style.address)
    return text.order if text else 0


def _overlapping_words(words: Sequence[PdfWord]) -> Iterator[tuple[int, int]]:
    """Yield pairs of words at the same place, at most 10,000 of them."""
    left = 10_000
    for shift in (0.0, 3.0):
        rows: dict[int, list[int]] = defaultdict(list)
        for nth, word in enumerate(words):
            rows[int((word.middle + shift) / 6)].append(nth)
        for row in rows.values():
            row.sort(key=lambda nth: words[nth].left)
            for one, other in pairwise(row):
                common = words[one].right - words[other].left
                if common > 0.5 * min(
                    words[one].right - words[one].left, words[other].right - words[other].left
                ):
                    yield one, other
                    left -= 1
                    if not left:
                        return


class _PageDrawings:
    """What the drawing of a page shows of its words. Without pixels, it is judged by areas alone."""

    def __init__(self, frame: PdfFrame, drawing: PageDrawing, pixels: PagePixels | None, words: int) -> None:
        self._drawing = drawing
        self._pixels = pixels
        self._top = frame.height
        self._areas = drawing.areas[: max(50, _STEPS // max(1, words))]

    def shows(self, word: PdfWord) -> bool:
        """Return whether the drawing of a word can be seen."""
        pixels = self._pixels
        if pixels is None:
            return self._lies_open(word, None)
        rows, columns = pixels.place(word, self._top)
        if not rows or not columns:
            return False
        ground = pixels.ground(rows[len(rows) // 2], columns)
        if (not word.style.embedded and _WIDE.search(word.text)) or self._drawing.huge:
            return self._lies_open(word, ground)  # PDFium may have no font to draw it with
        if not _is_changed(pixels, rows, columns, word):
            return False
        text = self._drawing.texts.get(word.style.address)
        plain = text is not None and not text.nested
        if plain and word.style.shaped and _is_visible_on(word.style, *ground):
            return True
        least = _NEAR * 0.8 if len(rows) >= 13 else _NEAR * 0.5
        return any(pixels.difference(row, columns) >= least for row in rows)

    def _lies_open(self, word: PdfWord, ground: Ground | None) -> bool:
        """Return whether no area or image is drawn over a word, and its color differs from what is behind."""
        order = _draw_order(word, self._drawing)
        behind: Ground = ground or (_WHITE, _WHITE)
        for area in self._areas:
            if not area.box.holds(word.center, word.middle):
                continue
            if area.order > order and area.solid:
                return False
            if area.order < order and ground is None:
                if area.color is None:
                    return True
                behind = (area.color, area.color)
        return _is_visible_on(word.style, *behind)


def _is_changed(pixels: PagePixels, rows: range, columns: range, word: PdfWord) -> bool:
    """Return whether text is drawn over a good part of a box: not at its edge alone."""
    few = len(rows) < 5 or not _WRITTEN.search(word.text)
    hit = 0
    union = 0
    size = len(columns) * 3
    step = max(1, len(rows) // 8)
    for row in rows[::step]:
        line = pixels.changes(row, columns)
        if line.count(0) == size:
            continue
        hit += 1
        if few:
            return True
        union |= int.from_bytes(line, "little")
        if hit >= 2 and size - union.to_bytes(size, "little").count(0) >= size * 0.3:
            return True
    return hit > 0 and _WIDE.search(word.text) is not None and hit * step * 8 >= len(rows)


Ground = tuple[Color, Color]
"""The lowest and the highest value of each channel in a place."""

_SCALE = 1.5  # pixels a point
_PIXELS = 2_500_000
_SECONDS = 1.0  # of CPU time for one drawing


class PagePixels:
    """A page drawn with its text and without; ``scale``: pixels a point."""

    def __init__(self, drawn: bytes, bare: bytes, wide: int, high: int, scale: float) -> None:
        self._drawn, self._bare = drawn, bare
        self._wide, self._high, self._scale = wide, high, scale
        changed = int.from_bytes(drawn, "little") ^ int.from_bytes(bare, "little")
        self._changed = changed.to_bytes(len(drawn), "little")

    def place(self, word: PdfWord, top: float) -> tuple[range, range]:
        """Return the rows and the columns of a word; ``top`` is the height of the page."""
        scale = self._scale
        rows = range(
            max(0, int((top - word.top) * scale)), min(self._high, int((top - word.bottom) * scale) + 1)
        )
        return rows, range(max(0, int(word.left * scale)), min(self._wide, int(word.right * scale) + 1))

    def _pixel_slice(self, row: int, columns: range) -> slice:
        at = row * self._wide
        return slice((at + columns.start) * 3, (at + columns.stop) * 3)

    def changes(self, row: int, columns: range) -> bytes:
        """Return zeros where the text changes nothing."""
        return self._changed[self._pixel_slice(row, columns)]

    def ground(self, row: int, columns: range) -> Ground:
        """Return what is behind the text."""
        line = self._bare[self._pixel_slice(row, columns)]
        red, green, blue = line[::3], line[1::3], line[2::3]
        return (min(red), min(green), min(blue)), (max(red), max(green), max(blue))

    def difference(self, row: int, columns: range) -> int:
        """Return the largest change of a channel."""
        part = self._pixel_slice(row, columns)
        one, other = self._drawn[part], self._bare[part]
        return max(map(abs, map(sub, one, other))) if one != other else 0


def drawn_twice(page: Any, frame: PdfFrame, drawing: PageDrawing) -> PagePixels | None:
    """Return the pixels of a page; None if drawing it takes too long. Its text objects are inactive then."""
    import pypdfium2.raw as raw

    scale = min(_SCALE, (_PIXELS / max(1.0, frame.width * frame.height)) ** 0.5)
    wide, high = max(1, round(frame.width * scale)), max(1, round(frame.height * scale))
    for image in drawing.huge:
        raw.FPDFPageObj_SetIsActive(image, False)
    drawn = _rendered_rows(page, wide, high)
    if drawn is None:
        return None
    for text in drawing.texts.values():
        raw.FPDFPageObj_SetIsActive(text.handle, False)
    bare = _rendered_rows(page, wide, high)
    return PagePixels(drawn, bare, wide, high, scale) if bare is not None else None


def _rendered_rows(page: Any, wide: int, high: int) -> bytes | None:
    """Return rows of red, green and blue."""
    import pypdfium2
    import pypdfium2.raw as raw

    start = process_time()
    pause = raw.IFSDK_PAUSE(version=1)
    ask = type(pause.NeedToPauseNow)
    pause.NeedToPauseNow = ask(lambda _: int(process_time() - start > _SECONDS))
    bitmap = pypdfium2.PdfBitmap.new_native(wide, high, raw.FPDFBitmap_BGR, rev_byteorder=True)
    bitmap.fill_rect((255, 255, 255, 255), 0, 0, wide, high)
    flags = raw.FPDF_ANNOT | raw.FPDF_REVERSE_BYTE_ORDER
    try:
        state = raw.FPDF_RenderPageBitmap_Start(bitmap, page, 0, 0, wide, high, 0, flags, pointer(pause))
        if state != raw.FPDF_RENDER_DONE:
            return None
        pixels, stride = bytes(bitmap.buffer), bitmap.stride
    finally:
        raw.FPDF_RenderPage_Close(page)
        bitmap.close()
    if stride == wide * 3:
        return pixels
    return b"".join(pixels[row * stride : row * stride + wide * 3] for row in range(high))
