"""Overlapping pairs of characters, by which an index finds any substring in any script; pure.

Each character of a text begins exactly one token: the pair with the next character. The last character is a
token of its own. So a substring of two or more characters is a phrase of pairs, and a single character is the
beginning of a token. Both are exact, and the text need not be checked. Texts are compared in one spelling
(:func:`~tabane.search.analysis.substring_spelling`). Hiragana and katakana remain different.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from operator import add

from tabane.search.analysis import substring_spelling

# A longer needle is hardly rarer than this many of its characters, and a longer phrase costs more.
MOST_PAIRS = 64

# Unicode reserves these for internal use. In a text they are a mistake, and all count as the same one.
_OWN = range(0xFDD0, 0xFDEF)
_BLANK = "\ufdef"
_ANY_OWN = 0x1FFFE
_MISTAKEN = chr(_ANY_OWN)
_MISTAKE = re.compile("[\ufdd0-\ufdef\U0001fffe]")
_OTHERS = re.compile("[\\s\ufdd0-\ufdee\U0001fffe]")


def substring_tokens(text: str) -> list[str]:
    """Return the tokens of a text in order, one for each character of the normalized text."""
    spelt = _spelt(substring_spelling(text))
    return [*map(add, spelt, spelt[1:]), spelt[-1]] if spelt else []


def needle_tokens(needle: str) -> list[str]:
    """Return the tokens that are adjacent in each text that contains the needle, at most 64.

    For a needle of one character: the beginning of a token. See :func:`is_single`, :func:`is_whole`.
    """
    spelt = _spelt(substring_spelling(needle)[: MOST_PAIRS + 1])
    return list(map(add, spelt, spelt[1:])) if len(spelt) > 1 else [spelt]


def is_single(needle: str) -> bool:
    """Return whether the needle is one character, and its token therefore the beginning of others."""
    return len(substring_spelling(needle)) == 1


def is_whole(needle: str) -> bool:
    """Return whether the tokens cover the whole needle. If not, the text must be checked."""
    return len(substring_spelling(needle)) <= MOST_PAIRS + 1 and not _MISTAKE.search(needle)


def _spelt(text: str) -> str:
    """Return the text with white space replaced by reserved characters, since tokens are joined by spaces."""
    # A reserved character in the text is not a space. The only white space of most texts is the space.
    text = text.replace(_BLANK, _MISTAKEN).replace(" ", _BLANK)
    return text.translate(_spellings()) if _OTHERS.search(text) else text


@lru_cache(maxsize=1)
def _spellings() -> dict[int, int]:
    blanks = [code for code in range(sys.maxunicode + 1) if chr(code).isspace()]
    return dict(zip(blanks, _OWN, strict=False)) | dict.fromkeys(_OWN, _ANY_OWN)
