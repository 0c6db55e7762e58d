"""Parts that a server sent after their page and that a script would put into place."""

from __future__ import annotations

import re
from typing import Any

Element = Any
_SEGMENT = re.compile(r"S:([0-9a-f]+)")
_CALLED = re.compile(r"""["']S:([0-9a-f]{1,8})["']""")
_MOST = 2000


def settle(root: Element) -> None:
    """Put what was streamed where it belongs, and open what browsers show of templates.

    React streams a boundary that was not ready as ``<div hidden id="S:1">`` at the end of the page, marks its
    place with ``<template id="B:1">`` (or ``P:1`` within another), and a script names both. What has no
    place, or is named by no script, stays as hidden as it is; of a page that was saved without its scripts
    the place has to be enough. A ``<template shadowrootmode>`` is shown.
    """
    places: dict[str, Element] = {}
    for template in root.iter("template"):
        key = template.get("id") or ""
        if key[:2] in ("B:", "P:"):
            places[key[2:]] = template
        elif template.get("shadowrootmode") in ("open", "closed"):
            template.tag = "div"
    called = _called(root) if places else frozenset()
    for segment in [at for at in root.iter("div") if "hidden" in at.attrib][:_MOST]:
        match = _SEGMENT.fullmatch(segment.get("id") or "")
        if match is not None and match[1] in places and (called is None or match[1] in called):
            _move(segment, places[match[1]])


def open_noscripts(root: Element) -> bool:
    """Open what a page tells browsers without JavaScript, if it is long; return whether there was any.

    For a page that shows almost nothing: forums put their whole thread there. Next to visible text, no
    reader sees it.
    """
    found = [noscript for noscript in root.iter("noscript") if _speaks(noscript)]
    for noscript in found:
        noscript.tag = "div"
    return bool(found)


def _called(root: Element) -> frozenset[str] | None:
    """Return the numbers of segments that scripts of the page insert; None if it has no script."""
    scripts = [script.text or "" for script in root.iter("script")]
    found = (number for text in scripts if "S:" in text for number in _CALLED.findall(text))
    return frozenset(found) if scripts else None


def _move(segment: Element, place: Element) -> None:
    if (parent := place.getparent()) is None or segment in place.iterancestors():
        return
    del segment.attrib["hidden"]
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
