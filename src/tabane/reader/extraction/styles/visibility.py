"""Whether text is visible, by what is set for an element and what it inherits.

Custom properties are inherited and put in place of var(), with limits on depth and length. Of a clip-path it
matters whether anything of the element is within.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import lru_cache

from tabane.reader.extraction.styles.declarations import font_size, four_sides, functions, longhands
from tabane.reader.extraction.styles.sheet_rules import Declarations
from tabane.reader.extraction.styles.values import (
    BLACK,
    COMMA,
    FONT_SIZE,
    LINK,
    WHITE,
    WIDTH,
    Color,
    angle,
    closing_bracket,
    color,
    contrast,
    distance,
    length,
    number,
    parts,
)

Specified = Mapping[str, str]
_CALL = re.compile(r"\b(?:var|env)\(\s*")
_NAME = re.compile(r"(--[^\s,()]+|[a-z-]+)\s*")
_DEEP = 12
_LONGEST = 2000
_MOST = 200


class CustomProperties:
    """Custom properties where an element is. Equal only to itself, so that states compare quickly."""

    __slots__ = ("_outer", "_own")

    def __init__(self, own: Mapping[str, str] | None = None, outer: CustomProperties | None = None) -> None:
        self._own = own or {}
        self._outer = outer

    def with_those_of(self, specified: Mapping[str, str]) -> CustomProperties:
        """Return these with the custom properties that are set for an element."""
        own = {name: value for name, value in specified.items() if name.startswith("--")}
        return CustomProperties(own, self) if own else self

    def get(self, name: str) -> str | None:
        """Return the value of a custom property, which may be inherited; None if it has none."""
        at: CustomProperties | None = self
        while at is not None:
            value = at._own.get(name)
            if value is not None and value not in ("inherit", "unset"):
                return None if value == "initial" else value
            at = at._outer
        return None


def resolved(value: str, variables: CustomProperties) -> str | None:
    """Return a value with its variables replaced, in lower case; None if one is missing or there are too
    many.
    """
    left = [_MOST]
    found = _resolved(value, variables, 0, left)
    return None if found is None else " ".join(found.lower().replace("!important", "").split())


def _resolved(value: str, variables: CustomProperties, depth: int, left: list[int]) -> str | None:
    if depth > _DEEP:
        return None
    pieces: list[str] = []
    at = 0
    while call := _CALL.search(value, at):
        left[0] -= 1
        end = closing_bracket(value, call.end(), COMMA)
        name = _NAME.match(value, call.end())
        if left[0] < 0 or end < 0 or name is None:
            return None
        pieces.append(value[at : call.start()])
        rest = value[name.end() : end].strip()
        inner = variables.get(name[1])
        text = _resolved(inner, variables, depth + 1, left) if inner is not None else None
        if text is None:
            if not rest.startswith(","):
                return None
            text = _resolved(rest[1:].strip(), variables, depth + 1, left)
        if text is None or sum(map(len, pieces)) + len(text) > _LONGEST:
            return None
        pieces.append(text)
        at = end + 1
    return "".join((*pieces, value[at:]))


_INHERITED = frozenset(
    ("visibility", "color", "-webkit-text-fill-color", "font-size", "text-indent", "letter-spacing",
     "text-shadow", "-webkit-text-stroke", "-webkit-text-security", "line-height", "direction")
)  # fmt: skip
_CELLS = frozenset(("td", "th", "tr", "tbody", "thead", "tfoot", "col", "colgroup"))
_LEAST_FONT = 3.0
_LEAST_CONTRAST = 1.15
_LEAST_DISTANCE = 0.14
_FAINT = 0.05
_FAR_LEFT, _FAR_UP, _FAR_ON = -480.0, -480.0, 3000.0
_FAR_FIXED = -240.0
_FAR_MARGIN = -1500.0
_LITTLE = 4.0
_SHIFTS: Mapping[str, tuple[int | None, int | None]] = {
    "translate": (0, 1),
    "translate3d": (0, 1),
    "translatex": (0, None),
    "translatey": (None, 0),
    "matrix": (4, 5),
    "matrix3d": (12, 13),
}
"""Places of the arguments by which transforms move an element, across and down."""
_UNMOVED = None, None
_OUT = 0.99
"""Part of an element's size by which it has to be moved to be out of what is around it."""


