"""Which words of a page a reader sees.

PDFium draws the page twice within a bounded time, with its text and without. A word is seen if that makes a
difference where it is: this holds for text under images and areas, clipped text, layers that are off,
transparency and colors alike. Pages on which nothing can hide text are judged by the styles of their text
alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from ctypes import byref, c_ulong, c_ushort, pointer
from dataclasses import dataclass
from itertools import pairwise
from operator import sub
from time import process_time
from typing import Any

from tabane.reader.formats.pdf.page_objects import (
    Color,
    PageDrawing,
    PdfBox,
    PdfFrame,
    PdfWord,
    TextObject,
    TextStyle,
)

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
        is_suspect = self._known.get(style.address)
        if is_suspect is None:
            text = self._drawing.texts.get(style.address)
            is_suspect = (
                text is None
                or not style.shaped
                or _is_special(text)
                or not _is_visible_on(style, _WHITE, _WHITE)
            )
            self._known[style.address] = is_suspect
        if is_suspect or self._many:
            return True
        box = None
        for area in self._drawing.areas:
            if box is None:  # its edge may touch what is above or below
                part = (word.top - word.bottom) * 0.25
                box = PdfBox(word.left, word.bottom + part, word.right, word.top - part)
            if area.box.meets(box) and (
                area.order > draw_order(word, self._drawing)
                or area.color is None
                or not _is_visible_on(word.style, area.color, area.color)
            ):
                return True
        return False


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
    covered: set[int] = set()
    for one, other in _overlapping_words(words):
        orders = [draw_order(words[nth], drawing) for nth in (one, other)]
        lower = one if orders[0] < orders[1] else other
        word = words[lower]
        if any(
            area.solid and min(orders) < area.order < max(orders) and area.box.holds(word.center, word.middle)
            for area in drawing.areas[:2000]
        ):
            covered.add(lower)
    return covered


def draw_order(word: PdfWord, drawing: PageDrawing) -> int:
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
        order = draw_order(word, self._drawing)
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
    drawn = rendered_rows(page, wide, high, _SECONDS)
    if drawn is None:
        return None
    for text in drawing.texts.values():
        raw.FPDFPageObj_SetIsActive(text.handle, False)
    bare = rendered_rows(page, wide, high, _SECONDS)
    return PagePixels(drawn, bare, wide, high, scale) if bare is not None else None


def rendered_rows(page: Any, wide: int, high: int, seconds: float, *, gray: bool = False) -> bytes | None:
    """Return rows of red, green and blue, or of one gray byte for each pixel; None if it takes too long.

    ``seconds`` are of CPU time.
    """
    import pypdfium2
    import pypdfium2.raw as raw

    start = process_time()
    pause = raw.IFSDK_PAUSE(version=1)
    pause.NeedToPauseNow = type(pause.NeedToPauseNow)(lambda _: int(process_time() - start > seconds))
    kind, flag, size = (
        (raw.FPDFBitmap_Gray, raw.FPDF_GRAYSCALE, 1)
        if gray
        else (raw.FPDFBitmap_BGR, raw.FPDF_REVERSE_BYTE_ORDER, 3)
    )
    bitmap = pypdfium2.PdfBitmap.new_native(wide, high, kind, rev_byteorder=not gray)
    bitmap.fill_rect((255, 255, 255, 255), 0, 0, wide, high)
    flags = raw.FPDF_ANNOT | flag
    try:
        state = raw.FPDF_RenderPageBitmap_Start(bitmap, page, 0, 0, wide, high, 0, flags, pointer(pause))
        if state != raw.FPDF_RENDER_DONE:
            return None
        pixels, stride = bytes(bitmap.buffer), bitmap.stride
    finally:
        raw.FPDF_RenderPage_Close(page)
        bitmap.close()
    width = wide * size
    if stride == width:
        return pixels
    return b"".join(pixels[row * stride : row * stride + width] for row in range(high))
