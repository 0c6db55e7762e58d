"""Presentations of PowerPoint (PPTX): titles, text, tables, charts and notes of the slides.

Layouts and masters give formats to the shapes of a slide; styles of tables give backgrounds to rows. What
nobody sees is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lxml import etree
from lxml.html import HtmlElement

from tabane.messages import Message, say
from tabane.reader.formats.office import page_tree
from tabane.reader.formats.office.package import (
    USUAL_MAP,
    OfficePackage,
    Paint,
    Relation,
    ThemeColors,
    attribute,
    local,
    named_child,
    number,
)
from tabane.reader.formats.office.page_tree import (
    ContentBudget,
    DocumentFull,
    OfficeContent,
    Span,
    child,
    element,
    fill,
    is_blank,
)
from tabane.reader.hidden_text import WHITE, Color, is_tiny, is_unreadable

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
        """Return whether the other box is within this one."""
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
        listed = named_child(self._root, "sldIdLst")
        found = []
        for entry in listed if listed is not None else ():
            if local(entry) == "sldId":
                made = entry.makeelement("sldId")
                for name in list(entry.attrib)[:50]:
                    if str(name).startswith("{"):
                        made.set("id", entry.get(name) or "")
                found.append(made)
        names = [
            relation.target
            for entry in found
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
        root = self._sources.notes(slide)
        tree = named_child(named_child(root, "cSld"), "spTree")
        for note in tree if tree is not None else ():
            place = placeholder(note)
            body = named_child(note, "txBody")
            if place is None or kind_of(place) != "body" or body is None:
                continue
            spans = self._texts.line(body, SlideTextStyle((), slide.theme, WHITE, {}))
            if spans:
                fill(child(child(whole, "blockquote"), "p"), spans)

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
                transform = _transform(node)
                own, inside = _numbers(transform, "off", "ext"), _numbers(transform, "chOff", "chExt")
                if own is None or inside is None:
                    inner = scale
                else:
                    wide = own[2] / inside[2] if inside[2] else 1.0
                    high = own[3] / inside[3] if inside[3] else 1.0
                    inner = _Scale(
                        scale.left + (own[0] - inside[0] * wide) * scale.wide,
                        scale.top + (own[1] - inside[1] * high) * scale.high,
                        wide * scale.wide,
                        high * scale.high,
                    )
                self._collect(node, slide, inner, unseen, depth + 1, found)
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
            about = _about(shape.node)
            words = attribute(about, "descr") if about is not None else None
            if words and words.strip() and not shape.hidden and not ground.hides(shape):
                child(child(whole, "p"), "img", alt=words[:1000])
        elif name == "graphicFrame":
            data = named_child(named_child(node, "graphic"), "graphicData")
            for each in data if data is not None else ():
                self._graphic(each, shape, slide, ground, whole)

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
                page_tree.add(part, whole)
        elif name == "relIds" and not hidden:
            relation = slide.relations.get(attribute(node, "dm") or "")
            part = self._package.part(relation.target) if relation is not None else None
            if part is not None:
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


class _SlideGround:
    """Areas behind and in front of the shapes of a slide."""

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


_POINTS = 18.0
_LEVELS = 9


@dataclass(frozen=True, slots=True)
class SlideTextStyle:
    """What a shape gives its text: the styles of levels, the strongest first, and the background."""

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


class SlideTextReader:
    """Reads the text of shapes. ``hidden`` counts the parts that nobody sees."""

    def __init__(self, budget: ContentBudget) -> None:
        self._budget = budget
        self.hidden = 0

    def line(self, body: etree._Element, style: SlideTextStyle) -> list[Span]:
        """Return all paragraphs in one line."""
        found: list[Span] = []
        for spans, _, _ in self._paragraphs(body, style):
            found += [*([Span(" ")] if found else []), *spans]
        return found

    def add(self, body: etree._Element, style: SlideTextStyle, parent: HtmlElement) -> None:
        """Append the paragraphs: as a list if they have bullets."""
        paragraphs = self._paragraphs(body, style)
        lists: list[tuple[int, HtmlElement]] = []
        for spans, level, bullet in paragraphs:
            listed = bullet if bullet is not None else style.listed and len(paragraphs) > 1
            if not listed:
                lists.clear()
                fill(child(parent, "p"), spans)
                continue
            while lists and lists[-1][0] > level:
                lists.pop()
            if not lists or lists[-1][0] < level:
                into = lists[-1][1][-1] if lists and len(lists[-1][1]) else parent
                lists.append((level, child(into, "ul")))
            fill(child(lists[-1][1], "li"), spans)

    def _paragraphs(
        self, body: etree._Element, style: SlideTextStyle
    ) -> list[tuple[list[Span], int, bool | None]]:
        """Return the paragraphs with their levels, and whether they say that they have a bullet."""
        found = []
        scale = named_child(named_child(body, "bodyPr"), "normAutofit")
        shrunk = number(attribute(scale, "fontScale"), 100_000) / 100_000 if scale is not None else 1.0
        for node in body:
            self._budget.take()
            if local(node) != "p":
                continue
            properties = named_child(node, "pPr")
            at = attribute(properties, "lvl") if properties is not None else None
            level = min(max(int(number(at)), 0), _LEVELS - 1)
            spans: list[Span] = []
            unseen = False
            for each in node:
                self._budget.take()
                name = local(each)
                if name in ("r", "fld"):
                    part = named_child(each, "t")
                    text = (part.text or "") if part is not None else ""
                    if style.hidden or self._is_hidden(named_child(each, "rPr"), style, level, shrunk):
                        if text.strip():
                            self.hidden += not unseen
                            unseen = True
                        continue
                    unseen = False
                    self._budget.take(0, len(text))
                    spans.append(self._span(text.replace("\v", " "), named_child(each, "rPr"), style))
                elif name == "br":
                    spans.append(Span("", (), None, element("br")))
                elif name in ("AlternateContent", "m") and not style.hidden:
                    spans += _formulas(each)
            if not is_blank(spans):
                found.append((spans, level, _bullet(properties)))
        return found

    def _span(self, text: str, properties: etree._Element | None, style: SlideTextStyle) -> Span:
        if properties is None:
            return Span(text)
        tags = [
            tag
            for name, tag in (("b", "strong"), ("i", "em"))
            if attribute(properties, name) in ("1", "true")
        ]
        if (attribute(properties, "strike") or "noStrike") != "noStrike":
            tags.append("del")
        raised = number(attribute(properties, "baseline"))
        if raised:
            tags.append("sup" if raised > 0 else "sub")
        click = named_child(properties, "hlinkClick")
        relation = style.relations.get(attribute(click, "id") or "") if click is not None else None
        return Span(text, tuple(tags), relation.target if relation and relation.external else None)

    def _is_hidden(
        self, properties: etree._Element | None, style: SlideTextStyle, level: int, shrunk: float
    ) -> bool:
        sources = [source for source in (properties, *_levels(style.levels, level)) if source is not None]
        size = next((found for each in sources if (found := attribute(each, "sz"))), None)
        if is_tiny(number(size, _POINTS * 100) / 100 * shrunk):
            return True
        paint = _paint(properties, style, level)
        return paint.opacity < 0.1 or is_unreadable(paint.color, style.ground, paint.opacity)


def _paint(properties: etree._Element | None, style: SlideTextStyle, level: int) -> Paint:
    """Return the color of a run: its own, or by the styles."""
    found = style.theme.fill(properties)
    if found is not None:
        return found
    for nth, source in enumerate(style.levels):
        if nth == style.strong and style.own is not None:
            return style.own
        for defaults in _levels([source], level):
            found = style.theme.fill(defaults)
            if found is not None:
                return found
    return style.own if style.own is not None else Paint(style.theme.named("tx1"))


def _levels(styles: Sequence[etree._Element], level: int) -> list[etree._Element]:
    """Return the default properties of runs of a level."""
    found = []
    for source in styles:
        for name in (f"lvl{level + 1}pPr", "defPPr"):
            defaults = named_child(named_child(source, name), "defRPr")
            if defaults is not None:
                found.append(defaults)
    return found


def _bullet(properties: etree._Element | None) -> bool | None:
    for each in properties if properties is not None else ():
        name = local(each)
        if name == "buNone":
            return False
        if name in ("buChar", "buAutoNum", "buBlip"):
            return True
    return None


def _formulas(node: etree._Element) -> list[Span]:
    choice = node if local(node) == "m" else named_child(node, "Choice")
    found = []
    for formula in choice.iter("{*}oMath") if choice is not None else ():
        made = page_tree.formula(formula, shown=False)
        if made is not None:
            found.append(Span("", (), None, made))
    return found


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
    """Return the type of a placeholder, "obj" if it has none."""
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
