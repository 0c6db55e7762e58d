"""Waiting for the content of a page, scrolling, and checks for bots, in a real browser."""

from __future__ import annotations

import pytest

from tabane.errors import ReadError
from tabane.reader.extraction.article import extract
from tabane.reader.rendering.page_visit import Glimpse, OpenRequests, glimpse, is_there
from tests.reader.rendering.conftest import Show
from tests.reader.site import Answer, Asked, Site, hang

LONG = "The ferry crosses the strait four times on each day of the week. " * 8


def later(what: str, milliseconds: int) -> str:
    return f"<script>setTimeout(() => {{ {what} }}, {milliseconds})</script>"


def test_a_page_that_is_silent_before_it_shows_anything_is_waited_for(site: Site, show: Show) -> None:
    site.put("/", f"<div id=app></div>{later(f'app.innerHTML = `<p>{LONG}</p>`', 2500)}")
    fetched = show(site.url("/"))
    assert "The ferry crosses" in fetched.body.decode()
    assert fetched.warnings == ()


@pytest.mark.parametrize("shell", ["<p>Loading…</p>", "読み込み中です", "<p aria-busy=true>Ferries</p>"])
def test_a_page_that_says_it_loads_is_waited_for(site: Site, show: Show, shell: str) -> None:
    site.put("/", f"<div id=app>{shell}</div>{later(f'app.innerHTML = `<p>{LONG}</p>`', 2500)}")
    assert "The ferry crosses" in show(site.url("/")).body.decode()


def test_little_text_gets_time_to_become_more(site: Site, show: Show) -> None:
    site.put("/", f"<h1>Ferries</h1><div id=app></div>{later(f'app.innerHTML = `<p>{LONG}</p>`', 1500)}")
    fetched = show(site.url("/"), limits={"patience": 6.0})
    assert "The ferry crosses" in fetched.body.decode()


def test_content_that_comes_in_parts_is_waited_for(site: Site, show: Show) -> None:
    parts = "let n = 0; const more = () => { app.innerHTML += `<p>Part ${n} " + LONG[:60] + "</p>`;"
    site.put(
        "/", f"<div id=app></div><script>{parts} if (++n < 12) setTimeout(more, 120) }}; more()</script>"
    )
    assert "Part 11" in show(site.url("/")).body.decode()


def test_a_page_that_is_never_silent_is_read_when_its_content_is_there(site: Site, show: Show) -> None:
    site.put("/tick", "1")
    ticking = "setInterval(() => { fetch('/tick'); clock.textContent = Date.now() }, 100)"
    site.put("/", f"<p>{LONG}</p><p id=clock></p><script>{ticking}</script>")
    fetched = show(site.url("/"), limits={"requests": 100_000, "settle": 60.0, "connections": 100_000})
    assert fetched.warnings == ()


def test_a_stream_that_stays_open_is_not_waited_for(site: Site, show: Show) -> None:
    site.wild("/hang", hang)
    site.put("/", "<p>First words.</p><script>new EventSource('/hang')</script>")
    fetched = show(site.url("/"), limits={"settle": 20.0})
    assert "First words." in fetched.body.decode()
    assert fetched.warnings == ()


def test_a_page_that_stays_empty_is_read_at_the_limit_and_said(site: Site, show: Show) -> None:
    site.put("/", "<div id=app></div><script>1</script>")
    fetched = show(site.url("/"), limits={"settle": 2.0})
    assert "was not complete after 2 s" in str(fetched.warnings[0])


FEED = """<style>body { margin: 0 } p { height: 500px }</style><div id=list></div><script>
let n = 0;
const add = () => { for (let k = 0; k < 10 && n < LAST; k++) list.innerHTML += `<p>Row ${++n} of it</p>`; };
const near = () => { if (scrollY + innerHeight > document.documentElement.scrollHeight - 600) add(); };
add(); addEventListener("scroll", near);
</script>"""


def test_a_page_is_scrolled_as_often_as_is_asked_and_no_more(site: Site, show: Show) -> None:
    site.put("/", FEED.replace("LAST", "100000"))
    unscrolled = show(site.url("/"))
    assert "Row 10 of" in unscrolled.body.decode()
    assert "Row 11 of" not in unscrolled.body.decode()
    assert unscrolled.warnings == ()
    fetched = show(site.url("/"), scrolls=6, limits={"scrolling": 25.0})
    text = fetched.body.decode()
    assert "Row 30 of" in text
    assert "Row 80 of" not in text


def test_scrolling_ends_with_the_list(site: Site, show: Show) -> None:
    site.put("/", FEED.replace("LAST", "25"))
    fetched = show(site.url("/"), scrolls=50, limits={"scrolling": 25.0})
    assert "Row 25 of" in fetched.body.decode()
    assert fetched.warnings == ()


