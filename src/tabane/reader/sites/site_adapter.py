"""What every way to a page is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tabane.reader.fetched import Fetcher
from tabane.reader.page import Page


class Converting(Protocol):
    """Makes pages of what was fetched, off the event loop."""

    async def page(
        self, body: bytes, url: str, media_type: str = "", charset: str | None = None, *, name: str = ""
    ) -> Page:
        """The page that these bytes are. ``media_type`` "" is told by ``name``, the URL and the bytes.

        Raises ReadError: ``type`` where nothing here reads it, ``broken`` where it cannot be read.
        """
        ...

    async def text(self, body: bytes, url: str, media_type: str = "", charset: str | None = None) -> Page:
        """Return all the text that HTML shows. Raises ReadError."""
        ...


@dataclass(frozen=True, slots=True)
class Means:
    """What a way may use: the network under the guard, and what makes pages of bytes."""

    fetcher: Fetcher
    converting: Converting


class Way(Protocol):
    """One way to a page.

    ``name`` is what the output says of it. Failure policy: a ReadError is kept as the cause and the next way
    is tried; None says that there is nothing of this kind at the URL, which is no failure.
    """

    @property
    def name(self) -> str: ...

    def takes(self, url: str) -> bool:
        """Whether it knows URLs like this one. Pure, and asked first."""
        ...

    async def read(self, url: str, means: Means) -> Page | None: ...
