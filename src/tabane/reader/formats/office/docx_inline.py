"""Content of a paragraph of WordprocessingML: what it shows, in its formats, and what is hidden in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lxml import etree

from tabane.reader.formats.office import omml
from tabane.reader.formats.office.docx_styles import WordStyles, combined, run_format
from tabane.reader.formats.office.drawing_colors import ThemeColors, local
from tabane.reader.formats.office.package import Relation, attribute, named_child
from tabane.reader.formats.office.page_tree import ContentBudget, Span, child, element
from tabane.reader.formats.office.text_formats import Format, is_hidden, tags_of
from tabane.reader.visibility import WHITE, Color

_DEEP = 40  # nested fields, links and insertions
_INSIDE = frozenset(
    {"hyperlink", "ins", "moveTo", "smartTag", "customXml", "sdtContent", "dir", "bdo", "fldSimple"}
)
_CODE_STYLE = re.compile(r"html code|source text|verbatim|inline ?code|^code|コード", re.IGNORECASE)
_ADDRESS = re.compile(r'^\s*HYPERLINK\s+"([^"]{1,2000})"', re.IGNORECASE)
_SYMBOLS = {"f0fc": "✓", "f0fe": "☑", "f0a8": "☐", "f06f": "☐", "f0fb": "✗", "f0e0": "→", "f0b7": "•"}
_SIGNS = {"tab": " ", "noBreakHyphen": "-"}


class TextPlace(NamedTuple):
    """Where text is: its background, None if unknown, the format that its table gives it, and how deep.
    ``hidden``: everything there is.
    """

    ground: Color | None = WHITE
    table: Format = {}
    depth: int = 0
    hidden: bool = False


class ParagraphFormat(NamedTuple):
    """What a paragraph gives its runs: format of its style, and background. ``hidden``: nobody sees it."""

    place: TextPlace
    style: Format
    ground: Color | None
    hidden: bool


@dataclass(slots=True)
class _ComplexField:
    """A field whose code is read before what it shows. ``link`` is its address."""

    code: list[str] = field(default_factory=list)
    shows: bool = False
    link: str | None = None


@dataclass(slots=True)
class ParagraphContent:
    """The spans of a paragraph, and the drawings in it, which come after it."""

    spans: list[Span] = field(default_factory=list)
    drawings: list[etree._Element] = field(default_factory=list)
    breaks: bool = False


class InlineReader:
    """Reads the content of paragraphs. ``hidden`` counts the parts that nobody sees, ``deep`` those nested
    too deeply, ``order`` has the kinds and ids of the notes that are referred to.
    """

    def __init__(
        self,
        styles: WordStyles,
        theme: ThemeColors,
        relations: Mapping[str, Relation],
        budget: ContentBudget,
    ) -> None:
        self._styles, self._theme, self._budget = styles, theme, budget
        self.relations = relations
        self.hidden = self.deep = 0
        self.order: list[tuple[str, str]] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._fields: list[_ComplexField] = []
        self._unseen = False
        self._formats: dict[tuple[int, int, str], dict[str, Any]] = {}

    def content(self, node: etree._Element, form: ParagraphFormat) -> ParagraphContent:
        """Return the content of a paragraph."""
        found = ParagraphContent()
        self._unseen = False
        self._inside(node, form, found, None, 0)
        # A field whose code does not end in its paragraph is broken: it must not swallow the document.
        self._fields = [each for each in self._fields if each.shows]
        return found

    def _inside(
        self,
        node: etree._Element,
        form: ParagraphFormat,
        found: ParagraphContent,
        link: str | None,
        depth: int,
    ) -> None:
        if depth > _DEEP:
            self.deep += 1
            return
        for each in node:
            self._budget.take()
            name = local(each)
            if name == "r":
                self._run(each, form, found, link)
            elif name in ("oMath", "oMathPara"):
                self._formula(each, form, found, shown=name == "oMathPara")
            elif (inner := self._container(each, name)) is not None:
                self._inside(inner, form, found, self._link(each, name) or link, depth + 1)

    def _container(self, node: etree._Element, name: str) -> etree._Element | None:
        """Return what contains the runs of an element."""
        if name in _INSIDE:
            return node
        if name == "sdt":
            return named_child(node, "sdtContent")
        return alternative(node) if name == "AlternateContent" else None

    def _link(self, node: etree._Element, name: str) -> str | None:
        """Return the address of a link."""
        if name == "hyperlink":
            relation = self.relations.get(attribute(node, "id") or "")
            return relation.target if relation is not None and relation.external else None
        if name == "fldSimple" and (address := _ADDRESS.match(attribute(node, "instr") or "")):
            return address[1]
        return None

    def _run(
        self, run: etree._Element, form: ParagraphFormat, found: ParagraphContent, link: str | None
    ) -> None:
        properties = named_child(run, "rPr")
        own = run_format(properties, self._theme) if properties is not None else {}
        made = self._format(own, form)
        hidden = form.hidden or is_hidden(made, form.ground)
        tags = tags_of(made)
        for each in run:
            self._budget.take()
            name = local(each)
            if name in ("t", "delText"):
                if name == "t" and each.text:
                    self._text(each.text, made, found, hidden, tags, link)
            elif name == "fldChar":
                self._mark(attribute(each, "fldCharType"))
            elif name == "instrText":
                if self._fields and not self._fields[-1].shows and len(self._fields[-1].code) < 50:
                    self._fields[-1].code.append(each.text or "")
            elif not hidden:
                self._object(each, name, found, tags, link)

    def _format(self, own: dict[str, Any], form: ParagraphFormat) -> dict[str, Any]:
        """Return the format of a run; the part of its styles is made once."""
        style = own.get("style") or ""
        key = (id(form.style), id(form.place.table), style)
        base = self._formats.get(key)
        if base is None:
            character = self._styles.style(style) if style else None
            # A paragraph that is bold as a whole is not emphasis.
            styles = [_without_emphasis(form.place.table), _without_emphasis(form.style)]
            if character is not None:
                run = dict(character.run)
                if _CODE_STYLE.search(character.name):
                    run["code"] = True
                styles.append(run)
            base = combined(_without_emphasis(self._styles.defaults), tuple(styles), {})
            self._formats[key] = base
        return {**base, **own} if own else base

    def _text(
        self,
        text: str,
        made: Format,
        found: ParagraphContent,
        hidden: bool,
        tags: tuple[str, ...],
        link: str | None,
    ) -> None:
        if any(not each.shows for each in self._fields):
            return  # within the code of a field
        if made.get("web_hidden"):
            hidden = hidden or any(char.isalpha() for char in text)
            if not hidden:
                return  # numbers of pages in a table of contents
        if hidden:
            if text.strip():
                self.hidden += not self._unseen
                self._unseen = True
            return
        self._unseen = False
        self._budget.take(0, len(text))
        link = link or next((each.link for each in reversed(self._fields) if each.link), None)
        found.spans.append(Span(text, tags, link))

    def _object(
        self,
        node: etree._Element,
        name: str,
        found: ParagraphContent,
        tags: tuple[str, ...],
        link: str | None,
    ) -> None:
        if name in _SIGNS:
            found.spans.append(Span(_SIGNS[name], tags, link))
        elif name in ("br", "cr"):
            page = attribute(node, "type") in ("page", "column")
            found.spans.append(Span(" ") if page else Span("", (), None, element("br")))
        elif name == "sym":
            sign = _SYMBOLS.get((attribute(node, "char") or "").lower(), "")
            found.spans.append(Span(sign, tags, link))
        elif name in ("footnoteReference", "endnoteReference"):
            self._note(node, name, found)
        elif name in ("drawing", "pict", "object"):
            found.drawings.append(node)
        elif name == "AlternateContent":
            chosen = alternative(node)
            for each in chosen if chosen is not None else ():
                if local(each) != "AlternateContent":
                    self._object(each, local(each), found, tags, link)
        elif name == "ruby":
            self._ruby(node, found, tags)

    def _note(self, node: etree._Element, name: str, found: ParagraphContent) -> None:
        key = (name.removesuffix("Reference"), attribute(node, "id") or "")
        if key not in self._numbers:
            self.order.append(key)
            self._numbers[key] = len(self.order)
        nth = self._numbers[key]
        mark = element("sup")
        child(mark, "a", str(nth), href=f"#note-{nth}")
        found.spans.append(Span("", (), None, mark))

    def _ruby(self, node: etree._Element, found: ParagraphContent, tags: tuple[str, ...]) -> None:
        base, reading = (
            "".join(
                text.text or ""
                for part in node if local(part) == name
                for text in part.iter("{*}t")
            )
            for name in ("rubyBase", "rt")
        )  # fmt: skip
        made = element("ruby", base[:200])
        child(made, "rt", reading[:200])
        found.spans.append(Span("", tags, None, made))

    def _formula(
        self, node: etree._Element, form: ParagraphFormat, found: ParagraphContent, *, shown: bool
    ) -> None:
        if form.hidden:
            return
        parts = [each for each in node if local(each) == "oMath"] if shown else [node]
        for part in parts:
            math = omml.formula(part, shown=shown)
            if math is not None:
                self._budget.take(len(math) + 1)
                found.spans.append(Span("", (), None, math))

    def _mark(self, kind: str | None) -> None:
        """Follow the marks of a field: its begin, the end of its code, its end."""
        if kind == "begin" and len(self._fields) < _DEEP:
            self._fields.append(_ComplexField())
        elif kind == "separate" and self._fields:
            at = self._fields[-1]
            at.shows = True
            address = _ADDRESS.match("".join(at.code))
            at.link = address[1] if address else None
        elif kind == "end" and self._fields:
            self._fields.pop()


def alternative(node: etree._Element) -> etree._Element | None:
    """Return the content that Office shows of several: the first choice, else the fallback."""
    choice = named_child(node, "Choice")
    return choice if choice is not None else named_child(node, "Fallback")


def paragraph_ground(place: TextPlace, *shades: Color | None) -> Color | None:
    """Return the background of a paragraph: the first shading that there is."""
    return next((shade for shade in shades if shade is not None), place.ground)


def _without_emphasis(made: Format) -> Format:
    return {name: value for name, value in made.items() if name not in ("bold", "italic")}
