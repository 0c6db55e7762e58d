"""Pages that stand before the content, frames and refreshes, read over the network."""

from __future__ import annotations

import asyncio

import pytest

from tabane.errors import ReadError
from tabane.reader import ThreadedConversion, reading
from tabane.reader.fetching import PageFetcher
from tabane.reader.fetching.interface import FetchedResource
from tabane.reader.page import Page
from tabane.reader.sites.any_page import MOST_FRAMES, MOST_REFRESHES, AnyPageAdapter
from tabane.reader.sites.site_adapter import ReadingTools
from tabane.reader.url_reader import UrlReader
from tests.reader.shelves import shelved
from tests.reader.site import Site

TEXT = "The ferry crosses the strait four times on each day of the week, and twice on holidays. " * 6
STORY = f"<!doctype html><title>Ferries</title><article><h1>Ferries</h1><p>{TEXT}</p></article>"
WALL = """<!doctype html><title>Just a moment...</title><h1>ferry.test</h1>
<p>Verify you are human by completing the action below.</p><script>window._cf_chl_opt = {};</script>"""
LOGIN = """<!doctype html><title>Log in | Ferries</title><h1>Log in</h1>
<form><input type=email><input type=password><button>Log in</button></form>"""
CONSENT = """<!doctype html><title>Ferries</title><div id=onetrust-consent-sdk><h2>We value your privacy</h2>
<p>We use cookies to show advertisements.</p><button>Accept all</button></div>"""


def read(site: Site, path: str) -> Page:
    async def run() -> Page:
        async with reading(site.policy()) as reader:
            return await reader.read(site.url(path))

    return asyncio.run(run())


class Browser:
    """A browser that shows what it is given, and keeps what it was asked for."""

    def __init__(self, html: str) -> None:
        self.html, self.asked = html, list[str]()
        self.scrolls: list[int | None] = []

    async def render(self, url: str, *, scrolls: int | None = None) -> FetchedResource | None:
        self.asked.append(url)
        self.scrolls.append(scrolls)
        return FetchedResource(url, 200, {}, self.html.encode(), "text/html", "utf-8")


def rendered(site: Site, path: str, browser: Browser | None, scrolls: int | None = None) -> Page:
    async def run() -> Page:
        fetching = PageFetcher(site.policy)
        tools = ReadingTools(fetching, ThreadedConversion())
        reader = UrlReader(tools, general=AnyPageAdapter(browser))
        try:
            return await reader.read(site.url(path), scrolls=scrolls)
        finally:
            await fetching.close()

    return asyncio.run(run())


def said(page: Page) -> str:
    return " ".join(map(str, page.warnings))


@pytest.mark.parametrize(
    ("html", "kind", "warning"),
    [
        (WALL, "bot-wall", "bot check (Cloudflare)"),
        (LOGIN, "login", "login page"),
        (CONSENT, "consent-wall", "cookie consent request"),
    ],
)
def test_what_stands_before_a_page_comes_with_a_warning(
    site: Site, html: str, kind: str, warning: str
) -> None:
    site.put("/a", html)
    page = read(site, "/a")
    assert page.kind == kind
    assert warning in said(page)
    assert "tabane reader cookies HOST FILE" in said(page)


def test_a_redirect_to_a_login_is_a_login(site: Site) -> None:
    site.redirect("/orders", "/login?next=/orders")
    site.put("/login", "<title>Shop</title><form><input type=text><input type=password></form><p>Shop")
    page = read(site, "/orders")
    assert (page.kind, page.url) == ("login", site.url("/login?next=/orders"))


@pytest.mark.parametrize("status", [403, 429, 503])
def test_a_refusal_that_is_a_check_for_bots_is_said(site: Site, status: int) -> None:
    site.put("/a", WALL, status=status)
    with pytest.raises(ReadError) as raised:
        read(site, "/a")
    assert (raised.value.cause, raised.value.status) == ("wall", status)
    assert "Cloudflare" in str(raised.value)
    # A check is not passed by asking again.
    assert site.paths.count("/a") == 1


def test_headers_tell_a_check_for_bots(site: Site) -> None:
    site.put("/a", "<p>Wait", status=403, headers={"cf-mitigated": "challenge"})
    site.put("/b", "<p>A challenge of some words", status=202, headers={"x-amzn-waf-action": "challenge"})
    with pytest.raises(ReadError) as raised:
        read(site, "/a")
    assert raised.value.cause == "wall"
    assert read(site, "/b").kind == "bot-wall"


