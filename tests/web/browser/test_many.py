"""500 servers and 10,000 tools: every page stays short, and what is searched is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.browser import many
from tests.web.browser.hub import WebBrowsers, WebHome, show

MOST_ELEMENTS = 8_000
"""Of one page: it shows a part of a long list, whatever its length."""


@pytest.fixture
def large(tmp_path: Path, browser: Browser) -> Iterator[WebBrowsers]:
    home = WebHome(tmp_path)
    many.prepare(home)
    home.start()
    browsers = WebBrowsers(browser, home)
    yield browsers
    problems = browsers.close()
    home.run("stop")
    assert problems == []


def elements(page: Page) -> int:
    found: int = page.evaluate("() => document.querySelectorAll('*').length")
    return found


def test_pages_of_a_large_hub_stay_short(large: WebBrowsers) -> None:
    assert large.home.rpc("hub_status")["tools"] == many.SERVERS * many.TOOLS
    page = large.page()
    for path in ("/", "/servers", "/tools", "/search", "/activity", "/health"):
        show(page, path)
        assert elements(page) < MOST_ELEMENTS, path
    show(page, "/tools")
    page.get_by_role("searchbox").first.fill("task 7 of server-333")
    expect(page.locator("main")).to_contain_text("server-333__tool_07")
    show(page, "/servers")
    expect(page.locator("main")).to_contain_text("500")
    page.get_by_role("searchbox").first.fill("server-499")
    expect(page.locator("main")).to_contain_text("server-499")
    show(page, "/servers/server-250")
    expect(page.locator("main")).to_contain_text("server-250")
    assert elements(page) < MOST_ELEMENTS