class Reason(Enum):
    """Why text is not visible."""

    NONE = auto()
    DISPLAY = auto()
    VISIBILITY = auto()
    OPACITY = auto()
    PLACE = auto()
    CLIP = auto()
    SIZE = auto()
    FONT = auto()
    COLOR = auto()
    SQUASHED = auto()


@dataclass(frozen=True, slots=True)
class VisualState:
    """Visibility of the place where an element is.

    ``grounds`` are the colors that may be behind it; None if unknown. ``silence`` is why text that is
    directly in the element cannot be seen. ``placed``: something around it is positioned; ``clipped``: the
    nearest such clips what is outside of it; ``floor``: an opaque ground above the nearest stacking context;
    ``cropped``: its lines have no height. ``pulled`` is the indent of the block that it is in.
    """

    color: Color = BLACK
    fill: Color | None = None
    font: float = FONT_SIZE
    scale: float = 1.0
    visible: bool = True
    opacity: float = 1.0
    indent: float = 0.0
    pulled: float = 0.0
    spacing: float = 0.0
    secret: bool = False
    outlined: tuple[Color, ...] = ()
    grounds: tuple[Color, ...] | None = (WHITE,)
    variables: CustomProperties = field(default_factory=CustomProperties)
    placed: bool = False
    clipped: bool = False
    floor: bool = False
    squeezed: bool = False
    flexible: bool = False
    lifted: bool = False
    line: float | None = None
    cropped: bool = False
    silence: Reason = Reason.NONE


@dataclass(frozen=True, slots=True)
class Judgment:
    """Judgment of an element: the state for its contents, and why nothing in it is visible."""

    state: VisualState
    hidden: Reason = Reason.NONE


@dataclass(frozen=True, slots=True)
class ElementKind:
    """Properties of an element besides its style.

    ``unknown``: sheets that are not in the page may have set more for it.
    """

    tag: str
    inline: bool = False
    linked: bool = False
    unknown: bool = False
    painted: bool = False
    """These sheets also set backgrounds that matter."""
    top: bool = False


def judged(
    around: VisualState,
    specified: Specified,
    kind: ElementKind,
    frames: Mapping[str, tuple[Declarations, Declarations]],
) -> Judgment:
    """Judge an element by what is set for it and by the state of its parent."""
    return _Judging(around, specified, kind, frames).judgment()