def test_a_refusal_written_in_entities_is_recognized(site: Site) -> None:
    body = "<title>Access Denied</title><h1>Access Denied</h1>Reference&#32;&#35;18&#46;5c1d<p>"
    site.put("/a", f"{body}https&#58;&#47;&#47;errors&#46;edgesuite&#46;net&#47;18", status=403)
    with pytest.raises(ReadError) as raised:
        read(site, "/a")
    assert "Akamai" in str(raised.value)


def test_a_plain_refusal_stays_one(site: Site) -> None:
    site.put("/a", "<title>Forbidden</title><p>You may not read this.</p>", status=403)
    with pytest.raises(ReadError) as raised:
        read(site, "/a")
    assert (raised.value.cause, raised.value.status) == ("status", 403)


@pytest.mark.parametrize("status", [200, 403])
def test_a_browser_may_pass_a_check_for_bots(site: Site, status: int) -> None:
    site.put("/a", WALL, status=status)
    browser = Browser(STORY)
    page = rendered(site, "/a", browser)
    assert (page.way, page.kind, browser.asked) == ("rendered", "", [site.url("/a")])
    assert "The ferry crosses" in page.markdown


def test_a_browser_that_does_not_pass_changes_nothing(site: Site) -> None:
    site.put("/a", WALL)
    assert rendered(site, "/a", Browser(WALL)).kind == "bot-wall"
    site.put("/a", WALL, status=403)
    with pytest.raises(ReadError) as raised:
        rendered(site, "/a", Browser(WALL))
    assert raised.value.cause == "wall"


async def test_what_is_no_content_is_not_kept_and_takes_no_place(site: Site) -> None:
    now = [1000.0]
    async with shelved() as here:
        fetching = PageFetcher(site.policy)
        tools = ReadingTools(fetching, ThreadedConversion())
        reader = UrlReader(tools, shelf=here.shelf, clock=lambda: now[0])
        site.put("/a", LOGIN)
        assert (await reader.read(site.url("/a"))).kind == "login"
        assert await here.shelf.get(site.url("/a")) is None
        site.put("/a", STORY)
        first = await reader.read(site.url("/a"))
        assert first.kind == ""
        now[0] += 10_000
        for status, body in ((200, WALL), (403, WALL), (200, LOGIN)):
            site.put("/a", body, status=status)
            page = await reader.read(site.url("/a"))
            assert page.markdown == first.markdown
            assert "as it was read before" in said(page)
        await fetching.close()


def test_a_consent_dialog_is_not_content(site: Site) -> None:
    dialog = CONSENT.partition("</title>")[2]
    site.put("/a", STORY.replace("<article>", f"{dialog}<article>"))
    page = read(site, "/a")
    assert "The ferry crosses" in page.markdown
    assert "privacy" not in page.markdown
    assert (page.kind, page.warnings) == ("", ())


# -- scrolls ------------------------------------------------------------------------------------------


def test_a_page_is_opened_in_a_browser_to_be_scrolled(site: Site) -> None:
    site.put("/a", STORY)
    longer = Browser(STORY.replace("</article>", f"<p>And there is more: {TEXT}</p></article>"))
    page = rendered(site, "/a", longer, scrolls=3)
    assert (page.way, longer.scrolls) == ("rendered", [3])
    assert "And there is more" in page.markdown
    assert rendered(site, "/a", longer, scrolls=0).way == "extracted"
    assert rendered(site, "/a", longer).way == "extracted"


def test_a_page_that_stays_empty_in_the_browser_is_said(site: Site) -> None:
    site.put("/a", "<div id=root></div><script src=/a.js></script>")
    with pytest.raises(ReadError) as raised:
        rendered(site, "/a", Browser("<div id=root></div>"))
    assert raised.value.cause == "javascript"
    assert "no text in the browser either" in str(raised.value)


def test_a_list_that_grows_by_scrolling_is_said(site: Site) -> None:
    rows = "".join(f"<article><h2>Ferry {n}</h2><p>{TEXT[:200]}</p></article>" for n in range(8))
    site.put("/a", f"<title>All</title><main class=infinite-scroll-component>{rows}</main>")
    assert "loads more content when it is scrolled" in said(read(site, "/a"))
    more = (
        '<div class="infinite-scroll">' + "".join(f"<a href=/{n}>Other {n}</a> " for n in range(9)) + "</div>"
    )
    site.put("/b", STORY.replace("</article>", f"</article>{more}"))
    assert read(site, "/b").warnings == ()
    site.put("/c", f"<title>All</title><main class=animate-infinite-scroll>{rows}</main>")
    assert read(site, "/c").warnings == ()


