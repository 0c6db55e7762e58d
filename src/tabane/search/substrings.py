"""Text as overlapping pairs of characters, so that an index finds any substring of any script; pure.

Every character of a text begins exactly one token: a pair with the character after it, and the last one
stands alone. A substring of two characters or more is then a phrase of pairs side by side, and a single
character the beginning of a token: exactly, so that no look at the text is needed to be sure. Compared
is the text in one case and width (:func:`~tabane.search.analysis.normalise`); kana stay as they are.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from operator import add

from tabane.search.analysis import normalise

# Longer needles are hardly rarer than their first so many characters, and a phrase has its price.
MOST_PAIRS = 64

# Unicode keeps these for programs' own use; in a text they are a mistake, and all taken for one.
_OWN = range(0xFDD0, 0xFDEF)
_BLANK = "\ufdef"
_ANY_OWN = 0x1FFFE
_MISTAKEN = chr(_ANY_OWN)
_MISTAKE = re.compile("[\ufdd0-\ufdef\U0001fffe]")
_OTHERS = re.compile("[\\s\ufdd0-\ufdee\U0001fffe]")


def substring_tokens(text: str) -> list[str]:
    """The tokens of a text in order, as many as it has characters once it is normalised."""
    spelt = _spelt(normalise(text))
    return [*map(add, spelt, spelt[1:]), spelt[-1]] if spelt else []


def needle_tokens(needle: str) -> list[str]:
    """The tokens that stand side by side where the needle is held, at most 64 of them.

    For a needle of one character: what a token begins with there. See :func:`is_single`, :func:`is_whole`.
    """
    spelt = _spelt(normalise(needle)[: MOST_PAIRS + 1])
    return list(map(add, spelt, spelt[1:])) if len(spelt) > 1 else [spelt]


def is_single(needle: str) -> bool:
    """Whether the needle is one character, and its token the beginning of others."""
    return len(normalise(needle)) == 1


def is_whole(needle: str) -> bool:
    """Whether the tokens say all of the needle; else the text itself has the last word."""
    return len(normalise(needle)) <= MOST_PAIRS + 1 and not _MISTAKE.search(needle)


def _spelt(text: str) -> str:
    """The text with characters that are none for white space: tokens are joined by blanks."""
    # One that is there already is no blank; of blanks most texts have this one alone.
    text = text.replace(_BLANK, _MISTAKEN).replace(" ", _BLANK)
    return text.translate(_spellings()) if _OTHERS.search(text) else text


@lru_cache(maxsize=1)
def _spellings() -> dict[int, int]:
    blanks = [code for code in range(sys.maxunicode + 1) if chr(code).isspace()]
    return dict(zip(blanks, _OWN, strict=False)) | dict.fromkeys(_OWN, _ANY_OWN)
