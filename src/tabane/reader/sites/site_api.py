"""Shared parts of site adapters: requests to JSON APIs with a key, and the Markdown of their pages.

Errors are explained, and only answers of a known shape are used. The Markdown has facts, blocks, comments,
and relative links made absolute.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar, get_args, get_origin
from urllib.parse import urlencode, urlsplit

import msgspec

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.fetching.interface import FetchedResource
from tabane.reader.sites.site_adapter import ReadingTools, UnexpectedAnswer

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
