"""What is on a page.

Words with boxes and styles, rules, filled areas and images are read in the order of drawing, from PDFium's
characters and page objects. Forms are followed to a bounded depth, without recursion. Boxes are in points,
from the lower left corner of what is shown of the page, as it is turned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from ctypes import (
    CFUNCTYPE,
    byref,
    c_double,
    c_float,
    c_int,
    c_uint,
    c_void_p,
    cast,
    create_string_buffer,
)
from dataclasses import dataclass, field
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
    merged: list[tuple[float, float]] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1] + room:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged


def centers(values: list[float], room: float) -> list[float]:
    """Return the means of groups of values: neighbors within ``room`` of each other are one group."""
    groups: list[list[float]] = []
    for value in sorted(values):
        if groups and value - groups[-1][-1] <= room:
            groups[-1].append(value)
        else:
            groups.append([value])
    return [sum(group) / len(group) for group in groups]


_WORD = re.compile(r"[^\s\x00]+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_RESERVED = re.compile("[\ufdd0-\ufdef]")  # no characters of any text: the marks of ours
_DIVISION = "\x02\xad\ufffe"  # a hyphen at the end of a line, after which PDFium goes on with the same word
_TYPED = re.compile(rb"mono|courier|consol|menlo|typewriter|cmtt|hack|firacode|sourcecode", re.I)
_BOLD = re.compile(rb"bold|black|heavy|cmbx|-w[6-9]\b|demi", re.I)
_NUMBERED = re.compile(r"^ *\d{1,4} |(?<=\S) \d{1,4}\r?$", re.M)  # perhaps the number of a line, and its text
_PATTERNS = 100  # of a page that are drawn
_PLAIN_NAME = re.compile(  # of a font that is not bold, whatever the file says of its stems
    rb"regular|roman|book|light|medium|(?:^|\+)(?:cm|lm|sf|ec)(?!b|rb|roman)[a-z]{1,5}\d", re.I
)
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

    ``line`` counts the lines of PDFium, ``size`` is that of the font on the page, ``link`` is the number of
    the link that the word belongs to, -1 without one.
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
    link: int = -1

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
    """Facts of the fonts of a page, each asked for once: the next page may have others at their addresses."""

    def __init__(self) -> None:
        self._known: dict[int, _FontFacts] = {}

    def facts(self, text: Any, index: int, handle: Any) -> _FontFacts:
        """Return what is known about the font of a character; ``handle`` is its text object."""
        import pypdfium2.raw as raw

        font = raw.FPDFTextObj_GetFont(handle) if handle else None
        address = cast(font, c_void_p).value or 0 if font else 0
        font_facts = self._known.get(address)
        if font_facts is None or not address:
            name, flags = create_string_buffer(128), c_int()
            raw.FPDFText_GetFontInfo(text, index, name, len(name), byref(flags))
            weight = raw.FPDFText_GetFontWeight(text, index)
            bold = bool(_BOLD.search(name.value)) or (
                not _PLAIN_NAME.search(name.value) and (weight >= 600 or bool(flags.value & _FORCED_BOLD))
            )
            embedded = bool(font) and raw.FPDFFont_GetIsEmbedded(font) == 1
            typed = bool(_TYPED.search(name.value))
            font_facts = self._known[address] = _FontFacts(bold, typed, embedded, bool(name.value))
        return font_facts


def page_words(
    text: Any, frame: PdfFrame, fonts: FontTable, most: int, *, fine: bool = True, patterns: bool = False
) -> list[PdfWord]:
    """Return at most so many words of a text page, in the order of the page's own stream.

    Without ``fine`` a line that is drawn at once, with its spaces, is one word. ``patterns``: the document
    has some, and text may be filled with them.
    """
    reader = _WordReader(text, frame, fonts, patterns=patterns)
    words: list[PdfWord] = []
    at = 0
    characters = _page_characters(text)
    fine = fine or len(_NUMBERED.findall(characters)) >= 5
    for number, line in enumerate(characters.split("\r\n")):
        core = line.strip()
        first = at + len(line) - len(line.lstrip())
        if core and not fine and reader.is_one(core, first):
            whole = reader.piece(core, first, first + len(core) - 1, number)
            if whole.left >= 0 and whole.right <= frame.width:
                words.append(whole)
                at += len(line) + 2
                continue
        for word in _WORD.finditer(line):
            words.extend(reader.pieces(word[0], at + word.start(), number))
        at += len(line) + 2
        if len(words) > most:
            break
    return words[:most]


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

    def __init__(self, page: Any, frame: PdfFrame, fonts: FontTable, *, patterns: bool) -> None:
        import pypdfium2.raw as raw

        text = page.raw
        self._raw, self._text, self._frame, self._fonts = raw, text, frame, fonts
        self._document, self._patterns = page.page.pdf.raw, int(patterns)
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
        if "  " in line or "\0" in line or any(sign in line for sign in _DIVISION):
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
        is_divided = any(sign in word for sign in _DIVISION)
        if count <= _CUT and not is_divided and address(page, first) == address(page, first + count - 1):
            yield 0, count
            return
        start, before = 0, address(page, first)
        for nth in range(1, count):
            now = before if word[nth] in _DIVISION else address(page, first + nth)
            if now != before or nth - start >= _CUT or (is_divided and word[nth - 1] in _DIVISION):
                yield start, nth
                start, before = nth, now
        yield start, count

    def piece(self, text: str, first: int, last: int, line: int, *, glued: bool = False) -> PdfWord:
        """Return characters as a word."""
        style = self._char_style(first)
        left, bottom, right, top = self._char_box(first)
        if text[-1] in "\x02\ufffe" and last > first:  # PDFium does not say where this hyphen is
            last -= 1
        if last > first:
            other = self._char_box(last)
            left, bottom = min(left, other[0]), min(bottom, other[1])
            right, top = max(right, other[2]), max(top, other[3])
        box = self._frame.box(left, bottom, right, top)
        if _SURROGATE.search(text):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if _RESERVED.search(text):
            text = _RESERVED.sub("\ufffd", text)
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
        has_color = get(text, index, *map(byref, parts))
        red, green, blue, alpha = (part.value for part in parts) if has_color else (0, 0, 0, 255)
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
            facts.named and not self._has_pattern(handle) and self._has_shape(index),
        )

    def _has_pattern(self, handle: Any) -> bool:
        """Return whether letters are filled with a pattern, whose color PDFium does not say."""
        if not self._patterns or not handle:
            return False
        if self._patterns > _PATTERNS:
            return True
        bitmap = self._raw.FPDFPageObj_GetRenderedFillPattern(self._document, handle)
        if not bitmap:
            return False
        self._raw.FPDFBitmap_Destroy(bitmap)
        self._patterns += 1
        return True

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
_TILED = (191, 191, 191)  # what PDFium says of an area that is filled with a tiling pattern
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
    """The drawing of a page. ``texts`` are by address; ``huge`` are images too large to be decoded.

    Objects from the place ``late`` are those of annotations.
    """

    rules: list[PdfBox] = field(default_factory=list)
    areas: list[PdfArea] = field(default_factory=list)
    texts: dict[int, TextObject] = field(default_factory=dict)
    huge: list[Any] = field(default_factory=list)
    whole: bool = True
    late: int = 1 << 40

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


def page_drawing(page: Any, frame: PdfFrame, most: int, own: int) -> PageDrawing:
    """Return what is drawn on a page: at most so many objects, in ``whole`` whether these are all.

    ``own`` counts the objects of the page; those after them are of annotations.
    """
    drawing = PageDrawing()
    reader = _ObjectReader(frame, drawing)
    for order, (handle, kind, matrix, level) in enumerate(page_objects(page)):
        if order >= most:
            drawing.whole = False
            break
        if level.first >= own and order < drawing.late:
            drawing.late = order
        reader.add(handle, kind, matrix, order, nested=level.nested)
    drawing.areas.extend(_annotation_areas(page, frame))
    return drawing


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


class ObjectLevel(NamedTuple):
    """Where an object is: the number of the page's own object that it is or is in."""

    first: int
    nested: bool


def page_objects(page: Any) -> Iterator[tuple[Any, int, Matrix, ObjectLevel]]:
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
        yield handle, kind, matrix, ObjectLevel(stack[0][1] - 1, len(stack) > 1)


def _matrix_of(handle: Any) -> Matrix:
    import pypdfium2.raw as raw

    matrix = raw.FS_MATRIX()
    if not raw.FPDFPageObj_GetMatrix(handle, byref(matrix)):
        return _PLAIN
    return (matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f)


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
        has_color = self._raw.FPDFPageObj_GetFillColor(
            handle, byref(red), byref(green), byref(blue), byref(alpha)
        )
        if not has_color or self._raw.FPDFPageObj_HasTransparency(handle):
            return True, False, None
        color = (red.value, green.value, blue.value)
        return alpha.value > 200, False, None if color == _TILED else color

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
