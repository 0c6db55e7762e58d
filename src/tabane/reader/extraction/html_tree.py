"""HTML as a tree, whatever the input, with streamed parts in their places.

The parser and everything after it take time in proportion to the page, with one exception: the parser
compares each attribute of a tag with all others of that tag. So a page is limited before it is parsed: its
length, its tags, and the attributes of a tag.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from tabane.messages import Message, say
from tabane.reader.plain_text import title_of, visible_text

_LARGE = 20_000_000  # characters
_MOST_TAGS = 300_000  # with end tags and comments
_MOST_ATTRIBUTES = 1_000  # of a tag
_MOST_ASKED = 20  # such tags, whose place in the page is looked at

_TAG = re.compile(r"<[a-zA-Z!/?]")
# Possessive, so that each is linear. A bracket in a quoted value does not end a tag.
_ATTRIBUTE = r"""[\s/]++[^\s/>=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]++))?+"""
_CROWDED = re.compile(rf"<[a-zA-Z][^\s/>]*+(?:{_ATTRIBUTE}){{{_MOST_ATTRIBUTES}}}")
_REST_OF_TAG = re.compile(rf"(?:{_ATTRIBUTE}|[\s/=]++)*+")


class HtmlWithinLimits(NamedTuple):
    """HTML that can be parsed, and warnings about what was left out of it."""

    text: str
    warnings: tuple[Message, ...]


def within_limits(html: str) -> HtmlWithinLimits:
    """Return HTML without its end, if it is too long or has too many tags, and without the attributes that
    follow the 1,000th of a tag.
    """
    warnings: list[Message] = []
    text = html[:_LARGE]
    if text.count("<") > _MOST_TAGS:
        last = next(islice(_TAG.finditer(text), _MOST_TAGS, None), None)
        text = text[: last.start()] if last else text
    if len(text) < len(html):
        warnings.append(say("The page is larger than the limit, so its end is missing."))
    crowded = list(_crowded_tags(text))
    if any(
        text.rfind("<script", 0, tag.end) <= text.rfind("</script", 0, tag.end)  # in no script
        for tag in crowded[:_MOST_ASKED]
    ):
        warnings.append(
            say(
                "A tag of the page has too many attributes. Only its first {most} were read.",
                most=_MOST_ATTRIBUTES,
            )
        )
    begins = [0, *(tag.rest for tag in crowded)]
    ends = [*(tag.end for tag in crowded), len(text)]
    return HtmlWithinLimits(
        "".join(text[begin:end] for begin, end in zip(begins, ends, strict=True)), tuple(warnings)
    )


class _CrowdedTag(NamedTuple):
    """Offsets of the end of the last attribute to read, and of the end of the last one."""

    end: int
    rest: int


def _crowded_tags(text: str) -> Iterator[_CrowdedTag]:
    at = 0
    while match := _CROWDED.search(text, at):
        rest = _REST_OF_TAG.match(text, match.end())
        at = rest.end() if rest else match.end()
        yield _CrowdedTag(match.end(), at)


_SEGMENT = re.compile(r"S:([0-9a-f]+)")
_CALLED = re.compile(r"""["']S:([0-9a-f]{1,8})["']""")
_MOST = 2000


def settle(root: Element) -> None:
    """Move streamed parts to their places.

    React streams a boundary that was not ready as ``<div hidden id="S:1">`` at the end of the page, marks its
    place with ``<template id="B:1">`` (or ``P:1`` within another), and a script names both. A segment without
    a place, or one that no script names, stays hidden. In a page that was saved without its scripts, the
    place is enough.
    """
    places: dict[str, Element] = {}
    for template in root.iter("template"):
        key = template.get("id") or ""
        if key[:2] in ("B:", "P:"):
            places[key[2:]] = template
    called = _inserted_segments(root) if places else frozenset()
    for segment in [at for at in root.iter("div") if "hidden" in at.attrib][:_MOST]:
        match = _SEGMENT.fullmatch(segment.get("id") or "")
        if match is not None and match[1] in places and (called is None or match[1] in called):
            _move_segment(segment, places[match[1]])


def open_noscripts(root: Element) -> bool:
    """Open the text for browsers without JavaScript if it is long; return whether there was any.

    Only for a page that shows almost nothing: forums put their whole thread there. Next to visible text, no
    reader sees it.
    """
    long = [noscript for noscript in root.iter("noscript") if _has_long_text(noscript)]
    for noscript in long:
        for inner in list(noscript.iter("noscript")):
            inner.tag = "div"
    return bool(long)


def _inserted_segments(root: Element) -> frozenset[str] | None:
    """Return the numbers of segments that scripts of the page insert; None if it has no script."""
    scripts = [script.text or "" for script in root.iter("script")]
    numbers = (number for text in scripts if "S:" in text for number in _CALLED.findall(text))
    return frozenset(numbers) if scripts else None


def _move_segment(segment: Element, place: Element) -> None:
    if (parent := place.getparent()) is None or segment in place.iterancestors():
        return
    del segment.attrib["hidden"]
    drop(segment)
    segment.tail, place.tail = place.tail, None
    parent.replace(place, segment)


def _has_long_text(noscript: Element) -> bool:
    """Return whether an element has a long text for browsers without JavaScript. It is in no other."""
    parent = noscript.getparent()
    if parent is None or parent.tag == "head" or next(noscript.iterancestors("noscript"), None) is not None:
        return False
    return sum(len(text.strip()) for text in noscript.itertext()) > 400


Element = Any
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_OF_HEAD = frozenset(
    ("title", "meta", "link", "style", "script", "base", "noscript", "template", "object", "bgsound")
)
_VOID = re.compile(
    r"""<(?:source|track|embed|wbr)(?=[\s/>])(?:[^<>"']|"[^"]{0,4000}+"|'[^']{0,4000}+'){0,4000}+>""",
    re.IGNORECASE,
)
"""Tags of empty elements that the parser does not know as empty: the rest of a paragraph would be in them."""
_PROLOGUE = re.compile(r"^\s*<\?xml[^>]*\?>")


_DEEPEST = 2040
"""Depth of a tree from which the parser has ignored the rest of the page: its limit is 2,048."""


class ParsedHtml(NamedTuple):
    """The tree of a page, and warnings about what is not in it."""

    root: Element
    warnings: tuple[Message, ...]


def parsed(html: str) -> Element:
    """Return the tree of a page, as parsed_within_limits does."""
    return parsed_within_limits(html).root


def parsed_within_limits(html: str) -> ParsedHtml:
    """Return the tree of a page. Never raises: text without a tag becomes a page with that text, and empty
    input an empty page.

    If the page is nested too deeply for the parser, the tree contains its text in paragraphs.
    """
    text, warnings = within_limits(_PROLOGUE.sub("", _NOT_XML.sub(" ", html)))
    root = _parse_tree(_VOID.sub(_closing_tag, text))
    if root is None:
        root = _parse_tree("<html><body></body></html>")
        root[0].text = text if text.strip() and "<" not in text else None
    elif _is_cut(root):
        root = _text_tree(root, text)
        warnings += (say("The page is nested too deeply. Its text was read without its structure."),)
    _set_apart(root)
    return ParsedHtml(root, warnings)


def _closing_tag(tag: re.Match[str]) -> str:
    return tag[0] if tag[0].endswith("/>") else f"{tag[0][:-1]} />"


def _parse_tree(text: str) -> Element:
    """Return the tree of HTML, with a depth of up to 2,048; None if there is nothing in it."""
    from lxml import etree
    from lxml.html import HtmlComment, HtmlElement, HTMLParser

    parser = HTMLParser(encoding="utf-8", remove_pis=True, huge_tree=True)
    # Of one class each: lxml.html looks for that of each tag in Python.
    parser.set_element_class_lookup(etree.ElementDefaultClassLookup(element=HtmlElement, comment=HtmlComment))
    try:
        return etree.fromstring(text.encode("utf-8"), parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        if getattr(error, "code", None) == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError from None  # or it would look like an empty page
        return None


def _is_cut(root: Element) -> bool:
    """Return whether the parser stopped: then the last element of the tree is as deep as it allows."""
    depth, at = 0, root
    while len(at) and depth < _DEEPEST:
        depth, at = depth + 1, at[-1]
    return depth >= _DEEPEST


def _text_tree(root: Element, text: str) -> Element:
    """Return a tree with the visible text of a page in paragraphs, and with the head of its own tree."""
    tree = _parse_tree("<html><body></body></html>")
    head = root.find("head")
    if head is not None:
        tree.insert(0, head)
    elif name := title_of(text):
        tree.insert(0, tree.makeelement("title"))
        tree[0].text = name
    for paragraph in visible_text(text).split("\n\n"):
        element = tree.makeelement("p")
        element.text = paragraph
        tree[-1].append(element)
    return tree


def _set_apart(root: Element) -> None:
    """Move content out of the head: HTML may omit ``<body>``, and libxml2 does not detect where it begins if
    the first element is newer than libxml2, such as ``<article>``.
    """
    head, body = root.find("head"), root.find("body")
    if head is None:
        return
    strays = list(
        itertools.dropwhile(lambda each: each.tag in _OF_HEAD or not isinstance(each.tag, str), head)
    )
    if not strays:
        return
    if body is None:
        body = head.makeelement("body")
        head.addnext(body)
    text, body.text = body.text, None
    for stray in reversed(strays):  # at the beginning, which is found without counting
        body.insert(0, stray)
    strays[-1].tail = (strays[-1].tail or "") + (text or "")


def drop(element: Element, space: str = "") -> None:
    """Remove an element and keep the text after it, after ``space``: code blocks need white space."""
    parent = element.getparent()
    if parent is None:
        return
    if tail := space + (element.tail or ""):
        before = element.getprevious()
        if before is not None:
            before.tail = (before.tail or "") + tail
        else:
            parent.text = (parent.text or "") + tail
        element.tail = None
    parent.remove(element)
