"""Elements that carry meaning without text: pictures, players, link cards, formulas, check boxes. Pure.

The pruning of a page keeps them, and the converter writes them. What is not in this list is removed from a
page if it has no text. The elements are lxml's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Element = Any

EMPTY = frozenset(("br", "hr", "wbr", "td", "th", "col", "colgroup"))
"""Elements that have a meaning when empty, wherever they are."""

PLAYERS = ("iframe", "video", "audio", "embed", "object")
"""Elements that show something from another address."""

_EMBEDDED = re.compile(
    r"youtube|youtu\.be|vimeo|nicovideo|bilibili|dailymotion|twitch\.tv|loom\.com|wistia|ted\.com"
    r"|speakerdeck|slideshare|docs\.google\.com|google\.[a-z.]+/maps|openstreetmap|soundcloud|spotify"
    r"|bandcamp|podcasts\.apple|codepen|jsfiddle|codesandbox|stackblitz|replit|observablehq|figma\.com"
    r"|datawrapper|flourish|infogram|tableau|archive\.org|gist\.github|embed\.ly|/embed/|player",
    re.IGNORECASE,
)
_CARDS = re.compile(
    r"//(?:embed\.zenn\.studio|[\w.-]*hatenablog-parts\.com|cdn\.embedly\.com|[\w.-]*iframe(?:ly\.com|\.ly))/",
    re.IGNORECASE,
)
_WIDGETS = re.compile(
    r"doubleclick|googlesyndication|googletagmanager|google-analytics|adservice|adsystem|\bads?\b|advert|sponsor"
    r"|recaptcha|hcaptcha|turnstile|/plugins/(?:like|share|follow|page)|disqus|addthis|sharethis|cookie|consent"
    r"|onetrust|chat|newsletter|signup|subscribe|広告",
    re.IGNORECASE,
)
_MOST = 3_000  # characters of an address
_SOURCES = 20  # of a player or a picture


def speaks(element: Element) -> bool:
    """Return whether an element carries meaning without text."""
    judge = WORDLESS.get(element.tag)
    return judge(element) if judge is not None else bool(element.get("data-tex"))


def is_formula(script: Element) -> bool:
    """Return whether a script is the source of a formula, as MathJax 2 reads it."""
    return str(script.get("type", "")).startswith("math/tex")


def is_task_box(box: Element) -> bool:
    """Return whether an input is the check box of a task in a list."""
    return box.get("type") == "checkbox" and next(box.iterancestors("li"), None) is not None


def embedded_address(element: Element) -> str | None:
    """Return the address of a player or frame as the page has it; for a link card, that of its page."""
    for name in ("src", "data", "data-src"):
        if (where := element.get(name)) and not where.startswith(("about:", "javascript:", "data:")):
            return _of_card(element, where)
    if element.get("data-content"):
        return _of_card(element, "")
    sources = (source.get("src") for source in islice(element.iter("source"), _SOURCES))
    return next((source for source in sources if source), None)


def is_embedded(element: Element, where: str) -> bool:
    """Return whether a frame shows content, rather than an advertisement or a widget.

    ``where`` is its embedded address. Other players always show content.
    """
    if element.tag != "iframe":
        return True
    if _EMBEDDED.search(where) or is_card(element):
        return True
    words = element.get("title") or element.get("aria-label")
    return bool(words) and not _WIDGETS.search(f"{words} {where}")


def is_card(element: Element) -> bool:
    """Return whether a frame is a link card: it shows a page's title as a link to it."""
    return bool(element.get("data-content") or _CARDS.search(str(element.get("src", ""))[:_MOST]))


def _of_card(element: Element, where: str) -> str | None:
    """Return the address that a link card leads to; ``where`` if this is not one."""
    if not is_card(element):
        return where[:_MOST] or None
    linked = unquote(str(element.get("data-content", ""))[:_MOST])
    try:
        linked = linked or next(iter(parse_qs(urlsplit(where[:_MOST]).query).get("url", ())), "")
    except ValueError:
        return where[:_MOST] or None
    return linked if linked.startswith(("https://", "http://")) else where[:_MOST] or None


def _plays(element: Element) -> bool:
    where = embedded_address(element)
    return where is not None and not _invisible(element) and is_embedded(element, where)


def _invisible(element: Element) -> bool:
    return any(re.fullmatch(r"\s*[01](?:px)?\s*", element.get(side) or "") for side in ("width", "height"))


def _always(_element: Element) -> bool:
    return True


def _of_picture(source: Element) -> bool:
    parent = source.getparent()
    return parent is not None and parent.tag == "picture"


def _shows_a_picture(noscript: Element) -> bool:
    """Return whether it has the picture for browsers without scripts."""
    before = noscript.getprevious()
    return before is not None and before.tag == "img" and next(noscript.iter("img"), None) is not None


WORDLESS: Mapping[str, Callable[[Element], bool]] = {
    "img": _always,
    "math": _always,
    "input": is_task_box,
    "script": is_formula,
    "source": _of_picture,
    "noscript": _shows_a_picture,
    **dict.fromkeys(PLAYERS, _plays),
}
"""Elements that may carry meaning without text, and what decides whether one does."""
