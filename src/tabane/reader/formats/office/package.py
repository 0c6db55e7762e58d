"""Parts of an Office Open XML file: its trees, relations, metadata, and colors of DrawingML.

A color is given by name, by the theme, or as a variant of those.
"""

from __future__ import annotations

import colorsys
import posixpath
import zipfile
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from lxml import etree

from tabane.messages import say
from tabane.reader.formats.archive import bounded_tree, member, said, tree
from tabane.reader.hidden_text import BLACK, WHITE, Color, hex_color

DOCUMENT = say("document")
TRUE = frozenset({"1", "true", "on"})
OFF = frozenset({"0", "false", "off"})
_RELATIONS = 50_000
_SMALL = 600_000  # tags of a part that describes: styles, numbering, notes


class Relation(NamedTuple):
    """A relation to another part (``target`` is its name in the archive) or to an address."""

    kind: str
    target: str
    external: bool


class OfficePackage:
    """The archive of a document, with its parts by name. ``seconds`` of CPU time may be used to read it."""

    def __init__(self, archive: zipfile.ZipFile, seconds: float) -> None:
        self.archive, self.seconds = archive, seconds
        self._names = frozenset(archive.namelist())
        self.cut = False
        """Whether a part was read as far as its limit only."""

    def has(self, name: str) -> bool:
        """Return whether the package has a part of that name."""
        return name in self._names

    def root(self, name: str) -> etree._Element:
        """Return the tree of a part that must be there. Raises ReadError, ``broken``."""
        found = bounded_tree(member(self.archive, name, DOCUMENT), DOCUMENT)
        self.cut |= found.cut
        return found.root

    def part(self, name: str | None) -> etree._Element | None:
        """Return the tree of a part; None if there is no such part."""
        if name is None or name not in self._names:
            return None
        found = bounded_tree(member(self.archive, name, DOCUMENT), DOCUMENT, _SMALL)
        self.cut |= found.cut
        return found.root

    def relations(self, name: str) -> Mapping[str, Relation]:
        """Return the relations of a part by their ids; "" for those of the package."""
        folder, file = posixpath.split(name)
        listed = self.part(posixpath.join(folder, "_rels", f"{file}.rels"))
        found: dict[str, Relation] = {}
        for entry in listed[:_RELATIONS] if listed is not None else ():
            target, kind = entry.get("Target") or "", (entry.get("Type") or "").rpartition("/")[2]
            external = entry.get("TargetMode") == "External"
            if not external:
                target = posixpath.normpath(posixpath.join("/", folder, unquote(target))).lstrip("/")
            found[entry.get("Id") or ""] = Relation(kind, target, external)
        return found

    def main(self, usual: str) -> str:
        """Return the name of the main part: the usual one, or else the one that the package names."""
        named = self.first(self.relations(""), "officeDocument")
        return named if named is not None and named in self._names else usual

    def first(self, relations: Mapping[str, Relation], kind: str) -> str | None:
        """Return the name of the first part that is related in this way."""
        return next((each.target for each in relations.values() if each.kind == kind), None)

    def about(self) -> dict[str, Any]:
        """Return the metadata of the document, as fields of a page."""
        if not self.has("docProps/core.xml"):
            return {}
        core = tree(member(self.archive, "docProps/core.xml", DOCUMENT), DOCUMENT)
        return {
            "title": said(core, "title"),
            "author": said(core, "creator"),
            "date": said(core, "modified") or said(core, "created"),
            "lang": said(core, "language"),
        }


def attribute(node: etree._Element | None, name: str) -> str | None:
    """Return an attribute by its local name, whatever its namespace; None without it, or without a node."""
    if node is None:
        return None
    qualified = "}" + name
    for key in node.attrib:  # its items() takes quadratic time
        if key == name or key.endswith(qualified):
            return node.get(key)
    return None


def named_child(node: etree._Element | None, name: str, *below: str) -> etree._Element | None:
    """Return the first child with this local name; with further names, the first child of that, and so on."""
    for each in node if node is not None else ():
        if local(each) == name:
            return named_child(each, *below) if below else each
    return None


def value_of(node: etree._Element | None, name: str, *below: str) -> str | None:
    """Return the attribute ``val`` of a child, or of a child of that."""
    return attribute(named_child(node, name, *below), "val")


