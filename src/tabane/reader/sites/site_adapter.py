"""The interface of site adapters, and what they share: JSON of APIs, relative links made absolute."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.fetching.interface import FetchedResource, Fetcher
from tabane.reader.page import Page

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


JSON = "application/json"

_LONG = 100_000  # bytes that take longer to read than it takes to hand them to a thread

_Shape = TypeVar("_Shape")


async def fetch_json(
    tools: ReadingTools,
    url: str,
    shape: type[_Shape],
    *,
    headers: Mapping[str, str] | None = None,
    accept: str = JSON,
) -> _Shape:
    """Fetch JSON of ``shape`` from ``url``. Raises ReadError, ``broken`` if it has another shape."""
    return await parse_json(await tools.fetcher.fetch(url, headers=headers, accept=accept), shape)


async def parse_json(fetched: FetchedResource, shape: type[_Shape]) -> _Shape:
    """Decode JSON as a value of ``shape``. Raises ReadError, ``broken`` if it has another shape."""
    if len(fetched.body) > _LONG:
        return await asyncio.to_thread(_read, fetched, shape)
    return _read(fetched, shape)


def query(url: str, **parameters: object) -> str:
    """Return ``url`` with the parameters that are not None."""
    said = {name: value for name, value in parameters.items() if value is not None}
    return f"{url}?{urlencode(said)}" if said else url


def moment(seconds: float) -> str:
    """Return a time in seconds since 1970 as ISO 8601, to the second."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return ""


def _read(fetched: FetchedResource, shape: type[_Shape]) -> _Shape:
    try:
        return msgspec.json.decode(fetched.body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        host = urlsplit(fetched.url).netloc
        reason = " ".join(str(error).split())[:200]
        raise ReadError(
            say("The response of {host} has an unknown form: {reason}", host=host, reason=reason),
            "broken",
        ) from None


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
    """Tools for site adapters: the network under the guard, and the conversion of bytes into pages."""

    fetcher: Fetcher
    converting: PageConversion


class SiteAdapter(Protocol):
    """Reads the pages of one site.

    ``name`` appears in the output. Failure policy: a ReadError is kept as the cause, and the next adapter is
    tried; None means that the URL has no page of this kind, which is not a failure.
    """

    @property
    def name(self) -> str: ...

    def takes(self, url: str) -> bool:
        """Return whether the adapter handles this URL. Pure, and called first."""
        ...

    async def read(self, url: str, tools: ReadingTools) -> Page | None: ...
