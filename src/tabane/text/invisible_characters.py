"""Invisible characters in text: which a writing system needs, and the text without the others. Pure.

Invisible characters can carry instructions that a person does not see: tag characters, runs of variation
selectors, controls that reverse the direction of text. Those that a writing system needs are kept: joiners in
emoji and in Persian or Hindi, the single selector after a kanji in a name, direction marks next to Hebrew and
Arabic, break marks of Thai and Khmer.

Sources: Unicode 17, chapter 23; UTS #39 on invisible characters; UTS #51 for sequences of emoji; UTS #37 for
variants of ideographs.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

_CONTROL = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufff9-\ufffb"
_TURNING = "\u200e\u200f\u061c\u202a-\u202e\u2066-\u206f"
_NOTHING_WIDE = "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200d\u2060-\u2065\u3164\ufeff\uffa0"
_VARYING = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_TAGS = "\U000e0000-\U000e00ff"
_BROKEN = "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"

_UNSEEN = re.compile(f"[{_CONTROL}{_TURNING}{_NOTHING_WIDE}{_VARYING}{_TAGS}{_BROKEN}\U0001d173-\U0001d17a]+")
_NEWLINES = re.compile("\r\n?|[\u2028\u2029\x85\x0b\x0c]")

# England, Scotland and Wales: the flags of tags that Unicode recommends. Other sequences hide text.
_FLAGS = tuple(
    "".join(chr(0xE0000 + ord(c)) for c in name) + "\U000e007f" for name in ("gbeng", "gbsct", "gbwls")
)

_KINDS = {
    "control": re.compile(f"[{_CONTROL}]"),
    "direction": re.compile(f"[{_TURNING}]"),
    "tag": re.compile(f"[{_TAGS}]"),
    "variation selector": re.compile(f"[{_VARYING}]"),
    "broken": re.compile(f"[{_BROKEN}]"),
}
ZERO_WIDTH = "zero-width"
"""The kind of an invisible character that is none of the others."""
_JOINING = re.compile(
    "ARABIC|SYRIAC|MONGOLIAN|NKO|DEVANAGARI|BENGALI|GURMUKHI|GUJARATI|ORIYA|TAMIL|TELUGU|KANNADA|MALAYALAM|"
    "SINHALA|MYANMAR|KHMER|TIBETAN|BALINESE"
)
_WITHOUT_BLANKS = re.compile("THAI|LAO|KHMER|MYANMAR|TIBETAN|BALINESE|JAVANESE|TAI")


class CleanedText(NamedTuple):
    """The text as a person sees it, and how many characters of which kind were taken out of it."""

    text: str
    removed: Mapping[str, int]


def has_unseen(text: str) -> bool:
    """Return whether cleaning may change the text."""
    return _UNSEEN.search(text) is not None


def cleaned(text: str) -> CleanedText:
    """Return the text without invisible characters, with line feeds as line ends."""
    text = _NEWLINES.sub("\n", text)
    if text.isascii() and text.isprintable():
        return CleanedText(text, {})
    removed: Counter[str] = Counter()

    def left(run: re.Match[str]) -> str:
        kept = _kept(
            run.group(), text[max(0, run.start() - 4) : run.start()], text[run.end() : run.end() + 1]
        )
        removed.update(_kind(character) for character in run.group())
        removed.subtract(_kind(character) for character in kept)
        return kept

    text = _UNSEEN.sub(left, text)
    return CleanedText(text, {kind: count for kind, count in removed.items() if count > 0})


def _kind(character: str) -> str:
    return next((kind for kind, pattern in _KINDS.items() if pattern.match(character)), ZERO_WIDTH)


def _kept(run: str, before: str, after: str) -> str:
    """Return the part of a run of invisible characters to keep, given the text before and after it."""
    if before.endswith("\U0001f3f4") and run in _FLAGS:
        return run
    kept = ""
    if (re.match(f"[{_VARYING}]", run[0]) is not None) and _takes(before[-1:], run[0]):
        kept, run = run[0], run[1:]
    if len(run) == 1 and _belongs(run, before, after, bool(kept)):
        kept += run
    return kept


def _takes(base: str, selector: str) -> bool:
    """Return whether a character has variants: a symbol its emoji, an ideograph the forms that names have."""
    if not base:
        return False
    if selector >= "\U000e0100":
        return _is_ideograph(base)
    if selector <= "\u180f":
        return unicodedata.name(base, "").startswith("MONGOLIAN")
    if selector >= "\ufe0e":
        return base in "#*0123456789" or unicodedata.category(base) in ("So", "Sm", "Po", "Pd", "Sk")
    return _is_ideograph(base) or unicodedata.category(base) in ("Sm", "Po", "So") or base == "0"


def _belongs(mark: str, before: str, after: str, varied: bool) -> bool:
    """Return whether the surrounding text needs this mark."""
    base = before[-1:]
    if mark == "\u200d" and _is_emoji(after) and (varied or _is_emoji(base)):
        return True
    if mark in "\u200c\u200d":
        return _writes(base, _JOINING) and (mark == "\u200d" or _writes(after, _JOINING))
    if mark in "\u200b\u2060":
        return _writes(base, _WITHOUT_BLANKS) and _writes(after, _WITHOUT_BLANKS)
    if mark in "\u200e\u200f\u061c":
        return any(unicodedata.bidirectional(near) in ("R", "AL") for near in (*before, *after))
    return mark in "\u115f\u1160" and "\u1100" <= (after or base) <= "\u11ff"


def _is_emoji(character: str) -> bool:
    if not character:
        return False
    skin = "\U0001f3fb" <= character <= "\U0001f3ff"
    return skin or unicodedata.category(character) == "So" or character in "♀♂⚕⚖✈❤➡⬛↔↕"


def _is_ideograph(character: str) -> bool:
    return unicodedata.name(character, "").startswith("CJK ")


def _writes(character: str, scripts: re.Pattern[str]) -> bool:
    """Return whether a character belongs to one of these scripts, by its Unicode name."""
    return bool(character) and scripts.match(unicodedata.name(character, "")) is not None