def children(node: etree._Element | None, *names: str) -> list[etree._Element]:
    """Return the children with one of these local names."""
    return [each for each in node if local(each) in names] if node is not None else []


def elements_within(
    node: etree._Element, name: str, wrappers: frozenset[str]
) -> list[tuple[etree._Element, bool]]:
    """Return the elements of this name, also those within wrappers, and whether one of those is a head."""
    found: list[tuple[etree._Element, bool]] = []
    waiting = [(each, False) for each in reversed(node)]
    while waiting:
        each, head = waiting.pop()
        kind = local(each)
        if kind == name:
            found.append((each, head))
        elif kind in wrappers:
            waiting += [(inside, head or "header" in kind) for inside in reversed(each)]
    return found


def count_of(value: str | None, most: int, least: int = 1) -> int:
    """Return the whole number that an attribute is, within limits."""
    if value is None:
        return least
    return min(max(int(number(value, least)), least), most)


_NAMES: Mapping[str, Color] = {
    "black": BLACK, "white": WHITE, "red": (255, 0, 0), "green": (0, 128, 0), "blue": (0, 0, 255),
    "yellow": (255, 255, 0), "cyan": (0, 255, 255), "magenta": (255, 0, 255), "gray": (128, 128, 128),
    "grey": (128, 128, 128), "darkGray": (169, 169, 169), "lightGray": (211, 211, 211),
    "dkGray": (169, 169, 169), "ltGray": (211, 211, 211), "silver": (192, 192, 192),
    "whiteSmoke": (245, 245, 245), "snow": (255, 250, 250), "ivory": (255, 255, 240),
    "ghostWhite": (248, 248, 255), "floralWhite": (255, 250, 240), "mintCream": (245, 255, 250),
    "azure": (240, 255, 255), "aliceBlue": (240, 248, 255), "seashell": (255, 245, 238),
    "seaShell": (255, 245, 238), "honeydew": (240, 255, 240), "lavenderBlush": (255, 240, 245),
    "navy": (0, 0, 128), "orange": (255, 165, 0), "purple": (128, 0, 128), "darkBlue": (0, 0, 139),
    "darkRed": (139, 0, 0), "darkGreen": (0, 100, 0), "dkBlue": (0, 0, 139), "dkRed": (139, 0, 0),
}  # fmt: skip
_OFFICE: Mapping[str, Color] = {
    "dk1": BLACK, "lt1": WHITE, "dk2": (31, 73, 125), "lt2": (238, 236, 225), "accent1": (79, 129, 189),
    "accent2": (192, 80, 77), "accent3": (155, 187, 89), "accent4": (128, 100, 162),
    "accent5": (75, 172, 198), "accent6": (247, 150, 70), "hlink": (0, 0, 255), "folHlink": (128, 0, 128),
}  # fmt: skip
USUAL_MAP: Mapping[str, str] = {"bg1": "lt1", "tx1": "dk1", "bg2": "lt2", "tx2": "dk2"}
"""Names of the backgrounds and texts of a theme, as most documents map them."""

_LONG_NAMES = {
    "background1": "bg1", "background2": "bg2", "text1": "tx1", "text2": "tx2", "dark1": "dk1",
    "dark2": "dk2", "light1": "lt1", "light2": "lt2", "hyperlink": "hlink", "followedHyperlink": "folHlink",
}  # fmt: skip


class Paint(NamedTuple):
    """A color, None if unknown, and its opacity, 0..1."""

    color: Color | None
    opacity: float = 1.0


