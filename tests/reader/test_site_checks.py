"""Checks of sites: what each answer of a site is reported as, and how long and how many at once they take."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.page import Page
from tabane.reader.site_checks import AT_ONCE, SiteCheck, check_sites
from tabane.reader.sites.site_adapter import ReadingTools, SiteSample, UnexpectedAnswer
from tests.harness.patience import pass_time
from tests.reader.fakes import FakeFetcher, tools

URL = "https://a.test/known"
GOOD = Page(URL, "word " * 100, title="A known page", way="a")


@dataclass
class KnownSite:
    """A site that gives one page, or one error."""

    outcome: Page | ReadError | Exception | None
    name: str = "a"
    title: str = "A site"
    sample: SiteSample = field(default_factory=lambda: SiteSample(URL, "known", 100, "A_KEY"))

    def takes(self, url: str) -> bool:
        return url == URL

    async def read(self, url: str, tools: ReadingTools) -> Page | None:
        assert url == URL
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@dataclass
class Gate:
    """Opens when ``enough`` sites were asked; ``most`` is how many were being read at once."""

    enough: int
    asked: int = 0
    reading: int = 0
    most: int = 0
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def pass_through(self) -> None:
        self.asked, self.reading = self.asked + 1, self.reading + 1
        self.most = max(self.most, self.reading)
        if self.asked >= self.enough:
            self.opened.set()
        await self.opened.wait()
        await asyncio.sleep(0)  # others begin meanwhile, if they may
        self.reading -= 1


@dataclass
class Waiting(KnownSite):
    """A site that answers when its gate opens."""

    gate: Gate = field(default_factory=lambda: Gate(1))

    async def read(self, url: str, tools: ReadingTools) -> Page | None:
        await self.gate.pass_through()
        return GOOD


def checked(site: KnownSite, general: KnownSite | None = None) -> SiteCheck:
    itself = general or KnownSite(Page(URL, "itself"), "page")
    (found,) = asyncio.run(check_sites([site], tools(FakeFetcher()), general=itself))
    return found


def failed(cause: str, status: int | None = None) -> ReadError:
    return ReadError(say("because."), cause, status=status)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (GOOD, "ok"),
        (None, "changed"),
        (Page(URL, "word " * 100, title="Other", way="a"), "changed"),
        (Page(URL, "short", title="A known page", way="a"), "changed"),
        (Page(URL, "word " * 100, title="A known page", way="extracted"), "changed"),
        (Page(URL, "", title="A known page", way="a"), "changed"),
        (TypeError("odd"), "changed"),
        (UnexpectedAnswer("a.test", TypeError("odd")), "changed"),
        (failed("empty"), "changed"),
        (failed("broken"), "unreachable"),
        (failed("status", 404), "changed"),
        (failed("status", 403), "changed"),
        (failed("status", 502), "unreachable"),
        (failed("dns"), "unreachable"),
        (failed("timeout"), "unreachable"),
        (failed("rate", 429), "busy"),
        (failed("key", 401), "key"),
        (failed("key"), "no key"),
    ],
)
def test_each_answer_is_reported_as_what_it_is(outcome: Page | Exception | None, state: str) -> None:
    assert checked(KnownSite(outcome)).state == state


def test_a_site_that_returns_only_shared_pages_is_in_order_if_it_does_not_have_the_page() -> None:
    sample = SiteSample(URL, "", 0, "A_KEY", shared=True)
    assert checked(KnownSite(failed("status", 404), sample=sample)).state == "ok"
    assert checked(KnownSite(failed("key", 401), sample=sample)).state == "key"


def test_a_changed_site_is_reported_with_its_page_if_that_cannot_be_read_either() -> None:
    assert checked(KnownSite(failed("empty"))).page_problem is None
    found = checked(KnownSite(failed("empty")), KnownSite(failed("javascript"), "page"))
    assert str(found.page_problem) == "because."


def test_a_site_that_is_off_is_not_read() -> None:
    fetcher = FakeFetcher()
    site = KnownSite(AssertionError("read"))
    (found,) = asyncio.run(check_sites([site], tools(fetcher), ("a",)))
    assert (found.state, fetcher.asked) == ("off", [])


def test_a_few_sites_are_checked_at_once() -> None:
    gate = Gate(AT_ONCE)
    sites: Sequence[KnownSite] = [Waiting(None, gate=gate) for _ in range(AT_ONCE * 3)]
    found = asyncio.run(check_sites(sites, tools(FakeFetcher())))
    assert ([each.state for each in found], gate.most) == (["ok"] * len(sites), AT_ONCE)


def test_a_site_that_never_answers_holds_up_only_its_own_check() -> None:
    never, good = Waiting(None, gate=Gate(1 << 30)), KnownSite(GOOD)

    async def checks() -> list[SiteCheck]:
        checking = asyncio.create_task(check_sites([never, good], tools(FakeFetcher()), limit=60))
        for _ in range(100):  # in which one is read
            await asyncio.sleep(0)
        pass_time(61)
        return await checking

    assert [each.state for each in asyncio.run(checks())] == ["unreachable", "ok"]
