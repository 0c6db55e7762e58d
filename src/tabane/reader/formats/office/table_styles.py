"""Styles of tables of presentations: the backgrounds of their rows."""

from __future__ import annotations

from typing import NamedTuple

from lxml import etree

from tabane.reader.formats.office.drawing_colors import Paint, ThemeColors, local
from tabane.reader.formats.office.package import attribute, named_child
from tabane.reader.visibility import Color

_TRUE = frozenset({"1", "true", "on"})


class RowGrounds(NamedTuple):
    """The backgrounds of rows by condition. ``known``: the document has the style of the table."""

    fills: dict[str, Paint]
    texts: dict[str, Paint]
    on: frozenset[str]
    known: bool

    def row(self, nth: int, rows: int, around: Color | None) -> Color | None:
        """Return the background of a row; None if it is not known."""
        if not self.known:
            return None
        for name in self._conditions(nth, rows):
            if (paint := self.fills.get(name)) is not None and paint.opacity >= 0.5:
                return paint.color
        return around

    def text(self, nth: int) -> Paint | None:
        """Return the color of text that the style gives a row; an unknown one if the style is not there."""
        if not self.known:
            return Paint(None)
        return next((self.texts[name] for name in self._conditions(nth, -1) if name in self.texts), None)

    def _conditions(self, nth: int, rows: int) -> list[str]:
        """Return the conditions that hold for a row, the strongest first."""
        found = []
        if nth == 0 and "firstRow" in self.on:
            found.append("firstRow")
        if nth == rows - 1 and "lastRow" in self.on:
            found.append("lastRow")
        if "bandRow" in self.on:
            found.append("band1H" if (nth - ("firstRow" in self.on)) % 2 == 0 else "band2H")
        return [*found, "wholeTbl"]


class TableStyles:
    """The styles of tables that a presentation has."""

    def __init__(self, part: etree._Element | None) -> None:
        self._styles = {
            attribute(entry, "styleId") or "": entry
            for entry in (part if part is not None else ())
            if local(entry) == "tblStyle"
        }

    def grounds(self, properties: etree._Element | None, theme: ThemeColors) -> RowGrounds:
        """Return the backgrounds of a table with these properties."""
        named = named_child(properties, "tableStyleId")
        if properties is None or named is None or not (named.text or "").strip():
            return RowGrounds({}, {}, frozenset(), True)
        style = self._styles.get((named.text or "").strip())
        if style is None:
            return RowGrounds({}, {}, frozenset(), False)
        fills: dict[str, Paint] = {}
        texts: dict[str, Paint] = {}
        for part in style:
            name = local(part)
            fill = theme.fill(named_child(named_child(part, "tcStyle"), "fill"))
            if fill is not None:
                fills[name] = fill
            text = named_child(part, "tcTxStyle")
            if text is not None and (paint := theme.paint(text)).color is not None:
                texts[name] = paint
        on = frozenset(
            name for name in ("firstRow", "lastRow", "bandRow") if attribute(properties, name) in _TRUE
        )
        return RowGrounds(fills, texts, on, True)
