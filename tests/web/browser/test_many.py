"""500 servers and 10,000 tools: every page stays short, and what is searched is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.web.browser import many
from tests.web.browser.hub import WebBrowsers, WebHome, show

MOST_ELEMENTS = 8_000
"""Of one page: it shows a part of a long list, whatever its length."""


@pytest.fixture
def web_home(tmp_path: Path) -> Iterator[WebHome]:
    home = WebHome(tmp_path)
    many.prepare(home)
    home.start()
    yield home
    home.run("stop")


def elements(page: Page) -> int:
    found: int = page.evaluate("() => document.querySelectorAll('*').length")
    return found


def test_pages_of_a_large_hub_stay_short(web: WebBrowsers) -> None:
    assert web.home.rpc("hub_status")["tools"] == many.SERVERS * many.TOOLS
    page = web.page()
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
