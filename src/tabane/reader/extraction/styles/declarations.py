"""Declarations that can decide whether text is visible: checked, and shorthands expanded.

Anything else is dropped. An invalid declaration is dropped too, as browsers do, so that it cannot replace a
valid one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from tabane.reader.extraction.styles.sheet_rules import Declarations, masked, unescaped
from tabane.reader.extraction.styles.values import color, length, number, parts

_WIDE = frozenset(("inherit", "initial", "unset", "revert", "revert-layer"))
_DISPLAYS = frozenset(
    [
        "none",
        "contents",
        "block",
        "inline",
        "inline-block",
        "flow-root",
        "flex",
        "inline-flex",
        "grid",
        "inline-grid",
        "table",
        "inline-table",
        "table-row",
        "table-cell",
        "table-row-group",
        "table-header-group",
        "table-footer-group",
        "table-column",
        "table-column-group",
        "table-caption",
        "list-item",
        "run-in",
        "math",
        "ruby",
        "ruby-text",
        "-webkit-box",
        "-webkit-inline-box",
        "-webkit-flex",
        "-webkit-inline-flex",
        "flow",
        "inline-list-item",
        "block-ruby",
    ]
)
_SIZES = frozenset(
    [
        "auto",
        "none",
        "min-content",
        "max-content",
        "fit-content",
        "-webkit-fill-available",
        "-moz-available",
        "stretch",
        "-webkit-min-content",
        "-webkit-max-content",
        "-webkit-fit-content",
        "intrinsic",
        "contain",
    ]
)
_FONT_SIZES = {
    "xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0, "x-large": 24.0,
    "xx-large": 32.0, "xxx-large": 48.0,
}  # fmt: skip
_RELATIVE_SIZES = {"smaller": "0.8333em", "larger": "1.2em"}
_BLENDS = frozenset(
    [
        "normal",
        "multiply",
        "screen",
        "overlay",
        "darken",
        "lighten",
        "color-dodge",
        "color-burn",
        "hard-light",
        "soft-light",
        "difference",
        "exclusion",
        "hue",
        "saturation",
        "color",
        "luminosity",
        "plus-lighter",
        "plus-darker",
    ]
)
_OVERFLOWS = frozenset(["visible", "hidden", "clip", "scroll", "auto", "overlay"])
_CLIPS = frozenset(["border-box", "padding-box", "content-box", "text", "border-area"])
_FUNCTIONS = re.compile(r"\s*([a-z0-9-]+)\(([^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*)\)\s*")
_LONGEST = 2000
_MOST = 200
_VAR = re.compile(r"\b(?:var|env|attr)\(")


def functions(value: str) -> list[tuple[str, str]] | None:
    """Return the functions that a value consists of, with their arguments; None if it is anything else."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(value):
        one = _FUNCTIONS.match(value, at)
        if one is None:
            return None
        found.append((one[1], one[2].strip()))
        at = one.end()
    return found


def font_size(value: str) -> str:
    """Return a font size as a length."""
    if value in _FONT_SIZES:
        return f"{_FONT_SIZES[value]}px"
    return _RELATIVE_SIZES.get(value, value)


def _one_of(words: frozenset[str]) -> Callable[[str], bool]:
    return words.__contains__


def _is_length(value: str) -> bool:
    return value == "auto" or length(value) is not None


def _is_size(value: str) -> bool:
    if value in _SIZES or value.startswith(("fit-content(", "calc-size(")):
        return True
    found = length(value)
    return found is not None and (found >= 0 or "(" in value)


def _is_positive(value: str) -> bool:
    found = length(value)
    return found is not None and (found >= 0 or "(" in value)


def _font_size(value: str) -> bool:
    return value in _FONT_SIZES or value in _RELATIVE_SIZES or _is_positive(value)


def _line_height(value: str) -> bool:
    found = number(value)
    return value == "normal" or (found is not None and found >= 0) or _is_positive(value)


def _is_color(value: str) -> bool:
    return color(value) is not None or value.startswith(
        ("color(", "rgb(from", "oklch(from", "hsl(from", "lab(")
    )


