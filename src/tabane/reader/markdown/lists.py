"""Lists of all kinds, with the contents of their items."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lxml.html import HtmlElement

from tabane.reader.markdown import escaping
from tabane.reader.markdown.elements import LISTS, classes, text_of
from tabane.reader.markdown.writer import MarkdownBlock, MarkdownWriter, indented, stacked

_WRAPPED = 8  # elements between a list and its items


class _ListItem(NamedTuple):
    element: HtmlElement
    blocks: list[MarkdownBlock]


def listed(writer: MarkdownWriter, element: HtmlElement) -> list[MarkdownBlock]:
    """Return a list as one block. If its items have headings, as cards and search results do, return their
    blocks.
    """
    items = _items(writer, element)
    if not items:
        return []
    if any(item.element is not element and writer.has_headings(item.element) for item in items):
        return [block for item in items for block in item.blocks]
    notes = [item for item in items if writer.notes.note(item.element)]
    if notes:
        return [block for item in items for block in _noted(writer, item)]
    ordered = element.tag == "ol"
    texts = list(_numbered(element, items)) if ordered else [_bulleted(item, "-") for item in items]
    loose = any(_is_loose(item.blocks) for item in items)
    return [MarkdownBlock(("\n\n" if loose else "\n").join(texts), "list", "." if ordered else "-")]


def _items(writer: MarkdownWriter, element: HtmlElement) -> list[_ListItem]:
    """Return the items that say something. A list right within a list belongs to the item before it."""
    found: list[_ListItem] = []
    for child, text in _children(element):
        nested = child.tag in LISTS and text is None
        blocks = writer.said(text) if text is not None else _blocks(writer, child)
        if nested and found:
            found[-1].blocks.extend(blocks)
        elif blocks:
            found.append(_ListItem(child, blocks))
    return found


def _blocks(writer: MarkdownWriter, child: HtmlElement) -> list[MarkdownBlock]:
    return writer.blocks(child) if child.tag == "li" else writer.written(child)


def _children(element: HtmlElement, depth: int = 0) -> Iterator[tuple[HtmlElement, str | None]]:
    """Yield the items, also inside wrappers; text directly in the list comes with the list element."""
    yield element, element.text or ""
    for child in element:
        if child.tag not in LISTS and child.tag != "li" and child.find("li") is not None and depth < _WRAPPED:
            yield from _children(child, depth + 1)
        elif isinstance(child.tag, str):
            yield child, None
        yield element, child.tail or ""


def _is_loose(blocks: list[MarkdownBlock]) -> bool:
    """Return whether an item has more than a paragraph and a list below it."""
    return len(blocks) > 2 or (len(blocks) == 2 and blocks[1].kind != "list")


def _bulleted(item: _ListItem, marker: str) -> str:
    return indented(stacked(item.blocks, tight=True), f"{marker} ")


def _numbered(element: HtmlElement, items: list[_ListItem]) -> Iterator[str]:
    step = -1 if element.get("reversed") is not None else 1
    number = _number(element.get("start"), len(items) if step < 0 else 1)
    for item in items:
        number = _number(item.element.get("value"), number)
        yield indented(stacked(item.blocks, tight=True), f"{number}. ")
        number = max(0, number + step)


def _number(said: str | None, otherwise: int) -> int:
    """Return the number in an attribute, if a Markdown list can begin with it: up to nine digits."""
    return int(said) if said and re.fullmatch(r"\s*\d{1,9}\s*", said) else otherwise


def extend(found: list[MarkdownBlock], blocks: list[MarkdownBlock]) -> None:
    """Put blocks below those there are."""
    for block in blocks:
        found.append(again(block, found[-1]) if found else block)


def again(block: MarkdownBlock, before: MarkdownBlock) -> MarkdownBlock:
    """Return the list that follows another right away, with another marker: else they would be read as
    one.
    """
    if block.kind != "list" or before.kind != "list" or block.marker != before.marker:
        return block
    if block.marker == "-":
        return MarkdownBlock(re.sub(r"^- ", "* ", block.markdown, flags=re.M), "list", "*")
    if block.marker == ".":
        return MarkdownBlock(re.sub(r"^(\d+)\. ", r"\1) ", block.markdown, flags=re.M), "list", ")")
    return block


def _noted(writer: MarkdownWriter, item: _ListItem) -> list[MarkdownBlock]:
    label = writer.notes.note(item.element)
    return [note(label, item.blocks)] if label else item.blocks


def note(label: str, blocks: list[MarkdownBlock]) -> MarkdownBlock:
    """Return a footnote below the text; its further blocks are four spaces in."""
    first = f"[^{label}]: "
    body = stacked(blocks)
    return MarkdownBlock(first + re.sub(r"\n(?=.)", "\n    ", body), "note")


def defined(writer: MarkdownWriter, element: HtmlElement) -> list[MarkdownBlock]:
    """Return a definition list: items if each is one line, else terms with their definitions below them."""
    groups = list(_groups(writer, element))
    if all(len(group.blocks) <= 1 and _plain(group.blocks) for group in groups):
        items = [_line(term, blocks) for term, blocks in groups]
        return (
            [MarkdownBlock("\n".join(f"- {item}" for item in items if item), "list", "-")]
            if any(items)
            else []
        )
    found: list[MarkdownBlock] = []
    for term, blocks in groups:
        if term:
            found.append(MarkdownBlock(term))
        found.extend(blocks)
    return found


class _ListGroup(NamedTuple):
    term: str
    blocks: list[MarkdownBlock]


def _plain(blocks: list[MarkdownBlock]) -> bool:
    return all(block.kind == "paragraph" and "\n" not in block.markdown for block in blocks)


def _line(term: str, blocks: list[MarkdownBlock]) -> str:
    return ": ".join(part for part in (term, blocks[0].markdown if blocks else "") if part)


def _groups(writer: MarkdownWriter, element: HtmlElement) -> Iterator[_ListGroup]:
    terms: list[str] = []
    for child, text in _terms(element):
        if text is not None:
            if stray := writer.said(text):
                yield _ListGroup("", stray)
            continue
        if child.tag == "dt":
            if writer.has_headings(child):
                yield _ListGroup("", writer.blocks(child))
            elif term := _term(writer, child):
                terms.append(term)
            continue
        blocks = writer.blocks(child) if child.tag == "dd" else writer.written(child)
        label = writer.notes.note(child) if child.tag == "dd" else None
        if label and blocks:
            blocks = [note(label, blocks)]
        if terms or blocks:
            yield _ListGroup(", ".join(terms), blocks)
        terms = []
    if terms:
        yield _ListGroup(", ".join(terms), [])


def _terms(element: HtmlElement, depth: int = 0) -> Iterator[tuple[HtmlElement, str | None]]:
    """Terms and definitions, and text beside them; HTML allows a ``<div>`` around a group."""
    yield element, element.text or ""
    for child in element:
        wraps = child.tag == "div" and (child.find("dt") is not None or child.find("dd") is not None)
        if wraps and depth < _WRAPPED:
            yield from _terms(child, depth + 1)
        elif isinstance(child.tag, str):
            yield child, None
        yield element, child.tail or ""


def _term(writer: MarkdownWriter, element: HtmlElement) -> str:
    """Return a term in bold, a signature as code."""
    if {"sig", "sig-object"}.intersection(classes(element)):
        return escaping.code(text_of(element).replace("¶", "").replace("[source]", ""))
    line = " ".join(writer.line(element).split())
    return line if not line or line.startswith(("**", "`")) else f"**{line}**"
