"""What the elements of HTML are to a reader: blocks, headings, or nothing at all."""

from __future__ import annotations

from collections.abc import Iterator

from lxml.etree import iterwalk
from lxml.html import HtmlElement

HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
LISTS = frozenset({"ul", "ol", "menu", "dir"})
_BLOCKS = (
    "address article aside blockquote body caption center dd details dialog div dl dt fieldset "
    "figcaption figure footer form frameset header hgroup hr html legend li listing main nav noframes "
    "p plaintext pre search section summary table tbody td tfoot th thead tr xmp "
)
BLOCKS = frozenset(_BLOCKS.split()) | LISTS | HEADINGS.keys()
_SILENT = (
    "area audio base canvas col colgroup datalist embed head link map meta noscript object optgroup "
    "option param rp script select style svg template title video "
)
SILENT = frozenset(_SILENT.split())
"""What shows nothing of its text. Some of it is an address or a formula, and is asked for that first.

Not wbr, source and track: libxml2 does not know that they are empty, and puts into them what follows.
"""


def classes(element: HtmlElement) -> list[str]:
    """The element's classes, in lower case."""
    return str(element.get("class", "")).lower().split()


def text_of(element: HtmlElement) -> str:
    """All text in the element as it stands, without comments, scripts and styles. Not recursive."""
    return "".join(_texts(element))


def _texts(element: HtmlElement) -> Iterator[str]:
    walk = iterwalk(element, events=("start", "end", "comment", "pi"))
    for event, node in walk:
        if event == "start":
            if node.tag in SILENT:
                walk.skip_subtree()
            else:
                yield node.text or ""
        elif node is not element:
            yield node.tail or ""
