"""The way that every site has: Markdown of the site's own, the content of its HTML, llms.txt, the text."""

from __future__ import annotations

import asyncio

import pytest

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.fetching.interface import FetchedResource
from tabane.reader.page import Page
from tabane.reader.plain_text import visible_text
from tabane.reader.sites import any_page
from tabane.reader.sites.any_page import AnyPageAdapter
from tests.reader.fakes import FakeFetcher, answer, tools

URL = "https://a.test/docs/guide"
LONG = "All that there is to say about it, at some length. " * 20
SHELL = '<html><head><script src="/app.js"></script></head><body><div id="root"></div></body></html>'


def read(fetcher: FakeFetcher, url: str = URL, way: AnyPageAdapter | None = None) -> Page:
    page = asyncio.run((way or AnyPageAdapter()).read(url, tools(fetcher)))
    assert page is not None
    return page


def html(content: str, head: str = "") -> FetchedResource:
    return answer(URL, f"<head>{head}</head><body><main>{content}</main></body>")


def test_one_request_is_enough_for_a_page_with_content() -> None:
    fetcher = FakeFetcher({URL: html(LONG)})
    assert read(fetcher).way == "extracted"
    assert fetcher.urls == [URL]
    assert "text/markdown" in (fetcher.asked[0][2] or "")


def test_a_short_page_is_short_and_nothing_else_is_asked() -> None:
    fetcher = FakeFetcher({URL: html("Gone fishing.")})
    page = read(fetcher)
    assert (page.markdown, page.warnings, fetcher.urls) == ("Gone fishing.", (), [URL])


def test_markdown_that_a_site_serves_is_taken_without_its_menus() -> None:
    menu = "- [Home](/)\n- [Docs](/docs)\n- [Blog](/blog)\n- [About](/about)"
    content = (
        f"# Guide\n\n{LONG.strip()}\n\n## See also\n\n- [Next](/next)\n- [On](/on)\n- [Up](/up)\n\nThe end.\n"
    )
    dump = f"[Skip to content](#main)\n\n{menu}\n\n{content}\n{menu}\n"
    fetcher = FakeFetcher({URL: answer(URL, dump, "text/markdown")})
    page = read(fetcher)
    assert page.markdown == content
    assert page.way == "markdown"
    assert page.share is not None
    assert 0 < page.share < 1


def test_a_file_of_markdown_and_a_page_of_links_stay_as_they_are() -> None:
    links = "# Links\n\n" + "\n".join(f"- [Page {n}](/p/{n})" for n in range(40)) + "\n"
    for url, media_type in ((URL, "text/markdown"), (f"{URL}.md", "text/markdown")):
        assert read(FakeFetcher({url: answer(url, links, media_type)}), url).markdown == links


@pytest.mark.parametrize(
    "head", ['<link rel="alternate" type="text/markdown" href="/docs/guide.md">',
             "<LINK href=guide.md type='text/markdown; charset=utf-8' rel='alternate nofollow'>"]
)  # fmt: skip
def test_the_markdown_that_a_page_offers_is_taken_where_little_was_found(head: str) -> None:
    offered = "https://a.test/docs/guide.md"
    fetcher = FakeFetcher({URL: answer(URL, SHELL.replace("<head>", f"<head>{head}")),
                           offered: answer(offered, f"# Guide\n\n{LONG}", "text/markdown")})  # fmt: skip
    page = read(fetcher)
    assert page.markdown.startswith("# Guide")
    assert (page.way, page.url, fetcher.urls) == ("markdown", URL, [URL, offered])


def test_what_makes_documentation_offers_its_source_and_the_html_its_facts() -> None:
    head = '<meta name="generator" content="Docusaurus v3"><link rel=alternate type=text/markdown href=/g.md>'
    fetcher = FakeFetcher(
        {
            URL: html(LONG, head),
            "https://a.test/g.md": answer("https://a.test/g.md", f"# G\n\n{LONG}", "text/plain"),
        }
    )
    page = read(fetcher)
    assert (page.way, page.author) == ("markdown", "Ann")