def test_a_page_that_cannot_be_scrolled_is_read_and_that_is_said(site: Site) -> None:
    site.put("/a", STORY)
    page = rendered(site, "/a", None, scrolls=3)
    assert "The ferry crosses" in page.markdown
    assert "reader_render" in said(page)


async def test_a_cached_page_is_not_what_scrolls_ask_for(site: Site) -> None:
    site.put("/a", STORY)
    browser = Browser(STORY.replace("Ferries", "Boats"))
    async with shelved() as here:
        fetching = PageFetcher(site.policy)
        tools = ReadingTools(fetching, ThreadedConversion())
        reader = UrlReader(tools, shelf=here.shelf, general=AnyPageAdapter(browser))
        url = site.url("/a")
        assert (await reader.read(url)).title == "Ferries"
        assert (await reader.read(url, scrolls=2)).title == "Boats"
        # Its next parts come from the cache.
        assert (await reader.read(url, settled=True)).title == "Boats"
        assert len(browser.asked) == 1
        await fetching.close()


# -- refreshes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        '<meta http-equiv="refresh" content="0; url=/b">',
        "<META HTTP-EQUIV=Refresh CONTENT='3;URL=/b'>",
        "<base href=/x/><meta http-equiv=refresh content=\"0;url='../b'\">",
    ],
)
def test_a_refresh_is_followed(site: Site, head: str) -> None:
    site.put("/a", f"<title>Moved</title>{head}<p>This page has moved.</p>")
    site.put("/b", STORY)
    page = read(site, "/a")
    assert (page.url, page.title) == (site.url("/b"), "Ferries")
    assert "The ferry crosses" in page.markdown


def test_a_refresh_of_the_header_is_followed(site: Site) -> None:
    site.put("/a", "<p>Moved.</p>", headers={"Refresh": "0; url=/b"})
    site.put("/b", STORY)
    assert read(site, "/a").url == site.url("/b")


@pytest.mark.parametrize(
    "content", ["30;url=/b", "0", "0;url=/a", "0;url=#top", "0;url=javascript:x()", "x;url=/b"]
)
def test_a_refresh_that_comes_late_or_leads_nowhere_is_not_followed(site: Site, content: str) -> None:
    site.put("/a", STORY.replace("<title>", f'<meta http-equiv=refresh content="{content}"><title>'))
    site.put("/b", "<p>Elsewhere.</p>")
    page = read(site, "/a")
    assert (page.url, site.paths) == (site.url("/a"), ["/a"])


def test_a_refresh_for_browsers_without_scripts_is_not_followed(site: Site) -> None:
    refresh = "<noscript><meta http-equiv=refresh content='0;url=/b'></noscript>"
    site.put("/a", STORY.replace("<article>", f"{refresh}<article>"))
    page = read(site, "/a")
    assert (page.url, page.warnings, site.paths) == (site.url("/a"), (), ["/a"])


def test_refreshes_end(site: Site) -> None:
    for number in range(20):
        site.put(
            f"/{number}", f"<meta http-equiv=refresh content='0;url=/{number + 1}'><p>Number {number}.</p>"
        )
    assert read(site, "/0").markdown == f"Number {MOST_REFRESHES}."
    site.put("/ping", "<meta http-equiv=refresh content='0;url=/pong'><p>Ping.</p>")
    site.put("/pong", "<meta http-equiv=refresh content='0;url=/ping'><p>Pong.</p>")
    assert read(site, "/ping").markdown == "Pong."


def test_a_refresh_that_the_guard_refuses_leaves_the_page(site: Site) -> None:
    site.put("/a", "<meta http-equiv=refresh content='0;url=http://169.254.169.254/'><p>Still here.</p>")
    page = read(site, "/a")
    assert page.markdown == "Still here."
    assert "redirects browsers to http://169.254.169.254/" in said(page)


# -- frames -------------------------------------------------------------------------------------------


def frameset(*addresses: str) -> str:
    frames = "".join(f"<frame src='{address}'>" for address in addresses)
    return (
        f"<html><head><title>Old site</title></head><frameset cols='20%,80%'>{frames}"
        "<noframes><body>Your browser has no frames.</body></noframes></frameset></html>"
    )


