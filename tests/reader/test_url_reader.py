"""A URL is read in the best available way, from the cache first; an error says why it failed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from tabane.errors import ReadError, StoreBusy
from tabane.messages import say
from tabane.reader.fetching.interface import FetchedResource
from tabane.reader.page import Page
from tabane.reader.sites.site_adapter import ReadingTools, SiteAdapter, SiteSample
from tabane.reader.url_reader import CachedPage, CacheValidators, ReadingRules, UrlReader, shown
from tests.reader.fakes import FakeFetcher, answer, tools

URL = "https://a.test/page"


@dataclass
class FakeWay:
    """Fetches and gives a page, or does what it is told to."""

    name: str = "fake"
    outcome: Page | ReadError | None = None
    only: str = ""
    read_count: int = 0
    title: str = "A site"
    sample: SiteSample = field(default_factory=lambda: SiteSample(URL, "", 0))

    def takes(self, url: str) -> bool:
        return self.only in url

    async def read(self, url: str, tools: ReadingTools) -> Page | None:
        self.read_count += 1
        if isinstance(self.outcome, ReadError):
            raise self.outcome
        return self.outcome


class Fetching:
    """A way that makes the page of what it fetches, one or several times."""

    name, title = "fetching", "A site"
    sample = SiteSample(URL, "", 0)

    def __init__(self, *more: str) -> None:
        self._more = more

    def takes(self, url: str) -> bool:
        return True

    async def read(self, url: str, tools: ReadingTools) -> Page | None:
        bodies = [(await tools.fetcher.fetch(each, accept="text/x")).body for each in (url, *self._more)]
        return Page(url, b"".join(bodies).decode(), way="fetching")


@dataclass
class Drawer:
    """A shelf in memory."""

    kept: dict[tuple[str, bool], CachedPage] = field(default_factory=dict)

    async def get(self, url: str, *, raw: bool = False) -> CachedPage | None:
        return self.kept.get((url, raw))

    async def put(self, url: str, kept: CachedPage, *, raw: bool = False) -> None:
        self.kept[url, raw] = kept


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def error(cause: str, status: int | None = None) -> ReadError:
    return ReadError(say("because of {cause}.", cause=cause), cause, status=status)


def reading(
    fetcher: FakeFetcher, *ways: SiteAdapter, shelf: Drawer | None = None, clock: Clock | None = None
) -> UrlReader:
    return UrlReader(tools(fetcher), ways[:-1], shelf, general=ways[-1], clock=clock or Clock())


def tagged(text: str, tag: str) -> FetchedResource:
    return answer(URL, text, etag=tag)


def test_ways_are_tried_in_order_and_those_that_failed_are_told() -> None:
    broken, nothing, good = FakeWay("one", error("rate")), FakeWay("two"), FakeWay("three", Page(URL, "text"))
    never = FakeWay("never", Page(URL, "no"), only="elsewhere")
    page = asyncio.run(reading(FakeFetcher(), never, broken, nothing, good).read(URL))
    assert page.markdown == "text"
    assert [str(warning) for warning in page.warnings] == [
        "The API of A site could not be used. This is the page itself: because of rate."
    ]
    assert never.read_count == 0


def test_the_cause_that_says_most_is_the_error_and_the_others_stand_behind_it() -> None:
    ways = FakeWay("notion", error("key")), FakeWay("page", error("javascript"))
    with pytest.raises(ReadError) as raised:
        asyncio.run(reading(FakeFetcher(), *ways).read(URL))
    assert raised.value.cause == "key"
    assert str(raised.value) == "because of key. Also tried: page: because of javascript."


class Switched:
    """The sites that are switched off, which may change between reads."""

    def __init__(self) -> None:
        self.off: tuple[str, ...] = ()

    def __call__(self) -> ReadingRules:
        return ReadingRules(self.off)


def test_a_site_that_is_switched_off_is_read_as_any_page_even_if_its_page_is_cached() -> None:
    site, general = (
        FakeWay("site", Page(URL, "by the site", way="site")),
        FakeWay("page", Page(URL, "itself")),
    )
    switched, shelf = Switched(), Drawer()
    reader = UrlReader(tools(FakeFetcher()), [site], shelf, general=general, rules=switched, clock=Clock())
    assert asyncio.run(reader.read(URL)).markdown == "by the site"
    switched.off = ("other", "site")
    assert asyncio.run(reader.read(URL, settled=True)).markdown == "by the site"  # its next part
    assert [asyncio.run(reader.read(URL)).markdown for _ in range(2)] == ["itself", "itself"]
    assert (site.read_count, general.read_count) == (1, 1)


def test_a_cached_page_of_a_site_that_is_switched_off_is_not_confirmed_by_its_old_validators() -> None:
    fetcher = FakeFetcher({URL: tagged("text", '"7"')})
    switched, shelf, clock = Switched(), Drawer(), Clock()
    reader = UrlReader(tools(fetcher), [Fetching()], shelf, general=Fetching(), rules=switched, clock=clock)
    asyncio.run(reader.read(URL))
    switched.off = ("fetching",)
    clock.now += 10_000
    asyncio.run(reader.read(URL))
    assert [headers for _, headers, _ in fetcher.asked] == [{}, {}]


@pytest.mark.parametrize(
    "failure", [KeyError("x"), TypeError("odd"), RecursionError(), OverflowError("huge")]
)
def test_an_answer_that_an_adapter_does_not_expect_leads_to_the_page_itself(failure: Exception) -> None:
    class Surprised(FakeWay):
        async def read(self, url: str, tools: ReadingTools) -> Page | None:
            raise failure

    page = asyncio.run(reading(FakeFetcher(), Surprised(), FakeWay("page", Page(URL, "itself"))).read(URL))
    assert page.markdown == "itself"
    assert str(page.warnings[0]).startswith("The API of A site answered differently than expected.")


def test_a_page_of_a_site_without_text_leads_to_the_page_itself() -> None:
    empty, general = FakeWay(outcome=Page(URL, " \n")), FakeWay("page", Page(URL, "itself"))
    assert asyncio.run(reading(FakeFetcher(), empty, general).read(URL)).markdown == "itself"


def test_a_page_of_a_site_has_the_same_limit_of_length_as_any_other() -> None:
    long = FakeWay(outcome=Page(URL, "a line\n" * 700_000))
    page = asyncio.run(reading(FakeFetcher(), long, FakeWay("page")).read(URL))
    assert 3_000_000 < len(page.markdown) <= 4_000_000
    assert str(page.warnings[0]).startswith("Only the first ")


def test_one_failed_way_is_the_error_itself() -> None:
    failed = error("status", 404)
    with pytest.raises(ReadError) as raised:
        asyncio.run(reading(FakeFetcher(), FakeWay("page", failed)).read(URL))
    assert raised.value is failed


@pytest.mark.parametrize(
    ("url", "cause"), [("nonsense", "url"), ("ftp://a.test/", "scheme"), ("http://", "url")]
)
def test_what_is_no_url_is_never_asked_for(url: str, cause: str) -> None:
    way = FakeWay()
    with pytest.raises(ReadError) as raised:
        asyncio.run(reading(FakeFetcher(), way).read(url))
    assert (raised.value.cause, way.read_count) == (cause, 0)


def test_what_a_page_says_comes_clean() -> None:
    page = Page(URL, "a\u200bb <!-- obey -->c", title="T\x00\n2", canonical="javascript:alert(1)")
    found = asyncio.run(reading(FakeFetcher(), FakeWay(outcome=page)).read(URL))
    assert (found.markdown, found.title, found.canonical) == ("ab c", "T 2", None)
    assert len(found.warnings) == 2


async def test_a_fresh_page_is_given_without_a_request_and_an_old_one_is_asked_for() -> None:
    fetcher, shelf, clock = FakeFetcher({URL: answer(URL, "one")}), Drawer(), Clock()
    reader = reading(fetcher, Fetching(), shelf=shelf, clock=clock)
    assert (await reader.read(URL)).markdown == "one"
    fetcher.answers[URL] = answer(URL, "two")
    clock.now += 899
    assert (await reader.read(URL)).markdown == "one"
    assert len(fetcher.asked) == 1
    clock.now += 2
    assert (await reader.read(URL)).markdown == "two"
    fetcher.answers[URL] = answer(URL, "three")
    assert (await reader.read(URL, refresh=True)).markdown == "three"
    clock.now += 10_000
    assert (await reader.read(URL, settled=True)).markdown == "three"
    assert len(fetcher.asked) == 3


async def test_an_old_page_is_asked_for_changes_alone() -> None:
    def serve(headers: Mapping[str, str]) -> FetchedResource:
        if headers.get("if-none-match") == '"1"':
            return FetchedResource(URL, 304, {}, b"")
        return tagged("text", '"1"')

    fetcher, shelf, clock = FakeFetcher({URL: serve}), Drawer(), Clock()
    reader = reading(fetcher, Fetching(), shelf=shelf, clock=clock)
    await reader.read(URL)
    clock.now += 1000
    assert (await reader.read(URL)).markdown == "text"
    assert fetcher.asked[1][1] == {"if-none-match": '"1"'}
    clock.now += 800  # fresh again since the site confirmed it
    await reader.read(URL)
    assert len(fetcher.asked) == 2
    await reader.read(URL, refresh=True)
    assert fetcher.asked[2][1] == {}


async def test_a_page_made_of_several_answers_is_read_whole_again() -> None:
    more = "https://a.test/more"
    fetcher = FakeFetcher({URL: tagged("a", '"1"'), more: answer(more, "b", etag='"2"')})
    clock = Clock()
    reader = reading(fetcher, Fetching(more), shelf=Drawer(), clock=clock)
    await reader.read(URL)
    clock.now += 1000
    assert (await reader.read(URL)).markdown == "ab"
    assert all(not headers for _, headers, _ in fetcher.asked)


@pytest.mark.parametrize(
    ("failed", "given"),
    [
        (error("connect"), True), (error("timeout"), True), (error("status", 503), True),
        (error("rate", 429), True), (error("status", 404), False), (error("refused"), False),
    ],
)  # fmt: skip
def test_a_site_that_does_not_answer_now_is_read_as_it_was(failed: ReadError, given: bool) -> None:
    fetcher, clock = FakeFetcher({URL: answer(URL, "old")}), Clock()

    async def run() -> Page:
        reader = reading(fetcher, Fetching(), shelf=Drawer(), clock=clock)
        await reader.read(URL)
        fetcher.answers[URL] = failed
        clock.now += 1000
        return await reader.read(URL)

    if given:
        page = asyncio.run(run())
        assert page.markdown == "old"
        assert f"because of {failed.cause}" in str(page.warnings[0])
    else:
        with pytest.raises(ReadError) as raised:
            asyncio.run(run())
        assert raised.value is failed


def test_a_shelf_that_fails_holds_up_nobody() -> None:
    class Broken(Drawer):
        async def get(self, url: str, *, raw: bool = False) -> CachedPage | None:
            raise StoreBusy(say("busy"))

        async def put(self, url: str, kept: CachedPage, *, raw: bool = False) -> None:
            raise StoreBusy(say("busy"))

    found = asyncio.run(reading(FakeFetcher({URL: answer(URL, "x")}), Fetching(), shelf=Broken()).read(URL))
    assert found.markdown == "x"


async def test_who_asks_for_the_same_page_meanwhile_gets_it_without_another_request() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    class Slow(FakeWay):
        async def read(self, url: str, tools: ReadingTools) -> Page | None:
            begun.set()
            await go.wait()
            return await super().read(url, tools)

    slow = Slow(outcome=Page(URL, "text"))
    reader = reading(FakeFetcher(), slow, shelf=Drawer())
    first, second = (asyncio.create_task(reader.read(url)) for url in (URL, URL + "#part"))
    await begun.wait()
    go.set()
    assert [(await each).markdown for each in (first, second)] == ["text", "text"]
    assert slow.read_count == 1


def test_a_page_that_takes_too_long_is_given_up() -> None:
    class Hanging(FakeWay):
        async def read(self, url: str, tools: ReadingTools) -> Page | None:
            await asyncio.Event().wait()
            return None

    reader = UrlReader(tools(FakeFetcher()), general=Hanging(), limit=0.05)
    with pytest.raises(ReadError) as raised:
        asyncio.run(reader.read(URL))
    assert raised.value.cause == "timeout"


def test_the_source_is_what_was_served() -> None:
    html = "<main>one</main><!-- kept -->\x00"
    fetcher, shelf = FakeFetcher({URL: answer(URL, html)}), Drawer()
    page = asyncio.run(reading(fetcher, FakeWay(outcome=Page(URL, "no")), shelf=shelf).read(URL, raw=True))
    assert (page.markdown, page.way) == ("<main>one</main><!-- kept -->", "raw")
    assert list(shelf.kept) == [(URL, True)]


def test_a_mark_that_cannot_be_said_again_is_not() -> None:
    said = CacheValidators(URL, None, '"a\x1bb"', "Wed, 15 Nov 2023 00:00:00 GMT")
    assert said.headers() == {"if-modified-since": "Wed, 15 Nov 2023 00:00:00 GMT"}
    assert CacheValidators(URL, None, '"\u732b"', "x" * 2_000).headers() == {}


def test_what_a_server_has_its_say_in_is_cleaned_in_failures_and_warnings() -> None:
    failed = ReadError(say("no: {why}", why=say("{word}", word="a\x1b[31m\nb\u202e")), "status", status=404)
    with pytest.raises(ReadError) as raised:
        asyncio.run(reading(FakeFetcher(), FakeWay("one", failed)).read(URL))
    assert "a[31m b" in str(raised.value)
    assert raised.value.status == 404
    page = shown(Page(URL, "text", warnings=(failed.message,)))
    assert str(page.warnings[0]) == "no: a[31m b"


async def test_a_page_whose_end_did_not_come_is_shown_with_its_warning_and_not_kept() -> None:
    drawer, slow = Drawer(), say("The server is slow.")
    fetcher = FakeFetcher({URL: replace(answer(URL, b"beginning"), warnings=(slow,), partial=True)})
    page = await UrlReader(tools(fetcher), [Fetching()], drawer).read(URL)
    assert (page.markdown, page.warnings) == ("beginning", (slow,))
    assert drawer.kept == {}
