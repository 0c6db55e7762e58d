"""Scanned pages of a PDF: pictures of pages, read by OCR.

A page without text is drawn and read. The invisible text layer of a scan is used only as far as it agrees
with what OCR reads in the picture: a layer can hold any text, and nobody sees it. What is not checked,
because the time is spent or tesseract is missing, is shown with a warning.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tabane.reader.formats.ocr import (
    MOST_PIXELS,
    RESOLUTION,
    GrayPicture,
    TextRecognizer,
    can_recognize,
    recognized_markdown,
)
from tabane.reader.formats.pdf.seen_words import rendered_rows

_DRAWING = 2.0  # seconds of CPU time for one page
_CHECKING = 12.0  # seconds by the clock to compare text layers: they are there already
_POINTS = 72  # of an inch
_ALIKE = 0.4  # of the character sequences of a text that OCR reads as well
_WIDE = re.compile("[\u2e80-\u9fff\uf900-\ufaff\uff66-\uff9f]")


@dataclass(slots=True)
class ScanReader:
    """Reads the scans of a document. ``compared`` counts the pages whose text layer was compared."""

    document: Any
    compared: int = 0
    _recognizer: TextRecognizer = field(default_factory=TextRecognizer)

    @property
    def works(self) -> bool:
        """Return whether tesseract is installed."""
        return can_recognize()

    def text(self, number: int) -> str | None:
        """Return the Markdown of a page, "" if it shows no text; None if it was not read."""
        paragraphs = self._paragraphs(number)
        return None if paragraphs is None else recognized_markdown(paragraphs)

    def picture_text(self, number: int) -> PictureText | None:
        """Return the text to compare the layer of a page with; None if it was not read."""
        if self._recognizer.left < self._recognizer.seconds - _CHECKING:
            return None
        paragraphs = self._paragraphs(number)
        self.compared += paragraphs is not None
        return None if paragraphs is None else PictureText(paragraphs)

    def _paragraphs(self, number: int) -> list[str] | None:
        if not self.works or self._recognizer.left <= 0:
            return None
        page = self.document[number]
        try:
            picture = _drawn(page)
        finally:
            page.close()
        return None if picture is None else self._recognizer.paragraphs(picture)


class PictureText:
    """What OCR reads in the picture of a page."""

    def __init__(self, paragraphs: Sequence[str]) -> None:
        self.markdown = recognized_markdown(paragraphs)
        letters = _letters("".join(paragraphs))
        self._known = {length: _sequences(letters, length) for length in (2, 5)}

    def has(self, text: str) -> bool:
        """Return whether a text is in the picture, as far as OCR errs: by sequences of characters.

        Five letters of a Latin script, or two characters of a Japanese text, seldom agree by chance.
        """
        letters = _letters(text)
        length = 2 if len(_WIDE.findall(letters)) * 2 >= len(letters) else 5
        parts = _sequences(letters, length)
        return not parts or len(parts & self._known[length]) >= _ALIKE * len(parts)


def _letters(text: str) -> str:
    return "".join(each for each in unicodedata.normalize("NFKC", text).casefold() if each.isalnum())


def _sequences(letters: str, length: int) -> set[str]:
    return {letters[at : at + length] for at in range(max(len(letters) - length + 1, min(len(letters), 1)))}


def _drawn(page: Any) -> GrayPicture | None:
    """Return the picture of a page as readers see it; None if drawing it takes too long."""
    width, height = page.get_size()
    scale = min(RESOLUTION / _POINTS, (MOST_PIXELS / max(1.0, width * height)) ** 0.5)
    wide, high = max(1, int(width * scale)), max(1, int(height * scale))
    if wide * high > MOST_PIXELS:
        return None
    pixels = rendered_rows(page, wide, high, _DRAWING, gray=True)
    return None if pixels is None else GrayPicture(wide, high, pixels)
