"""Elements of HTML by their role (block, heading, silent), and the addresses in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from urllib.parse import urljoin, urlsplit

from lxml.etree import iterwalk
from lxml.html import HtmlElement

_OPENED = ("http://", "https://", "mailto:", "tel:", "ftp://")
_LAZY = (
    "data-src",
    "data-original",
    "data-lazy-src",
    "data-lazy",
    "data-actualsrc",
    "data-url",
    "data-image",
)
_SETS = ("srcset", "data-srcset", "data-lazy-srcset")
_PLACEHOLDER = re.compile(
    r"(?:^data:|\b(?:blank|spacer|pixel|1x1|transparent|placeholder|lazy)\b[^/]*$)", re.I
)
_TRACKER = re.compile(
    r"//(?:[^/]*\.)?(?:doubleclick\.net|google-analytics\.com|googletagmanager\.com|scorecardresearch\.com|"
    r"pixel\.wp\.com|stats\.wp\.com|quantserve\.com|hatena\.com/bookmark|bat\.bing\.com)/|facebook\.com/tr\b",
    re.I,
)
_MOST_WHITE = 1_000
_MOST_SOURCES = 20  # of a picture
_MOST_OF_SET = 20_000  # characters
_IN_SET = re.compile(r"(?<![^\s,])([^\s,]\S*[^\s,])(?:\s++([\d.]++)[wx])?+\s*+(?:,|$)")
_WIDEST = 1600  # pixels: a larger one of a set is for printing


def address(href: str | None, base: str) -> str | None:
    """``href`` as an absolute URL; None if it has no target, or only a fragment of the same page."""
    if href and not href.isprintable():
        href = re.sub(r"[\x00-\x1f\x7f]", "", href)
    if not href or not (href := href.strip()) or href.startswith("#"):
        return None
    try:
        whole = href if href.startswith(("http://", "https://")) else urljoin(base, href)
        if "[" in whole:
            urlsplit(whole)
    except ValueError:  # urlsplit raises it for brackets in a host
        return None
    if not whole.lower().startswith(_OPENED) or _same_page(whole, base):
        return None
    return _written(whole)


def _same_page(whole: str, base: str) -> bool:
    return "#" in whole and whole.partition("#")[0] == base.partition("#")[0]


def _written(url: str) -> str:
    """Return the URL, encoded for the parentheses of a Markdown link."""
    url = re.sub(r"[\s<>]", lambda char: "".join(f"%{byte:02X}" for byte in char[0].encode()), url)
    if _balanced(url):
        return url
    return url.replace("(", "%28").replace(")", "%29")


def _balanced(url: str) -> bool:
    depth = 0
    for char in re.findall(r"[()]", url) if "(" in url or ")" in url else "":
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0


def image(element: HtmlElement, base: str) -> str | None:
    """Return the URL of an ``<img>``; None for tracking pixels and placeholders."""
    if _tiny(element):
        return None
    for source in _sources(element):
        if not _PLACEHOLDER.search(source) and (whole := address(source, base)):
            return whole if whole.startswith("http") and not _TRACKER.search(whole) else None
    return None


def _sources(element: HtmlElement) -> list[str]:
    """Return the possible addresses of the image, likeliest first: those for lazy loading, then ``src``."""
    found = [element.get(name) for name in _LAZY]
    found.append(element.get("src"))
    found.extend(_of_set(element.get(name)) for name in _SETS)
    picture = next(element.iterancestors("picture"), None)
    for source in islice(picture.iter("source"), _MOST_SOURCES) if picture is not None else ():
        found.extend(_of_set(source.get(name)) for name in _SETS)
    return [source.strip() for source in found if source]


def _of_set(srcset: str | None) -> str | None:
    """Return the widest image of a ``srcset`` that is not too wide; its first if it has no widths."""
    best, width = None, -1.0
    for source, size in _IN_SET.findall((srcset or "")[:_MOST_OF_SET]):
        wide = float(size) if re.fullmatch(r"\d+(\.\d+)?", size) else 0.0
        if width < wide <= _WIDEST:
            best, width = source, wide
    return best


def _tiny(element: HtmlElement) -> bool:
    sizes = [pixels(element, side) for side in ("width", "height")]
    return any(size is not None and size <= 2 for size in sizes)


def pixels(element: HtmlElement, side: str) -> float | None:
    """Return the attribute ``width`` or ``height`` in pixels."""
    found = re.fullmatch(r"\s*(\d{1,6}(?:\.\d{1,4})?)\s*(?:px)?\s*", element.get(side) or "")
    return float(found[1]) if found else None


def decorative(element: HtmlElement) -> bool:
    """Return whether an image without words for it is an icon."""
    small = [pixels(element, side) or 999.0 for side in ("width", "height")]
    return min(small) <= 64 or "icon" in " ".join(classes(element)) or element.get("role") == "presentation"


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
"""Elements whose text is not shown. Some hold an address or a formula, which is looked for first.

Without wbr, source and track: libxml2 does not know that they are empty, and puts the following text into
them.
"""


def classes(element: HtmlElement) -> list[str]:
    """Return the element's classes, in lower case."""
    return str(element.get("class", "")).lower().split()


def text_of(element: HtmlElement, most: int | None = None) -> str:
    """Return the text in the element, unchanged, without comments, scripts and styles. Not recursive.

    Text that begins after the first ``most`` characters may be missing.
    """
    if most is None:
        return "".join(_texts(element))
    parts: list[str] = []
    for text in _texts(element):
        parts.append(text)
        most -= len(text)
        if most < 0:
            break
    return "".join(parts)


def short_text(element: HtmlElement, most: int) -> str | None:
    """Return the text in the element without white space around it; None if it has more than ``most``
    characters, or 1,000 with this white space.
    """
    text = text_of(element, _MOST_WHITE)
    if len(text) > _MOST_WHITE:
        return None
    text = text.strip()
    return text if len(text) <= most else None


def paragraphs_of(element: HtmlElement) -> Iterator[str]:
    """Yield all text in the element in one line for each block. Not recursive."""
    parts: list[str] = []
    walk = iterwalk(element, events=("start", "end", "comment", "pi"))
    for event, node in walk:
        if node.tag in BLOCKS or node.tag == "br":
            if line := " ".join("".join(parts).split()):
                yield line
            parts.clear()
        if event == "start":
            if node.tag in SILENT:
                walk.skip_subtree()
            else:
                parts.append(node.text or "")
        elif node is not element:
            parts.append(node.tail or "")
    if line := " ".join("".join(parts).split()):
        yield line


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
