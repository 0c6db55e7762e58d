"""The pages of posts: import with progress, timeline, one post, users and tags."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.harness.patience import wait_until
from tests.web.browser.axe import Axe
from tests.web.browser.hub import WebBrowsers, WebHome, show

HOSTILE = """\
"1700000000000000001","https://x.com/mallory/status/1700000000000000001","2024-05-01 10:00:00",\
"<img src=x onerror=alert(1)> see https://example.org/a?b=1&amp;c=2, and javascript:alert(1)",1
"1700000000000000002","javascript:alert(1)","2024-05-02 10:00:00","second",1
"not a number","","2024-05-02","bad row",1
"""

CREATED = "Wed Oct 10 20:19:24 +0000 2018"


@pytest.fixture(scope="module")
def filled(shared_home: WebHome) -> None:
    """The sample, and posts that try to be more than text."""
    file = shared_home.folder / "hostile.csv"
    file.write_text(HOSTILE, encoding="utf-8")
    shared_home.must("posts", "import", "--sample")
    shared_home.must("posts", "import", str(file))


DROP = """(files) => {
  const given = new DataTransfer();
  for (const [name, text] of files) given.items.add(new File([text], name));
  for (const kind of ["dragenter", "dragover", "drop"])
    document.body.dispatchEvent(new DragEvent(kind, {dataTransfer: given, bubbles: true, cancelable: true}));
}"""


def drop_page(browsers: WebBrowsers, path: str = "/posts/import") -> Page:
    """Show a page on which posts are dropped, and wait for its script."""
    page = browsers.page(path)
    page.locator("[data-ready]").wait_for()
    return page


def uploads(home: WebHome) -> list[Path]:
    return list(home.folder.rglob("uploads/*"))


def test_an_empty_archive_takes_a_file_that_is_chosen_and_says_what_came_of_it(
    web: WebBrowsers, accessibility: Axe
) -> None:
    page = drop_page(web, "/posts")
    file = web.home.folder / "rows.csv"
    file.write_text(HOSTILE, encoding="utf-8")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose files").click()
    chooser.value.set_files(file)
    expect(page.locator(".import-said")).to_have_text(
        "2 new posts were imported. 1 row could not be read: the reasons are below."
    )
    expect(page.locator(".bad-rows li")).to_contain_text("rows.csv:3")
    assert str(web.home.folder) not in page.locator("main").inner_text()
    assert uploads(web.home) == []
    assert accessibility.serious(page) == []
    page.get_by_role("link", name="Show the posts").click()
    expect(page.locator(".post")).to_have_count(2)


def test_dropped_files_are_imported_together_and_bad_ones_say_why(web: WebBrowsers) -> None:
    page = drop_page(web)
    page.evaluate(DROP, [["photo.jpg", "x"]])
    expect(page.locator("[data-post-problem]")).to_contain_text("None of these files has posts.")
    page.evaluate(DROP, [["notes.csv", "a,b\nno posts\n"]])
    expect(page.locator("#import-progress .notice.bad")).to_contain_text("notes.csv is not a twilog.csv")
    page.locator("[data-ready]").wait_for()
    tweet = {"tweet": {"id_str": "1700000000000000009", "full_text": "of X", "created_at": CREATED}}
    lists = [["tweets.js", f"window.YTD.tweets.part0 = {json.dumps([tweet])}"], ["twilog.csv", HOSTILE]]
    page.evaluate(DROP, lists)
    expect(page.locator(".import-said")).to_contain_text("3 new posts were imported.")
    expect(page.locator("#import-progress tbody tr")).to_have_count(2)
    page.locator("[data-ready]").wait_for()
    page.evaluate(DROP, lists)
    expect(page.locator(".import-said")).to_contain_text("There is nothing new in the files.")
    assert uploads(web.home) == []


def test_paths_on_the_computer_of_the_hub_are_folded_below(web: WebBrowsers) -> None:
    page = web.page("/posts/import")
    page.get_by_text("Files that are on the computer of the hub already").click()
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.locator(".field-error")).to_have_text("Name at least one file or folder.")
    file = web.home.folder / "rows.csv"
    file.write_text(HOSTILE, encoding="utf-8")
    page.get_by_label("Files or folders").fill(f"'{file}'")
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.locator(".import-said")).to_contain_text("2 new posts were imported.")


@pytest.mark.heavy
def test_an_upload_is_canceled_or_lost_with_its_hub_and_tried_again(web: WebBrowsers) -> None:
    web.permit("ERR_", "status of 5", "Failed to load")
    page = drop_page(web)
    large = web.home.folder / "large.csv"
    with large.open("wb") as file:
        file.write(HOSTILE.encode())
        file.truncate(200_000_000)
    session = page.context.new_cdp_session(page)
    throttle = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 4_000_000}
    session.send("Network.enable")
    session.send("Network.emulateNetworkConditions", throttle)
    page.locator("input[type=file]").set_input_files(large)
    expect(page.locator("[data-post-state]")).to_contain_text(re.compile(r"MB / 200 MB"))
    wait_until(lambda: len(uploads(web.home)) == 1, "the upload began")
    second = drop_page(web)
    second.evaluate(DROP, [["rows.csv", HOSTILE]])
    expect(second.locator("[data-post-problem]")).to_have_text(
        "Another upload is under way. Try again when it has ended."
    )
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Choose files")).to_be_visible()
    wait_until(lambda: uploads(web.home) == [], "nothing is left of what was canceled")
    second.get_by_role("button", name="Try again").click()
    expect(second.locator(".import-said")).to_contain_text("2 new posts were imported.")

    page.locator("input[type=file]").set_input_files(large)
    wait_until(lambda: len(uploads(web.home)) == 1, "the upload began again")
    os.kill(int(web.home.json("status")["pid"]), signal.SIGKILL)
    expect(page.locator("[data-post-problem]")).to_contain_text("The connection to the hub was lost.")
    web.home.start()
    assert uploads(web.home) == []


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
    page.wait_for_url(re.compile(r"from=2023-01-01&to=2023-01-31"))
    expect(page.locator(".archive-chips")).to_contain_text("2023-01-01 to 2023-01-31")
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
    bars = page.locator("[data-plot] svg")
    bars.focus()
    page.keyboard.press("End")
    page.keyboard.press("Shift+ArrowLeft")
    expect(bars).to_have_attribute("aria-valuetext", re.compile(r"^\d{4}-\d\d: \d+ posts$"))
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/posts\?from=\d{4}-\d\d-01&to="))


@pytest.mark.usefixtures("filled")
def test_facets_narrow_the_timeline_and_what_is_left_is_exported(
    shared_web: WebBrowsers, accessibility: Axe
) -> None:
    page = shared_web.page("/posts", width=1400)
    facets = page.locator("[data-facets]")
    facets.get_by_role("link", name="@sample_hinata").click()
    page.wait_for_url(re.compile(r"user=sample_hinata"))
    facets.get_by_role("link", name="2025", exact=True).click()
    page.wait_for_url(re.compile(r"user=sample_hinata&from=2025-01-01&to=2025-12-31"))
    expect(facets.locator(".chosen")).to_have_count(2)
    told = page.get_by_role("status").filter(has_text="newest first").inner_text()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export as JSON").click()
    rows = json.loads(Path(saved.value.path()).read_text(encoding="utf-8"))
    assert len(rows) == int(told.split()[0])
    assert {row["user"] for row in rows} == {"sample_hinata"}
    assert {row["time"][:4] for row in rows} == {"2025"}
    assert accessibility.serious(page) == []
    page.locator(".archive-chips").get_by_role("link", name="@sample_hinata").click()
    page.wait_for_url(re.compile(r"/posts\?from=2025-01-01&to=2025-12-31$"))
