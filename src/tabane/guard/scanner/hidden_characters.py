"""The texts of a definition that a model may read, and what in them a person does not see.

What is hidden in tag characters and variation selectors is decoded, and scanned like other text.

Every string and every name of a definition's own is read, at any depth. Hidden are invisible characters, text
pushed off the screen, hidden markup, and encoded text, decoded once: base64, hexadecimal, percent, escapes,
entities, ROT13.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

from tabane.guard.scanner.findings import HIDDEN, Finding, excerpt_of
from tabane.messages import Message, say
from tabane.text.invisible_characters import cleaned, has_unseen
from tabane.wire.json import InvalidJson, decode

MOST_HIDDEN = 2_000
"""Invisible characters up to which each is judged by the text around it; more are hidden text in any case."""

_TAGS = re.compile("[\U000e0001-\U000e007f]+")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}")
_OVERRIDES = re.compile("[\u202a\u202b\u202d\u202e\u2066-\u2068]")
_ESCAPE = re.compile("\x1b[\\[\\]()P^_]|\x9b|\x08|\\\\(?:x1b|033|u001b)\\[[0-9;]*[a-zA-Z]", re.IGNORECASE)
_ANY = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e01ef]"
)
# What begins with a character, not with a condition, is searched several times as fast.
_PUSHED_ASIDE = re.compile("[ \t\u3000\u00a0](?<![ \t\u3000\u00a0]{2})[ \t\u3000\u00a0]{99,}+\\s{0,2000}+\\S")
_PUSHED_DOWN = re.compile("\n(?<![\n \t]\n)[ \t]{0,40}+(?:\n[ \t]{0,40}+){19,}+[ \t]{0,400}+\\S")
_UNSHOWN = re.compile(
    r"<[a-z]{1,12}\s[^<>]{0,120}?(?:display\s{0,3}:\s{0,3}none|visibility\s{0,3}:\s{0,3}hidden"
    r"|font-size\s{0,3}:\s{0,3}[01](?:px|pt|em)?\b|opacity\s{0,3}:\s{0,3}0\b|color\s{0,3}:\s{0,3}(?:white|#fff|transparent)"
    r"|\bhidden\b)[^<>]{0,120}>[^<]{8}",
    re.IGNORECASE,
)


class VisibleText(NamedTuple):
    """A text as a person sees it, what was hidden in it, and what was found on the way."""

    text: str
    decoded: tuple[str, ...]
    findings: tuple[Finding, ...]


def visible(text: str) -> VisibleText:
    """Return a text without invisible characters, with what they spell and the findings about them."""
    plain = text.isascii() and text.isprintable()
    if plain and len(text) < 30:
        return VisibleText(text, (), ())  # most names and values
    findings = list(_unshown(text))
    if plain or not has_unseen(text):
        return VisibleText(text, (), tuple(findings))
    decoded = tuple(hidden for hidden in (_tagged(text), _selected(text)) if hidden)
    findings.extend(_characters(text, decoded))
    return VisibleText(_shown(text), decoded, tuple(findings))


def _shown(text: str) -> str:
    if len(_ANY.findall(text)) > MOST_HIDDEN:
        return _ANY.sub("", text)
    return cleaned(text).text


def _characters(text: str, decoded: tuple[str, ...]) -> Iterator[Finding]:
    """Yield what invisible characters say about a text: at most one finding, the worst."""
    count = len(_ANY.findall(text))
    removed = {} if count > MOST_HIDDEN else cleaned(text).removed
    first = _ANY.search(text)
    at = max(0, first.start() - 20) if first else 0
    if decoded:
        what = say("It contains hidden text in invisible characters.")
        yield Finding(HIDDEN, "high", what, excerpt_of(decoded[0]))
    elif count > MOST_HIDDEN or removed.get("tag", 0) or removed.get("variation selector", 0) >= 4:
        yield Finding(HIDDEN, "high", _counted(count), excerpt_of(text, at))
    elif (found := _ESCAPE.search(text)) is not None:
        what = say("It contains escape sequences that hide or overwrite text in a terminal.")
        yield Finding(HIDDEN, "high", what, excerpt_of(text, max(0, found.start() - 20)))
    elif removed.get("direction", 0) and (turned := _OVERRIDES.search(text)) is not None:
        what = say("It contains characters that reverse the direction of text.")
        yield Finding(HIDDEN, "high", what, excerpt_of(text, max(0, turned.start() - 20)))
    elif (hidden := removed.get("zero-width", 0) + removed.get("control", 0)) >= 3:
        yield Finding(HIDDEN, "high" if hidden >= 12 else "medium", _counted(hidden), excerpt_of(text, at))


def _counted(count: int) -> Message:
    return say("It contains {count} invisible {count:character|characters}.", count=count)


def _unshown(text: str) -> Iterator[Finding]:
    if (found := _pushed(text)) is not None:
        what = say("A long run of blanks pushes text off the screen.")
        yield Finding(HIDDEN, "medium", what, excerpt_of(text, found.end() - 1))
    if "<" in text and (found := _UNSHOWN.search(text)) is not None:
        what = say("It contains markup that hides its text.")
        yield Finding(HIDDEN, "medium", what, excerpt_of(text, found.start()))


def _pushed(text: str) -> re.Match[str] | None:
    """Return a run of blanks that pushes text away. Texts without two blanks in a row are not searched."""
    if len(text) < _FEW:
        return None
    blanks = _TWO_BLANKS_OF_ASCII if text.isascii() else _TWO_BLANKS
    found = _PUSHED_ASIDE.search(text) if any(two in text for two in blanks) else None
    return found or (_PUSHED_DOWN.search(text) if text.count("\n") >= _FEW else None)


_FEW = 20
_TWO_BLANKS_OF_ASCII = ("  ", " \t", "\t ", "\t\t")
_TWO_BLANKS = tuple(one + other for one in " \t\u3000\u00a0" for other in " \t\u3000\u00a0")


def _tagged(text: str) -> str:
    """Return what tag characters spell: each is a character of ASCII, moved up."""
    runs = (run for run in _TAGS.findall(text) if run not in _FLAGS)
    return "".join("".join(chr(ord(tag) - 0xE0000) for tag in run) for run in runs).strip("\x01\x7f")


_FLAGS = tuple(
    "".join(chr(0xE0000 + ord(letter)) for letter in name) + "\U000e007f"
    for name in ("gbeng", "gbsct", "gbwls")
)


def _selected(text: str) -> str:
    """Return what runs of variation selectors spell: each is a byte."""
    data = bytes(
        ord(selector) - 0xFE00 if selector <= "\ufe0f" else ord(selector) - 0xE0100 + 16
        for run in _SELECTORS.findall(text)
        for selector in run
    )
    spelled = data.decode("utf-8", "replace")
    return spelled if len(spelled) >= 4 and spelled.isprintable() else ""


MOST_BYTES = 1 << 20
"""Bytes of a definition that are read; what is behind them is not scanned, which is a finding."""

MOST_CHARACTERS = 64 << 10
"""Characters of all texts of a definition that are scanned."""

MOST_DEPTH = 64

_WORDS_OF_JSON_SCHEMA = frozenset(
    {
        *("type", "properties", "required", "description", "title", "default", "enum", "const", "items"),
        *("anyOf", "oneOf", "allOf", "not", "format", "pattern", "examples", "minimum", "maximum", "$ref"),
        *("minLength", "maxLength", "minItems", "maxItems", "additionalProperties", "$schema", "$defs"),
        *("definitions", "name", "inputSchema", "outputSchema", "annotations", "readOnlyHint", "uri"),
        *("destructiveHint", "idempotentHint", "openWorldHint", "_meta", "arguments", "mimeType", "icons"),
        *("uriTemplate", "size", "exclusiveMinimum", "exclusiveMaximum", "propertyNames", "execution"),
    }
)


class DefinitionTexts(NamedTuple):
    """Texts of a definition, texts and names of its parameters, and whether these are all."""

    texts: tuple[str, ...]
    parameters: tuple[str, ...]
    names: tuple[str, ...]
    complete: bool


def definition_texts(definition: bytes) -> DefinitionTexts:
    """Return the texts and the names of properties of a definition. What is no JSON is one text."""
    cut = definition[:MOST_BYTES]
    collected = _Texts()
    deep = _collect(_read(cut), collected)
    complete = collected.left > 0 and not deep and len(cut) == len(definition)
    return DefinitionTexts(
        tuple(collected.texts), tuple(collected.parameters), tuple(collected.names), complete
    )


class _Texts:
    """The texts collected so far, and how many characters of further ones are taken."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.parameters: list[str] = []
        self.names: dict[str, None] = {}
        self.left = MOST_CHARACTERS

    def add(self, text: str, of_parameter: bool) -> None:
        if self.left > 0 and not (
            text.startswith("data:image/") and ";base64," in text[:80] and " " not in text
        ):
            (self.parameters if of_parameter else self.texts).append(text[: self.left])
            self.left -= len(text) + _EACH

    def name(self, name: str) -> None:
        if self.left > 0 and name not in _WORDS_OF_JSON_SCHEMA:
            self.names[name[: self.left]] = None
            self.left -= len(name) + _EACH


