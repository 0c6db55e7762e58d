"""Styles of cells of SpreadsheetML: how values are shown, and whether they can be seen."""

from __future__ import annotations

from typing import NamedTuple

from lxml import etree

from tabane.reader.formats.office.drawing_colors import ThemeColors, local, number, tinted
from tabane.reader.formats.office.number_formats import NumberFormat
from tabane.reader.formats.office.package import attribute, named_child
from tabane.reader.visibility import WHITE, Color, hex_color, is_tiny, is_unreadable

_STYLES = 70_000
_INDEXED = (
    "000000", "FFFFFF", "FF0000", "00FF00", "0000FF", "FFFF00", "FF00FF", "00FFFF", "800000", "008000",
    "000080", "808000", "800080", "008080", "C0C0C0", "808080", "9999FF", "993366", "FFFFCC", "CCFFFF",
    "660066", "FF8080", "0066CC", "CCCCFF", "000080", "FF00FF", "FFFF00", "00FFFF", "800080", "800000",
    "008080", "0000FF", "00CCFF", "CCFFFF", "CCFFCC", "FFFF99", "99CCFF", "FF99CC", "CC99FF", "FFCC99",
    "3366FF", "33CCCC", "99CC00", "FFCC00", "FF9900", "FF6600", "666699", "969696", "003366", "339966",
    "003300", "333300", "993300", "993366", "333399", "333333",
)  # fmt: skip


class CellStyle(NamedTuple):
    """A style: its format, its background (None: unknown), and whether it makes text invisible."""

    form: NumberFormat
    ground: Color | None = WHITE
    hidden: bool = False


class CellStyles:
    """The styles of a workbook by their numbers."""

    def __init__(self, part: etree._Element | None, theme: ThemeColors) -> None:
        self._theme = theme.ordered()
        codes = {
            int(number(attribute(entry, "numFmtId"))): attribute(entry, "formatCode") or ""
            for entry in _children(part, "numFmts")
        }
        fonts = [self._font(entry) for entry in _children(part, "fonts")]
        fills = [self._fill(entry) for entry in _children(part, "fills")]
        self._formats: dict[int, NumberFormat] = {}
        self._styles = [self._style(entry, codes, fonts, fills) for entry in _children(part, "cellXfs")]
        self._usual = CellStyle(NumberFormat("General"))
        self._conditional = [self._is_invisible(entry) for entry in _children(part, "dxfs")]

    def style(self, name: str | None) -> CellStyle:
        """Return the style with this number; the default one if there is none."""
        if name is None:
            return self._styles[0] if self._styles else self._usual
        nth = int(number(name, -1))
        return self._styles[nth] if 0 <= nth < len(self._styles) else self._usual

    def hides(self, name: str | None) -> bool:
        """Return whether a conditional style with this number makes text invisible."""
        nth = int(number(name, -1))
        return 0 <= nth < len(self._conditional) and self._conditional[nth]

    def color(self, entry: etree._Element | None) -> Color | None:
        """Return a color; None for an automatic one."""
        if entry is None or attribute(entry, "auto") in ("1", "true"):
            return None
        color: Color | None = None
        if (theme := attribute(entry, "theme")) is not None:
            nth = int(number(theme, -1))
            color = self._theme[nth] if 0 <= nth < len(self._theme) else None
        elif (indexed := attribute(entry, "indexed")) is not None:
            nth = int(number(indexed, -1))
            if nth == 65:
                return WHITE
            nth = nth - 8 if nth >= 8 else nth
            color = hex_color(_INDEXED[nth]) if 0 <= nth < len(_INDEXED) else None
        else:
            color = hex_color(attribute(entry, "rgb"))
        tint = number(attribute(entry, "tint"))
        return tinted(color, max(min(tint, 1.0), -1.0)) if color is not None and tint else color

    def _font(self, entry: etree._Element) -> tuple[Color | None, bool]:
        """Return the color of a font, and whether it is too small to be seen."""
        size = named_child(entry, "sz")
        tiny = is_tiny(number(attribute(size, "val"), 11) if size is not None else None)
        return self.color(named_child(entry, "color")), tiny

    def _fill(self, entry: etree._Element) -> Color | None:
        """Return a background; None if it is a pattern."""
        pattern = named_child(entry, "patternFill")
        if pattern is None:
            return None if named_child(entry, "gradientFill") is not None else WHITE
        kind = attribute(pattern, "patternType") or "none"
        if kind == "none":
            return WHITE
        if kind == "solid":
            return self.color(named_child(pattern, "fgColor")) or WHITE
        return None

    def _style(
        self,
        entry: etree._Element,
        codes: dict[int, str],
        fonts: list[tuple[Color | None, bool]],
        fills: list[Color | None],
    ) -> CellStyle:
        form, font, fill = (
            int(number(attribute(entry, name))) for name in ("numFmtId", "fontId", "fillId")
        )  # fmt: skip
        if form not in self._formats:
            code = codes.get(form)
            self._formats[form] = NumberFormat(code) if code is not None else NumberFormat.built_in(form)
        color, tiny = fonts[font] if 0 <= font < len(fonts) else (None, False)
        ground = fills[fill] if 0 <= fill < len(fills) else WHITE
        return CellStyle(self._formats[form], ground, tiny or is_unreadable(color, ground))

    def _is_invisible(self, entry: etree._Element) -> bool:
        """Return whether a conditional style hides text by its color or its format."""
        font, fill, form = (named_child(entry, name) for name in ("font", "fill", "numFmt"))
        if form is not None and NumberFormat(attribute(form, "formatCode") or "General").number(1.0) is None:
            return True
        if font is None:
            return False
        ground: Color | None = WHITE
        if fill is not None:
            pattern = named_child(fill, "patternFill")
            ground = self.color(named_child(pattern, "bgColor")) or WHITE
        return is_unreadable(self.color(named_child(font, "color")), ground)


def _children(part: etree._Element | None, name: str) -> list[etree._Element]:
    holder = named_child(part, name)
    return [entry for entry in holder if local(entry)][:_STYLES] if holder is not None else []
