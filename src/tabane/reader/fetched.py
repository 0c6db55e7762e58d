"""What came back for a URL, and who gets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tabane.messages import Message


@dataclass(frozen=True, slots=True)
class Fetched:
    """A response, whole. ``url`` is where it came from in the end; names of ``headers`` are lower case.

    ``media_type`` is without its parameters, lower case, "" where none was said; ``charset`` is that of the
    header alone. ``body`` is empty where ``status`` is 304: what was kept is still good. ``warnings``:
    what a person should know of how it was got.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    media_type: str = ""
    charset: str | None = None
    warnings: tuple[Message, ...] = ()


class Fetcher(Protocol):
    """Gets what is at a URL, under the guard."""

    async def fetch(
        self, url: str, *, headers: Mapping[str, str] | None = None, accept: str | None = None
    ) -> Fetched:
        """Follow redirects to the end and read the body, decompressed.

        Every hop is judged by the guard, by robots.txt where the settings say so, and held to the limits of
        time and size. ``headers`` go to the host of ``url`` alone, never to another that it redirects to.
        Status 200 to 299 and 304 are answers; others raise ReadError with cause ``status`` (429 and 503:
        ``rate``), which the way that asked may understand.
        """
        ...
