"""Skeletons of names and words: letters of other scripts that look like Latin ones, replaced by those.

The table is a part of Unicode's list of confusable characters (UTS #39): single letters of Cyrillic, Greek,
Armenian, Coptic, Cherokee, Lisu and Latin that look like a letter of ASCII. What is left of them after NFKC
is enough for words. The library that holds all of the list was released last in January 2024.
"""

from __future__ import annotations

import re
import unicodedata

_LOOKALIKES = {
    "a": "ɑΑαАаᎪꓮ",
    "b": "ƄΒВЬᏏᏴꓐꞴ",
    "c": "ϲϹСсᏟᴄⲤⲥꓚꮯ",
    "d": "ԁᎠᏧꓒꓓ",
    "e": "ΕЕеҽᎬꓰꬲ",
    "f": "ϜքẝꓝꞘꞙꬵ",
    "g": "ƍɡԌցᏀᏳᶃꓖ",
    "h": "ΗНһհᎻᏂⲎꓧ",
    "i": "ıɩɪͺΙιІіӏᎥιꙇꭵ",
    "j": "ͿϳЈјᎫꓙꞲ",
    "k": "ΚКᏦⲔꓗ",
    "l": "ƖǀӀᏞⲒⳐꓡꓲ",
    "m": "ΜϺМᎷⲘꓟ",
    "n": "ΝոռⲚꓠ",
    "o": "ΟοσОоՕօᴏᴑⲞⲟꓳꬽ",
    "p": "ΡρϱРрᏢⲢⲣꓑ",
    "q": "ԛգզ",
    "r": "ƦгᎡᏒᴦⲅꓣꭇꭈꮁ",
    "s": "ƽЅѕՏᏕᏚꓢꜱꮪ",
    "t": "ΤТᎢⲦꓔ",
    "u": "ʋυՍսᴜꓴꞟꭎꭒ",
    "v": "νѴѵᏙᴠꓦꮩ",
    "w": "ɯѡԜԝաᎳᏔᴡꓪꮃ",
    "x": "ΧХхⲬꓫꞳ",
    "y": "ɣʏΥγϒУуҮүᎩᎽᶌỿⲨꓬꭚ",
    "z": "ΖᏃᴢꓜꮓ",
}
_TO_ASCII = {ord(sign): letter for letter, signs in _LOOKALIKES.items() for sign in signs}
_SIGNS = "".join(_LOOKALIKES.values())

_WORDS = re.compile(r"[^\W\d_]+")
_LATIN = re.compile("[A-Za-z]")
_FOREIGN = re.compile("[\u0370-\u058f\u13a0-\u13ff\u2c80-\u2cff\ua4d0-\ua4ff\uab30-\uabbf]")
_MIXED = re.compile(
    "[A-Za-z][\u0370-\u058f\u13a0-\u13ff\u2c80-\u2cff\ua4d0-\ua4ff]"
    "|[\u0370-\u058f\u13a0-\u13ff\u2c80-\u2cff\ua4d0-\ua4ff][A-Za-z]"
)
_LEET = str.maketrans("013457@$!|", "oieastasil")
_DIGIT_INSIDE = re.compile(r"[013457@$!|](?<=[a-z].)[013457@$!|]*+[a-z]")
_WRITTEN_LEET = re.compile(
    r"(?<![\w@$])(?=[\w@$!|]{0,40}[a-z])(?=[\w@$!|]{0,40}[0134@$5!|])[a-z0134@$57!|]{4,24}(?![\w@$])"
)
_SPACED = re.compile(r"(?<![^\W_])(?:[^\W_][ .*_-]{1,2}){7,}[^\W_](?![^\W_])")
_SPACED_LETTERS = re.compile(r"[ .*_-][^\W_][ .*_-]{1,2}[^\W_][ .*_-]{1,2}[^\W_][ .*_-]")
_ORDERS = re.compile(
    "previousinstruction|priorinstruction|allinstruction|ignore(?:all|the|any|prev)|donottell|telltheuser|systemprompt|idrsa|ssh/|privatekey"
    "|password|credential|apikey|sendto|readthe|readfile|curl|conversation|theuser"
)
_FOLDED = (("rn", "m"), ("vv", "w"), ("cl", "d"))
_SHAPES = str.maketrans("1i|0-\u2010\u2011\u2012\u2013\u2014\u2212", "lllo" + "_" * 7)


def skeleton(text: str) -> str:
    """Return a text in small letters, in which each letter that looks like one of ASCII is that letter."""
    return unicodedata.normalize("NFKC", text).translate(_TO_ASCII).lower()


def shape(name: str) -> str:
    """Return what a name looks like: names that are easily taken for each other have the same shape."""
    looks = skeleton(name).translate(_SHAPES)
    for two, one in _FOLDED:
        looks = looks.replace(two, one)
    return looks


def disguised_words(text: str) -> list[str]:
    """Return the words that mix Latin letters with letters of another script that look like Latin ones."""
    if text.isascii() or _MIXED.search(text) is None:
        return []
    words = (found[0] for found in _WORDS.finditer(text) if _FOREIGN.search(found[0]))
    return [word for word in words if len(_LATIN.findall(word)) >= 2 and skeleton(word).isascii()]


def undisguised(text: str) -> str:
    """Return a text with the words that mix scripts written in Latin letters."""
    if text.isascii() or _MIXED.search(text) is None:
        return text
    return _WORDS.sub(lambda found: skeleton(found[0]) if _MIXED.search(found[0]) else found[0], text)


def without_leet(text: str) -> str | None:
    """Return a text in small letters without digits for letters (``1gn0re``); None if few words have them."""
    if len(_DIGIT_INSIDE.findall(text)) < 3 or len(_WRITTEN_LEET.findall(text)) < 3:
        return None
    return _WRITTEN_LEET.sub(lambda found: found[0].translate(_LEET), text)


def spaced_orders(text: str) -> str | None:
    """Return the spaced letters (``i g n o r e``) of a text, joined, if they are an order; None otherwise."""
    if _SPACED_LETTERS.search(text) is None:
        return None
    joined = " ".join(re.sub("[ .*_-]", "", found[0]) for found in _SPACED.finditer(text))
    return joined if _ORDERS.search(joined) else None
