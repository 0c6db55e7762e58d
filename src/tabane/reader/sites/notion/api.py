"""Notion's API, asked with the key of an integration.

https://developers.notion.com/reference: three requests a second on average, pages of a hundred.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.sites.asking import query, told
from tabane.reader.sites.site_adapter import Means

VERSION = "2025-09-03"

_Shape = TypeVar("_Shape")

Block = dict[str, Any]


class Listing(Struct, frozen=True):
    """A page of a list."""

    results: list[Block]
    has_more: bool = False
    next_cursor: str | None = None


class Found(Struct, frozen=True):
    """A page or a database, as far as both have the same."""

    id: str
    url: str = ""
    public_url: str | None = None
    created_time: str | None = None
    last_edited_time: str | None = None
    properties: dict[str, Any] = {}
    title: list[Any] = []
    description: list[Any] = []
    data_sources: list[Any] = []


class Api:
    """The API for one read."""

    def __init__(self, means: Means, base: str, key: str) -> None:
        self._means, self._base = means, base
        self._headers = {"authorization": f"Bearer {key}", "notion-version": VERSION}

    async def get(self, path: str, shape: type[_Shape], **parameters: object) -> _Shape:
        """What is at ``path``. Raises ReadError that says what it means here."""
        url = query(f"{self._base}/v1/{path}", **parameters)
        try:
            return await told(self._means, url, shape, headers=self._headers)
        except ReadError as error:
            message = _message(error)
            if message is None:
                raise
            cause = "key" if error.status in (401, 403) else error.cause
            raise ReadError(message, cause, status=error.status, wait=error.wait) from None


def _message(error: ReadError) -> Message | None:
    if error.cause == "rate":
        return say("Notion asks to wait: {reason}", reason=error.message)
    if error.status == 401:
        return say("Notion does not accept the NOTION_API_KEY.")
    if error.status == 403:
        return say("The integration of the NOTION_API_KEY may not read content: allow it to in its settings.")
    if error.status == 404:
        return say(
            "Notion has nothing there, or it is not shared with the integration of the NOTION_API_KEY: open "
            "the page, and add the integration under its connections."
        )
    return None
