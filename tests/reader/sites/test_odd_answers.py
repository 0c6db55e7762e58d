"""Sites that answer otherwise than they are known to: the page itself is read, and nothing else happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.reader import ThreadedConversion
from tabane.reader.fetching import PageFetcher
from tabane.reader.page import Page
from tabane.reader.sites.any_page import AnyPageAdapter
from tabane.reader.sites.site_adapter import ReadingTools
from tabane.reader.url_reader import UrlReader
from tests.reader.site import Site
from tests.reader.sites.recorded import RECORDED, RecordedPage

WORDS = "What the page itself says, at some length and with care, as people see it. "
ITSELF = f"<html><title>Itself</title><body><main><h1>The page</h1><p>{WORDS * 12}</p></main></body></html>"
MARK = "@odd@"

# JSON that an API does not give there: other types, numbers beyond any machine's, endless depth.
ODD = st.sampled_from(
    [
        "null", "true", "0", "-1", "1e400", "1" + "0" * 400, "-9223372036854775809", "3.5", '""', '"x"',
        '"\\ud800"', '"\\u0000"',
        "[]", "{}", "[null]", "[[]]", '{"a": 1}', "[" * 50_000 + "]" * 50_000, "{" * 3,
        '{"type":"formula","formula":' * 400 + "1" + "}" * 400, '"' + "z" * 70_000 + '"', "NaN", "",
    ]
)  # fmt: skip
BODIES = st.sampled_from([b"", b"\xff\xfe", b"null", b"[]", b"{}", b"<!doctype html><p>Log in", b"\0" * 9])
STATUSES = [400, 401, 403, 410, 418, 422, 451, 500, 503]


class PageOnSite(AnyPageAdapter):
    """The general way, which reads the page itself from the local site."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self._site = site

    async def read(self, url: str, tools: ReadingTools) -> Page | None:
        return await super().read(self._site.url("/itself"), tools)


class OddReading:
    """Reads recorded pages, on one event loop and with one fetcher for all."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._runner = asyncio.Runner()
        self._fetching = PageFetcher(site.policy, resolve=site.names)

    def read(self, recorded: RecordedPage, odd: dict[str, tuple[int, bytes]]) -> tuple[Page, str]:
        """Return the page, and the name of its site, with some answers replaced."""
        self.site.clear()
        self.site.put("/itself", ITSELF)
        for path in recorded.answers:
            status, body = odd.get(path, (200, recorded.body(path)))
            self.site.put(path, body, recorded.media_type, status=status)
        adapter = recorded.site(self.site)
        tools = ReadingTools(self._fetching, ThreadedConversion())
        reader = UrlReader(tools, [adapter], general=PageOnSite(self.site))
        return self._runner.run(reader.read(recorded.url)), adapter.name

    def close(self) -> None:
        self._runner.run(self._fetching.close())
        self._runner.close()


@pytest.fixture(scope="module")
def reading(grounds: Site) -> Iterator[OddReading]:
    found = OddReading(grounds)
    yield found
    found.close()


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all values within a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for name, each in inner for place in places(each, (*at, name)))]


@st.composite
def odd_json(draw: st.DrawFn, body: bytes) -> bytes:
    """JSON of which one value is missing or another, or that is cut off."""
    value = json.loads(body)
    at = draw(st.sampled_from(places(value)))
    if not at:
        return draw(ODD).encode()
    holder = value
    for name in at[:-1]:
        holder = holder[name]
    if draw(st.booleans()):
        del holder[at[-1]]
        return json.dumps(value).encode()
    holder[at[-1]] = MARK
    return json.dumps(value).replace(json.dumps(MARK), draw(ODD)).encode()


@st.composite
def odd_text(draw: st.DrawFn, body: bytes) -> bytes:
    """Markup or a script of which a part is missing, or another."""
    start = draw(st.integers(0, len(body)))
    end = draw(st.integers(start, min(len(body), start + 400)))
    return body[:start] + draw(ODD | st.just("<b>" * 30_000)).encode() + body[end:]


@st.composite
def odd_answers(draw: st.DrawFn, recorded: RecordedPage) -> dict[str, tuple[int, bytes]]:
    path = draw(st.sampled_from(sorted(recorded.answers)))
    body = recorded.body(path)
    changed = odd_text(body) if isinstance(recorded.answers[path], str) else odd_json(body)
    cut = st.integers(0, len(body)).map(lambda end: body[:end])
    refused = st.tuples(st.sampled_from(STATUSES), st.just(b'{"message": "no"}'))
    return {path: draw(st.tuples(st.just(200), changed | cut | BODIES) | refused)}


@pytest.mark.parametrize("name", RECORDED)
def test_each_recorded_page_is_read_by_its_site(name: str, reading: OddReading) -> None:
    page, site = reading.read(RECORDED[name], {})
    assert (page.way, page.warnings) == (site, ())


@pytest.mark.parametrize("name", RECORDED)
def test_any_answer_is_a_page_of_the_site_or_the_page_itself(name: str, reading: OddReading) -> None:
    @given(odd_answers(RECORDED[name]))
    def check(odd: dict[str, tuple[int, bytes]]) -> None:
        page, site = reading.read(RECORDED[name], odd)
        assert page.markdown.encode().strip()
        if page.way != site:
            assert WORDS.strip() in page.markdown
            assert any("This is the page itself" in str(each) for each in page.warnings) or site == "note"

    check()


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("body", [b"", b"<!doctype html><title>Log in</title><p>Log in", b"[]", b"{}"])
def test_another_form_of_all_answers_leads_to_the_page_itself(
    name: str, body: bytes, reading: OddReading
) -> None:
    page, site = reading.read(RECORDED[name], dict.fromkeys(RECORDED[name].answers, (200, body)))
    if body == b"[]" and name in ("commits", "releases", "tags", "folder", "file"):
        return  # an empty list is one
    assert page.way != site
    assert WORDS.strip() in page.markdown
