"""Questions of servers in a browser: forms, links, what a deceiving server asks, and what others answer."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.harness.bridge import INITIALIZE, BridgeClient
from tests.harness.patience import LONG, wait_until
from tests.harness.running_hub import child
from tests.harness.servers.questions import FORM
from tests.web.browser.axe import Axe
from tests.web.browser.hub import WIDTHS, Language, Theme, WebBrowsers, WebHome, show
from tests.web.browser.looks import checked_state

SCHEMA = {"type": "object", "properties": FORM, "required": ["name", "tools"]}
DECEIVING = "Ignore\u202e this\x1b[31m <b>bold</b>\n<script>alert(1)</script>"


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHome]:
    home = WebHome(tmp_path_factory.mktemp("home"), questions_to_page="true")
    home.write_servers({"asker": child(share="hub")})
    home.start()
    wait_until(lambda: "asker__ask" in home.run("tools", "list").out, "the server is known")
    yield home
    home.run("stop")


class Asked:
    """A call of a server that asks something, by an assistant that cannot show it."""

    def __init__(self, client: BridgeClient, method: str, params: dict[str, Any]) -> None:
        self._client = client
        arguments = {"method": method, "params": params, "seconds": 10 * LONG}
        line = {"name": "call_tool", "arguments": {"name": "asker__ask", "arguments": arguments}}
        client.send(json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": line}).encode())

    @property
    def answer(self) -> Any:
        """What the server was answered."""
        return json.loads(self._client.answer(7, LONG)["result"]["content"][0]["text"])


@contextmanager
def asking(home: WebHome, method: str, **params: Any) -> Iterator[Asked]:
    client = BridgeClient(home.environment)
    try:
        # A model is asked only of a client that has one. This client shows no question of any kind.
        able: dict[str, Any] = {"sampling": {}} if method.startswith("sampling") else {}
        client.call(0, "initialize", **{**INITIALIZE, "capabilities": able})
        client.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        yield Asked(client, method, params)
    finally:
        client.close()


def form(home: WebHome, message: str = "Fill this in", schema: Any = SCHEMA) -> Any:
    return asking(home, "elicitation/create", message=message, requestedSchema=schema)


def link(home: WebHome, url: str) -> Any:
    return asking(home, "elicitation/create", mode="url", message="Sign in", url=url, elicitationId="1")


def opened(page: Page) -> Page:
    """Open the only question of the list."""
    show(page, "/questions")
    expect(page.locator(".question")).to_have_count(1)
    page.locator(".question h2 a").click()
    expect(page.locator("#question")).to_be_visible()
    return page


def test_a_form_is_announced_filled_in_and_answered(shared_web: WebBrowsers, accessibility: Axe) -> None:
    page = shared_web.page("/")
    badge = page.locator('a[data-nav="/questions"]')
    with form(shared_web.home) as asked:
        expect(badge).to_contain_text("1 question waits")
        page.locator(".home-inbox").get_by_role("link", name="Answer", exact=True).click()
        expect(page.locator("#question")).to_be_visible()
        opened(page)
        fields = page.locator("#question-form")
        expect(page.locator(".asked")).to_have_text("Fill this in")
        expect(fields.get_by_label("age")).to_have_value("30")
        expect(fields.get_by_label("size")).to_have_value('"l"')
        expect(fields.get_by_role("checkbox", name="tue")).to_be_checked()
        fields.get_by_label("age").fill("151")
        page.get_by_role("button", name="Send the answer").click()
        expect(page.get_by_text("Enter 150 or less.")).to_be_visible()
        expect(page.get_by_text("This is required.")).to_be_visible()
        expect(page.locator("[aria-invalid=true]").first).to_be_focused()
        checked_state(page, accessibility, WIDTHS)
        fields.get_by_label("age").fill("31")
        fields.get_by_label("名前").fill("花\n子")
        fields.get_by_role("checkbox", name="mon").check()
        fields.get_by_role("checkbox", name="A tool").check()
        fields.get_by_label("news").select_option("false")
        page.get_by_role("button", name="Send the answer").click()
        expect(page.locator("#notices")).to_contain_text("asker has your answer.")
        expect(page.get_by_text("No question waits")).to_be_visible()
        assert asked.answer["result"] == {
            "action": "accept",
            "content": {
                "name": "花\n子", "mail": "hana@example.com", "age": 31, "share": 0.25, "news": False,
                "color": "green", "size": "l", "days": ["mon", "tue"], "tools": ["a"],
            },
        }  # fmt: skip
    expect(badge).not_to_contain_text("1")


@pytest.mark.parametrize(("button", "action"), [("Decline", "decline"), ("Do not answer", "cancel")])
def test_a_question_is_declined_or_dismissed(shared_web: WebBrowsers, button: str, action: str) -> None:
    with form(shared_web.home) as asked:
        page = opened(shared_web.page())
        page.get_by_role("button", name=button).click()
        expect(page.locator("#notices")).to_contain_text("asker was told")
        assert asked.answer["result"] == {"action": action}


def test_what_a_server_writes_is_shown_as_text_with_nothing_hidden(shared_web: WebBrowsers) -> None:
    with form(shared_web.home, DECEIVING, {"type": "object", "properties": {"<i>x": {"type": "string"}}}):
        page = opened(shared_web.page())
        expect(page.locator(".asked")).to_have_text(
            "Ignore⟨U+202E⟩ this⟨U+001B⟩[31m <b>bold</b>\n<script>alert(1)</script>", use_inner_text=True
        )
        expect(page.locator("main :is(script, b:not([data-typed]), i)")).to_have_count(0)
        page.get_by_role("button", name="Decline").click()
        expect(page.get_by_text("No question waits")).to_be_visible()


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<!doctype html><title>There</title><p id=opener></p>"
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("x-referrer", self.headers.get("referer", "none"))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/authorize?state=x&scope=a+b"
        server.shutdown()


def test_a_link_is_shown_whole_and_opened_only_by_a_click_without_access_to_the_page(
    shared_web: WebBrowsers,
) -> None:
    with site() as url, link(shared_web.home, url) as asked:
        shared_web.permit(re.escape(url), "favicon.ico")
        page = opened(shared_web.page())
        expect(page.locator("#question-link")).to_have_text(url)
        expect(page.locator("#question-link strong")).to_have_text("127.0.0.1")
        assert len(page.context.pages) == 1
        with page.context.expect_page() as there:
            page.get_by_role("link", name="Open 127.0.0.1").click()
        there.value.wait_for_load_state()
        assert there.value.url == url
        assert there.value.evaluate("[window.opener, document.referrer]") == [None, ""]
        expect(page.locator("#notices")).to_contain_text("asker has your answer.")
        assert asked.answer["result"] == {"action": "accept"}


def test_a_link_that_may_deceive_is_named_and_not_a_link(shared_web: WebBrowsers, accessibility: Axe) -> None:
    for url, warning in (
        ("https://example.com@evil.example/", "unusual"),
        ("javascript:alert(1)", "unusual"),
        ("https://аpple.example/", "xn--pple-43d.example"),
        ("http://evil.example/", "not encrypted"),
    ):
        with link(shared_web.home, url) as asked:
            page = opened(shared_web.page())
            expect(page.locator("#question-link")).to_have_text(url)
            expect(page.locator(".notice")).to_contain_text(warning)
            checked_state(page, accessibility)
            if warning == "unusual":
                expect(page.locator("[data-opens], main a[href^='javascript']")).to_have_count(0)
            page.get_by_role("button", name="Decline").click()
            assert asked.answer["result"] == {"action": "decline"}


def test_a_model_is_answered_for_by_a_text(shared_web: WebBrowsers) -> None:
    message = {"role": "user", "content": {"type": "text", "text": "Say something"}}
    with asking(shared_web.home, "sampling/createMessage", messages=[message], maxTokens=5) as asked:
        page = opened(shared_web.page())
        expect(page.locator(".asked")).to_contain_text("Say something")
        page.get_by_label("Text").fill("words")
        page.get_by_role("button", name="Send the answer").click()
        assert asked.answer["result"]["content"]["text"] == "words"


def test_a_question_that_is_over_says_so_on_the_open_page(shared_web: WebBrowsers) -> None:
    with form(shared_web.home) as asked:
        page = opened(shared_web.page())
        (row,) = shared_web.home.rpc("list_questions")["results"]
        shared_web.home.rpc("answer_question", id=row["id"], action="decline")
        expect(page.locator("#question-gone")).to_contain_text("answered already")
        expect(page.locator("#question-form")).to_be_hidden()
        checked_state(page)
        assert asked.answer["result"] == {"action": "decline"}
        page.reload()
        expect(page.locator("#question-gone")).to_contain_text("answered already")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("lang", ["en", "ja"])
def test_the_pages_are_accessible_and_fit_each_width(
    shared_web: WebBrowsers, accessibility: Axe, lang: Language, theme: Theme
) -> None:
    long = "https://" + "long." * 40 + "example/" + "path/" * 60
    for open_question in (
        form(shared_web.home, "長い質問 " * 60), link(shared_web.home, long),
        asking(shared_web.home, "sampling/createMessage", messages=[], maxTokens=5),
    ):  # fmt: skip
        with open_question:
            page = shared_web.page("/questions", lang=lang, theme=theme)
            for path in ("/questions", ""):
                if not path:
                    opened(page)
                checked_state(page, accessibility, WIDTHS)
            page.locator("#question-form .btn:not(.primary)").last.click()
            page.context.close()
