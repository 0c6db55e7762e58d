"""HTML as a tree, whatever it is."""

from __future__ import annotations

import itertools
import re
from typing import Any

Element = Any
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_OF_HEAD = frozenset(
    ("title", "meta", "link", "style", "script", "base", "noscript", "template", "object", "bgsound")
)
_PROLOGUE = re.compile(r"^\s*<\?xml[^>]*\?>")


def parsed(html: str) -> Element:
    """The tree of a page. Never raises: text without a tag is a page with that text; nothing is an empty one.

    The parser is libxml2's, which stops at a depth of its own (256) and so bounds what comes after it.
    """
    from lxml import etree
    from lxml.html import HTMLParser

    text = _PROLOGUE.sub("", _NOT_XML.sub(" ", html))
    parser = HTMLParser(encoding="utf-8", remove_pis=True)
    try:
        root = etree.fromstring(text.encode("utf-8"), parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        if getattr(error, "code", None) == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError from None  # or it would look like an empty page
        root = None
    if root is None:
        root = etree.fromstring(b"<html><body></body></html>", HTMLParser(encoding="utf-8"))
        root[0].text = text if text.strip() and "<" not in text else None
    _set_apart(root)
    return root


def _set_apart(root: Element) -> None:
    """Move what is content out of the head: HTML may leave ``<body>`` out, and libxml2 does not know where it
    begins when an element comes that is newer than itself, such as ``<article>``."""
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
    for place, stray in enumerate(strays):
        body.insert(place, stray)
    strays[-1].tail = (strays[-1].tail or "") + (text or "")
