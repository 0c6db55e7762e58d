"""Which declarations can hide text, by group: what no declaration of a page can do needs no judgment."""

from __future__ import annotations

from enum import Enum, auto
from functools import lru_cache

from tabane.reader.extraction.styles.lengths import FONT_SIZE, length, number


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


_GROUPS = {
    Effect.DISPLAY: "display content-visibility content all float",
    Effect.VISIBILITY: "visibility -webkit-text-security",
    Effect.OPACITY: "opacity filter mask-image animation-name animation-fill-mode animation-direction"
    " animation-iteration-count transition will-change",
    Effect.SIZE: "overflow-x overflow-y width height max-width max-height min-width min-height line-height"
    " grid-template-rows flex-basis contain",
    Effect.PLACE: "left right top bottom margin-left margin-top margin-right margin-bottom transform"
    " translate scale rotate text-indent backface-visibility direction",
    Effect.CLIP: "clip clip-path",
    Effect.FONT: "font-size letter-spacing zoom",
    Effect.COLOR: "color background-color -webkit-text-fill-color background-image background-clip"
    " background-size text-shadow -webkit-text-stroke mix-blend-mode color-scheme",
    Effect.ORDER: "z-index isolation",
}
_OF = {name: each for each, names in _GROUPS.items() for name in names.split()}
_SHARED = {
    "position": (Effect.PLACE, Effect.CLIP, Effect.ORDER, Effect.COLOR),
    "padding-left": (Effect.PLACE, Effect.SIZE), "padding-right": (Effect.SIZE,),
    "padding-top": (Effect.SIZE,),
    "padding-bottom": (Effect.SIZE,), "overflow-x": (Effect.PLACE,), "overflow-y": (Effect.PLACE,),
    "width": (Effect.PLACE,), "height": (Effect.PLACE,),
}  # fmt: skip
_CHANGES = (
    "transition", "will-change", "animation-name", "animation-fill-mode", "animation-direction",
    "animation-iteration-count",
)  # fmt: skip
_NEAR_ZERO = 5.0
_FAR = 250.0


def active(groups: frozenset[Effect]) -> frozenset[str]:
    """Return the properties that have to be known where these groups can hide text."""
    names = {name for each in groups for name in _GROUPS[each].split()}
    names.update(name for name, users in _SHARED.items() if not groups.isdisjoint(users))
    if not groups.isdisjoint((Effect.VISIBILITY, Effect.PLACE, Effect.CLIP, Effect.SIZE)):
        names.update(_CHANGES)
    return frozenset(names)


@lru_cache(8192)
def triggered(name: str, value: str) -> frozenset[Effect]:
    """Return the group in which a declaration can hide text, if it can."""
    each = _OF.get(name)
    if each is None:
        return frozenset()
    if "var(" in value or "env(" in value or "attr(" in value or _can(name, value, each):
        return frozenset((each,))
    return frozenset()


def _can(name: str, value: str, each: Effect) -> bool:
    if name == "display":
        return value in ("none", "table-column", "table-column-group")
    if each is Effect.DISPLAY:
        return name in ("all", "content-visibility", "content")
    if each is Effect.VISIBILITY:
        return value not in ("visible", "none")
    if each is Effect.OPACITY:
        return _fades(name, value)
    if each is Effect.SIZE:
        return not name.startswith(("overflow", "min-")) and _is_little(name, value)
    if each is Effect.PLACE:
        return _moves(name, value)
    if each is Effect.FONT:
        return _shrinks(name, value)
    if each is Effect.ORDER:
        return value.startswith("-")
    return name != "background-clip" and value not in ("none", "auto")


def _fades(name: str, value: str) -> bool:
    if name == "opacity":
        found = number(value)
        return found is None or found < 0.6
    return name in ("filter", "mask-image") and value != "none"


def _is_little(name: str, value: str) -> bool:
    if name == "contain":
        return "size" in value or "strict" in value
    if name == "grid-template-rows":
        return "0" in value
    if name == "line-height" and (found := number(value)) is not None:
        return found < 0.3
    size = length(value, base=100)
    return size is not None and size < _NEAR_ZERO


def _moves(name: str, value: str) -> bool:
    if name in ("left", "right", "top", "bottom") or name.startswith("margin"):
        distance = length(value, base=300)
        return distance is not None and abs(distance) >= _FAR
    if name == "text-indent":
        return any(
            (length(word, base=300) or 0) and abs(length(word, base=300) or 0) >= _FAR
            for word in value.split()
        )
    return name not in ("backface-visibility", "direction") and value != "none"


def _shrinks(name: str, value: str) -> bool:
    if name == "zoom":
        found = number(value)
        return found is not None and found < 0.5
    if name == "letter-spacing":
        return value.startswith("-")
    if value in ("smaller", "larger") or value.endswith(("em", "%")):
        size = length(value, base=16)
        return value == "smaller" or (size is not None and size < FONT_SIZE)
    size = length(value, base=16)
    return size is not None and size < 8
