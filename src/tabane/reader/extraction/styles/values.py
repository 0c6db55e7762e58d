"""Values of CSS: lengths and numbers with calc(), colors, and whether one is readable on another.

Lengths are in pixels of a screen of 1280 by 800.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import cos, isfinite, radians, sin
from typing import NamedTuple

WIDTH, HEIGHT = 1280.0, 800.0
FONT_SIZE = 16.0
_SIMPLE = re.compile(r"([-+]?(?:\d*\.)?\d+(?:e[-+]?\d+)?)([a-z]+|%)?")
_TOKEN = re.compile(r"\s*((?:[-+]?(?:\d*\.)?\d+(?:e[-+]?\d+)?(?:[a-z]+|%)?)|[a-z-]*\(|[-+*/(),]|[a-z]+)")
_ABSOLUTE = {
    "px": 1.0, "cm": 96 / 2.54, "mm": 96 / 25.4, "q": 96 / 101.6, "in": 96.0, "pt": 96 / 72, "pc": 16.0,
}  # fmt: skip
_OF_VIEW = {
    **dict.fromkeys(("vw", "svw", "lvw", "dvw", "vi", "cqw", "cqi"), WIDTH / 100),
    **dict.fromkeys(("vh", "svh", "lvh", "dvh", "vb", "cqh", "cqb"), HEIGHT / 100),
    **dict.fromkeys(("vmin", "svmin", "lvmin", "dvmin", "cqmin"), HEIGHT / 100),
    **dict.fromkeys(("vmax", "svmax", "lvmax", "dvmax", "cqmax"), WIDTH / 100),
}
_ANGLES: Mapping[str | None, float] = {"deg": 1.0, "grad": 0.9, "rad": 57.29577951308232, "turn": 360.0}
_OF_FONT = {"em": 1.0, "ex": 0.5, "ch": 0.5, "cap": 0.7, "ic": 1.0, "lh": 1.2}
_OF_ROOT = {"rem": 1.0, "rex": 0.5, "rch": 0.5, "ric": 1.0, "rlh": 1.2}
_MOST_TOKENS = 200
_DEEPEST_CALC = 12


@lru_cache(4096)
def length(
    value: str, em: float = FONT_SIZE, base: float = WIDTH, root: float = FONT_SIZE, *, bare: bool = False
) -> float | None:
    """Return a length in pixels; None if it is none. Percentages are of ``base``.

    ``em`` is the font size of the element, ``root`` that of the page. ``bare``: numbers are lengths, too.
    """
    simple = _SIMPLE.fullmatch(value)
    if simple is not None:
        number, unit = float(simple[1]), simple[2]
        if unit is None and number and not bare:
            return None
        return _finite(_scale_unit(number, unit, em, base, root))
    if "(" not in value or len(value) > 1000:
        return None
    tokens = _split_tokens(value)
    if tokens is None:
        return None
    return _finite(_Calculation(tokens, em, base, root).result())


def number(value: str) -> float | None:
    """Return a number; a percentage is a part of 1."""
    simple = _SIMPLE.fullmatch(value)
    if simple is not None:
        if simple[2] not in (None, "%"):
            return None
        return _finite(float(simple[1]) / (100 if simple[2] else 1))
    return length(value, 1, 1, 1, bare=True) if "(" in value else None


def angle(value: str) -> float | None:
    """Return an angle in degrees."""
    simple = _SIMPLE.fullmatch(value)
    if simple is None or (simple[2] or "deg") not in _ANGLES:
        return None
    return _finite(float(simple[1]) * _ANGLES[simple[2] or "deg"])


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _scale_unit(number: float, unit: str | None, em: float, base: float, root: float) -> float | None:
    if unit is None:
        return number
    if unit == "%":
        return number / 100 * base
    factor = _ABSOLUTE.get(unit) or _OF_VIEW.get(unit)
    if factor is not None:
        return number * factor
    if unit in _OF_FONT:
        return number * _OF_FONT[unit] * em
    return number * _OF_ROOT[unit] * root if unit in _OF_ROOT else None


def _split_tokens(value: str) -> list[str] | None:
    found: list[str] = []
    at = 0
    value = value.rstrip()
    while at < len(value):
        token = _TOKEN.match(value, at)
        if token is None or len(found) >= _MOST_TOKENS:
            return None
        found.append(token[1])
        at = token.end()
    return found


class _Calculation:
    """Evaluates calc(), min(), max() and clamp() of one value."""

    def __init__(self, tokens: Sequence[str], em: float, base: float, root: float) -> None:
        self._tokens, self._at = tokens, 0
        self._em, self._base, self._root = em, base, root

    def result(self) -> float | None:
        found = self._parse_sum(0)
        return found if self._at == len(self._tokens) else None

    def _next_token(self) -> str:
        token = self._tokens[self._at] if self._at < len(self._tokens) else ""
        self._at += 1
        return token

    def _peek_token(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _parse_sum(self, depth: int) -> float | None:
        total = self._parse_product(depth)
        while total is not None and self._peek_token() in ("+", "-"):
            sign = self._next_token()
            other = self._parse_product(depth)
            total = None if other is None else total + (other if sign == "+" else -other)
        return total

    def _parse_product(self, depth: int) -> float | None:
        total = self._parse_factor(depth)
        while total is not None and self._peek_token() in ("*", "/"):
            sign = self._next_token()
            other = self._parse_factor(depth)
            if other is None or (sign == "/" and not other):
                return None
            total = total * other if sign == "*" else total / other
        return total

    def _parse_factor(self, depth: int) -> float | None:
        token = self._next_token()
        if token.endswith("("):
            return self._parse_function(token[:-1], depth + 1) if depth < _DEEPEST_CALC else None
        simple = _SIMPLE.fullmatch(token)
        if simple is None:
            return None
        return _scale_unit(float(simple[1]), simple[2], self._em, self._base, self._root)

    def _parse_function(self, name: str, depth: int) -> float | None:
        values: list[float] = []
        while True:
            value = self._parse_sum(depth)
            if value is None:
                return None
            values.append(value)
            token = self._next_token()
            if token == ")":
                break
            if token != ",":
                return None
        if name in ("", "calc", "-webkit-calc", "-moz-calc"):
            return values[0] if len(values) == 1 else None
        if name == "min":
            return min(values)
        if name == "max":
            return max(values)
        if name == "clamp" and len(values) == 3:
            return max(values[0], min(values[1], values[2]))
        if name == "abs":
            return abs(values[0])
        return None


_NAMES = """
    aliceblue f0f8ff antiquewhite faebd7 aqua 00ffff aquamarine 7fffd4 azure f0ffff beige f5f5dc bisque
    ffe4c4 black 000000 blanchedalmond ffebcd blue 0000ff blueviolet 8a2be2 brown a52a2a burlywood deb887
    cadetblue 5f9ea0 chartreuse 7fff00 chocolate d2691e coral ff7f50 cornflowerblue 6495ed cornsilk fff8dc
    crimson dc143c cyan 00ffff darkblue 00008b darkcyan 008b8b darkgoldenrod b8860b darkgray a9a9a9
    darkgreen 006400 darkgrey a9a9a9 darkkhaki bdb76b darkmagenta 8b008b darkolivegreen 556b2f darkorange
    ff8c00 darkorchid 9932cc darkred 8b0000 darksalmon e9967a darkseagreen 8fbc8f darkslateblue 483d8b
    darkslategray 2f4f4f darkslategrey 2f4f4f darkturquoise 00ced1 darkviolet 9400d3 deeppink ff1493
    deepskyblue 00bfff dimgray 696969 dimgrey 696969 dodgerblue 1e90ff firebrick b22222 floralwhite fffaf0
    forestgreen 228b22 fuchsia ff00ff gainsboro dcdcdc ghostwhite f8f8ff gold ffd700 goldenrod daa520 gray
    808080 green 008000 greenyellow adff2f grey 808080 honeydew f0fff0 hotpink ff69b4 indianred cd5c5c
    indigo 4b0082 ivory fffff0 khaki f0e68c lavender e6e6fa lavenderblush fff0f5 lawngreen 7cfc00
    lemonchiffon fffacd lightblue add8e6 lightcoral f08080 lightcyan e0ffff lightgoldenrodyellow fafad2
    lightgray d3d3d3 lightgreen 90ee90 lightgrey d3d3d3 lightpink ffb6c1 lightsalmon ffa07a lightseagreen
    20b2aa lightskyblue 87cefa lightslategray 778899 lightslategrey 778899 lightsteelblue b0c4de lightyellow
    ffffe0 lime 00ff00 limegreen 32cd32 linen faf0e6 magenta ff00ff maroon 800000 mediumaquamarine 66cdaa
    mediumblue 0000cd mediumorchid ba55d3 mediumpurple 9370db mediumseagreen 3cb371 mediumslateblue 7b68ee
    mediumspringgreen 00fa9a mediumturquoise 48d1cc mediumvioletred c71585 midnightblue 191970 mintcream
    f5fffa mistyrose ffe4e1 moccasin ffe4b5 navajowhite ffdead navy 000080 oldlace fdf5e6 olive 808000
    olivedrab 6b8e23 orange ffa500 orangered ff4500 orchid da70d6 palegoldenrod eee8aa palegreen 98fb98
    paleturquoise afeeee palevioletred db7093 papayawhip ffefd5 peachpuff ffdab9 peru cd853f pink ffc0cb
    plum dda0dd powderblue b0e0e6 purple 800080 rebeccapurple 663399 red ff0000 rosybrown bc8f8f royalblue
    4169e1 saddlebrown 8b4513 salmon fa8072 sandybrown f4a460 seagreen 2e8b57 seashell fff5ee sienna a0522d
    silver c0c0c0 skyblue 87ceeb slateblue 6a5acd slategray 708090 slategrey 708090 snow fffafa springgreen
    00ff7f steelblue 4682b4 tan d2b48c teal 008080 thistle d8bfd8 tomato ff6347 turquoise 40e0d0 violet
    ee82ee wheat f5deb3 white ffffff whitesmoke f5f5f5 yellow ffff00 yellowgreen 9acd32
