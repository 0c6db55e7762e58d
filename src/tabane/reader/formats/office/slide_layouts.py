"""Layouts and masters of PresentationML: what they give the shapes of a slide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lxml import etree

from tabane.reader.formats.office.drawing_colors import USUAL_MAP, Paint, ThemeColors, local
from tabane.reader.formats.office.package import OfficePackage, Relation, attribute, named_child

_BODY = frozenset({"body", "obj", "subTitle", "tbl", "chart", "dgm", "media", "clipArt", "pic"})


@dataclass(frozen=True, slots=True)
class SlideSource:
    """A slide, or the layout or master of one: its tree, relations and the source that it inherits from."""

    root: etree._Element
    relations: Mapping[str, Relation]
    theme: ThemeColors
    above: SlideSource | None = None

    def chain(self) -> Iterator[SlideSource]:
        """Yield this source and those that it inherits from."""
        at: SlideSource | None = self
        while at is not None:
            yield at
            at = at.above

    @property
    def tree(self) -> etree._Element | None:
        """Return the tree of the shapes."""
        return named_child(named_child(self.root, "cSld"), "spTree")

    def ground(self) -> Paint:
        """Return the background, by the first source that has one."""
        for source in self.chain():
            background = named_child(named_child(source.root, "cSld"), "bg")
            if background is None:
                continue
            reference = named_child(background, "bgRef")
            if reference is not None:
                # Above 1001 it is a fill of the theme, which may be an image: its first is a plain color.
                plain = attribute(reference, "idx") in (None, "1", "1001")
                return self.theme.paint(reference) if plain else Paint(None)
            paint = self.theme.fill(named_child(background, "bgPr"))
            return paint if paint is not None else Paint(None)
        return Paint(self.theme.named("bg1"))

    def placeholders(self, place: etree._Element | None) -> list[etree._Element]:
        """Return the shapes of layout and master that a placeholder inherits from."""
        if place is None:
            return []
        kind, index = kind_of(place), attribute(place, "idx")
        found = []
        for source in [*self.chain()][1:]:
            shapes = [
                (shape, placeholder(shape)) for shape in (source.tree if source.tree is not None else ())
            ]
            by_index = [
                shape
                for shape, at in shapes
                if at is not None and index is not None and attribute(at, "idx") == index
            ]
            by_kind = [
                shape for shape, at in shapes if at is not None and _class(kind_of(at)) == _class(kind)
            ]
            found += (by_index or by_kind)[:1]
        return found

    def text_styles(self, kind: str | None) -> etree._Element | None:
        """Return the style that the master gives text: of titles, of bodies or of other shapes."""
        master = [*self.chain()][-1]
        name = "otherStyle" if kind is None else "titleStyle" if _class(kind) == "title" else "bodyStyle"
        return named_child(named_child(master.root, "txStyles"), name)


class SlideSources:
    """The slides of a presentation with their layouts and masters; each of those is read once."""

    def __init__(self, package: OfficePackage) -> None:
        self._package = package
        self._known: dict[str, SlideSource | None] = {}

    def slide(self, name: str) -> SlideSource | None:
        """Return a slide; None if there is no such part."""
        root = self._package.part(name)
        if root is None:
            return None
        relations = self._package.relations(name)
        above = self._above(self._package.first(relations, "slideLayout"), "slideMaster")
        return SlideSource(root, relations, _theme(root, above), above)

    def notes(self, slide: SlideSource) -> etree._Element | None:
        """Return the tree of the notes of a slide."""
        return self._package.part(self._package.first(slide.relations, "notesSlide"))

    def _above(self, name: str | None, kind: str | None) -> SlideSource | None:
        """Return a layout, or with no further ``kind`` a master."""
        if name is None:
            return None
        if name not in self._known:
            root = self._package.part(name)
            relations = self._package.relations(name)
            above = self._above(self._package.first(relations, kind), None) if kind else None
            if root is None:
                self._known[name] = above
            elif kind:
                self._known[name] = SlideSource(root, relations, _theme(root, above), above)
            else:
                theme = ThemeColors(self._package.part(self._package.first(relations, "theme")))
                names = named_child(root, "clrMap")
                mapped = {**USUAL_MAP, **({} if names is None else _names(names))}
                self._known[name] = SlideSource(root, relations, theme.with_names(mapped))
        return self._known[name]


def placeholder(shape: etree._Element) -> etree._Element | None:
    """Return the description of the placeholder that a shape is."""
    for part in shape:
        if local(part).startswith("nv"):
            return named_child(named_child(part, "nvPr"), "ph")
    return None


def kind_of(place: etree._Element) -> str:
    return attribute(place, "type") or "obj"


def _class(kind: str) -> str:
    if kind in ("title", "ctrTitle"):
        return "title"
    return "body" if kind in _BODY else kind


def _theme(root: etree._Element, above: SlideSource | None) -> ThemeColors:
    """Return the colors of the theme, as a slide or layout names them."""
    theme = above.theme if above is not None else ThemeColors(None)
    names = named_child(named_child(root, "clrMapOvr"), "overrideClrMapping")
    return theme if names is None else theme.with_names(_names(names))


def _names(entry: etree._Element) -> dict[str, str]:
    return {str(name): entry.get(name) or "" for name in list(entry.attrib)[:50]}
