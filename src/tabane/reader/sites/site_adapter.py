"""The interface of site adapters, the page that each is checked with, and what happens when one fails.

A site that answers differently than expected never stops a read: :func:`read_site` raises a ReadError for
any answer that an adapter cannot use, and the page itself is read instead, with a warning.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar
from urllib.parse import SplitResult, urlsplit

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.fetching.interface import Fetcher
from tabane.reader.formats.text import bounded
from tabane.reader.page import Page

log = logging.getLogger(__name__)

_Place = TypeVar("_Place")


class UnexpectedAnswer(ReadError):
    """An answer of a site that is not of the form that its adapter knows. Its cause is ``broken``."""

    def __init__(self, host: str, reason: Exception | Message) -> None:
        text = " ".join(str(reason).split())[:200] or type(reason).__name__
        known = reason if isinstance(reason, Message) else text
        super().__init__(
            say("The response of {host} has an unknown form: {reason}", host=host, reason=known), "broken"
        )


class PageConversion(Protocol):
    """Converts fetched bytes into pages, off the event loop."""

    async def page(
        self, body: bytes, url: str, media_type: str = "", charset: str | None = None, *, name: str = ""
    ) -> Page:
        """Convert these bytes into a page. If ``media_type`` is "", ``name``, the URL and the bytes decide.

        Raises ReadError: ``type`` if the type is not supported, ``broken`` if it cannot be read.
        """
        ...

    async def text(self, body: bytes, url: str, media_type: str = "", charset: str | None = None) -> Page:
        """Return all the text that HTML shows. Raises ReadError."""
        ...


@dataclass(frozen=True, slots=True)
class ReadingTools:
    """Tools for site adapters: the network under the guard, and the conversion of bytes into pages.

    ``scrolls``: the number of screens that a person or assistant wants a page to be scrolled by in a browser.
    """

    fetcher: Fetcher
    converting: PageConversion
    scrolls: int | None = None


KeyLookup = Callable[[str], str | None]
"""Returns the API key in a variable, such as NOTION_API_KEY. It is called at each read: keys may change."""


def no_keys(_name: str) -> None:
    """Return None: a lookup without any key."""


@dataclass(frozen=True, slots=True)
class SiteSample:
    """A public page to check a site adapter with, and what must be true of the result.

    The title contains ``title``, and the text has at least ``letters`` characters. ``key`` is the variable of
    the key without which the adapter reads nothing. ``shared``: the API returns only pages that were shared
    with that key, so the expected answer is that this page is missing.
    """

    url: str
    title: str
    letters: int
    key: str = ""
    shared: bool = False


class PageAdapter(Protocol):
    """Reads pages in one way.

    ``name`` appears in the output. Failure policy: a ReadError is kept as the cause, and the next adapter is
    tried; None means that the URL has no page of this kind, which is not a failure.
    """

    @property
    def name(self) -> str: ...

    def takes(self, url: str) -> bool:
        """Return whether the adapter handles this URL. Pure, and called first."""
        ...

    async def read(self, url: str, tools: ReadingTools) -> Page | None: ...


class SiteAdapter(PageAdapter, Protocol):
    """Reads the pages of one site. ``title`` is the name of the site for people.

    The pages that it returns have ``name`` as their ``way``.
    """

    @property
    def title(self) -> str: ...

    @property
    def sample(self) -> SiteSample: ...


class SitePages(ABC, Generic[_Place]):
    """A site adapter by the place of a page on its site, such as the id that its URL contains."""

    name: str
    title: str
    sample: SiteSample

    @abstractmethod
    def place(self, host: str, parts: SplitResult) -> _Place | None:
        """Return the place of the URL with these parts; None if the adapter has no page for it. Pure."""

    @abstractmethod
    async def page(self, place: _Place, url: str, tools: ReadingTools) -> Page | None:
        """Return the page at this place, whose URL is ``url``; None if it is not of a kind that is read."""

    def takes(self, url: str) -> bool:
        return self._place(url) is not None

    async def read(self, url: str, tools: ReadingTools) -> Page | None:
        place = self._place(url)
        return None if place is None else await self.page(place, url, tools)

    def _place(self, url: str) -> _Place | None:
        try:
            parts = urlsplit(url)
            return self.place(parts.hostname or "", parts)
        except ValueError:
            return None


# What a value of another type or size than expected raises in the code that lays it out.
_UNEXPECTED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


async def read_site(site: SiteAdapter, url: str, tools: ReadingTools) -> Page | None:
    """Return the page that the adapter reads, None if it has none of this kind.

    Raises ReadError: UnexpectedAnswer if the site's answer is not of the expected form, ``empty`` if it has
    no text.
    """
    try:
        page = await site.read(url, tools)
    except _UNEXPECTED as error:
        log.warning("an answer of %s has a form that its adapter does not handle", site.title, exc_info=True)
        raise UnexpectedAnswer(site.title, error) from None
    if page is not None and not page.markdown.strip() and not page.pictures:
        raise ReadError(say("The answer has no text."), "empty")
    if page is None:
        return None
    markdown, warnings = bounded(page.markdown)
    return replace(page, markdown=markdown, warnings=(*page.warnings, *warnings)) if warnings else page


def fallback_warning(site: SiteAdapter, error: ReadError) -> Message:
    """Return the warning of the page that was read itself, because its site's adapter failed."""
    if isinstance(error, UnexpectedAnswer) or error.cause == "empty":
        return say(
            "The API of {site} answered differently than expected. This is the page itself: {reason}",
            site=site.title,
            reason=error.message,
        )
    return say(
        "The API of {site} could not be used. This is the page itself: {reason}",
        site=site.title,
        reason=error.message,
    )
