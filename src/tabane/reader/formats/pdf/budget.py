"""What a document may cost: words, drawn objects and seconds of CPU time."""

from __future__ import annotations

from time import process_time

_WORDS = 300_000  # that are put in paragraphs and tables
_OBJECTS = 200_000
_LAYOUT = 4.5  # seconds: later pages are text without layout
_DRAWING = 2.5
_WHOLE = 7.5  # seconds: later pages are not read


class PdfBudget:
    """What is left of a document's budget."""

    def __init__(self) -> None:
        self._start = process_time()
        self._drawn = 0.0
        self._words = _WORDS
        self._objects = _OBJECTS

    @property
    def seconds(self) -> float:
        """Return the CPU time since the start."""
        return process_time() - self._start

    @property
    def objects(self) -> int:
        """Return how many drawn objects may still be read."""
        return self._objects

    def spend(self, words: int, objects: int) -> None:
        """Count a page's words and objects."""
        self._words -= words
        self._objects -= objects

    def spend_drawing(self, seconds: float) -> None:
        """Count the CPU time of drawing a page."""
        self._drawn += seconds

    @property
    def has_layout(self) -> bool:
        """Return whether the next page may be laid out."""
        return self._words > 0 and self._objects > 0 and self.seconds < _LAYOUT

    @property
    def draws(self) -> bool:
        """Return whether the next page may be drawn to see what hides its text."""
        return self._drawn < _DRAWING and self.seconds < _LAYOUT + 1

    @property
    def is_spent(self) -> bool:
        """Return whether no more pages may be read."""
        return self.seconds > _WHOLE
