"""A page as pixels, drawn by PDFium with its text and without, within a bounded time."""

from __future__ import annotations

from ctypes import pointer
from operator import sub
from time import process_time
from typing import Any

from tabane.reader.formats.pdf.characters import Colour, PdfWord
from tabane.reader.formats.pdf.drawing import PageDrawing
from tabane.reader.formats.pdf.geometry import PdfFrame

Ground = tuple[Colour, Colour]
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

    def _slice(self, row: int, columns: range) -> slice:
        at = row * self._wide
        return slice((at + columns.start) * 3, (at + columns.stop) * 3)

    def changes(self, row: int, columns: range) -> bytes:
        """Return zeros where the text changes nothing."""
        return self._changed[self._slice(row, columns)]

    def ground(self, row: int, columns: range) -> Ground:
        """Return what is behind the text."""
        line = self._bare[self._slice(row, columns)]
        red, green, blue = line[::3], line[1::3], line[2::3]
        return (min(red), min(green), min(blue)), (max(red), max(green), max(blue))

    def difference(self, row: int, columns: range) -> int:
        """Return the largest change of a channel."""
        part = self._slice(row, columns)
        one, other = self._drawn[part], self._bare[part]
        return max(map(abs, map(sub, one, other))) if one != other else 0


def drawn_twice(page: Any, frame: PdfFrame, drawing: PageDrawing) -> PagePixels | None:
    """Return the pixels of a page; None if drawing it takes too long. Its text objects are inactive then."""
    import pypdfium2.raw as raw

    scale = min(_SCALE, (_PIXELS / max(1.0, frame.width * frame.height)) ** 0.5)
    wide, high = max(1, round(frame.width * scale)), max(1, round(frame.height * scale))
    for image in drawing.huge:
        raw.FPDFPageObj_SetIsActive(image, False)
    drawn = _pixels(page, wide, high)
    if drawn is None:
        return None
    for text in drawing.texts.values():
        raw.FPDFPageObj_SetIsActive(text.handle, False)
    bare = _pixels(page, wide, high)
    return PagePixels(drawn, bare, wide, high, scale) if bare is not None else None


def _pixels(page: Any, wide: int, high: int) -> bytes | None:
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
