"""A whole site, read from the tests' own server: what is read, left out, tried again and read once more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tabane.errors import ReadError
from tabane.messages import Message
from tabane.reader.crawling.site_file import SiteFile
from tabane.reader.crawling.site_reading import SiteReading, SiteWish, rendered
from tabane.reader.fetching import PageFetcher
from tabane.reader.library import ThreadedConversion
from tabane.reader.page import Page
from tabane.reader.result_text import site_lines
from tabane.reader.sites.site_adapter import ReadingTools
from tabane.reader.url_reader import ReadingRules, UrlReader
from tests.reader.shelves import shelved
from tests.reader.site import Answer, Asked, Site, hang


def page(name: str, *links: str, head: str = "") -> str:
    anchors = "".join(f'<li><a href="{link}">to {link}</a>' for link in links)
    text = f"This is what the page {name} says about its subject. " * 12
    return (
        f"<title>{name}</title>{head}<main><h1>{name}</h1><p>{text}</p></main><nav><ul>{anchors}</ul></nav>"
    )


@dataclass
class Told:
    """Progress as it was told; ``stop_at`` cancels the job when so many pages were read."""

    steps: list[tuple[int, int | None]] = field(default_factory=list)
    stop_at: int | None = None

    def tell(self, done: int, total: int | None = None, note: Message | None = None) -> None:
        self.steps.append((done, total))
        if self.stop_at is not None and done >= self.stop_at:
            raise asyncio.CancelledError


@dataclass
class Desk:
    """A home in which sites are read, and the documents that were saved."""

    site: Site
    home: Path
    later: float = 0.0
    waits: list[float] = field(default_factory=list)
    saved: dict[str, str] = field(default_factory=dict)
    saves: list[str] = field(default_factory=list)
    remember: Callable[[Page], Awaitable[str]] | None = None
    policy: dict[str, Any] = field(default_factory=dict)

    async def read(self, path: str = "/guide/", *, told: Told | None = None, **wish: Any) -> dict[str, Any]:
        """Read the site as a hub of this home does, with a page cache; each time as after a restart."""
        fetcher = PageFetcher(lambda: self.site.policy(**({"robots": True, "retries": 0} | self.policy)))
        file = SiteFile(self.home, lambda: time.time() + self.later)

        async def sleep(seconds: float) -> None:
            self.waits.append(seconds)

        async with shelved(home=str(self.home / "store")) as shelf:
            reading = SiteReading(
                SiteWish(self.site.url(path), wish.pop("limit", 100), **wish), file, fetcher,
                lambda fetching: UrlReader(
                    ReadingTools(fetching, ThreadedConversion()), shelf=shelf.shelf,
                    rules=lambda: ReadingRules(fresh=0),
                ),
                self.remember, sleep=sleep,
            )  # fmt: skip
            try:
                return rendered(await reading.run(told or Told()), "en")
            finally:
                await file.close()
                await fetcher.close()

    async def save(self, page: Page) -> str:
        self.saved[page.url] = page.markdown
        self.saves.append(page.url)
        return page.url

    def asked(self) -> list[str]:
        """Return the pages that were requested since the last time, without robots.txt and sitemaps."""
        paths = [path for path in self.site.paths if "sitemap" not in path and path != "/robots.txt"]
        self.site.asked.clear()
        return paths


@pytest.fixture
def desk(site: Site, tmp_path: Path) -> Desk:
    (tmp_path / "store").mkdir()
    return Desk(site, tmp_path)


def furnish(site: Site) -> None:
    site.put("/guide/", page("Home", "a.html", "b.html?utm_source=x", "/blog/", "a.html#x", "pic.png"))
    site.put("/guide/a.html", page("A", "b.html", "c.html", "index.html"))
    site.put("/guide/b.html", page("B"))
    site.put("/guide/c.html", page("C", "/guide"))


async def test_the_pages_of_a_folder_are_read_once_nearest_first(desk: Desk) -> None:
    furnish(desk.site)
    told = Told()
    found = await desk.read(told=told)
    assert desk.asked() == ["/guide/", "/guide/a.html", "/guide/b.html", "/guide/c.html"]
    assert (found["new"], found["left"], found["failed"]) == (4, 0, 0)
    assert found["site"] == desk.site.url("/guide/")
    assert told.steps[-1] == (4, 4)


async def test_the_same_command_reads_what_has_changed(desk: Desk) -> None:
    furnish(desk.site)
    desk.remember = desk.save

    def tagged(asked: Asked) -> Answer:
        known = asked.headers.get("if-none-match") == '"1"'
        return Answer(304 if known else 200, b"" if known else page("C").encode(), headers={"ETag": '"1"'})

    desk.site.ask("/guide/c.html", tagged)
    assert (await desk.read())["saved"] == 4
    assert len(desk.saved) == 4
    desk.saves.clear()
    desk.site.put("/guide/b.html", page("B is another one now"))
    desk.site.asked.clear()
    found = await desk.read()
    assert (found["new"], found["changed"], found["unchanged"], found["saved"]) == (0, 1, 3, 1)
    assert desk.saves == [desk.site.url("/guide/b.html")]
    assert sorted(desk.asked()) == ["/guide/", "/guide/a.html", "/guide/b.html", "/guide/c.html"]
    found = await desk.read(refresh=True)
    assert (found["unchanged"], found["saved"]) == (4, 4)


async def test_pages_that_are_gone_are_told_and_their_documents_stay(desk: Desk) -> None:
    furnish(desk.site)
    desk.remember = desk.save
    await desk.read()
    desk.site.put("/guide/b.html", "gone", status=410)
    found = await desk.read()
    assert found["gone"] == 1
    assert found["pages"]["gone"][0]["document"] == desk.site.url("/guide/b.html")
    assert "its document is kept" in "\n".join(site_lines(found, "en"))
    assert "文書は残しています" in "\n".join(site_lines(found, "ja"))
    assert (await desk.read())["gone"] == 0


async def test_a_reading_that_was_stopped_goes_on_where_it_ended(desk: Desk) -> None:
    furnish(desk.site)
    with pytest.raises(asyncio.CancelledError):
        await desk.read(told=Told(stop_at=2))
    found = await desk.read()
    assert found["continued"]
    assert found["new"] == 4
    asked = desk.asked()
    assert len(asked) == len(set(asked)) == 4


async def test_a_reading_that_was_stopped_long_ago_begins_again(desk: Desk) -> None:
    furnish(desk.site)
    with pytest.raises(asyncio.CancelledError):
        await desk.read(told=Told(stop_at=2))
    desk.site.put("/guide/a.html", page("A is another one now", "b.html"))
    desk.later = 90_000.0
    found = await desk.read()
    assert not found["continued"]
    assert (found["changed"], found["unchanged"], found["new"]) == (1, 1, 1)


async def test_a_page_that_was_fetched_but_not_finished_is_not_requested_again(desk: Desk) -> None:
    furnish(desk.site)

    async def fail(page: Page) -> str:
        raise asyncio.CancelledError

    desk.remember = fail
    with pytest.raises(asyncio.CancelledError):
        await desk.read()
    desk.remember = None
    assert (await desk.read())["new"] == 4
    asked = desk.asked()
    assert len(asked) == len(set(asked)) == 4


async def test_the_limit_leaves_pages_that_a_larger_one_reads(desk: Desk) -> None:
    furnish(desk.site)
    found = await desk.read(limit=2)
    assert (found["new"], found["left"]) == (2, 2)
    assert "the limit was reached" in "\n".join(site_lines(found, "en"))
    assert (await desk.read(limit=9))["new"] == 2


async def test_depth_counts_links_and_leaves_the_sitemap_out(desk: Desk) -> None:
    furnish(desk.site)
    desk.site.put("/guide/lonely.html", page("Lonely"))
    desk.site.put(
        "/sitemap.xml", f"<urlset><url><loc>{desk.site.url('/guide/lonely.html')}</loc></url></urlset>"
    )
    assert (await desk.read(depth=0))["new"] == 1
    assert (await desk.read(depth=1))["new"] == 2
    assert (await desk.read())["new"] == 2
    assert "/guide/lonely.html" in desk.asked()


async def test_pages_whose_sitemap_says_that_they_are_as_before_are_not_requested(desk: Desk) -> None:
    furnish(desk.site)
    entries = f"<url><loc>{desk.site.url('/guide/b.html')}</loc><lastmod>2020-01-01</lastmod></url>"
    desk.site.put("/robots.txt", f"Sitemap: {desk.site.url('/maps.xml')}", "text/plain")
    desk.site.put(
        "/maps.xml", f"<sitemapindex><sitemap><loc>{desk.site.url('/one.xml')}</loc></sitemap></sitemapindex>"
    )
    desk.site.put("/one.xml", f"<urlset>{entries}</urlset>")
    await desk.read()
    desk.asked()
    found = await desk.read()
    assert found["unchanged"] == 4
    assert "/guide/b.html" not in desk.asked()


async def test_robots_txt_is_obeyed_with_its_delay(desk: Desk) -> None:
    furnish(desk.site)
    desk.site.put("/robots.txt", "User-agent: *\nDisallow: /guide/b\nCrawl-delay: 7", "text/plain")
    found = await desk.read()
    assert (found["new"], found["robots"]) == (3, 1)
    assert "/guide/b.html" not in desk.asked()
    assert len(desk.waits) == 4  # two sitemaps and two pages after the first
    assert all(6 < wait <= 7 for wait in desk.waits)
    desk.site.put("/robots.txt", "User-agent: *\nDisallow: /", "text/plain")
    with pytest.raises(ReadError, match=r"robots\.txt"):
        await desk.read("/guide/c.html")


async def test_what_pages_ask_of_robots_is_respected(desk: Desk) -> None:
    hidden, closed = "<meta name=robots content=noindex>", "<meta name=robots content=nofollow>"
    desk.site.put("/guide/", page("Home", "a", "b"))
    desk.site.put("/guide/a", page("A", "c", head=hidden))
    desk.site.put("/guide/b", page("B", "d", head=closed))
    desk.site.put("/guide/c", page("C"))
    found = await desk.read()
    assert (found["new"], found["noindex"]) == (3, 1)
    assert desk.asked() == ["/guide/", "/guide/a", "/guide/b", "/guide/c"]
    desk.site.put("/old/", page("Old", "a", head=hidden))
    desk.site.put("/old/a", page("Old A", head=hidden))
    assert (await desk.read("/old/"))["new"] == 2  # who names such a folder wants it


async def test_copies_of_a_page_count_once(desk: Desk) -> None:
    desk.site.put("/guide/", page("Home", "a", "a?sort=up", "print/a", "copy"))
    desk.site.put("/guide/a", page("A"))
    desk.site.put("/guide/a?sort=up", page("A sorted", head='<link rel=canonical href="/guide/a">'))
    desk.site.put("/guide/print/a", page("A to print", head='<link rel=canonical href="/guide/gone">'))
    desk.site.put("/guide/copy", page("A"))
    found = await desk.read()
    assert (found["new"], found["duplicate"], found["failed"]) == (3, 2, 1)


async def test_redirects_out_of_the_folder_are_told_but_not_followed(desk: Desk) -> None:
    desk.site.put("/guide/", page("Home", "out", "far", "moved"))
    desk.site.redirect("/guide/out", "/blog/")
    desk.site.redirect("/guide/far", "https://elsewhere.invalid/")
    desk.site.redirect("/guide/moved", "/guide/here")
    desk.site.put("/guide/here", page("Here", "/guide/moved"))
    found = await desk.read()
    assert (found["new"], found["outside"], found["failed"]) == (2, 2, 0)
    assert {row["to"] for row in found["pages"]["outside"]} == {
        desk.site.url("/blog/"), "https://elsewhere.invalid/",
    }  # fmt: skip
    asked = desk.asked()
    assert "/blog/" not in asked
    assert asked.count("/guide/here") == 1


async def test_a_page_that_fails_is_tried_once_more_at_the_end(desk: Desk) -> None:
    desk.site.put("/guide/", page("Home", "down", "busy", "dead", "data", "slow", "a"))
    desk.site.put("/guide/down", "<p>Not now", status=500)
    desk.site.play("/guide/busy", Answer(503), Answer(body=page("Busy").encode()))
    desk.site.put("/guide/data", b"\x00\x01\x02" * 400, "application/octet-stream")
    desk.site.put("/guide/a", page("A"))
    desk.site.wild("/guide/slow", hang)
    desk.policy = {"read_timeout": 0.2}
    found = await desk.read()
    assert (found["new"], found["failed"], found["other"]) == (3, 3, 1)
    asked = desk.asked()
    assert [asked.count(f"/guide/{name}") for name in ("down", "busy", "dead", "slow")] == [2, 2, 1, 2]
    assert asked.index("/guide/a") < len(asked) - 1 - asked[::-1].index("/guide/down")
    lines = "\n".join(site_lines(found, "en"))
    assert "Failed: 3" in lines
    assert "HTTP 404" in lines


async def test_traps_are_bounded(desk: Desk) -> None:
    def day(asked: Asked) -> Answer:
        number = int(asked.target.rpartition("=")[2])
        links = (f"calendar?view=day&date={number + 1}", f"calendar?view=week&date={number + 1}", "a")
        return Answer(body=page(f"Day {number} {asked.target}", *links).encode())

    desk.site.put("/guide/", page("Home", "calendar?view=day&date=1"))
    desk.site.put("/guide/a", page("A"))
    desk.site.ask("/guide/calendar", day)
    found = await desk.read(limit=1_000)
    assert found["similar"] > 0
    assert len(desk.asked()) == 22


async def test_a_site_that_cannot_be_read_says_why_and_can_be_continued(desk: Desk) -> None:
    with pytest.raises(ReadError, match="404"):
        await desk.read()
    furnish(desk.site)
    assert (await desk.read())["new"] == 4
    desk.policy = {"allowed": ()}
    with pytest.raises(ReadError, match="reader_allow"):
        await desk.read()


async def test_a_damaged_record_is_replaced(desk: Desk) -> None:
    furnish(desk.site)
    (desk.home / "sites.db").write_bytes(b"This is no database. " * 100)
    assert (await desk.read())["new"] == 4
