"""Rules of style sheets: text to selectors and declarations, with the conditions around them decided.

The scan is linear. Rules that say nothing about visibility are dropped before their selectors are read. Media
queries and feature queries are answered for a screen of 1280 by 800 of a desktop computer.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from tabane.reader.extraction.styles.values import HEIGHT, WIDTH, length, number, parts, split_outside

_OPAQUE = re.compile(
    r"/\*.*?(?:\*/|\Z)"
    r'|"(?:[^"\\\n]|\\.)*+"?|\'(?:[^\'\\\n]|\\.)*+\'?'
    r"|url\(\s*+(?![\s\"'])(?:[^)\\]|\\.)*+\)?"
    r"|\\.",
    re.DOTALL | re.IGNORECASE,
)
"""Comments, strings, addresses and escapes: signs in them do not end anything."""
_SIGNS = str.maketrans("{};:@!", "\ue000\ue001\ue002\ue003\ue004\ue005")
_BACK = str.maketrans("\ue000\ue001\ue002\ue003\ue004\ue005", "{};:@!")
_SIGN = re.compile(r"[{};]")
_BRACE = re.compile(r"[{}]")
_AT = re.compile(r"@(?:-\w+-)?([\w-]+)\s*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})[ \t\n\r\f]?|(.))", re.DOTALL)
_FRAME_END = re.compile(r"(?:^|,)\s*(?:to|100%)\s*(?:,|$)", re.IGNORECASE)
_FRAME_BEGIN = re.compile(r"(?:^|,)\s*(?:from|0%)\s*(?:,|$)", re.IGNORECASE)
_COMMA = re.compile(r"[()\[\]]|(,)")
_IMPORT = re.compile(
    r"""(?:url\(\s*+("(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|[^)]*+)\)|("(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'))\s*+"""
    r"(?:(layer)\b(?:\(([^()]*+)\))?\s*+)?(?:supports\(((?:[^()]|\([^()]*+\))*+)\)\s*+)?(.*)",
    re.DOTALL | re.IGNORECASE,
)
_DEEPEST_IMPORT = 4
_DEEP = 24
_LONGEST_SELECTOR = 3000

Declarations = tuple[tuple[str, str, bool], ...]
"""Properties, their values, and whether they are important."""


@dataclass(frozen=True, slots=True)
class StyleRule:
    """Selectors as text, what they declare, and the layer: later ones win, and the last is that without a
    name.
    """

    selectors: str
    declarations: Declarations
    layer: int


@dataclass(slots=True)
class SheetRules:
    """All rules of a page in order. ``limited``: some were left out, because there are too many."""

    rules: list[StyleRule] = field(default_factory=list)
    frames: dict[str, tuple[Declarations, Declarations]] = field(default_factory=dict)
    """Declarations of the first and the last frame of each animation."""
    layers: dict[str, int] = field(default_factory=dict)
    letters: int = 0
    limited: bool = False


@dataclass(slots=True)
class _Around:
    """The blocks that are open at a position in a style sheet."""

    on: bool
    layer: str = ""
    selectors: str | None = None
    """Of the rule that is around, if it is a style rule."""
    frames: str | None = None
    imports: bool = False
    """Whether sheets may still be imported: no rule came before."""


UNLAYERED = 1 << 30
_MOST_LAYERS = 1000


class SheetReader:
    """Reads style sheets into the rules of a page, up to a number of rules and of characters."""

    def __init__(self, declared: Callable[[str], Declarations], most: int, letters: int) -> None:
        self.found = SheetRules()
        self._declared = declared
        self._most, self._letters = most, letters

    def read(self, css: str) -> None:
        """Add the rules of one sheet."""
        if self.found.letters + len(css) > self._letters:
            self.found.limited = True
            css = css[: max(0, self._letters - self.found.letters)]
        self.found.letters += len(css)
        if "-->" in css or "<!--" in css:
            css = css.replace("<!--", " ").replace("-->", " ")
        self._scan_sheet(masked(css), _Around(on=True, imports=True), 0)

    def _scan_sheet(self, css: str, top: _Around, depth: int) -> None:
        around = [top]
        at = 0
        while sign := _SIGN.search(css, at):
            text = css[at : sign.start()].strip()
            at = sign.end()
            if sign[0] == "{":
                at = self._open_block(css, at, text, around)
            elif sign[0] == ";":
                self._read_statement(text, around[-1], depth)
            else:
                self._read_statement(text, around[-1], depth)
                if len(around) > 1:
                    around.pop()
        self._read_statement(css[at:].strip(), around[-1], depth)

    def _open_block(self, css: str, at: int, text: str, around: list[_Around]) -> int:
        """Return where to go on after a brace that opens: within its block, or after it."""
        here = around[-1]
        here.imports = False
        if text.startswith("@"):
            inside = self._at_rule(text, here)
            if inside is None or len(around) >= _DEEP:
                return _end_of_block(css, at)
            around.append(inside)
            return at
        if here.frames is not None:
            end = _end_of_block(css, at)
            block = css[at : end - 1]
            first, last = self.found.frames.get(here.frames, ((), ()))
            if _FRAME_BEGIN.search(text):
                first = (*first, *self._declared(block))[-100:]
            if _FRAME_END.search(text):
                last = (*last, *self._declared(block))[-100:]
            if len(self.found.frames) < self._most:
                self.found.frames[here.frames] = first, last
            return end
        outer = here.selectors
        if outer is None:
            selectors = text
        elif "&" in text:
            selectors = text.replace("&", f":is({outer})")
        else:
            selectors = ",".join(f":is({outer}) {part.strip()}" for part in split_outside(text, _COMMA))
        close = _BRACE.search(css, at)
        if close is None or close[0] == "}":
            end = close.start() if close else len(css)
            if here.on:
                self._add_rule(selectors, css[at:end], here.layer)
            return end + 1
        if not here.on or len(selectors) > _LONGEST_SELECTOR or len(around) >= _DEEP:
            self.found.limited = self.found.limited or here.on
            return _end_of_block(css, at)
        around.append(_Around(here.on, here.layer, selectors))
        return at

    def _read_statement(self, text: str, here: _Around, depth: int) -> None:
        if not text or not here.on:
            return
        if not text.startswith("@"):
            here.imports = False
            if here.selectors is not None:
                self._add_rule(here.selectors, text, here.layer)
            return
        found = _AT.match(unescaped(text) if text.startswith("@\\") else text)
        name = found[1].lower() if found is not None else ""
        if found is not None and name == "layer":
            for each in found[2].split(","):
                self._layer_number(_layer_name(here.layer, each.strip()))
        elif found is not None and name == "import" and here.imports:
            self._import(found[2], here, depth)
        elif name != "charset":
            here.imports = False

    def _import(self, text: str, here: _Around, depth: int) -> None:
        """Read an imported sheet if it is in its own address and its conditions hold."""
        found = _IMPORT.fullmatch(text.strip())
        if found is None or not applies(unescaped(found[6])) or not supported(found[5] or ""):
            return
        address = (found[1] or found[2]).strip()
        css = css_of_address(unescaped(address[1:-1] if address[:1] in "\"'" else address))
        if css is None:
            return
        if depth >= _DEEPEST_IMPORT or self.found.letters + len(css) > self._letters:
            self.found.limited = True
            return
        self.found.letters += len(css)
        layer = here.layer
        if found[3]:
            layer = _layer_name(layer, (found[4] or "").strip() or f"#{len(self.found.layers)}")
            self._layer_number(layer)
        self._scan_sheet(masked(css), _Around(on=True, layer=layer, imports=True), depth + 1)

    def _at_rule(self, text: str, here: _Around) -> _Around | None:
        """Return what is around the contents of an at-rule; None if these are no rules for a page."""
        found = _AT.match(text)
        name, rest = (found[1].lower(), found[2]) if found is not None else ("", "")
        inside = _Around(here.on, here.layer, here.selectors)
        if name == "media":
            inside.on = here.on and applies(unescaped(rest))
        elif name == "supports":
            inside.on = here.on and supported(rest)
        elif name == "layer":
            inside.layer = _layer_name(here.layer, rest.strip() or f"#{len(self.found.layers)}")
            self._layer_number(inside.layer)
        elif name == "keyframes" and here.on:
            inside = _Around(on=False, frames=unescaped(rest.strip().strip("\"'")))
        elif name == "scope":
            found = re.match(r"\((.*?)\)", rest, re.DOTALL)
            inside.selectors = found[1] if found else None
        elif name not in ("container", "document"):
            return None
        return inside

    def _layer_number(self, name: str) -> int:
        if not name:
            return UNLAYERED
        if len(self.found.layers) >= _MOST_LAYERS:
            self.found.limited = True
        else:
            self.found.layers.setdefault(name, len(self.found.layers))
        return self.found.layers.get(name, 0)

    def _add_rule(self, selectors: str, block: str, layer: str) -> None:
        if not block or block.isspace() or not selectors:
            return
        declarations = self._declared(block)
        if not declarations:
            return
        if len(self.found.rules) >= self._most:
            self.found.limited = True
            return
        self.found.rules.append(StyleRule(selectors, declarations, self._layer_number(layer)))


_URL = re.compile(r"url\(", re.IGNORECASE)
_DATA_CSS = re.compile(r"(?:url\(\s*)?data:text/css(?![\w+.-])", re.IGNORECASE)


def css_of_address(address: str) -> str | None:
    """Return the style sheet that is in its own address; None if none is. Browsers apply no other type."""
    if _DATA_CSS.match(address) is None:
        return None
    head, _, data = address.partition(",")
    content = unquote_to_bytes(data.partition("#")[0])
    if head.lower().rstrip().endswith(";base64"):
        try:
            content = base64.b64decode(content, validate=False)
        except (binascii.Error, ValueError):
            return None
    return content.decode("utf-8", "replace")


def masked(css: str) -> str:
    """Return CSS without comments, where strings, addresses and escapes hold no signs that end anything."""
    if "/*" not in css and '"' not in css and "'" not in css and "\\" not in css and not _URL.search(css):
        return css
    return _OPAQUE.sub(_mask_text, css)


def unmasked(text: str) -> str:
    """Return a text with the signs that were masked."""
    return text.translate(_BACK) if not text.isascii() else text


def unescaped(text: str) -> str:
    """Return a text with its escapes resolved, ``\\64`` being d."""
    if "\\" not in text:
        return unmasked(text)
    return unmasked(_ESCAPE.sub(_unescaped_character, text))


def _mask_text(found: re.Match[str]) -> str:
    text = found[0]
    if text.startswith("/*"):
        return ""
    if text[0] in "uU" and len(text) > 200 and _DATA_CSS.match(text) is None:
        return "url(#)"  # a picture within the sheet
    return text.translate(_SIGNS)


def _unescaped_character(found: re.Match[str]) -> str:
    if found[1]:
        code = int(found[1], 16)
        return chr(code) if 0 < code < 0xD800 or 0xDFFF < code < 0x110000 else "\ufffd"
    return "" if found[2] == "\n" else found[2]


def _end_of_block(css: str, at: int) -> int:
    """Return the offset after the brace that closes the block which is open at an offset."""
    depth = 1
    while brace := _BRACE.search(css, at):
        at = brace.end()
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return at
    return len(css) + 1


def _layer_name(outer: str, inner: str) -> str:
    return f"{outer}.{inner}" if outer and inner else outer or inner


_FEATURES = {
    "hover": "hover", "any-hover": "hover", "pointer": "fine", "any-pointer": "fine",
    "orientation": "landscape",
    "prefers-color-scheme": "light", "scripting": "enabled", "update": "fast", "display-mode": "browser",
    "color-gamut": "srgb", "overflow-block": "scroll", "overflow-inline": "scroll",
    "dynamic-range": "standard",
}  # fmt: skip
_NONE = frozenset(
    ("prefers-reduced-motion", "prefers-contrast", "prefers-reduced-transparency", "prefers-reduced-data",
     "forced-colors", "inverted-colors", "-ms-high-contrast", "grid", "monochrome")
)  # fmt: skip
_NUMBERS = {
    "width": WIDTH, "device-width": WIDTH, "height": HEIGHT, "device-height": HEIGHT, "resolution": 1.0,
    "-webkit-device-pixel-ratio": 1.0, "-moz-device-pixel-ratio": 1.0, "color": 8.0,
    "aspect-ratio": WIDTH / HEIGHT, "device-aspect-ratio": WIDTH / HEIGHT,
}  # fmt: skip
_COMPARISON = re.compile(r"\s*(<=|>=|<|>|=)\s*")
_OR, _AND = re.compile(r"[()]|\b(or)\b"), re.compile(r"[()]|\b(and)\b")
_LONGEST = 2000
_DEEPEST_CONDITION = 6


@lru_cache(1024)
def applies(query: str) -> bool:
    """Return whether a list of media queries is true of the screen."""
    query = query.strip().lower()
    if not query:
        return True
    return len(query) <= _LONGEST and any(_query_holds(part) for part in parts(query))


@lru_cache(1024)
def supported(condition: str) -> bool:
    """Return whether a feature query holds: browsers support whatever it asks for, if it is not negated."""
    condition = condition.strip().lower()
    return not (condition.startswith("not") and len(condition) > 3 and condition[3] in " (")


def _query_holds(query: str) -> bool:
    query = query.strip()
    negated = query.startswith("not ")
    if negated or query.startswith("only "):
        query = query.split(" ", 1)[1].strip()
    found = re.match(r"([a-z-]+)(?:\s+and\s+|$)", query)
    result = True
    if found is not None:
        result = found[1] in ("all", "screen")
        query = query[found.end() :]
    return (result and (not query or _condition_holds(query, 0))) != negated


def _condition_holds(text: str, depth: int) -> bool:
    """Return whether a condition holds; an unknown one does not."""
    text = text.strip()
    if depth > _DEEPEST_CONDITION:
        return False
    if text.startswith(("not ", "not(")):
        return not _condition_holds(text[3:], depth + 1)
    for word, joined in ((_OR, any), (_AND, all)):
        conditions = split_outside(text, word)
        if len(conditions) > 1:
            return joined(_condition_holds(each, depth + 1) for each in conditions)
    if text.startswith("(") and text.endswith(")"):
        inside = text[1:-1].strip()
        if inside.startswith(("(", "not ")):
            return _condition_holds(inside, depth + 1)
        return _feature_holds(inside)
    return False


def _feature_holds(text: str) -> bool:
    compared = _COMPARISON.split(text)
    if len(compared) in (3, 5):
        return _range_holds(compared)
    name, colon, value = (part.strip() for part in text.partition(":"))
    if not colon:
        return _FEATURES.get(name, "none") != "none" or name in _NUMBERS
    if name in _NONE:
        return value in ("no-preference", "none", "0")
    if name in _FEATURES:
        return value == _FEATURES[name]
    for prefix, sign in (("min-", ">="), ("max-", "<="), ("-webkit-min-", ">="), ("-webkit-max-", "<=")):
        if name.startswith(prefix):
            plain = name[len(prefix) :]
            plain = f"-webkit-{plain}" if plain == "device-pixel-ratio" else plain
            return plain in _NUMBERS and _compare_values(_NUMBERS[plain], sign, _media_value(value))
    return name in _NUMBERS and _compare_values(_NUMBERS[name], "=", _media_value(value))


def _range_holds(compared: list[str]) -> bool:
    if len(compared) == 5:
        return _range_holds(compared[:3]) and _range_holds(compared[2:])
    left, sign, right = (part.strip() for part in compared)
    if left in _NUMBERS:
        return _compare_values(_NUMBERS[left], sign, _media_value(right))
    turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}
    return right in _NUMBERS and _compare_values(_NUMBERS[right], turned[sign], _media_value(left))


def _media_value(text: str) -> float | None:
    if found := re.fullmatch(r"([\d.]+)\s*/\s*([\d.]+)", text):
        try:
            return float(found[1]) / float(found[2])
        except (ValueError, ZeroDivisionError):
            return None
    if found := re.fullmatch(r"((?:\d*\.)?\d+)(dppx|x|dpi|dpcm)", text):
        return float(found[1]) / {"dpi": 96, "dpcm": 37.8}.get(found[2], 1)
    plain = number(text)
    return plain if plain is not None else length(text)


def _compare_values(one: float, sign: str, other: float | None) -> bool:
    if other is None:
        return False
    return {"<": one < other, ">": one > other, "<=": one <= other, ">=": one >= other}.get(
        sign, one == other
    )
