"""Wikipedia and its sister projects, in any language, by MediaWiki's REST API."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import SplitResult, parse_qs, quote, unquote

from tabane.messages import say
from tabane.reader.formats.media_type_detection import WIKI_MEDIA
from tabane.reader.page import Page
from tabane.reader.sites.site_adapter import ReadingTools, SitePages, SiteSample, UnexpectedAnswer

_HOST = re.compile(
    r"([a-z][a-z0-9-]{1,20})\.(?:m\.)?"
    r"(wikipedia|wiktionary|wikibooks|wikiquote|wikisource|wikinews|wikiversity|wikivoyage)\.org"
)
_OTHERS = {
    "www.mediawiki.org": "MediaWiki",
    "meta.wikimedia.org": "Meta-Wiki",
    "species.wikimedia.org": "Wikispecies",
    "wikitech.wikimedia.org": "Wikitech",
}
_OWN_MARK = re.compile(rb"\bmw:|\bmw-")  # in classes and types of everything that MediaWiki parses
_BEGIN = 200_000  # bytes in which there is one
_ELSEWHERE = re.compile(r"(?:Special|File|Media)(?::|$)", re.IGNORECASE)
_OTHER_VIEWS = frozenset({"oldid", "diff", "action"})


class WikipediaAdapter(SitePages[tuple[str, str]]):
    """Articles from the API, without the page around them. One request.

    ``base`` returns the beginning of the API's URLs for a host. The adapter for any page reads what the API
    does not have: special pages, old revisions, pages of images.
    """

    name, title = "wikipedia", "Wikipedia"
    sample = SiteSample("https://en.wikipedia.org/wiki/Tea", "Tea", 5_000)

    def __init__(self, base: Callable[[str], str] = lambda host: f"https://{host}") -> None:
        self._base = base

    def place(self, host: str, parts: SplitResult) -> tuple[str, str] | None:
        """Return host and title of an article; None for other URLs."""
        host = host.replace(".m.", ".", 1)
        if not (_HOST.fullmatch(host) or host in _OTHERS):
            return None
        parameters = parse_qs(parts.query)
        if parts.path.startswith("/wiki/"):
            title = unquote(parts.path.removeprefix("/wiki/"))
        elif parts.path in ("/w/index.php", "/") and parameters.keys() == {"title"}:
            title = parameters["title"][0]
        else:
            return None
        title = title.strip().replace(" ", "_")
        of_article = title and len(title) <= 300 and not _ELSEWHERE.match(title)
        return (host, title) if of_article and not _OTHER_VIEWS & parameters.keys() else None

    async def page(self, place: tuple[str, str], url: str, tools: ReadingTools) -> Page | None:
        host, title = place
        where = f"{self._base(host)}/w/rest.php/v1/page/{quote(title, safe='')}/html"
        fetched = await tools.fetcher.fetch(where, accept="text/html")
        if not _OWN_MARK.search(fetched.body, 0, _BEGIN):
            raise UnexpectedAnswer(host, say("It is not an article."))
        article = f"https://{host}/wiki/{quote(title, safe='/:(),')}"
        page = await tools.converting.page(fetched.body, article, WIKI_MEDIA, fetched.charset)
        lang = page.lang or (host.partition(".")[0] if _HOST.fullmatch(host) else None)
        match = _HOST.fullmatch(host)
        return replace(
            page,
            url=page.canonical or article,
            site=(match[2].capitalize() if match else _OTHERS[host]),
            lang=lang,
            way=self.name,
        )
