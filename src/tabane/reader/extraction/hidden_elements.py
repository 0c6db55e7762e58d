"""Detection of elements that readers cannot see, which could carry instructions to models."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

Element = Any

_FOLDS = re.compile(
    r"accordion|faq|collaps|toggle|\btab|tabs?[-_]|panel|details|expand|spoiler|read-?more|truncat|carousel|slide|swiper",
    re.IGNORECASE,
)
_ALIVE = re.compile(r"transform|transition|animation|will-change")
_READERS_ONLY = re.compile(
    r"(?:^|\s)(?:sr-only|visually-?hidden|screen-reader-text|screenreader|u-hiddenVisually)(?:\s|$)"
)
_ZERO = re.compile(r"^[-+]?0*\.?0*(?:px|em|rem|%|pt|vw|vh)?$")
_TINY = re.compile(r"^(?:0*\.\d+|1(?:\.\d+)?|2)(?:px|pt)$")
_AWAY = re.compile(r"^-\d{3,}(?:\.\d+)?(?:px|em|rem|pt|%|vw|vh)?$")
_COLOUR = re.compile(r"#([0-9a-f]{3,8})\b|rgba?\(\s*(\d+)[\s,]+(\d+)[\s,]+(\d+)|^\s*([a-z]+)\b")
_NAMED = {"black": "000000", "white": "ffffff", "red": "ff0000", "blue": "0000ff", "yellow": "ffff00"}
_PANELS = ("aria-controls", "data-target", "data-bs-target", "href")


class HiddenElementDetector:
    """Detects elements of a page that are invisible and that no click makes appear."""

    def __init__(self, root: Element) -> None:
        self._root = root
        self._panels: frozenset[str] | None = None

    def hides(self, element: Element) -> bool:
        """Return whether an element itself is hidden from readers; its ancestors are not judged."""
        attributes = element.attrib
        if not attributes:
            return False
        name = attributes.get("class")
        if name and _READERS_ONLY.search(name):
            return True
        style = attributes.get("style")
        if element.tag == "font" and attributes.get("color"):
            style = f"{style or ''};color:{attributes['color']}"
        said = "hidden" in attributes or attributes.get("aria-hidden", "").lower() == "true"
        if element.tag == "dialog" and "open" not in attributes:
            said = True
        if not said and not (style and self._styled(element, style.lower())):
            return False
        return not (self._unfolds(element) or self._is_the_page(element))

    def _styled(self, element: Element, style: str) -> bool:
        rules = dict(_rules(style))
        return (
            _gone(rules)
            or _nowhere(rules)
            or (_faint(rules) and not element.get("class") and not _ALIVE.search(style))
            or (
                _small(rules)
                and not any(
                    len(text.strip()) > 1 for child in element.iterchildren("*") for text in child.itertext()
                )
            )
            or _same_colour(element, rules)
        )

    def _unfolds(self, element: Element) -> bool:
        """Return whether a click makes it appear: tabs, accordions, questions and answers."""
        if element.get("role") == "tabpanel" or element.get("hidden") == "until-found":
            return True
        if (key := element.get("id")) and key in self._controlled():
            return True
        at: Element | None = element
        for _ in range(3):
            if at is None or at.tag in ("body", "html"):
                break
            if _FOLDS.search(f"{at.get('class') or ''} {at.get('id') or ''}"):
                return True
            at = at.getparent()
        return _below_a_switch(element)

    def _controlled(self) -> frozenset[str]:
        if self._panels is None:
            self._panels = frozenset(_controlled(self._root))
        return self._panels

    def _is_the_page(self, element: Element) -> bool:
        """Return whether it is hidden until a script has run, because it holds the page itself."""
        if element.tag in ("body", "html"):
            return True
        if (
            element.tag not in ("main", "article")
            and element.find(".//h1") is None
            and element.find(".//main") is None
        ):
            return False
        return 2 * _letters(element) > _letters(self._root)


def _below_a_switch(element: Element) -> bool:
    """Return whether the element right before it is a button that opens something."""
    above = element.getparent()
    before = element.getprevious()
    if before is None and above is not None:
        before = above.getprevious()
    if before is None or not isinstance(before.tag, str):
        return False
    switches = itertools.islice(before.iter("button", "summary", "h2", "h3", "h4", "div", "a", "span"), 12)
    return any(at.tag == "button" or at.get("aria-expanded") or at.get("role") == "button" for at in switches)


def _letters(element: Element) -> int:
    return sum(
        len(child.text.strip())
        if child.text and isinstance(child.tag, str) and child.tag not in ("script", "style")
        else 0
        for child in element.iter()
    )


def _controlled(root: Element) -> Iterator[str]:
    for element in root.iter("a", "button", "div", "li", "h2", "h3", "h4", "label", "span", "summary"):
        for attribute in _PANELS:
            value = element.get(attribute)
            if value and (attribute == "aria-controls" or value.startswith("#")):
                yield from value.replace("#", "").split()


def _rules(style: str) -> Iterator[tuple[str, str]]:
    for rule in style.split(";"):
        name, colon, value = rule.partition(":")
        if colon:
            yield name.strip(), value.replace("!important", "").strip()


def _gone(rules: dict[str, str]) -> bool:
    return (
        rules.get("display") == "none"
        or rules.get("visibility") in ("hidden", "collapse")
        or rules.get("content-visibility") == "hidden"
        or "scale(0)" in rules.get("transform", "")
    )


def _nowhere(rules: dict[str, str]) -> bool:
    """Off the screen, cut away, or without a size."""
    away = any(_AWAY.match(rules.get(side, "")) for side in ("left", "right", "top", "bottom", "text-indent"))
    away = away or any(_AWAY.match(value) for value in rules.get("margin", "").split())
    clipped = rules.get("clip", "").replace(" ", "").replace(",", "") in ("rect(0000)", "rect(1px1px1px1px)")
    clipped = clipped or rules.get("clip-path", "").replace(" ", "") in (
        "inset(100%)",
        "inset(50%)",
        "circle(0)",
    )
    sizes = [rules[size] for size in ("width", "height", "max-height", "max-width") if size in rules]
    overflow = rules.get("overflow", rules.get("overflow-y", ""))
    return away or clipped or (overflow in ("hidden", "clip") and any(_empty(size) for size in sizes))


def _empty(size: str) -> bool:
    return bool(_ZERO.match(size)) or size == "1px"


def _faint(rules: dict[str, str]) -> bool:
    return "opacity" in rules and bool(re.fullmatch(r"0?\.?0\d*%?|0", rules["opacity"]))


def _small(rules: dict[str, str]) -> bool:
    size = rules.get("font-size")
    if size is None and (font := re.search(r"(?:^|\s)(\d*\.?\d+(?:px|pt))(?:/|\s)", rules.get("font", ""))):
        size = font.group(1)
    return size is not None and bool(_ZERO.match(size) or _TINY.match(size))


def _same_colour(element: Element, rules: dict[str, str]) -> bool:
    """Return whether its text has the color of its background, by the style attributes of the elements."""
    written = rules.get("color")
    if written is None:
        return False
    if written == "transparent" and "clip" not in rules.get(
        "-webkit-background-clip", rules.get("background-clip", "")
    ):
        return "background-clip" not in rules and "-webkit-background-clip" not in rules
    colour = _colour(written)
    if colour is None:
        return False
    return colour == _ground(element)


def _ground(element: Element) -> str | None:
    """Return the color behind an element; white if nothing around it could say another."""
    at: Element | None = element
    plain = True
    while at is not None and at.tag not in ("html",):
        style = dict(_rules((at.get("style") or "").lower()))
        ground = style.get("background-color") or style.get("background") or at.get("bgcolor") or ""
        if ground and ground not in ("none", "transparent", "inherit"):
            return _colour(ground.lower())
        if at.tag != "body" and (at.get("class") or at.get("id")) and at is not element:
            plain = False
        at = at.getparent()
    return "ffffff" if plain else None


def _colour(value: str) -> str | None:
    found = _COLOUR.search(value)
    if found is None or "url(" in value or "gradient" in value or "var(" in value:
        return None
    digits, red, green, blue, name = found.groups()
    if digits:
        full = "".join(digit * 2 for digit in digits[:3]) if len(digits) < 6 else digits[:6]
    elif red:
        full = f"{int(red) & 255:02x}{int(green) & 255:02x}{int(blue) & 255:02x}"
    else:
        full = _NAMED.get(name, name)
    return "ffffff" if full in ("fefefe", "fdfdfd", "fcfcfc") else full