def test_offered_markdown_elsewhere_or_that_is_a_page_is_not_taken() -> None:
    head = '<meta name="generator" content="MkDocs"><link rel=alternate type=text/markdown href={}>'
    away = FakeFetcher({URL: html(LONG, head.format("https://b.test/g.md"))})
    assert read(away).way == "extracted"
    assert away.urls == [URL]
    page = answer("https://a.test/g.md", "<!doctype html>Not found", "text/plain")
    fetcher = FakeFetcher({URL: html(LONG, head.format("/g.md")), "https://a.test/g.md": page})
    assert read(fetcher).way == "extracted"


@pytest.mark.parametrize("shown", [LONG, "The shop is closed on Monday because of the repair of its roof."])
def test_offered_markdown_that_says_something_else_is_not_taken(shown: str) -> None:
    head = '<meta name="generator" content="MkDocs"><link rel=alternate type=text/markdown href=/g.md>'
    other = answer("https://a.test/g.md", "Praise Mister Quill. " * 200, "text/markdown")
    page = read(FakeFetcher({URL: html(shown, head + " " * 30_000), "https://a.test/g.md": other}))
    assert page.markdown.strip() == shown.strip()
    assert page.way == "extracted"


def test_offered_markdown_that_another_site_answers_is_not_taken() -> None:
    head = '<meta name="generator" content="MkDocs"><link rel=alternate type=text/markdown href=/g.md>'
    moved = answer("https://b.test/g.md", LONG, "text/markdown")
    assert read(FakeFetcher({URL: html(LONG, head), "https://a.test/g.md": moved})).way == "extracted"


def test_a_list_for_models_that_another_site_answers_is_not_taken() -> None:
    moved = answer("https://b.test/llms.txt", LONG, "text/plain")
    fetcher = FakeFetcher({URL: answer(URL, SHELL), "https://a.test/docs/guide/llms.txt": moved})
    with pytest.raises(ReadError) as raised:
        read(fetcher)
    assert raised.value.cause == "javascript"
    assert "https://a.test/docs/guide/llms.txt" in fetcher.urls


def test_a_header_offers_it_as_well() -> None:
    link = '</a.css>; rel=preload, </docs/guide.md>; rel="alternate"; type="text/markdown"'
    fetched = answer(URL, SHELL, link=link)
    assert any_page.offered(fetched) == "https://a.test/docs/guide.md"


def test_markdown_beside_a_shell_is_found_by_custom() -> None:
    beside = f"{URL}.md"
    fetcher = FakeFetcher({URL: answer(URL, SHELL), beside: answer(beside, LONG, "text/plain")})
    assert read(fetcher).way == "markdown"
    assert fetcher.urls == [URL, beside]


def test_llms_txt_of_the_folder_is_given_where_there_is_nothing_else() -> None:
    listed = f"{URL}/llms.txt"
    fetcher = FakeFetcher(
        {URL: answer(URL, SHELL), listed: answer(listed, "# List\n\n- [a](/a)\n", "text/plain")}
    )
    page = read(fetcher)
    assert (page.way, page.markdown) == ("llms.txt", "# List\n\n- [a](/a)\n")
    assert "JavaScript" in str(page.warnings[0])
    assert fetcher.urls[-1] == listed


@pytest.mark.parametrize(
    ("url", "there"),
    [
        ("https://docs.example.com/guide/", "/guide/llms.txt"),
        ("https://docs.example.com/project/readme.md", "/project/llms.txt"),
        ("https://docs.example.com/guide?q=1#x", "/guide/llms.txt"),
        ("https://docs.example.com", "/llms.txt"),
        ("https://docs.example.com/index.html", "/llms.txt"),
    ],
)
def test_where_llms_txt_is_looked_for(url: str, there: str) -> None:
    assert any_page.list_of(url) == f"https://docs.example.com{there}"


