"""Extraction of an article: HTML to a page, with its content as Markdown and its metadata."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tabane.messages import Message, say
from tabane.reader.cleaning import hidden_warnings, warnings_of
from tabane.reader.extraction.consent_dialogs import consent_dialogs
from tabane.reader.extraction.content import content
from tabane.reader.extraction.html_tree import parsed, parsed_within_limits
from tabane.reader.extraction.machine_text import MachineTextChoice, used
from tabane.reader.extraction.metadata import PageMetadata, beginning, metadata
from tabane.reader.extraction.onward import base_of, onward_addresses, open_documents
from tabane.reader.extraction.page_kinds import (
    LOADS_MORE,
    PageKind,
    endless_lists,
    evidence,
    loads_more,
    page_kind,
)
from tabane.reader.page import Page
from tabane.reader.plain_text import visible_text

Element = Any
_PLEA = re.compile(
    r"(?:enable|need|requires?|turn on|activate|without)\s+(?:\w+\s+){0,3}java\s?script"
    r"|java\s?script\s+(?:\w+\s+){0,3}(?:enabled|required|disabled)"
    r"|JavaScript\s*(?:を|が)(?:有効|必要|無効)", re.IGNORECASE
)  # fmt: skip
_ROOTS = frozenset(
    ("root", "app", "__next", "__nuxt", "___gatsby", "svelte", "main-app", "app-root", "react-root")
)
_MOST_ROOTS = 100  # elements that may be an empty place for a script, or plead for one
_LITTLE_TEXT = 250  # letters: pages are seldom published with less


@dataclass(frozen=True, slots=True)
class ExtractedArticle:
    """The content that was read.

    ``script``: the page seems to be made by a script. ``removed`` are the invisible characters in the
    content, by kind; the rest is as in Content. ``machine``: the text is the one from the metadata for
    machines; ``notes`` describe how that text was used, and what the limits of a page left out.
    ``collapsed``, ``late`` and ``limited`` are as in PageContent.
    ``kind`` is set if it is not what was asked for; ``onward`` are the addresses that a browser would
    load in its place.
    """

    markdown: str
    metadata: PageMetadata
    letters: int
    share: float
    hidden: int
    script: bool
    removed: Mapping[str, int]
    machine: bool = False
    collapsed: int = 0
    late: int = 0
    limited: bool = False
    notes: tuple[Message, ...] = ()
    kind: PageKind | None = None
    onward: tuple[str, ...] = ()


def article(html: str, url: str) -> ExtractedArticle:
    """Parse the page once, read its metadata, find its content and convert it to Markdown."""
    from tabane.reader.markdown import markdown

    root, limits = parsed_within_limits(html)
    base = base_of(root, url)
    open_documents(root, parsed)
    known = metadata(root, url)
    script = _scripted(root)
    dialogs = consent_dialogs(root)
    aside = frozenset(() if dialogs.alone and not script else dialogs.elements)
    seen = evidence(root, url, closed=known.closed, scripted=script, consent=dialogs.alone, without=aside)
    onward = onward_addresses(root, url)
    for element in root.iter("noframes"):
        element.text = visible_text(element.text or "")  # the parser reads no markup there
    lists = endless_lists(root)
    found = content(root, aside)
    more = loads_more(lists, root)
    kind = page_kind(seen, found.visible, found.kept)
    removed: Counter[str] = Counter()
    text = markdown(found.elements, base, removed=removed)
    letters = found.letters
    other = used(known.body, found.visible, found.kept, closed=known.closed) if known.body else None
    if other is not None and other.text:
        text, letters, removed = other.text, len(other.text), Counter()
    return ExtractedArticle(
        text,
        known,
        letters,
        found.share,
        found.hidden,
        script and letters < _LITTLE_TEXT,
        removed,
        machine=bool(other and other.text),
        collapsed=found.collapsed,
        late=found.late,
        limited=found.limited,
        notes=(*limits, *_notes(other, more=more and kind is None)),
        kind=kind,
        onward=onward,
    )


def _notes(machine: MachineTextChoice | None, *, more: bool) -> tuple[Message, ...]:
    """Return what was done with the text for machines, and whether the page loads ``more`` when scrolled."""
    return (*((machine.warning,) if machine else ()), *((LOADS_MORE,) if more else ()))


def _scripted(root: Element) -> bool:
    """Return whether a page seems to be made by a script: it pleads for one, or has an empty place for it."""
    if root.find(".//script") is None:
        return False
    for element in islice(root.iter("noscript"), _MOST_ROOTS):
        if _PLEA.search(beginning(element, 2000)[:2000]):
            return True
    roots = (at for at in root.iter("div", "app-root", "main") if (at.get("id") or at.tag).lower() in _ROOTS)
    if any(not any(text.strip() for text in at.itertext()) for at in islice(roots, _MOST_ROOTS)):
        return True
    return _PLEA.search(_first_texts(root)) is not None


def _first_texts(root: Element) -> str:
    """Return the beginnings of the first paragraphs and headings of a page."""
    texts: list[str] = []
    length = 0
    for element in root.iter("p", "h1", "h2"):
        texts.append(beginning(element, 400)[:400])
        length += len(texts[-1]) + 1
        if length > 4000:
            break
    return " ".join(texts)[:4000]


def extract(html: str | bytes, url: str, charset: str | None = None) -> Page:
    """Return the page that HTML is: its content as Markdown, its title, author, date, site, language and
    address.

    Bytes are decoded as they say themselves, or else by ``charset``, which a header gave. Links are absolute
    against ``url``. Any input gives a page; ``markdown`` is empty if nothing was found.
    """
    from tabane.reader.extraction.article import article
    from tabane.text.encodings import decode_leniently

    text = decode_leniently(html, charset, "text/html") if isinstance(html, bytes) else html
    found = article(text, url)
    return Page(
        url=url,
        markdown=found.markdown,
        title=found.metadata.title,
        author=found.metadata.author,
        date=found.metadata.date,
        site=found.metadata.site,
        lang=found.metadata.lang,
        canonical=found.metadata.canonical,
        way="json-ld" if found.machine else "extracted",
        share=round(found.share, 3),
        warnings=(*_warnings(found), *warnings_of(found.removed)),
        kind=found.kind.name if found.kind else "",
        onward=found.onward,
    )


def _warnings(found: ExtractedArticle) -> list[Message]:
    warnings = [*found.notes]
    if found.kind is not None:
        warnings.append(found.kind.warning)
    elif found.script:
        warnings.append(
            say("The page seems to need JavaScript. This is only the text that it shows without it.")
        )
    elif not found.letters:
        warnings.append(say("No content was found on the page."))
    elif found.letters < _LITTLE_TEXT and found.share < 0.2:
        warnings.append(
            say(
                "Only little content was found on the page: {percent}% of its text.",
                percent=round(100 * found.share),
            )
        )
    warnings += hidden_warnings(found.hidden)
    if found.collapsed and not found.machine:
        warnings.append(
            say(
                "{count} {count:part|parts} that the page shows only after a click {count:is|are}"
                " included and marked.",
                count=found.collapsed,
            )
        )
    if found.late and not found.machine:
        warnings.append(
            say(
                "{count} {count:part|parts} that the page hides until a script shows {count:it|them}"
                " {count:is|are} included and marked.",
                count=found.late,
            )
        )
    if found.limited:
        warnings.append(
            say(
                "The style sheets of the page are too large to apply completely."
                " Visible text may be missing, or hidden text included."
            )
        )
    return warnings
