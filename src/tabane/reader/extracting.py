"""HTML to a page: what it says, as Markdown, and what is known of it. Pure, and never raises."""

from __future__ import annotations

from tabane.messages import Message, say
from tabane.reader.page import Page

_SHORT = 250  # letters: less than that is hardly what somebody put a page up for
_LARGE = 20_000_000  # characters


def extract(html: str | bytes, url: str, charset: str | None = None) -> Page:
    """The page that HTML is: its content as Markdown, its title, author, date, site, language and address.

    Bytes are decoded as they say themselves, or else by ``charset``, which a header gave. Links are absolute
    against ``url``. Any input gives a page; ``markdown`` is empty where nothing was found.
    """
    from tabane.reader.decoding import decoded
    from tabane.reader.extraction.article import article

    text = decoded(html, charset, "text/html") if isinstance(html, bytes) else html
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
        way="extracted",
        share=round(found.share, 3),
        warnings=tuple(_warnings(found.letters, found.share, found.hidden, found.script, len(text) > _LARGE)),
    )


def _warnings(letters: int, share: float, hidden: int, script: bool, cut: bool) -> list[Message]:
    warnings = []
    if script:
        warnings.append(say("The page seems to need JavaScript: this is only what it says without."))
    elif not letters:
        warnings.append(say("No content was found on the page."))
    elif letters < _SHORT and share < 0.2:
        warnings.append(
            say("Little was found on the page: {percent}% of its text.", percent=round(100 * share))
        )
    if hidden:
        warnings.append(say("{count} parts that no reader sees were left out of the content.", count=hidden))
    if cut:
        warnings.append(say("The page is larger than can be read: its end is missing."))
    return warnings
