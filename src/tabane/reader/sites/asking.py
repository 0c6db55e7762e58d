"""Answers of an API, asked for and read as values."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.fetched import Fetched
from tabane.reader.sites.site_adapter import Means

JSON = "application/json"

_LONG = 100_000  # bytes that take longer to read than it takes to hand them to a thread

_Shape = TypeVar("_Shape")


async def told(
    means: Means,
    url: str,
    shape: type[_Shape],
    *,
    headers: Mapping[str, str] | None = None,
    accept: str = JSON,
) -> _Shape:
    """What the API says at ``url``. Raises ReadError, ``broken`` where it is not of this shape."""
    return await read_as(await means.fetcher.fetch(url, headers=headers, accept=accept), shape)


async def read_as(fetched: Fetched, shape: type[_Shape]) -> _Shape:
    """An answer in JSON as a value of ``shape``. Raises ReadError, ``broken`` where it is none."""
    if len(fetched.body) > _LONG:
        return await asyncio.to_thread(_read, fetched, shape)
    return _read(fetched, shape)


def query(url: str, **parameters: object) -> str:
    """``url`` with the parameters that are not None."""
    said = {name: value for name, value in parameters.items() if value is not None}
    return f"{url}?{urlencode(said)}" if said else url


def moment(seconds: float) -> str:
    """A time in seconds since 1970 as ISO 8601, to the second."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return ""


def _read(fetched: Fetched, shape: type[_Shape]) -> _Shape:
    try:
        return msgspec.json.decode(fetched.body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        host = urlsplit(fetched.url).netloc
        reason = " ".join(str(error).split())[:200]
        raise ReadError(
            say(
                "The answer of {host} is of a form that is not known here: {reason}", host=host, reason=reason
            ),
            "broken",
        ) from None
