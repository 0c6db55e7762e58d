"""Presentations of PowerPoint (PPTX): titles, text, tables, charts and notes of the slides."""

from __future__ import annotations

from typing import NamedTuple

from lxml import etree
from lxml.html import HtmlElement

from tabane.messages import Message, say
from tabane.reader.formats.office import charts
from tabane.reader.formats.office.drawing_colors import Paint, local, number
from tabane.reader.formats.office.package import OfficePackage, attribute, named_child
from tabane.reader.formats.office.page_tree import ContentBudget, DocumentFull, Span, child, element, fill
from tabane.reader.formats.office.reading import OfficeContent
from tabane.reader.formats.office.slide_layouts import SlideSource, SlideSources, kind_of, placeholder
from tabane.reader.formats.office.slide_text import SlideTextReader, SlideTextStyle
from tabane.reader.formats.office.table_styles import TableStyles
from tabane.reader.visibility import WHITE, Color

_SLIDES = 1000
_CHARACTERS = 4_000_000
_ELEMENTS = 1_000_000
_DEEP = 10  # groups within each other
_AREAS = 100  # shapes of a slide whose places are compared
_SIZE = (9_144_000.0, 6_858_000.0)
_FOOTERS = frozenset({"sldNum", "dt", "ftr", "hdr"})
_TRUE = frozenset({"1", "true", "on"})


