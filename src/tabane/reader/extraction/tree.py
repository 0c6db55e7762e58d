"""HTML as a tree, whatever it is."""

from __future__ import annotations

import re
from typing import Any

Element = Any
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
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
    except (etree.XMLSyntaxError, ValueError):
        root = None
    if root is None:
        root = etree.fromstring(b"<html><body></body></html>", HTMLParser(encoding="utf-8"))
        root[0].text = text if text.strip() and "<" not in text else None
    return root
