"""Presentations of PowerPoint (PPTX): titles, text, tables, charts and notes of the slides.

Layouts and masters give looks to the shapes of a slide; styles of tables give grounds to rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lxml import etree

from tabane.reader.formats.office.formulas import formula
from tabane.reader.formats.office.model import (
    DocumentFull,
    Line,
    OfficeContent,
    Reading,
    Span,
    is_blank,
    slides_left_out,
)
from tabane.reader.formats.office.package import (
    TRUE,
    USUAL_MAP,
    OfficePackage,
    Paint,
    Relation,
    ThemeColors,
    attribute,
    children,
    count_of,
    local,
    named_child,
    number,
)
from tabane.reader.formats.office.visibility import Box, SlideCanvas, is_hidden
from tabane.reader.formats.office.writer import BlockWriter, element, fill, title_of_slide, write_chart
from tabane.reader.hidden_text import WHITE, Color

_SLIDES = 1000
_DEEP = 10  # groups within each other
_SIZE = (9_144_000.0, 6_858_000.0)
_FOOTERS = frozenset({"sldNum", "dt", "ftr", "hdr"})
_POINTS = 18.0
_LEVELS = 9


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

    def within(self, group: etree._Element) -> _Scale:
        """Return how a group in this one places what is in it."""
        transform = _transform(group)
        own, inside = _numbers(transform, "off", "ext"), _numbers(transform, "chOff", "chExt")
        if own is None or inside is None:
            return self
        wide = own[2] / inside[2] if inside[2] else 1.0
        high = own[3] / inside[3] if inside[3] else 1.0
        return _Scale(
            self.left + (own[0] - inside[0] * wide) * self.wide,
            self.top + (own[1] - inside[1] * high) * self.high,
            wide * self.wide,
            high * self.high,
        )


class _Shape(NamedTuple):
    """A shape at its place in the order of drawing. ``hidden``: it, or its group, is not shown."""

    order: int
    node: etree._Element
    box: Box | None
    hidden: bool


class _TextLook(NamedTuple):
    """What a shape gives its text: the styles of levels, the strongest first, and the ground."""

    levels: Sequence[etree._Element]
    theme: ThemeColors
    ground: Color | None
    relations: Mapping[str, Relation]
    own: Paint | None = None
    """A color that the style of the shape gives, stronger than the styles of the master."""
    strong: int = 0
    """How many of the levels are stronger than that color."""
    listed: bool = False
    hidden: bool = False


class _Paragraph(NamedTuple):
    """A paragraph of a shape. ``bullet``: whether it has one; None if it says nothing."""

    spans: list[Span]
    level: int
    bullet: bool | None


def read_pptx(package: OfficePackage) -> OfficeContent:
    """Return the presentation. Raises ReadError, ``broken``."""
    main = package.main("ppt/presentation.xml")
    root = package.root(main)
    relations = package.relations(main)
    ids = [
        next((entry.get(name) or "" for name in list(entry.attrib)[:50] if str(name).startswith("{")), "")
        for entry in children(named_child(root, "sldIdLst"), "sldId")
    ]
    names = [relations[each].target for each in ids if each in relations]
    reading = Reading(package)
    reader = _SlideReader(reading, root, package.first(relations, "tableStyles") or "ppt/tableStyles.xml")
    whole = element("div")
    try:
        for nth, name in enumerate(names[:_SLIDES], 1):
            reader.add(name, nth, BlockWriter(whole))
    except DocumentFull:
        reading.cut = True
    return reading.content(whole, slides_left_out(_SLIDES, len(names)))


class _SlideReader:
    """Reads the slides of a presentation."""

    def __init__(self, reading: Reading, root: etree._Element, table_styles: str) -> None:
        self._reading, self._package = reading, reading.package
        self._sources = SlideSources(self._package)
        size = named_child(root, "sldSz")
        self._page = Box(
            0.0, 0.0, number(attribute(size, "cx"), _SIZE[0]), number(attribute(size, "cy"), _SIZE[1])
        )
        self._usual = named_child(root, "defaultTextStyle")
        self._tables = TableStyles(self._package.part(table_styles))

    def add(self, name: str, nth: int, writer: BlockWriter) -> None:
        """Append a slide: its title as a heading, its shapes and its notes."""
        slide = self._sources.slide(name)
        if slide is None:
            return
        if attribute(slide.root, "show") in ("0", "false", "off"):
            self._reading.hidden += 1
            return
        shapes: list[_Shape] = []
        if slide.tree is not None:
            self._collect(slide.tree, slide, _Scale(), False, 0, shapes)
        title = next((each for each in shapes if _is_title(each.node)), None)
        canvas = self._canvas(slide, shapes)
        body = named_child(title.node, "txBody") if title is not None else None
        spans = self._line(body, self._look(title, slide, canvas)) if title is not None else []
        title_of_slide(nth, spans, writer)
        for shape in shapes:
            if shape is not title:
                self._write(shape, slide, canvas, writer)
        root = self._sources.notes(slide)
        for note in children(named_child(root, "cSld", "spTree"), "sp"):
            place = placeholder(note)
            if place is not None and kind_of(place) == "body":
                spans = self._line(named_child(note, "txBody"), _TextLook((), slide.theme, WHITE, {}))
                if spans:
                    writer.end()
                    writer.quoted(spans)

    def _collect(
        self,
        group: etree._Element,
        slide: SlideSource,
        scale: _Scale,
        hidden: bool,
        depth: int,
        found: list[_Shape],
    ) -> None:
        """Collect all shapes, those of groups too, from the back to the front."""
        if depth > _DEEP:
            self._reading.deep += 1
            return
        for node in group:
            self._reading.budget.take()
            name = local(node)
            if name == "AlternateContent":
                chosen = next(iter(children(node, "Choice")), named_child(node, "Fallback"))
                if chosen is not None:
                    self._collect(chosen, slide, scale, hidden, depth + 1, found)
            elif name in ("grpSp", "sp", "pic", "graphicFrame", "cxnSp"):
                unseen = hidden or attribute(_described(node, "cNvPr"), "hidden") in TRUE
                if name == "grpSp":
                    self._collect(node, slide, scale.within(node), unseen, depth + 1, found)
                else:
                    found.append(_Shape(len(found), node, _box(node, slide, scale), unseen))

    def _canvas(self, slide: SlideSource, shapes: list[_Shape]) -> SlideCanvas:
        """Return what is painted on a slide: shapes of its master and layout, and its own."""
        moves = named_child(slide.root, "timing") is not None
        canvas = SlideCanvas(self._page, slide.ground().color, moves=moves)
        layers: list[tuple[etree._Element, SlideSource]] = []
        source: SlideSource = slide
        while source.above is not None and attribute(source.root, "showMasterSp") not in ("0", "false"):
            source = source.above
            tree = source.tree
            own = [node for node in (tree if tree is not None else ()) if placeholder(node) is None]
            layers = [(node, source) for node in own] + layers
        for node, source in layers[:_LAYERS]:
            canvas.paint(-1, _box(node, source, _Scale()), _paint_of(node, slide.theme))
        for shape in shapes:
            if not shape.hidden:
                paint = _paint_of(shape.node, slide.theme)
                canvas.paint(shape.order, shape.box, paint, covers=_covers(shape.node, paint))
        return canvas

    def _look(self, shape: _Shape, slide: SlideSource, canvas: SlideCanvas) -> _TextLook:
        """Return what slide, layout and master give the text of a shape."""
        place = placeholder(shape.node)
        above = slide.placeholders(place)
        own = [
            style
            for each in (shape.node, *above)
            if (style := named_child(each, "txBody", "lstStyle")) is not None
        ]
        kind = kind_of(place) if place is not None else None
        rest = [style for style in (slide.text_styles(kind), self._usual) if style is not None]
        reference = named_child(shape.node, "style", "fontRef")
        color = slide.theme.paint(reference) if reference is not None else Paint(None)
        paints = (_paint_of(node, slide.theme) for node in (shape.node, *above))
        fill_ = next((paint for paint in paints if paint is not None), Paint(None, 0.0))
        return _TextLook(
            [*own, *rest],
            slide.theme,
            fill_.color if fill_.opacity >= 0.5 else canvas.behind(shape.order, shape.box),
            slide.relations,
            own=color if color.color is not None else None,
            strong=len(own),
            listed=kind in ("body", "obj"),
            hidden=shape.hidden or canvas.hides(shape.order, shape.box),
        )

    def _write(self, shape: _Shape, slide: SlideSource, canvas: SlideCanvas, writer: BlockWriter) -> None:
        node, name = shape.node, local(shape.node)
        place = placeholder(node)
        if place is not None and kind_of(place) in _FOOTERS:
            return
        if name == "sp":
            self._text(named_child(node, "txBody"), self._look(shape, slide, canvas), writer)
            return
        hidden = shape.hidden or canvas.hides(shape.order, shape.box)
        if name == "pic" and not hidden:
            writer.image(attribute(_described(node, "cNvPr"), "descr"))
        data = named_child(node, "graphic", "graphicData") if name == "graphicFrame" else None
        for each in data if data is not None else ():
            if local(each) == "tbl":
                self._table(each, self._look(shape, slide, canvas), writer)
            elif not hidden and local(each) in ("chart", "relIds"):
                key = "id" if local(each) == "chart" else "dm"
                relation = slide.relations.get(attribute(each, key) or "")
                part = self._package.part(relation and relation.target)
                if key == "id":
                    write_chart(part, writer)
                else:
                    self._diagram(part, writer)

    def _diagram(self, part: etree._Element | None, writer: BlockWriter) -> None:
        writer.end()
        for point in part.iter("{*}pt") if part is not None else ():
            self._reading.budget.take(4)
            if attribute(point, "type") in (None, "node", "asst"):
                text = " ".join("".join(str(each.text or "") for each in point.iter("{*}t")).split())
                if text:
                    self._reading.budget.take(0, len(text))
                    writer.item(0, [Span(text)])

    def _table(self, node: etree._Element, look: _TextLook, writer: BlockWriter) -> None:
        table = writer.table()
        rows = children(node, "tr")
        grounds = self._tables.grounds(named_child(node, "tblPr"), look.theme)
        for nth, row in enumerate(rows):
            table.row()
            flat = number(attribute(row, "h"), 1e6) < 0
            for cell in row:
                self._reading.budget.take(4)
                if local(cell) != "tc":
                    continue
                paint = look.theme.fill(named_child(cell, "tcPr"))
                behind = grounds.row(nth, len(rows), look.ground)
                if paint is not None and paint.opacity >= 0.5:
                    behind = paint.color
                covered = any(attribute(cell, name) in TRUE for name in ("hMerge", "vMerge"))
                inner = look._replace(
                    ground=behind,
                    own=grounds.text(nth) or look.own,
                    listed=False,
                    hidden=look.hidden or covered or flat,
                )
                spans = self._line(named_child(cell, "txBody"), inner)
                wide, high = (count_of(attribute(cell, name), 100) for name in ("gridSpan", "rowSpan"))
                fill(table.cell(wide, high, covered=covered), spans)

    def _line(self, body: etree._Element | None, look: _TextLook) -> list[Span]:
        """Return all paragraphs in one line."""
        found: list[Span] = []
        for paragraph in self._paragraphs(body, look):
            found += [*([Span(" ")] if found else []), *paragraph.spans]
        return found

    def _text(self, body: etree._Element | None, look: _TextLook, writer: BlockWriter) -> None:
        """Append the paragraphs: as a list if they have bullets."""
        paragraphs = self._paragraphs(body, look)
        writer.end()
        for spans, level, bullet in paragraphs:
            if bullet or (bullet is None and look.listed and len(paragraphs) > 1):
                writer.item(level, spans)
            else:
                writer.paragraph(spans)

    def _paragraphs(self, body: etree._Element | None, look: _TextLook) -> list[_Paragraph]:
        found = []
        scale = attribute(named_child(body, "bodyPr", "normAutofit"), "fontScale")
        shrunk = number(scale, 100_000) / 100_000
        for node in body if body is not None else ():
            self._reading.budget.take()
            if local(node) != "p":
                continue
            properties = named_child(node, "pPr")
            level = count_of(attribute(properties, "lvl"), _LEVELS - 1, 0)
            line = Line(self._reading)
            for each in node:
                self._reading.budget.take()
                name = local(each)
                if name in ("r", "fld"):
                    part = named_child(each, "t")
                    self._run((part.text or "") if part is not None else "", each, look, level, shrunk, line)
                elif name == "br":
                    line.spans.append(Span("", (), None, element("br")))
                elif name in ("AlternateContent", "m") and not look.hidden:
                    choice = each if name == "m" else named_child(each, "Choice")
                    for part in choice.iter("{*}oMath") if choice is not None else ():
                        if (math := formula(part, shown=False)) is not None:
                            line.add_element(math)
            if not is_blank(line.spans):
                found.append(_Paragraph(line.spans, level, _bullet(properties)))
        return found

    def _run(
        self, text: str, run: etree._Element, look: _TextLook, level: int, shrunk: float, line: Line
    ) -> None:
        properties = named_child(run, "rPr")
        sources = [properties, *_levels(look.levels, level)]
        size = next((own for each in sources if (own := attribute(each, "sz"))), None)
        paint = _color_of(properties, look, level)
        judged = {
            "size": number(size, _POINTS * 100) / 100 * shrunk,
            "color": paint.color,
            "opacity": paint.opacity,
        }
        hidden = look.hidden or is_hidden(judged, look.ground)
        text = text.replace("\v", " ")
        if properties is None:
            line.add(text, hidden=hidden)
            return
        tags = [tag for name, tag in (("b", "strong"), ("i", "em")) if attribute(properties, name) in TRUE]
        if (attribute(properties, "strike") or "noStrike") != "noStrike":
            tags.append("del")
        if raised := number(attribute(properties, "baseline")):
            tags.append("sup" if raised > 0 else "sub")
        relation = look.relations.get(attribute(named_child(properties, "hlinkClick"), "id") or "")
        link = relation.target if relation and relation.external else None
        line.add(text, tuple(tags), link, hidden=hidden)


_LAYERS = 100  # shapes of masters and layouts that are looked at


def _paint_of(node: etree._Element, theme: ThemeColors) -> Paint | None:
    """Return the fill of a shape; None if it says nothing."""
    if local(node) == "pic":
        return Paint(None)
    if local(node) == "graphicFrame":
        return None
    properties = named_child(node, "spPr")
    paint = theme.fill(properties if properties is not None else named_child(node, "grpSpPr"))
    reference = named_child(node, "style", "fillRef") if paint is None else None
    return paint if reference is None or attribute(reference, "idx") == "0" else theme.paint(reference)


def _covers(node: etree._Element, paint: Paint | None) -> bool:
    """Return whether a shape is a rectangle of one color that nothing shows through."""
    if local(node) != "sp" or paint is None or paint.color is None or paint.opacity < 1:
        return False
    return attribute(named_child(node, "spPr", "prstGeom"), "prst") == "rect"


def _is_title(node: etree._Element) -> bool:
    place = placeholder(node) if local(node) == "sp" else None
    return place is not None and kind_of(place) in ("title", "ctrTitle")


def _transform(node: etree._Element) -> etree._Element | None:
    for name in ("spPr", "grpSpPr"):
        if (transform := named_child(node, name, "xfrm")) is not None:
            return transform
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
    left, top = (number(attribute(at, name)) for name in ("x", "y"))
    wide, high = (number(attribute(extent, name)) for name in ("cx", "cy"))
    return left, top, wide, high


def _color_of(properties: etree._Element | None, look: _TextLook, level: int) -> Paint:
    """Return the color of a run: its own, or by the styles."""
    own = look.theme.fill(properties)
    if own is not None:
        return own
    for nth, source in enumerate(look.levels):
        if nth == look.strong and look.own is not None:
            return look.own
        for defaults in _levels([source], level):
            paint = look.theme.fill(defaults)
            if paint is not None:
                return paint
    return look.own if look.own is not None else Paint(look.theme.named("tx1"))


def _levels(styles: Sequence[etree._Element], level: int) -> list[etree._Element]:
    """Return the default properties of runs of a level."""
    return [
        defaults
        for source in styles
        for name in (f"lvl{level + 1}pPr", "defPPr")
        if (defaults := named_child(source, name, "defRPr")) is not None
    ]


def _bullet(properties: etree._Element | None) -> bool | None:
    for each in properties if properties is not None else ():
        name = local(each)
        if name in ("buNone", "buChar", "buAutoNum", "buBlip"):
            return name != "buNone"
    return None


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
        return named_child(self.root, "cSld", "spTree")

    def ground(self) -> Paint:
        """Return the background, by the first source that has one."""
        for source in self.chain():
            background = named_child(source.root, "cSld", "bg")
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
            tree = source.tree
            shapes = [(shape, placeholder(shape)) for shape in (tree if tree is not None else ())]
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
        return named_child(master.root, "txStyles", name)


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


def _described(shape: etree._Element, name: str, *below: str) -> etree._Element | None:
    """Return a part of the description of a shape."""
    described = next((part for part in shape if local(part).startswith("nv")), None)
    return named_child(described, name, *below)


def placeholder(shape: etree._Element) -> etree._Element | None:
    """Return the description of the placeholder that a shape is."""
    return _described(shape, "nvPr", "ph")


def kind_of(place: etree._Element) -> str:
    """Return the type of a placeholder, "obj" if it has none."""
    return attribute(place, "type") or "obj"


def _class(kind: str) -> str:
    if kind in ("title", "ctrTitle"):
        return "title"
    return "body" if kind in _BODY else kind


def _theme(root: etree._Element, above: SlideSource | None) -> ThemeColors:
    """Return the colors of the theme, as a slide or layout names them."""
    theme = above.theme if above is not None else ThemeColors(None)
    names = named_child(root, "clrMapOvr", "overrideClrMapping")
    return theme if names is None else theme.with_names(_names(names))


def _names(entry: etree._Element) -> dict[str, str]:
    return {str(name): entry.get(name) or "" for name in list(entry.attrib)[:50]}


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
        self._styles = {attribute(entry, "styleId") or "": entry for entry in children(part, "tblStyle")}

    def grounds(self, properties: etree._Element | None, theme: ThemeColors) -> RowGrounds:
        """Return the backgrounds of a table with these properties."""
        named = named_child(properties, "tableStyleId")
        name = (named.text or "").strip() if named is not None else ""
        if not name:
            return RowGrounds({}, {}, frozenset(), True)
        style = self._styles.get(name)
        if style is None:
            return RowGrounds({}, {}, frozenset(), False)
        fills: dict[str, Paint] = {}
        texts: dict[str, Paint] = {}
        for part in style:
            name = local(part)
            if (fill := theme.fill(named_child(part, "tcStyle", "fill"))) is not None:
                fills[name] = fill
            text = named_child(part, "tcTxStyle")
            if text is not None and (paint := theme.paint(text)).color is not None:
                texts[name] = paint
        on = frozenset(
            name for name in ("firstRow", "lastRow", "bandRow") if attribute(properties, name) in TRUE
        )
        return RowGrounds(fills, texts, on, True)
