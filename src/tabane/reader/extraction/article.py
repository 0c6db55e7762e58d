"""A page's content as Markdown with what is known of it: the steps in their order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tabane.messages import Message
from tabane.reader.extraction.content import content
from tabane.reader.extraction.html_tree import parsed
from tabane.reader.extraction.machine_text import used
from tabane.reader.extraction.metadata import Metadata, metadata

Element = Any
_PLEA = re.compile(
    r"(?:enable|need|requires?|turn on|activate|without)\s+(?:\w+\s+){0,3}java\s?script"
    r"|java\s?script\s+(?:\w+\s+){0,3}(?:enabled|required|disabled)"
    r"|JavaScript\s*(?:を|が)(?:有効|必要|無効)", re.IGNORECASE
)  # fmt: skip
_ROOTS = frozenset(
    ("root", "app", "__next", "__nuxt", "___gatsby", "svelte", "main-app", "app-root", "react-root")
)
_SHORT = 250


@dataclass(frozen=True, slots=True)
class Article:
    """The content that was read.

    ``script``: the page seems to be made by a script. ``removed`` are the invisible characters in the
    content, by kind; the rest is as in Content. ``machine``: the text is the one from the metadata for
    machines; ``notes`` describe how that text was used.
    """

    markdown: str
    metadata: Metadata
    letters: int
    share: float
    hidden: int
    script: bool
    removed: Mapping[str, int]
    machine: bool = False
    notes: tuple[Message, ...] = ()


def article(html: str, url: str) -> Article:
    """Parse once, learn what the page says of itself, find its content and write that down."""
    from tabane.reader.markdown import markdown

    root = parsed(html)
    known = metadata(root, url)
    script = _scripted(root)
    found = content(root)
    removed: Counter[str] = Counter()
    text = markdown(found.elements, url, removed=removed)
    letters = found.letters
    other = used(known.body, found.visible, found.kept, closed=known.closed) if known.body else None
    if other is not None and other.text:
        text, letters, removed = other.text, len(other.text), Counter()
    return Article(
        text,
        known,
        letters,
        found.share,
        found.hidden,
        script and letters < _SHORT,
        removed,
        machine=bool(other and other.text),
        notes=(other.warning,) if other else (),
    )


def _scripted(root: Element) -> bool:
    """Whether a page seems to be made by a script: it pleads for one, or has an empty place for it."""
    if root.find(".//script") is None:
        return False
    for element in root.iter("noscript"):
        if _PLEA.search("".join(element.itertext())[:2000]):
            return True
    for element in root.iter("div", "app-root", "main"):
        if (element.get("id") or element.tag).lower() in _ROOTS and not "".join(element.itertext()).strip():
            return True
    return bool(
        _PLEA.search(" ".join("".join(at.itertext())[:400] for at in root.iter("p", "h1", "h2"))[:4000])
    )
