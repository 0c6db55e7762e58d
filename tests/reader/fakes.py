"""Fakes for the network and for page conversion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.fetching.interface import FetchedResource
from tabane.reader.page import Page
from tabane.reader.plain_text import visible_text
from tabane.reader.sites.site_adapter import ReadingTools


def answer(
    url: str, body: str | bytes, media_type: str = "text/html", status: int = 200, **headers: str
) -> FetchedResource:
    data = body.encode() if isinstance(body, str) else body
    return FetchedResource(
        url, status, {name.replace("_", "-"): value for name, value in headers.items()}, data, media_type
    )


@dataclass
class FakeFetcher:
    """Answers by URL: what is raised is raised, what can be called is called with the headers."""

    answers: dict[str, FetchedResource | Exception | Callable[[Mapping[str, str]], FetchedResource]] = field(
        default_factory=dict
    )
    asked: list[tuple[str, dict[str, str], str | None]] = field(default_factory=list)

    async def fetch(
        self, url: str, *, headers: Mapping[str, str] | None = None, accept: str | None = None
    ) -> FetchedResource:
        self.asked.append((url, dict(headers or {}), accept))
        found = self.answers.get(url)
        if found is None:
            raise ReadError(say("it is not there (404)."), "status", status=404)
        if isinstance(found, Exception):
            raise found
        return found(headers or {}) if callable(found) else found

    @property
    def urls(self) -> list[str]:
        return [url for url, _, _ in self.asked]


class FakeConverting:
    """The body is the Markdown; HTML is what stands in its ``<main>``, and nothing where there is none."""

    async def page(
        self, body: bytes, url: str, media_type: str = "", charset: str | None = None, *, name: str = ""
    ) -> Page:
        text = body.decode()
        if media_type == "text/html":
            _, found, rest = text.partition("<main>")
            text = rest.partition("</main>")[0]
            if not found:
                raise ReadError(say("there is no text on the page."), "empty")
            return Page(url, text, title="From HTML", author="Ann", way="extracted", share=0.9)
        return Page(url, text, way=media_type.rpartition("/")[2], media_type=media_type)

    async def text(self, body: bytes, url: str, media_type: str = "", charset: str | None = None) -> Page:
        return Page(url, visible_text(body.decode("utf-8", "replace")), way="plain")


def tools(fetcher: FakeFetcher) -> ReadingTools:
    return ReadingTools(fetcher, FakeConverting())
