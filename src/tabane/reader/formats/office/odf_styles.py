"""Styles of OpenDocument files: formats of text, and what cells, shapes and pages look like."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from lxml import etree

from tabane.reader.formats.office.model import Look
from tabane.reader.formats.office.package import attribute, children, local, named_child, number
from tabane.reader.hidden_text import Color, hex_color

_ANCESTORS = 30
_ATTRIBUTES = 200
_LENGTH = re.compile(r"\s*(-?[\d.]{1,12})\s*(cm|mm|in|pt|pc|px|%)?")
_POINTS = {"cm": 28.35, "mm": 2.835, "in": 72.0, "pt": 1.0, "pc": 12.0, "px": 0.75, "": 1.0}
_MONOSPACED = re.compile(
    r"'?(?:courier|consolas|menlo|monaco|lucida console|liberation mono|dejavu sans mono|noto sans mono)",
    re.IGNORECASE,
)
_BOLD = frozenset(("bold", "600", "700", "800", "900"))
_PROPERTIES = frozenset({
    "text-properties", "paragraph-properties", "table-cell-properties", "graphic-properties",
    "drawing-page-properties", "table-properties", "table-row-properties", "section-properties",
})  # fmt: skip


def points(value: str | None, otherwise: float = 0.0) -> float:
    """Return a length in points; a percentage is none."""
    found = _LENGTH.match(value or "")
    if found is None or found[2] == "%":
        return otherwise
    return number(found[1], otherwise) * _POINTS[found[2] or ""]


def percent(value: str | None) -> float | None:
    """Return a percentage; None for anything else."""
    found = _LENGTH.match(value or "")
    return number(found[1]) if found is not None and found[2] == "%" else None


class OpenStyles:
    """The styles of a document by family and name. Those of the content go before the common ones."""

    def __init__(self, *roots: etree._Element | None) -> None:
        self._sources: dict[tuple[str, str], etree._Element] = {}
        self._defaults: dict[str, etree._Element] = {}
        self._known: dict[tuple[str, str], dict[str, Any]] = {}
        self.lists: dict[str, Mapping[int, etree._Element]] = {}
        self.pages: dict[str, etree._Element] = {}
        self.masters: dict[str, etree._Element] = {}
        self.hidden_layers: set[str] = set()
        for root in roots:
            for holder in children(root, "styles", "automatic-styles", "master-styles"):
                for entry in holder:
                    kind, name = local(entry), attribute(entry, "name") or ""
                    if kind == "style":
                        self._sources.setdefault((attribute(entry, "family") or "", name), entry)
                    elif kind == "default-style":
                        self._defaults.setdefault(attribute(entry, "family") or "", entry)
                    elif kind == "list-style":
                        levels = {int(number(attribute(level, "level"))): level for level in entry}
                        self.lists.setdefault(name, levels)
                    elif kind == "page-layout":
                        self.pages.setdefault(name, entry)
                    elif kind == "master-page":
                        self.masters.setdefault(name, entry)
                    elif kind == "layer-set":
                        self.hidden_layers |= {
                            attribute(layer, "name") or ""
                            for layer in entry
                            if attribute(layer, "display") in ("none", "printer")
                        }

    def look(self, family: str, name: str | None) -> Look:
        """Return what a style says, with the styles that it is based on and the defaults of the family."""
        key = (family, name or "")
        if key not in self._known:
            chain = self._chain(family, name)
            default = self._defaults.get(family)
            made: dict[str, Any] = {}
            for entry in [*([default] if default is not None else []), *reversed(chain)]:
                for holder in entry:
                    if local(holder) in _PROPERTIES:
                        _read(holder, made)
            self._known[key] = made
        return self._known[key]

    def has(self, family: str, name: str | None) -> bool:
        """Return whether there is such a style."""
        return (family, name or "") in self._sources

    def ancestors(self, family: str, name: str | None) -> list[str]:
        """Return the name of a style, as it is shown, and of those that it is based on."""
        found = []
        for entry in self._chain(family, name):
            shown = attribute(entry, "display-name") or attribute(entry, "name") or ""
            found.append(shown.replace("_20_", " "))
        return found

    def list_style(self, family_name: str | None) -> str | None:
        """Return the list style that a paragraph style refers to."""
        for entry in self._chain("paragraph", family_name):
            if (name := attribute(entry, "list-style-name")) is not None:
                return name
        return None

    def _chain(self, family: str, name: str | None) -> list[etree._Element]:
        found: list[etree._Element] = []
        at = name
        while at and (entry := self._sources.get((family, at))) is not None and len(found) < _ANCESTORS:
            if entry in found:
                break
            found.append(entry)
            at = attribute(entry, "parent-style-name")
        return found


def _read(holder: etree._Element, made: dict[str, Any]) -> None:
    """Add what an element of properties says."""
    kind = local(holder)
    automatic = False
    for key in list(holder.attrib)[:_ATTRIBUTES]:
        name, value = str(key).rpartition("}")[2], holder.get(key) or ""
        if name == "background-color":
            made["shade" if kind == "text-properties" else "ground"] = hex_color(value)
        elif name == "display":
            hidden = kind == "text-properties"
            made["vanish" if hidden else "display"] = value == "none" if hidden else value
        elif name == "use-window-font-color":
            automatic = value == "true"
        elif (reading := _READING.get(name)) is not None:
            made.update(reading(value, made))
    if automatic:  # LibreOffice writes the opacity 0% beside an automatic color, which is opaque
        made |= {"color": None, "opacity": 1.0}


def _size(value: str, made: Mapping[str, Any]) -> dict[str, Any]:
    relative = percent(value)
    size = points(value, 12.0) if relative is None else made.get("size", 12.0) * relative / 100
    return {"size": size}


def _position(value: str, _made: Mapping[str, Any]) -> dict[str, Any]:
    raised, _, size = value.partition(" ")
    share = percent(raised)
    up = raised == "super" or (share or 0) > 0
    down = raised == "sub" or (share or 0) < 0
    small = percent(size)
    return {
        "align": "sup" if up else "sub" if down else "",
        "position": 10_000.0 if abs(share or 0) > 3000 else 0.0,
        **({"scale": small} if small is not None and small < 10 else {}),
    }


def of_wide_letters(made: Look) -> Look:
    """Return the format that Chinese, Japanese and Korean letters have, which styles name apart."""
    own = {name.removeprefix("wide_"): value for name, value in made.items() if name.startswith("wide_")}
    return {**made, **own} if own else made


_Reading = Callable[[str, Mapping[str, Any]], dict[str, Any]]
_READING: Mapping[str, _Reading] = {
    "color": lambda value, _made: {"color": hex_color(value)},
    "font-size": _size,
    "font-weight": lambda value, _made: {"bold": value in _BOLD},
    "font-weight-asian": lambda value, _made: {"wide_bold": value in _BOLD},
    "font-style": lambda value, _made: {"italic": value in ("italic", "oblique")},
    "font-style-asian": lambda value, _made: {"wide_italic": value in ("italic", "oblique")},
    "font-size-asian": lambda value, made: {
        "wide_size": _size(value, {"size": float(made.get("wide_size", made.get("size", 12.0)))})["size"]
    },
    "text-line-through-style": lambda value, _made: {"strike": value != "none"},
    "text-line-through-type": lambda value, _made: {"strike": value != "none"},
    "text-position": _position,
    "text-scale": lambda value, _made: {"scale": percent(value) or 100.0},
    "letter-spacing": lambda value, _made: {"spacing": points(value)},
    "opacity": lambda value, _made: {"opacity": (100.0 if (at := percent(value)) is None else at) / 100},
    "font-name": lambda value, _made: {"code": bool(_MONOSPACED.match(value))},
    "font-family": lambda value, _made: {"code": bool(_MONOSPACED.match(value))},
    "line-height": lambda value, _made: {"line": points(value, 12.0)},
    "margin-left": lambda value, _made: {"left": points(value)},
    "text-indent": lambda value, _made: {"indent": points(value)},
    "fill": lambda value, _made: {"fill": value},
    "fill-color": lambda value, _made: {"fill_color": hex_color(value)},
    "visibility": lambda value, _made: {"visibility": value},
    "row-height": lambda value, _made: {"height": points(value, 12.0)},
    "background-objects-visible": lambda value, _made: {"objects": value != "false"},
}


def filled(made: Look, ground: Color | None, *, usual: bool = False) -> Color | None:
    """Return the color of a shape with this format on a background; None if it is not known.

    ``usual``: it has a fill, unless its style says otherwise.
    """
    fill = made.get("fill")
    if fill == "solid" or (usual and fill is None and made.get("fill_color") is not None):
        return made.get("fill_color") if made.get("opacity", 1.0) >= 0.5 else ground
    if fill in ("bitmap", "gradient", "hatch"):
        return None
    own: Color | None = made.get("ground")
    return own if own is not None else ground


def page_size(styles: OpenStyles, master: etree._Element | None) -> tuple[float, float]:
    """Return the width and height of the pages of a master, in points."""
    properties = page_properties(styles, master)
    return (
        points(attribute(properties, "page-width"), 595.0),
        points(attribute(properties, "page-height"), 842.0),
    )


def page_properties(styles: OpenStyles, master: etree._Element | None) -> etree._Element | None:
    """Return the properties of the pages of a master."""
    name = attribute(master, "page-layout-name") or ""
    return named_child(styles.pages.get(name), "page-layout-properties")