class _Judging:
    """Judges one element."""

    def __init__(
        self,
        around: VisualState,
        specified: Specified,
        kind: ElementKind,
        frames: Mapping[str, tuple[Declarations, Declarations]],
    ) -> None:
        self._around, self._kind = around, kind
        self._variables = around.variables.with_those_of(specified)
        self._set = dict(specified)
        self._values: dict[str, str] = {}
        self._apply_animation(frames)
        value = font_size(self._value("font-size"))
        if not value:
            self._font = self._around.font
        elif value == "initial":
            self._font = FONT_SIZE
        else:
            found = length(value, self._around.font, self._around.font)
            self._font = self._around.font if found is None else min(max(0.0, found), 1e5)
        self._position = self._value("position") or "static"

    def _apply_animation(self, frames: Mapping[str, tuple[Declarations, Declarations]]) -> None:
        """Set what an animation leaves at its end."""
        if not frames or "animation-name" not in self._set:
            return
        if self._value("animation-fill-mode") not in ("forwards", "both"):
            return
        if self._value("animation-iteration-count") == "infinite":
            return
        back = self._value("animation-direction") in ("reverse", "alternate-reverse")
        for name in re.split(r"[\s,]+", self._value("animation-name")):
            found = frames.get(name) or frames.get(name.lower())
            if found is not None:
                self._set.update((what, value) for what, value, _ in found[0 if back else 1])
        self._values.clear()

    def _value(self, name: str) -> str:
        """Return what is set for a property, with its variables; empty if nothing is."""
        known = self._values.get(name)
        if known is None:
            known = self._values[name] = self._resolved(name)
        return known

    def _resolved(self, name: str) -> str:
        value = self._set.get(name, "")
        if not value:
            if (everything := self._set.get("all")) and name not in ("direction",):
                return "initial" if everything == "initial" else ""
            return ""
        if "var(" in value or "env(" in value:
            shorthand, mark, rest = value.rpartition("\x1f")
            text = resolved(rest if mark else value, self._variables)
            if text is None:
                return ""
            expanded = longhands(shorthand if mark else name, text)
            value = next((what for one, what in expanded if one == name), "")
        if value in ("unset", "revert", "revert-layer"):
            return ""
        if value == "inherit":
            return "" if name in _INHERITED else "inherit"
        return value

    def _pixels(self, name: str, base: float = WIDTH) -> float | None:
        value = self._value(name)
        return length(value, self._font, base) if value else None

    def judgment(self) -> Judgment:
        reason = self._reason_gone()
        state = self._inner_state()
        if reason is Reason.NONE and state.opacity <= _FAINT:
            reason = Reason.OPACITY
        return Judgment(state, reason)

    # What hides an element with all that is in it

    def _reason_gone(self) -> Reason:
        if self._value("display") in ("none", "table-column", "table-column-group"):
            return Reason.DISPLAY
        if self._value("content-visibility") == "hidden" or "url(" in self._value("content"):
            return Reason.DISPLAY
        if self._is_away() or self._is_turned_away() or self._is_below():
            return Reason.PLACE
        if self._is_clipped():
            return Reason.CLIP
        return Reason.SIZE if self._is_squashed() else Reason.NONE

    @property
    def _in_line(self) -> bool:
        """Whether sizes and transforms have no effect on it."""
        display = self._value("display")
        if self._value("float") in ("left", "right") or self._position in ("absolute", "fixed"):
            return False
        if self._around.flexible or self._kind.unknown:
            return False
        return display in ("inline", "contents") or (
            self._kind.inline and display in ("", "initial", "inherit")
        )

    def _is_away(self) -> bool:
        across, down = self._moved_by()
        if self._position in ("absolute", "fixed") and self._is_outside():
            return True
        if across <= _FAR_LEFT or across >= _FAR_ON or down >= _FAR_ON:
            return True
        own = self._pixels("margin-top") or 0.0
        return down <= (_FAR_MARGIN if own < 0 and down - own > _FAR_UP else _FAR_UP)

    def _moved_by(self) -> tuple[float, float]:
        """Return how far an element is moved to the right and down, as far as can be known."""
        across = (self._pixels("margin-left") or 0.0) + (self._pixels("padding-left") or 0.0)
        across = min(across, 0.0) if across < 0 else 0.0
        down = min(self._pixels("margin-top") or 0.0, 0.0)
        if self._in_line:
            down = 0.0
        if self._position != "static" or (self._kind.unknown and "position" not in self._set):
            free = self._position in ("absolute", "fixed") and not (
                self._around.placed and self._position == "absolute"
            )
            width, height = (WIDTH, 800.0) if free or self._position == "relative" else (300.0, 300.0)
            left, right = self._pixels("left", width), self._pixels("right", width)
            top, bottom = self._pixels("top", height), self._pixels("bottom", height)
            if left is not None:
                across += left
            elif right is not None:
                across -= right
            if top is not None:
                down += top
            elif bottom is not None:
                down -= bottom if self._position == "relative" or abs(bottom) > 480 else 0.0
        if not self._in_line:
            more = self._transformed_by()
            across, down = across + more[0], down + more[1]
        return across, down

    def _is_outside(self) -> bool:
        """Return whether it is beside the screen, or beside what clips it."""
        if self._position != "fixed" and not self._around.clipped:
            return False
        for side, other in (("left", "right"), ("top", "bottom"), ("right", "left"), ("bottom", "top")):
            value = self._value(side)
            if not value.endswith(("%", "vw", "vh")) or self._value(other) not in ("", "auto"):
                continue
            share = length(value.replace("vw", "%").replace("vh", "%"), 1, 1)
            if share is None:
                continue
            moved = self._moved_share(0 if side in ("left", "right") else 1)
            if side in ("right", "bottom"):
                moved = -moved
            if (share >= _OUT and moved > -0.5) or (share <= -_OUT and moved < 0.5):
                return True
        if self._position == "fixed":
            if any((self._pixels(side) or 0.0) <= _FAR_FIXED for side in ("right", "bottom")):
                return True
            return any(
                abs(self._moved_share(axis)) >= _OUT and self._value(side) in ("", "auto", "0", "0px")
                for axis, side in ((0, "left"), (1, "top"))
            )
        return False

    def _transforms(self) -> list[tuple[str, list[str]]]:
        """Return the functions of the transform with their arguments."""
        return [(name, parts(text)) for name, text in functions(self._value("transform")) or ()]

    def _moved_share(self, axis: int) -> float:
        """Return by which part of its own size an element is moved, across (0) or down (1)."""
        total = 0.0
        for name, values in self._transforms():
            place = _SHIFTS.get(name, _UNMOVED)[axis]
            if place is not None and place < len(values) and values[place].endswith("%"):
                total += length(values[place], 1, 1) or 0.0
        return total

    def _transformed_by(self) -> tuple[float, float]:
        """Return by how much transforms move an element."""
        moved = [0.0, 0.0]
        free = self._position in ("absolute", "fixed")
        sizes = self._pixels("width") or (300.0 if free else WIDTH), self._pixels("height") or 100.0
        calls = self._transforms()
        separate = self._value("translate")
        if separate not in ("", "none", "initial"):
            calls.append(("translate", separate.split()))
        for name, values in calls:
            for axis, place in enumerate(_SHIFTS.get(name, _UNMOVED)):
                if place is not None and place < len(values):
                    bare = name.startswith("matrix")
                    moved[axis] += length(values[place], self._font, sizes[axis], bare=bare) or 0.0
        across, down = moved
        if across > 0 and not free and across < 2 * WIDTH:
            across = 0.0  # one of a row that can be scrolled
        return across, down

    def _is_turned_away(self) -> bool:
        if self._in_line:
            return False
        across, down = self._scale_factors()
        if min(abs(across), abs(down)) < 0.05:
            return True
        back = self._value("backface-visibility") == "hidden"
        turns = [angle(values[-1]) for name, values in self._transforms() if name in ("rotatex", "rotatey")]
        turned = self._value("rotate").split()
        if len(turned) == 2 and turned[0] in ("x", "y"):
            turns.append(angle(turned[1]))
        for turn in turns:
            if turn is not None:
                rest = turn % 180
                if abs(rest - 90) < 2 or (back and 91 < turn % 360 < 269):
                    return True
        return False

    def _scale_factors(self) -> tuple[float, float]:
        """Return by how much an element is scaled, across and down."""
        across = down = 1.0
        for name, written in self._transforms():
            values = [number(part) for part in written]
            first = values[0] if values and values[0] is not None else 1.0
            second = values[1] if len(values) > 1 and values[1] is not None else first
            if name in ("scale", "scale3d"):
                across, down = across * first, down * second
            elif name == "scalex":
                across *= first
            elif name == "scaley":
                down *= first
            elif name in ("matrix", "matrix3d"):
                area = _remaining_length(values)
                if area is not None:
                    across, down = across * area, down * area
        words = [number(word) for word in self._value("scale").split()]
        if words and words[0] is not None:
            across *= words[0]
            down *= words[1] if len(words) > 1 and words[1] is not None else words[0]
        return across, down

    def _is_below(self) -> bool:
        """Return whether an opaque ground is painted over it."""
        order = number(self._value("z-index") or "0") or 0.0
        return order < 0 and self._around.floor and self._position != "static"

    def _is_clipped(self) -> bool:
        clip = self._value("clip")
        free = self._position in ("absolute", "fixed")
        if clip.startswith("rect(") and (free or (self._kind.unknown and "position" not in self._set)):
            edges = re.split(r"[\s,]+", clip[5:].rstrip(") ").strip())
            if len(edges) == 4:
                top, right, bottom, left = (length(edge, self._font, bare=True) for edge in edges)
                tall = (800.0 if bottom is None else bottom) - (top or 0.0)
                wide = (WIDTH if right is None else right) - (left or 0.0)
                if tall < _LITTLE or wide < _LITTLE:
                    return True
        shape = self._value("clip-path")
        return bool(shape) and not shown_part(shape, self._font)

    def _is_squashed(self) -> bool:
        """Return whether its contents do not fit into it, and what does not fit is clipped."""
        display = self._value("display")
        if self._in_line or (self._kind.tag in _CELLS and display in ("", "initial")):
            return False
        if display.startswith("table-") or display == "contents":
            return False
        across, down = (self._value(f"overflow-{axis}") not in ("", "visible", "initial") for axis in "xy")
        contained = self._value("contain")
        sized = "strict" in contained or "size" in contained.split()
        if "strict" in contained or "paint" in contained or "content" in contained.split():
            across = down = True
        if not (across or down):
            return False
        little = max(_LITTLE, 0.3 * self._font)
        across = across or down  # one that clips makes the other do so too
        if self._shown("height", "padding-bottom", sized=sized, little=little):
            return self._around.squeezed or not self._shown(
                "width", "padding-right", sized=False, little=little
            )
        return True

    def _shown(self, side: str, padding: str, *, sized: bool, little: float) -> bool:
        """Return whether enough of it is shown along one side."""
        sizes = [self._pixels(name) for name in (side, f"max-{side}")]
        known = [size for size in sizes if size is not None]
        if side == "height" and not known and sized:
            known.append(0.0)
        if not known:
            return True
        least = self._pixels(f"min-{side}") or 0.0
        return max(min(known), least) + (self._pixels(padding) or 0.0) >= little

    def _is_cropped(self) -> bool:
        """Return whether its lines have no height, and it is as high as its lines."""
        if self._value("overflow-y") in ("", "visible", "initial") or self._value("height") not in (
            "",
            "auto",
        ):
            return False
        line = self._line_height()
        padding = (self._pixels("padding-top") or 0.0) + (self._pixels("padding-bottom") or 0.0)
        return line is not None and line < 0.2 * self._font and padding < _LITTLE

    def _line_height(self) -> float | None:
        value = self._value("line-height")
        if not value:
            return self._around.line
        if value in ("normal", "initial"):
            return None
        plain = number(value) if not value.endswith("%") else None
        return plain * self._font if plain is not None else length(value, self._font, self._font)

    # What its contents inherit, and what is behind them

    def _inner_state(self) -> VisualState:
        around = self._around
        current = self._text_color()
        grounds, own = self._ground_colors(current)
        free = self._position not in ("static", "")
        overflow = self._value("overflow-x") or self._value("overflow-y")
        display = self._value("display")
        spacing = self._value("letter-spacing")
        security = self._value("-webkit-text-security")
        state = replace(
            around,
            color=current,
            fill=self._fill_color(current),
            font=self._font,
            scale=around.scale * self._zoom_scale(),
            visible=self._is_visible(),
            opacity=around.opacity * self._opacity(),
            indent=self._indent(),
            pulled=around.pulled if self._in_line else self._indent(),
            spacing=(length(spacing, self._font, self._font) or 0.0) if spacing else around.spacing,
            secret=security not in ("none", "initial") if security else around.secret,
            outlined=self._outline_colors(current),
            grounds=grounds,
            variables=self._variables,
            placed=around.placed or free or bool(self._value("transform") not in ("", "none")),
            clipped=(overflow in ("hidden", "clip")) if free else around.clipped,
            floor=self._has_floor(own, free=free),
            squeezed=self._value("grid-template-rows")
            in ("0fr", "0", "0px", "minmax(0,0fr)", "minmax(0, 0fr)"),
            flexible=display.endswith(("flex", "grid", "box")),
            lifted=around.lifted or free,
            line=self._line_height(),
            cropped=around.cropped if self._in_line else self._is_cropped(),
            silence=Reason.NONE,
        )
        silence = self._silence_reason(state, own)
        return state if silence is Reason.NONE else replace(state, silence=silence)

    def _text_color(self) -> Color:
        around = self._around.color
        value = self._value("color")
        if not value:
            return LINK if self._kind.linked and "color" not in self._set else around
        if value == "initial":
            return BLACK
        return color(value, around) or Color(*around[:3], 1.0)

    def _fill_color(self, current: Color) -> Color | None:
        value = self._value("-webkit-text-fill-color")
        if not value:
            return self._around.fill
        return None if value in ("initial", "currentcolor") else color(value, current)

    def _is_visible(self) -> bool:
        value = self._value("visibility")
        return self._around.visible if not value else value in ("visible", "initial")

    def _opacity(self) -> float:
        value = self._value("opacity")
        found = number(value) if value and value != "initial" else None
        total = 1.0 if found is None else min(1.0, max(0.0, found))
        for name, argument in functions(self._value("filter")) or ():
            if name == "opacity":
                share = number(argument)
                total *= 1.0 if share is None else min(1.0, max(0.0, share))
            elif name == "blur" and (length(argument, self._font) or 0) >= 6:
                return 0.0
        mask = self._value("mask-image")
        if "gradient(" in mask and "url(" not in mask:
            stops = _gradient_colors(mask, BLACK)
            if stops is not None and all(stop.alpha <= _FAINT for stop in stops):
                return 0.0
        return total

    def _zoom_scale(self) -> float:
        across, down = self._scale_factors() if not self._in_line else (1.0, 1.0)
        zoom = number(self._value("zoom") or "1")
        return min(abs(across), abs(down)) * (zoom if zoom else 1.0)

    def _indent(self) -> float:
        value = self._value("text-indent")
        if not value:
            return self._around.indent
        found = (length(word, self._font, WIDTH) for word in value.split())
        indent = next((each for each in found if each is not None), 0.0)
        return indent + (self._pixels("padding-left") or 0.0)

    def _outline_colors(self, current: Color) -> tuple[Color, ...]:
        """Return the colors of shadows and outlines, which can make letters visible."""
        found: list[Color] = []
        if not (self._value("text-shadow") or self._value("-webkit-text-stroke")):
            return self._around.outlined
        for name in ("text-shadow", "-webkit-text-stroke"):
            for part in parts(self._value(name))[:8]:
                for word in re.findall(r"[a-z-]+\([^()]*\)|[#\w.-]+", part):
                    one = color(word, current)
                    if one is not None and one.alpha > 0.2:
                        found.append(one)
        return tuple(found)

    def _ground_colors(self, current: Color) -> tuple[tuple[Color, ...] | None, tuple[Color, ...] | None]:
        """Return the colors that may be behind the contents, and those that the element paints itself."""
        below = self._around.grounds
        if self._kind.top and "dark" in self._value("color-scheme").split()[:1]:
            below = (Color(0.07, 0.07, 0.07),)
        value, image = self._value("background-color"), self._value("background-image")
        painted = color(value, current) if value and value != "initial" else None
        if "inherit" in (value, image):
            return below, None
        own: tuple[Color, ...] | None = ()
        if painted is not None and painted.alpha > 0:
            if painted.alpha >= 1:
                own = below = (painted,)
            elif below is None:
                own = None
            else:
                own = below = tuple(painted.over(ground) for ground in below)
        elif self._kind.unknown and self._kind.painted and not value:
            below = None
        if (
            not image
            or image in ("none", "initial")
            or self._value("background-size").startswith(("0 ", "0px"))
        ):
            return below, own
        stops = _gradient_colors(image, current) if "url(" not in image and "gradient(" in image else None
        if stops is None:
            return None, None
        if below is None:
            below = own = tuple(stops) if all(stop.alpha >= 1 for stop in stops) else None
        else:
            below = own = tuple({stop.over(ground) for stop in stops for ground in below})[:32]
        return below, own

    def _has_floor(self, own: tuple[Color, ...] | None, *, free: bool) -> bool:
        context = (free and self._value("z-index") not in ("", "auto")) or self._position in (
            "fixed",
            "sticky",
        )
        context = context or self._value("isolation") == "isolate" or self._opacity() < 1
        context = context or any(
            self._value(name) not in ("", "none") for name in ("transform", "filter", "mask-image")
        )
        if context or self._kind.top:
            return False
        value = self._value("background-color")
        solid = (
            bool(own) and (painted := color(value) if value else None) is not None and painted.alpha > 0.95
        )
        return self._around.floor or solid

    # What hides the text that is directly in the element

    def _silence_reason(self, state: VisualState, own: tuple[Color, ...] | None) -> Reason:
        if not state.visible:
            return Reason.VISIBILITY
        if state.font * state.scale < _LEAST_FONT:
            return Reason.FONT
        if state.cropped:
            return Reason.SQUASHED
        if state.pulled <= _FAR_LEFT or state.pulled >= 1200 or state.secret:
            return Reason.SQUASHED
        if state.spacing < 0 and state.spacing <= -0.7 * max(state.font, 1.0):
            return Reason.SQUASHED
        return Reason.COLOR if self._is_unreadable(state, own) else Reason.NONE

    def _is_unreadable(self, state: VisualState, own: tuple[Color, ...] | None) -> bool:
        text = state.fill or state.color
        grounds = state.grounds
        if self._value("background-clip") == "text":
            if own is None or text.alpha > _FAINT:
                return False
            around = self._around.grounds
            return around is not None and not any(_is_readable(each, around) for each in own)
        if any(_is_readable(each, grounds) for each in state.outlined):
            return False
        if text.alpha * state.opacity <= _FAINT:
            return True
        return not _is_readable(Color(*text[:3], text.alpha * state.opacity), grounds)