def test_a_list_that_goes_on_is_said(site: Site, show: Show) -> None:
    # Each scroll loads, so that the last one did too.
    site.put("/", FEED.replace("LAST", "100000").replace("- 600", "- 6000"))
    fetched = show(site.url("/"), scrolls=2, limits={"scrolling": 25.0})
    assert "scrolls" in str(fetched.warnings[0])


def test_what_scrolls_within_a_page_is_scrolled(site: Site, show: Show) -> None:
    site.put(
        "/",
        """<style>html, body { margin: 0; height: 100%; overflow: hidden }
        #box { height: 100%; overflow: auto } p { height: 500px }</style><div id=box></div><script>
        let n = 0;
        const add = () => { for (let k = 0; k < 10; k++) box.innerHTML += `<p>Row ${++n} of it</p>`; };
        add(); box.onscroll = () => { if (n < 40) add(); };</script>""",
    )
    assert "Row 20 of it" in show(site.url("/"), scrolls=2, limits={"scrolling": 25.0}).body.decode()


def test_the_number_of_the_settings_is_taken_if_none_is_asked_for(site: Site, show: Show) -> None:
    site.put("/", FEED.replace("LAST", "100000"))
    assert "Row 20 of" in show(site.url("/"), limits={"scrolling": 25.0}, settings=4).body.decode()


def test_a_check_that_the_browser_passes_is_waited_for(site: Site, show: Show) -> None:
    def answer(asked: Asked) -> Answer:
        if "passed=1" in asked.headers.get("cookie", ""):
            return Answer(body=f"<p>{LONG}</p>".encode())
        passing = later("document.cookie = 'passed=1'; location.reload()", 1500)
        body = f"<title>Just a moment...</title><p>Verifying you are human.</p>{passing}"
        return Answer(403, body.encode(), headers={"cf-mitigated": "challenge"})

    site.ask("/", answer)
    fetched = show(site.url("/"))
    assert (fetched.status, "The ferry crosses" in fetched.body.decode()) == (200, True)


def test_a_check_that_the_browser_does_not_pass_is_said(site: Site, show: Show) -> None:
    site.put("/", "<p>Verifying you are human.", status=403, headers={"cf-mitigated": "challenge"})
    with pytest.raises(ReadError) as raised:
        show(site.url("/"), limits={"settle": 2.0})
    assert (raised.value.cause, raised.value.status) == ("wall", 403)


def test_a_consent_dialog_that_a_script_opens_is_removed(site: Site, show: Show) -> None:
    dialog = "<div id=CybotCookiebotDialog><p>This website uses cookies.</p><button>Allow all</button></div>"
    site.put(
        "/",
        f"<article><h1>Ferries</h1><p>{LONG}</p></article>"
        f"<script>document.body.insertAdjacentHTML('afterbegin', `{dialog}`)</script>",
    )
    fetched = show(site.url("/"))
    assert "uses cookies" in fetched.body.decode()
    page = extract(fetched.body, fetched.url, "utf-8")
    assert "The ferry crosses" in page.markdown
    assert "cookies" not in page.markdown


# -- progress, without a browser -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "now", "waited", "there"),
    [
        (Glimpse(500, 50), Glimpse(500, 50), 0.2, False),
        (Glimpse(500, 50), Glimpse(500, 50), 0.6, True),
        (Glimpse(500, 50), Glimpse(505, 50), 0.6, True),  # a clock
        (Glimpse(500, 50), Glimpse(900, 50), 9.0, False),
        (None, Glimpse(500, 50), 9.0, False),
        (Glimpse(20, 5), Glimpse(20, 5), 0.4, False),
        (Glimpse(20, 5), Glimpse(20, 5), 3.0, True),
        (Glimpse(20, 5, loading=True), Glimpse(20, 5, loading=True), 9.0, False),
        (Glimpse(0, 5), Glimpse(0, 5), 9.0, False),
    ],
)
def test_when_the_content_is_there(before: Glimpse | None, now: Glimpse, waited: float, there: bool) -> None:
    assert is_there(before, now, waited, patience=3.0) is there


@pytest.mark.parametrize(
    ("words", "loading"),
    [
        ("Loading...", True),
        ("Please wait", True),
        ("読み込み中です…", True),
        ("Loading docks of the port", False),
    ],
)
def test_words_of_pages_that_load(words: str, loading: bool) -> None:
    assert glimpse({"text": len(words), "nodes": 3, "words": words}).loading is loading


def test_requests_that_stay_open_for_long_do_not_count() -> None:
    open_ = OpenRequests()
    open_.begin("1", "Fetch", 0.0)
    open_.begin("2", "EventSource", 0.0)
    assert not open_.quiet(1.0, since=0.8)
    assert open_.quiet(10.0, since=9.8)
    open_.begin("3", "XHR", 10.0)
    assert not open_.quiet(11.0, since=10.8)
    open_.end("3")
    assert open_.quiet(11.0, since=10.8)


def test_requests_that_come_and_go_do_not_count() -> None:
    open_ = OpenRequests()
    open_.begin("1", "Fetch", 0.9)
    assert open_.quiet(1.0, since=0.8)
