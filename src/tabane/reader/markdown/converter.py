"""Conversion of subtrees into blocks of Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from lxml.html import HtmlElement

from tabane.reader.markdown import code_blocks, escaping, lists, tables
from tabane.reader.markdown.elements import BLOCKS, HEADINGS, LISTS, address, classes, paragraphs_of, text_of
from tabane.reader.markdown.inline import InlineConverter
from tabane.reader.markdown.spans import Piece, joined
from tabane.reader.markdown.writer import MarkdownBlock, indented, notes, stacked

_WRAPPERS = frozenset({"div", "section", "article", "main", "center", "body", "span", "font", "form"})
_DEEP = 60  # nested blocks: deeper ones become paragraphs


class MarkdownConverter:
    """Converts these elements. One walk beforehand finds the blocks, the headings and the footnotes."""

    def __init__(self, elements: Sequence[HtmlElement], base: str, *, links: bool = True) -> None:
        self.notes = notes(elements)
        self._base, self._links = base, links
        self._inline = InlineConverter(base, self.notes, links=links)
        self._mixed = _above(elements, BLOCKS)
        self._shared = code_blocks.around_several(elements)
        self._headed = _above(elements, HEADINGS.keys())
        self._depth = 0
        self._card: str | None = None  # address of the current card
        self._headline = False  # whether its heading carries the link

    def all(self, elements: Sequence[HtmlElement]) -> list[MarkdownBlock]:
        """Return the blocks that the elements are."""
        found: list[MarkdownBlock] = []
        for element in elements:
            lists.extend(found, self._flow("", [element]))
        return found

    def blocks(self, element: HtmlElement) -> list[MarkdownBlock]:
        return self._flow(element.text or "", element)

    def line(self, element: HtmlElement) -> str:
        return self._inline.line(element, plain=element.tag == "th")

    def has_headings(self, element: HtmlElement) -> bool:
        return element in self._headed

    def _flow(self, text: str, children: Sequence[HtmlElement] | HtmlElement) -> list[MarkdownBlock]:
        """Runs of text between blocks are paragraphs."""
        found: list[MarkdownBlock] = []
        run: list[Piece] = [text]
        for child in children:
            if self._is_block(child):
                self._end(run, found)
                lists.extend(found, self.written(child))
            else:
                self._inline.add(child, run)
            if isinstance(children, HtmlElement):
                run.append(child.tail or "")
        self._end(run, found)
        return found

    def _is_block(self, element: HtmlElement) -> bool:
        return element.tag in BLOCKS or element in self._mixed or _is_listing(element)

    def _end(self, run: list[Piece], found: list[MarkdownBlock]) -> None:
        """End a run: its text becomes paragraphs, with a link if it is on a card without a heading."""
        line = "" if all(isinstance(piece, str) and not piece.strip() for piece in run) else joined(run)
        run.clear()
        texts = (escaping.lines(text.strip()) for text in line.split("\n\n"))
        found.extend(MarkdownBlock(self._linked(text)) for text in texts if text)

    def _linked(self, text: str) -> str:
        if self._card is None or self._headline or "](" in text or "\n" in text:
            return text
        url, self._card = self._card, None
        return f"[{escaping.label(text)}]({url})"

    def said(self, text: str | None) -> list[MarkdownBlock]:
        found: list[MarkdownBlock] = []
        self._end([text or ""], found)
        return found

    def written(self, element: HtmlElement) -> list[MarkdownBlock]:
        element = self._unwrapped(element)
        if self._depth >= _DEEP:
            return [MarkdownBlock(escaping.lines(escaping.inline(line))) for line in paragraphs_of(element)]
        self._depth += 1
        try:
            return self._writing(element)
        finally:
            self._depth -= 1

    def _unwrapped(self, element: HtmlElement) -> HtmlElement:
        """Return the innermost of nested wrappers with a single child: page builders nest dozens of them."""
        while element.tag in _WRAPPERS and len(element) == 1 and not (element.text or "").strip():
            inner = element[0]
            if (inner.tail or "").strip() or not self._is_block(inner) or self.notes.note(element):
                break
            if element.get("role") == "heading":
                break
            element = inner
        return element

    def _writing(self, element: HtmlElement) -> list[MarkdownBlock]:
        tag = str(element.tag)
        if tag in HEADINGS:
            return self._heading(element, HEADINGS[tag])
        if tag in LISTS:
            return lists.listed(self, element)
        if writing := _WRITING.get(tag):
            return writing(self, element)
        if element.get("role") == "heading":
            return self._heading(element, _level(element))
        if _is_listing(element):
            return self.listing(element)
        label = self.notes.note(element)
        blocks = self.blocks(element)
        return [lists.note(label, blocks)] if label and blocks else blocks

    def _heading(self, element: HtmlElement, level: int) -> list[MarkdownBlock]:
        text = self._inline.line(element, plain=True)
        if not text:
            return []
        if self._card is not None and "](" not in text:
            url, self._card = self._card, None
            text = f"[{escaping.label(text)}]({url})"
        return [MarkdownBlock(f"{'#' * level} {escaping.heading(text)}", "heading")]

    def listing(self, element: HtmlElement) -> list[MarkdownBlock]:
        code = code_blocks.fenced(element, self._shared)
        return [MarkdownBlock(code, "code")] if code else []

    def _table(self, element: HtmlElement) -> list[MarkdownBlock]:
        return tables.tabled(self, element)

    def _definitions(self, element: HtmlElement) -> list[MarkdownBlock]:
        return lists.defined(self, element)

    def _quotation(self, element: HtmlElement) -> list[MarkdownBlock]:
        blocks = self.blocks(element)
        if all(block.kind == "code" for block in blocks):  # indented by the page, and quoted from nobody
            return blocks
        text = stacked(blocks)
        quoted = "\n".join(f"> {line}" if line else ">" for line in text.split("\n"))
        return [MarkdownBlock(quoted, "quotation")] if text else []

    def _rule(self, _element: HtmlElement) -> list[MarkdownBlock]:
        return [MarkdownBlock("---", "rule")]

    def _item(self, element: HtmlElement) -> list[MarkdownBlock]:
        """Return a list item without its list."""
        blocks = self.blocks(element)
        if not blocks or self.has_headings(element):
            return blocks
        if label := self.notes.note(element):
            return [lists.note(label, blocks)]
        return [MarkdownBlock(indented(stacked(blocks, tight=True), "- "), "list", "-")]

    def _summary(self, element: HtmlElement) -> list[MarkdownBlock]:
        if self.has_headings(element):
            return self.blocks(element)
        line = self._inline.line(element, plain=True)
        return [MarkdownBlock(f"**{line}**")] if line else []

    def _anchor(self, element: HtmlElement) -> list[MarkdownBlock]:
        """Return a card: a link around blocks. Its heading is linked, or else its first paragraph."""
        self._card = address(element.get("href"), self._base) if self._links else None
        self._headline = self.has_headings(element)
        blocks = self.blocks(element)
        if self._card is not None and len(blocks) == 1 and blocks[0].markdown.startswith("!["):
            blocks[0] = MarkdownBlock(f"[{blocks[0].markdown}]({self._card})")
        self._card = None
        return blocks


_WRITING: Mapping[str, Callable[[MarkdownConverter, HtmlElement], list[MarkdownBlock]]] = {
    "a": MarkdownConverter._anchor,
    "pre": MarkdownConverter.listing,
    "listing": MarkdownConverter.listing,
    "xmp": MarkdownConverter.listing,
    "table": MarkdownConverter._table,
    "dl": MarkdownConverter._definitions,
    "blockquote": MarkdownConverter._quotation,
    "hr": MarkdownConverter._rule,
    "li": MarkdownConverter._item,
    "summary": MarkdownConverter._summary,
}
TAGS = frozenset(_WRITING)
"""Blocks that are written in a way of their own, beside headings and lists."""


def _above(elements: Sequence[HtmlElement], tags: Iterable[str]) -> set[HtmlElement]:
    """Return every element that has one of the tags somewhere in it."""
    found: set[HtmlElement] = set()
    for element in elements:
        for inner in element.iter(*tags):
            for above in inner.iterancestors():
                if inner is element or above in found:
                    break
                found.add(above)
                if above is element:
                    break
    return found


def _is_listing(element: HtmlElement) -> bool:
    """Return whether code that is not in a ``<pre>`` is a listing: lines of it, with nothing beside it."""
    if element.tag != "code" or (element.tail or "").strip():
        return False
    parent = element.getparent()
    if parent is None or (parent.text or "").strip():
        return False
    if element.getprevious() is not None or element.getnext() is not None:
        return False
    return len([line for line in text_of(element).split("\n") if line.strip()]) > 1 or "block" in classes(
        element
    )


def _level(element: HtmlElement) -> int:
    said = element.get("aria-level", "2")
    return min(max(int(said), 1), 6) if said.isascii() and said.isdigit() and len(said) < 3 else 2