def _is_readable(text: Color, grounds: tuple[Color, ...] | None) -> bool:
    """Return whether a color can be read on one of the grounds."""
    if grounds is None:
        return True
    return any(_are_distinct(text.over(ground), ground) for ground in grounds)


@lru_cache(4096)
def _are_distinct(one: Color, other: Color) -> bool:
    return contrast(one, other) >= _LEAST_CONTRAST or distance(one, other) >= _LEAST_DISTANCE


def _remaining_length(values: list[float | None]) -> float | None:
    """Return what remains of a length under a matrix: the root of that of an area."""
    numbers = [value for value in values if value is not None]
    if len(numbers) == 6:
        a, b, c, d = numbers[:4]
    elif len(numbers) == 16:
        a, b, c, d = numbers[0], numbers[1], numbers[4], numbers[5]
    else:
        return None
    return float(abs(a * d - b * c) ** 0.5)


def _gradient_colors(image: str, current: Color) -> list[Color] | None:
    """Return the colors of gradients; None if one is unknown."""
    found: list[Color] = []
    for name, arguments in functions(image.replace("),", ") ")) or ():
        if not name.endswith("gradient"):
            return None
        for part in parts(arguments)[:40]:
            words = re.findall(r"[a-z-]+\((?:[^()]|\([^()]*\))*\)|[#\w.%-]+", part)
            colors = [each for word in words[:6] if (each := color(word, current)) is not None]
            if (
                not colors
                and words
                and not re.match(r"to$|[-\d.]|from$|at$|circle|ellipse|closest|farthest|in$", words[0])
            ):
                return None
            found += colors
    return found or None