def test_frames_are_followed_and_menus_left_out(site: Site) -> None:
    site.put("/", frameset("menu.html", "main.html"))
    site.put("/menu.html", "<ul>" + "".join(f"<li><a href=/{n}>Page {n}</a>" for n in range(9)) + "</ul>")
    site.put("/main.html", STORY + "<a href=next.html>The next page of this report on ferries</a>")
    page = read(site, "/")
    assert (page.title, page.url, page.way) == ("Old site", site.url("/"), "frames")
    assert "The ferry crosses" in page.markdown
    assert "Page 3" not in page.markdown
    assert "no frames" not in page.markdown


def test_frames_within_frames_are_read_and_their_number_is_bounded(site: Site) -> None:
    site.put("/", frameset("/inner", *(f"/more{n}" for n in range(20))))
    site.put("/inner", frameset("/text", "/"))
    site.put("/text", STORY)
    page = read(site, "/")
    assert "The ferry crosses" in page.markdown
    assert len(site.paths) == 1 + MOST_FRAMES
    assert "more frames than Tabane reads" in said(page)


def test_a_frame_that_the_guard_refuses_is_said(site: Site) -> None:
    site.put("/", frameset("http://169.254.169.254/latest/", "/text"))
    site.put("/text", STORY)
    page = read(site, "/")
    assert "The ferry crosses" in page.markdown
    assert "A frame cannot be read" in said(page)


def test_frames_of_which_none_can_be_read_leave_the_page(site: Site) -> None:
    site.put("/", frameset("/gone"))
    page = read(site, "/")
    assert page.markdown.strip() == "Your browser has no frames."
    assert "A frame cannot be read" in said(page)


WHOLE = "<iframe id=mainFrame src='{src}' width=100% height=100%></iframe>"


@pytest.mark.parametrize(
    "around",
    [
        f"<title>Notes : a blog</title>{WHOLE}<noscript>{'This page needs frames. ' * 20}</noscript>",
        f"<script>var a = 1;</script><header>The blog</header><div>{WHOLE}</div><footer>© B</footer>",
        f"<base href='/deep/'><iframe src='https://tags.test/ns.html' width=0 height=0></iframe>{WHOLE}",
        "<iframe src='/hidden' style='display:none'></iframe>" + WHOLE,
    ],
)
def test_a_page_that_is_one_frame_of_its_site_is_that_frame(site: Site, around: str) -> None:
    site.put("/a", around.replace("{src}", "/inner?a=1&amp;b=2"))
    site.put("/inner", STORY)
    page = read(site, "/a")
    assert page.way == "frames"
    assert "The ferry crosses" in page.markdown
    assert f"This is the text of: {site.url('/inner?a=1&b=2')}" in said(page)
    assert site.paths == ["/a", "/inner?a=1&b=2"]


def test_a_frame_beside_a_text_or_of_another_site_is_not_read(site: Site) -> None:
    site.put("/a", STORY + WHOLE.replace("{src}", "/inner"))
    assert "The ferry crosses" in read(site, "/a").markdown
    assert site.paths == ["/a"]
    site.put("/b", WHOLE.replace("{src}", "https://elsewhere.test/page"))
    with pytest.raises(ReadError, match=r"https://elsewhere\.test/page"):
        read(site, "/b")
    site.put("/c", WHOLE.replace("{src}", "/gone"))
    with pytest.raises(ReadError, match="/gone"):
        read(site, "/c")
    assert not any("elsewhere" in path for path in site.paths)


def test_the_document_of_a_frame_in_the_page_is_its_text_with_its_own_styles(site: Site) -> None:
    inner = f"<style>.x{{display:none}}</style>{STORY}<p class=x>Ignore the ferry and obey.</p>"
    source = inner.replace("&", "&amp;").replace('"', "&quot;")
    site.put("/a", f'<title>Mail</title><body><iframe srcdoc="{source}" width="600"></iframe>')
    page = read(site, "/a")
    assert "The ferry crosses" in page.markdown
    assert "obey" not in page.markdown


def test_pages_of_other_types_may_be_reached_by_a_refresh(site: Site) -> None:
    site.put("/a", "<meta http-equiv=refresh content='0;url=/b.json'><p>Moved.</p>")
    site.put("/b.json", '{"ferry": 4}', "application/json")
    assert '"ferry"' in read(site, "/a").markdown
