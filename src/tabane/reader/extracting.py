"""HTML to a page: what it says, as Markdown, and what is known of it. Pure, and never raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabane.messages import Message, say
from tabane.reader.cleaning import warnings_of
from tabane.reader.page import Page

if TYPE_CHECKING:
    from tabane.reader.extraction.article import Article

_SHORT = 250  # letters: less than that is hardly what somebody put a page up for
_LARGE = 20_000_000  # characters


def extract(html: str | bytes, url: str, charset: str | None = None) -> Page:
    """The page that HTML is: its content as Markdown, its title, author, date, site, language and address.

    Bytes are decoded as they say themselves, or else by ``charset``, which a header gave. Links are absolute
    against ``url``. Any input gives a page; ``markdown`` is empty where nothing was found.
    """
    from tabane.reader.extraction.article import article
    from tabane.text.encodings import decode_leniently

    text = decode_leniently(html, charset, "text/html") if isinstance(html, bytes) else html
    found = article(text[:_LARGE], url)
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
        warnings=(*_warnings(found, cut=len(text) > _LARGE), *warnings_of(found.removed)),
    )


def _warnings(found: Article, *, cut: bool) -> list[Message]:
    warnings = [*found.notes]
    if found.script:
        warnings.append(say("The page seems to need JavaScript: this is only what it says without."))
    elif not found.letters:
        warnings.append(say("No content was found on the page."))
    elif found.letters < _SHORT and found.share < 0.2:
        warnings.append(
            say("Little was found on the page: {percent}% of its text.", percent=round(100 * found.share))
        )
    if found.hidden:
        warnings.append(
            say("{count} parts that no reader sees were left out of the content.", count=found.hidden)
        )
    if cut:
        warnings.append(say("The page is larger than can be read: its end is missing."))
    return warnings
