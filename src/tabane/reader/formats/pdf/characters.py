"""Words of a page with their boxes and their styles, from PDFium's characters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from ctypes import CFUNCTYPE, byref, c_double, c_int, c_uint, c_void_p, cast, create_string_buffer
from dataclasses import dataclass
from typing import Any, NamedTuple

from tabane.reader.formats.pdf.geometry import PdfBox, PdfFrame

_WORD = re.compile(r"[^\s\x00]+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_TYPED = re.compile(rb"mono|courier|consol|menlo|typewriter|cmtt|hack|firacode|sourcecode", re.I)
_BOLD = re.compile(rb"bold|black|heavy|cmbx|-w[6-9]\b|demi", re.I)
_CUT = 10  # characters after which a word without spaces is cut, so that its boxes are exact
_FORCED_BOLD = 1 << 18

Colour = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class TextStyle:
    """How a text object is drawn. ``mode`` is that of ISO 32000-1, table 106; ``alpha`` is 0..255.

    ``upright``: it is written from left to right. ``embedded``: the file has the font's shapes.
    ``address`` is the object's. ``shaped``: its first letter has a shape, and its font is no program of
    the file (Type 3), whose letters may draw nothing.
    """

    address: int
    colour: Colour
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
        return (self.bottom + self.top) / 2

    @property
    def center(self) -> float:
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
    for number, line in enumerate(_characters(text).split("\r\n")):
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


def _characters(text: Any) -> str:
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
        for start, end in self._cuts(word, first):
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

    def _cuts(self, word: str, first: int) -> Iterator[tuple[int, int]]:
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
        style = self._style(first)
        left, bottom, right, top = self._box(first)
        if text[-1] == "\x02":  # a hyphen at the end of a line, whose place PDFium does not say
            last -= 1
        if last > first:
            other = self._box(last)
            left, bottom = min(left, other[0]), min(bottom, other[1])
            right, top = max(right, other[2]), max(top, other[3])
        box = self._frame.box(left, bottom, right, top)
        if _SURROGATE.search(text):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if len(text) == 1 and "\ue000" <= text <= "\uf8ff":
            text = "•"  # of a font of symbols, which are bullets where they are words
        size = style.scale if style.scale > 0 else box.height
        return PdfWord(text, *box, round(size, 1), style, line, glued)

    def _box(self, index: int) -> tuple[float, float, float, float]:
        loose = self._loose
        if not self._raw.FPDFText_GetLooseCharBox(self._text, index, self._reference):
            return 0.0, 0.0, 0.0, 0.0
        return loose.left, loose.bottom, loose.right, loose.top

    def _style(self, index: int) -> TextStyle:
        address = self._address(self._page, index)
        if not address:
            self._last = self._last or self._read(index, 0)
            return self._last
        style = self._styles.get(address)
        if style is None:
            style = self._styles[address] = self._read(index, address)
        self._last = style
        return style

    def _read(self, index: int, address: int) -> TextStyle:
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
