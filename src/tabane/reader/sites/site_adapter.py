"""The interface of site adapters, the page that each is checked with, what happens when one fails, and their
shared parts: requests to JSON APIs with a key, and the Markdown of their pages.

A site that answers differently than expected never stops a read: :func:`read_site` raises a ReadError for
any answer that an adapter cannot use, and the page itself is read instead, with a warning.
"""

from __future__ import annotations

import asyncio
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar, get_args, get_origin
from urllib.parse import SplitResult, urlencode, urlsplit

import msgspec

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.fetching.interface import FetchedResource, Fetcher
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

    async def read(self, url: str, tools: ReadingTools) -> Page | None: ...


class SiteAdapter(PageAdapter, Protocol):
    """Reads the pages of one site. ``title`` is the name of the site for people.

    The pages that it returns have ``name`` as their ``way``.
    """

    @property
    def title(self) -> str: ...

    @property
    def sample(self) -> SiteSample: ...

    def takes(self, url: str) -> bool:
        """Return whether the adapter handles this URL. Pure, and called first."""
        ...


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


JSON = "application/json"

MOST = 64_000_000
"""Bytes of answers for one read."""

_LONG = 100_000  # bytes that take longer to decode than it takes to hand them to a thread

_Shape = TypeVar("_Shape")
_Value = TypeVar("_Value")

Explain = Callable[[ReadError], tuple[Message, str] | None]
"""Returns what an error of the API means for the user, and its cause; None if the error says both."""


class SiteApi:
    """The API of a site, for one read. ``headers`` are sent with each request; ``explain`` words errors.

    Once ``most`` bytes of answers were read, nothing more is requested.
    """

    accept = JSON

    def __init__(
        self,
        tools: ReadingTools,
        base: str,
        headers: Mapping[str, str] | None = None,
        explain: Explain = lambda error: None,
        most: int = MOST,
    ) -> None:
        self.tools, self._base, self._headers, self._explain = tools, base, headers or {}, explain
        self._most = self._left = most

    @property
    def host(self) -> str:
        """Host of the API, with its port."""
        return urlsplit(self._base).netloc

    async def get(self, path: str, shape: type[_Shape], /, **parameters: object) -> _Shape:
        """Return the object at ``path``. Raises ReadError, UnexpectedAnswer if it has another shape."""
        return await parse_json(await self.fetch(query(self._base + path, **parameters), self.accept), shape)

    async def fetch(self, url: str, accept: str | None = None) -> FetchedResource:
        """Return the resource at ``url``. Raises ReadError with an explanation for the user."""
        if self._left <= 0:
            message = say("The answers are longer than {most} MB.", most=self._most // 1_000_000)
            raise ReadError(message, "large")
        try:
            found = await self.tools.fetcher.fetch(url, headers=self._headers, accept=accept)
        except ReadError as error:
            explained = self._explain(error)
            if explained is None:
                raise
            raise ReadError(*explained, status=error.status, wait=error.wait) from None
        self._left -= len(found.body)
        return found


async def parse_json(fetched: FetchedResource, shape: type[_Shape]) -> _Shape:
    """Decode JSON as a value of ``shape``. Raises UnexpectedAnswer if it has another shape."""
    return await _off_the_loop(
        lambda: _decode_json(fetched.body, shape), len(fetched.body), urlsplit(fetched.url).netloc
    )


async def decode_each(
    raws: Sequence[msgspec.Raw], decode: Callable[[msgspec.Raw], _Value], host: str
) -> list[_Value]:
    """Decode parts of an answer of ``host``. Raises UnexpectedAnswer."""
    size = sum(memoryview(raw).nbytes for raw in raws)
    return await _off_the_loop(lambda: [decode(raw) for raw in raws], size, host)


def query(url: str, **parameters: object) -> str:
    """Return ``url`` with the parameters that are not None."""
    said = {name: value for name, value in parameters.items() if value is not None}
    return f"{url}?{urlencode(said)}" if said else url


async def _off_the_loop(decoding: Callable[[], _Value], size: int, host: str) -> _Value:
    """Return the decoded value of so many bytes. Raises UnexpectedAnswer."""
    try:
        return await asyncio.to_thread(decoding) if size > _LONG else decoding()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnexpectedAnswer(host, error) from None


def _decode_json(body: bytes, shape: type[_Shape]) -> _Shape:
    """Decode JSON. A long list is decoded item by item, because nothing else runs while one is decoded."""
    if len(body) <= _LONG or get_origin(shape) is not list:
        return msgspec.json.decode(body, type=shape)
    decode = msgspec.json.Decoder(*get_args(shape)).decode
    return [decode(raw) for raw in msgspec.json.decode(body, type=list[msgspec.Raw])]  # type: ignore[return-value]


# As in cleaning: possessive or bounded, because the input is untrusted.
_SKIPPED_OR_LINK = re.compile(
    r"(?P<fence>^ {0,3}+(?P<marks>`{3,}+|~{3,}+)[^\n]*+\n.*?(?:^ {0,3}+(?P=marks)[`~]*+[ \t]*+$|\Z))"
    r"|(?P<code>(?<!`)(?P<ticks>`{1,3})(?!`)[^`\n][^\n]{0,2000}?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<before>\]\([ \t]*+<?|^ {0,3}\[[^\]\n]{1,200}\]:[ \t]*+<?|\b(?:href|src)=[\"'])"
    r"(?P<to>[^\s()<>\"']{1,2000})",
    re.MULTILINE | re.DOTALL,
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#|\\")


def absolute(markdown: str, whole: Callable[[str], str]) -> str:
    """Return the Markdown with ``whole`` applied to each relative address; code is not changed."""

    def written(found: re.Match[str]) -> str:
        to = found["to"]
        if to is None or _SCHEME.match(to):
            return found[0]
        return found["before"] + whole(to)

    return _SKIPPED_OR_LINK.sub(written, markdown)


def blocks(*parts: str) -> str:
    """Return those that are not empty, one below the other."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())


def facts(known: Mapping[str, object]) -> str:
    """Return metadata as a list, without empty values."""
    return "\n".join(f"- {name}: {value}" for name, value in known.items() if value)


def comments(said: Sequence[tuple[str, str]]) -> str:
    """Return comments under their heading, each with its own head, "" if there are none."""
    if not said:
        return ""
    return blocks(f"## Comments ({len(said)})", *(blocks(f"### {head}", body) for head, body in said))


def one_line(text: str | None) -> str:
    """Return text without line breaks and runs of spaces."""
    return " ".join((text or "").split())


def moment(seconds: float) -> str:
    """Return a time in seconds since 1970 as ISO 8601, to the second."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return ""