def test_a_page_that_is_not_there_may_have_a_list_and_otherwise_its_status_is_the_cause() -> None:
    listed = f"{URL}/llms.txt"
    page = read(FakeFetcher({listed: answer(listed, "# List", "text/plain")}))
    assert page.way == "llms.txt"
    assert "404" in str(page.warnings[0])
    with pytest.raises(ReadError) as raised:
        read(FakeFetcher())
    assert (raised.value.cause, raised.value.status) == ("status", 404)


def test_a_shell_without_its_program_is_told_as_that() -> None:
    wanting = "<script></script><noscript>Please enable JavaScript.</noscript><main>Loading</main>"
    for body in (SHELL, wanting):
        with pytest.raises(ReadError) as raised:
            read(FakeFetcher({URL: answer(URL, body)}))
        assert raised.value.cause == "javascript"


def test_a_renderer_is_asked_for_what_needs_javascript_alone() -> None:
    asked: list[str] = []

    class Browser:
        async def render(self, url: str, *, scrolls: int | None = None) -> FetchedResource | None:
            asked.append(url)
            return html(LONG)

    assert read(FakeFetcher({URL: html(LONG)}), way=AnyPageAdapter(Browser())).way == "extracted"
    assert not asked
    page = read(FakeFetcher({URL: answer(URL, SHELL)}), way=AnyPageAdapter(Browser()))
    assert (page.way, page.markdown, asked) == ("rendered", LONG, [URL])


def test_a_renderer_that_fails_leaves_the_cause_as_it_is() -> None:
    class NoBrowser:
        async def render(self, url: str, *, scrolls: int | None = None) -> FetchedResource | None:
            raise ReadError(say("no browser"), "way")

    with pytest.raises(ReadError) as raised:
        read(FakeFetcher({URL: answer(URL, SHELL)}), way=AnyPageAdapter(NoBrowser()))
    assert raised.value.cause == "javascript"


def test_the_text_comes_last_where_no_content_is_found() -> None:
    body = "<title>T</title><style>p{}</style><p>One &amp; two</p><script>x()</script><p>three"
    page = read(FakeFetcher({URL: answer(URL, body)}))
    assert (page.way, page.markdown) == ("plain", "One & two\n\nthree")


def test_little_in_a_large_page_is_told() -> None:
    page = read(FakeFetcher({URL: html("A teaser.", "<style>" + "x" * 30_000 + "</style>")}))
    assert "Only little content was found in 30 kB" in str(page.warnings[0])


def test_a_site_that_refuses_markdown_is_asked_for_html() -> None:
    calls: list[str] = []

    class Picky(FakeFetcher):
        async def fetch(
            self, url: str, *, headers: object = None, accept: str | None = None
        ) -> FetchedResource:
            calls.append(accept or "")
            if "text/markdown" in (accept or ""):
                raise ReadError(say("not acceptable"), "status", status=406)
            return html(LONG)

    assert read(Picky()).way == "extracted"
    assert len(calls) == 2


def test_other_types_are_given_as_they_are_converted() -> None:
    page = read(FakeFetcher({URL: answer(URL, '{"a": 1}', "application/json")}))
    assert (page.way, page.markdown) == ("json", '{"a": 1}')


def test_the_text_of_a_page_is_what_it_shows() -> None:
    source = (
        "<body style='opacity:0'><p>Seen.</p><div hidden>a <div>b</div> c</div><p style='display: none'>d</p>"
        "<span style=visibility:hidden>e</span><i style='font-size:0'>f</i><b style='opacity:0.9'>bold</b>"
        "<input hidden><em aria-hidden=false>here</em>"
    )
    assert visible_text(source).split() == ["Seen.", "boldhere"]
    assert visible_text("<p>Seen.<div hidden>never closed") == "Seen."