class ThemeColors:
    """The colors of a theme by their names. ``names`` maps those of backgrounds and texts."""

    def __init__(self, theme: etree._Element | None, names: Mapping[str, str] = USUAL_MAP) -> None:
        self._colors = dict(_OFFICE)
        self._names = names
        scheme = next(theme.iter("{*}clrScheme"), None) if theme is not None else None
        for entry in scheme if scheme is not None else ():
            if (found := self.paint(entry).color) is not None:
                self._colors[local(entry)] = found

    def with_names(self, names: Mapping[str, str]) -> ThemeColors:
        """Return the same colors with other names for backgrounds and texts."""
        made = ThemeColors(None, {**self._names, **names})
        made._colors = self._colors
        return made

    def named(self, name: str) -> Color | None:
        """Return the color of a name: accent1, bg1, background1, dk1 …"""
        name = _LONG_NAMES.get(name, name)
        return self._colors.get(self._names.get(name, name))

    def preset(self, name: str) -> Color | None:
        """Return a color by its name in DrawingML."""
        return _NAMES.get(name)

    def ordered(self) -> list[Color]:
        """Return the colors in the order by which spreadsheets number them."""
        order = ("lt1", "dk1", "lt2", "dk2", *(f"accent{nth}" for nth in range(1, 7)), "hlink", "folHlink")
        return [self._colors[name] for name in order]

    def paint(self, holder: etree._Element, own: Color | None = None) -> Paint:
        """Return the color that an element contains. ``own`` is the placeholder color of a style."""
        for entry in holder:
            kind, value = local(entry), entry.get("val") or ""
            color: Color | None
            if kind == "srgbClr":
                color = hex_color(value)
            elif kind == "sysClr":
                color = hex_color(entry.get("lastClr")) or (WHITE if value == "window" else BLACK)
            elif kind == "schemeClr":
                color = own if value == "phClr" else self.named(value)
            elif kind == "prstClr":
                color = _NAMES.get(value)
            elif kind == "scrgbClr":
                color = _color([_share(entry.get(name)) or 0.0 for name in ("r", "g", "b")])
            elif kind == "hslClr":
                hue = number(entry.get("hue")) / 21_600_000
                color = _color(
                    colorsys.hls_to_rgb(
                        hue % 1, _share(entry.get("lum")) or 0.0, _share(entry.get("sat")) or 0.0
                    )
                )
            else:
                continue
            return _changed(color, entry)
        return Paint(None)

    def fill(self, properties: etree._Element | None) -> Paint | None:
        """Return the fill of a shape or a cell: None if it says nothing, opacity 0 if it has none."""
        for entry in properties if properties is not None else ():
            kind = local(entry)
            if kind == "solidFill":
                return self.paint(entry)
            if kind == "noFill":
                return Paint(None, 0.0)
            if kind in ("gradFill", "blipFill", "pattFill", "grpFill"):
                return Paint(None)
        return None


def local(node: etree._Element) -> str:
    """Return the name of an element without its namespace; "" for what is not an element."""
    tag = node.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def tinted(color: Color, tint: float) -> Color:
    """Return a color made lighter (tint 0..1) or darker (-1..0), as spreadsheets do."""
    hue, light, colorful = colorsys.rgb_to_hls(*(channel / 255 for channel in color))
    light = light * (1 + tint) if tint < 0 else light * (1 - tint) + tint
    return _color(colorsys.hls_to_rgb(hue, min(max(light, 0.0), 1.0), colorful))


def _color(channels: tuple[float, float, float] | list[float]) -> Color:
    red, green, blue = (min(max(round(channel * 255), 0), 255) for channel in channels)
    return red, green, blue


def _changed(color: Color | None, entry: etree._Element) -> Paint:
    """Apply the changes of luminance, tint, shade and opacity within a color, up to ten."""
    opacity = 1.0
    for change in entry[:10]:
        share = _share(change.get("val"))
        if share is None:
            continue
        kind = local(change)
        if kind == "alpha":
            opacity = share
        elif color is not None:
            color = _varied(color, kind, share)
    return Paint(color, opacity)


def _varied(color: Color, kind: str, share: float) -> Color:
    if kind == "shade":
        return _color([channel / 255 * share for channel in color])
    if kind == "tint":
        return _color([channel / 255 * share + 1 - share for channel in color])
    if kind in ("lumMod", "lumOff"):
        hue, light, colorful = colorsys.rgb_to_hls(*(channel / 255 for channel in color))
        light = light * share if kind == "lumMod" else light + share
        return _color(colorsys.hls_to_rgb(hue, min(max(light, 0.0), 1.0), colorful))
    return color


def _share(value: str | None) -> float | None:
    """Return a percentage, in thousandths of a percent or with its sign, as 0..1."""
    if not value:
        return None
    percent = value.endswith("%")
    share = number(value.rstrip("%"), -1.0) / (100 if percent else 100_000)
    return share if share >= 0 else None


def number(value: str | None, otherwise: float = 0.0) -> float:
    """Return the number that an attribute is."""
    try:
        found = float(value) if value else otherwise
    except ValueError:
        return otherwise
    return found if abs(found) < 1e15 else otherwise
