"""Rules of style sheets: text to selectors and declarations, with the conditions around them decided.

The scan is linear. Rules that say nothing about visibility are dropped before their selectors are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from tabane.reader.extraction.styles.media_queries import applies, supported

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
        self._scan(masked(css))

    def _scan(self, css: str) -> None:
        around = [_Around(on=True)]
        at = 0
        while sign := _SIGN.search(css, at):
            text = css[at : sign.start()].strip()
            at = sign.end()
            if sign[0] == "{":
                at = self._opened(css, at, text, around)
            elif sign[0] == ";":
                self._statement(text, around[-1])
            else:
                self._statement(text, around[-1])
                if len(around) > 1:
                    around.pop()
        self._statement(css[at:].strip(), around[-1])

    def _opened(self, css: str, at: int, text: str, around: list[_Around]) -> int:
        """Return where to go on after a brace that opens: within its block, or after it."""
        here = around[-1]
        if text.startswith("@"):
            inside = self._at_rule(text, here)
            if inside is None or len(around) >= _DEEP:
                return _after(css, at)
            around.append(inside)
            return at
        if here.frames is not None:
            end = _after(css, at)
            self._frame(here.frames, text, css[at : end - 1])
            return end
        selectors = _nested(here.selectors, text)
        close = _BRACE.search(css, at)
        if close is None or close[0] == "}":
            end = close.start() if close else len(css)
            if here.on:
                self._add(selectors, css[at:end], here.layer)
            return end + 1
        if not here.on or len(selectors) > _LONGEST_SELECTOR or len(around) >= _DEEP:
            self.found.limited = self.found.limited or here.on
            return _after(css, at)
        around.append(_Around(here.on, here.layer, selectors))
        return at

    def _statement(self, text: str, here: _Around) -> None:
        if not text or not here.on:
            return
        if text.startswith("@"):
            found = _AT.match(text)
            if found is not None and found[1].lower() == "layer":
                for name in found[2].split(","):
                    self._layer(_named(here.layer, name.strip()))
        elif here.selectors is not None:
            self._add(here.selectors, text, here.layer)

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
            inside.layer = _named(here.layer, rest.strip() or f"#{len(self.found.layers)}")
            self._layer(inside.layer)
        elif name == "keyframes" and here.on:
            inside = _Around(on=False, frames=unescaped(rest.strip().strip("\"'")))
        elif name == "scope":
            inside.selectors = _scope(rest)
        elif name not in ("container", "document"):
            return None
        return inside

    def _frame(self, name: str, selector: str, block: str) -> None:
        first, last = self.found.frames.get(name, ((), ()))
        if _FRAME_BEGIN.search(selector):
            first = (*first, *self._declared(block))[-100:]
        if _FRAME_END.search(selector):
            last = (*last, *self._declared(block))[-100:]
        if len(self.found.frames) < self._most:
            self.found.frames[name] = first, last

    def _layer(self, name: str) -> int:
        if not name:
            return UNLAYERED
        if len(self.found.layers) >= _MOST_LAYERS:
            self.found.limited = True
        else:
            self.found.layers.setdefault(name, len(self.found.layers))
        return self.found.layers.get(name, 0)

    def _add(self, selectors: str, block: str, layer: str) -> None:
        if not block or block.isspace() or not selectors:
            return
        declarations = self._declared(block)
        if not declarations:
            return
        if len(self.found.rules) >= self._most:
            self.found.limited = True
            return
        self.found.rules.append(StyleRule(selectors, declarations, self._layer(layer)))


def masked(css: str) -> str:
    """Return CSS without comments, where strings, addresses and escapes hold no signs that end anything."""
    if "/*" not in css and '"' not in css and "'" not in css and "\\" not in css and "url(" not in css:
        return css
    return _OPAQUE.sub(_mask, css)


def unmasked(text: str) -> str:
    """Return a text with the signs that were masked."""
    return text.translate(_BACK) if not text.isascii() else text


def unescaped(text: str) -> str:
    """Return a text with its escapes resolved, ``\\64`` being d."""
    if "\\" not in text:
        return unmasked(text)
    return unmasked(_ESCAPE.sub(_character, text))


def _mask(found: re.Match[str]) -> str:
    text = found[0]
    if text.startswith("/*"):
        return ""
    if text[0] in "uU" and len(text) > 200:
        return "url(#)"  # a picture within the sheet
    return text.translate(_SIGNS)


def _character(found: re.Match[str]) -> str:
    if found[1]:
        code = int(found[1], 16)
        return chr(code) if 0 < code < 0xD800 or 0xDFFF < code < 0x110000 else "\ufffd"
    return "" if found[2] == "\n" else found[2]


def _after(css: str, at: int) -> int:
    """Return the offset after the brace that closes the block which is open at an offset."""
    depth = 1
    while brace := _BRACE.search(css, at):
        at = brace.end()
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return at
    return len(css) + 1


def _named(outer: str, inner: str) -> str:
    return f"{outer}.{inner}" if outer and inner else outer or inner


def _nested(outer: str | None, inner: str) -> str:
    """Return the selectors of a rule that is in another."""
    if outer is None:
        return inner
    if "&" in inner:
        return inner.replace("&", f":is({outer})")
    return ",".join(f":is({outer}) {part.strip()}" for part in _commas(inner))


def _scope(rest: str) -> str | None:
    found = re.match(r"\((.*?)\)", rest, re.DOTALL)
    return found[1] if found else None


def _commas(text: str) -> list[str]:
    found, depth, begin = [], 0, 0
    for at in re.finditer(r"[(),\[\]]", text):
        if at[0] in "([":
            depth += 1
        elif at[0] in ")]":
            depth -= 1
        elif depth <= 0:
            found.append(text[begin : at.start()])
            begin = at.end()
    return [*found, text[begin:]]