class Box(NamedTuple):
    """The place of a shape on its slide, in EMU."""

    left: float
    top: float
    right: float
    bottom: float

    def contains(self, other: Box) -> bool:
        return (
            self.left <= other.left
            and self.top <= other.top
            and self.right >= other.right
            and self.bottom >= other.bottom
        )

    def meets(self, other: Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


class _Scale(NamedTuple):
    """How a group places what is in it."""

    left: float = 0.0
    top: float = 0.0
    wide: float = 1.0
    high: float = 1.0

    def box(self, left: float, top: float, wide: float, high: float) -> Box:
        return Box(
            self.left + left * self.wide,
            self.top + top * self.high,
            self.left + (left + wide) * self.wide,
            self.top + (top + high) * self.high,
        )


class _Shape(NamedTuple):
    """A shape of a slide, in the order of drawing. ``hidden``: it, or its group, is not shown."""

    node: etree._Element
    box: Box | None
    hidden: bool


def read_pptx(package: OfficePackage) -> OfficeContent:
    """Return the presentation. Raises ReadError, ``broken``."""
    return Presentation(package).content()


class Presentation:
    """A presentation as it is read once."""

    def __init__(self, package: OfficePackage) -> None:
        self._package = package
        main = package.main("ppt/presentation.xml")
        self._root = package.root(main)
        self._relations = package.relations(main)
        self._sources = SlideSources(package)
        self._budget = ContentBudget(_CHARACTERS, _ELEMENTS, package.seconds)
        self._texts = SlideTextReader(self._budget)
        size = named_child(self._root, "sldSz")
        self._size = _SIZE
        if size is not None:
            self._size = (number(attribute(size, "cx"), _SIZE[0]), number(attribute(size, "cy"), _SIZE[1]))
        self._usual = named_child(self._root, "defaultTextStyle")
        styles = package.first(self._relations, "tableStyles") or "ppt/tableStyles.xml"
        self._tables = TableStyles(package.part(styles))
        self._hidden = self._deep = 0

    def content(self) -> OfficeContent:
        """Return what the slides show."""
        whole = element("div")
        names = [
            relation.target
            for entry in self._listed()
            if (relation := self._relations.get(attribute(entry, "id") or "")) is not None
        ]
        cut = False
        notes: tuple[Message, ...] = ()
        try:
            for nth, name in enumerate(names[:_SLIDES], 1):
                self._slide(name, nth, whole)
        except DocumentFull:
            cut = True
        if len(names) > _SLIDES:
            notes = (say("{shown} of {all} {all:slide is|slides are} shown.", shown=_SLIDES, all=len(names)),)
        hidden = self._hidden + self._texts.hidden
        return OfficeContent(whole, hidden, self._deep, cut or self._package.cut, notes)

    def _listed(self) -> list[etree._Element]:
        """Return the entries of slides; their own id comes first, and the one of the relation after it."""
        listed = named_child(self._root, "sldIdLst")
        found = []
        for entry in listed if listed is not None else ():
            if local(entry) == "sldId":
                made = entry.makeelement("sldId")
                for name in list(entry.attrib)[:50]:
                    if str(name).startswith("{"):
                        made.set("id", entry.get(name) or "")
                found.append(made)
        return found

    def _slide(self, name: str, nth: int, whole: HtmlElement) -> None:
        slide = self._sources.slide(name)
        if slide is None:
            return
        if attribute(slide.root, "show") in ("0", "false", "off"):
            self._hidden += 1
            return
        shapes = self._shapes(slide)
        title = next((each for each in shapes if _is_title(each.node)), None)
        ground = _SlideGround(slide, shapes, self._size)
        heading = child(whole, "h2", f"{nth}. ")
        if title is not None:
            spans = self._title(title, slide, ground)
            fill(heading, [Span(f"{nth}. "), *spans] if spans else [Span(f"{nth}.")])
            heading.text = (heading.text or "").removeprefix(f"{nth}. ")
        else:
            heading.text = f"{nth}."
        for shape in shapes:
            if title is None or shape.node is not title.node:
                self._write(shape, slide, ground, whole)
        self._notes(slide, whole)

    def _title(self, shape: _Shape, slide: SlideSource, ground: _SlideGround) -> list[Span]:
        body = named_child(shape.node, "txBody")
        if body is None:
            return []
        spans = self._texts.line(body, self._style(shape, slide, ground))
        return [
            span._replace(tags=tuple(tag for tag in span.tags if tag != "strong"))
            for span in spans
            if span.element is None or span.element.tag != "br"
        ]

    def _shapes(self, slide: SlideSource) -> list[_Shape]:
        """Return all shapes, those of groups too, from the back to the front."""
        found: list[_Shape] = []
        tree = slide.tree
        if tree is not None:
            self._collect(tree, slide, _Scale(), False, 0, found)
        return found

    def _collect(
        self,
        group: etree._Element,
        slide: SlideSource,
        scale: _Scale,
        hidden: bool,
        depth: int,
        found: list[_Shape],
    ) -> None:
        if depth > _DEEP:
            self._deep += 1
            return
        for node in group:
            self._budget.take()
            name = local(node)
            if name == "AlternateContent":
                chosen = named_child(node, "Choice")
                chosen = named_child(node, "Fallback") if chosen is None else chosen
                if chosen is not None:
                    self._collect(chosen, slide, scale, hidden, depth + 1, found)
            elif name == "grpSp":
                unseen = hidden or _is_marked_hidden(node)
                self._collect(node, slide, _inner(node, scale), unseen, depth + 1, found)
            elif name in ("sp", "pic", "graphicFrame", "cxnSp"):
                found.append(_Shape(node, _box(node, slide, scale), hidden or _is_marked_hidden(node)))

    def _style(self, shape: _Shape, slide: SlideSource, ground: _SlideGround) -> SlideTextStyle:
        """Return what slide, layout and master give the text of a shape."""
        place = placeholder(shape.node)
        above = slide.placeholders(place)
        bodies = [named_child(each, "txBody") for each in (shape.node, *above)]
        own = [style for body in bodies if (style := named_child(body, "lstStyle")) is not None]
        kind = kind_of(place) if place is not None else None
        master = slide.text_styles(kind)
        reference = named_child(named_child(shape.node, "style"), "fontRef")
        color = slide.theme.paint(reference) if reference is not None else None
        rest = [style for style in (master, self._usual) if style is not None]
        return SlideTextStyle(
            [*own, *rest],
            slide.theme,
            ground.behind(shape, above),
            slide.relations,
            own=color if color is not None and color.color is not None else None,
            strong=len(own),
            listed=kind in ("body", "obj"),
            hidden=shape.hidden or ground.hides(shape),
        )

    def _write(self, shape: _Shape, slide: SlideSource, ground: _SlideGround, whole: HtmlElement) -> None:
        node, name = shape.node, local(shape.node)
        place = placeholder(node)
        if place is not None and kind_of(place) in _FOOTERS:
            return
        if name == "sp":
            body = named_child(node, "txBody")
            if body is not None:
                self._texts.add(body, self._style(shape, slide, ground), whole)
        elif name == "pic":
            self._picture(shape, ground, whole)
        elif name == "graphicFrame":
            data = named_child(named_child(node, "graphic"), "graphicData")
            for each in data if data is not None else ():
                self._graphic(each, shape, slide, ground, whole)

    def _picture(self, shape: _Shape, ground: _SlideGround, whole: HtmlElement) -> None:
        about = _about(shape.node)
        words = attribute(about, "descr") if about is not None else None
        if words and words.strip() and not shape.hidden and not ground.hides(shape):
            child(child(whole, "p"), "img", alt=words[:1000])

    def _graphic(
        self,
        node: etree._Element,
        shape: _Shape,
        slide: SlideSource,
        ground: _SlideGround,
        whole: HtmlElement,
    ) -> None:
        name = local(node)
        hidden = shape.hidden or ground.hides(shape)
        if name == "tbl":
            self._table(node, self._style(shape, slide, ground), whole)
        elif name == "chart" and not hidden:
            relation = slide.relations.get(attribute(node, "id") or "")
            part = self._package.part(relation.target) if relation is not None else None
            if part is not None:
                charts.add(part, whole)
        elif name == "relIds" and not hidden:
            relation = slide.relations.get(attribute(node, "dm") or "")
            part = self._package.part(relation.target) if relation is not None else None
            if part is not None:
                self._diagram(part, whole)

    def _table(self, node: etree._Element, style: SlideTextStyle, whole: HtmlElement) -> None:
        table = child(whole, "table")
        rows = [row for row in node if local(row) == "tr"]
        grounds = self._tables.grounds(named_child(node, "tblPr"), style.theme)
        for nth, row in enumerate(rows):
            into = child(table, "tr")
            flat = number(attribute(row, "h"), 1e6) < 0
            for cell in row:
                self._budget.take(4)
                body = named_child(cell, "txBody")
                if local(cell) != "tc":
                    continue
                paint = style.theme.fill(named_child(cell, "tcPr"))
                behind: Color | None = grounds.row(nth, len(rows), style.ground)
                if paint is not None and paint.opacity >= 0.5:
                    behind = paint.color
                covered = any(attribute(cell, name) in _TRUE for name in ("hMerge", "vMerge"))
                inner = SlideTextStyle(
                    style.levels,
                    style.theme,
                    behind,
                    style.relations,
                    own=grounds.text(nth) or style.own,
                    strong=style.strong,
                    hidden=style.hidden or covered or flat,
                )
                spans = self._texts.line(body, inner) if body is not None else []
                if not covered:
                    spans_over = {
                        name: str(min(max(int(number(attribute(cell, key), 1)), 1), 100))
                        for key, name in (("gridSpan", "colspan"), ("rowSpan", "rowspan"))
                        if attribute(cell, key)
                    }
                    fill(child(into, "td", **spans_over), spans)

    def _diagram(self, part: etree._Element, whole: HtmlElement) -> None:
        """Append the texts of a diagram (SmartArt) as a list."""
        items = []
        for point in part.iter("{*}pt"):
            self._budget.take(4)
            if attribute(point, "type") in (None, "node", "asst"):
                text = " ".join("".join(str(each.text or "") for each in point.iter("{*}t")).split())
                if text:
                    self._budget.take(0, len(text))
                    items.append(text)
        if items:
            into = child(whole, "ul")
            for text in items:
                child(into, "li", text)

    def _notes(self, slide: SlideSource, whole: HtmlElement) -> None:
        root = self._sources.notes(slide)
        tree = named_child(named_child(root, "cSld"), "spTree")
        for shape in tree if tree is not None else ():
            place = placeholder(shape)
            body = named_child(shape, "txBody")
            if place is None or kind_of(place) != "body" or body is None:
                continue
            spans = self._texts.line(body, SlideTextStyle((), slide.theme, WHITE, {}))
            if spans:
                fill(child(child(whole, "blockquote"), "p"), spans)


class _SlideGround:
    """What is behind and in front of the shapes of a slide."""

    def __init__(self, slide: SlideSource, shapes: list[_Shape], size: tuple[float, float]) -> None:
        self._slide, self._shapes = slide, shapes
        self._page = Box(0.0, 0.0, *size)
        self._color = slide.ground()
        self._areas: list[tuple[Box, Paint]] = []
        self._moves = named_child(slide.root, "timing") is not None
        above: list[tuple[Box, Paint]] = []
        for source in [*slide.chain()][1:]:
            tree = source.tree
            here = [
                (box, paint)
                for node in (tree if tree is not None else ())
                if placeholder(node) is None
                and (box := _box(node, source, _Scale())) is not None
                and (paint := self._paint(node)) is not None
            ]
            above = here + above
            if attribute(source.root, "showMasterSp") in ("0", "false"):
                break
        if attribute(slide.root, "showMasterSp") not in ("0", "false"):
            self._areas = above[:_AREAS]
        self._order = {id(shape.node): nth for nth, shape in enumerate(shapes)}
        self._paints = [
            self._paint(shape.node) if shape.box is not None and not shape.hidden else None
            for shape in shapes[:_AREAS]
        ]

    def behind(self, shape: _Shape, above: list[etree._Element]) -> Color | None:
        """Return the color behind the text of a shape; None if it is not known."""
        for node in (shape.node, *above):
            paint = self._paint(node)
            if paint is not None:
                if paint.opacity >= 0.5:
                    return paint.color
                break
        if shape.box is None:
            return self._color.color
        nth = self._order.get(id(shape.node), 0)
        below = [
            (each.box, paint)
            for each, paint in zip(self._shapes[: min(nth, _AREAS)], self._paints, strict=False)
            if each.box is not None and paint is not None
        ]
        for box, paint in reversed([*self._areas, *below]):
            if paint.opacity < 0.5 or not box.meets(shape.box):
                continue
            return paint.color if box.contains(shape.box) else None
        return self._color.color

    def hides(self, shape: _Shape) -> bool:
        """Return whether a shape is off the slide, or below one that covers it."""
        box = shape.box
        if box is None:
            return False
        wide = Box(box.left, box.top, max(box.right, box.left + 1), max(box.bottom, box.top + 1))
        if not self._page.meets(wide):
            return True
        if self._moves:
            return False  # an animation may move what covers it
        nth = self._order.get(id(shape.node), 0)
        return any(
            each.box is not None
            and paint is not None
            and each.box.contains(box)
            and _is_opaque(each.node, paint)
            for each, paint in zip(self._shapes[nth + 1 : _AREAS], self._paints[nth + 1 :], strict=False)
        )

    def _paint(self, node: etree._Element) -> Paint | None:
        """Return the fill of a shape; None if it says nothing."""
        if local(node) == "pic":
            return Paint(None)
        if local(node) == "graphicFrame":
            return None
        properties = named_child(node, "spPr")
        if properties is None:
            properties = named_child(node, "grpSpPr")
        paint = self._slide.theme.fill(properties)
        if paint is not None:
            return paint
        reference = named_child(named_child(node, "style"), "fillRef")
        if reference is None or attribute(reference, "idx") == "0":
            return None
        return self._slide.theme.paint(reference)


def _is_opaque(node: etree._Element, paint: Paint) -> bool:
    """Return whether a shape is a rectangle of one color that nothing shows through."""
    if local(node) != "sp" or paint.color is None or paint.opacity < 1:
        return False
    shape = named_child(named_child(node, "spPr"), "prstGeom")
    return shape is not None and attribute(shape, "prst") == "rect"


def _is_title(node: etree._Element) -> bool:
    place = placeholder(node) if local(node) == "sp" else None
    return place is not None and kind_of(place) in ("title", "ctrTitle")


def _about(node: etree._Element) -> etree._Element | None:
    """Return the name and description of a shape."""
    for part in node:
        if local(part).startswith("nv"):
            return named_child(part, "cNvPr")
    return None


def _is_marked_hidden(node: etree._Element) -> bool:
    about = _about(node)
    return about is not None and attribute(about, "hidden") in _TRUE


def _transform(node: etree._Element) -> etree._Element | None:
    for name in ("spPr", "grpSpPr"):
        found = named_child(named_child(node, name), "xfrm")
        if found is not None:
            return found
    return named_child(node, "xfrm")


def _box(node: etree._Element, slide: SlideSource, scale: _Scale) -> Box | None:
    """Return the place of a shape: its own, or that of its placeholder."""
    for each in (node, *slide.placeholders(placeholder(node))):
        numbers = _numbers(_transform(each), "off", "ext")
        if numbers is not None:
            return (scale if each is node else _Scale()).box(*numbers)
    return None


def _numbers(
    transform: etree._Element | None, place: str, size: str
) -> tuple[float, float, float, float] | None:
    at, extent = named_child(transform, place), named_child(transform, size)
    if at is None or extent is None:
        return None
    return (
        number(attribute(at, "x")),
        number(attribute(at, "y")),
        number(attribute(extent, "cx")),
        number(attribute(extent, "cy")),
    )


def _inner(group: etree._Element, scale: _Scale) -> _Scale:
    """Return how a group places its shapes."""
    transform = _transform(group)
    own, inside = _numbers(transform, "off", "ext"), _numbers(transform, "chOff", "chExt")
    if own is None or inside is None:
        return scale
    wide = own[2] / inside[2] if inside[2] else 1.0
    high = own[3] / inside[3] if inside[3] else 1.0
    return _Scale(
        scale.left + (own[0] - inside[0] * wide) * scale.wide,
        scale.top + (own[1] - inside[1] * high) * scale.high,
        wide * scale.wide,
        high * scale.high,
    )
