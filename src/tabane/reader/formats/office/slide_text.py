"""Text of shapes of PresentationML as paragraphs and lists, without what nobody sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lxml import etree
from lxml.html import HtmlElement

from tabane.reader.formats.office import omml
from tabane.reader.formats.office.drawing_colors import Paint, ThemeColors, local, number
from tabane.reader.formats.office.package import Relation, attribute, named_child
from tabane.reader.formats.office.page_tree import ContentBudget, Span, child, element, fill, is_blank
from tabane.reader.visibility import Color, is_tiny, is_unreadable

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
            spans = self._spans(node, style, level, shrunk)
            if not is_blank(spans):
                found.append((spans, level, _bullet(properties)))
        return found

    def _spans(self, node: etree._Element, style: SlideTextStyle, level: int, shrunk: float) -> list[Span]:
        found: list[Span] = []
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
                found.append(self._span(text.replace("\v", " "), named_child(each, "rPr"), style))
            elif name == "br":
                found.append(Span("", (), None, element("br")))
            elif name in ("AlternateContent", "m") and not style.hidden:
                found += _formulas(each)
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
        made = omml.formula(formula, shown=False)
        if made is not None:
            found.append(Span("", (), None, made))
    return found
