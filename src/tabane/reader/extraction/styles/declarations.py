"""Declarations that can decide whether text is visible: checked, and shorthands expanded.

Anything else is dropped. An invalid declaration is dropped too, as browsers do, so that it cannot replace a
valid one. One table says of each property which values it takes, and which of them can hide text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple, TypeVar

from tabane.reader.extraction.styles.sheet_rules import Declarations, masked, unescaped
from tabane.reader.extraction.styles.values import FONT_SIZE, color, length, number, parts, split_outside

_LONGEST = 2000
_MOST = 200
_FUNCTIONS = re.compile(r"\s*([a-z0-9-]+)\(([^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*)\)\s*")
_SPACE, _SLASH, _SEMICOLON = (re.compile(rf"[()]|({sign})") for sign in (r"\s+", "/", ";"))


def functions(value: str) -> list[tuple[str, str]] | None:
    """Return the functions that a value consists of, with their arguments; None if it is anything else."""
    calls: list[tuple[str, str]] = []
    at = 0
    while at < len(value):
        call = _FUNCTIONS.match(value, at)
        if call is None:
            return None
        calls.append((call[1], call[2].strip()))
        at = call.end()
    return calls


def _split_words(value: str) -> list[str]:
    """Return what is between white space that is outside of parentheses."""
    if "(" not in value:
        return value.split()
    return [word for word in split_outside(value, _SPACE) if word]


# Values

Check = Callable[[str], bool]

_WIDE = frozenset(("inherit", "initial", "unset", "revert", "revert-layer"))
_FONT_SIZES = {
    "xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0, "x-large": 24.0,
    "xx-large": 32.0, "xxx-large": 48.0,
}  # fmt: skip
_RELATIVE_SIZES = {"smaller": "0.8333em", "larger": "1.2em"}
_NEAR_ZERO = 5.0
_FAR = 250.0


def font_size(value: str) -> str:
    """Return a font size as a length."""
    if value in _FONT_SIZES:
        return f"{_FONT_SIZES[value]}px"
    return _RELATIVE_SIZES.get(value, value)


def _one_of(words: str) -> Check:
    return frozenset(words.split()).__contains__


def _none_of(words: str) -> Check:
    excluded = frozenset(words.split())
    return lambda value: value not in excluded


def _each_of(words: str, separator: str = r"\s+") -> Check:
    allowed = frozenset(words.split())
    return lambda value: allowed.issuperset(re.split(separator, value))


def _never(value: str) -> bool:
    return False


_is_size_word = _one_of(
    "auto none min-content max-content fit-content -webkit-fill-available -moz-available stretch"
    " -webkit-min-content -webkit-max-content -webkit-fit-content intrinsic contain"
)


def _is_size(value: str) -> bool:
    return _is_size_word(value) or value.startswith(("fit-content(", "calc-size(")) or _is_positive(value)


def _is_positive(value: str) -> bool:
    size = length(value)
    return size is not None and (size >= 0 or "(" in value)


def _is_font_size(value: str) -> bool:
    return value in _FONT_SIZES or value in _RELATIVE_SIZES or _is_positive(value)


def _is_line_height(value: str) -> bool:
    factor = number(value)
    return value == "normal" or (factor is not None and factor >= 0) or _is_positive(value)


def _is_color(value: str) -> bool:
    unread = ("color(", "rgb(from", "oklch(from", "hsl(from", "lab(")
    return color(value) is not None or value.startswith(unread)


def _is_numeric(value: str) -> bool:
    return number(value) is not None


def _is_image(value: str) -> bool:
    return value == "none" or "(" in value


def _is_little(value: str) -> bool:
    size = length(value, base=100)
    return size is not None and size < _NEAR_ZERO


def _is_low(value: str) -> bool:
    factor = number(value)
    return factor < 0.3 if factor is not None else _is_little(value)


def _is_far(value: str) -> bool:
    distance = length(value, base=300)
    return distance is not None and abs(distance) >= _FAR


def _is_faint(value: str) -> bool:
    share = number(value)
    return share is None or share < 0.6


def _is_tiny(value: str) -> bool:
    size = length(value, base=16)
    if value in _RELATIVE_SIZES or value.endswith(("em", "%")):
        return value == "smaller" or (size is not None and size < FONT_SIZE)
    return size is not None and size < 8


# Properties


class Effect(Enum):
    """Kinds of effects by which properties hide text."""

    DISPLAY = auto()
    VISIBILITY = auto()
    OPACITY = auto()
    SIZE = auto()
    PLACE = auto()
    CLIP = auto()
    FONT = auto()
    COLOR = auto()
    ORDER = auto()
    DRAWING = auto()


class Property(NamedTuple):
    """A longhand. ``hides`` says whether a value can hide text, by the first of the ``effects``.

    It has to be known where any of these hides text. Without ``hides``, it only matters to others.
    """

    takes: Check
    hides: Check | None
    effects: tuple[Effect, ...]


_is_painted = _none_of("none auto")
_is_set = _none_of("none")
_TABLE: tuple[tuple[str, Check, Check | None, str], ...] = (
    ("all", _never, bool, "DISPLAY"),
    ("display", _each_of(
        "none contents block inline inline-block flow-root flex inline-flex grid inline-grid table"
        " inline-table table-row table-cell table-row-group table-header-group table-footer-group"
        " table-column table-column-group table-caption list-item run-in math ruby ruby-text -webkit-box"
        " -webkit-inline-box -webkit-flex -webkit-inline-flex flow inline-list-item block-ruby"
    ), _one_of("none table-column table-column-group"), "DISPLAY"),
    ("content-visibility", _one_of("visible auto hidden"), bool, "DISPLAY"),
    ("content", lambda value: value in ("normal", "none") or "(" in value or value[0] in "\"'", bool, "DISPLAY"),
    ("float", _one_of("left right none inline-start inline-end"), _never, "DISPLAY"),
    ("visibility", _one_of("visible hidden collapse"), _none_of("visible none"), "VISIBILITY"),
    ("-webkit-text-security", _one_of("none disc circle square"), _none_of("visible none"), "VISIBILITY"),
    ("opacity", _is_numeric, _is_faint, "OPACITY"),
    ("filter mask-image", _is_image, _is_set, "OPACITY"),
    ("animation-name animation-fill-mode animation-direction animation-iteration-count", bool, _never, "OPACITY VISIBILITY PLACE CLIP SIZE"),
    ("overflow-x overflow-y", _one_of("visible hidden clip scroll auto overlay"), _never, "SIZE PLACE"),
    ("width height", _is_size, _is_little, "SIZE PLACE"),
    ("max-width max-height flex-basis", _is_size, _is_little, "SIZE"),
    ("min-width min-height", _is_size, _never, "SIZE"),
    ("line-height", _is_line_height, _is_low, "SIZE"),
    ("grid-template-rows", bool, lambda value: "0" in value, "SIZE"),
    ("contain", bool, lambda value: "size" in value or "strict" in value, "SIZE"),
    ("left right top bottom margin-left margin-right margin-top margin-bottom", lambda value: value == "auto" or length(value) is not None, _is_far, "PLACE"),
    ("transform", lambda value: value == "none" or bool(functions(value)), _is_set, "PLACE"),
    ("scale", lambda value: value == "none" or all(map(_is_numeric, value.split())), _is_set, "PLACE"),
    ("translate", lambda value: value == "none" or all(length(word) is not None for word in _split_words(value)), _is_set, "PLACE"),
    ("rotate", bool, _is_set, "PLACE"),
    ("text-indent", lambda value: any(length(word) is not None for word in _split_words(value)), lambda value: any(map(_is_far, value.split())), "PLACE"),
    ("backface-visibility", _one_of("visible hidden"), _never, "PLACE"),
    ("direction", _one_of("ltr rtl"), _never, "PLACE"),
    ("position", _one_of("static relative absolute fixed sticky -webkit-sticky"), None, "PLACE CLIP ORDER COLOR"),
    ("padding-left", _is_positive, None, "PLACE SIZE"),
    ("padding-right padding-top padding-bottom", _is_positive, None, "SIZE"),
    ("clip", lambda value: value == "auto" or value.startswith("rect("), _is_painted, "CLIP"),
    ("clip-path", lambda value: value in ("none", "auto") or "(" in value or value.endswith("-box"), _is_painted, "CLIP"),
    ("font-size", _is_font_size, _is_tiny, "FONT"),
    ("letter-spacing", lambda value: value == "normal" or length(value) is not None, lambda value: value.startswith("-"), "FONT"),
    ("zoom", lambda value: value in ("normal", "reset") or _is_numeric(value), lambda value: (factor := number(value)) is not None and factor < 0.5, "FONT"),
    ("color background-color -webkit-text-fill-color", _is_color, _is_painted, "COLOR"),
    ("background-image", _is_image, _is_painted, "COLOR"),
    ("background-clip", _each_of("border-box padding-box content-box text border-area", r"[\s,]+"), _never, "COLOR"),
    ("background-size text-shadow -webkit-text-stroke color-scheme", bool, _is_painted, "COLOR"),
    ("mix-blend-mode", _one_of(
        "normal multiply screen overlay darken lighten color-dodge color-burn hard-light soft-light difference"
        " exclusion hue saturation color luminosity plus-lighter plus-darker"
    ), _is_painted, "COLOR"),
    ("z-index", lambda value: value == "auto" or _is_numeric(value), lambda value: value.startswith("-"), "ORDER"),
    ("fill stroke fill-opacity", bool, None, "DRAWING"),
    ("isolation", _one_of("auto isolate"), _never, "ORDER"),
)  # fmt: skip
"""Names, the values that they take, those that can hide text, and the effects for which they matter."""
_PROPERTIES = {
    name: Property(takes, hides, tuple(Effect[effect] for effect in effects.split()))
    for names, takes, hides, effects in _TABLE
    for name in names.split()
}


def active(effects: frozenset[Effect]) -> frozenset[str]:
    """Return the properties that have to be known where these effects can hide text."""
    return frozenset(name for name, each in _PROPERTIES.items() if not effects.isdisjoint(each.effects))


@lru_cache(8192)
def triggered(name: str, value: str) -> frozenset[Effect]:
    """Return the effect by which a declaration can hide text, if it can."""
    each = _PROPERTIES.get(name)
    if each is None or each.hides is None:
        return frozenset()
    if "var(" in value or "env(" in value or "attr(" in value or each.hides(value):
        return frozenset(each.effects[:1])
    return frozenset()


# Shorthands

_Item = TypeVar("_Item")
_SIDES = {1: (0, 0, 0, 0), 2: (0, 1, 0, 1), 3: (0, 1, 2, 1), 4: (0, 1, 2, 3)}


def four_sides(values: Sequence[_Item]) -> list[_Item] | None:
    """Return top, right, bottom and left of one to four values; None if there are more or none."""
    order = _SIDES.get(len(values))
    return None if order is None else [values[place] for place in order]


def _expand_sides(value: str) -> list[str] | None:
    return four_sides(_split_words(value))


def _expand_pair(value: str) -> list[str] | None:
    words = _split_words(value)
    return [words[0], words[-1]] if 1 <= len(words) <= 2 else None


def _expand_flex(value: str) -> list[str]:
    words = _split_words(value)
    if words in (["none"], ["auto"]):
        return ["auto"]
    basis = next((word for word in words if number(word) is None), None)
    return [basis or (words[2] if len(words) > 2 else "0px")]


def _expand_grid(value: str) -> list[str]:
    return [value.partition("/")[0].strip() or "none"]


_is_system_font = _one_of("caption icon menu message-box small-caption status-bar")


def _expand_font(value: str) -> list[str] | None:
    words = _split_words(value)
    if len(words) == 1 and _is_system_font(words[0]):
        return ["13px", "normal"]
    for place, word in enumerate(words[:-1]):
        size, slash, height = word.partition("/")
        if _is_font_size(size) and not (number(size) is not None and size != "0"):
            if not slash and words[place + 1].startswith("/"):
                height = words[place + 1][1:] or (words[place + 2] if place + 2 < len(words) else "")
            elif slash and not height:
                height = words[place + 1]
            return [size, height or "normal"]
    return None


_IMAGE = re.compile(r"(?:url|image|image-set|cross-fade|element|paint|[a-z-]*gradient|-webkit-image-set)\(")
_BACKGROUND_WORD = re.compile(
    r"repeat|repeat-[xy]|no-repeat|space|round|scroll|fixed|local|left|right|top|bottom|center|auto|cover|contain"
    r"|(?:border|padding|content)-box"
)


def _expand_background(value: str) -> list[str] | None:
    ground, images, clip, sizes = "transparent", list[str](), "border-box", list[str]()
    for layer in parts(value)[:_MOST]:
        before, *rest = split_outside(layer, _SLASH)
        after = _split_words("/".join(rest))
        if rest:
            sizes.append(" ".join(after[:2]))
        for word in _split_words(before) + after:
            if _IMAGE.match(word):
                images.append(word)
            elif color(word) is not None:
                ground = word
            elif word == "text":
                clip = "text"
            elif word != "none" and not _BACKGROUND_WORD.fullmatch(word) and length(word) is None:
                return None
    return [ground, ",".join(images) or "none", clip, sizes[0] if sizes else "auto"]


_ANIMATION_WORDS = re.compile(
    r"(?:[-+]?(?:\d*\.)?\d+m?s)|ease|linear|ease-in|ease-out|ease-in-out|step-start|step-end"
    r"|(?:cubic-bezier|steps|linear)\(.*|running|paused|auto"
)


def _expand_animation(value: str) -> list[str]:
    names, fill, direction, count = list[str](), "none", "normal", "1"
    for one in parts(value)[:_MOST]:
        for word in _split_words(one):
            if word in ("forwards", "backwards", "both"):
                fill = word
            elif word in ("normal", "reverse", "alternate", "alternate-reverse"):
                direction = word
            elif word == "infinite" or number(word) is not None:
                count = word
            elif not _ANIMATION_WORDS.fullmatch(word):
                names.append(word)
    return [",".join(names) or "none", fill, direction, count]


_SHORTHANDS: Mapping[str, tuple[tuple[str, ...], Callable[[str], list[str] | None]]] = {
    name: (tuple(longhands.split()), expand)
    for name, longhands, expand in (
        ("inset", "top right bottom left", _expand_sides),
        ("margin", "margin-top margin-right margin-bottom margin-left", _expand_sides),
        ("padding", "padding-top padding-right padding-bottom padding-left", _expand_sides),
        ("inset-inline", "left right", _expand_pair),
        ("inset-block", "top bottom", _expand_pair),
        ("overflow", "overflow-x overflow-y", _expand_pair),
        ("margin-inline", "margin-left margin-right", _expand_pair),
        ("margin-block", "margin-top margin-bottom", _expand_pair),
        ("padding-inline", "padding-left padding-right", _expand_pair),
        ("padding-block", "padding-top padding-bottom", _expand_pair),
        ("font", "font-size line-height", _expand_font),
        (
            "background",
            "background-color background-image background-clip background-size",
            _expand_background,
        ),
        (
            "animation",
            "animation-name animation-fill-mode animation-direction animation-iteration-count",
            _expand_animation,
        ),
        ("mask", "mask-image", lambda value: [value]),
        ("flex", "flex-basis", _expand_flex),
        ("grid-template", "grid-template-rows", _expand_grid),
        ("grid", "grid-template-rows", _expand_grid),
    )
}
_ALIASES = {
    **{f"-webkit-{name}": name for name in (
        "clip-path", "transform", "filter", "mask-image", "mask", "animation", "animation-name", "opacity",
        "animation-fill-mode", "animation-direction", "animation-iteration-count",
        "background-clip", "backface-visibility", "flex-basis",
    )},
    "inline-size": "width", "block-size": "height", "max-inline-size": "max-width",
    "max-block-size": "max-height", "min-inline-size": "min-width", "min-block-size": "min-height",
    "inset-inline-start": "left", "inset-inline-end": "right", "inset-block-start": "top",
    "inset-block-end": "bottom", "margin-inline-start": "margin-left", "margin-inline-end": "margin-right",
    "margin-block-start": "margin-top", "margin-block-end": "margin-bottom",
    "padding-inline-start": "padding-left", "padding-inline-end": "padding-right",
    "padding-block-start": "padding-top", "padding-block-end": "padding-bottom",
    "overflow-inline": "overflow-x", "overflow-block": "overflow-y", "word-wrap": "",
    "-webkit-margin-start": "margin-left", "-webkit-padding-start": "padding-left",
}  # fmt: skip
_NAMES = frozenset(_PROPERTIES) | frozenset(_ALIASES) | frozenset(_SHORTHANDS)


# Blocks


def declarations(block: str) -> Declarations:
    """Return the declarations of a block that matter, in order. Custom properties are kept."""
    return tuple(_split_block(block))


def inline(style: str) -> Declarations:
    """Return the declarations of a style attribute."""
    return tuple(_split_block(masked(style[: _LONGEST * 10])))


def _split_block(block: str) -> Iterator[tuple[str, str, bool]]:
    simple = "(" not in block or ";" not in block
    for part in block.split(";") if simple else split_outside(block, _SEMICOLON):
        name, colon, value = part.partition(":")
        if not colon:
            continue
        name = name.strip()
        if "\\" in name:
            name = unescaped(name)
        if name.startswith("--"):
            yield name, value.strip()[:_LONGEST], "!important" in value
            continue
        name = name.lower()
        if name in _NAMES:
            yield from declared(name, value)


@lru_cache(8192)
def declared(name: str, value: str) -> Declarations:
    """Return the longhands of one declaration; none if it is invalid."""
    name = _ALIASES.get(name, name)
    value = unescaped(value).strip().lower()
    before, mark, after = value.rpartition("!")
    important = bool(mark) and after.strip() == "important"
    if important:
        value = before.strip()
    if not value or len(value) > _LONGEST:
        return ()
    return tuple((one, what, important) for one, what in longhands(name, value))


_VAR = re.compile(r"\b(?:var|env|attr)\(")


def longhands(name: str, value: str) -> list[tuple[str, str]]:
    """Return valid longhands with their values. One with a variable is valid, and kept as it is."""
    if name not in _SHORTHANDS:
        valid = value in _WIDE or (name != "all" and bool(_VAR.search(value))) or _is_valid(name, value)
        return [(name, value)] if valid else []
    names, expand = _SHORTHANDS[name]
    if value in _WIDE:
        return [(each, value) for each in names]
    if _VAR.search(value):
        return [(each, f"{name}\x1f{value}") for each in names]
    values = expand(value)
    if values is None or not all(map(_is_valid, names, values)):
        return []
    return list(zip(names, values, strict=True))


def _is_valid(name: str, value: str) -> bool:
    each = _PROPERTIES.get(name)
    return each is not None and each.takes(value)
