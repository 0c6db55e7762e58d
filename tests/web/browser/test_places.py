"""The way back leads to the place that was left: scrolled as far, with as many rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.harness.patience import wait_until
from tests.harness.user import assistant
from tests.web.browser import many
from tests.web.browser.guard import settle
from tests.web.browser.hub import WebBrowsers, WebHome, show, wait_for_page

LISTS = {
    "/posts": ".posts > .post",
    "/tools": "#tools-found .tool-row",
    "/audit": "#main tbody tr:not(.more-row)",
    "/documents": "#main .doc-list > li",
}
"""Selectors of the rows of each list."""

DOCUMENTS = 220
CALLS = 120

_LAST_LINK = """rows => {
  const links = [...document.querySelectorAll(`${rows} a[href]`)];
  const seen = links.filter(one => { const { top, bottom } = one.getBoundingClientRect();
    return top > 120 && bottom < innerHeight - 20; });
  seen.at(-1).click();
}"""


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHome]:
    """A hub with more of everything than is shown at first."""
    home = WebHome(tmp_path_factory.mktemp("home"))
    many.prepare(home, 15, 20)
    home.start()
    home.must("posts", "import", "--sample")
    notes = home.folder / "notes"
    notes.mkdir()
    for number in range(DOCUMENTS):
        (notes / f"note-{number:03}.md").write_text(f"# Note {number}\n\nText.\n")
    home.must("docs", "add", str(notes), "--relative")
    with assistant(home) as someone:
        for number in range(CALLS):
            someone.call("search_tools", query=f"task {number}")
    yield home
    home.run("stop")


def counted(page: Page, rows: str) -> int:
    settle(page)
    return page.locator(rows).count()


def go_down(page: Page, rows: str) -> tuple[int, int]:
    """Scroll until a further part of the list is there. Returns the rows, and how far it is scrolled."""
    page.locator(rows).first.wait_for()
    first = counted(page, rows)
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    wait_until(lambda: counted(page, rows) > first, "a further part is loaded")
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight * 0.6)")
    expect(page.locator(".htmx-request")).to_have_count(0)
    return counted(page, rows), page.evaluate("Math.round(scrollY)")


def same_place(page: Page, rows: str, before: tuple[int, int]) -> None:
    wait_until(lambda: counted(page, rows) >= before[0], "its rows are there again")
    wait_until(lambda: abs(page.evaluate("scrollY") - before[1]) < 40, "it is scrolled as far")


@pytest.mark.parametrize("path", LISTS)
def test_back_and_reload_keep_the_place(shared_web: WebBrowsers, path: str) -> None:
    rows = LISTS[path]
    page = shared_web.page(path)
    before = go_down(page, rows)
    page.evaluate(_LAST_LINK, rows)
    page.wait_for_url(lambda url: not url.endswith(path))
    wait_for_page(page)
    wait_until(lambda: page.evaluate("scrollY") == 0, "the other page begins at its top")
    page.go_back()
    same_place(page, rows, before)
    page.reload()
    same_place(page, rows, before)


def test_a_link_to_a_page_that_was_left_begins_at_its_top(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/audit")
    go_down(page, LISTS["/audit"])
    page.evaluate("document.querySelector('a[data-nav=\"/jobs\"]').click()")
    expect(page.locator("h1")).to_have_text("Jobs")
    page.evaluate("document.querySelector('a[data-nav=\"/audit\"]').click()")
    expect(page.locator("h1")).to_have_text("Audit log")
    assert page.evaluate("scrollY") == 0


def test_who_scrolls_while_the_place_comes_back_is_not_pulled_there(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/audit")
    go_down(page, LISTS["/audit"])
    show(page, "/jobs")
    page.route("**/audit?*", lambda route: None)  # the further parts never come
    page.go_back()
    wait_until(lambda: page.evaluate("scrollY") > 0, "it is scrolled")
    page.mouse.wheel(0, -100_000)
    wait_until(lambda: page.evaluate("scrollY") == 0, "it is at its top")
