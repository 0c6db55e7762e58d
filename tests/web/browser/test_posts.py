"""The pages of posts: import with progress, timeline, one post, users and tags."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.web.browser.axe import Axe
from tests.web.browser.hub import PATIENCE, WebBrowsers, WebHome, show

HOSTILE = """\
"1700000000000000001","https://x.com/mallory/status/1700000000000000001","2024-05-01 10:00:00",\
"<img src=x onerror=alert(1)> see https://example.org/a?b=1&amp;c=2, and javascript:alert(1)",1
"1700000000000000002","javascript:alert(1)","2024-05-02 10:00:00","second",1
"not a number","","2024-05-02","bad row",1
"""


@pytest.fixture(scope="module")
def filled(shared_home: WebHome) -> None:
    """The sample, and posts that try to be more than text."""
    file = shared_home.folder / "hostile.csv"
    file.write_text(HOSTILE, encoding="utf-8")
    shared_home.must("posts", "import", "--sample")
    shared_home.must("posts", "import", str(file))


def test_an_empty_archive_leads_to_the_import(web: WebBrowsers) -> None:
    page = web.page("/posts")
    page.get_by_role("link", name="Import posts").click()
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.locator(".field-error")).to_have_text("Name at least one file or folder.")
    page.get_by_label("Files or folders").fill("/nowhere/twilog.csv")
    page.get_by_role("button", name="Import", exact=True).click()
    page.locator("#import-progress .notice.bad").wait_for()
    file = web.home.folder / "rows.csv"
    file.write_text(HOSTILE, encoding="utf-8")
    page.get_by_label("Files or folders").fill(f"'{file}'")
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_role("link", name="Show the posts").wait_for(timeout=PATIENCE)
    expect(page.locator(".stat", has_text="New posts")).to_contain_text("2")
    expect(page.locator(".stat", has_text="Skipped")).to_contain_text("1")
    page.get_by_text("1 row could not be used").click()
    expect(page.locator(".bad-rows li")).to_contain_text("rows.csv:3")
    page.get_by_role("link", name="Show the posts").click()
    expect(page.locator(".post")).to_have_count(2)


@pytest.mark.usefixtures("filled")
def test_the_timeline_goes_on_and_jumps_to_a_month(shared_web: WebBrowsers, accessibility: Axe) -> None:
    page = shared_web.page("/posts")
    assert page.locator(".post").count() == 30
    page.locator(".more").scroll_into_view_if_needed()
    page.locator(".post").nth(30).wait_for()
    days = page.locator(".posts-day").all_inner_texts()
    assert days == sorted(set(days), reverse=True)
    plot = page.locator("[data-plot] svg")
    plot.scroll_into_view_if_needed()
    plot.click(position={"x": 3, "y": 10})
    page.wait_for_url(re.compile(r"to=2023-01-31"))
    expect(page.locator(".posts-day").first).to_have_text(re.compile("^2023-01"))
    page.get_by_label("Posts that contain a text").fill("の")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("q="))
    expect(page.locator(".post mark").first).to_have_text("の")
    assert accessibility.serious(page) == []


@pytest.mark.usefixtures("filled")
def test_a_post_is_only_text_and_its_links_say_nothing(shared_web: WebBrowsers, accessibility: Axe) -> None:
    page = shared_web.page("/posts/1700000000000000001")
    text = page.locator(".post-text.whole")
    expect(text).to_contain_text("<img src=x onerror=alert(1)>")
    assert text.locator("img").count() == 0
    link = text.locator("a")
    expect(link).to_have_count(1)
    assert link.get_attribute("href") == "https://example.org/a?b=1&c=2"
    assert link.get_attribute("rel") == "noreferrer noopener nofollow"
    page.locator("#related .post").first.wait_for()
    with page.expect_response(re.compile("/related.*hybrid")):
        page.get_by_label("Rank by").select_option("hybrid")
    page.locator("#related .post").first.wait_for()
    assert accessibility.serious(page) == []
    show(page, "/posts/1700000000000000002")
    assert page.get_by_role("link", name="Open the original").count() == 0
    shared_web.permit("404")
    show(page, "/posts/5")
    expect(page.locator("main")).to_contain_text("there is no post 5")


@pytest.mark.usefixtures("filled")
def test_users_and_tags_lead_to_their_posts(shared_web: WebBrowsers, accessibility: Axe) -> None:
    page = shared_web.page("/posts/users")
    page.get_by_label("Beginning of the name").press_sequentially("sample_h")
    expect(page.locator(".counted li")).to_have_count(1)
    page.locator(".counted a").click()
    page.wait_for_url(re.compile(r"/posts\?user=sample_hinata"))
    expect(page.locator(".post-user").first).to_be_visible()
    users = set(page.locator(".post-user").all_inner_texts())
    assert users == {"@sample_hinata"}
    show(page, "/posts/tags")
    page.locator(".more").scroll_into_view_if_needed()
    page.locator(".counted li").nth(100).wait_for()
    assert accessibility.serious(page) == []
    show(page, "/posts/statistics")
    expect(page.locator("main h2")).to_have_count(4)
    assert accessibility.serious(page) == []
