"""Which signals to look for in a text: those of the languages that it may be in."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tabane.guard.scanner.english_patterns import ENGLISH
from tabane.guard.scanner.foreign_patterns import CHINESE, FRENCH, GERMAN, KOREAN, RUSSIAN, SPANISH
from tabane.guard.scanner.japanese_patterns import JAPANESE
from tabane.guard.scanner.marked_patterns import MARKED
from tabane.guard.scanner.signals import Signal

_KANA = re.compile("[\u3041-\u30ff]")
_HAN = re.compile("[\u3400-\u9fff]")
_HANGUL = re.compile("[\uac00-\ud7af]")
_CYRILLIC = re.compile("[\u0400-\u04ff]{3}")

_BY_WORDS = (
    (
        frozenset(
            [
                "el",
                "los",
                "las",
                "del",
                "una",
                "esta",
                "este",
                "que",
                "con",
                "por",
                "para",
                "no",
                "sin",
                "su",
                "en",
                "herramienta",
            ]
        ),
        SPANISH,
    ),
    (
        frozenset(
            [
                "der",
                "das",
                "und",
                "den",
                "dem",
                "ist",
                "nicht",
                "mit",
                "für",
                "ein",
                "eine",
                "zu",
                "auf",
                "du",
                "alle",
                "dieses",
            ]
        ),
        GERMAN,
    ),
    (
        frozenset(
            [
                "le",
                "les",
                "des",
                "une",
                "cette",
                "cet",
                "dans",
                "du",
                "et",
                "pour",
                "sans",
                "tu",
                "vous",
                "toute",
                "toutes",
                "l'outil",
                "outil",
            ]
        ),
        FRENCH,
    ),
)
_FEW = 2


def signals_for(text: str, words: frozenset[str]) -> Iterator[Signal]:
    """Yield the signals of marks and of English, and of each other language that a text has traces of."""
    yield from MARKED
    yield from ENGLISH
    for typical, signals in _BY_WORDS:
        if len(typical & words) >= _FEW:
            yield from signals
    if text.isascii():
        return
    if _KANA.search(text):
        yield from JAPANESE
    if _HAN.search(text):
        yield from CHINESE
    if _HANGUL.search(text):
        yield from KOREAN
    if _CYRILLIC.search(text):
        yield from RUSSIAN