_EACH = 8
"""Characters that each text counts in addition, so that there are not too many of them."""


def _read(definition: bytes) -> Any:
    if definition[:1] in (b"{", b"[", b'"'):
        try:
            return decode(definition)
        except InvalidJson:
            pass
    return definition.decode("utf-8", "replace")


def _collect(value: Any, into: _Texts) -> bool:
    """Collect strings and names; return whether some are too deep. There is no recursion."""
    waiting: list[tuple[Any, int, bool]] = [(value, 0, False)]
    deep = False
    while waiting and into.left > 0:
        one, depth, of_parameter = waiting.pop()
        if isinstance(one, str):
            into.add(one, of_parameter)
        elif isinstance(one, dict | list):
            deep = deep or depth >= MOST_DEPTH
            if depth < MOST_DEPTH:
                waiting.extend(
                    (each, depth + 1, of_parameter or key in _PARAMETERS) for key, each in _parts(one, into)
                )
    return deep


_PARAMETERS = ("properties", "arguments")


def _parts(value: dict[str, Any] | list[Any], into: _Texts) -> list[tuple[str, Any]]:
    """Return the parts of a value, the last first, with their names."""
    if isinstance(value, list):
        return [("", each) for each in reversed(value)]
    for name in value:
        into.name(name)
    return list(reversed(value.items()))


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