_SIDE = 300.0
"""Assumed length of a side in pixels, against which percentages are measured."""
_LEAST = 4.0
_SHARE = re.compile(r"(?=.{2,11}$)-?(?:\d+\.?\d*|\.\d+)%")
_BESIDE = re.compile(r"\s+(?:round|from)\s+.*")


@lru_cache(1024)
def shown_part(shape: str, em: float) -> bool:
    """Return whether a clip-path shows something; of one that is not known, True."""
    found = functions(re.sub(r"\s*\b(?:border|padding|content|margin|fill|stroke|view)-box\b\s*", "", shape))
    if not found:
        return True
    name, arguments = found[0]
    if name in ("inset", "rect", "xywh"):
        return _shows_box(name, _BESIDE.sub("", f"{arguments} "), em)
    if name in ("circle", "ellipse"):
        return _shows_round(arguments, em)
    if name == "polygon":
        return _shows_polygon(arguments, em)
    if name == "path":
        numbers = [float(each) for each in re.findall(r"-?\d{1,9}(?:\.\d{1,9})?", arguments)[:400]]
        return _extent(numbers[::2]) >= _LEAST and _extent(numbers[1::2]) >= _LEAST
    return True


def _shows_box(name: str, arguments: str, em: float) -> bool:
    words = arguments.split()
    sides = [length(word, em, _SIDE) for word in words]
    if name == "inset" and sides:
        top, right, bottom, left = four_sides([side or 0.0 for side in sides[:4]]) or [0.0] * 4
        shares = [float(word[:-1]) if _SHARE.fullmatch(word) else 0.0 for word in words[:4]]
        above, beside, below, before = four_sides(shares) or [0.0] * 4
        return (
            _SIDE - top - bottom >= _LEAST
            and _SIDE * 4 - left - right >= _LEAST
            and above + below < 98
            and before + beside < 98
        )
    if len(sides) != 4:
        return True
    first, second, third, fourth = (side if side is not None else _SIDE for side in sides)
    if name == "rect":
        return third - first >= _LEAST and second - (0 if sides[3] is None else fourth) >= _LEAST
    return third >= _LEAST and fourth >= _LEAST and first < _SIDE and second < _SIDE


def _shows_round(arguments: str, em: float) -> bool:
    size, _, place = arguments.partition("at ")
    radii = [each for word in size.split() if (each := length(word, em, _SIDE)) is not None]
    if radii and min(radii) < _LEAST:
        return False
    middle = [each for word in place.split() if (each := length(word, em, _SIDE)) is not None]
    reach = max(radii) if radii else _SIDE
    return all(-reach < each < 4 * _SIDE + reach for each in middle)


def _shows_polygon(arguments: str, em: float) -> bool:
    points: list[tuple[float, float]] = []
    for part in parts(arguments)[:200]:
        words = [length(word, em, _SIDE) for word in part.split()]
        if len(words) == 2 and words[0] is not None and words[1] is not None:
            points.append((words[0], words[1]))
        elif words and words != [None]:
            return True
    area = sum(
        (one[0] * other[1] - other[0] * one[1]) / 2
        for one, other in zip(points, points[1:] + points[:1], strict=True)
    )
    inside = any(x > 0 for x, _ in points) and any(y > 0 for _, y in points)
    return inside and abs(area) >= _LEAST * _LEAST


def _extent(numbers: list[float]) -> float:
    return max(numbers) - min(numbers) if numbers else 0.0
