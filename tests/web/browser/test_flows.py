"""The flow policy in a browser: what an assistant reads appears, is forgotten, and pairs are taken back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.harness.labeled_servers import TOOLS, replayed
from tests.harness.patience import wait_until
from tests.harness.user import Assistant, assistant
from tests.web.browser.axe import Axe
from tests.web.browser.hub import WIDTHS, Language, Theme, WebBrowsers, WebHome

FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


@pytest.fixture
def web_home(tmp_path: Path) -> Iterator[WebHome]:
    home = WebHome(tmp_path, approval_wait="0")
    home.write_servers({name: replayed(tmp_path, name) for name in TOOLS})
    home.start()
    for name in TOOLS:
        home.must("servers", "test", name)
    yield home
    home.run("stop")


def is_held(line: Assistant, to: str = "eve@example.com") -> bool:
    answer = line.ask("tools/call", name="mail__send_email", arguments={"to": to})
    return "error" in answer or bool(answer["result"].get("isError"))


def test_what_was_read_appears_and_is_forgotten_and_a_pair_is_taken_back(
    web: WebBrowsers, web_home: WebHome
) -> None:
    page = web.page("/")
    page.locator('a[data-nav="/flows"]').click()
    expect(page.get_by_role("heading", name="Flow policy")).to_be_visible()
    trail, pairs = page.locator(".flow-trail"), page.locator("#flow-pairs li")
    expect(trail).to_have_count(0)
    expect(pairs).to_have_count(0)
    with assistant(web_home) as line:
        line.text("mail__read_inbox")
        expect(trail).to_contain_text("mail__read_inbox")  # without a reload
        expect(trail).to_contain_text("strangers can write it")
        assert is_held(line)
        trail.get_by_role("button", name="Forget what it read").press("Enter")
        expect(page.locator("#notices")).to_contain_text("1 client forgotten.")
        expect(trail).to_have_count(0)
        assert not is_held(line, "ada@example.com")
        line.text("mail__read_inbox")
        web_home.must("policy", "allow", "mail>mail")
        expect(pairs).to_contain_text("After mail was read, calls of mail are made without asking.")
        assert not is_held(line)
        pairs.get_by_role("button", name="Ask again").press("Enter")
        expect(pairs).to_have_count(0)
        assert is_held(line, "a@b")  # the other one was named before the inbox was read again


def test_the_labels_of_a_server_open_and_say_where_they_come_from(
    web: WebBrowsers, web_home: WebHome
) -> None:
    page = web.page("/flows")
    tools = page.locator("#flow-tools")
    expect(tools).to_have_count(0)
    page.locator("#flow-labels").get_by_role("link", name="mail", exact=True).press("Enter")
    row = tools.get_by_role("row").filter(has_text="mail__read_inbox")
    expect(row).to_contain_text("reads what strangers write")
    expect(row).to_contain_text("guessed from its words")
    tools.get_by_role("link", name="Open the server").click()
    expect(page.get_by_role("heading", name="mail")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("lang", ["en", "ja"])
def test_the_page_is_accessible_and_fits_each_width(
    web: WebBrowsers, web_home: WebHome, accessibility: Axe, lang: Language, theme: Theme
) -> None:
    web_home.must("policy", "allow", "m" * 250 + ">" + "n" * 250)
    with assistant(web_home) as line:
        line.text("mail__read_inbox")
        line.text("files__read_file", path="x")
    page = web.page("/flows", lang=lang, theme=theme)
    expect(page.locator(".flow-trail")).to_have_count(1)
    page.locator("#flow-labels").get_by_role("link", name="mail", exact=True).click()
    expect(page.locator("#flow-tools")).to_be_visible()
    assert accessibility.serious(page) == []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        wait_until(lambda: page.evaluate(FITS), f"{page.url} fits {width}")