def _is_spacing(value: str) -> bool:
    return value == "normal" or length(value) is not None


def _is_indent(value: str) -> bool:
    return any(length(word) is not None for word in _top_level_words(value))


def _is_numeric(value: str) -> bool:
    return number(value) is not None


def _is_integer(value: str) -> bool:
    return value == "auto" or number(value) is not None


def _is_transform(value: str) -> bool:
    return value == "none" or bool(functions(value))


def _is_shape(value: str) -> bool:
    return value in ("none", "auto") or "(" in value or value.endswith("-box")


def _is_scale(value: str) -> bool:
    return value == "none" or all(number(word) is not None for word in value.split())


def _any(value: str) -> bool:
    return bool(value)


def _are_lengths(value: str) -> bool:
    return value == "none" or all(length(word) is not None for word in _top_level_words(value))


_VALID: Mapping[str, Callable[[str], bool]] = {
    "display": lambda value: all(word in _DISPLAYS for word in value.split()),
    "visibility": _one_of(frozenset(("visible", "hidden", "collapse"))),
    "content-visibility": _one_of(frozenset(("visible", "auto", "hidden"))),
    "opacity": _is_numeric,
    "position": _one_of(frozenset(("static", "relative", "absolute", "fixed", "sticky", "-webkit-sticky"))),
    **dict.fromkeys(("left", "right", "top", "bottom"), _is_length),
    **dict.fromkeys(("margin-left", "margin-right", "margin-top", "margin-bottom"), _is_length),
    **dict.fromkeys(("padding-left", "padding-right", "padding-top", "padding-bottom"), _is_positive),
    **dict.fromkeys(
        ("width", "height", "max-width", "max-height", "min-width", "min-height", "flex-basis"), _is_size
    ),
    **dict.fromkeys(("overflow-x", "overflow-y"), _one_of(_OVERFLOWS)),
    "font-size": _font_size,
    "line-height": _line_height,
    **dict.fromkeys(("color", "background-color", "-webkit-text-fill-color"), _is_color),
    "background-image": lambda value: value == "none" or "(" in value,
    "background-clip": lambda value: all(word in _CLIPS for word in re.split(r"[\s,]+", value)),
    "background-size": _any,
    "text-indent": _is_indent,
    "letter-spacing": _is_spacing,
    "clip": lambda value: value == "auto" or value.startswith("rect("),
    "clip-path": _is_shape,
    "transform": _is_transform,
    "scale": _is_scale,
    "translate": _are_lengths,
    "rotate": _any,
    "zoom": lambda value: value in ("normal", "reset") or number(value) is not None,
    "filter": lambda value: value == "none" or "(" in value,
    "mask-image": lambda value: value == "none" or "(" in value,
    "z-index": _is_integer,
    "animation-name": _any,
    "animation-fill-mode": _any,
    "animation-direction": _any,
    "animation-iteration-count": _any,
    "transition": _any,
    "will-change": _any,
    "text-shadow": _any,
    "-webkit-text-stroke": _any,
    "-webkit-text-security": _one_of(frozenset(("none", "disc", "circle", "square"))),
    "mix-blend-mode": _one_of(_BLENDS),
    "isolation": _one_of(frozenset(("auto", "isolate"))),
    "backface-visibility": _one_of(frozenset(("visible", "hidden"))),
    "contain": _any,
    "content": lambda value: value in ("normal", "none") or "(" in value or value[0] in "\"'",
    "grid-template-rows": _any,
    "color-scheme": _any,
    "float": _one_of(frozenset(("left", "right", "none", "inline-start", "inline-end"))),
    "direction": _one_of(frozenset(("ltr", "rtl"))),
}
_ALIASES = {
    **{f"-webkit-{name}": name for name in (
        "clip-path", "transform", "filter", "mask-image", "mask", "animation", "animation-name", "opacity",
        "animation-fill-mode", "animation-direction", "animation-iteration-count", "transition",
        "background-clip", "backface-visibility", "flex-basis",
    )},
    "-webkit-transition-property": "transition", "transition-property": "transition",
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
_SIDES = {
    "inset": ("top", "right", "bottom", "left"),
    "margin": ("margin-top", "margin-right", "margin-bottom", "margin-left"),
    "padding": ("padding-top", "padding-right", "padding-bottom", "padding-left"),
}
_PAIRS = {
    "inset-inline": ("left", "right"), "inset-block": ("top", "bottom"),
    "overflow": ("overflow-x", "overflow-y"),
    "margin-inline": ("margin-left", "margin-right"), "margin-block": ("margin-top", "margin-bottom"),
    "padding-inline": ("padding-left", "padding-right"), "padding-block": ("padding-top", "padding-bottom"),
}  # fmt: skip
_SHORTHANDS: Mapping[str, tuple[str, ...]] = {
    **_SIDES,
    **_PAIRS,
    "font": ("font-size", "line-height"),
    "background": ("background-color", "background-image", "background-clip", "background-size"),
    "animation": (
        "animation-name", "animation-fill-mode", "animation-direction", "animation-iteration-count",
    ),
    "mask": ("mask-image",),
    "flex": ("flex-basis",),
    "grid-template": ("grid-template-rows",),
    "grid": ("grid-template-rows",),
}  # fmt: skip
_NAMES = frozenset(_VALID) | frozenset(_ALIASES) | frozenset(_SHORTHANDS) | {"all"}


def declarations(block: str) -> Declarations:
    """Return the declarations of a block that matter, in order. Custom properties are kept."""
    return tuple(_split_block(block))


def inline(style: str) -> Declarations:
    """Return the declarations of a style attribute."""
    return tuple(_split_block(masked(style[: _LONGEST * 10])))


def _split_block(block: str) -> Iterator[tuple[str, str, bool]]:
    if "(" not in block or ";" not in block:
        statements = block.split(";")
    else:
        found, depth, begin = [], 0, 0
        for at in re.finditer(r"[();]", block):
            if at[0] == "(":
                depth += 1
            elif at[0] == ")":
                depth = max(0, depth - 1)
            elif not depth:
                found.append(block[begin : at.start()])
                begin = at.end()
        statements = [*found, block[begin:]]
    for part in statements:
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


def longhands(name: str, value: str) -> list[tuple[str, str]]:
    """Return valid longhands with their values. One with a variable is valid, and kept as it is."""
    if name == "all":
        return [(name, value)] if value in _WIDE else []
    if name in _SHORTHANDS:
        names = _SHORTHANDS[name]
        if value in _WIDE:
            return [(each, value) for each in names]
        if _VAR.search(value):
            return [(each, f"{name}\x1f{value}") for each in names]
        expanded = _expand(name, value)
        if expanded is None:
            return []
        return expanded if all(_is_valid(*each) for each in expanded) else []
    return [(name, value)] if value in _WIDE or _VAR.search(value) or _is_valid(name, value) else []


def _is_valid(name: str, value: str) -> bool:
    valid = _VALID.get(name)
    return valid is not None and valid(value)


def _expand(name: str, value: str) -> list[tuple[str, str]] | None:
    words = _top_level_words(value)
    if name in _SIDES:
        if not 1 <= len(words) <= 4:
            return None
        top, right, bottom, left = (
            words[0],
            words[min(1, len(words) - 1)] if len(words) > 1 else words[0],
            words[2] if len(words) > 2 else words[0],
            words[3] if len(words) > 3 else words[min(1, len(words) - 1)],
        )
        return list(zip(_SIDES[name], (top, right, bottom, left), strict=True))
    if name in _PAIRS:
        if not 1 <= len(words) <= 2:
            return None
        return [(_PAIRS[name][0], words[0]), (_PAIRS[name][1], words[-1])]
    if name == "font":
        return _font_longhands(words)
    if name == "background":
        return _background_longhands(value)
    if name == "animation":
        return _animation_longhands(value)
    if name == "flex":
        if words == ["none"] or words == ["auto"]:
            return [("flex-basis", "auto")]
        basis = [word for word in words if number(word) is None]
        if basis:
            return [("flex-basis", basis[0])]
        return [("flex-basis", words[2] if len(words) > 2 else "0px")]
    if name in ("grid-template", "grid"):
        rows = value.partition("/")[0].strip()
        return [("grid-template-rows", rows or "none")]
    return [("mask-image", value)]


def _top_level_words(value: str) -> list[str]:
    """Return what is between white space that is outside of parentheses."""
    if "(" not in value:
        return value.split()
    found, depth, begin = [], 0, 0
    for at in re.finditer(r"[()]|\s+", value):
        if at[0] == "(":
            depth += 1
        elif at[0] == ")":
            depth -= 1
        elif depth <= 0:
            found.append(value[begin : at.start()])
            begin = at.end()
    return [word for word in (*found, value[begin:]) if word]


_SYSTEM_FONTS = ("caption", "icon", "menu", "message-box", "small-caption", "status-bar")


def _font_longhands(words: list[str]) -> list[tuple[str, str]] | None:
    if len(words) == 1 and words[0] in (
        "caption",
        "icon",
        "menu",
        "message-box",
        "small-caption",
        "status-bar",
    ):
        return [("font-size", "13px"), ("line-height", "normal")]
    for number_, word in enumerate(words[:-1]):
        size, slash, height = word.partition("/")
        if _font_size(size) and not (number(size) is not None and size != "0"):
            if not slash and words[number_ + 1].startswith("/"):
                height = words[number_ + 1][1:] or (words[number_ + 2] if number_ + 2 < len(words) else "")
            elif slash and not height:
                height = words[number_ + 1]
            return [("font-size", size), ("line-height", height or "normal")]
    return None


def _background_longhands(value: str) -> list[tuple[str, str]] | None:
    layers = parts(value)
    ground, images, clip, sizes = "transparent", list[str](), "border-box", list[str]()
    for layer in layers[:_MOST]:
        before, slash, after = _split_layer(layer)
        if slash:
            sizes.append(" ".join(_top_level_words(after)[:2]))
        for word in _top_level_words(before) + _top_level_words(after):
            if _IMAGE.match(word):
                images.append(word)
            elif color(word) is not None:
                ground = word
            elif word == "text":
                clip = "text"
            elif word != "none" and not _BACKGROUND_WORD.fullmatch(word) and length(word) is None:
                return None
    return [
        ("background-color", ground),
        ("background-image", ",".join(images) or "none"),
        ("background-clip", clip),
        ("background-size", sizes[0] if sizes else "auto"),
    ]


_IMAGE = re.compile(r"(?:url|image|image-set|cross-fade|element|paint|[a-z-]*gradient|-webkit-image-set)\(")
_BACKGROUND_WORD = re.compile(
    r"repeat|repeat-[xy]|no-repeat|space|round|scroll|fixed|local|left|right|top|bottom|center|auto|cover|contain"
    r"|(?:border|padding|content)-box"
)


def _split_layer(layer: str) -> tuple[str, str, str]:
    depth = 0
    for at in re.finditer(r"[()/]", layer):
        if at[0] == "(":
            depth += 1
        elif at[0] == ")":
            depth -= 1
        elif not depth:
            return layer[: at.start()], "/", layer[at.end() :]
    return layer, "", ""


_ANIMATION_WORDS = re.compile(
    r"(?:[-+]?(?:\d*\.)?\d+m?s)|ease|linear|ease-in|ease-out|ease-in-out|step-start|step-end"
    r"|(?:cubic-bezier|steps|linear)\(.*|running|paused|auto"
)


def _animation_longhands(value: str) -> list[tuple[str, str]]:
    names, fill, direction, count = list[str](), "none", "normal", "1"
    for one in parts(value)[:_MOST]:
        for word in _top_level_words(one):
            if word in ("forwards", "backwards", "both"):
                fill = word
            elif word in ("normal", "reverse", "alternate", "alternate-reverse"):
                direction = word
            elif word == "infinite" or number(word) is not None:
                count = word
            elif not _ANIMATION_WORDS.fullmatch(word):
                names.append(word)
    return [
        ("animation-name", ",".join(names) or "none"),
        ("animation-fill-mode", fill),
        ("animation-direction", direction),
        ("animation-iteration-count", count),
    ]
