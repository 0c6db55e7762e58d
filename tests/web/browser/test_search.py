"""The search page: results as one types, filters, reasons, the address bar, and what fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.harness.running_hub import child
from tests.search.embedding import tiny
from tests.web.browser.held import Held
from tests.web.browser.hub import PATIENCE, WIDTHS, WebBrowsers, WebHome, show
from tests.web.browser.looks import checked_state


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHome]:
    """A hub with the posts of the sample."""
    shared_home = WebHome(tmp_path_factory.mktemp("search"))
    shared_home.start()
    shared_home.must("posts", "import", "--sample")
    yield shared_home
    shared_home.run("stop")


def found(page: Page, shown: str) -> None:
    """Wait until the results of that kind and text are shown."""
    page.locator(f'#search-results[data-shown="{shown}"]').wait_for(timeout=PATIENCE)


def asked(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def test_results_come_as_one_types_and_the_address_says_what_was_typed(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/search?in=posts")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if "/search/results" in request.url else None)
    whole = Held(page, r"/search/results\?(?!.*typing=1)")  # which would replace what was found while typing
    page.locator("#search-q").press_sequentially("coffe", delay=20)
    found(page, "typing:coffe")
    expect(page.locator(".hit mark").first).to_have_text(re.compile("coffee", re.IGNORECASE))
    assert asked(page) == {"q": ["coffe"], "in": ["posts"]}
    whole.end()
    page.locator("#search-q").fill("coffee")
    found(page, "whole:coffee")
    assert sum("typing=1" in url for url in sent) <= 7
    page.reload()
    found(page, "whole:coffee")
    assert page.locator("#search-q").input_value() == "coffee"


def test_requests_of_one_page_do_not_pile_up(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/search?in=posts")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if "typing=1" in request.url else None)
    held = Held(page, "typing=1")
    page.locator("#search-q").press_sequentially("coffee")
    expect(page.locator("#search-q")).to_have_value("coffee")
    held.wait()
    with page.expect_request(re.compile("q=coffee.*typing=1")):
        held.end()
    assert [parse_qs(urlsplit(url).query)["q"] for url in sent] == [["c"], ["coffee"]]
    found(page, "whole:coffee")


def test_a_hit_says_why_and_opens_its_page_and_back_returns(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/search?q=猫&in=posts", lang="ja")
    found(page, "whole:猫")
    expect(page.locator(".hit mark").first).to_have_text("猫")
    page.locator(".hit .why summary").first.click()
    expect(page.locator(".hit .why dl").first).to_contain_text("BM25")
    checked_state(page, widths=WIDTHS)
    expect(page.locator(".search-warning")).to_have_count(1)  # no model: keywords only
    expect(page.locator(".search-warning a")).to_have_attribute("href", "/models")
    page.locator(".hit h2 a").first.click()
    page.locator(".post-text.whole").wait_for()
    assert re.search(r"/posts/\d+\?q=", page.url)  # which marks the words there
    page.go_back()
    found(page, "whole:猫")


def test_filters_narrow_posts_and_stay_in_the_address(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/search?q=猫&in=posts")
    found(page, "whole:猫")
    before = page.locator(".hit").count()
    plot = page.locator("[data-plot] svg")
    plot.wait_for()
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 10, steps=4)
    page.mouse.up()
    expect(page.locator("#filter-from")).not_to_have_value("")
    expect(page.locator(".hit")).not_to_have_count(before)
    chosen = asked(page)
    assert set(chosen) == {"q", "in", "from", "to"}
    page.get_by_role("button", name="Clear filters").click()
    expect(page.locator(".hit")).to_have_count(before)
    page.get_by_label("Type").select_option("bookmark")
    page.wait_for_url(re.compile("type=bookmark"))
    page.get_by_label("User", exact=True).focus()
    page.get_by_label("User", exact=True).press_sequentially("sample_")
    page.locator("#filter-users option").first.wait_for(state="attached")


def test_everything_is_searched_and_one_source_too(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/search?q=search")
    found(page, "whole:search")
    kinds = set(page.locator(".hit-head .badge").all_inner_texts())
    assert {"post", "tool"} <= kinds
    assert "manual" not in kinds  # nobody asked for it
    page.get_by_role("radio", name="Manual").check()
    page.wait_for_url(re.compile("in=docs"))
    found(page, "whole:search")
    assert set(page.locator(".hit-head .badge").all_inner_texts()) == {"manual"}
    page.locator(".hit h2 a").first.click()
    page.wait_for_url(re.compile("/search/manual"))
    page.locator(".manual-text").wait_for()


def test_nothing_found_and_nothing_typed_say_what_to_do(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/search?q=zzzzqqqq&in=posts")
    found(page, "whole:zzzzqqqq")
    expect(page.locator("#search-results h2")).to_have_text("Nothing was found")
    checked_state(page, widths=WIDTHS)
    page.locator("#search-q").fill("")
    expect(page.locator("#search-results h2")).to_have_text("Type to search")
    show(page, '/search?q="&in=posts&mode=content')
    expect(page.locator("#search-results .notice.bad, #search-results .empty")).to_have_count(1)


def test_keys_alone_suffice(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/search?in=posts")
    expect(page.locator("#search-q")).to_be_focused()
    page.keyboard.type("鉄道")
    page.keyboard.press("Enter")
    found(page, "whole:鉄道")
    expect(page.locator("#search-q")).to_be_focused()
    expect(page.locator("#search-status")).to_contain_text("result")


def test_what_was_found_is_narrowed_by_its_parts_and_the_address_says_so(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/search?q=post&in=tools")
    found(page, "whole:post")
    facet = page.locator(".search-facet")
    expect(facet).to_have_count(0)  # all tools are the hub's own: nothing to choose
    show(page, "/search?q=猫")
    page.locator(".search-facet", has_text="post").click()
    page.wait_for_url(re.compile("in=posts"))
    users = page.locator(".search-facet", has_text="@")
    users.first.click()
    page.wait_for_url(re.compile("user="))
    found(page, "whole:猫")
    names = page.locator(".hit h2").all_inner_texts()
    assert len(set(names)) == 1
    expect(page.get_by_label("User", exact=True)).to_have_value(names[0].removeprefix("@"))


def test_more_results_stay_when_the_address_is_opened_again(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/search?q=a*&in=posts")
    found(page, "whole:a*")
    before = page.locator(".hit").count()
    page.get_by_role("button", name="Show more").click()
    expect(page.locator(".hit")).not_to_have_count(before)
    assert asked(page)["all"] == ["1"]
    more = page.locator(".hit").count()
    page.reload()
    expect(page.locator(".hit")).to_have_count(more)


@pytest.mark.heavy("a hub with a model")
def test_what_has_none_of_the_words_is_said_to_be_only_near(web: WebBrowsers) -> None:
    web.home.environment["TABANE_MODEL"] = str(tiny.make(web.home.folder / "little"))
    web.home.stop()
    web.home.start()
    web.home.must("posts", "import", "--sample")
    page = web.page("/search?q=zzzzqqqqxxxx&in=posts")
    expect(page.locator("#search-results h2").first).to_have_text("Nothing has these words")
    expect(page.locator("#search-status")).to_have_text("No result has these words.")
    expect(page.locator(".search-nearest > summary")).to_contain_text("Nearest by meaning")
    checked_state(page, widths=WIDTHS)
    assert page.locator(".search-nearest .hit").count() == page.locator(".hit").count()


def test_a_broken_server_is_one_line_below_the_results(web: WebBrowsers) -> None:
    web.home.write_servers({"broken": child("--stderr", "no key", "--exit", "1")})
    page = web.page("/search?q=documents")
    line = page.locator(".servers-missing")
    expect(line).to_have_text(re.compile("broken is not available: its tools are missing here"))
    expect(page.locator("#search-results .notice")).to_have_count(0)
    checked_state(page, widths=WIDTHS)
    line.get_by_role("link").click()
    expect(page).to_have_url(re.compile("/servers/broken$"))
    expect(page.locator("#server-live")).to_contain_text("no key")
