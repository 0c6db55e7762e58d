"""Parts that a server sent after their page and that a script would put into place."""

from __future__ import annotations

import re
from typing import Any

Element = Any
_SEGMENT = re.compile(r"S:([0-9a-f]+)")
_MOST = 2000


def settle(root: Element) -> None:
    """Put what was streamed where it belongs, and open what is there for who runs no scripts.

    React streams a boundary that was not ready as ``<div hidden id="S:1">`` at the end of the page, and marks
    its place with ``<template id="B:1">`` (or ``P:1`` within another). A ``<template shadowrootmode>`` is
    shown, and so is a ``<noscript>`` that says more than that a script is needed: forums put their whole
    thread there.
    """
    places: dict[str, Element] = {}
    for template in root.iter("template"):
        key = template.get("id") or ""
        if key[:2] in ("B:", "P:"):
            places[key[2:]] = template
        elif template.get("shadowrootmode") or template.get("shadowroot"):
            template.tag = "div"
    for noscript in list(root.iter("noscript")):
        if _speaks(noscript):
            noscript.tag = "div"
    for segment in [at for at in root.iter("div") if "hidden" in at.attrib][:_MOST]:
        match = _SEGMENT.fullmatch(segment.get("id") or "")
        if match is not None:
            del segment.attrib["hidden"]
            _move(segment, places.get(match.group(1)))


def _move(segment: Element, place: Element | None) -> None:
    if place is None or (parent := place.getparent()) is None or segment in place.iterancestors():
        return
    old = segment.getparent()
    tail, segment.tail = segment.tail, None
    if old is not None and tail:
        before = segment.getprevious()
        if before is not None:
            before.tail = (before.tail or "") + tail
        else:
            old.text = (old.text or "") + tail
    segment.tail, place.tail = place.tail, None
    parent.replace(place, segment)


def _speaks(noscript: Element) -> bool:
    """Whether a page is told at length to those without JavaScript."""
    parent = noscript.getparent()
    if parent is None or parent.tag == "head":
        return False
    return sum(len(text.strip()) for text in noscript.itertext()) > 400
