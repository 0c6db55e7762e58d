"""Documents in a browser: files that are dropped, search while typing, the editor, and watched folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.web.browser.axe import Axe
from tests.web.browser.hub import WIDTHS, WebBrowsers, WebHome, show
from tests.web.browser.looks import checked_state

RELEASE = (
    "# Release plan\n\nWe release *weekly*.\n\n## Steps\n\n- [x] tests\n\n<script>window.bad = 1</script>\n"
)

DROP = """([name, text]) => {
  const given = new DataTransfer();
  for (const file of name.split(",")) given.items.add(new File([text], file, {type: "text/plain"}));
  for (const kind of ["dragenter", "dragover", "drop"])
    document.body.dispatchEvent(new DragEvent(kind, {dataTransfer: given, bubbles: true, cancelable: true}));
}"""


@pytest.fixture(scope="module")
def filled(shared_home: WebHome) -> WebHome:
    documents = [
        {"filepath": "notes/2026/release.md", "text": RELEASE, "metadata": {"author": "mai"}},
        {"filepath": "notes/2025/old.txt", "text": "A plain text about rivers."},
        {"filepath": "-/./odd.md", "text": "# Odd\n\nname"},
        *({"filepath": f"manuals/{n:03}.md", "text": f"# Chapter {n}"} for n in range(130)),
    ]
    put(shared_home, *documents)
    return shared_home


def put(home: WebHome, *documents: object) -> None:
    found = home.run("rpc", "put_documents", "--params", "-", stdin=json.dumps({"documents": documents}))
    assert found.succeeded.json["failed"] == 0


def text_of(home: WebHome, name: str) -> str:
    return str(home.rpc("get_document", filepath=name)["document"])


def opened(browsers: WebBrowsers, path: str) -> Page:
    """Show a page, and wait for its script."""
    page = browsers.page(path)
    page.locator("[data-mounted]").wait_for()
    return page


def test_folders_lead_to_documents(filled: WebHome, shared_web: WebBrowsers) -> None:
    page = shared_web.page("/documents")
    page.get_by_role("link", name="notes/").click()
    page.get_by_role("link", name="2026/").click()
    page.get_by_role("link", name="release.md").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Release plan")
    expect(page.locator(".prose h2")).to_have_text("Steps")
    expect(page.locator(".prose em")).to_have_text("weekly")
    assert page.evaluate("window.bad") is None
    page.get_by_label("Folder").get_by_role("link", name="2026").click()
    expect(page.get_by_role("link", name="release.md")).to_be_visible()


def test_types_and_what_changed_last_stand_beside_the_list_which_is_exported(web: WebBrowsers) -> None:
    put(
        web.home,
        {"filepath": "a/old.md", "text": "# Old", "file_type": "note"},
        {"filepath": "b/plan.md", "text": "# Plan", "file_type": "plan"},
    )
    put(web.home, {"filepath": "a/new.md", "text": "# New", "file_type": "note"})
    page = web.page("/documents", width=1400)
    expect(page.locator(".doc-recent a").first).to_have_text("New")
    page.locator("[data-facets]").get_by_role("link", name="note").click()
    page.wait_for_url("**/documents?type=note")
    expect(page.locator(".doc-list > li")).to_have_count(1)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export as JSON").click()
    rows = json.loads(Path(saved.value.path()).read_text(encoding="utf-8"))
    assert [row["name"] for row in rows] == ["a/new.md", "a/old.md"]


def test_long_lists_continue_and_odd_names_open(filled: WebHome, shared_web: WebBrowsers) -> None:
    page = shared_web.page("/documents?prefix=manuals/")
    expect(page.locator(".doc-list > li").last).to_contain_text("099.md")
    # The list continues once its button comes into view, which may be before the button could be clicked.
    page.keyboard.press("End")
    expect(page.get_by_role("link", name="129.md")).to_be_visible()
    show(page, "/documents?prefix=-/./")
    page.get_by_role("link", name="odd.md").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Odd")


def test_a_search_shows_why_while_somebody_types(filled: WebHome, shared_web: WebBrowsers) -> None:
    page = shared_web.page("/documents")
    page.get_by_label("Search in documents").press_sequentially("rivers")
    expect(page.locator("mark").first).to_have_text("rivers")
    page.reload()
    expect(page.locator("mark").first).to_have_text("rivers")
    page.get_by_label("Search in documents").fill("nothing like it")
    expect(page.get_by_text("Nothing matches")).to_be_visible()


def test_dropped_files_become_documents_and_bad_ones_say_why(web: WebBrowsers) -> None:
    page = opened(web, "/documents")
    expect(page.get_by_text("No documents yet")).to_be_visible()
    page.evaluate(DROP, ["a.md,b.md", "# Dropped\n\ntext"])
    expect(page.locator(".upload-list li").filter(has_text="added")).to_have_count(2)
    expect(page.get_by_role("link", name="a.md").last).to_be_visible()
    page.evaluate(DROP, ["bad.bin", "\0\1\2\3"])
    expect(page.locator(".upload-list li").filter(has_text="failed")).to_have_count(1)
    expect(page.locator(".upload-list")).to_contain_text("bad.bin cannot be saved")
    assert text_of(web.home, "b.md") == "# Dropped\n\ntext"


def test_a_document_is_written_saved_by_a_key_and_deleted(web: WebBrowsers) -> None:
    page = opened(web, "/documents/-/new")
    page.get_by_label("Name").fill("notes/new.md")
    page.get_by_label("Text").fill("# New\n\n*text*")
    expect(page.locator("#preview em")).to_have_text("text")
    page.keyboard.press("Control+s")
    expect(page.get_by_role("heading", level=1)).to_have_text("New")
    assert text_of(web.home, "notes/new.md") == "# New\n\n*text*"
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("There is nothing here")).to_be_visible()
    assert web.home.rpc("get_document_stats")["documents"] == 0


def test_an_edit_does_not_overwrite_that_of_somebody_else(filled: WebHome, shared_web: WebBrowsers) -> None:
    put(filled, {"filepath": "edited.md", "text": "one", "metadata": {"year": 2026}, "file_type": "note"})
    page = opened(shared_web, "/documents/-/edit?path=edited.md")
    page.get_by_label("Text").fill("mine")
    expect(page.get_by_text("Not saved yet")).to_be_visible()
    put(filled, {"filepath": "edited.md", "text": "theirs", "metadata": {"year": 2026}, "file_type": "note"})
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert").filter(has_text="was changed in the meantime")).to_be_visible()
    assert text_of(filled, "edited.md") == "theirs"
    assert page.get_by_label("Text").input_value() == "mine"
    page.get_by_role("button", name="Replace it with mine").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("edited.md")
    found = filled.rpc("list_documents", prefix="edited.md")["documents"][0]
    assert (found["metadata"], found["file_type"]) == ({"year": 2026}, "note")
    assert text_of(filled, "edited.md") == "mine"


def test_leaving_an_unsaved_text_asks_and_a_draft_is_kept(filled: WebHome, shared_web: WebBrowsers) -> None:
    page = opened(shared_web, "/documents/-/edit?path=notes/2025/old.txt")
    page.get_by_label("Text").fill("a draft")
    page.get_by_role("link", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    checked_state(page, widths=WIDTHS)
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert page.get_by_label("Text").input_value() == "a draft"
    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    page.locator("[data-mounted]").wait_for()
    expect(page.get_by_text("Restored draft")).to_be_visible()
    assert page.get_by_label("Text").input_value() == "a draft"
    page.get_by_role("link", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Continue").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("old.txt")


def test_a_folder_is_watched_and_its_changes_appear(web: WebBrowsers, tmp_path: Path) -> None:
    folder = tmp_path / "watched"
    folder.mkdir()
    (folder / "a.md").write_text("# A")
    page = web.page("/documents/-/watched")
    page.locator("#f-path").fill("relative/path")
    page.get_by_role("button", name="Add the folder").click()
    expect(page.get_by_text("give the full path")).to_be_visible()
    page.locator("#f-path").fill(str(folder))
    page.get_by_role("button", name="Add the folder").click()
    expect(page.get_by_text("following changes")).to_be_visible()
    expect(page.get_by_text("1 file", exact=True)).to_be_visible()
    other = opened(web, f"/documents?prefix={folder}/")
    (folder / "later.md").write_text("# Later")
    expect(other.get_by_role("link", name="later.md")).to_be_visible()
    page.get_by_role("button", name="Stop and delete documents").click()
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("No folder is watched")).to_be_visible()
    assert web.home.rpc("get_document_stats")["documents"] == 0


PATHS = (
    "/documents", "/documents?prefix=notes/", "/documents?q=rivers", "/documents/notes/2026/release.md",
    "/documents/notes/2025/old.txt", "/documents/-/edit?path=notes/2026/release.md", "/documents/-/new",
    "/documents/-/watched", "/documents/-/stats",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_nothing_serious_keeps_anybody_out(
    filled: WebHome, shared_web: WebBrowsers, accessibility: Axe, path: str
) -> None:
    page: Page = shared_web.page(path, width=390, theme="dark")
    assert accessibility.serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_a_key_that_may_only_read_is_offered_no_changes(filled: WebHome, shared_web: WebBrowsers) -> None:
    key = filled.json("keys", "create", "reader", "--read-only", "--allow", "*")["secret"]
    shared_web.permit("status of 401")  # of the page before it is signed in
    context, _ = shared_web.context(signed_in=False)
    page = context.new_page()
    page.goto("/documents")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="notes/").click()
    expect(page.get_by_role("link", name="2026/")).to_be_visible()
    assert page.get_by_role("link", name="New document").count() == 0
    assert page.get_by_role("button", name="Add files").count() == 0