"""
_WORDS = _NAMES.split()
_NAMED = dict(zip(_WORDS[::2], _WORDS[1::2], strict=True))
_SYSTEM = {
    "canvas": "ffffff", "canvastext": "000000", "linktext": "0000ee", "visitedtext": "551a8b",
    "buttonface": "efefef", "buttontext": "000000", "field": "ffffff", "fieldtext": "000000",
    "mark": "ffff00", "marktext": "000000", "graytext": "808080", "-webkit-link": "0000ee",
}  # fmt: skip
_HEX = re.compile(r"#([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})")
_FUNCTION = re.compile(r"(rgba?|hsla?|hwb|lab|lch|oklab|oklch|color|color-mix|light-dark)\((.*)\)", re.DOTALL)
_NUMBER = re.compile(r"([-+]?(?:\d*\.)?\d+(?:e[-+]?\d+)?)(%|deg|rad|grad|turn)?")
_HUES: Mapping[str | None, float] = {**_ANGLES, None: 1.0, "%": 3.6}
_DEEP = 4
COMMA = re.compile(r"[()]|(,)")


class Color(NamedTuple):
    """Red, green, blue and opacity, 0..1."""

    red: float
    green: float
    blue: float
    alpha: float = 1.0

    def over(self, ground: Color) -> Color:
        """Return the color that is seen if this one is painted on an opaque ground."""
        a = self.alpha
        return Color(*(a * one + (1 - a) * other for one, other in zip(self[:3], ground[:3], strict=True)))


WHITE, BLACK, LINK = Color(1, 1, 1), Color(0, 0, 0), Color(0, 0, 238 / 255)


def contrast(one: Color, other: Color) -> float:
    """Return the contrast ratio of two opaque colors, 1..21 (WCAG 2.2)."""
    first, second = _luminance(one), _luminance(other)
    return (max(first, second) + 0.05) / (min(first, second) + 0.05)


def distance(one: Color, other: Color) -> float:
    """Return the greatest difference in a channel, 0..1: colors as bright as each other can differ."""
    return max(abs(a - b) for a, b in zip(one[:3], other[:3], strict=True))


def color(value: str, current: Color = BLACK, depth: int = 0) -> Color | None:
    """Return the color that a value is, in lower case; None if it is none or an unknown one."""
    value = value.strip()
    if hexadecimal := _HEX.fullmatch(value):
        return _hex_color(hexadecimal[1])
    if value == "transparent":
        return Color(0, 0, 0, 0)
    if value == "currentcolor":
        return current
    if digits := _NAMED.get(value) or _SYSTEM.get(value):
        return _hex_color(digits)
    found = _FUNCTION.fullmatch(value)
    if found is None or depth > _DEEP or len(value) > 300:
        return None
    name, inside = found[1], found[2]
    if name == "light-dark":
        return color(parts(inside)[0], current, depth + 1)
    if name == "color-mix":
        return _mix_colors(parts(inside), current, depth + 1)
    return _of_numbers(name, inside)


def split_outside(text: str, signs: re.Pattern[str]) -> list[str]:
    """Split a text at signs that are outside of brackets.

    The pattern finds both: group 1 is a sign to split at. Whatever else it finds is no bracket.
    """
    pieces, depth, begin = [], 0, 0
    for sign in signs.finditer(text):
        if sign[0] in "([":
            depth += 1
        elif sign[0] in ")]":
            depth = max(0, depth - 1)
        elif not depth and sign[1] is not None:
            pieces.append(text[begin : sign.start()])
            begin = sign.end()
    return [*pieces, text[begin:]]


def closing_bracket(text: str, at: int, signs: re.Pattern[str]) -> int:
    """Return the offset of the parenthesis that closes the one before an offset; -1 if none does."""
    depth = 1
    for sign in signs.finditer(text, at):
        if sign[0] in "()":
            depth += 1 if sign[0] == "(" else -1
            if not depth:
                return sign.start()
    return -1


def parts(text: str) -> list[str]:
    """Return what is between commas that are outside of parentheses."""
    if "(" not in text:
        return [part.strip() for part in text.split(",")]
    return [part.strip() for part in split_outside(text, COMMA)]


def _hex_color(digits: str) -> Color:
    if len(digits) < 5:
        digits = "".join(2 * digit for digit in digits)
    red, green, blue, *alpha = (int(digits[at : at + 2], 16) / 255 for at in range(0, len(digits), 2))
    return Color(red, green, blue, alpha[0] if alpha else 1.0)


def _mix_colors(arguments: list[str], current: Color, depth: int) -> Color | None:
    if len(arguments) != 3:
        return None
    shares: list[float | None] = []
    colors: list[Color] = []
    for argument in arguments[1:]:
        share = re.search(r"(?:^|\s)((?:\d*\.)?\d+)%(?:$|\s)", argument)
        found = color(re.sub(r"(?:^|\s)(?:\d*\.)?\d+%(?:$|\s)", "", argument), current, depth)
        if found is None:
            return None
        shares.append(float(share[1]) / 100 if share else None)
        colors.append(found)
    first, second = shares
    if first is None:
        first = 0.5 if second is None else 1 - second
    if second is None:
        second = 1 - first
    if not (total := first + second):
        return None
    first, second = first / total, second / total
    one, other = colors
    alpha = first * one.alpha + second * other.alpha
    if not alpha:
        return Color(0, 0, 0, 0)
    mixed = (
        (first * one.alpha * a + second * other.alpha * b) / alpha
        for a, b in zip(one[:3], other[:3], strict=True)
    )
    red, green, blue = mixed
    return Color(red, green, blue, alpha * min(1.0, total))


def _of_numbers(name: str, inside: str) -> Color | None:
    space = ""
    if name == "color":
        space, _, inside = inside.strip().partition(" ")
        if space not in ("srgb", "srgb-linear", "display-p3"):
            return None
    words = re.sub(r"[,/]", " ", inside).split()
    if len(words) not in (3, 4):
        return None
    found = [_NUMBER.fullmatch("0" if word == "none" else word) for word in words]
    numbers = [(float(match[1]), match[2]) for match in found if match is not None]
    if len(numbers) != len(words):
        return None
    alpha = 1.0
    if len(numbers) == 4:
        alpha = numbers[3][0] / (100 if numbers[3][1] == "%" else 1)
    channels = _color_channels(name, numbers[:3])
    if space == "srgb-linear":
        channels = tuple(_gamma(channel) for channel in channels)
    red, green, blue = (min(1.0, max(0.0, channel)) for channel in channels)
    return Color(red, green, blue, min(1.0, max(0.0, alpha)))


def _color_channels(name: str, numbers: list[tuple[float, str | None]]) -> tuple[float, ...]:
    (a, unit_a), (b, unit_b), (c, unit_c) = numbers
    if name in ("rgb", "rgba"):
        return tuple(value / (100 if unit == "%" else 255) for value, unit in numbers)
    if name == "color":
        return tuple(value / (100 if unit == "%" else 1) for value, unit in numbers)
    if name in ("hsl", "hsla"):
        return _of_hue(a * _HUES[unit_a], b / 100, c / 100)
    if name == "hwb":
        hue = a * _HUES[unit_a]
        white = b / 100
        black = c / 100
        if white + black >= 1:
            return (white / (white + black),) * 3
        return tuple(channel * (1 - white - black) + white for channel in _of_hue(hue, 1, 0.5))
    scale = 1.0 if name in ("lab", "lch") else 0.01
    light = a if unit_a == "%" else a if scale == 1 else a * 100
    if name in ("lch", "oklch"):
        chroma = b * (1.5 if scale == 1 else 0.004) if unit_b == "%" else b
        angle = radians(c * _HUES[unit_c])
        b, c = chroma * cos(angle), chroma * sin(angle)
    else:
        percent = 1.25 if scale == 1 else 0.004
        b, c = (value * percent if unit == "%" else value for value, unit in ((b, unit_b), (c, unit_c)))
    return _of_lab(light, b, c) if scale == 1 else _of_oklab(light / 100, b, c)


def _of_hue(hue: float, saturation: float, light: float) -> tuple[float, ...]:
    def channel(shift: float) -> float:
        k = (shift + hue / 30) % 12
        return light - saturation * min(light, 1 - light) * max(-1, min(k - 3, 9 - k, 1))

    return channel(0), channel(8), channel(4)


def _of_oklab(light: float, a: float, b: float) -> tuple[float, ...]:
    """Ottosson, A perceptual color space for image processing (2020)."""
    long = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (light - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        _gamma(4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short),
        _gamma(-1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short),
        _gamma(-0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short),
    )


def _of_lab(light: float, a: float, b: float) -> tuple[float, ...]:
    """CIE 1976 L*a*b* with D50, by XYZ."""
    y = (light + 16) / 116
    x, y, z = (
        value**3 if value > 6 / 29 else 3 * (6 / 29) ** 2 * (value - 4 / 29)
        for value in (y + a / 500, y, y - b / 200)
    )
    x, z = x * 0.9643, z * 0.8251
    return (
        _gamma(3.1341359 * x - 1.6173863 * y - 0.4906619 * z),
        _gamma(-0.9787955 * x + 1.9162544 * y + 0.0334427 * z),
        _gamma(0.0719554 * x - 0.2289770 * y + 1.4053866 * z),
    )


def _gamma(linear: float) -> float:
    if linear <= 0.0031308:
        return max(0.0, 12.92 * linear)
    return float(1.055 * min(linear, 1.0) ** (1 / 2.4) - 0.055)


def _luminance(one: Color) -> float:
    red, green, blue = (
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in one[:3]
    )
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)
