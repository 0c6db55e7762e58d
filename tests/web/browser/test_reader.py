"""The reader in a browser: a page beside its source, failures that say what to do, and the shelf."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.reader.site import Site, running
from tests.web.browser.axe import Axe
from tests.web.browser.hub import WebBrowsers, WebHome

RIVERS = "Rivers wind because the outer bank of each bend is worn away faster than the inner one. " * 6

ARTICLE = f"""<!doctype html><html lang="en"><head><title>How rivers wind</title>
<meta name="author" content="Ann Miller"></head><body><nav><a href="/">Home</a></nav><article>
<h1>How rivers wind</h1><p>{RIVERS}</p><h2>Bends</h2><p>{RIVERS}</p>
<p><img src="/bend.png" alt="a bend"> <a href="javascript:alert(1)">click</a></p></article></body></html>"""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with running() as site:
        site.put("/rivers", ARTICLE, "text/html; charset=utf-8")
        long = "".join(f"<h2>Part {n}</h2><p>{RIVERS * 4}</p>" for n in range(60))
        site.put("/long", f"<title>Long</title><article>{long}</article>", "text/html; charset=utf-8")
        yield site


@pytest.fixture(scope="module")
def web_home(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Iterator[WebHome]:
    home = WebHome(tmp_path_factory.mktemp("home"), reader_allow=",".join(site.allowed))
    home.start()
    yield home
    home.run("stop")


def read(page: Page, url: str) -> None:
    page.locator("[data-mounted]").wait_for()
    page.get_by_label("URL of a page").fill(url)
    page.keyboard.press("Enter")


def test_a_page_is_read_kept_as_a_document_and_forgotten(web: WebBrowsers, site: Site) -> None:
    page = web.page("/reader")
    read(page, site.url("/rivers"))
    expect(page.get_by_role("heading", name="How rivers wind")).to_be_visible()
    expect(page.locator(".prose h3")).to_have_text("Bends")
    expect(page.locator(".reader-facts")).to_contain_text("Ann Miller")
    assert page.locator(".prose img, .prose a[href^=javascript]").count() == 0
    page.get_by_role("button", name="Save as a document").click()
    page.get_by_role("link", name="Saved as a document").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("How rivers wind")
    page.get_by_role("link", name="Open in the reader").click()
    page.get_by_role("button", name="Forget").click()
    expect(page.get_by_role("heading", name="Pages that were read")).to_be_visible()
    assert site.url("/rivers") not in [row["url"] for row in web.home.rpc("list_pages")["results"]]


def test_a_page_is_shown_beside_its_source(web: WebBrowsers, site: Site) -> None:
    page = web.page(f"/reader?url={site.url('/rivers')}")
    page.get_by_role("link", name="Beside its source").click()
    expect(page.locator(".source-text")).to_contain_text('<meta name="author" content="Ann Miller">')
    expect(page.locator(".prose h3")).to_have_text("Bends")


def test_a_long_page_continues(web: WebBrowsers, site: Site) -> None:
    page = web.page(f"/reader?url={site.url('/long')}")
    expect(page.get_by_role("heading", name="Part 0", exact=True)).to_be_visible()
    for parts in (2, 3):
        page.get_by_role("button", name="Show more").scroll_into_view_if_needed()
        expect(page.locator(".doc-source")).to_have_count(parts)
    expect(page.get_by_role("heading", name="Part 59")).to_be_visible()
    ids = page.eval_on_selector_all(".prose [id]", "found => found.map(each => each.id)")
    assert len(ids) == len(set(ids))


def test_a_failure_says_why_and_what_to_do(web: WebBrowsers) -> None:
    page = web.page("/reader")
    read(page, "10.0.0.1/secret")
    expect(page.get_by_role("alert")).to_contain_text("10.0.0.1")
    expect(page.get_by_role("link", name="Try again")).to_be_visible()


def test_pages_are_searched_while_somebody_types(web: WebBrowsers, site: Site) -> None:
    web.home.must("read", site.url("/rivers"))
    page = web.page("/reader")
    page.get_by_label("Search in these pages").press_sequentially("outer bank")
    expect(page).to_have_url(re.compile(r"q=outer(\+|%20)bank"))  # no other answer replaces the link
    expect(page.locator("mark").first).to_be_visible()
    page.get_by_role("link", name="How rivers wind").first.click()
    expect(page.get_by_role("heading", name="How rivers wind")).to_be_visible()


@pytest.mark.parametrize("path", ["", "?url={}", "?view=source&url={}", "?q=rivers"])
def test_nothing_serious_keeps_readers_out(
    web: WebBrowsers, accessibility: Axe, site: Site, path: str
) -> None:
    web.home.must("read", site.url("/rivers"))
    page = web.page("/reader" + path.format(site.url("/rivers")), width=390)
    page.locator(".source-text" if "source" in path else ".prose" if "url" in path else "#shelf").wait_for()
    assert accessibility.serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
