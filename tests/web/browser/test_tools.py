"""The pages of tools in a real browser: search, lists, forms, calls, results, pin and hide."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.harness.patience import wait_until
from tests.harness.running_hub import child
from tests.web.browser import filled
from tests.web.browser.axe import Axe
from tests.web.browser.guard import settle
from tests.web.browser.held import Held
from tests.web.browser.hub import WIDTHS, Language, Theme, WebBrowsers, WebHome, show
from tests.web.browser.looks import checked_state, look
from tests.web.test_schema_forms import FULL

TREE = ".tree"


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHome]:
    folder = tmp_path_factory.mktemp("tools")
    schemas = folder / "schemas.json"
    schemas.write_text(json.dumps({"find": FULL, "many": {"type": "object"}}))
    home = WebHome(folder)
    home.write_servers(
        {"up": child("--schemas", str(schemas), "--tools", "150"), "files": filled.upstream("files")}
    )
    home.start()
    for name in ("up", "files"):
        home.must("servers", "start", name)
    yield home
    home.run("stop")


@pytest.fixture
def open_tool(shared_web: WebBrowsers) -> Callable[..., Page]:
    def opened(name: str, **options: Any) -> Page:
        page = shared_web.page(f"/tools/{name}", **options)
        expect(page.locator("#arguments")).to_have_value(re.compile(r"\{"))
        return page

    return opened


def call(page: Page, arguments: str | None = None) -> None:
    """Call the tool, with these arguments as JSON, and wait for its result."""
    if arguments is not None:
        page.fill("#arguments", arguments)
    page.locator("[data-run]").click()
    expect(page.locator("[data-outcome]")).to_be_visible()


def test_a_search_shows_scores_and_reasons_as_it_is_typed(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/tools")
    page.get_by_label("Search tools by what they do").press_sequentially("read a text file")
    # The answer to the last key: earlier ones would replace the row that is opened.
    expect(page).to_have_url(re.compile(r"q=read.a.text.file"))
    first = page.locator(".tool-row").first
    expect(first.get_by_role("link")).to_have_text(re.compile(r"files__read_text"))
    expect(first.get_by_role("img", name=re.compile(r"Score 0\.\d+"))).to_be_visible()
    first.get_by_text("Why it was found").click()
    expect(first.locator(".chip").first).to_be_visible()
    expect(first.locator("pre")).to_contain_text("files__read_text(")
    expect(page.locator("#tools-found")).to_contain_text(re.compile(r"An assistant reads \d+ tokens"))
    expect(page.get_by_role("list", name="What makes the score")).to_contain_text("same word")
    page.get_by_label("Search tools by what they do").fill("zzzqqq")
    # Without a vector of the query there is nothing near it.
    expect(page.locator("#tools-found")).to_contain_text(
        re.compile("Perhaps none of these fits|No tool matches")
    )


def test_a_long_list_comes_in_pages(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/tools?server=up")
    expect(page.locator(".tool-row")).to_have_count(100)
    page.locator(".tool-more").scroll_into_view_if_needed()
    expect(page.locator(".tool-row")).not_to_have_count(100)
    expect(page.locator(".tool-more")).to_have_count(0)
    names = page.locator(".tool-name").all_inner_texts()
    assert len(names) == len(set(names))
    assert names == sorted(names)


def test_a_form_says_what_is_called_and_the_result_is_a_tree(open_tool: Callable[[str], Page]) -> None:
    page = open_tool("up__find")
    page.fill("[name='/path']", "notes/a.txt")
    page.fill("[name='/count']", "3")
    tags = page.get_by_role("group", name="tags")
    for word in ("one", "two", "three"):
        tags.get_by_role("button", name="Add an item").click()
        page.keyboard.type(word)
    tags.get_by_role("button", name="Remove this item").nth(1).click()
    page.locator("[name='v:/target']").select_option(label="point")
    page.fill("[name='/target/~v1/x']", "4")
    expect(page.locator("#arguments")).to_have_value(re.compile(r'"x": 4'))
    call(page)
    wanted = {"version": 2, "path": "notes/a.txt", "count": 3, "tags": ["one", "three"], "target": {"x": 4}}
    assert json.loads(page.locator("#arguments").input_value()) == wanted
    expect(page.locator(TREE).first).to_contain_text('path: "notes/a.txt"')
    expect(page.locator("[data-history] li")).to_have_count(1)


def test_json_is_shown_in_the_form(open_tool: Callable[[str], Page]) -> None:
    page = open_tool("up__find")
    page.fill(
        "#arguments",
        '{"path": "x", "version": 2, "tags": ["a"], "range": {"from": "2026-01-02", "to": null}}',
    )
    expect(page.locator("[name='/path']")).to_have_value("x")
    expect(page.locator("[name='/tags/0']")).to_have_value("a")
    expect(page.locator("[name='/range/from']")).to_have_value("2026-01-02")
    page.fill("#arguments", '{"path": ')
    expect(page.locator("#arguments-error")).to_contain_text("This is not JSON: line 1")
    page.fill("#arguments", '{"path": 3}')
    expect(page.locator("#arguments-error")).to_contain_text("cannot show all of this")


def test_what_is_wrong_is_said_beside_its_field(open_tool: Callable[[str], Page], accessibility: Axe) -> None:
    page = open_tool("up__find")
    page.fill("[name='/count']", "99")
    page.get_by_role("button", name="Call", exact=True).click()
    expect(page.locator("[data-error='/path']")).to_have_text("This is required.")
    expect(page.locator("[data-error='/count']")).to_have_text("Enter 10 or less.")
    expect(page.locator("[name='/path']")).to_be_focused()
    expect(page.locator("[data-outcome]")).to_have_count(0)
    checked_state(page, accessibility, WIDTHS)


def test_a_call_is_canceled_at_the_server(open_tool: Callable[[str], Page], shared_home: WebHome) -> None:
    page = open_tool("up__hang")
    page.keyboard.press("Tab")
    page.locator("#arguments").press("Control+Enter")
    cancel = page.get_by_role("button", name="Cancel", exact=True)
    expect(cancel).to_be_focused()
    wait_until(lambda: shared_home.rpc("show_server", name="up")["in_flight"] == 1, "the call is running")
    cancel.click()
    expect(page.locator("[data-result]")).to_contain_text("canceled")
    wait_until(lambda: shared_home.rpc("show_server", name="up")["in_flight"] == 0, "the call has ended")


def test_a_destructive_tool_asks_first(open_tool: Callable[[str], Page], accessibility: Axe) -> None:
    page = open_tool("files__write_text")
    expect(page.locator("h1 + .row")).to_contain_text("destructive")
    page.fill("#arguments", '{"path": "a.txt", "content": "x"}')
    page.get_by_role("button", name="Call", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("may delete or overwrite")
    checked_state(page, accessibility, WIDTHS)
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.locator("[data-outcome]")).to_have_count(0)
    page.get_by_role("button", name="Call", exact=True).click()
    dialog.get_by_role("button", name="Continue").click()
    expect(page.locator("[data-outcome=ok]")).to_be_visible()


def test_results_of_all_kinds_are_shown(open_tool: Callable[[str], Page]) -> None:
    page = open_tool("up__image")
    call(page)
    expect(page.get_by_role("img", name="Image of the result")).to_have_count(1)
    expect(page.locator("[data-result]")).to_contain_text("memo://one")
    show(page, "/tools/up__fail")
    call(page, '{"text": "it broke"}')
    expect(page.get_by_role("alert")).to_contain_text("The tool reports an error.")
    expect(page.locator("[data-result]")).to_contain_text("it broke")
    show(page, "/tools/up__echo")
    call(page, json.dumps({"text": "# Title\n\n- <b>one</b>\n- two"}))
    expect(page.locator(TREE).first).to_contain_text("# Title")
    for name, words in (("surrogate", "!"), ("nan", "NaN"), ("hologram", "hologram"), ("refuse", "error")):
        show(page, f"/tools/up__{name}")
        call(page)
        expect(page.locator("[data-result]")).to_contain_text(words)


def test_a_text_is_formatted_as_markdown_and_is_harmless(open_tool: Callable[[str], Page]) -> None:
    page = open_tool("up__raw")
    text = "# Title\n\n- one\n- two <img src=x onerror=alert(1)>"
    result = {"content": [{"type": "text", "text": text}]}
    call(page, json.dumps({"json": json.dumps(result)}))
    expect(page.locator(".tool-text")).to_contain_text("# Title")
    page.get_by_role("button", name="Formatted").click()
    expect(page.locator("[data-formatted]").get_by_role("heading", name="Title")).to_be_visible()
    expect(page.locator("[data-formatted] [onerror]")).to_have_count(0)
    page.get_by_role("button", name="Formatted").click()
    expect(page.locator(".tool-text")).to_be_visible()


def test_a_form_is_shown_when_its_script_is_there(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/tools")
    held = Held(page, r"/tools\.js")
    page.goto(page.url.replace("/tools", "/tools/up__raw"))
    held.wait()
    settle(page)
    expect(page.locator("#arguments")).to_have_count(0)
    held.end()
    given = json.dumps({"json": json.dumps({"content": [{"type": "text", "text": "typed early"}]})})
    page.fill("#arguments", given)
    expect(page.get_by_role("textbox", name="json", exact=True)).to_have_value(re.compile("typed early"))
    expect(page.locator("#arguments")).to_have_value(given)
    page.get_by_role("button", name="Call", exact=True).click()
    expect(page.locator(".tool-text")).to_have_text("typed early")


def test_json_replaces_what_the_form_writes_while_all_of_it_is_selected(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/tools")
    held = Held(page, "/tools/-/arguments$", "POST")
    page.evaluate(
        "path => document.dispatchEvent(new CustomEvent('tabane:go', { detail: path }))", "/tools/up__find"
    )
    held.wait()
    page.locator("#arguments").select_text()
    held.end()
    expect(page.locator("#arguments")).to_have_value(re.compile("version"))
    page.keyboard.insert_text(json.dumps({"path": "x", "version": 2, "tags": ["a"]}))
    expect(page.locator("[name='/tags/0']")).to_have_value("a")


ROWS = [{"id": number, "name": f"lighthouse {number}", "lit": number % 2 == 0} for number in range(40)]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
RESULTS = {
    "a text of some lines": {"content": [{"type": "text", "text": "one\ntwo\nthree\nfour\nfive"}]},
    "a long text": {"content": [{"type": "text", "text": "a line of it\n" * 400 + "the end"}]},
    "a long word": {"content": [{"type": "text", "text": "x" * 3_000}]},
    "several blocks": {
        "content": [
            {"type": "text", "text": "first\n" * 30},
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
            {"type": "resource_link", "uri": "memo://" + "long/" * 80, "name": "a memo"},
            {"type": "text", "text": "last"},
        ]
    },
    "an error": {"isError": True, "content": [{"type": "text", "text": "it broke\n" * 20}]},
    "rows": {"content": [{"type": "text", "text": json.dumps(ROWS)}]},
    "structured": {"content": [], "structuredContent": {"deep": {"a": {"b": ["c" * 500]}}}},
    "nothing": {"content": []},
}
"""States of a result, by what they are."""


@pytest.mark.parametrize(("lang", "theme", "width"), [("ja", "dark", 390), ("en", "light", 1440)])
def test_no_result_is_cut(
    open_tool: Callable[..., Page], accessibility: Axe, lang: Language, theme: Theme, width: int
) -> None:
    page = open_tool("up__raw", lang=lang, theme=theme, width=width, height=900)
    for state, result in RESULTS.items():
        call(page, json.dumps({"json": json.dumps(result)}))
        expect(page.locator("[data-run]")).to_be_enabled()
        wrong = look(page)
        page.evaluate("scrollTo(0, 0)")  # what is half below the bar at the top is not too small
        wrong += accessibility.serious(page)
        assert wrong == [], "\n".join((state, *wrong))


def test_a_long_text_is_bounded_and_shown_whole_on_request(open_tool: Callable[[str], Page]) -> None:
    page = open_tool("up__raw")
    call(page, json.dumps({"json": json.dumps(RESULTS["a long text"])}))
    text = page.locator(".tool-text")
    height = "one => one.clientHeight"
    before = text.evaluate(height)
    assert before < 800
    page.get_by_role("button", name="Show all").click()
    assert text.evaluate(height) > 4 * before
    expect(page.get_by_role("button", name="Show all")).to_have_count(0)


def test_a_result_is_scrolled_into_view_and_focused(open_tool: Callable[[str], Page]) -> None:
    page = open_tool("up__find")
    page.set_viewport_size({"width": 1024, "height": 420})
    page.fill("#arguments", '{"path": "x", "version": 2}')
    page.get_by_role("button", name="Call", exact=True).click()
    heading = page.get_by_role("heading", name="Result", exact=True)
    expect(heading).to_be_focused()
    expect(heading).to_be_in_viewport()
    expect(page.locator(".tool-outcome")).to_contain_text(
        re.compile(r"success.*\d ms.*B.*about \d+ tokens", re.DOTALL)
    )


def test_a_call_shows_how_far_its_server_is(open_tool: Callable[[str], Page], accessibility: Axe) -> None:
    page = open_tool("up__progress")
    page.fill("#arguments", '{"steps": 60, "pause": 0.5}')
    page.get_by_role("button", name="Call", exact=True).click()
    expect(page.get_by_role("button", name="Calling…")).to_be_disabled()
    expect(page.locator("[data-progress]")).to_contain_text(re.compile(r"\d+ of 60 \(\d+%\)"))
    expect(page.get_by_role("progressbar")).to_be_visible()
    checked_state(page, accessibility)
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.locator("[data-progress]")).to_be_hidden()
    expect(page.get_by_role("button", name="Call", exact=True)).to_be_enabled()


def test_a_result_is_copied_saved_and_made_again(open_tool: Callable[[str], Page]) -> None:
    page = open_tool("up__raw")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    result = {"content": [{"type": "text", "text": "first"}, {"type": "text", "text": "second"}]}
    call(page, json.dumps({"json": json.dumps(result)}))
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.locator("[data-copy-result].copied")).to_have_count(1)
    assert page.evaluate("() => navigator.clipboard.readText()") == "first\nsecond"
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as JSON").click()
    assert saved.value.suggested_filename == "up__raw.json"
    assert json.loads(saved.value.path().read_text())["content"] == result["content"]
    page.get_by_role("button", name="Call again").click()
    expect(page.locator("[data-history] li")).to_have_count(2)


def test_rows_are_a_table(open_tool: Callable[[str], Page]) -> None:
    page = open_tool("up__raw")
    call(page, json.dumps({"json": json.dumps(RESULTS["rows"])}))
    table = page.get_by_role("region", name="Result as a table")
    expect(table.get_by_role("columnheader")).to_have_text(["id", "name", "lit"])
    expect(table.locator("tbody tr")).to_have_count(40)


def test_a_kind_limits_the_list_and_stays_in_the_address(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/tools")
    page.get_by_text("Destructive", exact=True).click()
    expect(page).to_have_url(re.compile("kind=destructive"))
    expect(page.locator(".tool-row").first).to_contain_text("destructive")
    expect(page.locator(".tool-row", has_text="files__read_text")).to_have_count(0)
    show(page, page.url)
    expect(page.get_by_role("radio", name="Destructive")).to_be_checked()


def test_a_long_result_is_read_in_parts(open_tool: Callable[[str], Page]) -> None:
    page = open_tool("up__huge")
    call(page, '{"bytes": 250000}')
    further, parts = page.get_by_role("button", name="Show the next part"), page.locator(".tool-text")
    for _ in range(4):
        if not further.count():
            break
        before = parts.count()
        further.last.click()
        expect(parts).not_to_have_count(before)
    expect(further).to_have_count(0)
    shown = sum(len(text) for text in parts.all_inner_texts())
    assert shown >= 250_000


def test_a_tool_is_pinned_hidden_and_offered_again(
    shared_web: WebBrowsers, open_tool: Callable[[str], Page], shared_home: WebHome
) -> None:
    page = open_tool("up__count")
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.get_by_role("button", name="Unpin")).to_be_visible()
    assert shared_home.rpc("get_tool", name="up__count")["pinned"]
    page.get_by_role("button", name="Hide").click()
    page.get_by_role("dialog").get_by_role("button", name="Hide").click()
    expect(page).to_have_url(re.compile("view=hidden"))
    row = page.locator(".tool-row", has_text="up__count")
    row.get_by_role("button", name="Offer again").click()
    expect(page.get_by_role("button", name="Unpin")).to_be_visible()
    page.get_by_role("button", name="Unpin").click()
    expect(page.get_by_role("button", name="Pin", exact=True)).to_be_visible()
    assert not shared_home.rpc("get_tool", name="up__count")["pinned"]


def test_a_call_is_repeated_from_the_history(open_tool: Callable[[str], Page]) -> None:
    page = open_tool("up__echo")
    call(page, '{"text": "first"}')
    call(page, '{"text": "second"}')
    expect(page.locator("[data-history] li")).to_have_count(2)
    page.locator("[data-history] li").nth(1).get_by_role("button").click()
    expect(page.locator("#arguments")).to_have_value(re.compile("first"))
    expect(page.locator("[name='/text']")).to_have_value("first")
    show(page, "/tools/up__echo")
    expect(page.locator("[data-history] li")).to_have_count(2)
    page.get_by_role("button", name="Clear history").click()
    expect(page.locator("[data-history]")).to_be_hidden()


def test_a_tree_is_used_with_the_keyboard(open_tool: Callable[[str], Page]) -> None:
    page = open_tool("up__echo")
    call(page, json.dumps({"text": "x", "deep": {"a": {"b": {"c": {"d": 1}}}}, "long": list(range(250))}))
    tree = page.locator(TREE).first
    expect(tree).not_to_contain_text("d: 1")
    tree.locator("summary").first.focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(tree).to_contain_text("d: 1")
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    expect(tree.get_by_role("button", name="+ 100 / 150")).to_be_visible()
    tree.get_by_role("button", name="+ 100 / 150").click()
    expect(tree.get_by_role("button", name="+ 50 / 50")).to_be_visible()


def test_a_command_makes_the_same_call(
    shared_web: WebBrowsers, open_tool: Callable[[str], Page], shared_home: WebHome
) -> None:
    page = open_tool("up__echo")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.fill("#arguments", json.dumps({"text": "it's 'quoted'"}))
    page.get_by_role("button", name="Copy command").click()
    expect(page.locator("[data-copy-command].copied")).to_have_count(1)
    copied = page.evaluate("() => navigator.clipboard.readText()")
    words = shlex.split(copied)
    assert words[:2] == ["tabane", "tools"]
    assert shared_home.must(*words[1:]).strip().endswith("""{"text": "it's 'quoted'"}""")


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_the_page_of_a_tool_is_accessible_and_fits(
    shared_web: WebBrowsers, accessibility: Axe, lang: str
) -> None:
    page = shared_web.page("/tools/up__find", lang=lang, theme="dark" if lang == "ja" else "light")
    page.fill("#arguments", json.dumps({"path": "x", "version": 2, "tags": ["a"], "target": {"x": 1}}))
    expect(page.locator("[name='/tags/0']")).to_have_value("a")
    page.locator("[data-run]").click()
    expect(page.locator("[data-outcome]")).to_be_visible()
    checked_state(page, accessibility, WIDTHS)
    show(page, "/tools?q=read+a+file")
    expect(page.locator(".score-bar").first).to_be_visible()
    page.locator(".tool-why summary").first.click()
    checked_state(page, accessibility, WIDTHS)
