"""Encoded text inside a text, decoded once: base64, hexadecimal, percent, escapes, entities, ROT13."""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from collections.abc import Collection, Iterator
from urllib.parse import unquote

MOST_PAYLOADS = 16
"""Encoded parts of a text that are decoded."""

_MOST_LENGTH = 16_384
_SHORTEST_BASE64 = 24

_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{24,}+={0,2}")
_HEX = re.compile(r"[0-9A-Fa-f](?<![0-9A-Fa-f]{2})[0-9A-Fa-f][ :,]?(?:[0-9A-Fa-f]{2}[ :,]?){15,}+")
_PERCENT = re.compile(r"(?<![\w.+-])(?:[\w.+-]++|%[0-9A-Fa-f]{2})++")
_PERCENTS = re.compile(r"%[0-9A-Fa-f]{2}")
_FEW_PERCENTS = 5
_ESCAPES = re.compile(r"(?:\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[0-7]{3})){6,}+")
_ENTITIES = re.compile(r"(?:&#(?:x[0-9A-Fa-f]{2,5}|[0-9]{2,6});?){6,}+")
_BINARY = re.compile(r"[01](?<![01]{2})[01]{7}[ ,]?(?:[01]{8}[ ,]?){7,}+")
_ROT13_WORDS = frozenset(
    {"gur", "naq", "lbh", "lbhe", "guvf", "vafgehpgvbaf", "vtaber", "hfre", "svyr", "ernq"}
)
_REVERSED_WORDS = frozenset({"eht", "dna", "uoy", "siht", "loot", "resu", "erongi", "elif", "daer", "ruoy"})


def decoded_payloads(text: str, words: Collection[str]) -> Iterator[str]:
    """Yield the texts that parts of a text encode. ``words`` are its words in small letters.

    What does not decode to readable text, such as a hash or a picture, is passed over.
    """
    left = MOST_PAYLOADS
    for decoded in _decoded(text):
        if readable(decoded):
            yield decoded
        left -= 1
        if not left:
            break
    if len(_ROT13_WORDS.intersection(words)) >= 2:
        yield codecs.decode(text, "rot13")
    if len(_REVERSED_WORDS.intersection(words)) >= 2:
        yield text[::-1]


def _decoded(text: str) -> Iterator[str]:
    if max(map(len, text.split()), default=0) >= _SHORTEST_BASE64:
        for found in _BASE64.finditer(text):
            yield _from_base64(found[0][:_MOST_LENGTH])
    for found in _HEX.finditer(text):
        yield _from_hex(found[0][:_MOST_LENGTH])
    if "%" in text:
        yield from _from_percents(text)
    if "\\" in text:
        for found in _ESCAPES.finditer(text):
            yield codecs.decode(found[0][:_MOST_LENGTH], "unicode_escape", "replace")
    if "&#" in text:
        for found in _ENTITIES.finditer(text):
            yield html.unescape(found[0][:_MOST_LENGTH])
    for found in _BINARY.finditer(text):
        digits = re.sub("[ ,]", "", found[0])[:_MOST_LENGTH]
        yield "".join(chr(int(digits[at : at + 8], 2)) for at in range(0, len(digits) - 7, 8))


def _from_percents(text: str) -> Iterator[str]:
    for found in _PERCENT.finditer(text):
        written = found[0][:_MOST_LENGTH]
        if len(_PERCENTS.findall(written)) >= _FEW_PERCENTS:
            yield unquote(written, errors="replace").replace("+", " ")


def _from_base64(written: str) -> str:
    body = written.rstrip("=")
    try:
        data = base64.b64decode(
            body[: len(body) - (len(body) % 4 == 1)] + "=" * (-len(body) % 4),
            altchars=b"-_" if "-" in body or "_" in body else None,
        )
    except (binascii.Error, ValueError):
        return ""
    return data.decode("utf-8", "replace")


def _from_hex(written: str) -> str:
    digits = re.sub("[ :,]", "", written)
    return bytes.fromhex(digits[: len(digits) // 2 * 2]).decode("utf-8", "replace")


def readable(text: str) -> bool:
    """Return whether a text is readable: letters and blanks, hardly anything else."""
    if len(text) < 8:
        return False
    sample = text[:400]
    good = sum(sign.isalnum() or sign in " .,;:'\"/_-~()!?\n`<>@*" for sign in sample)
    return (
        good >= 0.95 * len(sample)
        and "\ufffd" not in sample
        and sum(sign.isalpha() for sign in sample) >= len(sample) * 0.5
    )
